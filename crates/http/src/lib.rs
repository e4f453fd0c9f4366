//! HTTP semantics without I/O: bytes and the time go in, structures and bytes come out.
//!
//! Nothing in this crate opens a socket or a file, reads a clock or holds a lock, so every rule in
//! it can be tested with a byte string. The reference is nginx's behaviour (1.29 and later). Where
//! nginx is lenient in a way that lets two servers disagree about where a message ends, it is RFC
//! 9110 and RFC 9112.
//!
//! | module | what it knows |
//! |---|---|
//! | [`h1`] | HTTP/1 from both ends: heads of requests and responses, body framing, chunks |
//! | [`h2`] | HTTP/2, both ends: frames, streams, flow control, priorities, header compression |
//! | [`h3`] | HTTP/3, both ends: frames, streams, priorities, header compression |
//! | [`cgi`] | responses of gateway programs, their parameters, headers as meta-variables |
//! | [`fastcgi`] | FastCGI records |
//! | [`dubbo`] | Dubbo 2, the side of the consumer, with Hessian 2 |
//! | [`scgi`], [`uwsgi`] | requests in these protocols |
//! | [`proxy_protocol`] | PROXY protocol headers, both versions |
//! | [`rewrite`] | what a proxy changes in redirects, cookies and forwarding headers |
//! | [`uri`] | request targets, hosts, nginx's path normalisation, percent-encoding |
//! | [`escape`] | HTML and log escaping |
//! | [`headers`] | well-known names, the response header list |
//! | [`range`] | `Range`, `If-Range`, `Content-Range`, `multipart/byteranges` |
//! | [`cache_control`] | what requests and responses say about caching |
//! | [`conditional`] | `If-*` preconditions and entity tags |
//! | [`date`] | HTTP dates and the access log's time formats |
//! | [`status`] | status codes, reason phrases, nginx's built-in pages |
//! | [`media_type`] | by which extension of a path a media type is looked up |
//! | [`method`] | the methods nginx knows by name |
//! | [`traceparent`] | `traceparent` and `tracestate` |
//! | [`trim`] | pages without the white space and comments that nobody sees |
//! | [`outgoing`] | what may be written into a request to another server |
//! | [`fuzz`] | entry points for the fuzzers |

#![forbid(unsafe_code)]

pub mod cache_control;
pub mod cgi;
pub mod conditional;
pub mod date;
pub mod dubbo;
pub mod escape;
pub mod fastcgi;
pub mod fuzz;
pub mod h1;
pub mod h2;
pub mod h3;
pub mod headers;
pub mod media_type;
pub mod method;
pub mod mp4;
pub mod outgoing;
pub mod proxy_protocol;
pub mod range;
pub mod rewrite;
pub mod scgi;
pub mod status;
pub mod traceparent;
pub mod trim;
pub mod uri;
pub mod uwsgi;

pub mod decimal;
mod message;
mod meter;
mod span;
#[cfg(test)]
mod tests;

pub use method::Method;
pub use span::Span;
pub use status::StatusCode;
