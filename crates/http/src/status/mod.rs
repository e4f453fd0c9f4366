//! Status codes, the reason phrases nginx writes, and its built-in pages.

mod page;

use std::fmt;

pub use page::{ErrorPage, MSIE_PADDING, write_refresh};

/// A status code, three digits; also nginx's own codes that never reach the wire
/// (444, 494 to 499).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatusCode(pub u16);

#[allow(missing_docs)] // the names are RFC 9110's and nginx's
impl StatusCode {
    pub const CONTINUE: StatusCode = StatusCode(100);
    pub const SWITCHING_PROTOCOLS: StatusCode = StatusCode(101);
    pub const EARLY_HINTS: StatusCode = StatusCode(103);
    pub const OK: StatusCode = StatusCode(200);
    pub const CREATED: StatusCode = StatusCode(201);
    pub const NO_CONTENT: StatusCode = StatusCode(204);
    pub const PARTIAL_CONTENT: StatusCode = StatusCode(206);
    pub const MOVED_PERMANENTLY: StatusCode = StatusCode(301);
    pub const FOUND: StatusCode = StatusCode(302);
    pub const SEE_OTHER: StatusCode = StatusCode(303);
    pub const NOT_MODIFIED: StatusCode = StatusCode(304);
    pub const TEMPORARY_REDIRECT: StatusCode = StatusCode(307);
    pub const PERMANENT_REDIRECT: StatusCode = StatusCode(308);
    pub const BAD_REQUEST: StatusCode = StatusCode(400);
    pub const UNAUTHORIZED: StatusCode = StatusCode(401);
    pub const FORBIDDEN: StatusCode = StatusCode(403);
    pub const NOT_FOUND: StatusCode = StatusCode(404);
    pub const NOT_ALLOWED: StatusCode = StatusCode(405);
    pub const PROXY_AUTH_REQUIRED: StatusCode = StatusCode(407);
    pub const REQUEST_TIMEOUT: StatusCode = StatusCode(408);
    pub const LENGTH_REQUIRED: StatusCode = StatusCode(411);
    pub const CONFLICT: StatusCode = StatusCode(409);
    pub const PRECONDITION_FAILED: StatusCode = StatusCode(412);
    pub const CONTENT_TOO_LARGE: StatusCode = StatusCode(413);
    pub const URI_TOO_LONG: StatusCode = StatusCode(414);
    pub const UNSUPPORTED_MEDIA_TYPE: StatusCode = StatusCode(415);
    pub const RANGE_NOT_SATISFIABLE: StatusCode = StatusCode(416);
    pub const MISDIRECTED_REQUEST: StatusCode = StatusCode(421);
    pub const TOO_EARLY: StatusCode = StatusCode(425);
    pub const TOO_MANY_REQUESTS: StatusCode = StatusCode(429);
    /// nginx: close the connection without an answer (`return 444`).
    pub const CLOSE: StatusCode = StatusCode(444);
    /// nginx: the request head exceeds its limits; answered as 400.
    pub const HEADER_TOO_LARGE: StatusCode = StatusCode(494);
    /// nginx: the client certificate failed verification; answered as 400.
    pub const CERTIFICATE_ERROR: StatusCode = StatusCode(495);
    /// nginx: a required client certificate was not sent; answered as 400.
    pub const NO_CERTIFICATE: StatusCode = StatusCode(496);
    /// nginx: plain HTTP on a TLS port; answered as 400.
    pub const PLAIN_HTTP_ON_TLS_PORT: StatusCode = StatusCode(497);
    /// nginx: the client closed the connection before the answer; only logged.
    pub const CLIENT_CLOSED_REQUEST: StatusCode = StatusCode(499);
    pub const INTERNAL_SERVER_ERROR: StatusCode = StatusCode(500);
    pub const NOT_IMPLEMENTED: StatusCode = StatusCode(501);
    pub const BAD_GATEWAY: StatusCode = StatusCode(502);
    pub const SERVICE_UNAVAILABLE: StatusCode = StatusCode(503);
    pub const GATEWAY_TIMEOUT: StatusCode = StatusCode(504);
    pub const VERSION_NOT_SUPPORTED: StatusCode = StatusCode(505);
    pub const INSUFFICIENT_STORAGE: StatusCode = StatusCode(507);

    /// The code that goes on the wire: nginx answers 494 to 497 as 400, every other code as
    /// itself.
    pub fn on_wire(self) -> StatusCode {
        match self.0 {
            494..=497 => StatusCode::BAD_REQUEST,
            _ => self,
        }
    }

    /// The reason phrase nginx writes after the code; empty where nginx has none.
    pub fn reason(self) -> &'static str {
        match self.0 {
            100 => "Continue",
            101 => "Switching Protocols",
            103 => "Early Hints",
            200 => "OK",
            201 => "Created",
            202 => "Accepted",
            204 => "No Content",
            206 => "Partial Content",
            301 => "Moved Permanently",
            302 => "Moved Temporarily",
            303 => "See Other",
            304 => "Not Modified",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            401 => "Unauthorized",
            402 => "Payment Required",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Not Allowed",
            406 => "Not Acceptable",
            407 => "Proxy Authentication Required",
            408 => "Request Time-out",
            409 => "Conflict",
            410 => "Gone",
            411 => "Length Required",
            412 => "Precondition Failed",
            413 => "Request Entity Too Large",
            414 => "Request-URI Too Large",
            415 => "Unsupported Media Type",
            416 => "Requested Range Not Satisfiable",
            421 => "Misdirected Request",
            429 => "Too Many Requests",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Temporarily Unavailable",
            504 => "Gateway Time-out",
            505 => "HTTP Version Not Supported",
            507 => "Insufficient Storage",
            _ => "",
        }
    }

    /// Whether a response of this status never has a body (RFC 9110 section 6.4.1).
    pub fn is_bodiless(self) -> bool {
        matches!(self.0, 100..=199 | 204 | 304)
    }

    /// Whether nginx closes the connection after this response, because the request's framing or
    /// the server's state can no longer be trusted.
    pub fn ends_connection(self) -> bool {
        matches!(self.0, 400 | 413 | 414 | 494..=497 | 500 | 501)
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}", self.0)
    }
}

#[cfg(test)]
mod tests;
