//! Whatever variables contain, a receiver other than ours parses exactly what was given to an
//! encoder.

use proptest::prelude::*;
use sealane_http::cgi::Param;
use sealane_http::h1::{
    RequestEncoder, ResponseHead, Version, encode_interim_head, encode_response_head, push_fields,
};
use sealane_http::h2::{Connection, HEADER_BYTES, PREFACE, RequestTarget, Scheme, Settings};
use sealane_http::headers::{Field, FieldValue, HeaderList};
use sealane_http::outgoing::{MethodName, Target};
use sealane_http::{StatusCode, fastcgi, scgi, uwsgi};
use std::sync::Arc;
use std::time::Duration;

type Pair = (Vec<u8>, Vec<u8>);

/// Text that is mostly harmless, and everything that ends something somewhere.
fn text() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop::sample::select(b"\r\n\0 \t:=,;\x7f\x80\xff".to_vec());
    let byte = prop_oneof![6 => b'a'..=b'z', 1 => odd, 1 => any::<u8>()];
    prop::collection::vec(byte, 0..10)
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "x-a",
        "HTTP_X",
        "REQUEST_URI",
        "te",
        "connection",
        ":path",
        "cookie",
    ];
    let known = prop::sample::select(known.to_vec()).prop_map(|name| name.as_bytes().to_vec());
    prop_oneof![known, text()]
}

fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    prop::collection::vec((name(), text()), 0..6)
}

fn fields(pairs: &[Pair]) -> Vec<Field<'_>> {
    pairs
        .iter()
        .filter_map(|(name, value)| Field::new(name, value).ok())
        .collect()
}

fn list(pairs: &[Pair]) -> HeaderList {
    let mut list = HeaderList::new();
    for (name, value) in pairs {
        let _ = list.push(name, value);
    }
    list
}

/// Names and values as a receiver of HTTP/1 is to see them.
fn expected(fields: &[Field<'_>]) -> Vec<Pair> {
    let pair = |field: &Field<'_>| {
        let value = field.value.trimmed().as_bytes().to_vec();
        (field.name.as_bytes().to_vec(), value)
    };
    fields.iter().map(pair).collect()
}

/// The lines of a head or trailer section, read as the strictest and the most lenient receivers
/// do: CR, LF and both end a line.
fn lines(section: &[u8]) -> Vec<Pair> {
    let text = section.strip_suffix(b"\r\n").unwrap_or(section);
    let text = text.strip_suffix(b"\r\n").unwrap_or(text);
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| b"\r\n\0".contains(byte));
        let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = behind.strip_prefix(b"\r\n").unwrap_or(match behind {
            [] => behind,
            [_, behind @ ..] => behind,
        });
        let colon = line.iter().position(|&byte| byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = value.iter().position(|byte| !is_blank(byte));
        let end = value.iter().rposition(|byte| !is_blank(byte));
        let value = match (start, end) {
            (Some(start), Some(end)) => &value[start..=end],
            _ => b"",
        };
        lines.push((name.to_vec(), value.to_vec()));
    }
    lines
}

/// The fields of the header blocks in these frames.
fn decoded(mut wire: &[u8]) -> Vec<Pair> {
    let mut block = Vec::new();
    while !wire.is_empty() {
        let length = u32::from_be_bytes([0, wire[0], wire[1], wire[2]]) as usize;
        let payload = &wire[HEADER_BYTES..HEADER_BYTES + length];
        if matches!(wire[3], 1 | 9) {
            block.extend_from_slice(payload);
        }
        wire = &wire[HEADER_BYTES + length..];
    }
    let mut fields = Vec::new();
    let mut decoder = httlib_hpack::Decoder::default();
    decoder.decode(&mut block, &mut fields).expect("a block");
    fields
        .into_iter()
        .map(|(name, value, _)| (name, value))
        .collect()
}

proptest! {
    #[test]
    fn a_request_by_http_1_has_its_line_and_its_fields(
        method in prop_oneof!["[A-Z]{1,8}".prop_map(String::into_bytes), text()],
        target in text().prop_map(|text| [b"/", &text[..]].concat()),
        pairs in pairs(),
    ) {
        let (Ok(name), Ok(path)) = (MethodName::new(&method), Target::new(&target)) else {
            return Ok(());
        };
        let mut out = Vec::new();
        let mut head = RequestEncoder::new(&mut out, name, path, Version::Http11);
        let fields = fields(&pairs);
        for field in &fields {
            head.header(*field);
        }
        prop_assert_eq!(head.finish(), out.len());
        let line = [&method[..], b" ", &target, b" HTTP/1.1\r\n"].concat();
        prop_assert!(out.starts_with(&line));
        prop_assert_eq!(line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).count(), 3);
        prop_assert_eq!(lines(&out[line.len()..]), expected(&fields));
    }

    #[test]
    fn a_response_by_http_1_has_its_fields(
        location in text(),
        content_type in text(),
        reason in text(),
        pairs in pairs(),
    ) {
        let list = list(&pairs);
        let mut head = ResponseHead::new(Version::Http11, StatusCode(302), &list);
        head.location = FieldValue::new(&location).ok();
        head.content_type = FieldValue::new(&content_type).ok();
        head.reason = FieldValue::new(&reason).ok();
        let mut out = Vec::new();
        encode_response_head(&mut out, &head);
        let lines_of = lines(&out);
        let own = 2 + usize::from(head.location.is_some()) + usize::from(head.content_type.is_some());
        prop_assert_eq!(lines_of.len(), own + list.len());
        prop_assert_eq!(&lines_of[own..], expected(&fields(&pairs)));
        out.clear();
        encode_interim_head(&mut out, StatusCode(103), &list);
        prop_assert_eq!(&lines(&out)[1..], expected(&fields(&pairs)));
        out.clear();
        push_fields(&mut out, &list);
        prop_assert_eq!(lines(&out), expected(&fields(&pairs)));
    }

    #[test]
    fn a_request_by_http_2_has_its_fields(
        method in prop_oneof!["[A-Z]{1,8}".prop_map(String::into_bytes), text()],
        authority in text(),
        path in text().prop_map(|text| [b"/", &text[..]].concat()),
        pairs in pairs(),
    ) {
        let Ok(target) = RequestTarget::new(&method, Scheme::Https, &authority, &path) else {
            return Ok(());
        };
        let mut out = Vec::new();
        let settings = Arc::new(Settings::default());
        let mut client = Connection::client(settings, Duration::ZERO, &mut out);
        let given = fields(&pairs);
        out.clear();
        client.open(&target, given.iter().copied(), true, &mut out).expect("a stream");
        let read = decoded(out.strip_prefix(PREFACE).unwrap_or(&out));
        let mut wanted: Vec<Pair> = vec![
            (b":method".to_vec(), method.clone()),
            (b":scheme".to_vec(), b"https".to_vec()),
        ];
        if !authority.is_empty() {
            wanted.push((b":authority".to_vec(), authority.clone()));
        }
        wanted.push((b":path".to_vec(), path.clone()));
        for (name, value) in expected(&given) {
            let name = name.to_ascii_lowercase();
            let is_left_out = matches!(&name[..], b"connection" | b"te")
                || (name == b"host" && !authority.is_empty());
            if !is_left_out {
                wanted.push((name, value));
            }
        }
        let is_te = |(name, _): &Pair| name == b"te";
        let read: Vec<Pair> = read.into_iter().filter(|pair| !is_te(pair)).collect();
        prop_assert_eq!(read, wanted);
    }

    #[test]
    fn a_request_to_an_application_has_its_parameters(pairs in pairs()) {
        let params: Vec<Param<'_>> = pairs
            .iter()
            .filter_map(|(name, value)| Param::new(name, value).ok())
            .collect();
        let pair = |param: &Param<'_>| (param.name().to_vec(), param.value().to_vec());
        let wanted: Vec<Pair> = params.iter().map(pair).collect();
        for (name, value) in &wanted {
            // What ends a name or a value in the environment of a program.
            prop_assert!(!name.is_empty() && !name.contains(&b'=') && !name.contains(&0));
            prop_assert!(!value.contains(&0));
            let is_in_line = name.starts_with(b"HTTP_") || name == b"REQUEST_URI";
            prop_assert!(!is_in_line || !value.iter().any(|byte| b"\r\n".contains(byte)));
        }

        let mut out = Vec::new();
        scgi::encode_request(&mut out, 5, params.iter().copied());
        let colon = out.iter().position(|&byte| byte == b':').expect("a netstring");
        let strings = &out[colon + 1..out.len() - 1];
        let mut strings: Vec<&[u8]> = strings.split(|&byte| byte == 0).collect();
        prop_assert_eq!(strings.pop(), Some(&b""[..]));
        let read: Vec<Pair> = strings
            .chunks(2)
            .map(|pair| (pair[0].to_vec(), pair[1].to_vec()))
            .collect();
        prop_assert_eq!(&read[0], &(b"CONTENT_LENGTH".to_vec(), b"5".to_vec()));
        prop_assert_eq!(&read[1..], &wanted);

        let mut out = Vec::new();
        uwsgi::encode_request(&mut out, 0, 0, params.iter().copied(), b"").expect("it fits");
        let mut rest = &out[4..];
        let mut read = Vec::new();
        while !rest.is_empty() {
            let mut take = || {
                let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
                let taken = rest[2..2 + length].to_vec();
                rest = &rest[2 + length..];
                taken
            };
            read.push((take(), take()));
        }
        prop_assert_eq!(&read, &wanted);

        let mut out = Vec::new();
        fastcgi::encode_params(&mut out, params.iter().copied()).expect("they fit");
        let length = usize::from(u16::from_be_bytes([out[4], out[5]]));
        let mut rest = if wanted.is_empty() { &[][..] } else { &out[8..8 + length] };
        let mut read = Vec::new();
        while !rest.is_empty() {
            let (name, value) = (usize::from(rest[0]), usize::from(rest[1]));
            let pair = &rest[2..2 + name + value];
            read.push((pair[..name].to_vec(), pair[name..].to_vec()));
            rest = &rest[2 + name + value..];
        }
        prop_assert_eq!(&read, &wanted);
    }
}
