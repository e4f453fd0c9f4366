//! `trim`: pages without white space and comments that nobody sees, as in Tengine.

use super::head;
use super::transformed::{Transform, TransformStatus, transform};
use crate::body_source::SourceError;
use crate::exchange::{Exchange, Response};
use crate::template;
use crate::variables::argument;
use bytes::{Buf, Bytes};
use sealane_conf::model::{Template, Trim};
use sealane_http::StatusCode;
use sealane_http::trim::{TrimOptions, Trimmer};
use sealane_io::chain::OutputChain;

/// What a request keeps for `trim`.
#[derive(Default)]
pub(crate) struct TrimState {
    /// The body is trimmed.
    pub(crate) trimmed: Option<Box<Trimmed>>,
}

/// What has become of a body so far (`$trim_bytes`, `$trim_original_bytes`).
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Trimmed {
    /// Bytes before.
    pub(crate) in_bytes: u64,
    /// Bytes after.
    pub(crate) out_bytes: u64,
}

/// Trims pages that are complete and not compressed. Parts of a page are trimmed with it, where
/// they have been put together.
pub(super) fn apply(exchange: &mut Exchange, settings: &Trim) {
    let response = &exchange.response;
    let applies = !exchange.request.is_subrequest
        && response.status == StatusCode::OK
        && response.content_length != Some(0)
        && head::content_encoding(response).is_none_or(<[u8]>::is_empty)
        && head::is_of(response, &settings.types)
        && is_made_of_ascii(response);
    let args = exchange.request.args.as_deref().unwrap_or_default();
    if !applies
        || argument(args, b"http_trim") == Some(b"off")
        || !is_on(exchange, Some(&settings.enabled))
    {
        return;
    }
    let options = TrimOptions {
        scripts: is_on(exchange, settings.scripts.as_ref()),
        styles: is_on(exchange, settings.styles.as_ref()),
    };
    head::forget_length(&mut exchange.response);
    head::weaken_etag(exchange);
    exchange.features.trim.trimmed = Some(Box::default());
    transform(
        exchange,
        Trimming {
            trimmer: Trimmer::new(options),
        },
    );
}

fn is_on(exchange: &Exchange, switch: Option<&Template>) -> bool {
    switch.is_some_and(|switch| *template::evaluate(switch, exchange) == *b"on")
}

/// Bytes that look like ASCII are. In UTF-16 or ISO-2022-JP they may be parts of characters.
fn is_made_of_ascii(response: &Response) -> bool {
    let text = response.content_type.as_ref().map(|text| text.as_bytes());
    let text = text.unwrap_or_default().to_ascii_lowercase();
    let others: [&[u8]; 6] = [
        b"utf-16",
        b"utf-32",
        b"utf-7",
        b"ucs-2",
        b"unicode",
        b"iso-2022",
    ];
    !others
        .iter()
        .any(|name| memchr::memmem::find(&text, name).is_some())
}

struct Trimming {
    trimmer: Trimmer,
}

impl Transform for Trimming {
    fn step(
        &mut self,
        exchange: &mut Exchange,
        input: &mut Bytes,
        ended: bool,
        output: &mut OutputChain,
        max_bytes: usize,
    ) -> Result<TransformStatus, SourceError> {
        // The output is hardly ever longer than the input, and never by more than what was held.
        let taken = input.len().min(max_bytes);
        let mut made = Vec::with_capacity(taken);
        self.trimmer.push(&input[..taken], &mut made);
        input.advance(taken);
        let ends = ended && input.is_empty();
        if ends {
            self.trimmer.finish(&mut made);
        }
        if let Some(trimmed) = &mut exchange.features.trim.trimmed {
            trimmed.in_bytes += taken as u64;
            trimmed.out_bytes += made.len() as u64;
        }
        output.push_made(made);
        Ok(match input.is_empty() {
            _ if ends => TransformStatus::Ended,
            true => TransformStatus::Hungry,
            false => TransformStatus::Full,
        })
    }

    fn turn_bytes(&self) -> usize {
        TURN_BYTES
    }
}

/// Input of one poll: each byte is looked at.
const TURN_BYTES: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn pages_are_trimmed_where_they_are_to_be() {
        let site = Site::new(
            "trim on; trim_js $arg_js; trim_types text/x-page;
             types { text/html html; text/x-page page; text/plain txt; }
             location /off/ { alias DIR/; trim off; }
             location /styles/ { alias DIR/; trim_css on; }
             location /gone { return 404 \"<p>  gone\"; }
             location /packed/ { alias DIR/; default_type text/html; gzip_static always; }
             location /wide/ { alias DIR/; charset utf-16; }",
        );
        let page =
            "<p>a  <!-- remark -->\n b</p><style> a { b: c } </style><script> a = 1 </script>";
        let trimmed = "<p>a\nb</p><style> a { b: c } </style><script> a = 1 </script>";
        site.file("a.html", page)
            .file("a.page", page)
            .file("a.txt", page)
            .file("b.html.gz", page)
            .file("empty.html", "");
        let reply = site.get("/a.html");
        assert_eq!(reply.text(), trimmed);
        assert_eq!(reply.header("accept-ranges"), None);
        let etag = reply.header("etag").unwrap_or_default();
        assert!(etag.starts_with("W/"), "{etag}");
        assert!(reply.header("last-modified").is_some());
        assert_eq!(site.get("/a.page").text(), trimmed);
        assert_eq!(
            site.get("/a.html?js=on").text(),
            trimmed.replace(" a = 1 ", "a =1")
        );
        assert_eq!(
            site.get("/styles/a.html").text(),
            trimmed.replace(" a { b: c } ", "a{b:c}")
        );
        for path in [
            "/off/a.html",
            "/a.txt",
            "/packed/b.html",
            "/wide/a.html",
            "/a.html?http_trim=off",
            "/a.html?a=b&HTTP_TRIM=off&c",
        ] {
            assert_eq!(site.get(path).text(), page, "{path}");
        }
        assert_eq!(site.get("/a.html?http_trim=on").text(), trimmed);
        assert_eq!(site.get("/gone").text(), "<p>  gone");
        assert_eq!(site.get("/empty.html").text(), "");
    }
}
