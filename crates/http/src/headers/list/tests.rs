use proptest::prelude::*;

use super::*;

fn list(fields: &[(&str, &str)]) -> HeaderList {
    let mut list = HeaderList::new();
    for (name, value) in fields {
        list.push(name.as_bytes(), value.as_bytes())
            .expect("valid test header");
    }
    list
}

fn text(list: &HeaderList) -> String {
    list.iter()
        .map(|(n, v)| {
            format!(
                "{}={};",
                String::from_utf8_lossy(n),
                String::from_utf8_lossy(v)
            )
        })
        .collect()
}

#[test]
fn keeps_order_spelling_and_duplicates() {
    let mut headers = list(&[("x-A", "1"), ("Set-Cookie", "a"), ("set-cookie", "b")]);
    headers
        .push_known(KnownHeader::Etag, b"\"e\"")
        .expect("valid");
    assert_eq!(
        text(&headers),
        "x-A=1;Set-Cookie=a;set-cookie=b;ETag=\"e\";"
    );
    assert_eq!(headers.get(b"X-a"), Some(&b"1"[..]));
    assert_eq!(headers.get_known(KnownHeader::SetCookie), Some(&b"a"[..]));
    assert_eq!(headers.get(b"etag"), Some(&b"\"e\""[..]));
    assert_eq!(headers.get(b"absent"), None);
    assert_eq!(headers.wire_bytes(), 8 + 15 + 15 + 11);
}

#[test]
fn set_replaces_all_at_the_first_place() {
    let mut headers = list(&[("A", "1"), ("B", "2"), ("a", "3"), ("C", "4")]);
    headers.set(b"a", b"9").expect("valid");
    headers.set(b"D", b"5").expect("valid");
    assert_eq!(text(&headers), "a=9;B=2;C=4;D=5;");
}

#[test]
fn remove_and_clear() {
    let mut headers = list(&[("A", "1"), ("B", "2"), ("a", "3")]);
    assert!(headers.remove(b"A"));
    assert!(!headers.remove(b"A"));
    assert_eq!(text(&headers), "B=2;");
    headers.push(b"C-1", b"4").expect("valid");
    headers.push(b"c-2", b"5").expect("valid");
    headers.remove_chosen(|name| name.to_ascii_lowercase().starts_with(b"c-"));
    assert_eq!(text(&headers), "B=2;");
    headers.clear();
    assert!(headers.is_empty());
    headers.push(b"B", b"").expect("an empty value is valid");
    assert_eq!(text(&headers), "B=;");
}

#[test]
fn refuses_what_would_split_the_response() {
    let mut headers = list(&[("A", "1")]);
    for value in ["x\r\nSet-Cookie: a", "x\n", "x\r", "\0"] {
        assert_eq!(
            headers.push(b"B", value.as_bytes()),
            Err(InvalidHeader::Value)
        );
        assert_eq!(
            headers.set(b"A", value.as_bytes()),
            Err(InvalidHeader::Value)
        );
    }
    for name in ["", "a b", "a:", "a\r", "a\n", "é"] {
        assert_eq!(
            headers.push(name.as_bytes(), b"v"),
            Err(InvalidHeader::Name)
        );
    }
    assert_eq!(text(&headers), "A=1;");
}

#[derive(Clone, Debug)]
enum Change {
    Push(String, String),
    Set(String, String),
    Remove(String),
    Clear,
}

fn change() -> impl Strategy<Value = Change> {
    let name = || prop::sample::select(vec!["a", "A", "b", "ETag", "etag"]).prop_map(str::to_owned);
    prop_oneof![
        6 => (name(), "[a-z]{0,5}").prop_map(|(name, value)| Change::Push(name, value)),
        3 => (name(), "[a-z]{0,5}").prop_map(|(name, value)| Change::Set(name, value)),
        2 => name().prop_map(Change::Remove),
        1 => Just(Change::Clear),
    ]
}

/// The same on a plain vector.
fn apply_to_model(model: &mut Vec<(String, String)>, change: Change) {
    match change {
        Change::Push(name, value) => model.push((name, value)),
        Change::Remove(name) => model.retain(|(other, _)| !other.eq_ignore_ascii_case(&name)),
        Change::Clear => model.clear(),
        Change::Set(name, value) => {
            let is_same = |(other, _): &(String, String)| other.eq_ignore_ascii_case(&name);
            let at = model.iter().position(is_same).unwrap_or(model.len());
            model.retain(|field| !is_same(field));
            model.insert(at, (name, value));
        }
    }
}

proptest! {
    #[test]
    fn a_list_behaves_like_a_vector(changes in prop::collection::vec(change(), 0..30)) {
        let (mut list, mut model) = (HeaderList::new(), Vec::new());
        for change in changes {
            match &change {
                Change::Push(name, value) => list.push(name.as_bytes(), value.as_bytes()).expect("valid"),
                Change::Set(name, value) => list.set(name.as_bytes(), value.as_bytes()).expect("valid"),
                Change::Remove(name) => drop(list.remove(name.as_bytes())),
                Change::Clear => list.clear(),
            }
            apply_to_model(&mut model, change);
            let wanted: String = model.iter().map(|(name, value)| format!("{name}={value};")).collect();
            prop_assert_eq!(text(&list), wanted);
            prop_assert_eq!(list.len(), model.len());
        }
    }
}
