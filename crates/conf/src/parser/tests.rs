use super::*;
use crate::input::MemoryLoader;

fn options() -> Options {
    Options::new("/etc/nginx/nginx.conf", "/usr/share/nginx")
}

fn read(files: &[(&str, &str)]) -> Result<Config, String> {
    let mut loader = MemoryLoader::new();
    for (path, text) in files {
        loader = loader.with(*path, *text);
    }
    parse(&options(), &mut loader).map_err(|failure| failure.to_string())
}

const MAIN_FILE: &str = "/etc/nginx/nginx.conf";

#[test]
fn errors_show_the_line_a_caret_and_the_nearest_name() {
    let text = "events {}\nhttp {\n    server {\n\troot /x; rot /data;\n    }\n}\n";
    assert_eq!(
        read(&[(MAIN_FILE, text)]).expect_err("rot is no directive"),
        "sealane: [emerg] unknown directive \"rot\" in /etc/nginx/nginx.conf:4\n\
         \x20    root /x; rot /data;\n\
         \x20             ^\n\
         did you mean \"root\"?"
    );
}

#[test]
fn the_caret_points_at_the_word_that_is_wrong() {
    let text = "events {}\nhttp {\n    error_page 404\n        999 /x;\n}\n";
    assert_eq!(
        read(&[(MAIN_FILE, text)]).expect_err("999 is no status"),
        "sealane: [emerg] value \"999\" must be between 300 and 599 in /etc/nginx/nginx.conf:4\n\
         \x20           999 /x;\n\
         \x20           ^"
    );
}

#[test]
fn errors_about_earlier_lines_show_those() {
    let text = "events {}\nhttp {\n  server {\n    location /a {}\n    location /a {}\n  }\n}\n";
    assert_eq!(
        read(&[(MAIN_FILE, text)]).expect_err("/a is there twice"),
        "sealane: [emerg] duplicate location \"/a\" in /etc/nginx/nginx.conf:5\n\
         \x20       location /a {}\n\
         \x20       ^"
    );
}

#[test]
fn an_unknown_variable_says_where_it_is_used() {
    let text = "events {}\nhttp {\n  add_header X $hots;\n}\n";
    assert_eq!(
        read(&[(MAIN_FILE, text)]).expect_err("there is no such variable"),
        "sealane: [emerg] unknown \"hots\" variable\n\
         it is used in /etc/nginx/nginx.conf:3; did you mean \"$host\"?"
    );
}

#[test]
fn includes_are_relative_sorted_and_may_stand_in_any_block() {
    let config = read(&[
        (MAIN_FILE, "include main.inc; events { include ev.inc; }
                     http { include conf.d/*.conf; include none.d/*.conf; types { include types.inc; } }"),
        ("/etc/nginx/main.inc", "worker_processes 3;"),
        ("/etc/nginx/ev.inc", "worker_connections 99;"),
        ("/etc/nginx/types.inc", "a/b c;"),
        ("/etc/nginx/conf.d/b.conf", "server { server_name b; include sub/x; }"),
        ("/etc/nginx/conf.d/a.conf", "server { server_name a; }"),
        ("/etc/nginx/sub/x", "root /x;"),
    ])
    .expect("reads");
    assert_eq!(config.events.worker_connections, 99);
    let http = config.http.expect("http is there");
    let names: Vec<_> = http
        .servers
        .iter()
        .map(|server| server.primary_name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert!(http.servers[0].conf.types.by_extension.contains_key("c"));
    let sources: Vec<_> = config
        .sources
        .iter()
        .map(|source| source.path.display().to_string())
        .collect();
    assert_eq!(
        sources,
        [
            MAIN_FILE,
            "/etc/nginx/main.inc",
            "/etc/nginx/ev.inc",
            "/etc/nginx/conf.d/a.conf",
            "/etc/nginx/conf.d/b.conf",
            "/etc/nginx/sub/x",
            "/etc/nginx/types.inc",
        ]
    );
}

#[test]
fn errors_in_included_files_name_those() {
    let error = read(&[
        (MAIN_FILE, "events {}\ninclude x.inc;"),
        ("/etc/nginx/x.inc", "\nfoo;"),
    ]);
    assert!(
        error
            .expect_err("foo is unknown")
            .contains("in /etc/nginx/x.inc:2\n")
    );
    let error = read(&[
        (MAIN_FILE, "events { include x.inc;"),
        ("/etc/nginx/x.inc", "}"),
    ]);
    let error = error.expect_err("a file cannot close a block of another");
    assert!(
        error.contains("unexpected \"}\" in /etc/nginx/x.inc:1"),
        "{error}"
    );
}

#[test]
fn includes_that_lead_back_are_refused() {
    let error = read(&[
        (MAIN_FILE, "include a;"),
        ("/etc/nginx/a", "include nginx.conf;"),
    ]);
    let error = error.expect_err("a cycle");
    assert!(
        error.starts_with(
            "sealane: [emerg] \"/etc/nginx/nginx.conf\" includes itself in /etc/nginx/a:1"
        ),
        "{error}"
    );
}

#[test]
fn limits_hold() {
    let mut loader = MemoryLoader::new();
    loader = loader.with(MAIN_FILE, "include 0;");
    for index in 0..100 {
        loader = loader.with(
            format!("/etc/nginx/{index}"),
            format!("include {};", index + 1),
        );
    }
    let error = parse(&options(), &mut loader)
        .expect_err("too deep")
        .to_string();
    assert!(error.contains("too deep nesting of includes"), "{error}");

    let deep = format!(
        "events {{}} http {{ server {{ {}",
        "location / { ".repeat(100)
    );
    let error = read(&[(MAIN_FILE, &deep)]).expect_err("too deep");
    assert!(error.contains("too deep nesting of blocks"), "{error}");

    let many = Limits {
        files: 3,
        ..Limits::DEFAULT
    };
    let mut loader = MemoryLoader::new()
        .with(MAIN_FILE, "include a; include a; include a;")
        .with("/etc/nginx/a", "");
    let error = parse_within(&options(), &mut loader, &many)
        .expect_err("too many")
        .to_string();
    assert!(error.contains("more than 3 files are included"), "{error}");
}

#[test]
fn globals_come_first_and_are_named_command_line() {
    let with = |globals: &str, text: &str| {
        let options = Options {
            globals: Some(globals.to_owned()),
            ..options()
        };
        let mut loader = MemoryLoader::new().with(MAIN_FILE, text);
        parse(&options, &mut loader).map_err(|failure| failure.error.headline())
    };
    let config = with("daemon off; worker_processes 2;", "events {}").expect("reads");
    assert!(!config.main.daemon);
    assert_eq!(
        with("daemon off;", "daemon on; events {}").err().as_deref(),
        Some("\"daemon\" directive is duplicate in /etc/nginx/nginx.conf:1")
    );
    assert_eq!(
        with("foo;", "events {}").err().as_deref(),
        Some("unknown directive \"foo\" in command line")
    );
    assert_eq!(
        with("daemon off", "events {}").err().as_deref(),
        Some("unexpected end of parameter, expecting \";\" in command line")
    );
    assert_eq!(
        with("events {}", "").err().as_deref(),
        Some("block directives are not supported in -g option in command line")
    );
}

#[test]
fn a_missing_file_is_named_with_the_system_s_words() {
    assert_eq!(
        read(&[]).expect_err("there is no file"),
        "sealane: [emerg] open() \"/etc/nginx/nginx.conf\" failed (2: No such file or directory)"
    );
}

#[test]
fn named_captures_are_numbered_across_the_configuration() {
    let config = read(&[(
        MAIN_FILE,
        "events {} http { server { server_name ~^(?<first>.)(?<second>.)$; root /$second/$first;
         location ~ (?<third>.) { return 200 $third; } } }",
    )])
    .expect("reads");
    let http = config.http.expect("http is there");
    let names: Vec<&str> = http.variables.iter().map(|known| &*known.name).collect();
    assert_eq!(names, ["first", "second", "third"]);
    let location = &http.servers[0].locations.regex[0];
    match &location.matcher {
        crate::model::Matcher::Regex(regex) => assert_eq!(regex.named_groups(), [(1, 2)]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn warnings_stand_with_the_error() {
    let mut loader = MemoryLoader::new().with(MAIN_FILE, "events {} http { read_ahead 1m;\nfoo; }");
    let failure = parse(&options(), &mut loader).expect_err("foo is unknown");
    assert_eq!(failure.warnings.len(), 1);
    assert_eq!(
        failure.warnings[0].to_string(),
        "sealane: [warn] the \"read_ahead\" directive has no effect yet: the kernel's default \
         read-ahead applies in /etc/nginx/nginx.conf:1\n\
         \x20   events {} http { read_ahead 1m;\n\
         \x20                    ^"
    );
}
