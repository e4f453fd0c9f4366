use super::*;

const TIME: i64 = 784_111_777;
const AT: &[u8] = b"Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE: &[u8] = b"Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER: &[u8] = b"Sun, 06 Nov 1994 08:49:38 GMT";
const FILE: Validators<'static> = Validators {
    etag: Some(b"\"abc\""),
    last_modified: Some(TIME),
};

fn verdict(conditions: Preconditions<'_>) -> Verdict {
    evaluate(&conditions, &FILE, IfModifiedSince::Exact)
}

fn none_match(list: &str) -> Verdict {
    verdict(Preconditions {
        if_none_match: Some(list.as_bytes()),
        ..Default::default()
    })
}

fn matches(list: &str) -> Verdict {
    verdict(Preconditions {
        if_match: Some(list.as_bytes()),
        ..Default::default()
    })
}

#[test]
fn no_conditions() {
    assert_eq!(verdict(Preconditions::default()), Verdict::Proceed);
}

#[test]
fn if_none_match() {
    for list in [
        "\"abc\"",
        "W/\"abc\"",
        "\"x\", \"abc\"",
        "*",
        ",\"abc\" ,\"y\"",
        "\"a,b\",\"abc\"",
    ] {
        assert_eq!(none_match(list), Verdict::NotModified, "{list}");
    }
    for list in [
        "\"ab\"",
        "\"abcd\"",
        "abc",
        "",
        ",",
        "\"x,\"abc\"\"",
        "\"*\"",
        "\"abc\"x",
        "**",
    ] {
        assert_eq!(none_match(list), Verdict::Proceed, "{list}");
    }
}

#[test]
fn if_match_compares_strongly() {
    for list in ["\"abc\"", "\"x\",\"abc\"", "*"] {
        assert_eq!(matches(list), Verdict::Proceed, "{list}");
    }
    for list in ["W/\"abc\"", "\"x\"", ""] {
        assert_eq!(matches(list), Verdict::PreconditionFailed, "{list}");
    }
    let weak = Validators {
        etag: Some(b"W/\"abc\""),
        ..FILE
    };
    let conditions = Preconditions {
        if_match: Some(b"W/\"abc\""),
        ..Default::default()
    };
    let got = evaluate(&conditions, &weak, IfModifiedSince::Exact);
    assert_eq!(got, Verdict::PreconditionFailed);
}

#[test]
fn if_modified_since_by_mode() {
    let verdict = |mode, value| {
        let conditions = Preconditions {
            if_modified_since: Some(value),
            ..Default::default()
        };
        evaluate(&conditions, &FILE, mode)
    };
    use IfModifiedSince::{Before, Exact, Off};
    assert_eq!(verdict(Exact, AT), Verdict::NotModified);
    assert_eq!(verdict(Exact, AFTER), Verdict::Proceed);
    assert_eq!(verdict(Exact, BEFORE), Verdict::Proceed);
    assert_eq!(verdict(Before, AT), Verdict::NotModified);
    assert_eq!(verdict(Before, AFTER), Verdict::NotModified);
    assert_eq!(verdict(Before, BEFORE), Verdict::Proceed);
    assert_eq!(verdict(Off, AT), Verdict::Proceed);
    assert_eq!(verdict(Before, b"nonsense"), Verdict::Proceed);
}

#[test]
fn if_unmodified_since() {
    let verdict = |value| {
        verdict(Preconditions {
            if_unmodified_since: Some(value),
            ..Default::default()
        })
    };
    assert_eq!(verdict(AT), Verdict::Proceed);
    assert_eq!(verdict(AFTER), Verdict::Proceed);
    assert_eq!(verdict(BEFORE), Verdict::PreconditionFailed);
    assert_eq!(verdict(b"nonsense"), Verdict::PreconditionFailed);
}

#[test]
fn both_cache_conditions_must_agree() {
    let both = |time, tag| {
        verdict(Preconditions {
            if_modified_since: Some(time),
            if_none_match: Some(tag),
            ..Default::default()
        })
    };
    assert_eq!(both(AT, b"\"abc\""), Verdict::NotModified);
    assert_eq!(both(BEFORE, b"\"abc\""), Verdict::Proceed);
    assert_eq!(both(AT, b"\"x\""), Verdict::Proceed);
}

#[test]
fn representations_without_validators() {
    let conditions = Preconditions {
        if_match: Some(b"\"x\""),
        if_none_match: Some(b"*"),
        ..Default::default()
    };
    let mode = IfModifiedSince::Exact;
    assert_eq!(
        evaluate(&conditions, &Validators::default(), mode),
        Verdict::Proceed
    );
    let no_etag = Validators {
        etag: None,
        last_modified: Some(TIME),
    };
    assert_eq!(
        evaluate(&conditions, &no_etag, mode),
        Verdict::PreconditionFailed
    );
}
