//! `charset`: names the character set of text responses, and converts them if there is a
//! `charset_map`.

use super::head;
use super::transformed::{Transform, TransformStatus, transform};
use crate::body_source::SourceError;
use crate::exchange::{ContentType, Exchange};
use crate::request_log::{Text, log_request};
use crate::template;
use bytes::{Buf, Bytes};
use sealane_conf::model::{Charset, CharsetName, CharsetTable, Conversion};
use sealane_http::StatusCode;
use sealane_http::headers::FieldValue;
use sealane_io::chain::OutputChain;

/// What a request keeps for `charset`.
#[derive(Default)]
pub(crate) struct CharsetState {
    /// In a subrequest: the character set of the response that this one becomes part of.
    pub(crate) of_main: Option<Box<[u8]>>,
}

impl CharsetState {
    /// The responses to a request and its subrequests are all in one character set.
    pub(crate) fn of_subrequest(main: &Exchange) -> CharsetState {
        let of_main = match main.request.is_subrequest {
            true => main.features.charset.of_main.clone(),
            false => head::charset(&main.response).map(Into::into),
        };
        CharsetState { of_main }
    }
}

/// Applies to responses with a type, if the response or the configuration names a character set.
/// `None`: the location has no `charset`.
pub(super) fn apply(exchange: &mut Exchange, settings: Option<&Charset>) {
    if exchange.response.content_type.is_none() {
        return;
    }
    let wanted = match exchange.request.is_subrequest {
        true => exchange.features.charset.of_main.as_deref().map(Vec::from),
        false => wanted(exchange, settings),
    };
    let Some(wanted) = wanted else {
        return;
    };
    let Some(present) = present(exchange, settings) else {
        name(exchange, &wanted);
        return;
    };
    let charsets = exchange.snapshot.charsets.clone();
    let (from, to) = (charsets.find(&present), charsets.find(&wanted));
    if present.eq_ignore_ascii_case(&wanted) {
        name(exchange, &wanted);
        return;
    }
    let conversion = from.zip(to).and_then(|(from, to)| {
        let conversion = charsets.conversion(from, to)?;
        Some((conversion, &charsets.names[to]))
    });
    let Some((conversion, wanted)) = conversion else {
        let (present, wanted) = (Text(&present), Text(&wanted));
        let doing = doing(exchange);
        log_request!(
            exchange,
            Error,
            "no \"charset_map\" between the charsets \"{present}\" and \"{wanted}\"{doing}"
        );
        return;
    };
    if head::content_encoding(&exchange.response).is_some() {
        // What is compressed cannot be converted: `gzip_static`, or another server's.
        return;
    }
    let media_type = head::media_type(&exchange.response).map(Vec::from);
    exchange.response.content_type = media_type.as_deref().and_then(ContentType::new);
    name(exchange, wanted);
    if matches!(conversion.map.table, CharsetTable::Utf8 { .. }) {
        exchange.response.content_length = None;
    }
    transform(exchange, Recoding::new(conversion));
}

/// The character set that the response is to be sent in.
pub(crate) fn to_be_named(exchange: &Exchange) -> Option<Vec<u8>> {
    // The types of responses to subrequests are never sent.
    if exchange.request.is_subrequest {
        return None;
    }
    let filters = exchange.conf().body_filters.as_ref();
    wanted(
        exchange,
        filters.and_then(|filters| filters.texts.charset.as_deref()),
    )
}

/// The action that nginx adds to its log lines.
fn doing(exchange: &Exchange) -> &'static str {
    match exchange.response.from_upstream {
        true => " while reading response header from upstream",
        false => "", // the line says it already
    }
}

/// The set that it is to be in.
fn wanted(exchange: &Exchange, settings: Option<&Charset>) -> Option<Vec<u8>> {
    let charsets = &exchange.snapshot.charsets;
    if let Some(asked) = exchange.response.override_charset.as_deref()
        && !asked.is_empty()
    {
        if charsets.find(asked).is_some() {
            return Some(asked.to_vec());
        }
        let asked = Text(asked);
        let doing = doing(exchange);
        log_request!(
            exchange,
            Error,
            "unknown charset \"{asked}\" to override{doing}"
        );
        return None;
    }
    let settings = settings?;
    let named = settings.named.as_ref()?;
    let applies = match head::charset(&exchange.response) {
        Some(_) => settings.override_charset,
        None => head::is_of(&exchange.response, &settings.types),
    };
    applies.then(|| evaluate(exchange, named))
}

/// The character set that the response is in, if it is known.
fn present(exchange: &Exchange, settings: Option<&Charset>) -> Option<Vec<u8>> {
    match head::charset(&exchange.response) {
        Some(said) => Some(said.to_vec()),
        None => {
            let source = settings?.source.as_ref()?;
            Some(evaluate(exchange, source))
        }
    }
}

fn evaluate(exchange: &Exchange, name: &CharsetName) -> Vec<u8> {
    match name {
        CharsetName::Known(index) => exchange.snapshot.charsets.names[*index].to_vec(),
        CharsetName::Variable(variable) => template::evaluate(variable, exchange).into_owned(),
    }
}

/// Adds the character set to `Content-Type`, unless it is there or the body is not sent.
fn name(exchange: &mut Exchange, charset: &[u8]) {
    if FieldValue::new(charset).is_err() {
        log_request!(
            exchange,
            Error,
            "line break or NUL in the charset of the response, which is left out: a variable in \
             \"charset\" holds decoded text"
        );
        return;
    }
    let response = &mut exchange.response;
    let unseen = matches!(
        response.status,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND
    );
    if exchange.request.is_subrequest || unseen {
        return;
    }
    let names_one = head::charset(response).is_some();
    if let Some(media_type) = &response.content_type
        && !names_one
        && !charset.is_empty()
    {
        let named = [media_type.as_bytes(), b"; charset=", charset].concat();
        response.content_type = ContentType::new(&named);
        response.charset_named = true;
    }
}

struct Recoding {
    conversion: Conversion,
    /// The beginning of a character.
    begun: Vec<u8>,
}

/// Bytes that are converted at a time.
const STEP_BYTES: usize = 16 << 10;

impl Recoding {
    fn new(conversion: Conversion) -> Recoding {
        Recoding {
            conversion,
            begun: Vec::new(),
        }
    }
}

impl Transform for Recoding {
    fn step(
        &mut self,
        _exchange: &mut Exchange,
        input: &mut Bytes,
        ended: bool,
        output: &mut OutputChain,
        max_bytes: usize,
    ) -> Result<TransformStatus, SourceError> {
        let mut made_bytes = 0;
        while !input.is_empty() {
            if made_bytes >= max_bytes {
                return Ok(TransformStatus::Full);
            }
            let part = input.split_to(input.len().min(STEP_BYTES));
            let back = self.conversion.back;
            let made = match &self.conversion.map.table {
                CharsetTable::Bytes { forth, back: table } => {
                    let table = if back { table } else { forth };
                    part.iter().map(|byte| table[usize::from(*byte)]).collect()
                }
                CharsetTable::Utf8 { forth, .. } if !back => to_utf8(forth, &part),
                CharsetTable::Utf8 { back, .. } => {
                    let mut text = std::mem::take(&mut self.begun);
                    text.extend_from_slice(&part);
                    let (made, taken) = from_utf8(back, &text);
                    self.begun = text.split_off(taken);
                    made
                }
            };
            made_bytes += made.len();
            output.push_made(made);
        }
        // As in nginx, an incomplete character at the end is left out.
        Ok(match ended {
            true => TransformStatus::Ended,
            false => TransformStatus::Hungry,
        })
    }
}

fn to_utf8(table: &[[u8; 4]; 256], part: &[u8]) -> Vec<u8> {
    let mut made = Vec::with_capacity(part.len() + part.len() / 2);
    for byte in part {
        let [len, bytes @ ..] = &table[usize::from(*byte)];
        made.extend_from_slice(&bytes[..usize::from(*len)]);
    }
    made
}

/// Converts text. Returns how many bytes were taken: the last character may be incomplete.
fn from_utf8(table: &[Option<Box<[u8; 256]>>], text: &[u8]) -> (Vec<u8>, usize) {
    let mut made = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(byte) = rest.first() {
        if byte.is_ascii() {
            made.push(*byte);
            rest.advance(1);
            continue;
        }
        let Some((character, len)) = decode(rest) else {
            break;
        };
        rest.advance(len);
        match character {
            None => made.push(b'?'),
            Some(number) => match mapped(table, number) {
                Some(byte) => made.push(byte),
                None => made.extend_from_slice(format!("&#{number};").as_bytes()),
            },
        }
    }
    (made, text.len() - rest.len())
}

fn mapped(table: &[Option<Box<[u8; 256]>>], number: u32) -> Option<u8> {
    let [upper, lower] = u16::try_from(number).ok()?.to_be_bytes();
    let part = table.get(usize::from(upper))?.as_deref()?;
    Some(part[usize::from(lower)]).filter(|byte| *byte != 0)
}

/// The character at the beginning of `text`, `None` inside if it is invalid, and its length; `None`
/// if it is incomplete. As lenient as nginx, which checks no more than it must.
fn decode(text: &[u8]) -> Option<(Option<u32>, usize)> {
    let (first, least, following) = match *text.first()? {
        first @ 0xf0..=0xf7 => (first & 0x07, 0x1_0000, 3),
        first @ 0xe0..=0xef => (first & 0x0f, 0x800, 2),
        first @ 0xc2..=0xdf => (first & 0x1f, 0x80, 1),
        _ => return Some((None, 1)),
    };
    let following = text.get(1..=following)?;
    let mut number = u32::from(first);
    for (index, byte) in following.iter().enumerate() {
        if byte.is_ascii() {
            return Some((None, index + 2));
        }
        number = number << 6 | u32::from(byte & 0x3f);
    }
    let is_one = (least..=0x10_ffff).contains(&number);
    Some((is_one.then_some(number), following.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters() {
        assert_eq!(decode("ä".as_bytes()), Some((Some(0xe4), 2)));
        assert_eq!(decode("€x".as_bytes()), Some((Some(0x20ac), 3)));
        assert_eq!(decode("😀".as_bytes()), Some((Some(0x1f600), 4)));
        assert_eq!(decode(b"\xe2\x82"), None);
        assert_eq!(decode(b"\xe2\x41\x42"), Some((None, 2)));
        assert_eq!(decode(b"\xff"), Some((None, 1)));
        assert_eq!(decode(b"\xf7\xbf\xbf\xbf"), Some((None, 4)));
    }
}
