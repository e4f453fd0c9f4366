//! `concat`: several files in one response, as in Tengine.
//!
//! ```text
//! /static/??a.js,lib/b.js?v=7,c.js?v=8     the files a.js, lib/b.js and c.js below /static/
//! ```

use super::path::FilePath;
use super::{Outcome, content_type, open, static_file};
use crate::exchange::{ContentType, Exchange};
use crate::open_file_cache::{OpenFile, Opened};
use crate::request_log::{Text, log_request};
use bytes::Bytes;
use sealane_conf::model::Concat;
use sealane_http::{Method, StatusCode, uri};
use sealane_io::chain::OutputChain;
use std::sync::Arc;

/// A file of the response.
struct Part {
    file: Arc<OpenFile>,
    /// Its contents, if `open_file_cache_content` caches them.
    content: Option<Bytes>,
}

/// Responds with the files that the arguments name. Called for URIs that end with a slash.
pub(crate) async fn answer(exchange: &mut Exchange, concat: Arc<Concat>) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    let Some([b'?', list @ ..]) = exchange.request.args.as_deref() else {
        return Outcome::Declined;
    };
    if list.is_empty() {
        return Outcome::Declined;
    }
    let names = match names(list, concat.max_files) {
        Ok(names) => names,
        Err(fault) => {
            log_request!(exchange, Error, "client sent {fault}");
            return Outcome::Status(StatusCode::BAD_REQUEST);
        }
    };
    let directory = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    let mut parts = Vec::with_capacity(names.len());
    let mut media_type = None;
    for name in names {
        match typed(exchange, &concat, &name, media_type) {
            Ok(found) => media_type = found,
            Err(status) => return Outcome::Status(status),
        }
        match part(exchange, &directory, &name).await {
            Ok(part) => parts.push(part),
            Err(StatusCode::NOT_FOUND | StatusCode::FORBIDDEN) if concat.ignore_file_error => {}
            Err(status) => return Outcome::Status(status),
        }
    }
    exchange.response.content_type = media_type;
    send(exchange, &concat, parts);
    Outcome::Answered
}

/// The files of a list, as paths that begin with a slash, below the directory.
fn names(list: &[u8], max: u32) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut names = Vec::new();
    for item in list.split(|byte| *byte == b',') {
        let Some(name) = item.split(|byte| *byte == b'?').next() else {
            continue; // there is always a first piece
        };
        if name.is_empty() {
            match item {
                // As in Tengine: "a.js,,b.js".
                [] => continue,
                _ => return Err("zero concat filename"),
            }
        }
        if names.len() >= max as usize {
            return Err("too many concat filenames");
        }
        let path = [b"/", name].concat();
        let normal = uri::normalise(&path, true).map_err(|_| "unsafe concat filename")?;
        names.push(normal.path.into_owned());
    }
    Ok(names)
}

/// The type of a file, if it may be among the others.
fn typed(
    exchange: &Exchange,
    concat: &Concat,
    name: &[u8],
    before: Option<ContentType>,
) -> Result<Option<ContentType>, StatusCode> {
    let found = content_type(exchange.conf(), name);
    let bytes = found.as_ref().map_or(&b""[..], ContentType::as_bytes);
    let essence = bytes.split(|byte| *byte == b';').next().unwrap_or(bytes);
    let is_as_before = || before.is_none() || before == found;
    if concat.types.has(essence.trim_ascii_end()) && (!concat.unique || is_as_before()) {
        return Ok(found);
    }
    log_request!(
        exchange,
        Error,
        "\"{}\" with type \"{}\" cannot be concatenated: see \"concat_types\" and \"concat_unique\"",
        Text(name),
        Text(bytes)
    );
    Err(StatusCode::BAD_REQUEST)
}

async fn part(exchange: &Exchange, directory: &FilePath, name: &[u8]) -> Result<Part, StatusCode> {
    // The directory has the slash already.
    let path = directory.joined(&name[1..]);
    match open(exchange, &path).await {
        Ok(Opened::File(file, content)) => Ok(Part { file, content }),
        Ok(Opened::Directory | Opened::Other) => {
            log_request!(exchange, Crit, "\"{path}\" is not a regular file");
            Err(StatusCode::NOT_FOUND)
        }
        Err(errno) => Err(static_file::refuse(exchange, &path, errno)),
    }
}

/// Makes the files the body. Empty ones are as good as none.
fn send(exchange: &mut Exchange, concat: &Concat, parts: Vec<Part>) {
    let mut body = OutputChain::new();
    let mut newest_s = None;
    for Part { file, content } in parts {
        if file.size() == 0 {
            continue;
        }
        if !body.is_empty() && !concat.delimiter.is_empty() {
            body.push_bytes(Bytes::copy_from_slice(&concat.delimiter));
        }
        newest_s = newest_s.max(Some(file.mtime_s()));
        match content {
            Some(bytes) => body.push_bytes(bytes),
            None => {
                let size = file.size();
                body.push_file(file, 0, size);
            }
        }
    }
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_length = Some(body.len());
    response.last_modified_s = newest_s;
    response.body = body;
    exchange.features.request_log.doing = " while sending response to client";
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::testing::Site;

    fn named(list: &str) -> Result<Vec<String>, &'static str> {
        let text = |name| String::from_utf8(name).expect("text");
        Ok(names(list.as_bytes(), 3)?.into_iter().map(text).collect())
    }

    #[test]
    fn lists_are_read_as_in_tengine() {
        assert_eq!(named("a.js,b/c.js").unwrap(), ["/a.js", "/b/c.js"]);
        assert_eq!(
            named("a.js?v=1,b.js?x?y,c.js").unwrap(),
            ["/a.js", "/b.js", "/c.js"]
        );
        assert_eq!(named(",a.js,,b.js,").unwrap(), ["/a.js", "/b.js"]);
        assert_eq!(
            named("a%2ejs,/b.js,c/../d.js").unwrap(),
            ["/a.js", "/b.js", "/d.js"]
        );
        assert_eq!(named("?v=1"), Err("zero concat filename"));
        assert_eq!(named("a,b,c,d"), Err("too many concat filenames"));
        for unsafe_name in [
            "../a.js",
            "%2e%2e/a.js",
            "a/../../b.js",
            "a%00.js",
            "a%zz.js",
        ] {
            assert_eq!(
                named(unsafe_name),
                Err("unsafe concat filename"),
                "{unsafe_name}"
            );
        }
    }

    #[test]
    fn files_become_one_response() {
        let site = Site::new(
            "concat on; concat_max_files 4; types { text/css css; application/javascript js; }
             location /mixed/ { alias DIR/s/; concat_unique off; concat_delimiter \"|\"; }
             location /lenient/ { alias DIR/s/; concat_ignore_file_error on; }",
        );
        site.file("s/a.js", "one")
            .file("s/b/c.js", "two")
            .file("s/d.css", "three")
            .file("s/empty.js", "")
            .file("s/e.txt", "four");
        let reply = site.get("/s/??a.js,b/c.js?v=3");
        assert_eq!((reply.status(), reply.text()), (200, "onetwo"));
        assert_eq!(reply.header("content-type"), Some("application/javascript"));
        assert_eq!(reply.header("content-length"), Some("6"));
        assert!(reply.header("last-modified").is_some());
        assert_eq!(site.get("/mixed/??a.js,empty.js,d.css").text(), "one|three");
        for (path, status) in [
            ("/s/??a.js,d.css", 400),
            ("/s/??e.txt", 400),
            ("/s/??a.js,a.js,a.js,a.js,a.js", 400),
            ("/s/??../s/a.js", 400),
            ("/s/??a.js,missing.js", 404),
            ("/s/??b/", 400),
            ("/s/?a.js", 403),
        ] {
            assert_eq!(site.get(path).status(), status, "{path}");
        }
        assert_eq!(site.get("/lenient/??missing.js,a.js").text(), "one");
        let nothing = site.get("/lenient/??missing.js");
        assert_eq!((nothing.status(), nothing.text()), (200, ""));
    }
}
