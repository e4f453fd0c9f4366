//! nginx's built-in pages, which a client sees when no `error_page` applies.

use super::StatusCode;

/// Six comment lines that raise a page above 512 bytes, below which old Internet Explorer and
/// Chrome show a page of their own (`msie_padding`, on by default).
pub const MSIE_PADDING: &str = concat!(
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
    "<!-- a padding to disable MSIE and Chrome friendly error page -->\r\n",
);

/// The built-in page of one status, identical to nginx's except for the server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorPage {
    status: StatusCode,
    text: PageText,
}

/// The texts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageText {
    title: &'static str,
    heading: &'static str,
    /// A sentence below the heading, on the pages of nginx's own codes.
    detail: Option<&'static str>,
}

impl ErrorPage {
    /// The page of a status; `None` if nginx sends no body of its own (201, 204, 206, 304, unknown
    /// codes).
    pub fn of(status: StatusCode) -> Option<ErrorPage> {
        let text = own_code_text(status).or_else(|| {
            let heading = heading(status)?;
            Some(PageText {
                title: heading,
                heading,
                detail: None,
            })
        })?;
        Some(ErrorPage { status, text })
    }

    /// Appends the page. `info`, as HTML, follows the heading. `server` is the name in its last
    /// line, `nginx/1.29.3` or, with `server_tokens off`, `nginx`; without a name there is no such
    /// line. `msie_padding` asks for
    /// [`MSIE_PADDING`], which is added to 4xx and 5xx pages only; the caller decides based on the
    /// client's `User-Agent`.
    pub fn write(&self, out: &mut Vec<u8>, info: &[u8], server: &[u8], msie_padding: bool) {
        let PageText {
            title,
            heading,
            detail,
        } = self.text;
        let mut push = |text: &str| out.extend_from_slice(text.as_bytes());
        push("<html>\r\n<head><title>");
        push(title);
        push("</title></head>\r\n<body>\r\n<center><h1>");
        push(heading);
        push("</h1></center>\r\n");
        if let Some(detail) = detail {
            push("<center>");
            push(detail);
            push("</center>\r\n");
        }
        out.extend_from_slice(info);
        if !server.is_empty() {
            out.extend_from_slice(b"<hr><center>");
            out.extend_from_slice(server);
            out.extend_from_slice(b"</center>\r\n");
        }
        let mut push = |text: &str| out.extend_from_slice(text.as_bytes());
        push("</body>\r\n</html>\r\n");
        if msie_padding && self.status >= StatusCode::BAD_REQUEST {
            push(MSIE_PADDING);
        }
    }
}

/// Appends the page of `msie_refresh`, which leads to `location` by itself.
pub fn write_refresh(out: &mut Vec<u8>, location: &[u8]) {
    out.extend_from_slice(b"<html><head><meta http-equiv=\"Refresh\" content=\"0; URL=");
    for &byte in location {
        // What could end the attribute or the tag, and what no URL holds as it is.
        if byte <= b' ' || byte >= 0x7f || b"\"'<>\\^`{|~".contains(&byte) {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
            out.extend_from_slice(&[b'%', DIGITS[high], DIGITS[low]]);
        } else {
            out.push(byte);
        }
    }
    out.extend_from_slice(b"\"></head><body></body></html>\r\n");
}

/// The pages of nginx's own codes, which are all sent as 400.
fn own_code_text(status: StatusCode) -> Option<PageText> {
    let (title, detail) = match status.0 {
        494 => (
            "400 Request Header Or Cookie Too Large",
            "Request Header Or Cookie Too Large",
        ),
        495 => ("400 The SSL certificate error", "The SSL certificate error"),
        496 => (
            "400 No required SSL certificate was sent",
            "No required SSL certificate was sent",
        ),
        497 => (
            "400 The plain HTTP request was sent to HTTPS port",
            "The plain HTTP request was sent to HTTPS port",
        ),
        _ => return None,
    };
    Some(PageText {
        title,
        heading: "400 Bad Request",
        detail: Some(detail),
    })
}

/// Heading of the ordinary pages. It differs from the reason phrase for 302 and 401.
fn heading(status: StatusCode) -> Option<&'static str> {
    Some(match status.0 {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        407 => "407 Proxy Authentication Required",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        // nginx shows a request that it cancelled itself as not found.
        498 => "404 Not Found",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}
