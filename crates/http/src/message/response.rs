//! Response heads, for the client (RFC 9113 section 8.3.2).

use super::Response;
use super::class::{Class, Kind, raw_header};
use super::field::{Field, FieldSink, Note};
use crate::h1::{ReceivedResponse, Version};
use crate::{Span, StatusCode, decimal};

/// Builds a response from the fields as they are decoded.
pub(crate) struct ResponseSink {
    version: Version,
    head: ReceivedResponse,
    status_value: Option<Span>,
    malformed: Option<&'static str>,
}

impl ResponseSink {
    pub(crate) fn new(version: Version) -> ResponseSink {
        ResponseSink {
            version,
            head: ReceivedResponse::default(),
            status_value: None,
            malformed: None,
        }
    }

    fn malformed(&mut self, why: &'static str) {
        self.malformed.get_or_insert(why);
    }

    fn status(&mut self, text: &mut [u8], field: &Field) {
        let is_first = field.line_start == 0 && self.status_value.is_none();
        let value = field.value(text);
        let code = decimal::parse_offset(value).filter(|_| value.len() == 3);
        match code {
            Some(code @ 100..) if is_first => {
                self.head.status = StatusCode(code as u16);
                self.status_value = Some(raw_header(field, None).value);
                // `:status: ` becomes `HTTP/2.0 ` or `HTTP/3.0 `, which is as long.
                let name = self.version.name().as_bytes();
                text[..name.len()].copy_from_slice(name);
                text[name.len()] = b' ';
            }
            _ => self.malformed("upstream sent invalid, duplicate or late :status header"),
        }
    }

    /// The head, or the error in it.
    pub(crate) fn finish(
        mut self,
        mut text: Vec<u8>,
        exceeded: bool,
    ) -> Result<Response, &'static str> {
        if let Some(why) = self.malformed {
            return Err(why);
        }
        if exceeded {
            return Err("upstream sent too big header");
        }
        if self.status_value.is_none() {
            return Err("upstream sent no :status header");
        }
        if self.head.status.0 == 101 {
            // Section 8.6.
            return Err("upstream sent status 101");
        }
        text.extend_from_slice(b"\r\n");
        self.head.version = self.version;
        self.head.head_bytes = text.len();
        self.head.keep_alive = true;
        Ok(Response {
            text,
            head: self.head,
        })
    }
}

impl FieldSink for ResponseSink {
    fn field(&mut self, text: &mut Vec<u8>, field: &Field) -> Note {
        let class = Class::of(text, field);
        if self.malformed.is_some() {
            text.truncate(field.line_start);
        } else if !class.value_is_valid {
            self.malformed("upstream sent header with invalid value");
        } else {
            match class.kind {
                Kind::Status => self.status(text, field),
                Kind::Connection | Kind::Te => {
                    self.malformed("upstream sent connection-specific header");
                }
                Kind::Invalid => self.malformed("upstream sent invalid header name"),
                kind if kind.is_pseudo() => {
                    self.malformed("upstream sent invalid pseudo header");
                }
                _ => {
                    let line = Span::new(field.line_start, text.len() - 2);
                    if self.head.add_line(text, line).is_err() {
                        self.malformed("upstream sent invalid header");
                    }
                }
            }
        }
        class.note()
    }
}
