//! Both servers with the same made-up configurations, and what they make of the same requests.

use crate::configuration::Node;
use crate::requests::{Body, Request};
use flate2::Compression;
use flate2::write::GzEncoder;
use sealane_tests::comparison::normalise;
use sealane_tests::http2::{self, flag, kind};
use sealane_tests::origin::{Answer, Asked, Origin};
use sealane_tests::wire::{Connection, Response};
use sealane_tests::{Program, Server, Site, command, nginx_binary, sealane_binary, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What all servers share: files, and a server behind them.
pub(crate) struct Surroundings {
    files: Site,
    origin: Origin,
}

/// A server block, and a request to it that the two programs do not treat alike.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub server: usize,
    /// What stands in the server block.
    pub configuration: String,
    pub request: Request,
    /// What its log lines were found by.
    pub id: String,
    /// What each has answered, ours first, and its lines in the access log.
    pub seen: [Seen; 2],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// `None`: the connection was closed.
    pub response: Option<Response>,
    pub log: Vec<String>,
}

/// What came of a set of servers.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Servers that both have refused.
    pub refused: BTreeSet<usize>,
    /// Servers that one has refused: which, and what it said.
    pub disagreements: Vec<(usize, String)>,
    pub differences: Vec<Difference>,
    /// How many answers had which status; 0: none.
    pub statuses: BTreeMap<u16, usize>,
}

/// Seconds since 1970 of every file, 2021-11-09.
const MODIFIED_S: u64 = 1_636_416_000;

const FILES: &[(&str, &str)] = &[
    ("index.html", "<h1>start</h1>\n"),
    ("x.txt", "x, top\n"),
    ("p.html", "<p>page\n"),
    ("p.html.html", "twice\n"),
    ("img.png", "no image"),
    ("i.php", "<?php\n"),
    ("ab", "a file\n"),
    ("empty.txt", ""),
    ("sp ace.txt", "space\n"),
    ("a/x.txt", "x in a\n"),
    ("a/p.html", "<p>a\n"),
    ("a/img.png", "image a"),
    ("a/b/x.txt", "x in a/b\n"),
    ("a/b/index.html", "index a/b\n"),
    ("a/1", "one"),
    ("a/x.txt.html", "html of x\n"),
    ("b/index.html", "index b\n"),
    ("b/x.txt", "x in b\n"),
    ("b/p.html", "<p>b\n"),
    ("b/a/x.txt", "x in b/a\n"),
    ("dir/index.html", "index dir\n"),
    ("dir/x.txt", "0123456"),
    ("dir/a/img.png", "image dir"),
    ("\u{e4}/x.txt", "umlaut\n"),
    ("list/one", "1"),
    ("list/<two>&3", "2"),
    ("deep/er/est/x.txt", "deep\n"),
    ("no.txt", "no\n"),
];

/// What stands before the servers. The first server makes all variables known, and answers what
/// ends a run.
const SHARED: &str = r#"
    types { text/html html htm; text/plain txt; image/png png; application/json json; }
    default_type application/octet-stream;
    server_tokens off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    log_format all escape=ESCAPE "$http_x_id $request|status=$status|done=$request_completion|host=$host|server=$server_name|uri=$uri|args=$args"
        "|type=$sent_http_content_type|length=$sent_http_content_length|to=$sent_http_location|a=$sent_http_x_a|range=$sent_http_content_range"
        "|map=$map_uri|arg=$map_arg|both=$map_both|geo=$geo_arg|v1=$v1|v2=$v2|seg=$seg|file=$request_filename|root=$document_root"
        "|up=$upstream_status|got=$upstream_response_length|t=$http_x_t|ref=$http_referer|agent=$http_user_agent|cookie=$cookie_c|cookies=$http_cookie"
        "|asked=$request_length|body=$content_length|method=$request_method|protocol=$server_protocol|user=$remote_user|etag=$sent_http_etag"
        "|cc=$sent_http_cache_control|modified=$sent_http_last_modified|vary=$sent_http_vary|conn=$sent_http_connection|te=$sent_http_transfer_encoding"
        "|bytes=$body_bytes_sent|link=$secure_link|bad=$invalid_referer";
    access_log logs/access.log all;
    upstream group { server ORIGIN; keepalive 4; }
    map $uri $map_uri { default ""; /x.txt top; ~^/a/(?<seg>.*) "a:$seg"; ~*\.HTML$ "page$arg_x"; "~^/(b)/" "b-$1"; }
    map $arg_x $map_arg { hostnames; default none; 1 one; "" empty; "a b" space; *.test "t:$arg_x"; .h.test h; ~^\d+$ number; volatile; }
    map "$v1:$arg_x" $map_both { default "d"; ":" both; ~(?<v2>.):1 "m$v2"; }
    map $arg_x $map_expires { default off; 1 epoch; 2 max; a 60m; }
    map $arg_x $map_type { default text/x-map; 1 ""; }
    map $host $map_host { hostnames; default other; .test test; s1.test one; "" none; }
    map $request_method $map_method { default ""; POST post; ~^(?<seg>P)U "put-$seg"; }
    map $arg_x $map_charset { default x-two; 1 utf-8; 2 off; "" ""; }
    geo $geo_self { default d; 127.0.0.0/8 net; 127.0.0.1 self; ::1 self6; }
    geo $arg_x $geo_range { ranges; default d; 10.0.0.0-10.0.255.255 low; 10.1.0.0-10.1.0.255 high; }
    split_clients "$uri" $split { 30%% one; 30%% two; * rest; }
    charset_map x-one x-two { 6F 79; 68 C3; }
    geo $arg_x $geo_arg { default d; 10.0.0.0/8 ten; 10.1.0.0/16 ten-one; 127.0.0.1 self; }
    server {
        listen 127.0.0.1:%plain% default_server;
        listen 127.0.0.1:%second% default_server http2;
        server_name end.test;
        set $v1 first; set $v2 "";
        root ROOT;
        location ~ ^/(?<seg>seg) { return 200 $seg; }
        location / { return 200 "end $uri\n"; }
    }
"#;

impl Surroundings {
    pub(crate) fn new() -> Surroundings {
        let files = Site::new();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_S);
        let big = "0123456789abcde\n".repeat(4000);
        for (name, content) in FILES.iter().chain(&[("big.txt", big.as_str())]) {
            files.write(format!("html/{name}"), content);
        }
        for name in ["x.txt", "a/x.txt", "zip.txt"] {
            files.write(
                format!("html/{name}.gz"),
                packed(format!("{name}, packed\n").as_bytes()),
            );
        }
        files.write("users", "u:{PLAIN}p\nbroken\n# n:{PLAIN}p\n");
        set_times(&files.path("html"), modified);
        Surroundings {
            files,
            origin: Origin::answering(answer),
        }
    }

    fn configuration(&self, servers: &[(usize, &[Node])], escape: &str) -> Written {
        let mut text = format!(
            "worker_processes 1;\nerror_log logs/error.log info;\npid logs/pid;\n\
             events {{ worker_connections 512; }}\nhttp {{\n\
             client_body_temp_path temporary/body; proxy_temp_path temporary/proxy; \
             fastcgi_temp_path temporary/fastcgi; uwsgi_temp_path temporary/uwsgi; scgi_temp_path temporary/scgi;\n{}",
            SHARED.replace("ESCAPE", escape)
        );
        let mut lines = Vec::new();
        for (number, nodes) in servers {
            lines.push((text.lines().count() + 1, *number));
            text.push_str(&format!(
                "server {{\n    listen 127.0.0.1:%plain%; listen 127.0.0.1:%second% http2; server_name s{number}.test;\n"
            ));
            if !nodes.iter().any(|node| node.text.starts_with("root ")) {
                text.push_str("    root ROOT;\n");
            }
            for node in *nodes {
                let mut own = String::new();
                node.write(1, &mut own);
                text.push_str(&own.replace('%', "%%"));
            }
            text.push_str("}\n");
        }
        lines.push((text.lines().count() + 1, usize::MAX));
        text.push_str("}\n");
        let text = text
            .replace("ROOT", &self.files.path("html").display().to_string())
            .replace("ORIGIN", &format!("127.0.0.1:{}", self.origin.port()));
        Written { text, lines }
    }

    /// Starts both programs with the servers that both take, and sends them the requests.
    pub(crate) fn run(
        &self,
        servers: &[Vec<Node>],
        requests: &[(usize, Request)],
        escape: &str,
    ) -> Report {
        let mut report = Report::default();
        let sites = [Site::new(), Site::new()];
        let mut taken: Vec<(usize, &[Node])> = servers
            .iter()
            .enumerate()
            .map(|(number, nodes)| (number, nodes.as_slice()))
            .collect();
        let written = loop {
            let written = self.configuration(&taken, escape);
            let complaints = [(0, sealane_binary()), (1, nginx_binary())].map(|(index, binary)| {
                let found = complaint(&sites[index], &binary, &written)?;
                if found.0 != usize::MAX {
                    return Some(found);
                }
                // The last of the fewest that are refused, then.
                let (mut fine, mut refused) = (0, taken.len());
                while fine + 1 < refused {
                    let half = fine.midpoint(refused);
                    let some = self.configuration(&taken[..half], escape);
                    match complaint(&sites[index], &binary, &some) {
                        Some(_) => refused = half,
                        None => fine = half,
                    }
                }
                let number = taken[refused - 1].0;
                Some((number, found.1))
            });
            let numbers = complaints
                .each_ref()
                .map(|found| found.as_ref().map(|(number, _)| *number));
            match (numbers[0], numbers[1]) {
                (None, None) => break written,
                (Some(one), Some(other)) if one == other => {
                    report.refused.insert(one);
                }
                _ => {
                    // Each stops at its first error, so that the other one may be as wrong.
                    for (index, complaint) in complaints.into_iter().enumerate() {
                        let Some((number, said)) = complaint else {
                            continue;
                        };
                        let alone = self.configuration(&[(number, &servers[number])], escape);
                        let binary = [nginx_binary(), sealane_binary()][index].clone();
                        match self::complaint(&sites[1 - index], &binary, &alone) {
                            Some(_) => {
                                report.refused.insert(number);
                            }
                            None => {
                                let who = ["sealane", "nginx"][index];
                                report
                                    .disagreements
                                    .push((number, format!("{who} refuses: {said}")));
                            }
                        }
                    }
                }
            }
            let gone = |number: usize| {
                report.refused.contains(&number)
                    || report
                        .disagreements
                        .iter()
                        .any(|(known, _)| *known == number)
            };
            taken.retain(|(number, _)| !gone(*number));
        };
        let ours = Server::start(&sites[0], Program::Sealane, &written.text);
        let theirs = Server::start(&sites[1], Program::Nginx, &written.text);
        for server in [&ours, &theirs] {
            // What a rewrite makes of a URI may be no path at all.
            for text in ["cycle", "[alert]", "[crit]"] {
                server.expect_alert(text);
            }
        }
        let taken: BTreeSet<usize> = taken.iter().map(|(number, _)| *number).collect();
        let asked: Vec<&(usize, Request)> = requests
            .iter()
            .filter(|(number, _)| taken.contains(number))
            .collect();
        let mut responses = Vec::new();
        for (index, (_, request)) in asked.iter().enumerate() {
            let id = format!("id{index}");
            responses.push([&ours, &theirs].map(|server| ask(server, request, &id)));
        }
        let logs = [&ours, &theirs].map(|server| {
            log_of(
                server,
                sites[usize::from(std::ptr::eq(server, &theirs))]
                    .path("logs/access.log")
                    .as_path(),
            )
        });
        for (index, ((server, request), responses)) in asked.into_iter().zip(responses).enumerate()
        {
            let id = format!("id{index}");
            let status = responses[1].as_ref().map_or(0, |response| response.status);
            *report.statuses.entry(status).or_default() += 1;
            let [one, other] = responses;
            let lines =
                |log: &BTreeMap<String, Vec<String>>| log.get(&id).cloned().unwrap_or_default();
            let seen = [
                Seen {
                    response: one,
                    log: lines(&logs[0]),
                },
                Seen {
                    response: other,
                    log: lines(&logs[1]),
                },
            ];
            if seen[0] != seen[1] {
                report.differences.push(Difference {
                    server: *server,
                    configuration: self.show(&servers[*server]),
                    request: request.clone(),
                    id,
                    seen,
                });
            }
        }
        report
    }

    /// A server as it stands in the configuration.
    pub(crate) fn show(&self, nodes: &[Node]) -> String {
        let mut out = String::new();
        for node in nodes {
            node.write(1, &mut out);
        }
        out
    }
}

/// A configuration, and the lines in which its servers begin.
struct Written {
    text: String,
    lines: Vec<(usize, usize)>,
}

/// The server that a program does not take, and what it says about it.
fn complaint(site: &Site, binary: &Path, written: &Written) -> Option<(usize, String)> {
    let file = site.write("check.conf", site.fill_in(&written.text));
    let (prefix, file) = (
        site.path("").display().to_string(),
        file.display().to_string(),
    );
    let words = ["-t", "-p", &prefix, "-c", &file, "-e", "logs/check.log"];
    let outcome = command(&binary.display().to_string(), &words, b"");
    if outcome.status == 0 {
        return None;
    }
    let line = outcome
        .stderr
        .lines()
        .find(|line| line.contains("[emerg]"))
        .unwrap_or_else(|| panic!("no reason: {}", outcome.stderr));
    let at: Option<usize> = line.split_once("check.conf:").and_then(|(_, rest)| {
        rest.split(|byte: char| !byte.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    });
    // Variables that do not exist are found when everything has been read.
    let Some(at) = at else {
        return Some((usize::MAX, line.to_owned()));
    };
    let server = written
        .lines
        .windows(2)
        .find(|pair| (pair[0].0..pair[1].0).contains(&at));
    // What is found at the end of everything is in any of them.
    let number = server.map_or(usize::MAX, |server| server[0].1);
    Some((number, line.to_owned()))
}

/// As a gzip member that says nothing about when it was made.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).expect("it is memory");
    encoder.finish().expect("it is memory")
}

/// Files and directories alike, bottom up.
fn set_times(path: &Path, time: SystemTime) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("ours") {
            set_times(&entry.expect("ours").path(), time);
        }
    }
    let file = std::fs::File::open(path).expect("ours");
    file.set_modified(time).expect("the file is ours");
}

/// The origin says what it was asked, but for what the two servers say about the connection.
fn answer(asked: &Asked) -> Answer {
    let text = asked.text();
    let lines = text.split("\r\n").filter(|line| {
        let line = line.to_ascii_lowercase();
        !line.starts_with("connection:") && !line.starts_with("x-id:")
    });
    let mut body = lines.collect::<Vec<_>>().join("\n").into_bytes();
    body.extend_from_slice(&asked.body);
    let target = asked.target();
    let path = target.split('?').next().unwrap_or_default();
    let (status, more) = match () {
        () if path.contains("/s404") => ("404 Not Here", ""),
        () if path.contains("/s500") => ("500 Broken", ""),
        () if path.contains("/s304") => ("304 Not Modified", "ETag: \"o\"\r\n"),
        () if path.contains("/s302") => ("302 Found", "Location: http://HOST/loc/ation?x=1\r\n"),
        () if path.contains("/accel") => ("200 OK", "X-Accel-Redirect: /a/x.txt\r\n"),
        () => (
            "200 OK",
            "Last-Modified: Tue, 09 Nov 2021 00:00:00 GMT\r\nETag: \"o\"\r\n",
        ),
    };
    let host = asked.headers("Host").concat();
    let more = more.replace("HOST", &host);
    let (more, body) = match path.contains("/gz") {
        true => (format!("{more}Content-Encoding: gzip\r\n"), packed(&body)),
        false => (more, body),
    };
    let no_body = status.starts_with("304") || asked.head.starts_with(b"HEAD ");
    // An `error_page` may make another status of a 304, whose length both servers then pass on
    // without a body.
    let length = match status.starts_with("304") {
        true => String::new(),
        false => format!("Content-Length: {}\r\n", body.len()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nX-Echo: yes\r\nContent-Type: text/plain\r\n{more}{length}\r\n"
    );
    let mut bytes = head.into_bytes();
    if !no_body {
        bytes.extend_from_slice(&body);
    }
    Answer::Send(bytes)
}

/// What a server answers.
fn ask(server: &Server<'_>, request: &Request, id: &str) -> Option<Response> {
    let head_only = request.method == "HEAD";
    let ports = [server.port("plain"), server.port("second")];
    let response = if request.version == 2 {
        ask_http2(ports[1], request, id)?
    } else {
        let mut connection = Connection::open(ports[0]);
        connection.send(request.bytes(id));
        connection.try_response(head_only)?
    };
    Some(normalise(&ports, response, head_only))
}

fn ask_http2(port: u16, request: &Request, id: &str) -> Option<Response> {
    let mut client = http2::Client::open(port, &[]);
    let block = request.block(id);
    let body = match &request.body {
        Body::None => None,
        Body::Length(body) | Body::Chunked(body) => Some(body),
    };
    let stream = client.next_stream();
    let end = if body.is_none() { flag::END_STREAM } else { 0 };
    client.frame(kind::HEADERS, flag::END_HEADERS | end, stream, &block);
    if let Some(body) = body {
        client.frame(kind::DATA, flag::END_STREAM, stream, body);
    }
    let answer = client.try_response(stream)?;
    if answer.status == 0 {
        return None;
    }
    let mut head = format!("HTTP/2 {}", answer.status);
    for (name, value) in &answer.fields {
        head.push_str(&format!("\r\n{name}: {value}"));
    }
    Some(Response {
        status: answer.status,
        head,
        body: answer.body,
    })
}

/// The lines of the access log, by the request that they are about.
fn log_of(server: &Server<'_>, file: &Path) -> BTreeMap<String, Vec<String>> {
    let mut connection = Connection::open(server.port("plain"));
    connection.send("GET / HTTP/1.1\r\nHost: end.test\r\nX-Id: end\r\n\r\n");
    connection.response(false);
    let text = wait_for("the last line of the access log", || {
        let text = String::from_utf8_lossy(&std::fs::read(file).ok()?).into_owned();
        text.lines()
            .any(|line| line.starts_with("end "))
            .then_some(text)
    });
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let (id, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut rest = rest.to_owned();
        for name in ["plain", "second"] {
            rest = rest.replace(&format!(":{}", server.port(name)), ":PORT");
        }
        lines.entry(id.to_owned()).or_default().push(rest);
    }
    lines
}
