//! `geoip2`: values of every kind from databases that the test writes, where addresses come from,
//! and files that change.

#[path = "geoip2/database.rs"]
mod database;

use database::{Database, Value};
use sealane_tests::reload::{Reload, reload_as_it_is};
use sealane_tests::wire::{get, get_with};
use sealane_tests::{Server, Site, command, sealane_binary, wait_for};

const EPOCH: u64 = 1_700_000_000;

/// A database in which 192.0.2.0/24 and 2001:db8::/32 are in a country of this name.
fn country(name: &str) -> Vec<u8> {
    let record = |code: &str| {
        Value::map([
            (
                "country",
                Value::map([
                    ("iso_code", Value::text(code)),
                    (
                        "names",
                        Value::map([("en", Value::text(name)), ("de", Value::text("Land"))]),
                    ),
                ]),
            ),
            (
                "subdivisions",
                Value::Array(vec![
                    Value::map([("iso_code", Value::text("S0"))]),
                    Value::map([("iso_code", Value::text("S1"))]),
                ]),
            ),
            ("0", Value::text("a key")),
        ])
    };
    let mut database = Database::new(EPOCH);
    database.add("192.0.2.0", 24, record("XA"));
    database.add("192.0.2.128", 25, record("XB"));
    database.add("2001:db8::", 32, record("XC"));
    database.add("127.0.0.0", 8, record("XL"));
    database.bytes()
}

/// One with a value of every type.
fn types() -> Vec<u8> {
    let mut database = Database::new(EPOCH);
    let record = Value::map([
        ("bool", Value::Bool(true)),
        ("bytes", Value::Bytes(b"by".to_vec())),
        ("double", Value::Double(-12.345_678)),
        ("float", Value::Float(1.5)),
        ("u16", Value::U16(65_535)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-7)),
        ("u64", Value::U64(1 << 40)),
        ("u128", Value::U128(0xabc)),
        ("text", Value::text("")),
    ]);
    database.add("0.0.0.0", 0, record);
    database.bytes()
}

/// Both, and a location that shows what variables are worth for the address in `ip`.
fn serve<'s>(site: &'s Site, more: &str) -> Server<'s> {
    site.write("country.mmdb", country("Land A"));
    site.write("types.mmdb", types());
    site.serve(&format!(
        r#"
        geoip2 country.mmdb {{
            {more}
            $code default=-- source=$arg_ip country iso_code;
            $english source=$arg_ip country names en;
            $second source=$arg_ip subdivisions 1 iso_code;
            $third default=none source=$arg_ip subdivisions 2 iso_code;
            $last source=$arg_ip subdivisions -2 iso_code;
            $key source=$arg_ip 0;
            $whole default=map source=$arg_ip country;
            $client default=nobody country iso_code;
            $built metadata build_epoch;
            $changed metadata last_change;
            $checked metadata last_check;
        }}
        geoip2 types.mmdb {{
            $bool bool; $bytes bytes; $double double; $float float; $u16 u16; $u32 u32;
            $i32 i32; $u64 u64; $u128 u128; $text text; $nothing absent;
        }}
        geoip2_proxy 127.0.0.1;
        geoip2_proxy_recursive on;
        geoip2_proxy 198.51.100.0/24;
        map $code $greeting {{ XA hello; default bye; }}
        server {{
            listen 127.0.0.1:%plain%;
            location / {{ return 200 "$code|$english|$second$last|$third|$key|$whole|$greeting"; }}
            location /types {{ return 200 "$bool $bytes $double $float $u16 $u32 $i32 $u64 $u128 ($text) ($nothing)"; }}
            location /client {{ return 200 $client; }}
            location /built {{ return 200 $built; }}
            location /changed {{ return 200 "$changed $checked"; }}
        }}"#
    ))
}

#[test]
fn values_of_records_are_variables() {
    let site = Site::new();
    let server = serve(&site, "");
    let text = |target: &str| get(server.port("plain"), target).text();
    assert_eq!(
        text("/?ip=192.0.2.1"),
        "XA|Land A|S1S0|none|a key|map|hello"
    );
    assert_eq!(
        text("/?ip=192.0.2.200"),
        "XB|Land A|S1S0|none|a key|map|bye"
    );
    assert_eq!(
        text("/?ip=2001:db8::9"),
        "XC|Land A|S1S0|none|a key|map|bye"
    );
    assert_eq!(
        text("/?ip=::ffff:192.0.2.1"),
        "XA|Land A|S1S0|none|a key|map|hello"
    );
    for unknown in ["/?ip=203.0.113.1", "/?ip=2001:db9::", "/?ip=what", "/"] {
        assert_eq!(text(unknown), "--|||none||map|bye", "{unknown}");
    }
    assert_eq!(
        text("/types"),
        "1 by -12.34568 1.50000 65535 4000000000 -7 1099511627776 \
         0x00000000000000000000000000000abc () ()"
    );
    assert_eq!(text("/built"), EPOCH.to_string());
    let changed = text("/changed");
    let (change, check) = changed.split_once(' ').expect("two times");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let change: u64 = change.parse().expect("a time");
    assert!(
        change.abs_diff(now.expect("after 1970").as_secs()) < 600,
        "{changed}"
    );
    assert_eq!(check.parse(), Ok(change));
}

#[test]
fn proxies_are_believed_as_far_as_they_are_trusted() {
    let site = Site::new();
    let server = serve(&site, "");
    let seen = |header: &str| get_with(server.port("plain"), "/client", header).text();
    assert_eq!(seen(""), "XL");
    assert_eq!(seen("X-Forwarded-For: 192.0.2.1\r\n"), "XA");
    assert_eq!(seen("X-Forwarded-For: 192.0.2.200, 198.51.100.7\r\n"), "XB");
    assert_eq!(
        seen("X-Forwarded-For: 192.0.2.1, 203.0.113.9\r\n"),
        "nobody"
    );
    assert_eq!(seen("X-Forwarded-For: nonsense\r\n"), "XL");
}

#[test]
fn a_reload_takes_new_contents_and_refuses_broken_ones() {
    let site = Site::new();
    let server = serve(&site, "");
    let english = || get(server.port("plain"), "/?ip=192.0.2.1").text();
    assert!(english().contains("|Land A|"));
    site.write("country.mmdb", b"not a database");
    assert_eq!(reload_as_it_is(&server), Reload::Refused);
    let said = server.wait_for_log("cannot load GeoIP2 database");
    assert!(
        said.contains("[emerg]") && said.contains("country.mmdb"),
        "{said}"
    );
    assert!(english().contains("|Land A|"));
    // Without auto_reload, only a reload reads the file.
    site.write("country.mmdb", country("Land B"));
    assert_eq!(reload_as_it_is(&server), Reload::Applied);
    assert!(english().contains("|Land B|"));
    server.expect_alert("cannot load GeoIP2 database");
}

#[test]
fn a_file_that_changes_is_used_without_a_reload() {
    let site = Site::new();
    let server = serve(&site, "auto_reload 1s;");
    let english = || get(server.port("plain"), "/?ip=192.0.2.1").text();
    assert!(english().contains("|Land A|"));
    let before = get(server.port("plain"), "/changed").text();
    // One that is being copied.
    let whole = country("Land C");
    site.write("country.mmdb", &whole[..whole.len() / 2]);
    let said = server.wait_for_log("the contents before stay in use");
    assert!(said.contains("cannot load GeoIP2 database"), "{said}");
    assert!(english().contains("|Land A|"));
    site.write("country.mmdb", &whole);
    wait_for("the new contents", || {
        english().contains("|Land C|").then_some(())
    });
    assert_ne!(get(server.port("plain"), "/changed").text(), before);
    server.wait_for_log("country.mmdb\" has changed, it is loaded again");
    server.expect_alert("cannot load GeoIP2 database");
}

#[test]
fn what_cannot_be_used_is_refused_at_the_start() {
    let site = Site::new();
    site.write("good.mmdb", country("Land"));
    site.write("bad.mmdb", b"not a database");
    let large = std::fs::File::create(site.path("large.mmdb")).expect("the site is writable");
    large.set_len((512 << 20) + 1).expect("it has no data");
    let good = site.path("good.mmdb").display().to_string();
    for (lines, said) in [
        (
            "geoip2 missing.mmdb { }",
            "missing.mmdb\": open() failed (2: No such file or directory)",
        ),
        ("geoip2 large.mmdb { }", "it is larger than 536870912 bytes"),
        ("geoip2 bad.mmdb { }", "cannot load GeoIP2 database"),
        ("geoip2 GOOD { } geoip2 GOOD { }", "Duplicate GeoIP2 mmdb"),
        (
            "geoip2 GOOD { $a country; more x; }",
            "invalid setting \"more\"",
        ),
        (
            "geoip2 GOOD { auto_reload; }",
            "invalid number of arguments for auto_reload",
        ),
        (
            "geoip2 GOOD { auto_reload soon; }",
            "invalid interval for auto_reload \"soon\"",
        ),
        (
            "geoip2 GOOD { $a default=1 default=2 x; }",
            "default has already been declared",
        ),
        (
            "geoip2 GOOD { $a source=$arg_a source=$arg_b x; }",
            "source has already been declared",
        ),
        (
            "geoip2 GOOD { $a source=x y; }",
            "invalid source variable name \"x\"",
        ),
        (
            "geoip2 GOOD { $a what=x y; }",
            "invalid setting \"what=x\" for \"$a\"",
        ),
        ("geoip2 GOOD { $a; }", "no path for \"$a\""),
        (
            "geoip2 GOOD { $a metadata size; }",
            "invalid metadata field \"size\"",
        ),
        (
            "geoip2 GOOD { $host x; }",
            "the duplicate \"host\" variable",
        ),
        ("geoip2_proxy x;", "invalid network \"x\""),
    ] {
        let lines = lines.replace("GOOD", &good);
        let file = site.write("nginx.conf", format!("events {{}} http {{ {lines} }}"));
        let prefix = site.path("").display().to_string();
        let file = file.display().to_string();
        let binary = sealane_binary().display().to_string();
        let outcome = command(&binary, &["-t", "-p", &prefix, "-c", &file], b"");
        assert_eq!(outcome.status, 1, "{lines}");
        assert!(outcome.stderr.contains(said), "{lines}\n{}", outcome.stderr);
    }
}
