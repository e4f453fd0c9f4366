//! Sites that are served by HTTP/3, and by HTTP/1 and HTTP/2 beside it.

use super::{QuicClient, QuicConnection, QuicRequest, QuicScript};
use crate::{Certificate, CertificateKey, Server, Site};
use std::net::{Ipv4Addr, SocketAddr};

/// The certificate of [`quic_site`], for a server block.
pub const QUIC_CERTIFICATE: &str =
    "ssl_certificate certificates/site.pem; ssl_certificate_key certificates/site.key;";

/// A site with a certificate, `html/a.txt` (`alpha`) and `html/empty`.
pub fn quic_site() -> Site {
    let site = Site::new();
    site.certificate(&Certificate::localhost("site", CertificateKey::P256));
    site.write("html/a.txt", "alpha");
    site.write("html/empty", "");
    site
}

/// One server for `localhost` with these directives, on port `%tls%` by QUIC and by TCP, and
/// without TLS on `%plain%`.
#[track_caller]
pub fn serve_quic<'a>(site: &'a Site, directives: &str) -> Server<'a> {
    site.serve(&quic_configuration(directives))
}

/// What [`serve_quic`] has in its `http` block.
pub fn quic_configuration(directives: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:%plain%; listen 127.0.0.1:%tls% ssl; listen 127.0.0.1:%tls% quic; http2 on;
           server_name localhost; root html; {QUIC_CERTIFICATE} {directives} }}"
    )
}

impl QuicScript {
    /// A script for the port `%tls%` of a server of [`quic_site`].
    pub fn to(site: &Site, server: &Server<'_>) -> QuicScript {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port("tls")));
        QuicScript::new(address, &site.authority())
    }
}

impl QuicClient {
    /// What became of the only connection of a script.
    #[track_caller]
    pub fn run_one(self, script: &QuicScript) -> QuicConnection {
        let mut run = self.run(script);
        assert_eq!(run.connections.len(), 1, "{run:?}");
        run.connections.remove(0)
    }
}

impl QuicRequest {
    /// A GET.
    pub fn get(path: &str) -> QuicRequest {
        QuicRequest::new("GET", path)
    }
}
