//! Entry points for fuzzing: what a worker that was taken over may send on a channel, and as a key
//! to be loaded.

use crate::deposit::{Deposit, Deposited, DepositedKey, KeySource};
use crate::rules::{Roles, is_permitted};
use crate::wire::{Nonsense, Request, put_request, take_answer, take_request};
use sealane_awslc::KeyKind;
use sealane_tls::KeyOperation;
use std::os::fd::AsFd;

/// The kinds of keys that a key process holds.
const KINDS: [KeyKind; 5] = [
    KeyKind::Rsa,
    KeyKind::EcP256,
    KeyKind::EcP384,
    KeyKind::EcP521,
    KeyKind::Ed25519,
];

/// Reads any bytes as what arrives on a channel.
///
/// # Panics
///
/// When what is read depends on how it arrives, when it is not what was written, or when something
/// would be signed that no handshake signs.
pub fn fuzz_channel(data: &[u8]) {
    let whole = read(&[data]);
    let middle = data.len() / 2;
    assert_eq!(read(&[&data[..middle], &data[middle..]]), whole);
    let mut written = Vec::new();
    for Request {
        number,
        key,
        operation,
    } in &whole.0
    {
        put_request(&mut written, *number, *key, operation);
        for kind in KINDS {
            for roles in [Roles::SERVER, Roles::CLIENT] {
                let is_permitted = is_permitted(kind, roles, operation);
                assert!(!is_permitted || is_of_a_handshake(roles, operation));
            }
        }
    }
    assert!(data.starts_with(&written), "there is one way to write it");
    let mut rest = data;
    while let Ok(Some((_, result))) = take_answer(&mut rest) {
        assert!(result.map_or(0, <[u8]>::len) + rest.len() < data.len());
    }
}

/// Reads any bytes as a key to be loaded.
///
/// # Panics
///
/// When what is read is not what was written.
pub fn fuzz_deposit(data: &[u8]) {
    let Some(deposited) = Deposited::parse(data) else {
        return;
    };
    let deposit = Deposit {
        roles: deposited.roles,
        may_decrypt: deposited.may_decrypt,
        accelerator: deposited.accelerator,
        passwords: deposited.passwords(),
        key: match deposited.key() {
            DepositedKey::Pem(pem) => KeySource::Pem(pem),
            DepositedKey::Uri(uri) => KeySource::Uri(uri),
        },
    };
    // A URI that is none is read as one without characters.
    if matches!(deposited.key(), DepositedKey::Uri("")) {
        return;
    }
    let sealed = deposit.seal().expect("it is no longer than what was read");
    let again = Deposited::read(sealed.as_fd()).expect("just written");
    assert_eq!(
        again.content(),
        deposited.content(),
        "there is one way to write it"
    );
}

/// What is read of pieces until the first that is nonsense.
fn read(pieces: &[&[u8]]) -> (Vec<Request>, Result<(), Nonsense>) {
    let (mut kept, mut requests) = (Vec::new(), Vec::new());
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut rest = &kept[..];
        loop {
            match take_request(&mut rest) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(error) => return (requests, Err(error)),
            }
        }
        kept = rest.to_vec();
    }
    (requests, Ok(()))
}

/// The same question, answered in another way: by the places of the parts.
fn is_of_a_handshake(roles: Roles, operation: &KeyOperation) -> bool {
    let KeyOperation::Sign { input, .. } = operation else {
        return roles.server;
    };
    let context = match roles.server {
        true => b"TLS 1.3, server CertificateVerify",
        false => b"TLS 1.3, client CertificateVerify",
    };
    match input.len() {
        130 | 146 if input[..64] == [0x20; 64] => input[64..97] == *context && input[97] == 0,
        _ if roles.client => has_messages_of_a_client(input),
        100 => input[64..68] == [3, 0, 29, 32],
        133 => input[64..68] == [3, 0, 23, 65],
        165 => input[64..68] == [3, 0, 24, 97],
        201 => input[64..68] == [3, 0, 25, 133],
        _ => false,
    }
}

/// Whether the types of the messages, by what is between their lengths, are those of a handshake
/// with a certificate of the client.
fn has_messages_of_a_client(mut input: &[u8]) -> bool {
    let mut types = Vec::new();
    while let [kind, high, middle, low, rest @ ..] = input {
        types.push(*kind);
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        input = rest.get(length..).unwrap_or(&[0]);
    }
    let optional = [12, 22];
    let required: Vec<u8> = types
        .iter()
        .copied()
        .filter(|kind| !optional.contains(kind))
        .collect();
    input.is_empty() && types.len() <= 9 && required == [1, 2, 11, 13, 14, 11, 16]
}
