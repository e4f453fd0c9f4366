use super::*;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

const KEY: [u8; 32] = {
    let mut key = [0; 32];
    let mut i = 0;
    while i < 32 {
        key[i] = 0x80 + i as u8;
        i += 1;
    }
    key
};
const IV: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

fn keys(version: Version, cipher: Cipher) -> Keys<'static> {
    Keys {
        version,
        cipher,
        key: &KEY[..cipher.key_bytes()],
        iv: &IV[..cipher.iv_bytes(version)],
        sequence: 0x0102_0304_0506_0708,
    }
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// Attaches, or says why the rest of a test cannot run on this kernel.
fn attached(socket: &TcpStream) -> bool {
    match attach(socket.as_fd()) {
        Ok(()) => true,
        Err(error) => {
            let errno = error.raw_os_error();
            assert!(
                matches!(errno, Some(libc::ENOENT | libc::ENOPROTOOPT)),
                "a connected socket can only lack the module: {error}"
            );
            sealane_needs::leave_out(format_args!("no kernel TLS here ({error})"));
            false
        }
    }
}

#[test]
fn the_structures_are_those_of_the_kernel_s_header() {
    let info = |version, cipher| {
        let info = CryptoInfo::new(&keys(version, cipher)).unwrap();
        info.bytes().to_vec()
    };
    let header = |version: u16, cipher: u16| {
        let mut bytes = version.to_ne_bytes().to_vec();
        bytes.extend(cipher.to_ne_bytes());
        bytes
    };
    let sequence = [1_u8, 2, 3, 4, 5, 6, 7, 8];

    // iv[8], key, salt[4], rec_seq[8]
    for (cipher, number, key) in [
        (Cipher::Aes128Gcm, 51, &KEY[..16]),
        (Cipher::Aes256Gcm, 52, &KEY[..]),
    ] {
        let expected = [
            &header(0x0304, number)[..],
            &IV[4..],
            key,
            &IV[..4],
            &sequence,
        ]
        .concat();
        assert_eq!(info(Version::Tls13, cipher), expected);
        let expected = [
            &header(0x0303, number)[..],
            &sequence,
            key,
            &IV[..4],
            &sequence,
        ]
        .concat();
        assert_eq!(info(Version::Tls12, cipher), expected);
        assert_eq!(expected.len(), 24 + key.len());
    }
    // iv[12], key, no salt, rec_seq[8]
    for (version, number) in [(Version::Tls12, 0x0303), (Version::Tls13, 0x0304)] {
        let expected = [&header(number, 54)[..], &IV, &KEY, &sequence].concat();
        assert_eq!(info(version, Cipher::ChaCha20Poly1305), expected);
    }
}

#[test]
fn wrong_lengths_are_refused_before_the_kernel_sees_them() {
    let (client, _server) = tcp_pair();
    for version in Version::ALL {
        for cipher in Cipher::ALL {
            let good = keys(version, cipher);
            let short_key = Keys {
                key: &good.key[1..],
                ..good
            };
            let short_iv = Keys {
                iv: &good.iv[1..],
                ..good
            };
            for bad in [short_key, short_iv] {
                let error = set_transmit(client.as_fd(), &bad).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                let error = set_receive(client.as_fd(), &bad).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            }
        }
    }
}

#[test]
fn keys_need_the_protocol_attached_and_a_connection() {
    let (client, _server) = tcp_pair();
    let keys = keys(Version::Tls13, Cipher::Aes128Gcm);
    // No `tls` on the socket: the option level does not exist there.
    assert!(set_transmit(client.as_fd(), &keys).is_err());
    assert!(set_receive(client.as_fd(), &keys).is_err());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let errno = attach(listener.as_fd()).unwrap_err().raw_os_error();
    assert!(
        matches!(
            errno,
            Some(libc::ENOENT | libc::ENOPROTOOPT | libc::ENOTCONN)
        ),
        "{errno:?}"
    );
}

#[test]
fn records_have_the_types_they_were_sent_with() {
    let (client, mut server) = tcp_pair();
    if !attached(&client) {
        return;
    }
    let again = attach(client.as_fd()).unwrap_err();
    assert_eq!(again.raw_os_error(), Some(libc::EEXIST));
    let keys = keys(Version::Tls12, Cipher::Aes128Gcm);
    set_transmit(client.as_fd(), &keys).unwrap();
    assert_eq!(send_record(client.as_fd(), 21, &[1, 0]).unwrap(), 2);
    assert_eq!(
        crate::socket::send(client.as_fd(), b"plain", false).unwrap(),
        5
    );
    drop(client);
    let mut wire = Vec::new();
    server.read_to_end(&mut wire).unwrap();
    // Header, explicit nonce (the sequence number), ciphertext, tag.
    assert_eq!(
        wire[..13],
        [21, 3, 3, 0, 8 + 2 + 16, 1, 2, 3, 4, 5, 6, 7, 8]
    );
    let data = &wire[5 + 26..];
    assert_eq!(
        data[..13],
        [23, 3, 3, 0, 8 + 5 + 16, 1, 2, 3, 4, 5, 6, 7, 9]
    );
    assert_eq!(data.len(), 5 + 29);
}

#[test]
fn debug_output_has_no_secret() {
    let text = format!("{:?}", keys(Version::Tls13, Cipher::Aes256Gcm));
    assert!(text.contains("Aes256Gcm") && text.contains("Tls13"));
    assert!(!text.contains("128, 129"), "the key: {text}");
    assert!(!text.contains("1, 2, 3"), "the IV: {text}");
}
