//! `ssl_stapling_state`: staples that outlive the process that fetched them.
//!
//! The worker reports each new staple to the master, which keeps it without parsing it: for the
//! next worker process, for a new binary, and in the file. Whoever gets them checks each again.
//!
//! ```text
//! "SLOS" | version 1 | count (4) | count x [ id (32) | length (4) | response ]
//! ```

use sealane_server::StapleTask;
use sealane_sys::sealed_memory::SealedMemory;
use sealane_tls::{MAX_OCSP_RESPONSE_BYTES, StapleId};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

const MAGIC: &[u8; 4] = b"SLOS";
const VERSION: u8 = 1;

/// All staples together, in bytes: some seven thousand, and less than is read of a file. Beyond
/// that the oldest are forgotten.
const MAX_KEPT_BYTES: usize = 15 << 20;

/// Of one, beside the response.
const OVERHEAD_BYTES: usize = 32 + 4;

/// Responses by what they are about.
#[derive(Default)]
pub(crate) struct KeptStaples {
    kept: HashMap<[u8; 32], Entry>,
    bytes: usize,
    /// Of the newest.
    serial: u64,
}

struct Entry {
    serial: u64,
    response: Vec<u8>,
}

impl KeptStaples {
    /// A newer response.
    pub(crate) fn set(&mut self, id: StapleId, response: Vec<u8>) {
        if response.len() > MAX_OCSP_RESPONSE_BYTES {
            return;
        }
        self.serial += 1;
        self.bytes += OVERHEAD_BYTES + response.len();
        let serial = self.serial;
        if let Some(old) = self.kept.insert(id.0, Entry { serial, response }) {
            self.bytes -= OVERHEAD_BYTES + old.response.len();
        }
        while self.bytes > MAX_KEPT_BYTES {
            let oldest = self.kept.iter().min_by_key(|(_, entry)| entry.serial);
            let Some(oldest) = oldest.map(|(id, _)| *id) else {
                return;
            };
            if let Some(gone) = self.kept.remove(&oldest) {
                self.bytes -= OVERHEAD_BYTES + gone.response.len();
            }
        }
    }

    /// Gives certificates without a staple the one that is kept, if it is still good.
    pub(crate) fn give(&self, tasks: &[StapleTask]) {
        for task in tasks {
            let certificate = &task.certificate;
            if certificate.newest().is_none()
                && let Some(entry) = self.kept.get(&certificate.id().0)
            {
                // It may be out of date by now: then a responder is asked.
                let _ = certificate.take(&entry.response);
            }
        }
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them, the oldest first.
    pub(crate) fn pack(&self) -> Vec<u8> {
        let mut entries: Vec<_> = self.kept.iter().collect();
        entries.sort_by_key(|(_, entry)| entry.serial);
        let mut bytes = Vec::with_capacity(MAGIC.len() + 5 + self.bytes);
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&length(entries.len()));
        for (id, entry) in entries {
            bytes.extend_from_slice(id);
            bytes.extend_from_slice(&length(entry.response.len()));
            bytes.extend_from_slice(&entry.response);
        }
        bytes
    }

    /// What [`KeptStaples::pack`] has written; `Err` describes the fault.
    pub(crate) fn unpack(bytes: &[u8]) -> Result<KeptStaples, &'static str> {
        const CUT: &str = "it ends too soon";
        let rest = bytes.strip_prefix(MAGIC).ok_or("it is no such file")?;
        let ([version], rest) = rest.split_first_chunk().ok_or(CUT)?;
        if *version != VERSION {
            return Err("another version wrote it");
        }
        let (count, mut rest) = rest.split_first_chunk().ok_or(CUT)?;
        let mut staples = KeptStaples::default();
        for _ in 0..u32::from_be_bytes(*count) {
            let (id, tail) = rest.split_first_chunk::<32>().ok_or(CUT)?;
            let (length, tail) = tail.split_first_chunk().ok_or(CUT)?;
            let length = u32::from_be_bytes(*length) as usize;
            let (response, tail) = tail.split_at_checked(length).ok_or(CUT)?;
            staples.set(StapleId(*id), response.to_vec());
            rest = tail;
        }
        match rest {
            [] => Ok(staples),
            _ => Err("something follows its end"),
        }
    }

    /// All of them in memory for another process.
    ///
    /// # Errors
    /// When there is no such memory.
    pub(crate) fn seal(&self) -> io::Result<SealedMemory> {
        let bytes = self.pack();
        SealedMemory::new(bytes.len(), |memory| memory.copy_from_slice(&bytes))
    }

    /// Reads memory that another process has written; `Err` describes the fault.
    pub(crate) fn open(memory: OwnedFd) -> Result<KeptStaples, String> {
        let mut bytes = Vec::new();
        let most = 2 * MAX_KEPT_BYTES as u64;
        let read = File::from(memory).take(most).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        KeptStaples::unpack(&bytes).map_err(str::to_owned)
    }
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_packed_comes_out_again_and_nothing_else_does() {
        let mut staples = KeptStaples::default();
        staples.set(StapleId([1; 32]), vec![7; 100]);
        staples.set(StapleId([2; 32]), vec![8; 200]);
        staples.set(StapleId([1; 32]), vec![9; 50]);
        let bytes = staples.pack();
        let again = KeptStaples::unpack(&bytes).expect("as packed");
        assert_eq!((again.pack(), again.kept.len()), (bytes.clone(), 2));
        assert_eq!(again.bytes, 2 * OVERHEAD_BYTES + 250);
        for length in 0..bytes.len() {
            assert!(KeptStaples::unpack(&bytes[..length]).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            let _ = KeptStaples::unpack(&changed); // whatever it is, no panic
        }
        assert!(KeptStaples::unpack(&[&bytes[..], b"x"].concat()).is_err());
        let memory = staples.seal().expect("memory");
        let theirs = memory.as_fd().try_clone_to_owned().expect("a copy");
        let read = KeptStaples::open(theirs).expect("as written");
        assert_eq!(read.pack(), bytes);
    }

    #[test]
    fn no_more_are_kept_than_fit() {
        let mut staples = KeptStaples::default();
        let response = vec![0; MAX_OCSP_RESPONSE_BYTES];
        for number in 0..=MAX_KEPT_BYTES / MAX_OCSP_RESPONSE_BYTES {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&number.to_be_bytes());
            staples.set(StapleId(id), response.clone());
        }
        assert!(staples.bytes <= MAX_KEPT_BYTES);
        assert!(!staples.kept.contains_key(&[0; 32]), "the oldest has left");
        staples.set(StapleId([9; 32]), vec![0; MAX_OCSP_RESPONSE_BYTES + 1]);
        assert!(!staples.kept.contains_key(&[9; 32]), "too long");
    }
}
