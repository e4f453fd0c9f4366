use super::*;

fn response(lines: &[&str]) -> ResponseDirectives {
    ResponseDirectives::read(lines.iter().map(|line| line.as_bytes()))
}

fn request(line: &str) -> RequestDirectives {
    RequestDirectives::read([line.as_bytes()].into_iter())
}

fn targeted(line: &str) -> Option<ResponseDirectives> {
    ResponseDirectives::read_targeted([line.as_bytes()].into_iter())
}

fn fields(names: &[&str]) -> Scope {
    Scope::Fields(names.iter().map(|name| name.as_bytes().into()).collect())
}

#[test]
fn numbers_are_digits_and_nothing_else() {
    let max_age = |text: &str| response(&[&format!("max-age{text}")]).max_age;
    for (text, expected) in [
        ("=5", Seconds::Number(5)),
        ("=\"5\"", Seconds::Number(5)),
        ("=\"\\5\"", Seconds::Number(5)),
        ("=003600", Seconds::Number(3600)),
        ("=99999999999999999999", Seconds::Number(MAX_SECONDS)),
        ("=2147483648", Seconds::Number(MAX_SECONDS)),
        ("=2147483647", Seconds::Number(MAX_SECONDS - 1)),
        ("", Seconds::Invalid),
        ("=", Seconds::Invalid),
        ("=-5", Seconds::Invalid),
        ("=+5", Seconds::Invalid),
        ("=5.0", Seconds::Invalid),
        ("=5a", Seconds::Invalid),
        ("='5'", Seconds::Invalid),
        ("= 5", Seconds::Invalid),
        (" =5", Seconds::Invalid),
        ("=\"5", Seconds::Invalid),
        ("=\"5\"x", Seconds::Invalid),
    ] {
        assert_eq!(max_age(text), Some(expected), "{text:?}");
    }
    assert_eq!(max_age("s=5"), None);
}

#[test]
fn names_have_any_case_and_strings_hide_what_they_contain() {
    let found = response(&["MAX-age=1 , x=\"max-age=2, no-store\",,s-maxage=3"]);
    assert_eq!(found.max_age, Some(Seconds::Number(1)));
    assert_eq!(found.s_maxage, Some(Seconds::Number(3)));
    assert!(!found.no_store);
    let found = response(&["x=\"a\\\", no-store\", No-Cache"]);
    assert!(!found.no_store);
    assert_eq!(found.no_cache, Scope::Everything);
    // A string that does not end hides nothing.
    assert!(response(&["x=\"a, no-store"]).no_store);
    assert!(!response(&["no-storex, xno-store"]).no_store);
}

#[test]
fn the_first_number_counts_whatever_lines_it_is_in() {
    let first = |lines: &[&str]| response(lines).max_age;
    assert_eq!(first(&["max-age=1, max-age=2"]), Some(Seconds::Number(1)));
    assert_eq!(
        first(&["public", "max-age=2", "max-age=1"]),
        Some(Seconds::Number(2))
    );
    assert_eq!(first(&["max-age=x, max-age=1"]), Some(Seconds::Invalid));
}

#[test]
fn fields_are_listed_or_everything_is_meant() {
    assert_eq!(response(&["no-cache"]).no_cache, Scope::Everything);
    assert_eq!(
        response(&["no-cache=\"A, b\""]).no_cache,
        fields(&["a", "b"])
    );
    assert_eq!(
        response(&["private=Set-Cookie"]).private,
        fields(&["set-cookie"])
    );
    assert_eq!(
        response(&["private=\"a\"", "private=\"b\""]).private,
        fields(&["a", "b"])
    );
    for everything in [
        "private, private=\"a\"",
        "private=\"a\", private",
        "private=\"\"",
        "private=(a)",
    ] {
        assert_eq!(
            response(&[everything]).private,
            Scope::Everything,
            "{everything}"
        );
    }
    assert!(response(&["private=\"X-A\""]).private.names(b"x-a"));
    assert!(!response(&["private"]).private.names(b"x-a"));
}

#[test]
fn what_forbids_stale_responses() {
    for (text, expected) in [
        ("max-age=1, stale-if-error=5", false),
        ("no-cache=\"a\"", false),
        ("must-revalidate", true),
        ("Proxy-Revalidate", true),
        ("s-maxage=1", true),
        ("no-cache", true),
    ] {
        assert_eq!(response(&[text]).forbids_stale(), expected, "{text:?}");
    }
}

#[test]
fn requests_wish() {
    assert_eq!(request("nothing-to-see-here"), RequestDirectives::default());
    let found = request("No-Cache, no-store, only-if-cached, max-age=1, min-fresh=2, max-stale=3");
    let expected = RequestDirectives {
        no_cache: true,
        no_store: true,
        only_if_cached: true,
        max_age: Some(1),
        min_fresh: Some(2),
        max_stale: Some(3),
    };
    assert_eq!(found, expected);
    assert_eq!(request("max-stale").max_stale, Some(MAX_SECONDS));
    assert_eq!(
        request("max-stale=x, max-age=-1"),
        RequestDirectives::default()
    );
}

#[test]
fn the_targeted_field_is_a_dictionary() {
    let found =
        targeted("max-age=5, no-store;a=1;b, foo=bar, private=\"a, B\", x=(1 \"b\";c);d=?0")
            .expect("a dictionary");
    assert_eq!(found.max_age, Some(Seconds::Number(5)));
    assert!(found.no_store);
    assert_eq!(found.private, fields(&["a", "b"]));
    assert_eq!(
        targeted("no-store=?0, max-age=1").map(|it| it.no_store),
        Some(false)
    );
    // The last one counts here.
    let last = targeted("max-age=1, max-age=2").and_then(|it| it.max_age);
    assert_eq!(last, Some(Seconds::Number(2)));
    let long = targeted("max-age=99999999999").and_then(|it| it.max_age);
    assert_eq!(long, Some(Seconds::Number(MAX_SECONDS)));
    // A value of another type is as if it were not there.
    for other in [
        "max-age=\"5\"",
        "max-age=5.5",
        "max-age=:YQ==:",
        "max-age=a/b",
    ] {
        assert_eq!(targeted(other).map(|it| it.max_age), Some(None), "{other}");
    }
    let negative = targeted("max-age=-5").and_then(|it| it.max_age);
    assert_eq!(negative, Some(Seconds::Invalid));
}

#[test]
fn what_is_no_dictionary_does_not_count() {
    for text in [
        "",
        " ",
        "max-age=5,",
        "max-age=5 no-store",
        "max-age=5, &&&&&",
        "max-age =5",
        "max-age= 5",
        "Max-Age=5",
        "max-age=",
        "max-age=5;",
        "max-age=1234567890123456",
        "max-age=1.",
        "max-age=?2",
        "a=\"b",
        "a=\"\\b\"",
        "a=(1",
        "a=(1,2)",
        "a=:b",
        "a=@1.5",
    ] {
        assert_eq!(targeted(text), None, "{text:?}");
    }
    assert!(targeted("a=@15, b=%\"x\", c").is_some());
    let lines = [&b"max-age=1"[..], b"no-store"];
    let found = ResponseDirectives::read_targeted(lines.into_iter());
    assert!(found.is_some_and(|found| found.no_store && found.max_age.is_some()));
}

proptest::proptest! {
    #[test]
    fn nothing_hides_what_follows(value in proptest::collection::vec(
        proptest::sample::select(b"max-age=1,no-store \"\\;:@%(?*x".to_vec()), 0..40)
    ) {
        crate::fuzz::fuzz_cache_control(&value);
    }
}
