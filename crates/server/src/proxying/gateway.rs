//! The requests of FastCGI, uwsgi and SCGI: parameters instead of a request head.

use crate::exchange::Exchange;
use crate::template;
use sealane_conf::model::{FastCgiPass, Params, ScgiPass, UwsgiPass};
use sealane_http::{cgi, fastcgi, scgi, uwsgi};

/// Appends the records that stand before the body of a FastCGI request.
///
/// # Errors
/// What is wrong with a parameter, for the log.
pub(super) fn encode_fastcgi(
    exchange: &Exchange,
    pass: &FastCgiPass,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    fastcgi::encode_begin(out, pass.keep_conn);
    let pairs = Pairs::of(exchange, &pass.params, pass.upstream.pass_request_headers);
    fastcgi::encode_params(out, pairs.iter()).map_err(|error| error.to_string())
}

/// Appends the packet that stands before the body of a uwsgi request.
///
/// # Errors
/// What is wrong with the parameters, for the log.
pub(super) fn encode_uwsgi(
    exchange: &Exchange,
    pass: &UwsgiPass,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let pairs = Pairs::of(exchange, &pass.params, pass.upstream.pass_request_headers);
    let (one, two) = (pass.modifier1, pass.modifier2);
    uwsgi::encode_request(out, one, two, pairs.iter(), &pass.string)
        .map_err(|error| error.to_string())
}

/// Appends the netstring that stands before the body of an SCGI request.
///
/// # Errors
/// What is wrong with a parameter, for the log.
pub(super) fn encode_scgi(
    exchange: &Exchange,
    pass: &ScgiPass,
    body_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let pairs = Pairs::of(exchange, &pass.params, pass.upstream.pass_request_headers);
    scgi::encode_request(out, body_bytes, pairs.iter()).map_err(|error| error.to_string())
}

/// Names and values, in one piece of memory.
struct Pairs {
    text: Vec<u8>,
    /// Where each name begins, where it ends, and where its value ends.
    places: Vec<(usize, usize, usize)>,
}

impl Pairs {
    /// What the configuration sets, then the request's header fields as `HTTP_*`.
    fn of(exchange: &Exchange, params: &Params, pass_headers: bool) -> Pairs {
        let mut pairs = Pairs {
            text: Vec::with_capacity(2048),
            places: Vec::with_capacity(48),
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
            pairs.places.push((start, name_end, pairs.text.len()));
        }
        if pass_headers {
            pairs.add_headers(exchange, params);
        }
        pairs
    }

    /// Fields that become one parameter are joined, so that `X_A` cannot take the
    /// place of `X-A`.
    fn add_headers(&mut self, exchange: &Exchange, params: &Params) {
        let request = &exchange.request;
        let headers = &request.head.headers;
        for (at, header) in headers.iter().enumerate() {
            let name = header.name.of(&request.buffer);
            let same = |other: &sealane_http::h1::RawHeader| {
                cgi::variables::is_same_variable(name, other.name.of(&request.buffer))
            };
            if params.replaces_header(name) || headers[..at].iter().any(same) {
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
            self.places.push((start, name_end, self.text.len()));
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.places
            .iter()
            .map(|&(start, name_end, end)| (&self.text[start..name_end], &self.text[name_end..end]))
    }
}
