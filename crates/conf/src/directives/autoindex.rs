//! ngx_http_autoindex_module.

use super::{HSL, Module, ONE, Row};
use crate::model::AutoindexFormat;

pub(super) const MODULE: Module = Module {
    title: "HTTP: directory listings",
    doc: "Lists a directory that has no index file.",
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
            "Whether the HTML listing shows sizes in bytes, or rounded.",
            |b, c| c.flag(&mut b.location().autoindex_exact_size),
        ),
        Row::new(
            "autoindex_localtime",
            HSL,
            ONE,
            "off",
            "Whether the HTML listing shows local time, or UTC.",
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
            "How many entries of a directory are read, for `random_index` too; a larger one is 500. \
             Long lists are made one after the other, and wait for slow clients in files below \
             `client_body_temp_path` where they would take more than 16 MiB of memory together.",
            |b, c| c.number(&mut b.location().autoindex_max_entries),
        )
        .own(),
    ],
};
