//! Whether the kernel seals a server's TLS records, by the kernel's own counters.

use std::{borrow::Cow, fs};

use crate::{Error, testbed::Server};

/// Statistics of kernel TLS; absent if the kernel has none, or its module is not loaded.
const STATISTICS: &str = "/proc/net/tls_stat";

/// The directive that asks for it, which nginx and Sealane have.
pub(crate) const DIRECTIVE: &str = "ssl_conf_command Options KTLS;";

/// How many connections the kernel has sealed records for so far; `None` if it cannot.
pub(crate) fn sealed_connections() -> Option<u64> {
    let text = fs::read_to_string(STATISTICS).ok()?;
    Some(count(&text))
}

/// Why a server that is told to use kernel TLS is left out, if it is.
pub(crate) fn obstacle(server: &Server) -> Option<Cow<'static, str>> {
    let is_missing = is_wanted(server) && sealed_connections().is_none();
    is_missing
        .then(|| "this kernel has no kernel TLS, or its module is not loaded (modprobe tls)".into())
}

/// Whether a server is told to use it.
pub(crate) fn is_wanted(server: &Server) -> bool {
    server.directives.contains(DIRECTIVE)
}

/// Compares the counter before and after a measurement of a server that is told to use it.
///
/// # Errors
///
/// The kernel sealed nothing meanwhile: the figures would be those of user space.
pub(crate) fn check(before: Option<u64>) -> Result<(), Error> {
    match (before, sealed_connections()) {
        (Some(before), Some(after)) if after > before => Ok(()),
        _ => Err(Error::Negotiated {
            what: "kernel TLS",
            wanted: "records sealed by the kernel".into(),
            got: "records sealed by the server".into(),
        }),
    }
}

/// The sum of the connections that were given to the kernel and to network cards.
fn count(text: &str) -> u64 {
    let value = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let is_counted = matches!(words.next()?, "TlsTxSw" | "TlsTxDevice");
        is_counted.then(|| words.next()?.parse::<u64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_send_count() {
        let text = "TlsCurrTxSw                     \t1\nTlsCurrRxSw                     \t2\n\
                    TlsTxSw                         \t12\nTlsRxSw                         \t7\n\
                    TlsTxDevice                     \t3\nTlsDecryptError                 \t9\n";
        assert_eq!(count(text), 15);
        assert_eq!(count(""), 0);
    }

    #[test]
    fn only_servers_that_are_told_need_it() {
        let mut server: Server = "a=/bin/true".parse().expect("name=path");
        assert_eq!(obstacle(&server), None);
        server.directives = DIRECTIVE.into();
        assert_eq!(obstacle(&server).is_some(), sealed_connections().is_none());
    }

    #[test]
    fn a_counter_that_stands_still_is_an_error() {
        // No test of this program uses kernel TLS.
        assert!(check(sealed_connections()).is_err());
        assert!(check(None).is_err());
    }
}
