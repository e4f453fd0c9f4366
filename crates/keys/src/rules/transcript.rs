//! What a client signs in TLS 1.2 and below: all messages of the handshake so far (RFC 5246
//! section 7.4.8).
//!
//! libssl hands over the messages themselves, not their hash, so their form can be looked at: those
//! of one handshake with a certificate of the client, in their order, from ClientHello to
//! ClientKeyExchange, with nothing before, between or behind them. Nothing that anybody signs
//! outside of TLS has this form.

/// Types of messages (RFC 5246 section 7.4, RFC 6066 section 8).
const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const CERTIFICATE: u8 = 11;
const SERVER_KEY_EXCHANGE: u8 = 12;
const CERTIFICATE_REQUEST: u8 = 13;
const SERVER_HELLO_DONE: u8 = 14;
const CLIENT_KEY_EXCHANGE: u8 = 16;
const CERTIFICATE_STATUS: u8 = 22;

/// Whether these are the messages of such a handshake.
pub(super) fn is_of_client(input: &[u8]) -> bool {
    messages(input).is_some()
}

fn messages(input: &[u8]) -> Option<()> {
    let mut rest = Parts(input);
    client_hello(rest.message(CLIENT_HELLO)?)?;
    server_hello(rest.message(SERVER_HELLO)?)?;
    certificates(rest.message(CERTIFICATE)?)?;
    if let Some(status) = rest.message(CERTIFICATE_STATUS) {
        (!status.0.is_empty()).then_some(())?;
    }
    // There is none with the RSA key exchange; its content depends on the suite.
    if let Some(exchange) = rest.message(SERVER_KEY_EXCHANGE) {
        (!exchange.0.is_empty()).then_some(())?;
    }
    certificate_request(rest.message(CERTIFICATE_REQUEST)?)?;
    rest.message(SERVER_HELLO_DONE)?.end()?;
    certificates(rest.message(CERTIFICATE)?)?;
    key_exchange(rest.message(CLIENT_KEY_EXCHANGE)?)?;
    rest.end()
}

/// Version, random value, session, suites, compression methods, extensions (RFC 5246 section
/// 7.4.1.2).
fn client_hello(mut body: Parts<'_>) -> Option<()> {
    body.beginning()?;
    let suites = body.counted(2)?;
    (!suites.0.is_empty() && suites.0.len() % 2 == 0).then_some(())?;
    let methods = body.counted(1)?;
    (!methods.0.is_empty()).then_some(())?;
    body.extensions()
}

/// The same with the suite and the method that were chosen (section 7.4.1.3).
fn server_hello(mut body: Parts<'_>) -> Option<()> {
    body.beginning()?;
    body.take(3)?;
    body.extensions()
}

/// At least one certificate (section 7.4.2): a client without one signs nothing.
fn certificates(mut body: Parts<'_>) -> Option<()> {
    let mut list = body.counted(3)?;
    body.end()?;
    (!list.0.is_empty()).then_some(())?;
    while !list.0.is_empty() {
        let certificate = list.counted(3)?;
        (!certificate.0.is_empty()).then_some(())?;
    }
    Some(())
}

/// Types of certificates, signature algorithms (from TLS 1.2 on), names of authorities (section
/// 7.4.4).
fn certificate_request(mut body: Parts<'_>) -> Option<()> {
    let types = body.counted(1)?;
    (!types.0.is_empty()).then_some(())?;
    let mut without_algorithms = Parts(body.0);
    if without_algorithms.counted(2).is_some() && without_algorithms.end().is_some() {
        return Some(());
    }
    let algorithms = body.counted(2)?;
    (algorithms.0.len() % 2 == 0).then_some(())?;
    body.counted(2)?;
    body.end()
}

/// A point or an encrypted secret, behind its length (RFC 8422 section 5.7, RFC 5246 section
/// 7.4.7).
fn key_exchange(body: Parts<'_>) -> Option<()> {
    [1, 2].into_iter().find_map(|length_bytes| {
        let mut body = Parts(body.0);
        let secret = body.counted(length_bytes)?;
        (!secret.0.is_empty()).then_some(())?;
        body.end()
    })
}

/// What is still to be read.
struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    fn take(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    /// A text behind its length, which has so many bytes.
    fn counted(&mut self, length_bytes: usize) -> Option<Parts<'a>> {
        let length = self.take(length_bytes)?.iter();
        let length = length.fold(0, |length, byte| length << 8 | usize::from(*byte));
        self.take(length).map(Parts)
    }

    /// The body of the next message, if it is of this type.
    fn message(&mut self, kind: u8) -> Option<Parts<'a>> {
        let mut rest = Parts(self.0.strip_prefix(&[kind])?);
        let body = rest.counted(3)?;
        *self = rest;
        Some(body)
    }

    /// What both hellos begin with: a version of TLS, 32 random bytes, and a session.
    fn beginning(&mut self) -> Option<()> {
        let [3, 1..=3] = *self.take(2)? else {
            return None;
        };
        self.take(32)?;
        let session = self.counted(1)?;
        (session.0.len() <= 32).then_some(())
    }

    /// The extensions at the end of a hello; a very old one has none.
    fn extensions(mut self) -> Option<()> {
        if self.0.is_empty() {
            return Some(());
        }
        let mut all = self.counted(2)?;
        self.end()?;
        while !all.0.is_empty() {
            all.take(2)?;
            all.counted(2)?;
        }
        Some(())
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn counted(length_bytes: usize, text: &[u8]) -> Vec<u8> {
        let length = text.len().to_be_bytes();
        [&length[8 - length_bytes..], text].concat()
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &counted(3, body)].concat()
    }

    fn hello(kind: u8, rest: &[u8]) -> Vec<u8> {
        let body = [&[3, 3][..], &[0x17; 32], &counted(1, &[0x18; 32]), rest].concat();
        message(kind, &body)
    }

    /// The messages of a handshake with ECDHE.
    fn parts() -> Vec<Vec<u8>> {
        parts_with(b"its issuer")
    }

    fn parts_with(issuer: &[u8]) -> Vec<Vec<u8>> {
        let extensions = counted(2, &[&[0, 10][..], &counted(2, &[0, 2, 0, 29])].concat());
        let offer = [
            &counted(2, &[0xc0, 0x2f])[..],
            &counted(1, &[0]),
            &extensions,
        ]
        .concat();
        let choice = [&[0xc0, 0x2f, 0][..], &extensions].concat();
        let chain = counted(3, &[counted(3, b"a leaf"), counted(3, issuer)].concat());
        let request = [
            counted(1, &[1, 64]),
            counted(2, &[4, 3, 8, 4]),
            counted(2, &counted(2, b"a name")),
        ];
        vec![
            hello(CLIENT_HELLO, &offer),
            hello(SERVER_HELLO, &choice),
            message(CERTIFICATE, &chain),
            message(SERVER_KEY_EXCHANGE, b"a curve, a point, a signature"),
            message(CERTIFICATE_REQUEST, &request.concat()),
            message(SERVER_HELLO_DONE, b""),
            message(CERTIFICATE, &chain),
            message(CLIENT_KEY_EXCHANGE, &counted(1, &[4; 65])),
        ]
    }

    pub(crate) fn handshake() -> Vec<u8> {
        parts().concat()
    }

    /// One whose certificates have so many bytes more.
    pub(crate) fn long_handshake(bytes: usize) -> Vec<u8> {
        parts_with(&vec![1; bytes / 2]).concat()
    }

    #[test]
    fn handshakes_of_every_kind_have_the_form() {
        assert!(is_of_client(&handshake()));
        let with = |at: usize, message: Vec<u8>| {
            let mut parts = parts();
            parts[at] = message;
            assert!(is_of_client(&parts.concat()), "{at}");
        };
        // The RSA key exchange: no message of the server for it, and a longer one of the client.
        with(3, Vec::new());
        with(7, message(CLIENT_KEY_EXCHANGE, &counted(2, &[4; 256])));
        // Hellos without extensions, and the request of versions before 1.2.
        let offer = [counted(2, &[0, 0x2f]), counted(1, &[0])].concat();
        with(0, hello(CLIENT_HELLO, &offer));
        with(1, hello(SERVER_HELLO, &[0, 0x2f, 0]));
        let request = [counted(1, &[1]), counted(2, b"")].concat();
        with(4, message(CERTIFICATE_REQUEST, &request));
        let mut parts = parts();
        parts.insert(3, message(CERTIFICATE_STATUS, b"a response"));
        assert!(is_of_client(&parts.concat()));
    }

    #[test]
    fn messages_that_are_missing_twice_there_or_out_of_order_are_refused() {
        let all = parts();
        for at in 0..all.len() {
            let mut parts = all.clone();
            let removed = parts.remove(at);
            // The server's part of the key exchange may be missing.
            assert_eq!(is_of_client(&parts.concat()), at == 3, "without {at}");
            parts.splice(at..at, [removed.clone(), removed.clone()]);
            assert!(!is_of_client(&parts.concat()), "{at} twice");
            for other in 0..at {
                let mut parts = all.clone();
                parts.swap(at, other);
                let is_same = all[at] == all[other];
                assert_eq!(is_of_client(&parts.concat()), is_same, "{at}, {other}");
            }
        }
    }

    #[test]
    fn every_length_counts() {
        let whole = handshake();
        for length in 0..whole.len() {
            assert!(!is_of_client(&whole[..length]), "{length}");
        }
        assert!(!is_of_client(&[&whole[..], b"x"].concat()));
        assert!(!is_of_client(&[b"x", &whole[..]].concat()));
        for (at, body) in [
            // A version of another protocol, a session that is too long, an odd list of suites.
            (0, vec![2, 3]),
            (0, [&[3, 3][..], &[0; 32], &counted(1, &[0; 33])].concat()),
            (0, [&[3, 3][..], &[0; 33], &counted(2, &[0; 3])].concat()),
            (1, [&[3, 4][..], &[0; 33], &[0xc0, 0x2f, 0]].concat()),
            (1, [&[3, 3][..], &[0; 33], &[0xc0, 0x2f, 0, 0]].concat()),
            (2, counted(3, b"")),
            (2, counted(3, &counted(3, b""))),
            (3, Vec::new()),
            (4, counted(1, b"")),
            (4, [counted(1, &[1]), counted(2, b""), vec![0]].concat()),
            (5, vec![0]),
            (6, counted(3, b"")),
            (7, Vec::new()),
            (7, vec![0]),
            (7, [counted(1, &[4; 65]), vec![0]].concat()),
        ] {
            let mut parts = parts();
            let kind = parts[at][0];
            parts[at] = message(kind, &body);
            assert!(!is_of_client(&parts.concat()), "{at}: {body:?}");
        }
    }
}
