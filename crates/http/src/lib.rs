//! HTTP semantics without I/O: bytes and the time go in, structures and bytes come out.
//!
//! Nothing in this crate opens a socket or a file, reads a clock or holds a lock, so every
//! rule in it can be tested with a byte string. The reference is nginx's behaviour (1.29 and
//! later) and, where nginx is lenient in a way that lets two servers disagree about where a
//! message ends, RFC 9110 and RFC 9112.
//!
//! | module | what it knows |
//! |---|---|
//! | [`h1`] | HTTP/1 request heads, body framing, response heads, chunks |
//! | [`h2`] | HTTP/2: header compression |
//! | [`uri`] | request targets, hosts, nginx's path normalisation, percent-encoding |
//! | [`escape`] | HTML and log escaping |
//! | [`headers`] | well-known names, the response header list |
//! | [`range`] | `Range`, `If-Range`, `Content-Range`, `multipart/byteranges` |
//! | [`conditional`] | `If-*` preconditions and entity tags |
//! | [`date`] | HTTP dates and the access log's time formats |
//! | [`status`] | status codes, reason phrases, nginx's built-in pages |
//! | [`media_type`] | file extension to media type (`types`, `default_type`) |
//! | [`method`] | the methods nginx knows by name |
//! | [`fuzz`] | entry points for the fuzzers |

#![forbid(unsafe_code)]

pub mod conditional;
pub mod date;
pub mod escape;
pub mod fuzz;
pub mod h1;
pub mod h2;
pub mod headers;
pub mod media_type;
pub mod method;
pub mod range;
pub mod status;
pub mod uri;

mod decimal;
mod span;

pub use method::Method;
pub use span::Span;
pub use status::StatusCode;
