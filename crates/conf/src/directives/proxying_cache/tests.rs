//! From `*_cache` and its relatives to the model: values, defaults, inheritance, zones and paths.

use crate::input::{MemoryLoader, Options};
use crate::model::*;
use crate::parser::parse;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The configuration in `http`, or what is wrong with it.
fn configuration(inside_http: &str) -> Result<Config, String> {
    let text = format!("events {{}}\nhttp {{\n{inside_http}\n}}\n");
    let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
    let config = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
    config.map_err(|failure| failure.error.headline())
}

fn http(inside_http: &str) -> Http {
    let config = configuration(inside_http).unwrap_or_else(|error| panic!("{error}"));
    config.http.expect("http is there")
}

/// The lines that pass requests on in a family, with a parameter for those that need one.
const PASSES: [(&str, &str); 4] = [
    ("proxy", "proxy_pass http://127.0.0.1;"),
    ("fastcgi", "fastcgi_pass 127.0.0.1:9;"),
    ("scgi", "scgi_pass 127.0.0.1:9;"),
    ("uwsgi", "uwsgi_pass 127.0.0.1:9;"),
];

/// How the prefix locations of the only server cache, in the order of their names.
fn caches(http: &Http) -> Vec<Option<Arc<CacheSettings>>> {
    let locations = http.servers[0].locations.prefix.iter();
    let pass = |location: &Location| location.conf.pass.clone().expect("requests are passed");
    locations
        .map(|location| pass(location).upstream().cache.clone())
        .collect()
}

/// How a location of a family caches in zone `z`; `X` in the lines stands for the family.
fn cache(family: (&str, &str), outer: &str, inner: &str) -> CacheSettings {
    let (name, pass) = family;
    let text = format!(
        "X_cache_path /c keys_zone=z:1m;\n{outer} server {{ location / {{ {pass} {inner} }} }}"
    );
    let http = http(&text.replace("X_", &format!("{name}_")));
    let found = caches(&http)[0].clone().expect("the location caches");
    (*found).clone()
}

#[test]
fn defaults_are_those_of_nginx() {
    for family in PASSES {
        let found = cache(family, "", "X_cache z; X_cache_key k;");
        let CacheZone::Named(path) = &found.zone else {
            panic!("{found:?}")
        };
        assert_eq!(&*path.zone, "z");
        let expected = CacheSettings {
            zone: found.zone.clone(),
            key: Some(Template::literal("k")),
            key_has_body: false,
            rules: CacheRules::Nginx,
            valid: Vec::new(),
            bypass: Vec::new(),
            no_cache: Vec::new(),
            caches_post: false,
            min_uses: 1,
            lock: None,
            use_stale: NextUpstream::NEVER,
            background_update: false,
            revalidate: false,
            convert_head: true,
            max_range_offset: None,
            purge: Vec::new(),
            purge_tags: Vec::new(),
        };
        assert_eq!(found, expected, "{family:?}");
    }
    let (proxy, scgi) = (PASSES[0], PASSES[2]);
    assert_eq!(cache(proxy, "", "X_cache z;").key, None);
    assert_eq!(
        cache(scgi, "", "X_cache z;").key,
        Some(Template::literal(""))
    );
}

#[test]
fn every_value_is_read_and_inherited() {
    let lines = "X_cache z; X_cache_key $uri; X_cache_valid 2s; X_cache_valid any 404 1m;
        X_cache_bypass $arg_a 0; X_cache_bypass $arg_b; X_no_cache $arg_c; X_cache_purge $arg_d 1;
        X_cache_purge_tags $arg_e,b; X_cache_purge_tags $http_x;
        X_cache_methods post; X_cache_min_uses 3; X_cache_lock on; X_cache_lock_timeout 7s;
        X_cache_lock_age 1500ms; X_cache_use_stale error updating; X_cache_use_stale http_429;
        X_cache_background_update on; X_cache_revalidate on; X_cache_max_range_offset 1g;";
    for family in PASSES {
        let found = cache(family, "", lines);
        assert_eq!(found, cache(family, lines, ""), "{family:?}");
        let shown = |templates: &[Template]| -> Vec<String> {
            let shown = templates.iter().map(|template| format!("{template:?}"));
            shown.collect()
        };
        assert_eq!(
            shown(&found.bypass),
            [
                "Template(\"${Argument(\"a\")}\")",
                "Template(\"0\")",
                "Template(\"${Argument(\"b\")}\")"
            ]
        );
        assert_eq!(shown(&found.no_cache), ["Template(\"${Argument(\"c\")}\")"]);
        let purge = ["Template(\"${Argument(\"d\")}\")", "Template(\"1\")"];
        assert_eq!(shown(&found.purge), purge);
        let tags = [
            "Template(\"${Argument(\"e\")},b\")",
            "Template(\"${RequestHeader(\"x\")}\")",
        ];
        assert_eq!(shown(&found.purge_tags), tags);
        let seconds = Duration::from_secs;
        let fresh = [200, 301, 302, 404, 500].map(|status| found.valid(status));
        assert_eq!(fresh[..3], [Some(seconds(2)); 3]);
        assert_eq!(fresh[3..], [Some(seconds(60)); 2]);
        let statuses: Vec<_> = found.valid.iter().map(|valid| valid.status).collect();
        assert_eq!(
            statuses,
            [Some(200), Some(301), Some(302), None, Some(404)],
            "in the order of the lines"
        );
        assert!(found.caches_post && found.background_update && found.revalidate);
        assert_eq!(found.min_uses, 3);
        let lock = CacheLock {
            timeout: seconds(7),
            age: Duration::from_millis(1500),
        };
        assert_eq!(found.lock, Some(lock));
        assert_eq!(found.max_range_offset, Some(1 << 30));
        use NextUpstreamCause as C;
        let stale = [C::Error, C::Updating, C::Http429, C::Timeout, C::Http500];
        let stale = stale.map(|cause| found.use_stale.contains(cause));
        assert_eq!(stale, [true, true, true, false, false]);
    }
    assert!(!cache(PASSES[0], "proxy_cache_convert_head off;", "X_cache z;").convert_head);
}

#[test]
fn the_rules_decide_whether_responses_are_confirmed_unless_that_is_configured() {
    for family in PASSES {
        let found = |outer, inner| {
            let found = cache(family, outer, &format!("X_cache z; X_cache_key k; {inner}"));
            (found.rules, found.revalidate)
        };
        let (nginx, rfc9111) = (CacheRules::Nginx, CacheRules::Rfc9111);
        assert_eq!(found("", "X_cache_rules nginx;"), (nginx, false));
        assert_eq!(found("", "X_cache_rules rfc9111;"), (rfc9111, true));
        assert_eq!(found("X_cache_rules rfc9111;", ""), (rfc9111, true));
        let inner = "X_cache_rules nginx;";
        assert_eq!(found("X_cache_rules rfc9111;", inner), (nginx, false));
        let off = "X_cache_rules rfc9111; X_cache_revalidate off;";
        assert_eq!(found("", off), (rfc9111, false));
    }
    let wrong = configuration("proxy_cache_rules rfc7234;").expect_err("no such rules");
    assert!(wrong.contains("invalid value \"rfc7234\""), "{wrong}");
    let twice = configuration("proxy_cache_rules nginx; proxy_cache_rules nginx;");
    let twice = twice.expect_err("once is enough");
    assert!(twice.contains("is duplicate"), "{twice}");
}

#[test]
fn an_inner_level_replaces_lists_as_a_whole() {
    let outer = "X_cache z; X_cache_valid 404 1m; X_cache_bypass $arg_a; X_no_cache $arg_a;
        X_cache_purge $arg_a; X_cache_purge_tags $uri; X_cache_methods POST; X_cache_use_stale error timeout; X_cache_lock on;
        X_cache_lock_age 1s;";
    let inner =
        "X_cache_valid 5s; X_cache_bypass 0; X_no_cache 0; X_cache_purge 0; X_cache_purge_tags 0;
        X_cache_methods GET; X_cache_use_stale updating off; X_cache_lock_timeout 9s;";
    let found = cache(PASSES[1], outer, inner);
    assert_eq!(
        (found.valid(404), found.valid(200)),
        (None, Some(Duration::from_secs(5)))
    );
    let zero = [Template::literal("0")];
    for list in [
        &found.bypass,
        &found.no_cache,
        &found.purge,
        &found.purge_tags,
    ] {
        assert_eq!(list[..], zero);
    }
    assert!(!found.caches_post);
    assert_eq!(found.use_stale, NextUpstream::NEVER, "off cancels the rest");
    let lock = found.lock.expect("it is inherited");
    let seconds = (lock.timeout.as_secs(), lock.age.as_secs());
    assert_eq!(seconds, (9, 1));
}

#[test]
fn off_and_store_end_what_outer_levels_cache() {
    let http = http(
        "proxy_cache_path /c keys_zone=z:1m; proxy_cache z; server {
         location /a { proxy_pass http://127.0.0.1; }
         location /b { proxy_pass http://127.0.0.1; proxy_cache off; }
         location /c { proxy_pass http://127.0.0.1; proxy_store on; }
         location /d { proxy_pass http://127.0.0.1; proxy_store off; }
         location /e { proxy_pass http://127.0.0.1; if ($arg_a) { set $b c; } }
         location /f { fastcgi_pass 127.0.0.1:9; } }",
    );
    let cached: Vec<bool> = caches(&http).iter().map(Option::is_some).collect();
    assert_eq!(cached, [true, false, false, true, true, false]);
    let location = &http.servers[0].locations.prefix[4].conf;
    let script = location.script.as_ref().expect("it has an if");
    let pass = script.blocks[0]
        .pass
        .as_ref()
        .expect("stays in the location");
    assert!(pass.upstream().cache.is_some(), "an if is inside");

    let http = self::http(
        "proxy_cache_path /c keys_zone=z:1m; proxy_store on; server {
         location /a { proxy_pass http://127.0.0.1; proxy_cache z; }
         location /b { proxy_pass http://127.0.0.1; proxy_cache off; } }",
    );
    let locations = http.servers[0].locations.prefix.iter();
    let both = locations.map(|location| {
        let pass = location.conf.pass.as_ref().expect("it is passed on");
        let upstream = pass.upstream();
        (upstream.cache.is_some(), upstream.store.is_some())
    });
    assert_eq!(both.collect::<Vec<_>>(), [(true, false), (false, true)]);
}

#[test]
fn variables_choose_among_the_zones_of_the_family() {
    let http = http(
        "proxy_cache_path /a keys_zone=a:1m; fastcgi_cache_path /f keys_zone=f:1m;
         server { location / { proxy_pass http://127.0.0.1; proxy_cache $arg_z; } }
         proxy_cache_path /b keys_zone=b:1m;",
    );
    let found = caches(&http)[0].clone().expect("it may cache");
    let CacheZone::Evaluated(name, paths) = &found.zone else {
        panic!("{found:?}")
    };
    assert_eq!(format!("{name:?}"), "Template(\"${Argument(\"z\")}\")");
    let names: Vec<&str> = paths.iter().map(|path| &*path.zone).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(http.cache_paths.len(), 3);
    assert!(Arc::ptr_eq(&paths[0], &http.cache_paths[0]));
}

#[test]
fn a_path_has_its_parameters_and_the_defaults_of_nginx() {
    let pace = |files, threshold, sleep| CachePace {
        files,
        threshold: Duration::from_millis(threshold),
        sleep: Duration::from_millis(sleep),
    };
    for family in ["proxy", "fastcgi", "scgi", "uwsgi"] {
        let http = http(&format!(
            "{family}_cache_path plain/ keys_zone=p:8k;
             {family}_cache_path /full levels=1:2:2 use_temp_path=off keys_zone=f:2m inactive=1d
             max_size=10g min_free=1k loader_files=1 loader_threshold=2ms loader_sleep=3ms
             memory=5m
             memory_max_object=6k manager_files=4 manager_threshold=5s manager_sleep=6 purger=on purger_files=7
             purger_threshold=8ms purger_sleep=9ms purger_rules=11;"
        ));
        let [plain, full] = &http.cache_paths[..] else {
            panic!("{:?}", http.cache_paths)
        };
        let expected = CachePath {
            zone: "p".into(),
            keys_bytes: 8 << 10,
            path: Path::new("/usr/plain").into(),
            levels: [0; 3],
            use_temp_path: true,
            inactive: Duration::from_secs(600),
            max_bytes: None,
            min_free_bytes: 0,
            memory_bytes: 32 << 20,
            memory_max_object_bytes: 128 << 10,
            loader: pace(100, 200, 50),
            manager: pace(100, 200, 50),
            purges_files: false,
            purger: pace(10, 50, 50),
            purger_rules: 10_000,
            location: plain.location.clone(),
        };
        assert_eq!(**plain, expected);
        assert_eq!((plain.location.line, full.location.line), (3, 8));
        let expected = CachePath {
            zone: "f".into(),
            keys_bytes: 2 << 20,
            path: Path::new("/full").into(),
            levels: [1, 2, 2],
            use_temp_path: false,
            inactive: Duration::from_secs(86400),
            max_bytes: Some(10 << 30),
            min_free_bytes: 1 << 10,
            memory_bytes: 5 << 20,
            memory_max_object_bytes: 6 << 10,
            loader: pace(1, 2, 3),
            manager: pace(4, 5000, 6000),
            purges_files: true,
            purger: pace(7, 8, 9),
            purger_rules: 11,
            location: full.location.clone(),
        };
        assert_eq!(**full, expected);
    }
}

#[test]
fn a_zone_is_for_one_thing_and_a_path_for_one_cache() {
    const TAKEN: &str = "the shared memory zone \"z\" is already declared for a different use";
    let cache = "proxy_cache_path /c keys_zone=z:1m;";
    for other in [
        "fastcgi_cache_path /d keys_zone=z:1m;",
        "uwsgi_cache z;",
        "limit_req_zone $uri zone=z:1m rate=1r/s;",
        "limit_conn_zone $uri zone=z:1m;",
        "ssl_session_cache shared:z:1m;",
        "upstream u { zone z 1m; server 127.0.0.1; }",
        "upstream u { server 127.0.0.1; sticky learn create=$uri lookup=$uri zone=z:1m; }",
    ] {
        for lines in [format!("{cache} {other}"), format!("{other} {cache}")] {
            let error = configuration(&lines).expect_err(&lines);
            assert!(error.starts_with(TAKEN), "{lines}: {error}");
        }
    }
    let error =
        configuration("limit_req_zone $uri zone=z:1m rate=1r/s; ssl_session_cache shared:z:1m;");
    assert!(error.expect_err("TLS is another use").starts_with(TAKEN));

    for (lines, path) in [
        (
            "proxy_cache_path /c/ keys_zone=a:1m;\nscgi_cache_path /c keys_zone=b:1m;",
            "/c",
        ),
        (
            "proxy_cache_path /c keys_zone=a:1m;\nclient_body_temp_path /c;",
            "/c",
        ),
        (
            "proxy_temp_path c;\nproxy_cache_path c keys_zone=a:1m;",
            "/usr/c",
        ),
    ] {
        let error = configuration(lines).expect_err(lines);
        assert_eq!(
            error,
            format!(
                "the same path name \"{path}\" used in /etc/nginx.conf:3 and in /etc/nginx.conf:4"
            )
        );
    }
    for path in ["/", "''"] {
        let lines = format!("proxy_cache_path {path} keys_zone=a:1m;");
        let error = configuration(&lines).expect_err("no directory for a cache alone");
        let words = "\"proxy_cache_path\" directive invalid value in /etc/nginx.conf:3";
        assert_eq!(error, words);
    }
    for name in ["proxy_temp", "client_body_temp"] {
        let lines = format!(
            "proxy_cache_path {name} keys_zone=a:1m;\nserver {{ location / {{ proxy_pass \
             http://127.0.0.1; }} }}"
        );
        let error = configuration(&lines).expect_err("temporary files are there");
        let expected = format!(
            "the same path name \"/usr/{name}\" used in /etc/nginx.conf:3 and in /etc/nginx.conf:5"
        );
        assert_eq!(error, expected);
    }
    let both = "proxy_temp_path /t; fastcgi_temp_path /t; client_body_temp_path /t;";
    assert!(configuration(both).is_ok(), "temporary files may share one");
}

#[test]
fn a_family_without_a_key_is_warned_about_once() {
    let warnings = |lines: &str| -> Vec<String> {
        let config = configuration(lines).unwrap_or_else(|error| panic!("{error}"));
        let warnings = config.warnings.iter();
        warnings.map(|warning| warning.headline()).collect()
    };
    for (name, pass) in PASSES {
        let lines = |more: &str| {
            format!(
                "{name}_cache_path /c keys_zone=z:1m; {name}_cache z; {more} server {{
                 location /a {{ {pass} }} location /b {{ {pass} }} }}"
            )
        };
        let warned = warnings(&lines(""));
        match name {
            "proxy" => assert_eq!(warned, [""; 0]),
            _ => assert_eq!(
                warned,
                [format!(
                    "no \"{name}_cache_key\" for \"{name}_cache\" in /etc/nginx.conf:5"
                )]
            ),
        }
        assert_eq!(
            warnings(&lines(&format!("{name}_cache_key $uri;"))),
            [""; 0]
        );
    }
    // A host that the origin gets and the key does not contain.
    for (host, key, is_said) in [
        ("$host", "", true),
        ("$http_host", "", true),
        ("$http_host:80", "proxy_cache_key $uri$args;", true),
        ("$http_host", "proxy_cache_key $host$uri;", true),
        ("$proxy_host", "", false),
        ("fixed", "", false),
        ("$host", "proxy_cache_key $host$uri;", false),
        ("$host", "proxy_cache_key $http_host$uri;", false),
        ("$http_host", "proxy_cache_key $http_host$uri;", false),
        ("$host", "proxy_cache_key $server_name$uri;", false),
        (
            "$host",
            "set $of_host $host; proxy_cache_key $of_host$uri;",
            false,
        ),
        ("$host", "proxy_cache off;", false),
    ] {
        let warned = warnings(&format!(
            "proxy_cache_path /c keys_zone=z:1m; proxy_cache z; server {{ location / {{
             proxy_pass http://127.0.0.1; proxy_set_header Host {host}; {key} }} }}"
        ));
        let expected = "\"proxy_cache\" keeps one response for all hosts";
        let said = warned.iter().any(|line| line.starts_with(expected));
        assert_eq!(said, is_said, "{host} {key}: {warned:?}");
        assert_eq!(warned.len(), usize::from(is_said), "{warned:?}");
    }
}

#[test]
fn where_nobody_may_purge_there_is_a_warning() {
    let warnings = |lines: &str| {
        let text = format!(
            "events {{}} http {{ proxy_cache_path /c keys_zone=z:1m; server {{ server_name n;
             {lines} }} }}"
        );
        let mut loader = MemoryLoader::new().with("/etc/nginx.conf", text);
        let config = parse(&Options::new("/etc/nginx.conf", "/usr"), &mut loader);
        let config = config.unwrap_or_else(|failure| panic!("{}", failure.error.headline()));
        let warnings = config.warnings.iter();
        let ours = warnings.filter(|warning| {
            let headline = warning.headline();
            headline.contains("\"proxy_cache_purge\" purges nothing") && headline.contains("\"n\"")
        });
        ours.count()
    };
    let location =
        |more: &str| format!("location / {{ proxy_pass http://127.0.0.1; proxy_cache z; {more} }}");
    let purge = "proxy_cache_purge $arg_a;";
    assert_eq!(warnings(&location(purge)), 1);
    let two = location(purge) + &location(purge).replace("/ {", "/b {");
    assert_eq!(warnings(&two), 1, "once is enough");
    for fine in [
        "",
        "proxy_cache_purge 0;",
        "proxy_cache_purge $arg_a; allow 10.0.0.1;",
        "proxy_cache_purge $arg_a; auth_basic a; auth_basic_user_file f;",
        "proxy_cache_purge $arg_a; auth_request /b;",
        "proxy_cache_purge $arg_a; limit_except GET { deny all; }",
    ] {
        assert_eq!(warnings(&location(fine)), 0, "{fine}");
    }
    let outer = format!("allow 10.0.0.1; {}", location(purge));
    assert_eq!(warnings(&outer), 0);
}

#[test]
fn tags_are_hidden_where_they_are_of_use() {
    let hides = |lines: &str| {
        let text = format!(
            "proxy_cache_path /c keys_zone=z:1m; server {{ location / {{
             proxy_pass http://127.0.0.1; proxy_cache z; {lines} }} }}"
        );
        let http = http(&text);
        let location = &http.servers[0].locations.prefix[0].conf;
        let pass = location.pass.as_ref().expect("requests are passed");
        let hidden = pass.upstream().hidden_headers.clone();
        ["surrogate-key", "Cache-Tag"].map(|name| hidden.contains(name.as_bytes()))
    };
    assert_eq!(hides(""), [false; 2]);
    assert_eq!(hides("proxy_cache_purge_tags $arg_a;"), [true; 2]);
    let passed = "proxy_cache_purge_tags $arg_a; proxy_pass_header Cache-Tag;";
    assert_eq!(hides(passed), [true, false]);
}
