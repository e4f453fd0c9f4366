//! Configurations that a grammar makes up: what a server block may say, in any order and
//! nesting.

use crate::words::{
    CONDITIONS, HANDLERS, IN_IF, ODD, PATHS, REGEXES, REPEATABLE, REWRITES, SERVER_ONLY, SETTINGS,
    VARIABLES,
};
use sealane_tests::random::Random;

/// A directive, with what stands in its block if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub text: String,
    pub inside: Option<Vec<Node>>,
}

impl Node {
    fn line(text: String) -> Node {
        Node { text, inside: None }
    }

    /// Appends it as text, one directive to a line.
    pub(crate) fn write(&self, depth: usize, out: &mut String) {
        let indent = "    ".repeat(depth);
        let Some(inside) = &self.inside else {
            out.push_str(&format!("{indent}{};\n", self.text));
            return;
        };
        out.push_str(&format!("{indent}{} {{\n", self.text));
        for node in inside {
            node.write(depth + 1, out);
        }
        out.push_str(&format!("{indent}}}\n"));
    }
}

/// Where a directive stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Server,
    Location,
    If,
}

/// Makes up the content of a server block, after `listen` and `server_name`.
pub(crate) fn server(random: &mut Random) -> Vec<Node> {
    let mut nodes = Vec::new();
    for _ in 0..random.below(4) {
        push(&mut nodes, setting(random, Place::Server));
    }
    for _ in 0..[0, 0, 0, 1, 2][random.below(5)] {
        let node = rewriting(random, Place::Server, 2);
        // What answers everything leaves nothing to try.
        let ends = ["return", "rewrite ^ ", "rewrite ^/ ", "break"];
        if !ends.iter().any(|start| node.text.starts_with(start)) || random.below(15) == 0 {
            push(&mut nodes, node);
        }
    }
    for _ in 0..random.below(6) {
        push(&mut nodes, location(random, "", 3));
    }
    if random.below(3) == 0 {
        push(&mut nodes, location_named(random, "@n1"));
    }
    if random.below(4) == 0 {
        push(&mut nodes, location_named(random, "@n2"));
    }
    if random.below(60) == 0 {
        let at = random.below(nodes.len() + 1);
        nodes.insert(at, odd(random));
    }
    nodes
}

/// The paths of locations.
pub(crate) fn paths(nodes: &[Node], out: &mut Vec<String>) {
    for node in nodes {
        let path = node.text.strip_prefix("location ").map(|rest| {
            let known = ["= ", "^~ "]
                .iter()
                .find_map(|kind| rest.strip_prefix(kind));
            known.unwrap_or(rest)
        });
        out.extend(path.filter(|path| path.starts_with('/')).map(str::to_owned));
        paths(node.inside.as_deref().unwrap_or_default(), out);
    }
}

/// Adds a directive, unless one of its name is there that may be there once only.
fn push(nodes: &mut Vec<Node>, node: Node) {
    fn name(node: &Node) -> &str {
        node.text.split(' ').next().unwrap_or_default()
    }
    let again = nodes.iter().any(|known| match name(&node) {
        "location" => known.text == node.text,
        // Either is refused beside the other.
        "root" | "alias" => matches!(name(known), "root" | "alias"),
        own => own == name(known) && !REPEATABLE.contains(&own),
    });
    if !again {
        nodes.push(node);
    }
}

fn location(random: &mut Random, parent: &str, depth: usize) -> Node {
    let kinds: &[&str] = match parent {
        "" => &["", "", "", "= ", "^~ ", "~ ", "~ ", "~* "],
        // Within an expression there are only expressions.
        "~" => &["~ ", "~* "],
        // Nested ones must begin with what is around them.
        _ => &["", "", "= ", "~ "],
    };
    let kind = *random.choose(kinds);
    let is_regex = kind.starts_with('~');
    let path = if is_regex {
        (*random.choose(REGEXES)).to_owned()
    } else {
        let path = random.choose::<&str>(PATHS);
        match random.below(40) {
            0 => (*path).to_owned(),
            _ if parent.is_empty() => (*path).to_owned(),
            _ => format!("{}{path}", parent.trim_end_matches('/')),
        }
    };
    let text = format!("location {kind}{}", quoted(&path));
    let mut inside = content(random, is_regex, depth);
    let nested = match kind {
        "= " => 0,
        _ if depth == 0 => 0,
        _ => [0, 0, 1, 2][random.below(4)],
    };
    for _ in 0..nested {
        let around = if is_regex { "~" } else { &path };
        let node = location(random, around, depth - 1);
        push(&mut inside, node);
    }
    Node {
        text,
        inside: Some(inside),
    }
}

fn location_named(random: &mut Random, name: &str) -> Node {
    Node {
        text: format!("location {name}"),
        inside: Some(content(random, true, 1)),
    }
}

/// What stands in a location besides other locations.
fn content(random: &mut Random, takes_no_path: bool, depth: usize) -> Vec<Node> {
    let place = Place::Location;
    let mut nodes = Vec::new();
    for _ in 0..[0, 1, 1, 2, 3][random.below(5)] {
        push(&mut nodes, setting(random, place));
    }
    for _ in 0..[0, 0, 1, 1, 2, 4][random.below(6)] {
        let node = rewriting(random, place, depth);
        if !node.text.starts_with("return") || random.below(2) == 0 {
            push(&mut nodes, node);
        }
    }
    if random.below(2) == 0 {
        let text = match choose(random, HANDLERS) {
            // Where that is not allowed it is left out mostly, not always.
            text if takes_no_path && random.below(20) != 0 => without_path(&text),
            text => text,
        };
        push(&mut nodes, Node::line(text));
    }
    if random.below(15) == 0 {
        push(&mut nodes, limit_except(random));
    }
    if random.below(150) == 0 {
        nodes.push(odd(random));
    }
    // The order in which directives stand does not matter, except among rewrites.
    if random.below(2) == 0 {
        let from = random.below(nodes.len().max(1));
        nodes.rotate_left(from);
    }
    nodes
}

/// `proxy_pass` without a path, and anything else but `alias` as it is.
fn without_path(text: &str) -> String {
    let Some(address) = text.strip_prefix("proxy_pass http://") else {
        return match text.starts_with("alias") {
            true if !text.contains('$') => "internal".to_owned(),
            _ => text.to_owned(),
        };
    };
    let end = address.find(['/', '$']).unwrap_or(address.len());
    format!("proxy_pass http://{}", &address[..end])
}

fn setting(random: &mut Random, place: Place) -> Node {
    loop {
        let text = choose(random, SETTINGS);
        let name = text.split(' ').next().unwrap_or_default();
        let fits = match place {
            Place::Server => true,
            Place::Location => !SERVER_ONLY.contains(&name),
            Place::If => IN_IF.contains(&name),
        };
        if name == "types" && fits {
            let known = ["text/x-t txt", "a/b html"].map(|line| Node::line(line.to_owned()));
            return Node {
                text: name.to_owned(),
                inside: Some(known[..random.below(3)].to_vec()),
            };
        }
        if fits {
            return Node::line(text);
        }
    }
}

fn rewriting(random: &mut Random, place: Place, depth: usize) -> Node {
    if depth == 0 || place == Place::If || random.below(3) != 0 {
        return Node::line(choose(random, REWRITES));
    }
    let condition = choose(random, CONDITIONS);
    let mut inside = Vec::new();
    for _ in 0..random.below(3) {
        push(&mut inside, rewriting(random, Place::If, 0));
    }
    if place == Place::Location {
        for _ in 0..random.below(3) {
            push(&mut inside, setting(random, Place::If));
        }
        if random.below(5) == 0 {
            let to = [
                "proxy_pass http://«origin»",
                "proxy_pass http://«origin»/if$uri",
            ];
            push(&mut inside, Node::line(choose(random, &to)));
        }
    }
    Node {
        text: format!("if ({condition})"),
        inside: Some(inside),
    }
}

fn limit_except(random: &mut Random) -> Node {
    let methods = *random.choose(&["GET", "POST", "GET POST", "HEAD", "PUT DELETE"]);
    let rules = [
        "deny all",
        "allow 127.0.0.1",
        "deny 127.0.0.1",
        "allow all",
        "proxy_pass http://«origin»",
        "auth_basic realm",
        "auth_basic_user_file «root»/../users",
    ];
    let mut inside = Vec::new();
    for _ in 0..1 + random.below(2) {
        push(&mut inside, Node::line(choose(random, &rules)));
    }
    Node {
        text: format!("limit_except {methods}"),
        inside: Some(inside),
    }
}

fn odd(random: &mut Random) -> Node {
    Node::line(choose(random, ODD))
}

/// One of the choices, with everything in `«»` chosen too.
pub(crate) fn choose(random: &mut Random, from: &[&str]) -> String {
    let mut rest = *random.choose(from);
    let mut out = String::new();
    while let Some((before, behind)) = rest.split_once('\u{ab}') {
        let (name, behind) = behind.split_once('\u{bb}').expect("they come in pairs");
        out.push_str(before);
        out.push_str(&chosen(random, name));
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn chosen(random: &mut Random, name: &str) -> String {
    match name {
        "root" => "ROOT".to_owned(),
        "origin" => "ORIGIN".to_owned(),
        "text" => {
            let count = 1 + random.below(3);
            let each = (0..count).map(|_| *random.choose::<&str>(VARIABLES));
            format!("t:{}", each.collect::<Vec<_>>().join("|"))
        }
        "uri" => (*random.choose(PATHS)).to_owned(),
        "page" => choose(
            random,
            &[
                "/x.txt",
                "/a/x.txt",
                "/dir/",
                "@n1",
                "@n1",
                "@n2",
                "/no",
                "/b/index.html",
                "/page?p=$uri",
                "$uri",
                "/a$uri",
                "/i.php?$args",
                "«uri»",
            ],
        ),
        "to" => choose(
            random,
            &[
                "«uri»",
                "«uri»",
                "/b/$1",
                "/$2/$1",
                "/a/$1?q=$arg_x",
                "«uri»?",
                "«uri»?z=1",
                "/$seg",
                "$uri",
                "/new$uri",
                "/a/$1?",
                "\"/sp ace$1\"",
                "/$v1",
                "$1",
                "\"/x?a=$1&b=$args\"",
                "/$map_uri",
            ],
        ),
        "regex" => quoted(random.choose::<&str>(REGEXES)),
        _ => unreachable!("no choice is named {name}"),
    }
}

/// A word as it must stand in a configuration.
fn quoted(text: &str) -> String {
    match text.contains(['{', '}', ';', ' ']) {
        true => format!("\"{text}\""),
        false => text.to_owned(),
    }
}
