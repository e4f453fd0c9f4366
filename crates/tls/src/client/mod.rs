//! TLS towards upstreams: what `proxy_ssl_*`, `grpc_ssl_*` and `uwsgi_ssl_*` configure.
//!
//! [`ClientTls::build`] turns [`ClientSettings`] into an immutable context, shared by all
//! threads. [`ClientTls::connect`] begins one [`Connection`], driven sans-IO like the server's:
//! bytes in, bytes out.
//!
//! ```text
//! ClientTls --connect(name, session)--> Connection
//!    handshake(input, output) -> WantRead ... Pending ... Done
//!    write(plain, output), read(input, output, plain)
//!    take_session() -> SessionCache::put
//!    close_notify(output)
//! ```
//!
//! A server's certificate is verified during the handshake, whereas nginx does it afterwards. A
//! server whose certificate is refused gets an alert, and neither our certificate nor a request.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | [`ClientSettings`]: what is configured |
//! | `build.rs` | [`ClientTls`]: settings checked and built |
//! | `policy.rs` | the same with `proxy_ssl_conf_command` applied |
//! | `identity.rs` | [`ClientIdentity`]: a certificate for servers that ask for one |
//! | `name.rs` | which part of the configured name is sent and compared |
//! | `connection.rs` | [`Connection`] |
//! | `quic.rs` | [`Connection`] as QUIC drives it |
//! | `signing.rs` | signatures of a key that another process holds |
//! | `sans_io.rs` | [`Connection`] as a byte stream drives it |
//! | `sessions.rs` | [`Session`], [`SessionCache`]: resumption |
//! | `error.rs` | [`Error`], in nginx's words |

mod build;
mod connection;
mod error;
mod identity;
mod name;
mod policy;
mod quic;
mod sans_io;
mod sessions;
mod settings;
mod signing;
#[cfg(test)]
mod tests;

pub use build::ClientTls;
pub use connection::{Connection, Handshake};
pub use error::Error;
pub use identity::ClientIdentity;
pub use sessions::{DEFAULT_MAX_SESSION_KEYS, Session, SessionCache};
pub use settings::{ClientSettings, DEFAULT_CLIENT_CIPHERS, DEFAULT_VERIFY_DEPTH};

pub use crate::settings::PemFile;
