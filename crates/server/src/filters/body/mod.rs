//! Filters that change the contents of a body, in nginx's order: decompression, additions,
//! replacements, character sets, server-side includes, trimming, texts of echo, footers,
//! compression.
//!
//! Each has a file with two parts. `apply` examines the head, decides whether the filter
//! applies, changes the head accordingly and wraps the body into its
//! [`transformed::Transform`], or into a [`crate::body_source::BodySource`] if it has to wait
//! for something. The rest runs while the body is sent: a filter never collects a whole body.
//!
//! Locations without such a filter have no [`sealane_conf::model::BodyFilters`], and their
//! responses skip all of this.

mod addition;
mod charset;
mod compress;
mod echo;
mod footer;
mod gunzip;
mod head;
mod input;
mod pieces;
mod ssi;
mod sub_filter;
mod transformed;
mod trim;

pub(crate) use charset::CharsetState;
pub(crate) use charset::to_be_named as charset_to_be_named;
pub(crate) use compress::{CompressState, Compressed};
pub(super) use head::media_type;
pub(crate) use ssi::SsiState;
pub(crate) use trim::TrimState;

use crate::exchange::Exchange;

/// Wraps the body into the filters of the location.
pub(super) fn apply(exchange: &mut Exchange) {
    let Some(filters) = exchange.conf().body_filters.clone() else {
        if exchange.response.override_charset.is_some()
            || exchange.features.charset.of_main.is_some()
        {
            charset::apply(exchange, None);
        }
        return;
    };
    // The filters that follow work on the decompressed body.
    if filters.gunzip {
        gunzip::apply(exchange);
    }
    let texts = &filters.texts;
    let added = texts.addition.as_ref();
    let added = added.filter(|settings| addition::announce(exchange, settings));
    if let Some(settings) = &texts.sub {
        sub_filter::apply(exchange, settings);
    }
    if texts.charset.is_some()
        || exchange.response.override_charset.is_some()
        || exchange.features.charset.of_main.is_some()
    {
        charset::apply(exchange, texts.charset.as_deref());
    }
    if let Some(settings) = &texts.ssi {
        ssi::apply(exchange, settings);
    }
    if let Some(settings) = added {
        addition::put(exchange, settings);
    }
    // The page as it is put together from all of the above.
    if let Some(settings) = &texts.trim {
        trim::apply(exchange, settings);
    }
    if let Some(settings) = &texts.echo
        && !exchange.request.is_subrequest
    {
        echo::apply(exchange, settings);
    }
    if let Some(settings) = &texts.footer {
        footer::apply(exchange, settings);
    }
    // Last: other filters cannot work on compressed data.
    compress::apply(exchange, &filters.compression);
}
