//! What is tried, and the form in which it is written down.
//!
//! ```text
//! # title                      begins a scenario
//! ! all                        in each family, not for `proxy_pass` alone; or: ! fastcgi scgi
//! ! needs 1.23.0               an older nginx does it otherwise
//! ! ours MISS HIT: reason      our answers differ on purpose, and have these cache statuses
//! ! nginx MISS HIT: reason     nginx's rules have these cache statuses (`cache_rules.rs` only)
//! @ location PRE/x { ... }     a line of the server
//! X_cache_valid 1m;            a line of the location `PRE/`; `X` is the family
//! < 200 ETag: "a" | = body     what the origin answers; the last answer is repeated
//! > GET /a Range: bytes=0-1    a request to `PRE/a`; `= text` is a body
//! > 2 GET /a                   the same by HTTP/2
//! > & GET /a                   the same, and the next request does not wait for its answer
//! > until HIT GET /a           repeated until it has this cache status
//! = HIT 200 | Age: 5..9        what its answer is (`cache_rules.rs` only)
//! ? GET /a                     what the origin is asked, all of it (likewise)
//! ~                            waits until what was fresh for one second is stale
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

/// How long a response is fresh that is to be stale soon, at most: times are whole seconds.
pub(crate) const EXPIRY: Duration = Duration::from_millis(2300);

/// The least time for which such a response is fresh.
pub(crate) const FRESH: Duration = Duration::from_millis(900);

/// The protocols of origins.
pub(crate) const FAMILIES: [&str; 4] = ["proxy", "fastcgi", "scgi", "uwsgi"];

/// What is tried.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scenario {
    pub title: String,
    pub family: String,
    /// The version of nginx that it needs.
    pub needs: (u32, u32, u32),
    /// Why our answers differ, and their cache statuses.
    pub differs: Option<(String, String)>,
    /// Lines of the server.
    pub around: Vec<String>,
    /// Lines of the location.
    pub location: Vec<String>,
    pub answers: Vec<String>,
    pub steps: Vec<Step>,
    /// What the origin is asked, if that is written down.
    pub asked: Vec<String>,
}

/// What is done.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Wait,
    Ask(Request),
}

/// A request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub method: String,
    /// Behind the prefix of the scenario.
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub body: String,
    pub is_http2: bool,
    /// The next request does not wait for the answer.
    pub is_begun: bool,
    /// The cache status for which it is repeated.
    pub until: Option<String>,
    /// What its answer is, if that is written down.
    pub expected: Option<String>,
}

/// Reads all scenarios of a text, in every family that they are for.
pub(crate) fn read(table: &str, text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for paragraph in text.split("\n\n") {
        let lines = paragraph.lines().map(str::trim);
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            continue;
        }
        let mut scenario = Scenario {
            title: format!("{table}: {}", lines[0].trim_start_matches("# ")),
            ..Scenario::default()
        };
        let mut families = vec!["proxy"];
        for line in &lines[1..] {
            let rest = line.get(2..).unwrap_or_default();
            match line.split(' ').next().unwrap_or_default() {
                "!" => scenario.remark(rest, &mut families),
                "@" => scenario.around.push(rest.to_owned()),
                "<" => scenario.answers.push(rest.to_owned()),
                ">" => scenario.steps.push(Step::Ask(Request::read(rest))),
                "~" => scenario.steps.push(Step::Wait),
                "=" => match scenario.steps.last_mut() {
                    Some(Step::Ask(request)) => request.expected = Some(rest.to_owned()),
                    _ => panic!("no request before {line:?}"),
                },
                "?" => scenario.asked.push(rest.to_owned()),
                "#" => panic!("an empty line is missing before {line:?}"),
                _ => scenario.location.push((*line).to_owned()),
            }
        }
        assert!(!scenario.steps.is_empty(), "{paragraph}");
        for family in families {
            let family = family.to_owned();
            scenarios.push(Scenario {
                family,
                ..scenario.clone()
            });
        }
    }
    scenarios
}

impl Scenario {
    fn remark<'a>(&mut self, text: &'a str, families: &mut Vec<&'a str>) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word {
            "all" => *families = FAMILIES.to_vec(),
            "needs" => {
                let mut numbers = rest
                    .split('.')
                    .map(|number| number.parse().expect("a version"));
                let mut number = || numbers.next().unwrap_or_default();
                self.needs = (number(), number(), number());
            }
            "ours" | "nginx" => {
                let (statuses, reason) = rest.split_once(": ").expect("a reason");
                self.differs = Some((statuses.to_owned(), reason.to_owned()));
            }
            _ => *families = text.split(' ').collect(),
        }
    }

    /// It in the form in which it is written down.
    pub(crate) fn show(&self) -> String {
        let mut out = format!("# {} ({})\n", self.title, self.family);
        for line in &self.around {
            out.push_str(&format!("@ {line}\n"));
        }
        for line in &self.location {
            out.push_str(&format!("{line}\n"));
        }
        for answer in &self.answers {
            out.push_str(&format!("< {answer}\n"));
        }
        for step in &self.steps {
            match step {
                Step::Wait => out.push_str("~\n"),
                Step::Ask(request) => {
                    out.push_str(&format!("> {}\n", request.show()));
                    if let Some(expected) = &request.expected {
                        out.push_str(&format!("= {expected}\n"));
                    }
                }
            }
        }
        for asked in &self.asked {
            out.push_str(&format!("? {asked}\n"));
        }
        out
    }

    /// Its location and its lines of the server; `port` is that of its origin.
    pub(crate) fn configuration(&self, prefix: &str, port: u16) -> String {
        let family = &*self.family;
        let own = self.location.join("\n");
        let mut lines = String::new();
        if !own.contains("_pass ") {
            lines.push_str(match family {
                "proxy" => "proxy_pass http://127.0.0.1:ORIGIN;\n",
                _ => "X_pass 127.0.0.1:ORIGIN;\n",
            });
        }
        if family != "proxy" {
            lines.push_str(
                "X_param REQUEST_METHOD $request_method; X_param REQUEST_URI $request_uri;
                 X_param CONTENT_LENGTH $content_length;\n",
            );
            if !own.contains("X_cache_key ") {
                lines.push_str("X_cache_key PRE$request_uri;\n");
            }
        }
        if !own.contains("X_cache ") {
            lines.push_str("X_cache FAMILY;\n");
        }
        let around = self.around.join("\n");
        let lines = format!(
            "location PRE/ {{\n{lines}{own}\n
                 add_header X-Cache $upstream_cache_status always; }}\n{around}\n"
        );
        lines
            .replace("PRE", &format!("/{prefix}"))
            .replace("ORIGIN", &port.to_string())
            .replace("FAMILY", family)
            .replace("X_", &format!("{family}_"))
    }
}

impl Request {
    /// Reads `[2] [&] [until STATUS] METHOD TARGET [field | field ...]`.
    pub(crate) fn read(text: &str) -> Request {
        let mut request = Request::default();
        let mut rest = text;
        loop {
            let (word, behind) = rest.split_once(' ').expect("a method and a target");
            rest = behind;
            match word {
                "2" => request.is_http2 = true,
                "&" => request.is_begun = true,
                "until" => {
                    let (status, behind) = rest.split_once(' ').expect("a status");
                    request.until = Some(status.to_owned());
                    rest = behind;
                }
                method => {
                    request.method = method.to_owned();
                    break;
                }
            }
        }
        let (target, fields) = rest.split_once(' ').unwrap_or((rest, ""));
        request.target = target.to_owned();
        for field in fields.split(" | ").filter(|field| !field.is_empty()) {
            match field.strip_prefix("= ") {
                Some(body) => request.body = body.to_owned(),
                None => {
                    let (name, value) = field.split_once(':').expect("a colon");
                    request
                        .fields
                        .push((name.to_owned(), value.trim().to_owned()));
                }
            }
        }
        request
    }

    fn show(&self) -> String {
        let mut out = String::new();
        for (is_so, word) in [(self.is_http2, "2 "), (self.is_begun, "& ")] {
            out.push_str(if is_so { word } else { "" });
        }
        if let Some(status) = &self.until {
            out.push_str(&format!("until {status} "));
        }
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"));
        let mut fields: Vec<String> = fields.collect();
        if !self.body.is_empty() {
            fields.push(format!("= {}", self.body));
        }
        format!(
            "{out}{} {} {}",
            self.method,
            self.target,
            fields.join(" | ")
        )
    }
}

/// What a scenario's locations begin with, behind the slash.
pub(crate) fn prefix(number: usize) -> String {
    format!("s{number}")
}

/// What the origin answers, by the prefix of each scenario.
pub(crate) fn answers<'s>(
    scenarios: impl Iterator<Item = &'s Scenario>,
) -> BTreeMap<String, Vec<String>> {
    let numbered = scenarios.enumerate();
    numbered
        .map(|(number, scenario)| {
            let prefix = prefix(number);
            let answers = scenario.answers.iter();
            let answers = answers.map(|answer| answer.replace("PRE", &format!("/{prefix}")));
            (prefix.clone(), answers.collect())
        })
        .collect()
}
