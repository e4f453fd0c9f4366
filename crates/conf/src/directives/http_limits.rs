//! ngx_http_core_module, third part: sizes and rates.

use super::{Arity, HS, HSL, LOCATION_IF, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::Template;
use crate::template;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "HTTP: limits",
    doc: "Limits on the size of requests and the rate of responses.",
    rows: ROWS,
};

const TWO: Arity = Arity::Between(2, 2);

const ROWS: &[Row] = &[
    Row::new(
        "client_header_buffer_size",
        HS,
        ONE,
        "1k",
        "Size of the buffer for a request header; enough for most requests.",
        |b, c| c.size(&mut b.server().client_header_buffer_bytes),
    ),
    Row::new(
        "large_client_header_buffers",
        HS,
        TWO,
        "4 8k",
        "Maximum number and size of additional buffers for a large request header. A request line \
         larger than one buffer gets 414, a larger header field 400.",
        |b, c| c.buffers(&mut b.server().large_header_buffers),
    ),
    Row::new(
        "max_headers",
        HS,
        ONE,
        "1000",
        "Maximum number of header fields in a request.",
        |b, c| c.number(&mut b.server().max_headers),
    ),
    Row::new(
        "client_max_body_size",
        HSL,
        ONE,
        "1m",
        "Maximum size of a request body. A larger one gets 413; 0 means no limit.",
        |b, c| c.offset(&mut b.location().client_max_body),
    ),
    Row::new(
        "client_body_buffer_size",
        HSL,
        ONE,
        "8k",
        "Size of the buffer for a request body.",
        |b, c| c.size(&mut b.location().client_body_buffer),
    ),
    Row::new(
        "max_ranges",
        HSL,
        ONE,
        "",
        "Maximum number of ranges in a request. With more ranges, the whole file is sent; 0 \
         disables ranges.",
        |b, c| c.number(&mut b.location().max_ranges),
    ),
    Row::new(
        "limit_rate",
        HSL | LOCATION_IF,
        ONE,
        "0",
        "Rate limit for a response, in bytes per second; 0 means no limit. May contain variables.",
        |b, c| {
            let earlier = b.location().limit_rate.clone();
            let slot = rate(b, c, earlier)?;
            b.location().limit_rate = slot;
            Ok(())
        },
    ),
    Row::new(
        "limit_rate_after",
        HSL | LOCATION_IF,
        ONE,
        "0",
        "Number of bytes that are sent before `limit_rate` applies. May contain variables.",
        |b, c| {
            let earlier = b.location().limit_rate_after.clone();
            let slot = rate(b, c, earlier)?;
            b.location().limit_rate_after = slot;
            Ok(())
        },
    ),
    Row::new(
        "subrequest_output_buffer_size",
        HSL,
        ONE,
        "4k",
        "Maximum length of a response to a subrequest that is kept in memory: one that SSI puts \
         into a variable.",
        |b, c| c.size(&mut b.location().subrequest_output_buffer),
    ),
];

fn rate(
    b: &mut Build<'_>,
    c: &Call<'_>,
    slot: Option<Template>,
) -> Result<Option<Template>, Fault> {
    c.once(&slot)?;
    let value = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    if value
        .as_literal()
        .is_some_and(|text| values::size(text).is_none())
    {
        return Err(c.refuse_arg(1, "invalid value"));
    }
    Ok(Some(value))
}
