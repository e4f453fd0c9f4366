use super::*;
use crate::testing::parse;
use proptest::prelude::*;

/// The tree of a server's locations, with each one's index as nginx would name it.
struct Fixture {
    tree: LocationTree,
    registered: Vec<Arc<Location>>,
    locations: Locations,
}

fn compile(server: &str) -> Fixture {
    let config = parse(&format!("events {{}} http {{ server {{ {server} }} }}"));
    let http = config.http.expect("there is an http block");
    let locations = http.servers[0].locations.clone();
    let mut registered = Vec::new();
    let tree = LocationTree::build(&locations, &mut |location| {
        registered.push(location);
        LocationId(registered.len() as u32 - 1)
    });
    Fixture {
        tree,
        registered,
        locations,
    }
}

impl Fixture {
    fn find(&self, uri: &str) -> Option<&Arc<Location>> {
        let found = self
            .tree
            .find(uri.as_bytes())
            .expect("these expressions are simple");
        found.location.map(|id| &self.registered[id.0 as usize])
    }

    /// The location as it is written, `-` for none.
    fn name(&self, uri: &str) -> String {
        match self.find(uri).map(|location| &location.matcher) {
            None => "-".into(),
            Some(Matcher::Exact(text)) => format!("= {}", text.escape_ascii()),
            Some(Matcher::Prefix { prefix, stop }) => {
                format!(
                    "{}{}",
                    if *stop { "^~ " } else { "" },
                    prefix.escape_ascii()
                )
            }
            Some(Matcher::Regex(regex)) => format!("~ {}", regex.pattern()),
            Some(Matcher::Named(name)) => format!("@{name}"),
        }
    }

    fn check(&self, expected: &[(&str, &str)]) {
        for (uri, name) in expected {
            assert_eq!(self.name(uri), *name, "{uri}");
        }
    }
}

/// The example of nginx's manual.
#[test]
fn the_manual_s_example() {
    let fixture = compile(
        "location = / {} location / {} location /documents/ {} \
         location ^~ /images/ {} location ~* \\.(gif|jpg|jpeg)$ {}",
    );
    fixture.check(&[
        ("/", "= /"),
        ("/index.html", "/"),
        ("/documents/document.html", "/documents/"),
        ("/images/1.gif", "^~ /images/"),
        ("/documents/1.jpg", "~ \\.(gif|jpg|jpeg)$"),
        ("/documents/1.JPG", "~ \\.(gif|jpg|jpeg)$"),
    ]);
}

#[test]
fn the_longest_prefix_wins_whatever_the_order() {
    let fixture = compile("location /a/b {} location /a {} location /a/bc/d {} location /b/ {}");
    fixture.check(&[
        ("/a", "/a"),
        ("/a/b", "/a/b"),
        ("/a/bc", "/a/b"),
        ("/a/bc/d/e", "/a/bc/d"),
        ("/ab", "/a"),
        ("/b", "-"),
        ("/b/", "/b/"),
        ("/", "-"),
    ]);
}

#[test]
fn expressions_are_tried_in_order_and_by_case() {
    let fixture = compile("location / {} location ~ a {} location ~ ab {} location ~* X {}");
    fixture.check(&[("/ab", "~ a"), ("/x", "~ X"), ("/A", "/"), ("/b", "/")]);
}

#[test]
fn nested_expressions_come_before_outer_ones() {
    let fixture = compile(
        "location /a/ { location ~ \\.php$ {} location /a/b/ {} } \
         location ^~ /stop/ { location ~ \\.txt$ {} } \
         location ~ php { location ~ x {} }",
    );
    fixture.check(&[
        ("/a/i.php", "~ \\.php$"),
        // The nested prefix is chosen, but the outer expression still wins.
        ("/a/b/php", "~ php"),
        ("/a/b/c", "/a/b/"),
        // `^~` keeps away the expressions of its own level, not those inside it.
        ("/stop/php", "^~ /stop/"),
        ("/stop/php.txt", "~ \\.txt$"),
        ("/php/x", "~ x"),
        ("/php/y", "~ php"),
    ]);
}

#[test]
fn named_locations_are_found_by_name_only() {
    let fixture = compile("location / {} location @fallback {}");
    let id = fixture.tree.named("fallback").expect("it is there");
    let location = &fixture.registered[id.0 as usize];
    assert!(matches!(&location.matcher, Matcher::Named(name) if &**name == "fallback"));
    assert_eq!(fixture.tree.named("/"), None);
    fixture.check(&[("/@fallback", "/"), ("@fallback", "-")]);
}

#[test]
fn captures_are_those_of_the_expression_that_won() {
    let fixture = compile("location ~ ^/(\\w+)/ { location ~ /(\\d+)$ {} }");
    let group = |uri: &str| {
        let found = fixture.tree.find(uri.as_bytes()).expect("simple");
        let (_, captures) = found.captures.expect("an expression matched");
        String::from_utf8_lossy(captures.get(uri.as_bytes(), 1).unwrap_or_default()).into_owned()
    };
    assert_eq!(group("/user/x"), "user");
    assert_eq!(group("/user/42"), "42");
}

#[test]
fn named_groups_of_expressions_around_are_kept() {
    let fixture = compile("location ~ ^/(?<one>\\w+)/ { location ~ ^/(\\w) { location ~ x$ {} } }");
    let around = |uri: &str| {
        let found = fixture.tree.find(uri.as_bytes()).expect("simple");
        let each = found.around.iter();
        let names = each.map(|(regex, _)| regex.pattern().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(around("/user/y"), ["^/(?<one>\\w+)/"]);
    assert_eq!(around("/user/x"), ["^/(?<one>\\w+)/"]);
    assert_eq!(around("/x"), Vec::<String>::new());
}

#[test]
fn an_expression_that_gives_up_is_an_error() {
    let fixture = compile("location ~ ^/(a+)+$ {} ");
    let uri = format!("/{}b", "a".repeat(4000));
    match fixture.tree.find(uri.as_bytes()) {
        Err(error) => assert_eq!(error.pattern, "^/(a+)+$"),
        // A PCRE2 that sees through it finds that there is no match.
        Ok(found) => assert_eq!(found.location, None),
    }
}

/// The rules once more, without any structure: every location is looked at.
fn naive<'l>(locations: &'l Locations, uri: &[u8], best: &mut Option<&'l Arc<Location>>) -> bool {
    for location in &locations.exact {
        if matches!(&location.matcher, Matcher::Exact(text) if **text == *uri) {
            *best = Some(location);
            return true;
        }
    }
    let prefix = |location: &Location| match &location.matcher {
        Matcher::Prefix { prefix, stop } if uri.starts_with(prefix) => Some((prefix.len(), *stop)),
        _ => None,
    };
    let longest = locations
        .prefix
        .iter()
        .filter(|l| prefix(l).is_some())
        .max_by_key(|l| prefix(l));
    if let Some(location) = longest {
        *best = Some(location);
        if naive(&location.children, uri, best) {
            return true;
        }
        if prefix(location).is_some_and(|(_, stop)| stop) {
            return false;
        }
    }
    for location in &locations.regex {
        if matches!(&location.matcher, Matcher::Regex(regex) if regex.is_match(uri) == Ok(true)) {
            *best = Some(location);
            naive(&location.children, uri, best);
            return true;
        }
    }
    false
}

fn uri() -> impl Strategy<Value = String> {
    "(/[ab]{0,2}){1,4}".prop_map(|text| text)
}

/// Locations of one level, those of prefixes and expressions with a level inside.
fn level(below: String, depth: u32) -> BoxedStrategy<String> {
    let tail = prop_oneof!["[ab/]{0,2}", "[ab/]{1,4}"];
    let entry = (0..7u8, tail, "[ab]{1,2}\\$?", any::<bool>());
    let entries = prop::collection::vec(entry, 0..5);
    entries
        .prop_flat_map(move |entries| {
            let below = below.clone();
            let mut seen = std::collections::HashSet::new();
            let parts: Vec<_> = entries
                .into_iter()
                .filter_map(|(kind, tail, regex, stop)| {
                    let path = format!("{below}{tail}");
                    let path = if path.is_empty() {
                        "/".to_owned()
                    } else {
                        path
                    };
                    let is_regex = kind >= 5;
                    let is_exact = kind == 0;
                    // nginx refuses a location that is there already.
                    if !is_regex && !seen.insert((is_exact, path.clone())) {
                        return None;
                    }
                    let head = match kind {
                        0 => format!("= {path}"),
                        1..5 if stop => format!("^~ {path}"),
                        1..5 => path.clone(),
                        _ => format!("~ {regex}"),
                    };
                    // Prefixes inside an expression would have to begin with its text.
                    let inside = if depth == 0 || is_exact || is_regex {
                        Just(String::new()).boxed()
                    } else {
                        level(path, depth - 1)
                    };
                    Some(inside.prop_map(move |inside| format!("location {head} {{ {inside} }} ")))
                })
                .collect();
            parts.prop_map(|parts| parts.concat())
        })
        .boxed()
}

proptest! {
    #[test]
    fn agrees_with_the_rules_applied_one_by_one(
        server in level("/".into(), 2),
        uris in prop::collection::vec(uri(), 1..20),
    ) {
        let fixture = compile(&server);
        for uri in uris {
            let mut expected = None;
            naive(&fixture.locations, uri.as_bytes(), &mut expected);
            let found = fixture.find(&uri);
            let same = match (found, expected) {
                (Some(found), Some(expected)) => Arc::ptr_eq(found, expected),
                (None, None) => true,
                _ => false,
            };
            prop_assert!(same, "{uri}: {}, in {server}", fixture.name(&uri));
        }
    }
}
