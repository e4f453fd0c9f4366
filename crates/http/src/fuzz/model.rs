//! Where requests may begin in a client's stream: HTTP/1 framing as in RFC 9112, written to be
//! obvious rather than fast. It shares no code with the parsers it judges.
//!
//! It allows what a careful server may allow. Where senders and receivers are known to disagree
//! about an end, it knows of no further request, and a server must not find one there.

/// The positions in `stream` where a request may begin, including the first. Empty lines before a
/// request are not part of it, so each position is after them.
pub fn request_starts(stream: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    loop {
        at = behind_empty_lines(stream, at);
        if at == stream.len() {
            return starts;
        }
        starts.push(at);
        match message_end(stream, at) {
            Some(end) => at = end,
            None => return starts,
        }
    }
}

/// The position after the empty lines at `at`, which section 2.2 allows before a request. As in
/// nginx, CR and LF may come in any order; only line ends are skipped.
pub(super) fn behind_empty_lines(stream: &[u8], at: usize) -> usize {
    let is_end = |byte: &&u8| **byte == b'\r' || **byte == b'\n';
    at + stream[at..].iter().take_while(is_end).count()
}

/// Where the request that begins at `at` ends, if it does and another may follow it.
fn message_end(stream: &[u8], at: usize) -> Option<usize> {
    let mut rest = &stream[at..];
    let request_line = next_line(&mut rest)?;
    let is_http_1_0 = match version(request_line)? {
        b"0" => true,
        minor if minor.iter().all(u8::is_ascii_digit) => false,
        _ => return None,
    };
    let mut fields = Vec::new();
    loop {
        let line = next_line(&mut rest)?;
        if line.is_empty() {
            break;
        }
        fields.push(field(line)?);
    }
    let body = &stream[stream.len() - rest.len()..];
    if !persists(&fields, is_http_1_0) {
        return None;
    }
    let length = body_length(&fields, is_http_1_0, body)?;
    (length <= body.len()).then(|| stream.len() - rest.len() + length)
}

/// A line of a head without its end. It must not contain a bare CR or NUL (section 2.2).
fn next_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let line = &rest[..end];
    *rest = &rest[end + 1..];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    (!line.contains(&b'\r') && !line.contains(&0)).then_some(line)
}

/// The minor version of HTTP/1; no other version has a request after it.
fn version(request_line: &[u8]) -> Option<&[u8]> {
    let blank = request_line.iter().rposition(|&byte| byte == b' ')?;
    let word = &request_line[blank + 1..];
    let word = match word {
        // Spaces at the end of the line are not part of the version.
        b"" => request_line.trim_ascii().rsplit(|b| *b == b' ').next()?,
        word => word,
    };
    word.strip_prefix(b"HTTP/1.")
        .filter(|minor| !minor.is_empty())
}

/// A name in lower case, and its value.
type Field = (Vec<u8>, Vec<u8>);

/// A header line. `None` if implementations disagree on whether its name is that of a framing
/// field, or whether the line belongs to the previous one (sections 5.1 and 5.2).
fn field(line: &[u8]) -> Option<Field> {
    if line[0] == b' ' || line[0] == b'\t' {
        return None;
    }
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = match colon {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => (line, &b""[..]),
    };
    let name = name.to_ascii_lowercase();
    let is_visible = |byte: &&u8| **byte > b' ' && **byte != 0x7f;
    let visible: Vec<u8> = name.iter().filter(is_visible).copied().collect();
    let frames = visible == b"content-length" || visible == b"transfer-encoding";
    if frames && (colon.is_none() || visible != name) {
        return None;
    }
    Some((name, value.trim_ascii().to_vec()))
}

fn values<'f>(fields: &'f [Field], wanted: &'f [u8]) -> impl Iterator<Item = &'f [u8]> {
    let of_name = fields.iter().filter(move |(name, _)| name == wanted);
    of_name.map(|(_, value)| value.as_slice())
}

/// Section 9.3. A server may close the connection when it need not.
fn persists(fields: &[Field], is_http_1_0: bool) -> bool {
    let says = |word: &[u8]| {
        values(fields, b"connection").any(|value| {
            let mut options = value.split(|&byte| byte == b',');
            options.any(|option| option.trim_ascii().eq_ignore_ascii_case(word))
        })
    };
    !says(b"close") && (!is_http_1_0 || says(b"keep-alive"))
}

/// Bytes of the body with its framing (section 6.3). `None` if it has no end, or one that
/// implementations disagree about.
fn body_length(fields: &[Field], is_http_1_0: bool, body: &[u8]) -> Option<usize> {
    let lengths: Vec<_> = values(fields, b"content-length").collect();
    let codings: Vec<_> = values(fields, b"transfer-encoding").collect();
    match (&codings[..], &lengths[..]) {
        ([], []) => Some(0),
        ([], [first, others @ ..]) => {
            // The same number several times counts as one length.
            let mut numbers = first.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            let number = numbers.next()?;
            let agree = numbers.all(|other| other == number) && others.iter().all(|o| o == first);
            let digits = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
            let text = std::str::from_utf8(number).ok()?;
            (agree && digits).then(|| text.parse().ok())?
        }
        ([coding], []) if !is_http_1_0 && coding.eq_ignore_ascii_case(b"chunked") => {
            chunked_length(body)
        }
        _ => None,
    }
}

/// Bytes of a chunked body (section 7.1), every line of which ends with CR LF.
fn chunked_length(body: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = strict_line(body, &mut at)?;
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit());
        let digits = digits.count();
        let size = std::str::from_utf8(&line[..digits]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        let extension = line[digits..].trim_ascii();
        if !extension.is_empty() && extension[0] != b';' {
            return None;
        }
        if size == 0 {
            break;
        }
        let data_end = at.checked_add(size)?;
        if body.get(data_end..data_end.checked_add(2)?)? != b"\r\n" {
            return None;
        }
        at = data_end + 2;
    }
    // The trailer section.
    while !strict_line(body, &mut at)?.is_empty() {}
    Some(at)
}

/// A line up to the first CR, which LF must follow; no other control characters but the tab.
fn strict_line<'b>(body: &'b [u8], at: &mut usize) -> Option<&'b [u8]> {
    let rest = &body[*at..];
    let end = rest
        .iter()
        .position(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f)?;
    if !rest[end..].starts_with(b"\r\n") {
        return None;
    }
    *at += end + 2;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn starts(stream: &str, expected: &[usize]) {
        assert_eq!(request_starts(stream.as_bytes()), expected, "{stream:?}");
    }

    #[test]
    fn requests_follow_bodies_that_end() {
        starts("GET / HTTP/1.1\r\n\r\nG", &[0, 18]);
        starts("\r\n\nGET / HTTP/1.1\n\n\r\nG", &[3, 21]);
        starts("P / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcG", &[0, 38]);
        let head = "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        starts(
            &format!("{head}2;a=b\r\nab\r\n0\r\nc: d\r\n\r\nG"),
            &[0, 66],
        );
    }

    #[test]
    fn nothing_follows_what_has_two_readings() {
        for head in [
            "P / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "P / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n",
            "P / HTTP/1.1\r\nContent-Length: +0\r\n\r\n",
            "P / HTTP/1.1\r\nContent-Length : 0\r\n\r\n",
            "P / HTTP/1.1\r\nA: b\r\n Content-Length: 0\r\n\r\n",
            "P / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "P / HTTP/1.1\r\nTransfer-Encoding: chunked, x\r\n\r\n0\r\n\r\n",
            "P / HTTP/1.1\r\nConnection: close\r\n\r\n",
            "P / HTTP/1.0\r\n\r\n",
            "P /\r\n\r\n",
            "P / HTTP/1.1\r\nA: b\rc\r\n\r\n",
        ] {
            starts(&format!("{head}GET / HTTP/1.1\r\n\r\n"), &[0]);
        }
        let head = "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in [
            "1\r\nab\r\n0\r\n\r\n",
            "1\na\r\n0\r\n\r\n",
            "1;a\nb\r\na\r\n0\r\n\r\n",
            "0x1\r\na\r\n0\r\n\r\n",
            "\r\n0\r\n\r\n",
            "0\r\na\n\r\n",
            "ffffffffffffffffff\r\na\r\n0\r\n\r\n",
        ] {
            starts(&format!("{head}{body}GET / HTTP/1.1\r\n\r\n"), &[0]);
        }
    }
}
