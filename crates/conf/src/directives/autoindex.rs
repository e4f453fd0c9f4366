//! ngx_http_autoindex_module.

use super::{HSL, Module, ONE, Row};
use crate::model::AutoindexFormat;

pub(super) const MODULE: Module = Module {
    title: "HTTP: directory listings",
    doc: "Listings of directories without an index file.",
    rows: &[
        Row::new(
            "autoindex",
            HSL,
            ONE,
            "off",
            "Whether directories without an index file are listed.",
            |b, c| c.flag(&mut b.location().autoindex),
        ),
        Row::new(
            "autoindex_exact_size",
            HSL,
            ONE,
            "on",
            "Whether the HTML listing shows exact file sizes or rounded ones.",
            |b, c| c.flag(&mut b.location().autoindex_exact_size),
        ),
        Row::new(
            "autoindex_localtime",
            HSL,
            ONE,
            "off",
            "Whether the HTML listing shows local time or UTC.",
            |b, c| c.flag(&mut b.location().autoindex_localtime),
        ),
        Row::new(
            "autoindex_format",
            HSL,
            ONE,
            "html",
            "Format of the listing: `html`, `xml`, `json` or `jsonp`.",
            |b, c| {
                use AutoindexFormat::{Html, Json, Jsonp, Xml};
                let choices = [
                    ("html", Html),
                    ("json", Json),
                    ("jsonp", Jsonp),
                    ("xml", Xml),
                ];
                c.choice(&mut b.location().autoindex_format, &choices)
            },
        ),
        Row::new(
            "autoindex_max_entries",
            HSL,
            ONE,
            "100000",
            "Maximum number of directory entries that are read, also for `random_index`. A larger \
             directory gets 500. Long listings are generated one at a time. If the listings for \
             slow clients would take more than 16 MiB of memory in total, they are stored in \
             files below `client_body_temp_path`.",
            |b, c| c.number(&mut b.location().autoindex_max_entries),
        )
        .own(),
    ],
};
