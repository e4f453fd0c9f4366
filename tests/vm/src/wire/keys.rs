//! The keys of a connection, from the client's key log (`SSLKEYLOGFILE`) to what
//! opens a record: RFC 8446 section 7 and RFC 5246 section 6.3.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::{Sha256, Sha384};

/// A key log: secrets by label and client random.
#[derive(Clone, Copy, Debug)]
pub struct KeyLog<'a>(pub &'a str);

impl KeyLog<'_> {
    /// The secret that a connection has under a label, such as `CLIENT_RANDOM`.
    ///
    /// # Errors
    ///
    /// When the log lacks it.
    pub(super) fn secret(&self, label: &str, client_random: &[u8]) -> Result<Vec<u8>, String> {
        let random = hex(client_random);
        // A line without its end is still being written.
        let mut lines = self
            .0
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let line = lines.find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(label) && words.next() == Some(random.as_str()))
                .then(|| words.next())?
        });
        let digits =
            line.ok_or_else(|| format!("the key log has no {label} for client random {random}"))?;
        // As long as the hash of a suite, or a master secret of TLS 1.2.
        if !matches!(digits.len(), 64 | 96) {
            return Err(format!(
                "the key log has a broken {label} for {random}: {digits}"
            ));
        }
        (0..digits.len() / 2)
            .map(|at| {
                u8::from_str_radix(&digits[2 * at..2 * at + 2], 16)
                    .map_err(|error| error.to_string())
            })
            .collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What seals the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sealing {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

/// What derives the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha384,
}

/// A suite that this module can open: number, name, and what it consists of.
const SUITES: [(u16, &str, Sealing, Hash); 9] = [
    (
        0x1301,
        "TLS_AES_128_GCM_SHA256",
        Sealing::Aes128Gcm,
        Hash::Sha256,
    ),
    (
        0x1302,
        "TLS_AES_256_GCM_SHA384",
        Sealing::Aes256Gcm,
        Hash::Sha384,
    ),
    (
        0x1303,
        "TLS_CHACHA20_POLY1305_SHA256",
        Sealing::ChaCha20Poly1305,
        Hash::Sha256,
    ),
    (
        0x009c,
        "AES128-GCM-SHA256",
        Sealing::Aes128Gcm,
        Hash::Sha256,
    ),
    (
        0x009d,
        "AES256-GCM-SHA384",
        Sealing::Aes256Gcm,
        Hash::Sha384,
    ),
    (
        0xc02f,
        "ECDHE-RSA-AES128-GCM-SHA256",
        Sealing::Aes128Gcm,
        Hash::Sha256,
    ),
    (
        0xc030,
        "ECDHE-RSA-AES256-GCM-SHA384",
        Sealing::Aes256Gcm,
        Hash::Sha384,
    ),
    (
        0xcca8,
        "ECDHE-RSA-CHACHA20-POLY1305",
        Sealing::ChaCha20Poly1305,
        Hash::Sha256,
    ),
    (
        0xcca9,
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        Sealing::ChaCha20Poly1305,
        Hash::Sha256,
    ),
];

/// A cipher suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) name: &'static str,
    sealing: Sealing,
    hash: Hash,
}

impl Suite {
    pub(super) fn by_number(number: u16) -> Result<Suite, String> {
        let found = SUITES.iter().find(|(known, ..)| *known == number);
        let (_, name, sealing, hash) =
            found.ok_or_else(|| format!("suite {number:#06x} cannot be opened here"))?;
        Ok(Suite {
            name,
            sealing: *sealing,
            hash: *hash,
        })
    }

    fn key_bytes(self) -> usize {
        match self.sealing {
            Sealing::Aes128Gcm => 16,
            Sealing::Aes256Gcm | Sealing::ChaCha20Poly1305 => 32,
        }
    }
}

/// One direction's key and IV.
#[derive(Clone)]
pub(super) struct Keys {
    sealing: Sealing,
    key: Vec<u8>,
    iv: Vec<u8>,
}

impl Keys {
    /// The keys of a TLS 1.3 traffic secret.
    pub(super) fn of_secret(suite: Suite, secret: &[u8]) -> Keys {
        Keys {
            sealing: suite.sealing,
            key: expand_label(suite.hash, secret, "key", suite.key_bytes()),
            iv: expand_label(suite.hash, secret, "iv", 12),
        }
    }

    /// The server's keys of a TLS 1.2 master secret.
    pub(super) fn of_master_secret(
        suite: Suite,
        master: &[u8],
        server_random: &[u8],
        client_random: &[u8],
    ) -> Keys {
        let iv_bytes = match suite.sealing {
            Sealing::ChaCha20Poly1305 => 12,
            Sealing::Aes128Gcm | Sealing::Aes256Gcm => 4,
        };
        let seed = [b"key expansion", server_random, client_random].concat();
        let key_bytes = suite.key_bytes();
        // Client key, server key, client IV, server IV.
        let block = match suite.hash {
            Hash::Sha256 => prf::<Hmac<Sha256>>(master, &seed, 2 * (key_bytes + iv_bytes)),
            Hash::Sha384 => prf::<Hmac<Sha384>>(master, &seed, 2 * (key_bytes + iv_bytes)),
        };
        Keys {
            sealing: suite.sealing,
            key: block[key_bytes..2 * key_bytes].to_vec(),
            iv: block[2 * key_bytes + iv_bytes..].to_vec(),
        }
    }

    /// Opens the fragment of a TLS 1.3 record.
    pub(super) fn open_13(&self, sequence: u64, header: &[u8], fragment: &[u8]) -> Option<Vec<u8>> {
        self.open(&self.counted_nonce(sequence), header, fragment)
    }

    /// Opens the fragment of a TLS 1.2 record; the second value is the nonce that the
    /// record itself carries, if the suite has one.
    pub(super) fn open_12(
        &self,
        sequence: u64,
        header: &[u8],
        fragment: &[u8],
    ) -> Option<(Vec<u8>, Option<u64>)> {
        const TAG_BYTES: usize = 16;
        const EXPLICIT_BYTES: usize = 8;
        let explicit = match self.sealing {
            Sealing::ChaCha20Poly1305 => None,
            Sealing::Aes128Gcm | Sealing::Aes256Gcm => Some(fragment.get(..EXPLICIT_BYTES)?),
        };
        let sealed = &fragment[explicit.map_or(0, <[u8]>::len)..];
        let length = u16::try_from(sealed.len().checked_sub(TAG_BYTES)?).ok()?;
        let associated = [
            &sequence.to_be_bytes()[..],
            &header[..3],
            &length.to_be_bytes(),
        ]
        .concat();
        let nonce = match explicit {
            Some(explicit) => [&self.iv, explicit].concat(),
            None => self.counted_nonce(sequence),
        };
        let plain = self.open(&nonce, &associated, sealed)?;
        let explicit =
            explicit.map(|bytes| u64::from_be_bytes(bytes.try_into().expect("eight bytes")));
        Some((plain, explicit))
    }

    /// The IV with the sequence number on its last bytes.
    fn counted_nonce(&self, sequence: u64) -> Vec<u8> {
        let mut nonce = self.iv.clone();
        let from = nonce.len() - 8;
        for (byte, number) in nonce[from..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    fn open(&self, nonce: &[u8], aad: &[u8], msg: &[u8]) -> Option<Vec<u8>> {
        let payload = Payload { msg, aad };
        let nonce = nonce.try_into().expect("every nonce has twelve bytes");
        let key = &self.key;
        let size = "the key was made for this cipher";
        match self.sealing {
            Sealing::Aes128Gcm => Aes128Gcm::new_from_slice(key)
                .expect(size)
                .decrypt(nonce, payload),
            Sealing::Aes256Gcm => Aes256Gcm::new_from_slice(key)
                .expect(size)
                .decrypt(nonce, payload),
            Sealing::ChaCha20Poly1305 => ChaCha20Poly1305::new_from_slice(key)
                .expect(size)
                .decrypt(nonce, payload),
        }
        .ok()
    }
}

/// The secret that follows a KeyUpdate.
pub(super) fn next_secret(suite: Suite, secret: &[u8]) -> Vec<u8> {
    expand_label(suite.hash, secret, "traffic upd", secret.len())
}

/// HKDF-Expand-Label with an empty value, RFC 8446 section 7.1.
fn expand_label(hash: Hash, secret: &[u8], label: &str, bytes: usize) -> Vec<u8> {
    let label = format!("tls13 {label}");
    let length = u16::try_from(bytes).expect("keys are short").to_be_bytes();
    let label_length = u8::try_from(label.len()).expect("labels are short");
    let info = [&length[..], &[label_length], label.as_bytes(), &[0]].concat();
    let mut output = vec![0; bytes];
    let fits = "a secret is as long as its hash, and keys are shorter";
    match hash {
        Hash::Sha256 => Hkdf::<Sha256>::from_prk(secret)
            .expect(fits)
            .expand(&info, &mut output),
        Hash::Sha384 => Hkdf::<Sha384>::from_prk(secret)
            .expect(fits)
            .expand(&info, &mut output),
    }
    .expect(fits);
    output
}

/// P_hash of RFC 5246 section 5, label and seed together.
fn prf<M: Mac + KeyInit>(secret: &[u8], seed: &[u8], bytes: usize) -> Vec<u8> {
    let hmac = |parts: &[&[u8]]| {
        let mut mac =
            <M as KeyInit>::new_from_slice(secret).expect("HMAC takes keys of any length");
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    };
    let mut output = Vec::new();
    let mut a = hmac(&[seed]);
    while output.len() < bytes {
        output.extend(hmac(&[&a, seed]));
        a = hmac(&[&a]);
    }
    output.truncate(bytes);
    output
}
