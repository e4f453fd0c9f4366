//! Heads as they are kept: without what is about a connection or for one client, and with the
//! fields of a 304 in place of older ones (RFC 9111 sections 3.1 and 3.2).

use sealane_http::cache_control::Scope;

/// Fields that are not kept, besides those that `Connection` names.
const ABOUT_CONNECTIONS: [&[u8]; 10] = [
    b"Connection",
    b"Keep-Alive",
    b"Proxy-Connection",
    b"TE",
    b"Trailer",
    b"Transfer-Encoding",
    b"Upgrade",
    b"Proxy-Authenticate",
    b"Proxy-Authentication-Info",
    b"Proxy-Authorization",
];

/// Fields that belong to the body that is kept, so that no other response changes them. `Status`
/// is the status line of gateway protocols.
const ABOUT_BODY: [&[u8]; 4] = [
    b"Content-Length",
    b"Content-Encoding",
    b"Content-Range",
    b"Status",
];

/// A head as text: the status line, if it has one, and lines with fields.
struct Lines<'t> {
    status: &'t [u8],
    /// Each with its continuation and its end.
    fields: Vec<&'t [u8]>,
}

impl<'t> Lines<'t> {
    fn of(text: &'t [u8]) -> Lines<'t> {
        let mut status: &[u8] = b"";
        let mut fields = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let mut end = line_end(text, start);
            // A continued line.
            while matches!(text.get(end), Some(b' ' | b'\t')) {
                end = line_end(text, end);
            }
            let line = &text[start..end];
            if start == 0 && line.starts_with(b"HTTP/") {
                status = line;
            } else if !line.trim_ascii().is_empty() {
                fields.push(line);
            }
            start = end;
        }
        Lines { status, fields }
    }

    fn text(&self) -> Vec<u8> {
        let bytes: usize = self.fields.iter().map(|line| line.len()).sum();
        let mut out = Vec::with_capacity(self.status.len() + bytes + 2);
        out.extend_from_slice(self.status);
        for line in &self.fields {
            out.extend_from_slice(line);
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

fn line_end(text: &[u8], start: usize) -> usize {
    let length = memchr::memchr(b'\n', &text[start..]);
    length.map_or(text.len(), |length| start + length + 1)
}

fn name(line: &[u8]) -> &[u8] {
    let end = memchr::memchr(b':', line).unwrap_or(line.len());
    line[..end].trim_ascii()
}

fn value(line: &[u8]) -> &[u8] {
    let start = memchr::memchr(b':', line).map_or(line.len(), |colon| colon + 1);
    line[start..].trim_ascii()
}

fn is_one_of(name: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The names in the `Connection` fields.
fn named_by_connection<'t>(lines: &Lines<'t>) -> Vec<&'t [u8]> {
    let fields = lines.fields.iter();
    let connection = fields.filter(|line| name(line).eq_ignore_ascii_case(b"Connection"));
    let names = connection.flat_map(|line| value(line).split(|byte| *byte == b','));
    let names = names.map(<[u8]>::trim_ascii);
    // These are no fields, or the response is nothing without them.
    names
        .filter(|name| !is_one_of(name, &[b"", b"close", b"Date"]))
        .collect()
}

/// The head as it is kept: `omitted` are the fields that are for one client, or would have to be
/// confirmed each time. Without a date it gets the one at which it was received.
pub(super) fn kept(text: &[u8], omitted: &[&Scope], date: Option<&[u8]>) -> Vec<u8> {
    let mut lines = Lines::of(text);
    let named = named_by_connection(&lines);
    lines.fields.retain(|line| {
        let name = name(line);
        let is_omitted = omitted.iter().any(|scope| scope.names(name));
        let is_replaced = date.is_some() && name.eq_ignore_ascii_case(b"Date");
        !is_omitted
            && !is_replaced
            && !is_one_of(name, &ABOUT_CONNECTIONS)
            && !is_one_of(name, &named)
    });
    let date = date.map(|date| [b"Date: ", date, b"\r\n"].concat());
    lines.fields.extend(date.as_deref());
    lines.text()
}

/// The kept head with the fields of a newer one, which has been through [`kept`]. What the newer
/// one has takes the place of all lines of that name. `Age` and `Date` are those of the newer one.
pub(super) fn updated(old: &[u8], newer: &[u8]) -> Vec<u8> {
    let mut lines = Lines::of(old);
    let newer = Lines::of(newer);
    let mut fields: Vec<&[u8]> = newer.fields;
    fields.retain(|line| !is_one_of(name(line), &ABOUT_BODY));
    let has = |wanted: &[u8]| {
        fields
            .iter()
            .any(|line| name(line).eq_ignore_ascii_case(wanted))
    };
    let mut out = Vec::with_capacity(lines.fields.len() + fields.len());
    let mut placed = vec![false; fields.len()];
    for line in lines.fields {
        let old_name = name(line);
        if old_name.eq_ignore_ascii_case(b"Age") && !has(b"Age") {
            continue;
        }
        if !has(old_name) {
            out.push(line);
            continue;
        }
        // Where the first line of the name was; the others go.
        for (field, placed) in fields.iter().zip(&mut placed) {
            if !*placed && name(field).eq_ignore_ascii_case(old_name) {
                *placed = true;
                out.push(field);
            }
        }
    }
    let added = fields.iter().zip(&placed).filter(|(_, placed)| !**placed);
    out.extend(added.map(|(field, _)| *field));
    lines.fields = out;
    lines.text()
}

/// Whether two heads have the same lines, except for `Date` and `Age`.
pub(super) fn is_same_but_for_time(one: &[u8], other: &[u8]) -> bool {
    let lines = |text| {
        let fields = Lines::of(text).fields.into_iter();
        fields.filter(|line: &&[u8]| !is_one_of(name(line), &[b"Date", b"Age"]))
    };
    lines(one).eq(lines(other))
}

/// Whether all lines of two heads are equally long, so that every mixture of them makes sense.
pub(super) fn has_same_layout(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && memchr::memchr_iter(b'\n', one).eq(memchr::memchr_iter(b'\n', other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &str) -> Vec<u8> {
        lines.replace('|', "\r\n").into_bytes()
    }

    fn shown(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text").replace("\r\n", "|")
    }

    #[test]
    fn what_is_about_a_connection_is_not_kept() {
        let head = text(
            "HTTP/1.1 200 OK|Connection: a, close, X-B|A: 1|x-b: 2|C: 3|Keep-Alive: 5|\
             transfer-encoding: chunked|Upgrade: h2c|Proxy-Authenticate: Basic|Date: now||",
        );
        assert_eq!(
            shown(kept(&head, &[], None)),
            "HTTP/1.1 200 OK|C: 3|Date: now||"
        );
        let named = text("HTTP/1.1 200 OK|Connection: date|Date: now||");
        assert_eq!(
            shown(kept(&named, &[], None)),
            "HTTP/1.1 200 OK|Date: now||"
        );
    }

    #[test]
    fn what_is_for_one_client_is_not_kept() {
        let scope = |names: &[&str]| {
            Scope::Fields(names.iter().map(|name| name.as_bytes().into()).collect())
        };
        let head =
            text("Status: 200 OK|A: 1|B: 2| continued|\tagain|Set-Cookie: 3|set-cookie: 4||");
        let (one, other) = (scope(&["set-cookie"]), scope(&["b"]));
        let kept_head = kept(&head, &[&one, &other, &Scope::Everything], Some(b"then"));
        assert_eq!(shown(kept_head), "Status: 200 OK|A: 1|Date: then||");
        // An invalid date is replaced.
        let head = text("HTTP/1.1 200 OK|Date: foo|A: 1||");
        assert_eq!(
            shown(kept(&head, &[], Some(b"then"))),
            "HTTP/1.1 200 OK|A: 1|Date: then||"
        );
        let bare = b"HTTP/1.0 200 OK\nA: 1\n\n";
        assert_eq!(kept(bare, &[], None), b"HTTP/1.0 200 OK\nA: 1\n\r\n");
    }

    #[test]
    fn heads_are_compared() {
        let head = |lines: &str| text(&format!("HTTP/1.1 200 OK|{lines}|"));
        let one = head("Date: 1|X: a|Age: 5|");
        assert!(is_same_but_for_time(&one, &head("X: a|Date: 22|")));
        assert!(!is_same_but_for_time(&one, &head("X: b|Date: 1|")));
        assert!(!is_same_but_for_time(&one, &head("X: a|Y: b|")));
        assert!(has_same_layout(&one, &head("Date: 2|X: b|Age: 6|")));
        assert!(!has_same_layout(&one, &head("Date: 2|X: b|Age: 66|")));
        assert!(!has_same_layout(&one, &head("X: a|Date: 1|Age: 5|")));
    }

    #[test]
    fn newer_fields_take_the_place_of_older_ones() {
        let old = text(
            "HTTP/1.1 200 OK|Date: 1|X: old|Age: 5|Content-Length: 9|Content-Encoding: gzip|x: old2|Y: y||",
        );
        let newer = text(
            "HTTP/1.1 304 Not Modified|Date: 2|Content-Length: 0|Content-Encoding: br|Z: z|x: new|X: new2||",
        );
        assert_eq!(
            shown(updated(&old, &newer)),
            "HTTP/1.1 200 OK|Date: 2|x: new|X: new2|Content-Length: 9|Content-Encoding: gzip|Y: y|Z: z||"
        );
        let newer = text("Status: 304 Not Modified|Age: 7||");
        let old = text("Status: 404 Not Found|Age: 5||");
        assert_eq!(
            shown(updated(&old, &newer)),
            "Status: 404 Not Found|Age: 7||"
        );
    }
}
