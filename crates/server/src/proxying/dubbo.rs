//! `dubbo_pass`: what the method is called with.

use super::request::{EARLY_DATA, Marked, early_data, is_early_data};
use crate::exchange::Exchange;
use crate::template;
use sealane_conf::model::DubboPass;
use sealane_http::cgi::variables::separator;
use sealane_http::dubbo::{self, Target};

/// The entry that is the request body, whatever a client calls its header fields.
const BODY: &[u8] = b"body";

/// Appends the payload of the call up to the body, or up to its end if there is none.
pub(super) fn encode(exchange: &Exchange, pass: &DubboPass, has_body: bool, out: &mut Vec<u8>) {
    let evaluate = |value| template::evaluate(value, exchange);
    let method = &pass.method;
    dubbo::encode_begin(
        out,
        &Target {
            service: &evaluate(&method.service),
            version: &evaluate(&method.version),
            method: &evaluate(&method.name),
        },
    );
    let entries: Vec<_> = pass
        .entries
        .iter()
        .map(|entry| (evaluate(&entry.key), evaluate(&entry.value)))
        .collect();
    let is_set = |name: &[u8]| {
        let mut keys = entries.iter().map(|(key, _)| key);
        keys.any(|key| key.eq_ignore_ascii_case(name))
    };
    let marked = early_data(exchange, pass.all_headers)
        .is_some_and(|marked| marked == Marked::ByUs && !is_set(EARLY_DATA));
    if marked {
        dubbo::encode_entry(out, &EARLY_DATA.to_ascii_lowercase(), b"1");
    }
    if pass.all_headers {
        encode_headers(exchange, out, |name| {
            is_set(name) || name.eq_ignore_ascii_case(BODY) || (marked && is_early_data(name))
        });
    }
    for (at, (key, value)) in entries.iter().enumerate() {
        // The last of several with the same name counts.
        if entries[at + 1..].iter().any(|(other, _)| other == key) {
            continue;
        }
        match **key == *BODY {
            true if has_body => {}
            true => dubbo::encode_bytes_entry(out, key, value),
            false => dubbo::encode_entry(out, key, value),
        }
    }
    if has_body {
        dubbo::encode_body_name(out);
    }
}

/// The header fields of the request, except those that are left out; several of one name are
/// joined.
fn encode_headers(exchange: &Exchange, out: &mut Vec<u8>, is_left_out: impl Fn(&[u8]) -> bool) {
    let request = &exchange.request;
    let headers = &request.head.headers;
    for (at, header) in headers.iter().enumerate() {
        let name = header.name.of(&request.buffer);
        let same = |other: &sealane_http::h1::RawHeader| {
            name.eq_ignore_ascii_case(other.name.of(&request.buffer))
        };
        if is_left_out(name) || headers[..at].iter().any(same) {
            continue;
        }
        let mut value = header.value.of(&request.buffer).to_vec();
        for other in headers[at + 1..].iter().filter(|other| same(other)) {
            value.extend_from_slice(separator(name));
            value.extend_from_slice(other.value.of(&request.buffer));
        }
        dubbo::encode_entry(out, &name.to_ascii_lowercase(), &value);
    }
}
