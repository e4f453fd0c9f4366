//! A directory listing as HTML, XML, JSON or JSONP, byte for byte as nginx writes it.

use super::DirectoryEntry;
use sealane_http::date;
use sealane_http::escape::{LogEscape, html_into, log_into};
use sealane_http::uri::{EscapeKind, escape_into};
use sealane_sys::file::Kind;
use std::fmt;
use std::io::Write;

/// Bytes of a name shown on the HTML page, or characters if the page is in UTF-8; longer names are
/// cut.
const NAME_COLUMNS: usize = 50;

/// Longest name of a JSONP callback.
const CALLBACK_BYTES: usize = 128;

/// The function that a JSONP response calls: the argument `callback`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Callback(Vec<u8>);

/// Why a callback is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadCallback {
    TooLong,
    Character,
}

impl fmt::Display for BadCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadCallback::TooLong => "too long callback name",
            BadCallback::Character => "invalid callback name",
        })
    }
}

impl Callback {
    /// The callback that a request asks for, if any.
    ///
    /// # Errors
    /// See [`BadCallback`].
    pub(super) fn of(args: &[u8]) -> Result<Option<Callback>, BadCallback> {
        let Some(value) = crate::variables::argument(args, b"callback").filter(|v| !v.is_empty())
        else {
            return Ok(None);
        };
        if value.len() > CALLBACK_BYTES {
            return Err(BadCallback::TooLong);
        }
        let usual = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        if !value.iter().all(usual) {
            return Err(BadCallback::Character);
        }
        Ok(Some(Callback(value.to_vec())))
    }
}

/// The parameters of an HTML page.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListPage {
    pub(super) exact_size: bool,
    /// Of the times.
    pub(super) zone_s: i64,
    /// The page is in UTF-8, so columns are counted in characters.
    pub(super) is_utf8: bool,
}

pub(super) fn html(uri: &[u8], entries: &[DirectoryEntry], page: &ListPage) -> Vec<u8> {
    let mut out = Vec::with_capacity(512 + entries.len() * 160);
    out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
    html_into(&mut out, uri);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    html_into(&mut out, uri);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for entry in entries {
        push_link(&mut out, entry, page.is_utf8);
        out.push(b' ');
        out.extend_from_slice(&date::autoindex(entry.mtime_s + page.zone_s, 0));
        out.push(b' ');
        push_size(&mut out, entry, page.exact_size);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
    out
}

/// The link and the spaces up to the next column.
fn push_link(out: &mut Vec<u8>, entry: &DirectoryEntry, is_utf8: bool) {
    let slash = if entry.kind == Kind::Dir { "/" } else { "" };
    out.extend_from_slice(b"<a href=\"");
    escape_into(out, &entry.name, EscapeKind::UriComponent);
    out.extend_from_slice(slash.as_bytes());
    out.extend_from_slice(b"\">");
    // A name that is not UTF-8 is still counted in bytes.
    let text = is_utf8
        .then(|| std::str::from_utf8(&entry.name).ok())
        .flatten();
    let mut columns = text.map_or(entry.name.len(), |text| text.chars().count());
    if columns > NAME_COLUMNS {
        let kept = NAME_COLUMNS - 3;
        let end = text.and_then(|text| text.char_indices().nth(kept));
        html_into(out, &entry.name[..end.map_or(kept, |(end, _)| end)]);
        out.extend_from_slice(b"..&gt;</a>");
        return;
    }
    html_into(out, &entry.name);
    if columns < NAME_COLUMNS {
        out.extend_from_slice(slash.as_bytes());
        columns += slash.len();
    }
    out.extend_from_slice(b"</a>");
    out.resize(out.len() + NAME_COLUMNS - columns, b' ');
}

fn push_size(out: &mut Vec<u8>, entry: &DirectoryEntry, exact: bool) {
    const KIB: u64 = 1024;
    const MIB: u64 = KIB * 1024;
    const GIB: u64 = MIB * 1024;
    let rounded = |unit: u64| entry.size / unit + u64::from(entry.size % unit > unit / 2 - 1);
    // Writing to a vector cannot fail.
    let _ = match (entry.kind, exact, entry.size) {
        (Kind::Dir, true, _) => write!(out, "{:>19}", "-"),
        (Kind::Dir, false, _) => write!(out, "{:>7}", "-"),
        (_, true, size) => write!(out, "{size:>19}"),
        (_, false, GIB..) => write!(out, "{:>6}G", rounded(GIB)),
        (_, false, MIB..) => write!(out, "{:>6}M", rounded(MIB)),
        (_, false, 10_000..) => write!(out, "{:>6}K", rounded(KIB)),
        (_, false, size) => write!(out, " {size:>6}"),
    };
}

pub(super) fn xml(entries: &[DirectoryEntry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + entries.len() * 96);
    out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for entry in entries {
        let element = kind_name(entry.kind);
        // `2026-11-21T21:30:45+00:00` without its zone.
        let time = date::log_iso8601(entry.mtime_s, 0);
        let time = String::from_utf8_lossy(&time[..19]).into_owned();
        let _ = write!(out, "<{element} mtime=\"{time}Z\"");
        if entry.kind == Kind::File {
            let _ = write!(out, " size=\"{}\"", entry.size);
        }
        out.push(b'>');
        html_into(&mut out, &entry.name);
        let _ = write!(out, "</{element}>\r\n");
    }
    out.extend_from_slice(b"</list>\r\n");
    out
}

pub(super) fn json(entries: &[DirectoryEntry], callback: Option<&Callback>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + entries.len() * 128);
    if let Some(Callback(name)) = callback {
        out.extend_from_slice(b"/* callback */\r\n");
        out.extend_from_slice(name);
        out.push(b'(');
    }
    out.push(b'[');
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"\r\n{ \"name\":\"");
        log_into(&mut out, &entry.name, LogEscape::Json);
        let _ = write!(
            out,
            "\", \"type\":\"{}\", \"mtime\":\"",
            kind_name(entry.kind)
        );
        out.extend_from_slice(&date::imf(entry.mtime_s));
        out.push(b'"');
        if entry.kind == Kind::File {
            let _ = write!(out, ", \"size\":{}", entry.size);
        }
        out.extend_from_slice(b" }");
    }
    out.extend_from_slice(b"\r\n]");
    if callback.is_some() {
        out.extend_from_slice(b");");
    }
    out
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Dir => "directory",
        Kind::Other => "other",
    }
}

#[cfg(test)]
mod tests;
