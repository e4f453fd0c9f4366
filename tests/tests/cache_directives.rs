//! What `-t` says about the directives that configure caches, beside nginx, and the directories
//! that it makes.

use sealane_tests::comparison::nginx_version;
use sealane_tests::reload::{Reload, reload};
use sealane_tests::{Program, Server, Site, command, nginx_binary, sealane_binary, wire};
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

/// A version of nginx that is older than what every line below needs.
const EVERY: (u32, u32, u32) = (1, 11, 6);

/// Where lines stand.
#[derive(Debug, Clone, Copy)]
enum Place {
    Http,
    Server,
    /// In a location that passes requests on in the family of the lines.
    Location,
}
use Place::{Http, Location, Server as InServer};

/// The lines, which both servers are asked about for `proxy` and another family: `X` stands for the
/// name. `Z` is a
/// zone that every configuration has, in the directory `cache`.
const LINES: &[(Place, &str)] = &[
    // What is right.
    (Location, "X_cache Z; X_cache_key $uri;"),
    (Location, "X_cache $arg_zone; X_cache_key $uri;"),
    (Location, "X_cache off; X_store on;"),
    (Http, "X_cache Z; X_cache_key $uri; X_cache_valid 5m;"),
    (
        Http,
        "X_cache later; X_cache_key 1; X_cache_path more keys_zone=later:1m;",
    ),
    (InServer, "X_cache Z; X_cache_key $host; X_store off;"),
    (Http, "X_cache_path more levels= keys_zone=a:64k;"),
    (
        Http,
        "X_cache_path more/ levels=2:1:2 use_temp_path=off keys_zone=a:1m inactive=1y max_size=1g \
         min_free=0 loader_files=0 loader_sleep=1s loader_threshold=1 manager_files=1 \
         manager_sleep=1ms manager_threshold=1m;",
    ),
    (
        Location,
        "X_cache_valid any 0; X_cache_valid 200 0404 1d; X_cache_valid 1m;",
    ),
    (
        Location,
        "X_cache_bypass '' 0 $arg_a; X_no_cache $cookie_a$arg_b; X_no_cache 1;",
    ),
    (Location, "X_cache_methods get HEAD; X_cache_methods POST;"),
    (
        Location,
        "X_cache_use_stale error timeout invalid_header updating http_500 http_429;",
    ),
    (
        Location,
        "X_cache_use_stale off; X_cache_min_uses 0; X_cache_max_range_offset 1g;",
    ),
    (
        Location,
        "X_cache_lock on; X_cache_lock_age 1ms; X_cache_lock_timeout 0;",
    ),
    (
        Location,
        "X_cache_background_update on; X_cache_revalidate on;",
    ),
    // What is taken with a warning.
    (Location, "X_cache_methods GET GET;"),
    (
        Location,
        "X_cache_use_stale error; X_cache_use_stale ERROR;",
    ),
    (Location, "X_cache Z;"),
    // What is wrong.
    (Http, "X_cache_path more;"),
    (Http, "X_cache_path more levels=1:2;"),
    (Http, "X_cache_path more keys_zone=a:1m KEYS_ZONE=b:1m;"),
    (Http, "X_cache_path more keys_zone=:1m;"),
    (Http, "X_cache_path more keys_zone=a;"),
    (Http, "X_cache_path more keys_zone=a:;"),
    (Http, "X_cache_path more keys_zone=a:1g;"),
    (Http, "X_cache_path more keys_zone=a:4k;"),
    (Http, "X_cache_path more keys_zone=a:1m levels=0;"),
    (Http, "X_cache_path more keys_zone=a:1m levels=3;"),
    (Http, "X_cache_path more keys_zone=a:1m levels=1:2:;"),
    (Http, "X_cache_path more keys_zone=a:1m levels=:1;"),
    (Http, "X_cache_path more keys_zone=a:1m levels=1:1:1:1;"),
    (Http, "X_cache_path more keys_zone=a:1m levels=12;"),
    (Http, "X_cache_path more keys_zone=a:1m use_temp_path=yes;"),
    (Http, "X_cache_path more keys_zone=a:1m inactive=1ms;"),
    (Http, "X_cache_path more keys_zone=a:1m inactive=;"),
    (Http, "X_cache_path more keys_zone=a:1m max_size=1t;"),
    (Http, "X_cache_path more keys_zone=a:1m min_free=-1;"),
    (Http, "X_cache_path more keys_zone=a:1m loader_files=x;"),
    (Http, "X_cache_path more keys_zone=a:1m loader_sleep=x;"),
    (Http, "X_cache_path more keys_zone=a:1m loader_threshold=x;"),
    (Http, "X_cache_path more keys_zone=a:1m manager_files=;"),
    (Http, "X_cache_path more keys_zone=a:1m manager_sleep=x;"),
    (
        Http,
        "X_cache_path more keys_zone=a:1m manager_threshold=x;",
    ),
    (Http, "X_cache_path more keys_zone=a:1m made_up=x;"),
    (Http, "X_cache_path none/here keys_zone=a:1m;"),
    (Http, "X_cache_path cache keys_zone=a:1m;"),
    (Http, "X_cache_path more keys_zone=Z:1m;"),
    (Http, "X_cache_path more keys_zone=Z:2m;"),
    (Http, "limit_req_zone $uri zone=Z:1m rate=1r/s;"),
    (Http, "ssl_session_cache shared:Z:1m;"),
    (Http, "upstream u { zone Z 1m; server 127.0.0.1:1; }"),
    (Http, "X_temp_path cache;"),
    (Http, "client_body_temp_path cache;"),
    (InServer, "X_cache_path more keys_zone=a:1m;"),
    (Location, "X_cache;"),
    (Location, "X_cache none;"),
    (Location, "X_cache '';"),
    (Location, "X_cache Z Z;"),
    (Location, "X_cache Z; X_cache off;"),
    (Location, "X_cache Z; X_store on;"),
    (Location, "X_store /s$uri; X_cache $host;"),
    (Location, "X_cache $;"),
    (Location, "X_cache $no_such_variable;"),
    (Location, "if ($host) { X_cache off; }"),
    (Location, "X_cache_key a; X_cache_key b;"),
    (Location, "X_cache_key $no_such_variable;"),
    (Location, "X_cache_valid;"),
    (Location, "X_cache_valid 200;"),
    (Location, "X_cache_valid 200 x;"),
    (Location, "X_cache_valid 99 1m;"),
    (Location, "X_cache_valid 600 1m;"),
    (Location, "X_cache_valid ANY 1m;"),
    (Location, "X_cache_valid '' 1m;"),
    (Location, "X_cache_bypass;"),
    (Location, "X_cache_bypass $no_such_variable;"),
    (Location, "X_no_cache ${;"),
    (Location, "X_cache_methods PUT;"),
    (Location, "X_cache_use_stale http_501;"),
    (Location, "X_cache_use_stale http_502;"),
    (Location, "X_cache_min_uses -1;"),
    (Location, "X_cache_min_uses 1; X_cache_min_uses 1;"),
    (Location, "X_cache_max_range_offset x;"),
    (Location, "X_cache_lock 1;"),
    (Location, "X_cache_lock_age x; "),
    (Location, "X_cache_lock_timeout 1y;"),
    (
        Location,
        "X_cache_background_update On; X_cache_background_update off;",
    ),
    (Location, "X_cache_revalidate no;"),
    (Location, "X_cache_convert_head off;"),
    (Location, "X_cache_convert_head no;"),
];

/// A family with the line that passes requests on.
const PROXY: (&str, &str) = ("proxy", "proxy_pass http://127.0.0.1:9;");
const OTHERS: [(&str, &str); 3] = [
    ("fastcgi", "fastcgi_pass 127.0.0.1:9;"),
    ("scgi", "scgi_pass 127.0.0.1:9;"),
    ("uwsgi", "uwsgi_pass 127.0.0.1:9;"),
];

fn configuration(family: (&str, &str), place: Place, lines: &str) -> String {
    let (name, pass) = family;
    let at = |wanted: &str| match format!("{place:?}") == wanted {
        true => lines,
        false => "",
    };
    let text = format!(
        "events {{ }}\nhttp {{\nX_cache_path cache keys_zone=Z:1m;\n{}\nserver {{\nlisten \
         127.0.0.1:%plain%;\n{}\nlocation / {{\n{pass}\n{}\n}}\n}}\n}}\n",
        at("Http"),
        at("Server"),
        at("Location")
    );
    text.replace("X_", &format!("{name}_"))
}

/// Whether a server takes a configuration, and its warnings and errors, with `SITE` for the site.
fn answer(site: &Site, binary: &Path, text: &str) -> (i32, Vec<String>) {
    let file = site.path("sealane.conf");
    fs::write(&file, site.fill_in(text)).expect("the site is writable");
    let (prefix, file) = (site.path(""), file.display().to_string());
    let prefix = prefix.display().to_string();
    let arguments = ["-p", &prefix, "-c", &file, "-e", "logs/error.log", "-t"];
    let outcome = command(&binary.display().to_string(), &arguments, b"");
    let said = outcome.stderr.lines().filter_map(|line| {
        let (_, line) = line.split_once(": ")?;
        let is_message = line.starts_with("[emerg]") || line.starts_with("[warn]");
        is_message.then(|| line.replace(prefix.trim_end_matches('/'), "SITE"))
    });
    (outcome.status, said.collect())
}

#[test]
fn both_say_the_same_about_lines_right_and_wrong() {
    if nginx_version() < EVERY {
        return sealane_needs::leave_out("this nginx lacks directives of caches");
    }
    let mut differences = Vec::new();
    let mut taken = 0;
    for ((place, lines), other) in LINES.iter().zip(OTHERS.iter().cycle()) {
        for family in [PROXY, *other] {
            let text = configuration(family, *place, lines);
            // Each has its own, as directories stay behind.
            let (here, there) = (Site::new(), Site::new());
            let ours = answer(&here, &sealane_binary(), &text);
            let theirs = answer(&there, &nginx_binary(), &text);
            if ours != theirs {
                let name = family.0;
                differences.push(format!(
                    "{name}: {lines}\n  here  {ours:?}\n  nginx {theirs:?}"
                ));
            }
            taken += usize::from(ours.0 == 0);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(taken >= 30, "right lines are taken: {taken}");
}

#[test]
fn both_make_the_directory_and_not_what_it_is_in() {
    let text = "user nobody nogroup; events { } http { proxy_cache_path one/ keys_zone=a:1m;
        scgi_cache_path there/two keys_zone=b:1m; server { listen 127.0.0.1:%plain%; } }";
    let made = |binary: &Path| {
        let site = Site::new();
        fs::create_dir(site.path("there")).expect("new");
        let said = answer(&site, binary, text);
        assert_eq!(said, (0, Vec::new()));
        ["one", "there/two"].map(|name| {
            let facts = fs::symlink_metadata(site.path(name)).expect("it was made");
            (facts.mode(), facts.uid())
        })
    };
    sealane_needs::root(); // otherwise there is a warning about "user"
    let ours = made(&sealane_binary());
    assert_eq!(ours, made(&nginx_binary()));
    assert_eq!(ours[0].0, 0o40700);
}

#[test]
fn a_directory_of_somebody_else_is_refused_with_what_to_do() {
    sealane_needs::root();
    let site = Site::new();
    fs::create_dir(site.path("cache")).expect("new");
    let text = "user nobody nogroup; events { } http { proxy_cache_path cache keys_zone=a:1m;
        server { listen 127.0.0.1:%plain%; } }";
    // Where only root can have made it, it becomes the user's, as in nginx.
    assert_eq!(answer(&site, &sealane_binary(), text).0, 0);
    let nobody = fs::metadata(site.path("cache")).expect("there").uid();
    assert_ne!(nobody, 0);
    // Where the user can have put it, it may be anybody's.
    chown(site.path(""), Some(nobody), None).expect("it is ours");
    chown(site.path("cache"), Some(0), None).expect("it is ours");
    let (status, said) = answer(&site, &sealane_binary(), text);
    assert_eq!(status, 1);
    let words = "[emerg] \"SITE/cache\" is for cached responses but belongs to user 0: let it \
                 belong to user ";
    assert!(said[0].starts_with(words), "{said:?}");
    let owner = fs::metadata(site.path("cache")).expect("there").uid();
    assert_eq!(owner, 0, "it was given away");
}

#[test]
fn a_reload_with_a_new_cache_makes_its_directory() {
    let site = Site::new();
    site.write("html/a.txt", b"hello");
    let text = |caches: &str| {
        format!(
            "error_log logs/error.log info; worker_landlock off; pid logs/server.pid; events {{ }} http {{ {caches}
             server {{ listen 127.0.0.1:%plain%; root html; access_log off; }} }}"
        )
    };
    let one = "proxy_cache_path one keys_zone=a:1m;";
    let server = Server::start(&site, Program::Sealane, &text(one));
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
    assert!(site.path("one").is_dir());
    let two = format!("{one} fastcgi_cache_path two levels=1:2 keys_zone=b:1m;");
    assert_eq!(reload(&site, &server, &text(&two)), Reload::Applied);
    assert!(site.path("two").is_dir());
    assert_eq!(wire::get(server.port("plain"), "/a.txt").body, b"hello");
}
