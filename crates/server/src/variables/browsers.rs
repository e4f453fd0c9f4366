//! `$modern_browser`, `$ancient_browser` and `$msie`.

use super::text;
use crate::exchange::Exchange;
use crate::framing;
use sealane_conf::variables::Builtin;
use sealane_http::headers::KnownHeader;

/// Appends the value; empty if the browser is not what the variable asks for.
pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    if builtin == Builtin::Msie {
        return text(if framing::is_msie(exchange) { "1" } else { "" }, out);
    }
    let request = &exchange.request;
    let agent = request.head.get(KnownHeader::UserAgent);
    let agent = agent.map(|span| span.of(&request.buffer));
    let browsers = exchange.conf().browsers.as_deref();
    let is_modern = browsers.is_some_and(|browsers| browsers.is_modern(agent));
    if is_modern == (builtin == Builtin::ModernBrowser) {
        let value = browsers.map(|browsers| match is_modern {
            true => &browsers.modern_value,
            false => &browsers.ancient_value,
        });
        // nginx's own value where none is configured.
        out.extend_from_slice(value.map_or(b"1", |value| value));
    }
    true
}
