//! Request heads: turns the fields of a header block into the head that the rest of the server uses
//! (RFC 9113 section 8.3.1, RFC 9114 section 4.3.1).
//!
//! A request that the server refuses is answered as in HTTP/1, with the same [`RequestError`]. So
//! is one that RFC 9113 calls malformed, before its stream is reset (section 8.1.1): clients and
//! operators then see which request it was, and why.

use super::Request;
use super::class::{Class, Kind, raw_header};
use super::field::{Field, FieldSink, LINE_END, Note};
use crate::h1::{self, Framing, RawHeader, RequestError, RequestHead, Version};
use crate::headers::KnownHeader;
use crate::uri::{TargetForm, parse_authority, split_target};
use crate::{Method, Span, decimal};

/// Where the value of a pseudo-header is.
type Pseudo = Option<Span>;

/// Builds a request from the fields as they are decoded.
pub(crate) struct RequestSink {
    version: Version,
    limits: h1::Limits,
    head: RequestHead,
    method: Pseudo,
    scheme: Pseudo,
    authority: Pseudo,
    path: Pseudo,
    protocol: Pseudo,
    /// Extended CONNECT has been announced.
    extended_connect: bool,
    /// Where the first line after the pseudo-headers begins.
    regular_start: Option<usize>,
    /// Length of the authority's host.
    authority_host_bytes: usize,
    /// Cookie lines that are not adjacent.
    cookies: u32,
    malformed: Option<RequestError>,
    refused: Option<RequestError>,
}

/// The host line written for `:authority`.
const HOST_NAME: &[u8] = b"host";

impl RequestSink {
    pub(crate) fn new(version: Version, limits: h1::Limits, extended_connect: bool) -> RequestSink {
        RequestSink {
            version,
            limits,
            head: RequestHead::default(),
            method: None,
            scheme: None,
            authority: None,
            path: None,
            protocol: None,
            extended_connect,
            regular_start: None,
            authority_host_bytes: 0,
            cookies: 0,
            malformed: None,
            refused: None,
        }
    }

    fn malformed(&mut self, why: &'static str) {
        self.malformed
            .get_or_insert(RequestError::Malformed { why });
    }

    fn refuse(&mut self, error: RequestError) {
        self.refused.get_or_insert(error);
    }

    fn pseudo(&mut self, kind: Kind, value: Span) {
        if self.regular_start.is_some() {
            return self.malformed("client sent pseudo header after other headers");
        }
        let (place, twice, empty) = match kind {
            Kind::Method => (
                &mut self.method,
                "client sent duplicate :method header",
                "client sent empty :method header",
            ),
            Kind::Scheme => (
                &mut self.scheme,
                "client sent duplicate :scheme header",
                "client sent empty :scheme header",
            ),
            Kind::Authority => (
                &mut self.authority,
                "client sent duplicate :authority header",
                "client sent empty :authority header",
            ),
            Kind::Path => (
                &mut self.path,
                "client sent duplicate :path header",
                "client sent empty :path header",
            ),
            // Section 4 of RFC 8441: not before it has been announced.
            Kind::Protocol if self.extended_connect => (
                &mut self.protocol,
                "client sent duplicate :protocol header",
                "client sent empty :protocol header",
            ),
            _ => return self.malformed("client sent unknown pseudo header"),
        };
        if place.is_some() {
            self.malformed(twice);
        } else if value.is_empty() {
            self.malformed(empty);
        } else {
            *place = Some(value);
        }
    }

    fn regular(&mut self, text: &mut Vec<u8>, field: &Field, class: Class) {
        if self.regular_start.is_none() {
            self.begin_regular(field.line_start);
        }
        let header = raw_header(field, class.known);
        match class.kind {
            Kind::Plain => {}
            Kind::Cookie if self.join_cookie(text, field) => return,
            Kind::Cookie => self.cookies += 1,
            Kind::Host => {
                if !self.take_host(text, header) {
                    // The authority has already provided it.
                    return text.truncate(field.line_start);
                }
            }
            Kind::ContentLength => self.take_length(text, header),
            Kind::Te if !header.value.of(text).eq_ignore_ascii_case(b"trailers") => {
                return self.malformed("client sent \"TE\" header other than \"trailers\"");
            }
            Kind::Te => {}
            Kind::Connection => {
                return self.malformed("client sent connection-specific header");
            }
            Kind::Underscore | Kind::Unusual => {
                let usual = class.kind == Kind::Underscore && self.limits.underscores_in_headers;
                if !usual && self.limits.ignore_invalid_headers {
                    let line = Span::new(field.line_start, text.len() - 2);
                    self.head.ignored_header.get_or_insert(line);
                    return;
                }
            }
            _ => return self.malformed("client sent invalid header name"),
        }
        if class.known == Some(KnownHeader::Expect) {
            self.head.expect_continue = header.value.of(text).eq_ignore_ascii_case(b"100-continue");
        }
        self.push(header);
    }

    /// Adds a header to the list.
    fn push(&mut self, header: RawHeader) {
        // The authority is no header, although it is kept as one.
        let others = self.head.headers.len() - usize::from(self.authority.is_some());
        if others >= self.limits.max_headers {
            return self.refuse(RequestError::TooManyHeaders);
        }
        let seen = self.head.push_header(header);
        if let Some(name) = header.known
            && seen
            && h1::is_sent_once(name)
        {
            let line = Span::new(header.name.start as usize, header.value.end as usize);
            self.refuse(RequestError::DuplicateHeader { name, line });
        }
    }

    /// The pseudo-headers are complete. The host comes first if the authority gives it; its
    /// position is set when the head is written.
    fn begin_regular(&mut self, line_start: usize) {
        self.regular_start = Some(line_start);
        if let Some(value) = self.authority {
            self.head.push_header(RawHeader {
                name: Span::default(),
                value,
                known: Some(KnownHeader::Host),
            });
        }
    }

    /// Whether the `host` line is kept (section 8.3.1: it must agree with `:authority`).
    fn take_host(&mut self, text: &[u8], header: RawHeader) -> bool {
        let value = header.value;
        if let Some(authority) = self.authority {
            let agree = authority.of(text).eq_ignore_ascii_case(value.of(text));
            if !agree {
                self.refuse(RequestError::InvalidHost { value });
            }
            return !agree;
        }
        match parse_authority(value.of(text)) {
            Ok(authority) if self.head.host.is_none() => {
                let start = value.start as usize;
                self.head.host = Some(Span::new(start, start + authority.host.len()));
                self.head.port = authority.port;
            }
            Ok(_) => {}
            Err(_) => self.refuse(RequestError::InvalidHost { value }),
        }
        true
    }

    fn take_length(&mut self, text: &[u8], header: RawHeader) {
        let value = header.value;
        match decimal::parse_offset(value.of(text)) {
            Some(length) => self.head.framing = Framing::Length(length),
            None => self.refuse(RequestError::InvalidContentLength { value }),
        }
    }

    /// Joins a cookie field with the preceding cookie line, which is the last line of the text
    /// (section 8.2.3).
    fn join_cookie(&mut self, text: &mut Vec<u8>, field: &Field) -> bool {
        let Some(last) = self.head.headers.last_mut() else {
            return false;
        };
        let is_adjacent = last.value.end as usize + 2 == field.line_start;
        if last.known != Some(KnownHeader::Cookie) || !is_adjacent {
            return false;
        }
        text[field.line_start - 2..field.line_start].copy_from_slice(b"; ");
        let value_start = field.value_start();
        text.copy_within(value_start.., field.line_start);
        let value_end = field.line_start + field.value_bytes;
        text.truncate(value_end + 2);
        last.value.end = Span::new(0, value_end).end;
        true
    }

    /// Joins cookies that other fields separate into one line after all others, as in nginx.
    fn join_far_cookies(&mut self, text: &mut Vec<u8>) {
        let name_start = text.len();
        text.extend_from_slice(b"cookie: ");
        let value_start = text.len();
        for header in &self.head.headers {
            if header.known == Some(KnownHeader::Cookie) {
                if text.len() > value_start {
                    text.extend_from_slice(b"; ");
                }
                text.extend_from_within(header.value.range());
            }
        }
        let value = Span::new(value_start, text.len());
        text.extend_from_slice(b"\r\n");
        self.head
            .headers
            .retain(|header| header.known != Some(KnownHeader::Cookie));
        self.head.push_header(RawHeader {
            name: Span::new(name_start, name_start + b"cookie".len()),
            value,
            known: Some(KnownHeader::Cookie),
        });
    }

    /// All fields have been seen. `exceeded` means that some were skipped for their size or number;
    /// `end` means that no body follows. With an error, the request is to be answered with its
    /// status.
    pub(crate) fn finish(
        mut self,
        mut text: Vec<u8>,
        exceeded: bool,
        end: bool,
    ) -> (Request, Option<RequestError>) {
        if self.regular_start.is_none() {
            self.begin_regular(text.len());
        }
        if self.cookies > 1 {
            self.join_far_cookies(&mut text);
        }
        if exceeded {
            self.refuse(if self.path.is_none() {
                RequestError::UriTooLong
            } else {
                RequestError::HeadTooLarge
            });
        }
        if self.malformed.is_none() {
            self.judge_target(&text);
        }
        if self.head.extended_connect {
            self.add_upgrade(&mut text);
        }
        self.write_first_lines(&mut text);
        if self.malformed.is_some() {
            // Whatever follows the head is ignored.
            self.head.framing = Framing::None;
            self.head.path = Span::default();
        } else {
            self.settle_framing(end);
        }
        self.head.version = self.version;
        self.head.keep_alive = true;
        text.extend_from_slice(b"\r\n");
        let request = Request {
            text,
            head: self.head,
        };
        (request, self.malformed.or(self.refused))
    }

    /// Checks method, scheme, authority and path.
    fn judge_target(&mut self, text: &[u8]) {
        let Some(method) = self.method else {
            return self.refuse(RequestError::MissingPseudoHeader { name: ":method" });
        };
        let method = method.of(text);
        // As in HTTP/1.
        if !method
            .iter()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'_' | b'-'))
        {
            return self.malformed("client sent invalid method");
        }
        self.head.method = Method::from_bytes(method);
        if let Some(value) = self.authority {
            match parse_authority(value.of(text)) {
                Ok(authority) => {
                    self.authority_host_bytes = authority.host.len();
                    self.head.port = authority.port;
                }
                Err(_) => self.refuse(RequestError::InvalidHost { value }),
            }
        } else if !self.head.has(KnownHeader::Host) {
            self.refuse(RequestError::MissingHost);
        }
        match (self.head.method, self.protocol) {
            (Method::Connect, None) => return self.judge_connect(text),
            (Method::Connect, Some(_)) => self.judge_extended_connect(),
            (_, None) => {}
            (_, Some(_)) => return self.malformed("client sent :protocol header without CONNECT"),
        }
        let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        match self.scheme {
            None => self.refuse(RequestError::MissingPseudoHeader { name: ":scheme" }),
            Some(scheme) if !scheme.of(text).iter().all(is_scheme) => {
                self.malformed("client sent invalid :scheme header");
            }
            Some(_) => {}
        }
        let Some(path) = self.path else {
            return self.refuse(RequestError::MissingPseudoHeader { name: ":path" });
        };
        match split_target(path.of(text), self.head.method) {
            Ok(form @ (TargetForm::Origin | TargetForm::Asterisk)) => self.head.form = form,
            _ => self.malformed("client sent invalid :path header"),
        }
    }

    /// CONNECT has a method and an authority, and no other pseudo-headers (section 8.5).
    fn judge_connect(&mut self, text: &[u8]) {
        let Some(authority) = self.authority else {
            return self.malformed("client sent CONNECT without :authority header");
        };
        if self.scheme.is_some() || self.path.is_some() {
            return self.malformed("client sent CONNECT with :scheme or :path header");
        }
        match split_target(authority.of(text), Method::Connect) {
            Ok(form) => self.head.form = form,
            Err(_) => self.refuse(RequestError::InvalidHost { value: authority }),
        }
        self.refuse_length();
    }

    /// Extended CONNECT (RFC 8441 section 4) has the pseudo-headers of other requests, too. It
    /// becomes what opens a WebSocket over HTTP/1.1.
    fn judge_extended_connect(&mut self) {
        if self.authority.is_none() {
            return self.malformed("client sent CONNECT without :authority header");
        }
        self.head.method = Method::Get;
        self.head.extended_connect = true;
        self.head.connection_upgrade = true;
        self.refuse_length();
    }

    /// The DATA frames of CONNECT are those of a tunnel, and no content with a length.
    fn refuse_length(&mut self) {
        if matches!(self.head.framing, Framing::Length(_)) {
            self.malformed("client sent CONNECT with content-length header");
        }
    }

    /// The fields that open a WebSocket over HTTP/1.1, except for its key.
    fn add_upgrade(&mut self, text: &mut Vec<u8>) {
        let protocol = self.protocol.unwrap_or_default();
        for (name, known) in [
            (&b"connection"[..], KnownHeader::Connection),
            (b"upgrade", KnownHeader::Upgrade),
        ] {
            let name_start = text.len();
            text.extend_from_slice(name);
            text.extend_from_slice(b": ");
            let value_start = text.len();
            match known {
                KnownHeader::Connection => text.extend_from_slice(b"upgrade"),
                _ => text.extend_from_within(protocol.range()),
            }
            let value = Span::new(value_start, text.len());
            text.extend_from_slice(b"\r\n");
            self.head.push_header(RawHeader {
                name: Span::new(name_start, name_start + name.len()),
                value,
                known: Some(known),
            });
        }
    }

    /// Writes the request line and the host line over the pseudo-headers, directly before the first
    /// line that follows them.
    fn write_first_lines(&mut self, text: &mut Vec<u8>) {
        let regular_start = self.regular_start.unwrap_or(text.len());
        let method = self.method.unwrap_or_default();
        let is_connect = self.head.method == Method::Connect;
        let target = if is_connect {
            self.authority
        } else {
            self.path
        };
        let target = target.unwrap_or_default();
        // They are built after everything else, where there is room, and then moved.
        let lines_start = text.len();
        match self.head.extended_connect {
            true => text.extend_from_slice(b"GET"),
            false => text.extend_from_within(method.range()),
        }
        let method_bytes = text.len() - lines_start;
        text.push(b' ');
        text.extend_from_within(target.range());
        text.push(b' ');
        text.extend_from_slice(self.version.name().as_bytes());
        text.extend_from_slice(LINE_END);
        if let Some(authority) = self.authority {
            text.extend_from_slice(b"host: ");
            text.extend_from_within(authority.range());
            text.extend_from_slice(b"\r\n");
        }
        let lines_bytes = text.len() - lines_start;
        // They take less room than the pseudo-headers did, except for CONNECT, whose authority
        // comes twice, and for heads that are refused.
        let missing = lines_bytes.saturating_sub(regular_start);
        if missing > 0 {
            self.shift(text, missing);
        }
        let start = regular_start + missing - lines_bytes;
        text.copy_within(lines_start + missing.., start);
        text.truncate(lines_start + missing);
        self.place_first_lines(start, method_bytes, target.len());
    }

    /// Moves everything after the pseudo-headers towards the end by `by` bytes.
    fn shift(&mut self, text: &mut Vec<u8>, by: usize) {
        let regular_start = self.regular_start.unwrap_or(text.len());
        text.splice(regular_start..regular_start, std::iter::repeat_n(0, by));
        self.regular_start = Some(regular_start + by);
        let moved = |span: &mut Span| {
            if span.start as usize >= regular_start {
                *span = Span::new(span.start as usize + by, span.end as usize + by);
            }
        };
        for header in &mut self.head.headers {
            moved(&mut header.name);
            moved(&mut header.value);
        }
        self.head.host.iter_mut().for_each(moved);
        self.head.ignored_header.iter_mut().for_each(moved);
        self.refused
            .iter_mut()
            .filter_map(RequestError::excerpt_mut)
            .for_each(moved);
    }

    /// Sets the positions in the lines written at `start`.
    fn place_first_lines(&mut self, start: usize, method_bytes: usize, target_bytes: usize) {
        let target_start = start + method_bytes + 1;
        let line_end = target_start + target_bytes + 1 + self.version.name().len();
        let head = &mut self.head;
        head.method_name = Span::new(start, start + method_bytes);
        head.target = Span::new(target_start, target_start + target_bytes);
        head.request_line = Span::new(start, line_end);
        head.path = match head.form {
            TargetForm::Origin => head.target,
            _ => Span::default(),
        };
        let Some(authority) = self.authority else {
            return;
        };
        let name_start = line_end + 2;
        let value_start = name_start + HOST_NAME.len() + 2;
        let value = Span::new(value_start, value_start + authority.len());
        if let Some(host) = head.headers.first_mut() {
            host.name = Span::new(name_start, name_start + HOST_NAME.len());
            host.value = value;
        }
        if let Some(RequestError::InvalidHost { value: blamed }) = &mut self.refused
            && *blamed == authority
        {
            *blamed = value;
        }
        if self.authority_host_bytes > 0 {
            head.host = Some(Span::new(
                value_start,
                value_start + self.authority_host_bytes,
            ));
        }
    }

    /// Settles how the body ends, and checks that an announced body can come.
    fn settle_framing(&mut self, end: bool) {
        match self.head.framing {
            Framing::Length(length) if end && length > 0 => {
                self.refuse(RequestError::PrematureEnd);
            }
            Framing::Length(_) => {}
            // What follows belongs to the tunnel.
            _ if end || self.head.extended_connect => self.head.framing = Framing::None,
            _ => self.head.framing = Framing::Chunked,
        }
    }
}

impl FieldSink for RequestSink {
    fn field(&mut self, text: &mut Vec<u8>, field: &Field) -> Note {
        let class = Class::of(text, field);
        if self.malformed.is_some() {
            // The first error counts.
        } else if !class.value_is_valid {
            self.malformed("client sent header with invalid value");
        } else if class.kind.is_pseudo() {
            self.pseudo(class.kind, raw_header(field, None).value);
        } else {
            self.regular(text, field, class);
        }
        if self.malformed.is_some() {
            // Nothing of a field that must not be passed on is left in the text.
            text.truncate(field.line_start);
        }
        class.note()
    }
}
