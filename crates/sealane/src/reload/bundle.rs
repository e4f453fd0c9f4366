//! A configuration on its way from the master to the worker process: options, texts and the
//! content of the files that it names, in memory that only the master can write.
//!
//! ```text
//! "SLRB" | version 5 | threads | options | records | files | handles of keys
//! ```
//!
//! Numbers are four bytes, little-endian; texts and lists begin with their length. Both
//! ends run the same binary, so the version only guards against a replaced one.

use super::records::{Failed, Record, Records};
use sealane_conf::Options;
use sealane_server::{KeyFile, Materials};
use sealane_sys::file;
use sealane_sys::sealed_memory::SealedMemory;
use sealane_tls::KeyHandle;
use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const MAGIC: &[u8; 4] = b"SLRB";
const VERSION: u8 = 5;

/// Largest bundle, in bytes: ten thousand servers with certificates of their own take 100 MiB.
const MAX_BUNDLE_BYTES: u64 = 1 << 30;

/// What is handed over.
pub(crate) struct Bundle {
    /// Worker threads, on which the worker must agree.
    pub(crate) threads: u32,
    /// Where and as whom the configuration was read.
    pub(crate) options: Options,
    /// What was read.
    pub(crate) records: Records,
    /// The content of files that it names.
    pub(crate) files: Vec<(PathBuf, Zeroizing<Vec<u8>>)>,
    /// Keys that the key process holds.
    pub(crate) keys: Vec<(KeyFile, KeyHandle)>,
}

/// Writes a bundle into memory for another process.
///
/// # Errors
/// When there is no such memory, or the bundle is too large.
pub(crate) fn seal(
    threads: u32,
    options: &Options,
    records: &Records,
    materials: &Materials,
) -> io::Result<SealedMemory> {
    let mut size = Size(0);
    write(&mut size, threads, options, records, materials);
    if size.0 as u64 > MAX_BUNDLE_BYTES {
        return Err(io::Error::other(format!(
            "a configuration of {} bytes with its certificates is too large to be passed on",
            size.0
        )));
    }
    SealedMemory::new(size.0, |memory| {
        let mut rest = Rest(memory);
        write(&mut rest, threads, options, records, materials);
    })
}

/// Parses a bundle from memory that the master has written.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn open(memory: OwnedFd) -> Result<Bundle, String> {
    let memory = std::fs::File::from(memory);
    let bytes = read(&memory).map_err(|error| format!("it cannot be read ({error})"))?;
    parse(&bytes).ok_or_else(|| "it is damaged or was written by another version".to_owned())
}

fn read(memory: &std::fs::File) -> io::Result<Zeroizing<Vec<u8>>> {
    let size = memory.metadata()?.len();
    if size > MAX_BUNDLE_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let size = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = Zeroizing::default();
    file::read_exact_at(memory.as_fd(), &mut bytes, size, 0)?;
    Ok(bytes)
}

/// Where a bundle is written: twice, the first time to learn its size.
trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn number(&mut self, number: usize) {
        let number = u32::try_from(number).expect("less than the largest bundle");
        self.put(&number.to_le_bytes());
    }

    fn text(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.put(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.text(path.as_os_str().as_bytes());
    }
}

struct Size(usize);

impl Sink for Size {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

struct Rest<'a>(&'a mut [u8]);

impl Sink for Rest<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        here.copy_from_slice(bytes);
        self.0 = rest;
    }
}

fn write(
    to: &mut impl Sink,
    threads: u32,
    options: &Options,
    records: &Records,
    materials: &Materials,
) {
    to.put(MAGIC);
    to.put(&[VERSION]);
    to.put(&threads.to_le_bytes());
    for path in [
        &options.conf_path,
        &options.prefix,
        &options.error_log,
        &options.access_log,
        &options.pid,
        &options.temp,
    ] {
        to.path(path);
    }
    to.put(&[u8::from(options.globals.is_some())]);
    to.text(options.globals.as_deref().unwrap_or_default().as_bytes());
    to.put(&[u8::from(options.privileged)]);
    to.text(options.hostname.as_bytes());
    to.put(&[u8::from(options.adds_control_server)]);
    to.number(records.all.len());
    for record in &records.all {
        write_record(to, record);
    }
    to.number(materials.files().count());
    for (path, content) in materials.files() {
        to.path(path);
        to.text(content);
    }
    to.number(materials.keys().count());
    for (file, handle) in materials.keys() {
        to.path(&file.path);
        to.put(&[u8::from(file.passwords.is_some())]);
        if let Some(passwords) = &file.passwords {
            to.path(passwords);
        }
        to.put(&[u8::from(file.device.is_some())]);
        if let Some(device) = &file.device {
            to.text(device.as_bytes());
        }
        to.text(&handle.to_bytes());
    }
}

const READ: u8 = b'r';
const GLOB: u8 = b'g';
const RESOLVE: u8 = b'n';

fn write_record(to: &mut impl Sink, record: &Record) {
    match record {
        Record::Read(path, answer) => {
            to.put(&[READ]);
            to.path(path);
            write_answer(to, answer, |to, content| to.text(content));
        }
        Record::Glob(pattern, answer) => {
            to.put(&[GLOB]);
            to.text(pattern.as_bytes());
            write_answer(to, answer, |to, paths| {
                to.number(paths.len());
                paths.iter().for_each(|path| to.path(path));
            });
        }
        Record::Resolve(host, answer) => {
            to.put(&[RESOLVE]);
            to.text(host.as_bytes());
            write_answer(to, answer, |to, addresses| {
                to.number(addresses.len());
                for address in addresses {
                    to.text(address.to_string().as_bytes());
                }
            });
        }
    }
}

fn write_answer<S: Sink, T>(to: &mut S, answer: &Result<T, Failed>, good: impl FnOnce(&mut S, &T)) {
    match answer {
        Ok(answer) => {
            to.put(&[1]);
            good(to, answer);
        }
        Err(failed) => {
            to.put(&[0]);
            to.put(&failed.code.unwrap_or(0).to_le_bytes());
            to.text(failed.text.as_bytes());
        }
    }
}

/// `None` if [`write()`] did not write these bytes.
fn parse(bytes: &[u8]) -> Option<Bundle> {
    let mut from = Source(bytes);
    if from.take(MAGIC.len())? != MAGIC || from.take(1)? != [VERSION] {
        return None;
    }
    let threads = u32::try_from(from.number()?).ok()?;
    let (conf_path, prefix) = (from.path()?, from.path()?);
    let (error_log, access_log) = (from.path()?, from.path()?);
    let (pid, temp) = (from.path()?, from.path()?);
    let (has_globals, globals) = (from.flag()?, from.string()?);
    let options = Options {
        error_log,
        access_log,
        pid,
        temp,
        globals: has_globals.then_some(globals),
        privileged: from.flag()?,
        hostname: from.string()?,
        adds_control_server: from.flag()?,
        ..Options::new(conf_path, prefix)
    };
    let all = from.list(Source::record)?;
    let file = |from: &mut Source<'_>| {
        let path = from.path()?;
        Some((path, Zeroizing::new(from.text()?.to_vec())))
    };
    let files = from.list(file)?;
    let key = |from: &mut Source<'_>| {
        let path = from.path()?;
        let passwords = match from.flag()? {
            true => Some(from.path()?),
            false => None,
        };
        let device = match from.flag()? {
            true => Some(from.string()?),
            false => None,
        };
        let handle = KeyHandle::from_bytes(from.text()?)?;
        let file = KeyFile {
            path,
            passwords,
            device,
        };
        Some((file, handle))
    };
    let keys = from.list(key)?;
    from.0.is_empty().then_some(Bundle {
        threads,
        options,
        records: Records { all },
        files,
        keys,
    })
}

/// The part of a bundle that was not read yet.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    fn number(&mut self) -> Option<usize> {
        let (number, left) = self.0.split_first_chunk()?;
        self.0 = left;
        usize::try_from(u32::from_le_bytes(*number)).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.take(1)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(length)
    }

    fn string(&mut self) -> Option<String> {
        String::from_utf8(self.text()?.to_vec()).ok()
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(OsStr::from_bytes(self.text()?).into())
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.number()?;
        // No room is taken in advance for what a damaged length promises.
        (0..count).map(|_| one(self)).collect()
    }

    fn record(&mut self) -> Option<Record> {
        match self.take(1)? {
            [READ] => {
                let path = self.path()?;
                let answer = self.answer(|from| Some(from.text()?.to_vec()))?;
                Some(Record::Read(path, answer))
            }
            [GLOB] => {
                let pattern = self.string()?;
                let answer = self.answer(|from| from.list(Source::path))?;
                Some(Record::Glob(pattern, answer))
            }
            [RESOLVE] => {
                let host = self.string()?;
                let address = |from: &mut Self| from.string()?.parse::<IpAddr>().ok();
                let answer = self.answer(|from| from.list(address))?;
                Some(Record::Resolve(host, answer))
            }
            _ => None,
        }
    }

    fn answer<T>(
        &mut self,
        good: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Result<T, Failed>> {
        if self.flag()? {
            return Some(Ok(good(self)?));
        }
        let (code, left) = self.0.split_first_chunk()?;
        self.0 = left;
        let code = i32::from_le_bytes(*code);
        Some(Err(Failed {
            code: (code != 0).then_some(code),
            text: self.string()?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let failed = |code| Failed {
            code,
            text: "why".into(),
        };
        let all = vec![
            Record::Read("/a".into(), Ok(b"text".to_vec())),
            Record::Read("/b".into(), Err(failed(Some(2)))),
            Record::Glob("/*".into(), Ok(vec!["/a".into(), "/b".into()])),
            Record::Glob("/x".into(), Err(failed(None))),
            Record::Resolve("h".into(), Ok(vec!["::1".parse().expect("an address")])),
            Record::Resolve("i".into(), Err(failed(None))),
        ];
        Records { all }
    }

    fn sealed() -> SealedMemory {
        let mut materials = Materials::new();
        materials.insert("/key.pem".into(), b"a key".to_vec());
        let options = Options {
            globals: Some("daemon off;".into()),
            privileged: false,
            hostname: "host".into(),
            temp: "/srv/temp".into(),
            ..Options::new("/etc/nginx.conf", "/srv")
        };
        seal(3, &options, &records(), &materials).expect("memory")
    }

    fn bytes() -> Vec<u8> {
        let memory = sealed().as_fd().try_clone_to_owned().expect("a descriptor");
        // The original is gone, and with it what it held.
        assert!(open(memory).is_err());
        let memory = sealed();
        let file = std::fs::File::from(memory.as_fd().try_clone_to_owned().expect("one"));
        read(&file).expect("readable").to_vec()
    }

    #[test]
    fn what_is_sealed_is_opened_as_it_was() {
        let memory = sealed();
        let found = open(memory.as_fd().try_clone_to_owned().expect("a descriptor"))
            .expect("what was written");
        assert_eq!(found.threads, 3);
        assert_eq!(found.records, records());
        let options = &found.options;
        assert_eq!(options.conf_path, Path::new("/etc/nginx.conf"));
        assert_eq!(options.prefix, Path::new("/srv"));
        assert_eq!(options.pid, Path::new("/srv/logs/sealane.pid"));
        assert_eq!(options.temp, Path::new("/srv/temp"));
        assert_eq!(options.globals.as_deref(), Some("daemon off;"));
        assert_eq!((options.privileged, &*options.hostname), (false, "host"));
        let [(path, content)] = &found.files[..] else {
            panic!("one file");
        };
        assert_eq!(
            (path.as_path(), content.as_slice()),
            (Path::new("/key.pem"), &b"a key"[..])
        );
    }

    #[test]
    fn damage_is_found_and_never_a_panic() {
        let good = bytes();
        assert!(parse(&good).is_some());
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_none(), "cut at {length}");
        }
        for at in 0..good.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] ^= flip;
                let _ = parse(&changed); // whatever it is, no panic
            }
        }
        let mut longer = good;
        longer.push(0);
        assert!(parse(&longer).is_none());
    }
}
