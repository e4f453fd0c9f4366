//! Redirects, cookies, forwarding headers, by nginx's documentation.

use super::*;

fn location(value: &str, pattern: &str, replacement: &str) -> Option<String> {
    let bytes = value.as_bytes();
    let pattern = pattern.as_bytes();
    let rewritten = replace_prefix(bytes, 0..bytes.len(), pattern, replacement.as_bytes());
    rewritten.map(|bytes| String::from_utf8(bytes).expect("ASCII"))
}

#[test]
fn proxy_redirect_replaces_the_beginning() {
    // The example of the manual.
    let rewritten = location(
        "http://localhost:8000/two/some/uri/",
        "http://localhost:8000/two/",
        "http://frontend/one/",
    );
    assert_eq!(rewritten.as_deref(), Some("http://frontend/one/some/uri/"));
    assert_eq!(
        location("http://b/x", "http://b/", "/").as_deref(),
        Some("/x")
    );
    assert_eq!(location("http://b/", "http://b/", "").as_deref(), Some(""));
    assert_eq!(
        location("http://B/x", "http://b/", "/"),
        None,
        "case counts"
    );
    assert_eq!(location("/http://b/", "http://b/", "/"), None);
    assert_eq!(location("http", "http://b/", "/"), None);
    assert_eq!(location("x", "", "/").as_deref(), Some("/x"));
}

#[test]
fn refresh_is_rewritten_after_url() {
    for (value, expected) in [
        ("5; url=http://b/x", Some("5; url=/x")),
        ("5; URL=http://b/x; y", Some("5; URL=/x; y")),
        (
            "5;url=http://b/xurl=http://b/",
            Some("5;url=/xurl=http://b/"),
        ),
        ("5; url=http://c/x", None),
        ("5; url=", None),
        ("http://b/", None),
        ("5", None),
        ("", None),
    ] {
        let bytes = value.as_bytes();
        let rewritten = refresh_url(bytes)
            .and_then(|url| replace_prefix(bytes, url, b"http://b/", b"/"))
            .map(|bytes| String::from_utf8(bytes).expect("ASCII"));
        assert_eq!(rewritten.as_deref(), expected, "{value:?}");
    }
}

#[test]
fn replace_keeps_what_is_around() {
    assert_eq!(replace(b"abcdef", 2..4, b"-"), b"ab-ef");
    assert_eq!(replace(b"abc", 0..3, b""), b"");
    assert_eq!(replace(b"abc", 3..3, b"!"), b"abc!");
    assert_eq!(replace(b"abc", 7..9, b"!"), b"abc!");
}

fn domain(value: &str, domain: &str, replacement: &str) -> Option<String> {
    let mut cookie = SetCookie::parse(value.as_bytes())?;
    let found: Vec<_> = cookie
        .values(b"domain")
        .filter_map(|(index, value)| {
            let part = SetCookie::match_domain(value, domain.as_bytes())?;
            Some((index, replace(value, part, replacement.as_bytes())))
        })
        .collect();
    for (index, value) in found {
        cookie.set_value(index, value);
    }
    let changed = cookie.finish()?;
    Some(String::from_utf8(changed).expect("ASCII"))
}

#[test]
fn cookie_domains() {
    for (value, expected) in [
        ("a=b; domain=LocalHost", Some("a=b; domain=example.org")),
        (
            "a=b;Domain = .localhost ; path=/",
            Some("a=b; Domain=.example.org; path=/"),
        ),
        (
            "a=b; domain=x; domain=localhost",
            Some("a=b; domain=x; domain=example.org"),
        ),
        ("a=domain=localhost", None),
        ("domain=localhost; path=/", None),
        ("a=b; xdomain=localhost", None),
        ("a=b; domain=xlocalhost", None),
        ("a=b; domain=localhostx", None),
        ("a=b; domain", None),
        ("a=b; domain=", None),
        ("a=b; domain=.", None),
        ("a; domain=localhost", None),
        ("", None),
    ] {
        let rewritten = domain(value, "localhost", "example.org");
        assert_eq!(rewritten.as_deref(), expected, "{value:?}");
    }
}

#[test]
fn cookie_paths() {
    let value = b"a=b; Path=/two/x; path=/one";
    let mut cookie = SetCookie::parse(value).expect("a cookie");
    assert_eq!(cookie.name(), b"a");
    let paths: Vec<_> = cookie.values(b"path").collect();
    assert_eq!(paths, [(1, &b"/two/x"[..]), (2, b"/one")]);
    let rewritten = replace_prefix(paths[0].1, 0..paths[0].1.len(), b"/two/", b"/");
    cookie.set_value(1, rewritten.expect("the prefix"));
    assert_eq!(
        cookie.finish().expect("changed"),
        b"a=b; Path=/x; path=/one"
    );
}

fn flags(value: &str, flags: &[&str]) -> Option<String> {
    let mut cookie = SetCookie::parse(value.as_bytes())?;
    let mut wanted = CookieFlags::default();
    for flag in flags {
        assert!(wanted.add(flag.as_bytes()), "{flag}");
    }
    cookie.apply(wanted);
    let changed = cookie.finish()?;
    Some(String::from_utf8(changed).expect("ASCII"))
}

#[test]
fn cookie_flags() {
    for (value, wanted, expected) in [
        ("a=b", &["secure"][..], Some("a=b; Secure")),
        ("a=b; SECURE", &["secure"], None),
        (
            "a=b",
            &["httponly", "Secure"],
            Some("a=b; Secure; HttpOnly"),
        ),
        ("a=b", &["samesite=LAX"], Some("a=b; SameSite=Lax")),
        ("a=b; samesite=lax", &["samesite=lax"], None),
        (
            "a=b; samesite=none; x",
            &["samesite=strict"],
            Some("a=b; SameSite=Strict; x"),
        ),
        (
            "a=b; SameSite ;x",
            &["samesite=none"],
            Some("a=b; SameSite=None; x"),
        ),
        ("a=b;secure;x;Secure", &["nosecure"], Some("a=b; x")),
        ("a=b; httponly", &["nohttponly"], Some("a=b")),
        ("a=b; samesite=x; y", &["nosamesite"], Some("a=b; y")),
        ("a=b; secure=1", &["nosecure"], Some("a=b")),
        ("a=b", &["nosecure", "nohttponly", "nosamesite"], None),
        ("secure=1; x", &["nosecure"], None),
        ("a=b; secure", &["nosecure", "secure"], None),
        (
            "a=b; httponly; path=/",
            &["secure", "nohttponly"],
            Some("a=b; path=/; Secure"),
        ),
        ("a", &["secure"], None),
        ("a=", &["secure"], Some("a=; Secure")),
        (";a=b", &["secure"], None),
        ("a=b;", &["secure"], Some("a=b; ; Secure")),
        ("a=b;;secure;", &["nosecure"], Some("a=b; ; ")),
    ] {
        let rewritten = flags(value, wanted);
        assert_eq!(rewritten.as_deref(), expected, "{value:?} {wanted:?}");
    }
    let mut unknown = CookieFlags::default();
    for flag in ["", "samesite", "samesite=x", "securely", "partitioned"] {
        assert!(!unknown.add(flag.as_bytes()), "{flag}");
    }
    assert_eq!(unknown, CookieFlags::default());
}

#[test]
fn all_changes_of_a_cookie_at_once() {
    let value = b"sid=1; Domain=.b; Secure; Path=/x; SameSite=None";
    let mut cookie = SetCookie::parse(value).expect("a cookie");
    cookie.apply(CookieFlags {
        secure: Some(false),
        http_only: Some(true),
        same_site: Some(SameSite::Lax),
    });
    cookie.set_value(3, b"/".to_vec());
    cookie.set_value(1, b".frontend".to_vec());
    cookie.set_value(77, b"no such attribute".to_vec());
    let changed = cookie.finish().expect("changed");
    let expected = b"sid=1; Domain=.frontend; Path=/; SameSite=Lax; HttpOnly";
    assert_eq!(
        changed.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
}
