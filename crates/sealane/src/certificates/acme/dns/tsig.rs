//! Signatures of DNS messages with a shared key (RFC 8945).

use super::message::{
    ADDITIONAL_COUNT_AT, CLASS_ANY, HEAD_BYTES, Reader, TYPE_TSIG, name_bytes, number,
};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use zeroize::Zeroizing;

/// How far clocks may differ, in seconds.
const FUDGE_S: u16 = 300;

/// The algorithms, by the names that they have in files and on the wire.
const ALGORITHMS: [(&str, hmac::Algorithm); 3] = [
    ("hmac-sha256", hmac::HMAC_SHA256),
    ("hmac-sha384", hmac::HMAC_SHA384),
    ("hmac-sha512", hmac::HMAC_SHA512),
];

/// A key that a DNS server has too.
pub(crate) struct TsigKey {
    name: String,
    algorithm: &'static str,
    key: hmac::Key,
}

impl fmt::Debug for TsigKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TsigKey({})", self.name)
    }
}

impl TsigKey {
    /// Reads a file in BIND's format: `key "name" { algorithm hmac-sha256; secret "..."; };`.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn parse(file: &[u8]) -> Result<TsigKey, String> {
        let text = Zeroizing::new(String::from_utf8_lossy(file).into_owned());
        let words = text
            .lines()
            .map(|line| line.split(['#']).next().unwrap_or_default())
            .map(|line| line.split("//").next().unwrap_or_default())
            .flat_map(|line| line.split([' ', '\t', ';', '{', '}', '\r']))
            .map(|word| word.trim_matches('"'))
            .filter(|word| !word.is_empty())
            .collect::<Vec<_>>();
        let after = |what: &str| {
            let found = words.iter().position(|word| *word == what);
            let found = found.and_then(|at| words.get(at + 1)).copied();
            found.ok_or_else(|| format!("the TSIG key has no \"{what}\""))
        };
        let written = after("algorithm")?.to_ascii_lowercase();
        let written = written.trim_end_matches('.');
        let known = ALGORITHMS.iter().find(|(name, _)| *name == written);
        let (algorithm, kind) = known.ok_or_else(|| {
            format!("the TSIG key's algorithm \"{written}\" is not hmac-sha256, -sha384 or -sha512")
        })?;
        let name = after("key")?.trim_end_matches('.').to_ascii_lowercase();
        name_bytes(&name).map_err(str::to_owned)?;
        let secret = STANDARD.decode(after("secret")?);
        let secret = secret.map_err(|_| "the TSIG key's \"secret\" is no base64".to_owned())?;
        let secret = Zeroizing::new(secret);
        Ok(TsigKey {
            name,
            algorithm,
            key: hmac::Key::new(*kind, &secret),
        })
    }

    /// Signs a message, and returns the signature.
    ///
    /// # Errors
    /// When the clock shows a time before 1970.
    pub(super) fn sign(
        &self,
        message: &mut Vec<u8>,
        id: u16,
        now_s: i64,
    ) -> Result<Vec<u8>, &'static str> {
        let time = time_bytes(now_s)?;
        let mut signed = message.clone();
        signed.extend(self.variables(&time, FUDGE_S, 0, &[])?);
        let mac = hmac::sign(&self.key, &signed).as_ref().to_vec();
        let mut data = name_bytes(self.algorithm)?;
        data.extend(time);
        data.extend(FUDGE_S.to_be_bytes());
        data.extend(length(&mac).to_be_bytes());
        data.extend(&mac);
        data.extend(id.to_be_bytes());
        data.extend([0; 4]); // no error, no other data
        message.extend(name_bytes(&self.name)?);
        message.extend(TYPE_TSIG.to_be_bytes());
        message.extend(CLASS_ANY.to_be_bytes());
        message.extend([0; 4]);
        message.extend(length(&data).to_be_bytes());
        message.extend(data);
        let count = number(message, ADDITIONAL_COUNT_AT) + 1;
        message[ADDITIONAL_COUNT_AT..HEAD_BYTES].copy_from_slice(&count.to_be_bytes());
        Ok(mac)
    }

    /// Checks the signature of the answer to a message with signature `request_mac`.
    ///
    /// # Errors
    /// Why it is not to be believed.
    pub(super) fn verify(
        &self,
        message: &[u8],
        request_mac: &[u8],
        now_s: i64,
    ) -> Result<(), &'static str> {
        const UNSIGNED: &str = "the server's answer is not signed: it does not know the TSIG key";
        let mut reader = Reader::new(message);
        reader.head(number(message, 0))?;
        let counts = [4, 6, 8, 10].map(|at| number(message, at));
        reader.skip_questions(counts[0])?;
        let records = counts[1..]
            .iter()
            .map(|count| u32::from(*count))
            .sum::<u32>();
        let mut last = None;
        for _ in 0..records {
            last = Some(reader.record()?);
        }
        let record = last
            .filter(|record| record.kind == TYPE_TSIG)
            .ok_or(UNSIGNED)?;
        let mut data = Reader::new(record.data);
        data.name()?;
        let rest = data.rest();
        let (Some(time), fudge, size) = (rest.get(..6), number(rest, 6), number(rest, 8)) else {
            return Err(UNSIGNED);
        };
        let end = 10 + usize::from(size);
        let (Some(mac), Some(tail)) = (rest.get(10..end), rest.get(end..)) else {
            return Err(UNSIGNED);
        };
        let (error, other) = (number(tail, 2), tail.get(6..).unwrap_or_default());
        match error {
            0 => {}
            16 => return Err("the server does not accept the signature (BADSIG)"),
            17 => return Err("the server does not know the TSIG key (BADKEY)"),
            18 => return Err("the server's clock differs too much (BADTIME)"),
            _ => return Err("the server does not accept the signature"),
        }
        let mut signed = length(request_mac).to_be_bytes().to_vec();
        signed.extend(request_mac);
        let mut bare = message[..record.start].to_vec();
        // The identifier that was signed, and one record less.
        bare[..2].copy_from_slice(tail.get(..2).ok_or(UNSIGNED)?);
        let count = number(&bare, ADDITIONAL_COUNT_AT).saturating_sub(1);
        bare[ADDITIONAL_COUNT_AT..HEAD_BYTES].copy_from_slice(&count.to_be_bytes());
        signed.extend(bare);
        signed.extend(self.variables(time, fudge, error, other)?);
        hmac::verify(&self.key, &signed, mac)
            .map_err(|_| "the signature of the server's answer is wrong")?;
        let sent_s = time
            .iter()
            .fold(0_i64, |sum, byte| sum << 8 | i64::from(*byte));
        match (now_s - sent_s).abs() > i64::from(fudge) {
            true => Err("the server's answer is old, or its clock differs too much"),
            false => Ok(()),
        }
    }

    fn variables(
        &self,
        time: &[u8],
        fudge_s: u16,
        error: u16,
        other: &[u8],
    ) -> Result<Vec<u8>, &'static str> {
        let mut bytes = name_bytes(&self.name)?;
        bytes.extend(CLASS_ANY.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(name_bytes(self.algorithm)?);
        bytes.extend(time);
        bytes.extend(fudge_s.to_be_bytes());
        bytes.extend(error.to_be_bytes());
        bytes.extend(length(other).to_be_bytes());
        bytes.extend(other);
        Ok(bytes)
    }
}

fn length(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// A time in 48 bits.
fn time_bytes(now_s: i64) -> Result<[u8; 6], &'static str> {
    let seconds = u64::try_from(now_s).map_err(|_| "the clock is wrong")?;
    let bytes = seconds.to_be_bytes();
    let (_, low) = bytes.split_at(2);
    low.try_into().map_err(|_| "the clock is wrong")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# from tsig-keygen\nkey \"Update.Test.\" {\n\talgorithm hmac-sha256;\n\t\
                        secret \"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0\";\n};\n";

    #[test]
    fn files_of_bind_are_read() {
        let key = TsigKey::parse(FILE.as_bytes()).expect("a key");
        assert_eq!(
            (key.name.as_str(), key.algorithm),
            ("update.test", "hmac-sha256")
        );
        assert_eq!(format!("{key:?}"), "TsigKey(update.test)");
        for (old, new) in [
            ("hmac-sha256", "hmac-md5"),
            ("secret", "other"),
            ("cmV0\"", "cmV\""),
            ("algorithm", "a"),
        ] {
            assert!(
                TsigKey::parse(FILE.replace(old, new).as_bytes()).is_err(),
                "{new}"
            );
        }
    }

    /// An answer signed as a server does it.
    fn answer(key: &TsigKey, request_mac: &[u8], now_s: i64) -> Vec<u8> {
        let mut message = b"\0\x07\xa8\0\0\0\0\0\0\0\0\0".to_vec();
        let time = time_bytes(now_s).expect("after 1970");
        let mut signed = length(request_mac).to_be_bytes().to_vec();
        signed.extend(request_mac);
        signed.extend(&message);
        signed.extend(key.variables(&time, FUDGE_S, 0, &[]).expect("short"));
        let mac = hmac::sign(&key.key, &signed);
        key.sign(&mut message, 7, now_s).expect("after 1970");
        let at = message.len() - 6 - mac.as_ref().len();
        message[at..at + mac.as_ref().len()].copy_from_slice(mac.as_ref());
        message
    }

    #[test]
    fn answers_are_believed_if_the_key_has_signed_them() {
        let key = TsigKey::parse(FILE.as_bytes()).expect("a key");
        let good = answer(&key, b"mac", 1000);
        assert_eq!(key.verify(&good, b"mac", 1100), Ok(()));
        assert!(key.verify(&good, b"mac", 2000).is_err(), "too old");
        assert!(key.verify(&good, b"other", 1000).is_err());
        for at in 2..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            // The name of the algorithm is not looked at, and is not what decides.
            if key.verify(&changed, b"mac", 1100).is_ok() {
                let name = at >= HEAD_BYTES;
                assert!(name, "byte {at} is signed");
            }
        }
        assert!(
            key.verify(b"\0\x07\xa8\0\0\0\0\0\0\0\0\0", b"mac", 1000)
                .is_err()
        );
    }
}
