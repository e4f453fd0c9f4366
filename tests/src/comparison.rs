//! Sends the same requests to Sealane and to nginx, and shows where their responses differ.

use crate::wire::{self, Response};
use crate::{Server, command, nginx_binary};
use flate2::read::MultiGzDecoder;
use sealane_http::date;
use sealane_http::status::{ErrorPage, StatusCode};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// Every request that the two servers do not answer alike on their ports `%plain%`, with what
/// `shown` shows of both answers; empty when there is none. The answers are normalised before.
#[track_caller]
pub fn differences(
    ours: &Server<'_>,
    theirs: &Server<'_>,
    requests: impl IntoIterator<Item = String>,
    shown: impl Fn(&Response) -> String,
) -> String {
    let mut differences = String::new();
    for request in requests {
        let head_only = request.starts_with("HEAD ");
        let ask = |server: &Server<'_>| {
            let port = server.port("plain");
            let response = wire::request(port, &request);
            shown(&normalise(&[port], response, head_only))
        };
        let (one, other) = (ask(ours), ask(theirs));
        if one != other {
            differences.push_str(&format!("{request}\nours:\n{one}\nnginx:\n{other}\n\n"));
        }
    }
    differences
}

/// Fails unless everything that was seen with us was seen with nginx too, but for what is
/// `excused`.
#[track_caller]
pub fn assert_as_nginx(
    ours: &BTreeMap<String, String>,
    nginx: &BTreeMap<String, String>,
    excused: impl Fn(&str) -> bool,
) {
    let compared = ours.iter().filter(|(what, _)| !excused(what));
    let differing = compared.filter(|(what, text)| nginx.get(*what) != Some(*text));
    let differing: Vec<String> = differing
        .map(|(what, text)| {
            let other = nginx.get(what).map_or("", String::as_str);
            format!("==== {what}\n---- ours\n{text}\n---- nginx\n{other}")
        })
        .collect();
    assert!(
        differing.is_empty(),
        "{} of {} differ\n{}",
        differing.len(),
        ours.len(),
        differing.join("\n")
    );
}

/// The version of the nginx that is compared with, such as `(1, 22, 1)`.
pub fn nginx_version() -> (u32, u32, u32) {
    static VERSION: OnceLock<(u32, u32, u32)> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let said = command(&nginx_binary().display().to_string(), &["-v"], b"").stderr;
        let version = said.split_once("nginx/").map_or("", |(_, rest)| rest);
        let mut numbers = version.split(|character: char| !character.is_ascii_digit());
        let mut number = || numbers.next()?.parse().ok();
        let version = (|| Some((number()?, number()?, number()?)))();
        version.unwrap_or_else(|| panic!("nginx -v prints no version: {said:?}"))
    })
}

/// Makes equal what may differ in two answers, one from each server: see [`as_sent`]. Besides,
/// the names of header lines become lower-case and the lines are sorted, as neither case nor order
/// means anything (RFC 9110, 5.1 and 5.3).
pub fn normalise(ports: &[u16], response: Response, head_only: bool) -> Response {
    let mut response = as_sent(ports, response, head_only);
    let mut lines = response.head.split('\n');
    let status_line = lines.next().unwrap_or_default().to_owned();
    let mut lines: Vec<String> = lines
        .map(|line| match line.split_once(':') {
            Some((name, value)) => format!("{}:{value}", name.to_ascii_lowercase()),
            None => line.to_owned(),
        })
        .collect();
    lines.sort();
    lines.insert(0, status_line);
    response.head = lines.join("\n");
    response
}

/// Makes equal what may differ in two answers, one from each server, and leaves the header lines
/// in their order; `ports` are those of the server that was asked. The lines of the head end with
/// LF, the body is decompressed.
///
/// Each step says why. All other differences are for the tests to explain.
pub fn as_sent(ports: &[u16], mut response: Response, head_only: bool) -> Response {
    // Compressors choose differently; what comes out is what counts.
    if response.header("Content-Encoding") == Some("gzip") {
        response.body = decompressed(response.body);
    }
    let received_bytes = response.body.len();
    let name = response.header("Server").unwrap_or_default().to_owned();
    rename_pages(&mut response.body);
    for port in ports {
        response.body = without_port(response.body, *port);
    }
    // The boundary of a multipart body counts connections. All have the same length.
    let boundary = response
        .header("Content-Type")
        .and_then(|kind| kind.split_once("boundary="))
        .map(|(_, boundary)| boundary.to_owned());
    if let Some(boundary) = &boundary {
        response.body = replaced(&response.body, boundary, &"B".repeat(boundary.len()));
    }
    let lines = response.head.split("\r\n");
    let status_line = lines.clone().next().unwrap_or_default();
    let line = |line: &str| {
        let (name_of_line, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.trim();
        let value = match name_of_line.to_ascii_lowercase().as_str() {
            "server" if is_own_name(value) => return None,
            // The clock; an origin's date may be another one.
            "date" if is_recent(value) => return None,
            // A file that the test has written, once for each server.
            "last-modified" if is_recent(value) => "now".to_owned(),
            "etag" => tag(value),
            "expires" => expires(value),
            "content-length" if head_only && response.status >= 300 => {
                length_of_page(response.status, value, &name)
            }
            // Follows from the server's name in the page.
            "content-length" if value == received_bytes.to_string() => {
                response.body.len().to_string()
            }
            "content-type" if boundary.is_some() => "multipart/byteranges".to_owned(),
            "set-cookie" => cookie(value),
            _ => value.to_owned(),
        };
        let value = ports
            .iter()
            .fold(value.into_bytes(), |value, port| without_port(value, *port));
        Some(format!(
            "{name_of_line}: {}",
            String::from_utf8_lossy(&value)
        ))
    };
    let mut head = vec![status_line.to_owned()];
    head.extend(lines.skip(1).filter_map(line));
    response.head = head.join("\n");
    response
}

/// What stands in a body of gzip members; the body itself if it is none.
pub fn decompressed(body: Vec<u8>) -> Vec<u8> {
    let mut plain = Vec::new();
    match MultiGzDecoder::new(&*body).read_to_end(&mut plain) {
        Ok(_) if body.starts_with(&[0x1f, 0x8b]) => plain,
        _ => body,
    }
}

/// The bytes with every `from` in them replaced.
pub fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = find(rest, from.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to.as_bytes());
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

/// Whether this is what one of the two servers calls itself.
fn is_own_name(name: &str) -> bool {
    let name = name.split('/').next().unwrap_or_default();
    matches!(name, "nginx" | "sealane")
}

/// Each server has its name in its own pages.
fn rename_pages(body: &mut Vec<u8>) {
    let mut from = 0;
    while let Some(at) = find(&body[from..], b"<center>") {
        let start = from + at + b"<center>".len();
        from = start;
        let Some(end) = find(&body[start..], b"</center>").map(|length| start + length) else {
            return;
        };
        if std::str::from_utf8(&body[start..end]).is_ok_and(is_own_name) {
            body.splice(start..end, *b"nginx");
        }
    }
}

/// Each server has its own port. It may stand before another digit, and is none then.
fn without_port(text: Vec<u8>, port: u16) -> Vec<u8> {
    let port = format!(":{port}");
    if find(&text, port.as_bytes()).is_none() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(at) = find(rest, port.as_bytes()) {
        let (before, after) = (&rest[..at], &rest[at + port.len()..]);
        out.extend_from_slice(before);
        let is_longer = after.first().is_some_and(u8::is_ascii_digit);
        out.extend_from_slice(if is_longer { port.as_bytes() } else { b":PORT" });
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(now.expect("after 1970").as_secs()).expect("not in the far future")
}

const DAY_S: i64 = 24 * 3600;

fn is_recent(date: &str) -> bool {
    date::parse(date.as_bytes()).is_some_and(|date_s| (date_s - now_s()).abs() < DAY_S)
}

/// `"TIME-LENGTH"` of a file that the test has just written is said without the time.
fn tag(value: &str) -> String {
    let (weak, tag) = match value.strip_prefix("W/") {
        Some(tag) => ("W/", tag),
        None => ("", value),
    };
    let parts = tag.strip_prefix('"').and_then(|tag| tag.split_once('-'));
    let time_s = parts.and_then(|(time, _)| i64::from_str_radix(time, 16).ok());
    match (parts, time_s) {
        (Some((_, length)), Some(time_s)) if (time_s - now_s()).abs() < DAY_S => {
            format!("{weak}\"now-{length}")
        }
        _ => value.to_owned(),
    }
}

/// A time that is counted from now is said in minutes: the two servers are not asked within the
/// same second. What lies long ago, and `expires max`, is as it is.
fn expires(value: &str) -> String {
    /// Thu, 31 Dec 2037 23:55:55 GMT.
    const MAX_S: i64 = 2_145_916_555;
    let date_s = date::parse(value.as_bytes()).filter(|date_s| *date_s != MAX_S);
    match date_s.map(|date_s| date_s - now_s()) {
        Some(away_s) if away_s > -365 * DAY_S => {
            format!("in {} minutes", (away_s + 30).div_euclid(60))
        }
        _ => value.to_owned(),
    }
}

/// `userid` makes a new cookie for everybody who brings none: 16 bytes in base64.
fn cookie(value: &str) -> String {
    let (pair, rest) = value.split_at(value.find(';').unwrap_or(value.len()));
    let is_new = |value: &str| {
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        value.len() == 24 && value.bytes().all(is_base64)
    };
    match pair.split_once('=') {
        Some((name, value)) if is_new(value) => format!("{name}=NEW{}", recent_expires(rest)),
        _ => value.to_owned(),
    }
}

/// The attributes of a cookie, with an expiry date as [`expires`] says it.
fn recent_expires(attributes: &str) -> String {
    let attributes =
        attributes.split(';').map(
            |attribute| match attribute.trim().strip_prefix("expires=") {
                Some(date) => format!(" expires={}", expires(date)),
                None => attribute.to_owned(),
            },
        );
    attributes.collect::<Vec<_>>().join(";")
}

/// The length that a response to HEAD names, or that it is the length of a page with the server's
/// name.
fn length_of_page(status: u16, length: &str, name: &str) -> String {
    let statuses = match status {
        400 => &[400, 494, 495, 496, 497][..],
        _ => &[status],
    };
    let pages = statuses
        .iter()
        .filter_map(|code| ErrorPage::of(StatusCode(*code)));
    let is_page = pages
        .flat_map(|page| [(page, false), (page, true)])
        .any(|(page, padded)| {
            let mut text = Vec::new();
            page.write(&mut text, b"", name.as_bytes(), padded);
            text.len().to_string() == length
        });
    match is_page {
        true => "that of its page".to_owned(),
        false => length.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, head: &str, body: &str) -> Response {
        Response {
            status,
            head: head.replace('\n', "\r\n"),
            body: body.as_bytes().to_vec(),
        }
    }

    fn date(away_s: i64) -> String {
        String::from_utf8(date::imf(now_s() + away_s).to_vec()).expect("ASCII")
    }

    #[test]
    fn two_servers_become_one() {
        let answer = |name: &str, port: u16, away_s: i64| {
            let body = format!("<hr><center>{name}</center> http://a:{port}/ :{port}1");
            let head = format!(
                "HTTP/1.1 404 Not Found\nServer: {name}\nDate: {}\nContent-Length: {}\n\
                 Location: http://a:{port}/\nETag: \"{:x}-a\"\nLast-Modified: {}\n\
                 Expires: {}\nSet-Cookie: uid=CgAAAWXQ8Q0AAAAAAwM{}; path=/",
                date(away_s),
                body.len(),
                now_s() + away_s,
                date(away_s),
                date(3600 + away_s),
                ["BAg==", "CAg=="][usize::from(away_s == 0)],
            );
            as_sent(&[port], response(404, &head, &body), false)
        };
        let ours = answer("sealane", 10_000, 0);
        assert_eq!(
            ours.head,
            "HTTP/1.1 404 Not Found\nContent-Length: 49\nLocation: http://a:PORT/\n\
             ETag: \"now-a\"\nLast-Modified: now\nExpires: in 60 minutes\n\
             Set-Cookie: uid=NEW; path=/"
        );
        assert_eq!(
            ours.text(),
            "<hr><center>nginx</center> http://a:PORT/ :100001"
        );
        let theirs = answer("nginx/1.22.1", 10_001, 3);
        assert_eq!(theirs.head, ours.head);
        assert_eq!(
            theirs.text(),
            "<hr><center>nginx</center> http://a:PORT/ :100011"
        );
    }

    #[test]
    fn what_is_not_the_servers_own_stays() {
        let head = "HTTP/1.1 200 OK\nServer: origin/1\nDate: Tue, 09 Nov 2021 00:00:00 GMT\n\
                    Expires: Thu, 31 Dec 2037 23:55:55 GMT\nETag: \"6189ba00-a\"\n\
                    Content-Length: 1\nSet-Cookie: a=b; path=/\nExpires: Thu, 01 Jan 1970 00:00:01 GMT";
        let kept = as_sent(&[80], response(200, head, "<center>page</center>"), false);
        assert_eq!(kept.head, head);
        assert_eq!(kept.text(), "<center>page</center>");
        let sorted = normalise(
            &[80],
            response(200, "HTTP/1.1 200 OK\nB: 1\na: Two", ""),
            false,
        );
        assert_eq!(sorted.head, "HTTP/1.1 200 OK\na: Two\nb: 1");
    }

    #[test]
    fn the_length_of_a_page_is_known_without_it() {
        let answer = |name: &str, length: usize| {
            let head = format!("HTTP/1.1 403 Forbidden\nServer: {name}\nContent-Length: {length}");
            as_sent(&[80], response(403, &head, ""), true).head
        };
        // As both answer `HEAD` where they have 146 bytes and a name.
        assert_eq!(answer("nginx", 146), answer("sealane", 148));
        assert!(answer("nginx", 148).ends_with("Content-Length: 148"));
    }

    #[test]
    fn boundaries_and_compressors_make_no_difference() {
        let answer = |boundary: &str| {
            let head = format!(
                "HTTP/1.1 206 Partial Content\n\
                 Content-Type: multipart/byteranges; boundary={boundary}\nContent-Length: 30"
            );
            as_sent(
                &[80],
                response(206, &head, &format!("--{boundary}--")),
                false,
            )
        };
        assert_eq!(
            answer("00000000000000000001"),
            answer("00000000000000000317")
        );
        let gzip = |level| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
            std::io::Write::write_all(&mut encoder, b"text").expect("it is memory");
            let body = encoder.finish().expect("it is memory");
            let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip".to_owned();
            let (status, head_only) = (200, false);
            as_sent(&[80], Response { status, head, body }, head_only)
        };
        assert_eq!(gzip(1), gzip(9));
        assert_eq!(gzip(0).text(), "text");
    }
}
