use std::borrow::Cow;

use proptest::prelude::*;

use super::*;
use crate::Method;
use crate::fuzz::fuzz_uri;

fn path_of(target: &str, merge_slashes: bool) -> Result<String, UriError> {
    let normal = normalise(target.as_bytes(), merge_slashes)?;
    Ok(String::from_utf8_lossy(&normal.path).into_owned())
}

#[track_caller]
fn assert_path(target: &str, wanted: &str) {
    assert_eq!(path_of(target, true).as_deref(), Ok(wanted), "{target}");
}

#[test]
fn normal_paths_are_borrowed() {
    for target in [
        "/",
        "/a",
        "/a/b.html",
        "/a.b/c..d/e...",
        "/a+b;c=d:@&$",
        "/ä",
        "/a/",
    ] {
        let normal = normalise(target.as_bytes(), true).expect("normal");
        assert!(matches!(normal.path, Cow::Borrowed(_)), "{target}");
        assert_eq!(&*normal.path, target.as_bytes());
        assert!(normal.args.is_none() && !normal.was_encoded);
    }
}

#[test]
fn dot_segments() {
    assert_path("/a/./b", "/a/b");
    assert_path("/./a", "/a");
    assert_path("/a/.", "/a/");
    assert_path("/.", "/");
    assert_path("/a/../b", "/b");
    assert_path("/a/..", "/");
    assert_path("/a/b/..", "/a/");
    assert_path("/a/b/../", "/a/");
    assert_path("/a/b/../../c", "/c");
    assert_path("/a/./../b", "/b");
    // Not dot segments at all.
    assert_path("/.a", "/.a");
    assert_path("/..a", "/..a");
    assert_path("/a../b", "/a../b");
    assert_path("/...", "/...");
    assert_path("/.../a", "/.../a");
    assert_path("/a./b", "/a./b");
}

#[test]
fn climbing_above_the_root_is_refused() {
    for target in [
        "/..",
        "/../",
        "/../a",
        "/a/../..",
        "/a/../../b",
        "/./..",
        "/%2e%2e",
        "/..?a",
        "/..#a",
    ] {
        assert_eq!(path_of(target, true), Err(UriError::AboveRoot), "{target}");
    }
}

#[test]
fn slashes_are_merged_unless_told_otherwise() {
    assert_path("//", "/");
    assert_path("//a///b//", "/a/b/");
    assert_path("/a/.//b", "/a/b");
    assert_path("/a//../b", "/b");
    let kept = |target| path_of(target, false).expect("valid");
    assert_eq!(kept("//a//b"), "//a//b");
    assert_eq!(kept("/a//../b"), "/a/b");
    assert_eq!(kept("/a/./b"), "/a/b");
    assert_eq!(kept("/a/b/../c"), "/a/c");
    assert_eq!(kept("/a/.//b"), "/a//b");
}

#[test]
fn decoding_comes_first() {
    assert_path("/%61%2Fb%2f%2Fc", "/a/b/c");
    assert_path("/a/%2e%2E/b", "/b");
    assert_path("/a/%2e/b", "/a/b");
    assert_path("/a/.%2e", "/");
    assert_path("/%25%3f%23", "/%?#");
    assert_path("/%2541", "/%41");
    assert_path("/%C3%A4", "/ä");
    assert_path("/a%20b%0d%0a", "/a b\r\n");
    let was_encoded = |target: &'static [u8]| normalise(target, true).expect("valid").was_encoded;
    assert!(was_encoded(b"/%61"));
    assert!(!was_encoded(b"/a/../b?%61"));
    assert!(!was_encoded(b"?%61"));
}

#[test]
fn malformed_escapes() {
    for target in ["/%", "/%4", "/%zz", "/%4g", "/a%?", "/%%41", "/%4%31"] {
        assert_eq!(path_of(target, true), Err(UriError::Escape), "{target}");
    }
    assert_eq!(path_of("/a%00b", true), Err(UriError::Nul));
    assert_eq!(path_of("/a\0b", true), Err(UriError::Nul));
    assert_eq!(path_of("//\0", true), Err(UriError::Nul));
}

#[test]
fn query_and_fragment() {
    let parts = |target: &'static str| {
        let normal = normalise(target.as_bytes(), true).expect("valid");
        let path = String::from_utf8_lossy(&normal.path).into_owned();
        (
            path,
            normal
                .args
                .map(|args| std::str::from_utf8(args).expect("ASCII")),
        )
    };
    assert_eq!(parts("/a?b=%41&c"), ("/a".into(), Some("b=%41&c")));
    assert_eq!(parts("/a?"), ("/a".into(), Some("")));
    assert_eq!(parts("/a?b?c"), ("/a".into(), Some("b?c")));
    assert_eq!(parts("/a?b#c?d"), ("/a".into(), Some("b")));
    assert_eq!(parts("/a#b?c"), ("/a".into(), None));
    assert_eq!(parts("/a#"), ("/a".into(), None));
    assert_eq!(parts("//a/../b?c=/../d"), ("/b".into(), Some("c=/../d")));
    assert_eq!(parts("/%61?b#c"), ("/a".into(), Some("b")));
    assert_eq!(parts(""), ("/".into(), None));
    assert_eq!(parts("?a"), ("/".into(), Some("a")));
    assert_eq!(normalise(b"#a", true), Err(UriError::Form));
    assert_eq!(normalise(b"a", true), Err(UriError::Form));
}

#[test]
fn authorities() {
    let parts = |text: &'static str| {
        let authority = parse_authority(text.as_bytes())?;
        let host = authority.host.of(text.as_bytes());
        Ok((std::str::from_utf8(host).expect("ASCII"), authority.port))
    };
    assert_eq!(parts("example.com"), Ok(("example.com", None)));
    assert_eq!(parts("Example.com.:8080"), Ok(("Example.com", Some(8080))));
    assert_eq!(parts("a_b-c~"), Ok(("a_b-c~", None)));
    assert_eq!(parts("127.0.0.1:"), Ok(("127.0.0.1", None)));
    assert_eq!(parts("[::1]"), Ok(("[::1]", None)));
    assert_eq!(parts("[::1]:443"), Ok(("[::1]", Some(443))));
    assert_eq!(parts("a:0"), Ok(("a", Some(0))));
    assert_eq!(parts("a%2fB:1"), Ok(("a%2fB", Some(1))));
    for bad in [
        "",
        ":80",
        ".",
        "a:b",
        "a:70000",
        "[::1",
        "[a..b::1]",
        "::1",
        "a]",
        "u@h",
        "a/",
        "a b",
    ] {
        assert_eq!(parts(bad), Err(UriError::Host), "{bad:?}");
    }
}

#[test]
fn target_forms() {
    let split = |target: &str, method| split_target(target.as_bytes(), method);
    assert_eq!(split("/a?b", Method::Get), Ok(TargetForm::Origin));
    assert_eq!(split("*", Method::Options), Ok(TargetForm::Asterisk));
    assert_eq!(split("*", Method::Get), Err(UriError::Form));
    assert_eq!(split("", Method::Get), Err(UriError::Form));
    assert_eq!(split("a/b", Method::Get), Err(UriError::Form));
    assert_eq!(split("http:/h/", Method::Get), Err(UriError::Form));
    assert_eq!(split("1http://h/", Method::Get), Err(UriError::Form));
    assert_eq!(split("http:///", Method::Get), Err(UriError::Host));
    assert_eq!(split("http://u:p@h/", Method::Get), Err(UriError::Host));
    assert_eq!(split("/a b", Method::Get), Err(UriError::Character));
    assert_eq!(split("http://h#a", Method::Get), Err(UriError::Host));
    assert_eq!(split("http://a_b/", Method::Get), Err(UriError::Host));
    assert_eq!(split("http://%61/", Method::Get), Err(UriError::Host));
    assert!(split("http://[::1]:80/", Method::Get).is_ok());
    assert!(split("coap+tcp://h", Method::Get).is_ok());
}

#[test]
fn escape_kinds() {
    let all: Vec<u8> = (0x20..=0x80).collect();
    let escaped = |kind| String::from_utf8(escape(&all, kind).into_owned()).expect("ASCII");
    let plain = |kind: EscapeKind| -> String {
        // What is left as it is.
        let text = escaped(kind);
        let bytes = text.as_bytes();
        let mut kept = String::new();
        let mut index = 0;
        while index < bytes.len() {
            if bytes[index] == b'%' && kind != EscapeKind::Refresh {
                index += 3;
            } else {
                kept.push(bytes[index] as char);
                index += 1;
            }
        }
        kept.replace(|c: char| c.is_ascii_alphanumeric(), "")
    };
    assert_eq!(plain(EscapeKind::Uri), "!$&'()*+,-./:;=@[]_~");
    assert_eq!(plain(EscapeKind::Args), "!$'()*,-./:=@[]_~");
    assert_eq!(plain(EscapeKind::UriComponent), "-._~");
    assert_eq!(plain(EscapeKind::Html), "!$&()*+,-./:;=?@[]_~");
    assert_eq!(
        &*escape(b"a%20 '\"#", EscapeKind::Refresh),
        b"a%20%20%27%22#"
    );
    assert_eq!(
        &*escape(b"a \x01%/\x7f\xff", EscapeKind::Memcached),
        b"a%20%01%25/\x7f\xff"
    );
    assert_eq!(&*escape(b"\xc3\xa4", EscapeKind::Uri), b"%C3%A4");
    assert!(matches!(
        escape(b"/plain", EscapeKind::Uri),
        Cow::Borrowed(_)
    ));
}

#[test]
fn unescaping_leaves_malformed_escapes() {
    assert_eq!(&*unescape(b"a%41%zz%4%"), b"aA%zz%4%");
    assert_eq!(&*unescape(b"%00%ff"), b"\0\xff");
    assert!(matches!(unescape(b"plain"), Cow::Borrowed(_)));
}

/// The rules again, slowly: split into segments and resolve them.
fn normalise_by_segments(path: &str, merge_slashes: bool) -> Option<String> {
    let mut segments: Vec<&str> = Vec::new();
    let mut rest = path.strip_prefix('/')?.split('/').peekable();
    while let Some(segment) = rest.next() {
        let is_last = rest.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                segments.pop()?;
            }
            "" if merge_slashes && !is_last => {}
            _ if is_last => {
                segments.push(segment);
                return Some(format!("/{}", segments.join("/")));
            }
            _ => segments.push(segment),
        }
    }
    segments.push("");
    Some(format!("/{}", segments.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn paths_are_resolved_segment_by_segment(path in "/([.]{1,3}/|a/|bc/|/){0,8}([.]{0,3}|d)", merge in any::<bool>()) {
        let wanted = normalise_by_segments(&path, merge).ok_or(UriError::AboveRoot);
        prop_assert_eq!(path_of(&path, merge), wanted);
    }

    #[test]
    fn encoding_any_byte_changes_nothing(path in "/[a-z./]{0,12}", seed in any::<u64>()) {
        let encoded: String = path.bytes().enumerate().map(|(index, byte)| {
            // The first slash must be written as one.
            if index > 0 && seed >> (index % 64) & 1 == 1 {
                format!("%{byte:02x}")
            } else {
                (byte as char).to_string()
            }
        }).collect();
        prop_assert_eq!(path_of(&encoded, true), path_of(&path, true));
    }

    #[test]
    fn targets_hold_the_invariants(pieces in prop::collection::vec(prop::sample::select(vec![
        "/", "/", "..", ".", "%2e", "%2F", "%", "%00", "%25", "a", "?", "#", "http://", "h", ":80",
        "[::1]", "@", "\u{1}", "é",
    ]), 0..16)) {
        fuzz_uri(pieces.concat().as_bytes());
    }

    #[test]
    fn arbitrary_targets_hold_the_invariants(data in prop::collection::vec(any::<u8>(), 0..64)) {
        fuzz_uri(&data);
    }
}
