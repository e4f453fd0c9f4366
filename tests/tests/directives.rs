//! The directive table against a real nginx: where a directive may stand, with how many arguments,
//! and whether a block follows. `crates/conf/src/directives/reference.rs` compares it with lists;
//! here `nginx -t` is asked. Whether values are taken alike is `broken`'s.

use sealane_conf::directives::{self, Row};
use sealane_conf::{MemoryLoader, Options};
use sealane_tests::random::Random;
use sealane_tests::{Site, command, nginx_binary, nginx_has_mail, nginx_has_stream, scale};
use std::collections::BTreeSet;

/// A directive that is unknown to both, at the end: what comes to it was taken, and nothing is
/// opened or bound.
const END: &str = "the_end_of_the_test;";

/// What a server makes of a directive in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    /// The place, the number of arguments and the block are right.
    Fits,
    /// `is not allowed here`.
    Misplaced,
    /// `invalid number of arguments`.
    Count,
    /// `is not terminated by ";"` or `has no opening "{"`.
    Block,
    /// `unknown directive`.
    Unknown,
}

/// The places, each with what stands around the directive.
const PLACES: &[(&str, &str, &str)] = &[
    ("main", "", "events { } http { }"),
    ("events", "events {", "} http { }"),
    ("http", "events { } http {", "}"),
    ("server", "events { } http { server {", "} }"),
    (
        "location",
        "events { } http { server { location / {",
        "} } }",
    ),
    (
        "if in server",
        "events { } http { server { if ($host) {",
        "} } }",
    ),
    (
        "if in location",
        "events { } http { server { location / { if ($host) {",
        "} } } }",
    ),
    (
        "limit_except",
        "events { } http { server { location / { limit_except GET {",
        "} } } }",
    ),
    (
        "upstream",
        "events { } http { upstream group { server 127.0.0.1:1;",
        "} }",
    ),
    ("stream", "events { } stream {", "}"),
    (
        "server in stream",
        "events { } stream { server { listen 127.0.0.1:1;",
        "} }",
    ),
    (
        "upstream in stream",
        "events { } stream { upstream group { server 127.0.0.1:1;",
        "} }",
    ),
    ("mail", "events { } mail {", "}"),
    (
        "server in mail",
        "events { } mail { server { listen 127.0.0.1:1;",
        "} }",
    ),
];

/// Numbers of arguments that are tried.
const COUNTS: &[usize] = &[0, 1, 2, 3, 4, 8];

/// Where Sealane and the nginx that is asked may differ: the directive, the place and why.
const DIFFERENT: &[(&str, &str, &str)] = &[
    (
        "keepalive",
        "upstream",
        "takes \"local\" since nginx 1.29.7",
    ),
    ("resolver", "upstream", "stands there since nginx 1.27.3"),
    ("resolver_timeout", "upstream", "the same"),
    ("resolver", "upstream in stream", "the same"),
    ("resolver_timeout", "upstream in stream", "the same"),
    (
        "ssl_handshake_timeout",
        "http",
        "stands there as well; nginx has it in stream alone",
    ),
    ("ssl_handshake_timeout", "server", "the same"),
    (
        "limit_req",
        "http",
        "takes \"forbid_action=\", as in Tengine",
    ),
    ("limit_req", "server", "the same"),
    ("limit_req", "location", "the same"),
    (
        "limit_req_zone",
        "http",
        "takes several variables, as in Tengine",
    ),
];

/// One question.
#[derive(Debug, Clone, Copy)]
struct Question {
    name: &'static str,
    place: usize,
    count: usize,
    block: bool,
}

impl Question {
    fn text(self) -> String {
        let (_, before, after) = PLACES[self.place];
        let arguments = " 1".repeat(self.count);
        let end = if self.block { "{ }" } else { ";" };
        format!("{before} {}{arguments} {end} {after} {END}", self.name)
    }

    fn place(self) -> &'static str {
        PLACES[self.place].0
    }

    fn may_differ(self) -> bool {
        let is_this =
            |(name, place, _): &(&str, &str, &str)| *name == self.name && *place == self.place();
        DIFFERENT.iter().any(is_this)
    }

    /// What a message says about the directive.
    fn verdict(self, message: &str) -> Verdict {
        let name = self.name;
        let has = |what: String| message.contains(&what);
        if has(format!("unknown directive \"{name}\"")) {
            Verdict::Unknown
        } else if has(format!("\"{name}\" directive is not allowed here")) {
            Verdict::Misplaced
        } else if has(format!(
            "invalid number of arguments in \"{name}\" directive"
        )) {
            Verdict::Count
        } else if has(format!("directive \"{name}\" is not terminated by"))
            || has(format!("directive \"{name}\" has no opening"))
        {
            Verdict::Block
        } else {
            Verdict::Fits
        }
    }

    fn sealane(self) -> Verdict {
        let mut files = MemoryLoader::new().with("/conf", self.text());
        let refused = sealane_conf::parse(&Options::new("/conf", "/prefix"), &mut files);
        let refused = refused.expect_err("the end is a fault");
        self.verdict(&refused.error.message)
    }

    fn nginx(self, site: &Site) -> Verdict {
        let file = site.write("nginx.conf", self.text());
        let prefix = site.path("").display().to_string();
        let file = file.display().to_string();
        let nginx = nginx_binary().display().to_string();
        let arguments = ["-t", "-p", &prefix, "-c", &file, "-e", "stderr"];
        let outcome = command(&nginx, &arguments, b"");
        assert_ne!(outcome.status, 0, "the end is a fault: {}", self.text());
        self.verdict(&outcome.stderr)
    }
}

/// Directives of nginx, each once. Those that a line of a test must not have are left out.
fn names() -> Vec<&'static str> {
    let of_nginx = |row: &&Row| !row.own && row.name != "include";
    let names: BTreeSet<&str> = directives::rows()
        .filter(of_nginx)
        .map(|row| row.name)
        .collect();
    names.into_iter().collect()
}

fn questions(names: &[&'static str]) -> Vec<Question> {
    let mut list = Vec::new();
    let (has_stream, has_mail) = (nginx_has_stream(), nginx_has_mail());
    let can_be_asked = |place: &usize| {
        let (name, _, _) = PLACES[*place];
        (has_stream || !name.ends_with("stream")) && (has_mail || !name.ends_with("mail"))
    };
    let places: Vec<usize> = (0..PLACES.len()).filter(can_be_asked).collect();
    for &name in names {
        for &place in &places {
            for &count in COUNTS {
                let block = false;
                list.push(Question {
                    name,
                    place,
                    count,
                    block,
                });
            }
            let (count, block) = (1, true);
            list.push(Question {
                name,
                place,
                count,
                block,
            });
        }
    }
    list
}

#[test]
fn directives_stand_where_nginx_lets_them_with_as_many_arguments() {
    let mut random = Random::new(29); // the same questions in every short run
    let mut questions = questions(&names());
    assert!(questions.len() > 20_000, "{}", questions.len());
    let asked = scale(240, questions.len());
    for at in 0..asked {
        let other = at + random.below(questions.len() - at);
        questions.swap(at, other);
    }
    let share = asked.div_ceil(4);
    let answers: Vec<(Vec<String>, usize)> = std::thread::scope(|scope| {
        let shares = questions[..asked].chunks(share);
        let running: Vec<_> = shares
            .map(|share| scope.spawn(move || ask(share)))
            .collect();
        running
            .into_iter()
            .map(|share| share.join().expect("nginx answers"))
            .collect()
    });
    let known: usize = answers.iter().map(|(_, known)| known).sum();
    eprintln!("{asked} questions, {known} about directives that this nginx has");
    assert!(known > asked / 2, "nginx knows {known} of {asked}");
    let faults: Vec<String> = answers.into_iter().flat_map(|(faults, _)| faults).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The differences, and how many of the questions were about directives that this nginx has.
fn ask(questions: &[Question]) -> (Vec<String>, usize) {
    let site = Site::new();
    let mut faults = Vec::new();
    let mut known = 0;
    for question in questions {
        let nginx = question.nginx(&site);
        if nginx == Verdict::Unknown || question.may_differ() {
            continue;
        }
        known += 1;
        let here = question.sealane();
        if here != nginx {
            let Question {
                name, count, block, ..
            } = question;
            let place = question.place();
            faults.push(format!(
                "{name} in {place} with {count} arguments, block: {block}: nginx {nginx:?}, here {here:?}"
            ));
        }
    }
    (faults, known)
}

#[test]
fn every_directive_is_asked_about_and_the_answers_are_told_apart() {
    let names = names();
    assert!(names.len() > 500, "{}", names.len());
    let question = |name, place, count, block| Question {
        name,
        place,
        count,
        block,
    };
    let site = Site::new();
    for (question, verdict) in [
        (question("root", 3, 1, false), Verdict::Fits),
        (question("root", 0, 1, false), Verdict::Misplaced),
        (question("root", 3, 2, false), Verdict::Count),
        (question("root", 3, 1, true), Verdict::Block),
        (question("server", 2, 0, false), Verdict::Block),
        (question("made_up", 2, 0, false), Verdict::Unknown),
    ] {
        assert_eq!(question.sealane(), verdict, "{question:?}");
        assert_eq!(question.nginx(&site), verdict, "{question:?}");
    }
}
