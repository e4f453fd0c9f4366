use super::*;
use crate::met::IdleReason;
use crate::parse;
use crate::{Loader, MemoryLoader, Options};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const MAIN: &str = "/etc/nginx/nginx.conf";

fn options() -> Options {
    Options::new(MAIN, "/usr/share/nginx")
}

fn read(text: &str) -> Survey {
    survey(&options(), &mut MemoryLoader::new().with(MAIN, text))
}

/// Kind, directive and line of each refusal.
fn refused(survey: &Survey) -> Vec<(RefusalKind, &str, u32)> {
    let line = |refusal: &Refusal| refusal.diagnostic.place.as_ref().map_or(0, |it| it.line);
    let refusals = survey.refusals.iter();
    refusals
        .map(|refusal| (refusal.kind, refusal.name.as_str(), line(refusal)))
        .collect()
}

#[test]
fn all_faults_are_told_each_with_its_line_and_the_rest_is_read() {
    use RefusalKind::{Misplaced, Unknown, Unsupported, Wrong};
    let survey = read(
        "events {}
         http {
             auth_pam 'Zone';
             sendfile maybe;
             server {
                 listen 80;
                 rot /data;
                 location ~ [ { return 200; }
                 location / { perl x; proxy_pas http://a; root; }
                 image_filter off;
             }
         }
         worker_processes 4;",
    );
    assert_eq!(
        refused(&survey),
        [
            (Unsupported, "auth_pam", 3),
            (Wrong, "sendfile", 4),
            (Unknown, "rot", 7),
            (Wrong, "location", 8),
            (Unsupported, "perl", 9),
            (Unknown, "proxy_pas", 9),
            (Wrong, "root", 9),
            (Misplaced, "image_filter", 10),
        ]
    );
    assert!(survey.refusals[3].skipped_block);
    let config = survey.config.expect("what is left is a configuration");
    let servers = config.http.expect("there is one").servers;
    assert_eq!(servers[0].locations.prefix.len(), 1);
    assert!(survey.end.is_none());
}

#[test]
fn a_wrong_line_of_a_list_does_not_end_the_reading() {
    let survey = read(
        "events {}
         http {
             map $uri $x { one 1; a b c; ~( 1; default 2; default 3; }
             geo $y {
                 10.0.0.0/40 1;
                 10.0.0.0/8 in;
             }
             server { listen 80; rot /; return 200 $x$y; }
         }",
    );
    assert_eq!(
        refused(&survey),
        [
            (RefusalKind::Wrong, "map", 3),
            (RefusalKind::Wrong, "map", 3),
            (RefusalKind::Wrong, "map", 3),
            (RefusalKind::Wrong, "geo", 5),
            (RefusalKind::Unknown, "rot", 8),
        ]
    );
    assert!(survey.end.is_none());
}

#[test]
fn a_pattern_that_cannot_be_looked_for_is_an_include_that_cannot_be_read() {
    struct Closed(MemoryLoader);
    impl Loader for Closed {
        fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
            self.0.read(path)
        }
        fn glob(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
            Err(io::Error::from_raw_os_error(13))
        }
        fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
            self.0.resolve(host)
        }
    }
    let text = "events {} http { include closed/*.conf; rot x; }";
    let survey = survey(
        &options(),
        &mut Closed(MemoryLoader::new().with(MAIN, text)),
    );
    let unread: Vec<&str> = survey.unread.iter().map(|it| &*it.message).collect();
    assert_eq!(
        unread,
        ["glob() \"/etc/nginx/closed/*.conf\" failed (13: Permission denied)"]
    );
    assert_eq!(refused(&survey), [(RefusalKind::Unknown, "rot", 1)]);
    assert!(survey.end.is_none());
}

#[test]
fn what_parse_refuses_is_the_first_refusal_and_what_it_takes_has_none() {
    for text in [
        "events {} http { rot x; bad y; }",
        "events {} http { server { listen 443 ssl; } server { listen 1 ssl; } }",
        "events {} http { log_format x $nothing; log_format y $void; }",
        "http {}",
        "events { worker_connections 1; } http { server {} }",
        "events {}",
        "events {} http { server { location / { root /a; } } }",
    ] {
        let strict = parse(&options(), &mut MemoryLoader::new().with(MAIN, text));
        let survey = read(text);
        let first = survey.refusals.first().map(|refusal| &refusal.diagnostic);
        let error = strict.as_ref().err().map(|failure| &*failure.error);
        assert_eq!(error, first, "{text}");
        assert!(survey.end.is_none());
    }
}

#[test]
fn every_unknown_variable_is_told_but_not_those_of_what_was_refused() {
    let survey = read(
        "events {} http {
            ip2location_database /a.bin { $country source=$remote_addr country; }
            js_set $computed x.y;
            server {
                set_by_lua_block $lua { return \"}\" -- }
                }
                return 200 $country$computed$lua$one$two;
            }
        }",
    );
    let messages: Vec<&str> = survey
        .refusals
        .iter()
        .map(|refusal| refusal.diagnostic.message.as_str())
        .filter(|message| message.starts_with("unknown"))
        .collect();
    assert_eq!(
        messages,
        ["unknown \"one\" variable", "unknown \"two\" variable"]
    );
    assert_eq!(survey.refusals.len(), 5);
}

#[test]
fn lua_is_passed_over_with_its_braces() {
    for lua in [
        "a = { 1, 2 }",
        "s = \"}\" t = '}' u = '\\'}'",
        "-- } not the end\n",
        "--[[ } \n } ]] x = [==[ } ]] } ]==] y = a[b[1]]",
        "x = a - -1",
    ] {
        let text =
            format!("events {{}} http {{ server {{ content_by_lua_block {{ {lua} }} rot x; }} }}");
        let survey = read(&text);
        assert!(survey.end.is_none(), "{lua}: {:?}", survey.end);
        let names: Vec<&str> = refused(&survey).iter().map(|refused| refused.1).collect();
        assert_eq!(names, ["content_by_lua_block", "rot"], "{lua}");
    }
    let survey = read("events {} http { server { content_by_lua_block { x = '}'");
    assert!(survey.end.is_some(), "the text ends inside of the block");
}

#[test]
fn includes_that_cannot_be_read_are_told_and_the_rest_is_read() {
    let mut files = MemoryLoader::new()
        .with(
            MAIN,
            "include missing.conf; events {} http { include a.conf; include b.conf; }",
        )
        .with("/etc/nginx/a.conf", "include a.conf; include nginx.conf;")
        .with("/etc/nginx/b.conf", "rot x;");
    let survey = survey(&options(), &mut files);
    let unread: Vec<&str> = survey
        .unread
        .iter()
        .map(|unread| unread.message.as_str())
        .collect();
    assert_eq!(
        unread,
        [
            "open() \"/etc/nginx/missing.conf\" failed (2: No such file or directory)",
            "\"/etc/nginx/a.conf\" includes itself",
            "\"/etc/nginx/nginx.conf\" includes itself",
        ]
    );
    assert_eq!(refused(&survey).len(), 1);
}

#[test]
fn what_is_no_configuration_ends_the_reading() {
    let survey = read("events {} http { rot x; } }");
    assert_eq!(refused(&survey).len(), 1);
    let end = survey.end.expect("a brace too many");
    assert_eq!(end.message, "unexpected \"}\"");
    let many = read(&format!("events {{}} {}", "x;".repeat(5000)));
    assert_eq!(many.refusals.len(), Notes::MOST);
    assert!(many.end.is_some());
}

#[test]
fn directives_are_counted_by_what_they_do() {
    let survey = read(
        "pcre_jit on; lock_file x; events { }
         http { read_ahead 1m; directio off; http2_max_requests 5; server { listen 80; } server { read_ahead 0; listen 81; } }",
    );
    let met = survey.met;
    let idle: Vec<_> = met
        .idle
        .iter()
        .map(|idle| (idle.name, idle.reason, idle.count()))
        .collect();
    assert_eq!(
        idle,
        [
            ("pcre_jit", IdleReason::Meaningless, 1),
            ("lock_file", IdleReason::Meaningless, 1),
            ("read_ahead", IdleReason::Later, 2),
            ("http2_max_requests", IdleReason::Obsolete, 1),
        ]
    );
    // events, http, two servers, two listen, and what is off already.
    assert_eq!(met.working, 7);
    assert_eq!(met.idle_count(), 5);
    assert!(met.has("listen") && !met.has("root"));
    assert_eq!(met.idle[2].places[1].line, 2);
}
