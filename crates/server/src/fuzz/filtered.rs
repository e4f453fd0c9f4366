//! Body filters, with bodies that arrive in pieces.

use super::origin::OriginAnswer;
use super::site::FuzzSite;
use sealane_http::Method;
use sealane_http::h1::{
    ParsedResponse, ResponseBodyDecoder, ResponseLimits, ResponseState, parse_response,
};
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Locations of the site, and whether bodies are given to them compressed.
const PLACES: [(&str, bool); 11] = [
    ("/gunzipped", false),
    ("/gunzipped", true),
    ("/subbed", false),
    ("/recoded", false),
    ("/included", false),
    ("/everything", false),
    ("/everything", true),
    ("/ranged", false),
    ("/added", false),
    ("/proxy", false),
    ("/trimmed", false),
];

static SITE: LazyLock<Mutex<FuzzSite>> = LazyLock::new(|| Mutex::new(FuzzSite::new("filters")));

/// A body of a server behind, through a filter of the location that the first byte chooses. The
/// second one says how the body is cut.
///
/// However it is cut, the client gets the same, or in both cases not all of it.
pub fn fuzz_body_filters(data: &[u8]) {
    let Some((&[choice, cut], body)) = data.split_first_chunk() else {
        return;
    };
    let (path, compresses) = PLACES[usize::from(choice) % PLACES.len()];
    let body = match compresses {
        true => compressed(body, usize::from(cut >> 4)),
        false => body.to_vec(),
    };
    let coding = match path {
        "/gunzipped" => "Content-Encoding: gzip\r\n",
        "/everything" if compresses => "Content-Encoding: gzip\r\n",
        _ => "",
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{coding}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let site = SITE.lock().unwrap_or_else(PoisonError::into_inner);
    let at_once = [head.as_bytes(), &body].concat();
    let at_once = client_body(&site, path, vec![at_once]);
    let mut pieces = vec![head.into_bytes()];
    // Limited, so that the number of pieces does not decide how long a run takes.
    let piece = usize::from(cut & 15) + 1 + body.len() / 64;
    pieces.extend(body.chunks(piece).map(<[u8]>::to_vec));
    let in_pieces = client_body(&site, path, pieces);
    let shown = |body: &Option<Vec<u8>>| body.as_ref().map(|body| body.escape_ascii().to_string());
    assert_eq!(shown(&at_once), shown(&in_pieces), "in pieces of {piece}");
}

/// A valid member, and a damaged one if a place for that is given.
fn compressed(body: &[u8], damage: usize) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(body).expect("memory");
    let mut packed = packed.finish().expect("memory");
    if damage > 0 {
        let at = damage * packed.len() / 16;
        packed[at] ^= 1;
    }
    packed
}

/// What the client gets of a body; `None` when it is told that something is missing.
fn client_body(site: &FuzzSite, path: &str, pieces: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let mut body = None;
    site.run(async |stage| {
        let closes = true;
        stage.origin.push(OriginAnswer {
            pieces: pieces.clone(),
            closes,
        });
        let request = format!(
            "GET {path}?a=b HTTP/1.1\r\nHost: a\r\nRange: bytes=2-8\r\nConnection: close\r\n\r\n"
        );
        body = decoded(&stage.ask(request.as_bytes()).await);
    });
    body
}

/// The body of an answer without its framing, if it is whole.
fn decoded(answer: &[u8]) -> Option<Vec<u8>> {
    // A page whose first bytes cannot be made has no head either: the connection is closed.
    if answer.is_empty() {
        return None;
    }
    let limits = ResponseLimits::of_head(4096);
    let parsed = parse_response(answer, &mut ResponseState::default(), &limits);
    let Ok(ParsedResponse::Complete(head)) = parsed else {
        panic!("no answer: {}", answer.escape_ascii());
    };
    let mut decoder = ResponseBodyDecoder::new(head.framing(Method::Get));
    let (mut body, mut rest) = (Vec::new(), &answer[head.head_bytes..]);
    while !rest.is_empty() && !decoder.is_done() {
        let decoded = decoder.decode(rest).expect("our own framing");
        body.extend_from_slice(&rest[decoded.data]);
        rest = &rest[decoded.consumed..];
    }
    decoder.close().ok().map(|()| body)
}
