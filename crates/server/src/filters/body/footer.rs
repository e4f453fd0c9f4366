//! `footer`: text behind a body, as in Tengine.

use super::head;
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::Exchange;
use crate::template;
use bytes::Bytes;
use sealane_conf::model::Footer;
use sealane_http::StatusCode;
use sealane_http::headers::HeaderList;
use sealane_io::chain::OutputChain;
use std::task::{Context, Poll, ready};

/// Puts the text behind the body, where it is not compressed. The length, if it is known, stays
/// known: files are still sent as files.
pub(super) fn apply(exchange: &mut Exchange, settings: &Footer) {
    let response = &exchange.response;
    let applies = !exchange.request.is_subrequest
        && !response.status.is_bodiless()
        // Part of a page from another server: what follows it is not the end.
        && response.status != StatusCode::PARTIAL_CONTENT
        && head::content_encoding(response).is_none()
        && head::is_of(response, &settings.types);
    if !applies {
        return;
    }
    let text = Bytes::copy_from_slice(&template::evaluate(&settings.text, exchange));
    if text.is_empty() {
        return;
    }
    let response = &mut exchange.response;
    let length = response.content_length;
    head::forget_length(response);
    response.content_length = length.map(|length| length + text.len() as u64);
    match response.source.take() {
        None => response.body.push_bytes(text),
        Some(source) => {
            response.source = Some(PendingBody::new(WithFooter {
                source: source.into_source(),
                text,
                own_ended: false,
            }));
        }
    }
    head::weaken_etag(exchange);
}

struct WithFooter {
    source: Box<dyn BodySource>,
    text: Bytes,
    own_ended: bool,
}

impl BodySource for WithFooter {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        // A source must not be polled after its end.
        if !self.own_ended
            && ready!(self.source.poll_fill(cx, exchange, out, max_bytes))? == Filled::More
        {
            return Poll::Ready(Ok(Filled::More));
        }
        self.own_ended = true;
        out.push_bytes(std::mem::take(&mut self.text));
        Poll::Ready(Ok(Filled::End))
    }

    fn is_prompt(&self) -> bool {
        self.source.is_prompt()
    }

    fn holds_head(&self) -> bool {
        self.source.holds_head()
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        self.source.take_trailers(exchange)
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        self.source.conclude(exchange, completed || self.own_ended);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Site;

    #[test]
    fn pages_get_a_footer() {
        let site = Site::new(
            "footer \"<!-- $host $uri -->\"; footer_types text/css;
             types { text/html html; text/css css; text/plain txt; }
             location /none/ { alias DIR/; footer \"\"; }
             location /gone { return 404; }
             location /nothing { return 204; }",
        );
        site.file("a.html", "page")
            .file("a.css", "css")
            .file("a.txt", "text");
        let reply = site.get("/a.html");
        assert_eq!(reply.text(), "page<!-- example.org /a.html -->");
        let length = reply.text().len().to_string();
        assert_eq!(reply.header("content-length"), Some(&*length));
        assert_eq!(reply.header("accept-ranges"), None);
        assert!(
            reply
                .header("etag")
                .is_some_and(|etag| etag.starts_with("W/"))
        );
        assert!(site.get("/a.css").text().ends_with(" /a.css -->"));
        assert_eq!(site.get("/a.txt").text(), "text");
        assert_eq!(site.get("/none/a.html").text(), "page");
        assert!(site.get("/gone").text().ends_with(" /gone -->"));
        assert_eq!(site.get("/nothing").text(), "");
    }
}
