//! The HTTP protocol by which an auth service decides about logins: `ngx_mail_auth_http_module`.

mod request;
mod response;

pub use request::{AuthService, ClientDetails, ProxyHeader, TlsDetails, request};
pub use response::{Allowed, AuthHttpError, AuthResponse, Decision, Refusal};

#[cfg(test)]
mod tests;
