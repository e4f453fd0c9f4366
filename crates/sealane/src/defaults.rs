//! Defaults that differ from those of the nginx that a configuration was written for.

use sealane_conf::met::Met;

/// A default that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Differs {
    /// The directive that is not written.
    pub(crate) name: &'static str,
    /// What holds here.
    pub(crate) here: &'static str,
    /// What holds in nginx, or held in earlier ones.
    pub(crate) nginx: &'static str,
    /// What it means, and how to have it as it was.
    pub(crate) note: &'static str,
    /// It matters where one of these is written ...
    with: &'static [&'static str],
    /// ... and none of these ...
    without: &'static [&'static str],
    /// ... and only there.
    scope: Scope,
}

/// Which configurations a default is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// All of them.
    Anywhere,
    /// Those with `http`.
    Http,
    /// Those with `listen ... quic`.
    Quic,
}

const DIFFERING: &[Differs] = &[
    Differs {
        name: "pid",
        here: "logs/sealane.pid",
        nginx: "logs/nginx.pid",
        note: "scripts that use the file need this line",
        with: &["events"],
        without: &["pid"],
        scope: Scope::Anywhere,
    },
    Differs {
        name: "ssl_protocols",
        here: "TLSv1.2 TLSv1.3",
        nginx: "the same since 1.27.3, before TLSv1 and TLSv1.1 too",
        note: "clients from before 2014 cannot connect; list the versions to enable them",
        with: &["ssl_certificate"],
        without: &["ssl_protocols"],
        scope: Scope::Anywhere,
    },
    Differs {
        name: "ssl_ktls",
        here: "auto",
        nginx: "off, unless ssl_conf_command Options KTLS",
        note: "the kernel encrypts files of 64k or more that are sent with sendfile; `ssl_ktls \
               off` disables it",
        with: &["ssl_certificate"],
        without: &["ssl_ktls"],
        scope: Scope::Anywhere,
    },
    Differs {
        name: "ssl_async",
        here: "auto",
        nginx: "no such thing",
        note: "private key operations run on separate threads when others would wait; `ssl_async \
               off` disables it",
        with: &["ssl_certificate"],
        without: &["ssl_async"],
        scope: Scope::Anywhere,
    },
    Differs {
        name: "proxy_http_version",
        here: "1.1",
        nginx: "1.0 before 1.29.7",
        note: "backends may send chunked responses and keep connections open; `proxy_http_version \
               1.0` restores the old default",
        with: &["proxy_pass"],
        without: &["proxy_http_version"],
        scope: Scope::Http,
    },
    Differs {
        name: "keepalive",
        here: "32 local",
        nginx: "none before 1.29.7",
        note: "connections to upstream servers are reused; `keepalive 0` restores the old default",
        with: &["upstream"],
        without: &["keepalive"],
        scope: Scope::Http,
    },
    Differs {
        name: "quic_retry",
        here: "256",
        nginx: "off",
        note: "clients must prove their addresses while a worker thread has that many handshakes \
               with others; `quic_retry off` restores nginx's default",
        with: &["listen"],
        without: &["quic_retry"],
        scope: Scope::Quic,
    },
    Differs {
        name: "quic_gso",
        here: "on",
        nginx: "off",
        note: "the kernel gets many datagrams at once to send, where it can; `quic_gso off` \
               disables it",
        with: &["listen"],
        without: &["quic_gso"],
        scope: Scope::Quic,
    },
];

/// The defaults that matter for a configuration.
pub(crate) fn differing(met: &Met) -> Vec<&'static Differs> {
    let without_http = met.has("stream") && !met.has("http");
    let matters = |differs: &&Differs| {
        let is_there = match differs.scope {
            Scope::Anywhere => true,
            Scope::Http => !without_http,
            Scope::Quic => met.listens_quic,
        };
        is_there
            && differs.with.iter().any(|name| met.has(name))
            && !differs.without.iter().any(|name| met.has(name))
    };
    DIFFERING.iter().filter(matters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options, directives, survey};

    #[test]
    fn what_is_said_of_defaults_is_what_the_table_has() {
        for differs in DIFFERING {
            let mut rows = directives::rows();
            let row = rows.find(|row| row.name == differs.name);
            let default = row.expect("a directive").default;
            // Without a default of its own it depends on another directive.
            assert!(
                default == differs.here || default.is_empty(),
                "{}: {default}",
                differs.name
            );
            for name in differs.with.iter().chain(differs.without) {
                assert!(directives::works(name), "{name}");
            }
        }
    }

    #[test]
    fn only_what_matters_is_said() {
        let of = |text: &str| -> Vec<&str> {
            let mut files = MemoryLoader::new().with("/c", text);
            let met = survey(&Options::new("/c", "/p"), &mut files).met;
            differing(&met).iter().map(|differs| differs.name).collect()
        };
        assert_eq!(of("pid /x; events {}"), [""; 0]);
        assert_eq!(of("events {}"), ["pid"]);
        assert_eq!(
            of("pid x; events {} http { ssl_certificate a; ssl_protocols TLSv1.3; upstream u { server unix:/a; }
                server { location / { proxy_pass http://u; proxy_http_version 1.1; } } }"),
            ["ssl_ktls", "ssl_async", "keepalive"]
        );
        assert_eq!(
            of(
                "pid x; events {} stream { upstream u { server unix:/a; }
                server { listen 1 ssl; ssl_certificate a; ssl_certificate_key a; proxy_pass u; } }"
            ),
            ["ssl_protocols", "ssl_ktls", "ssl_async"]
        );
        let with_quic = |line: &str| {
            of(&format!(
                "pid x; events {{}} http {{ ssl_certificate a; ssl_certificate_key a; ssl_ktls on;
                 ssl_async on; ssl_protocols TLSv1.3; server {{ listen 443 quic; {line} }} }}"
            ))
        };
        assert_eq!(with_quic(""), ["quic_retry", "quic_gso"]);
        assert_eq!(with_quic("quic_gso off;"), ["quic_retry"]);
        assert_eq!(with_quic("quic_gso on; quic_retry on;"), [""; 0]);
    }
}
