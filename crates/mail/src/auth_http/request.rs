//! The request to an auth service.

use crate::escape::percent;
use crate::login::{LoginAttempt, Method};
use crate::secret::Secret;
use std::net::Ipv6Addr;
use zeroize::Zeroizing;

/// What is configured of an auth service.
#[derive(Debug, Clone)]
pub struct AuthService {
    /// The path and the query of `auth_http`; `/` without one.
    pub uri: String,
    /// The host of `auth_http`, with its port if there is one; `localhost` with a socket.
    pub host: String,
    /// `auth_http_header`: names and values.
    pub headers: Vec<(String, String)>,
}

/// What a PROXY header said.
#[derive(Debug, Clone, Copy)]
pub struct ProxyHeader<'a> {
    /// The client's address.
    pub source: &'a str,
    /// Its port.
    pub source_port: u16,
    /// The address that it has connected to.
    pub destination: &'a str,
    /// The port there.
    pub destination_port: u16,
}

/// What is known of a client's TLS connection. What is empty is left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct TlsDetails<'a> {
    /// The version, in OpenSSL's words: `TLSv1.3`.
    pub protocol: &'a str,
    /// The cipher suite, in OpenSSL's words.
    pub cipher: &'a str,
    /// With `ssl_verify_client` only: `SUCCESS`, `FAILED:reason` or `NONE`.
    pub verify: &'a str,
    /// The subject of the certificate.
    pub subject: &'a str,
    /// Its issuer.
    pub issuer: &'a str,
    /// Its serial number.
    pub serial: &'a str,
    /// Its SHA-1 fingerprint.
    pub fingerprint: &'a str,
    /// The certificate in PEM, with `auth_http_pass_client_cert`.
    pub certificate: &'a str,
}

/// Where a client comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientDetails<'a> {
    /// Its address without the port; `unix:` on a socket.
    pub address: &'a str,
    /// Its name, with SMTP; empty otherwise. See [`HOST_UNAVAILABLE`](crate::HOST_UNAVAILABLE).
    pub host: &'a [u8],
    /// The PROXY header, if there was one.
    pub proxy: Option<ProxyHeader<'a>>,
    /// Under TLS.
    pub tls: Option<TlsDetails<'a>>,
}

impl ClientDetails<'_> {
    /// The address as it is written in XCLIENT.
    pub(crate) fn xclient_address(&self) -> String {
        match self.address.parse::<Ipv6Addr>() {
            Ok(_) => format!("IPV6:{}", self.address),
            Err(_) => self.address.to_owned(),
        }
    }
}

/// The request that asks about an attempt.
pub fn request(
    service: &AuthService,
    attempt: &LoginAttempt,
    client: &ClientDetails<'_>,
) -> Secret {
    // Wiped if it should ever grow beyond the estimate, except for what growing leaves behind.
    let mut head = Zeroizing::new(Vec::with_capacity(capacity(service, attempt, client)));
    head.extend_from_slice(b"GET ");
    head.extend_from_slice(service.uri.as_bytes());
    head.extend_from_slice(b" HTTP/1.0\r\n");
    field(&mut head, "Host", service.host.as_bytes());
    field(&mut head, "Auth-Method", attempt.method.name().as_bytes());
    escaped_field(&mut head, "Auth-User", &attempt.user);
    let password = attempt.password.as_ref().map_or(&b""[..], Secret::as_bytes);
    escaped_field(&mut head, "Auth-Pass", password);
    if let Some(salt) = &attempt.salt {
        field(&mut head, "Auth-Salt", salt.as_bytes());
    }
    field(
        &mut head,
        "Auth-Protocol",
        attempt.protocol.name().as_bytes(),
    );
    number_field(&mut head, "Auth-Login-Attempt", attempt.number);
    field(&mut head, "Client-IP", client.address.as_bytes());
    unless_empty(&mut head, "Client-Host", client.host);
    if let Some(proxy) = &client.proxy {
        field(&mut head, "Proxy-Protocol-Addr", proxy.source.as_bytes());
        number_field(&mut head, "Proxy-Protocol-Port", proxy.source_port.into());
        let destination = proxy.destination.as_bytes();
        field(&mut head, "Proxy-Protocol-Server-Addr", destination);
        let port = proxy.destination_port.into();
        number_field(&mut head, "Proxy-Protocol-Server-Port", port);
    }
    if let (Method::Anonymous, Some(envelope)) = (attempt.method, &attempt.envelope) {
        // None of them contains a line end, as each was part of a line.
        field(&mut head, "Auth-SMTP-Helo", &envelope.helo);
        field(&mut head, "Auth-SMTP-From", &envelope.from);
        field(&mut head, "Auth-SMTP-To", &envelope.to);
    }
    if let Some(tls) = &client.tls {
        tls_fields(&mut head, tls);
    }
    for (name, value) in &service.headers {
        field(&mut head, name, value.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    Secret::new(std::mem::take(&mut *head))
}

fn tls_fields(head: &mut Vec<u8>, tls: &TlsDetails<'_>) {
    field(head, "Auth-SSL", b"on");
    unless_empty(head, "Auth-SSL-Protocol", tls.protocol.as_bytes());
    unless_empty(head, "Auth-SSL-Cipher", tls.cipher.as_bytes());
    unless_empty(head, "Auth-SSL-Verify", tls.verify.as_bytes());
    unless_empty(head, "Auth-SSL-Subject", tls.subject.as_bytes());
    unless_empty(head, "Auth-SSL-Issuer", tls.issuer.as_bytes());
    unless_empty(head, "Auth-SSL-Serial", tls.serial.as_bytes());
    unless_empty(head, "Auth-SSL-Fingerprint", tls.fingerprint.as_bytes());
    if !tls.certificate.is_empty() {
        escaped_field(head, "Auth-SSL-Cert", tls.certificate.as_bytes());
    }
}

/// More than the request has.
fn capacity(service: &AuthService, attempt: &LoginAttempt, client: &ClientDetails<'_>) -> usize {
    // Names of headers, and values that are short.
    const FIXED: usize = 2048;
    let password = attempt.password.as_ref().map_or(0, |p| p.as_bytes().len());
    let escaped = attempt.user.len() + password;
    let certificate = client.tls.as_ref().map_or(0, |tls| {
        3 * tls.certificate.len() + tls.subject.len() + tls.issuer.len() + tls.verify.len()
    });
    let envelope = attempt.envelope.as_ref().map_or(0, |envelope| {
        envelope.helo.len() + envelope.from.len() + envelope.to.len()
    });
    let headers = service.headers.iter();
    let configured: usize = headers
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    let salt = attempt.salt.as_ref().map_or(0, String::len);
    FIXED
        + service.uri.len()
        + service.host.len()
        + client.host.len()
        + 3 * escaped
        + certificate
        + envelope
        + configured
        + salt
}

fn field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

fn unless_empty(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    if !value.is_empty() {
        field(head, name, value);
    }
}

fn escaped_field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    percent(head, value);
    head.extend_from_slice(b"\r\n");
}

fn number_field(head: &mut Vec<u8>, name: &str, value: usize) {
    field(head, name, value.to_string().as_bytes());
}
