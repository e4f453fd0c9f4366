//! Configurations that a grammar makes up: what a server block may say, in any order and
//! nesting.

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

/// Values that are text: `return 200`, `add_header`, `set`. `«…»` is replaced by one of the
/// choices of that name.
const VARIABLES: &[&str] = &[
    "$uri",
    "$uri",
    "$args",
    "$arg_x",
    "$arg_y",
    "$request_uri",
    "$document_uri",
    "$query_string",
    "$is_args",
    "$host",
    "$http_x_t",
    "$http_host",
    "$server_name",
    "$request_method",
    "$scheme",
    "$1",
    "$1",
    "$2",
    "$seg",
    "$seg",
    "$v1",
    "$v1",
    "$v2",
    "$map_uri",
    "$map_arg",
    "$map_both",
    "$geo_arg",
    "$request_filename",
    "$document_root",
    "$realpath_root",
    "$cookie_c",
    "$content_type",
    "$http_referer",
    "$server_protocol",
    "$request",
    "$limit_rate",
    "$remote_addr",
    "$sent_http_x_b",
    "$http_user_agent",
    "$http_cookie",
    "$proxy_add_x_forwarded_for",
    "$http_transfer_encoding",
    "$https",
    "$remote_user",
    "$request_body",
    "$http_x_",
    "$arg_",
    "$server_addr",
];

const PATHS: &[&str] = &[
    "/",
    "/a",
    "/a/",
    "/b/",
    "/ab",
    "/dir/",
    "/dir",
    "/a/b/",
    "/a/x.txt",
    "/b/x.txt",
    "/x.txt",
    "/dir/index.html",
    "/A/",
    "/no",
    "/no/x.txt",
    "/img.png",
    "/a/b/x.txt",
    "/p.html",
    "/i.php",
    "/i.php/info",
    "/\u{e4}/",
    "/deep/er/est/",
    "/empty.txt",
];

const REGEXES: &[&str] = &[
    r"\.txt$",
    r"\.(html|png)$",
    r"^/a/(.*)$",
    r"^/(?<seg>[^/]+)/(.*)$",
    r"^/([ab])/([^/.]*)(.*)$",
    r"/index\.html$",
    r"^/b",
    r"x",
    r"^/(?<seg>[a-z]+)$",
    r"^(.+\.php)(/.*)?$",
    r"^/(?<v1>a|dir)/",
    r"(?<seg>\d+)",
    r"^/(a)?(b)?",
    r"/$",
    r"^",
    r"[^\x00-\x7f]",
    r"^/A",
    r"^/(no|dir)(?:/(.*))?$",
];

/// Directives that change little by themselves, and may stand anywhere but where noted.
const SETTINGS: &[&str] = &[
    "root «root»",
    "root «root»/a",
    "root «root»/$arg_r",
    "root «root»/dir/",
    "index x.txt index.html",
    "index p.html",
    "index $arg_i index.html",
    "index no /a/x.txt",
    "index /i.php",
    "autoindex on",
    "add_header X-A \"«text»\"",
    "add_header X-A \"«text»\" always",
    "add_header X-B $v1",
    "add_header X-S \"$status|$request_method\" always",
    "add_header Cache-Control \"no-store, $uri\"",
    "add_header Last-Modified \"\"",
    "add_header ETag \"\\\"$arg_x\\\"\"",
    "expires 1h",
    "expires -1",
    "expires max",
    "expires off",
    "expires epoch",
    "expires $map_expires",
    "expires modified 1d",
    "error_page 404 «page»",
    "error_page 403 404 405 «page»",
    "error_page 404 =200 «page»",
    "error_page 404 = «page»",
    "error_page 403 =404 «page»",
    "error_page 418 = «page»",
    "error_page 500 502 =503 «page»",
    "error_page 404 http://e.test$uri",
    "error_page 405 =200 «page»",
    "error_page 404 =301 «page»",
    "error_page 301 302 «page»",
    "error_page 412 416 «page»",
    "error_page 404 410 =204 «page»",
    "error_page 403 \"$arg_x\"",
    "error_page 413 =402 «page»",
    "recursive_error_pages on",
    "log_not_found off",
    "rewrite_log on",
    "etag off",
    "if_modified_since off",
    "if_modified_since before",
    "max_ranges 0",
    "max_ranges 2",
    "default_type text/plain",
    "default_type \"\"",
    "default_type $map_type",
    "types",
    "types x",
    "absolute_redirect off",
    "server_name_in_redirect on",
    "port_in_redirect off",
    "client_max_body_size 4",
    "client_max_body_size 0",
    "chunked_transfer_encoding off",
    "keepalive_timeout 0",
    "proxy_intercept_errors on",
    "proxy_redirect off",
    "proxy_redirect / /r/",
    "proxy_redirect ~^(.*)/loc(.*)$ $1/moved$2",
    "proxy_set_header X-V \"«text»\"",
    "proxy_set_header Host $host",
    "proxy_set_header X-E $arg_x",
    "proxy_hide_header X-Echo",
    "proxy_pass_request_headers off",
    "proxy_method POST",
    "proxy_set_body \"«text»\"",
    "proxy_buffering off",
    "proxy_force_ranges on",
    "proxy_ignore_headers X-Accel-Redirect",
    "allow 127.0.0.1",
    "deny all",
    "allow all",
    "deny 127.0.0.1",
    "deny ::1",
    "allow 10.0.0.0/8",
    "disable_symlinks off",
    "open_file_cache max=100",
    "sendfile on",
    "tcp_nopush on",
    "postpone_output 0",
    "output_buffers 1 1k",
    "reset_timedout_connection on",
    "client_body_buffer_size 2",
    "lingering_close off",
    "send_timeout 30s",
    "merge_slashes off",
    "autoindex_format json",
    "autoindex_format xml",
    "autoindex_exact_size off",
];

/// Settings for servers alone.
const SERVER_ONLY: &[&str] = &[
    "merge_slashes",
    // In a location it holds for good, whichever location answers in the end.
    "keepalive_timeout",
];

/// Settings that may stand in an `if` of a location.
const IN_IF: &[&str] = &[
    "root",
    "add_header",
    "expires",
    "error_page",
    "proxy_pass",
    "rewrite_log",
    "access_log",
    "sendfile",
];

/// Directives of the rewrite module.
const REWRITES: &[&str] = &[
    "rewrite «regex» «to»",
    "rewrite «regex» «to» last",
    "rewrite «regex» «to» break",
    "rewrite «regex» «to» redirect",
    "rewrite «regex» «to» permanent",
    "rewrite «regex» http://e.test/$1",
    "rewrite «regex» https://$host$uri? last",
    "set $v1 \"«text»\"",
    "set $v2 \"«text»\"",
    "set $v1 $1",
    "set $v2 $v1$v2",
    "set $v1 \"\"",
    "set $args \"«text»\"",
    "set $args $arg_y",
    "set $limit_rate 500k",
    "set $limit_rate 0",
    "break",
    "return 200 \"«text»\"",
    "return 200",
    "return 204",
    "return 404",
    "return 403 \"«text»\"",
    "return 301 «to»",
    "return 302 http://e.test«uri»",
    "return 307 \"«text»\"",
    "return 418 \"«text»\"",
    "return 500",
    "return http://e.test$request_uri",
    "return 444",
    "return 303 $scheme://$host$uri",
    "return 308 \"$uri?$args\"",
    "return 410 gone",
    "return 416",
    "return 405",
    "return 413",
    "return 412 \"«text»\"",
];

const CONDITIONS: &[&str] = &[
    "$arg_x",
    "$arg_x = 1",
    "$arg_x != 1",
    "$args",
    "$request_method = POST",
    "$request_method !~ ^(GET|HEAD)$",
    "$uri ~ «regex»",
    "$uri !~ «regex»",
    "$uri ~* «regex»",
    "$http_x_t",
    "$host ~ ^s(?<seg>\\d+)",
    "-f $request_filename",
    "!-f $request_filename",
    "-d $request_filename",
    "!-e $request_filename",
    "-e $document_root/x.txt",
    "-x $request_filename",
    "$v1",
    "$v1 = $v2",
    "$v2 != \"\"",
    "$map_uri",
    "$http_user_agent ~* (curl|bot)",
    "$cookie_c",
    "$1",
    "$http_referer",
    "$request_uri ~ \"^(.*)\\?\"",
    "$content_length",
];

const HANDLERS: &[&str] = &[
    "proxy_pass http://«origin»",
    "proxy_pass http://«origin»/p/",
    "proxy_pass http://«origin»/p",
    "proxy_pass http://«origin»/",
    "proxy_pass http://«origin»$request_uri",
    "proxy_pass http://«origin»/v$uri?$args",
    "proxy_pass http://group",
    "proxy_pass http://group/g/",
    "try_files $uri «page»",
    "try_files $uri $uri/ «page»",
    "try_files $uri $uri.html $uri/index.html =404",
    "try_files $uri.txt $uri/ =418",
    "try_files /a$uri /b$uri «page»",
    "try_files $arg_x «page»",
    "try_files $uri /x.txt",
    "try_files $uri «uri»?$args",
    "try_files \"\" «page»",
    "alias «root»/a/",
    "alias «root»/a",
    "alias «root»/$arg_r/",
    "alias «root»/$seg/$1",
    "alias «root»/b/x.txt",
    "alias «root»/",
    "internal",
    "valid_referers none blocked server_names",
    "valid_referers *.ok.test ~good",
    "valid_referers ok.test/a none",
    "return 200 \"«text»\"",
];

/// What both servers must refuse, or take in spite of what it looks like.
const ODD: &[&str] = &[
    "rewrite ^/(a /b",
    "rewrite /a",
    "return 99999",
    "return",
    "return 200 a b",
    "try_files $uri",
    "error_page 404",
    "error_page 999 /x",
    "set v1 x",
    "set $v1",
    "set $uri x",
    "set $arg_x 1",
    "set $http_new 1",
    "set $host x",
    "alias",
    "root $document_root",
    "alias $realpath_root",
    "index",
    "index $uri/",
    "expires 1x",
    "expires",
    "add_header X-A",
    "proxy_pass http://",
    "proxy_pass 127.0.0.1",
    "proxy_pass http://no_such_group_here.invalid:0/",
    "allow nobody",
    "deny 1.2.3.4/33",
    "autoindex maybe",
    "try_files $uri @nowhere",
    "error_page 404 @nowhere",
    "rewrite ^ /x forward",
    "break now",
    "location /no-block",
    "add_header X-A $nosuchvariable",
    "set $v1 $nosuchvariable",
    "max_ranges -1",
    "rewrite ^ \"\"",
    "rewrite ^(?<bad-name>) /x",
    "internal on",
    "etag maybe",
    "types { x }",
    "satisfy some",
    "error_page 404 =x /a",
    "error_page 404 =200 = /a",
    "limit_except { deny all; }",
    "rewrite ^/(.*) /$3",
    "return 301",
    "return 301 ${v1",
    "return 200 $",
    "return 200 ${}",
    "set $v1 a$",
    "client_max_body_size x",
    "default_type",
    "default_type a b",
    "if ($arg_x) { root a; root b; }",
    "if ($arg_x) { alias x; }",
    "if ($arg_x) { index x; }",
    "if (-q x) { }",
    "if $arg_x { }",
    "if ($arg_x == 1) { }",
];

/// Directives that are not there yet.
const NOT_YET: &[&str] = &["valid_referers"];

/// What may stand in one block several times.
const REPEATABLE: &[&str] = &[
    "add_header",
    "error_page",
    "rewrite",
    "set",
    "return",
    "if",
    "allow",
    "deny",
    "proxy_set_header",
    "proxy_redirect",
    "proxy_hide_header",
    "break",
    "location",
    "limit_except",
];

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
        if !text.starts_with("valid_referers") || !NOT_YET.contains(&"valid_referers") {
            push(&mut nodes, Node::line(text));
        }
    }
    if random.below(15) == 0 && !NOT_YET.contains(&"limit_except") {
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
        if fits && !NOT_YET.contains(&name) {
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
