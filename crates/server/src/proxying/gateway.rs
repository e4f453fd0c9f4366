//! The requests of FastCGI, uwsgi and SCGI: parameters instead of a request head.

use super::cache;
use super::request::{
    EARLY_DATA, Marked, early_data, is_early_data, log_odd_name, refusal, unfolded,
};
use crate::exchange::Exchange;
use crate::template;
use sealane_conf::model::{FastCgiPass, Params, ScgiPass, UpstreamSettings, UwsgiPass};
use sealane_http::cgi::Param;
use sealane_http::headers::is_token;
use sealane_http::{cgi, fastcgi, scgi, uwsgi};
use std::borrow::Cow;

/// Appends the records that precede the body of a FastCGI request.
///
/// # Errors
/// What is wrong with a parameter, for the log.
pub(super) fn encode_fastcgi(
    exchange: &Exchange,
    pass: &FastCgiPass,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    fastcgi::encode_begin(out, pass.keep_conn);
    let pairs = Pairs::of(exchange, &pass.params, &pass.upstream);
    let params = pairs.checked("fastcgi")?;
    fastcgi::encode_params(out, params).map_err(|error| error.to_string())
}

/// Appends the packet that precedes the body of a uwsgi request.
///
/// # Errors
/// What is wrong with the parameters, for the log.
pub(super) fn encode_uwsgi(
    exchange: &Exchange,
    pass: &UwsgiPass,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let pairs = Pairs::of(exchange, &pass.params, &pass.upstream);
    let (one, two) = (pass.modifier1, pass.modifier2);
    let params = pairs.checked("uwsgi")?;
    uwsgi::encode_request(out, one, two, params, &pass.string).map_err(|error| error.to_string())
}

/// Appends the netstring that precedes the body of an SCGI request.
///
/// # Errors
/// What is wrong with a parameter, for the log.
pub(super) fn encode_scgi(
    exchange: &Exchange,
    pass: &ScgiPass,
    body_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let pairs = Pairs::of(exchange, &pass.params, &pass.upstream);
    scgi::encode_request(out, body_bytes, pairs.checked("scgi")?);
    Ok(())
}

/// Names and values, in one piece of memory.
struct Pairs {
    text: Vec<u8>,
    /// Where each name begins, where it ends, and where its value ends.
    spans: Vec<(usize, usize, usize)>,
}

impl Pairs {
    /// The configured parameters, then the request's header fields as `HTTP_*`.
    fn of(exchange: &Exchange, params: &Params, settings: &UpstreamSettings) -> Pairs {
        let pass_headers = settings.pass_request_headers;
        let mut pairs = Pairs {
            text: Vec::with_capacity(2048),
            spans: Vec::with_capacity(48),
        };
        for param in &params.params {
            let start = pairs.text.len();
            pairs.text.extend_from_slice(&param.name);
            let name_end = pairs.text.len();
            template::append(&param.value, exchange, &mut pairs.text);
            if param.if_not_empty && pairs.text.len() == name_end {
                pairs.text.truncate(start);
                continue;
            }
            if param.name.starts_with(b"HTTP_")
                && let Cow::Owned(line) = unfolded(&pairs.text[name_end..])
            {
                pairs.text.truncate(name_end);
                pairs.text.extend_from_slice(&line);
            }
            pairs.spans.push((start, name_end, pairs.text.len()));
        }
        let early_data = early_data(exchange, pass_headers)
            .filter(|marked| *marked == Marked::ByUs && !params.replaces_header(EARLY_DATA));
        if early_data.is_some() {
            let start = pairs.text.len();
            cgi::variables::push_name(&mut pairs.text, EARLY_DATA);
            let name_end = pairs.text.len();
            pairs.text.push(b'1');
            pairs.spans.push((start, name_end, pairs.text.len()));
        }
        if cache::asks_for_all(exchange) {
            cache::for_each_validator(exchange, settings, |name, value| {
                if !params.replaces_header(name.as_bytes()) {
                    let start = pairs.text.len();
                    cgi::variables::push_name(&mut pairs.text, name.as_bytes());
                    let name_end = pairs.text.len();
                    pairs.text.extend_from_slice(value);
                    pairs.spans.push((start, name_end, pairs.text.len()));
                }
            });
        }
        if pass_headers {
            pairs.add_headers(exchange, params, early_data.is_some());
        }
        pairs
    }

    /// Fields that map to the same parameter are joined, so that `X_A` cannot replace `X-A`. With
    /// `is_marked` we have marked the request as a possible replay ourselves.
    fn add_headers(&mut self, exchange: &Exchange, params: &Params, is_marked: bool) {
        let request = &exchange.request;
        let headers = &request.head.headers;
        let is_for_cache = cache::asks_for_all(exchange);
        for (at, header) in headers.iter().enumerate() {
            let name = header.name.of(&request.buffer);
            let same = |other: &sealane_http::h1::RawHeader| {
                cgi::variables::is_same_variable(name, other.name.of(&request.buffer))
            };
            let is_left_out = is_for_cache && header.known.is_some_and(cache::is_conditional);
            if params.replaces_header(name)
                || is_left_out
                || (is_marked && is_early_data(name))
                || headers[..at].iter().any(same)
            {
                continue;
            }
            if !is_token(name) {
                // `ignore_invalid_headers off` accepts such names; if a parameter becomes an
                // environment variable, `X=a` would be `X`.
                log_odd_name(exchange, name);
                continue;
            }
            let start = self.text.len();
            cgi::variables::push_name(&mut self.text, name);
            let name_end = self.text.len();
            self.text
                .extend_from_slice(header.value.of(&request.buffer));
            for other in headers[at + 1..].iter().filter(|other| same(other)) {
                self.text.extend_from_slice(cgi::variables::separator(name));
                self.text.extend_from_slice(other.value.of(&request.buffer));
            }
            self.spans.push((start, name_end, self.text.len()));
        }
    }

    /// The parameters, if all of them are valid.
    ///
    /// # Errors
    /// What is wrong with one, for the log; `family` is what the directives begin with.
    fn checked(&self, family: &str) -> Result<Vec<Param<'_>>, String> {
        self.spans
            .iter()
            .map(|&(start, name_end, end)| {
                Param::new(&self.text[start..name_end], &self.text[name_end..end])
            })
            .collect::<Result<_, _>>()
            .map_err(|error| refusal(family, &error))
    }
}
