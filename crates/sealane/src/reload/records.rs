//! Reading a configuration once and parsing it twice: the master reads files and asks the
//! resolver, and the worker, which may do neither, gets the same answers.

use sealane_conf::Loader;
use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A question of the parser with its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// A file and its content.
    Read(PathBuf, Result<Vec<u8>, Failed>),
    /// A pattern and the files that match it.
    Glob(String, Result<Vec<PathBuf>, Failed>),
    /// A name and its addresses.
    Resolve(String, Result<Vec<IpAddr>, Failed>),
}

/// An error that the parser got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    /// The system's number, if it was the system's.
    pub(super) code: Option<i32>,
    /// The text otherwise.
    pub(super) text: String,
}

impl From<&io::Error> for Failed {
    fn from(error: &io::Error) -> Failed {
        Failed {
            code: error.raw_os_error(),
            text: error.to_string(),
        }
    }
}

impl From<&Failed> for io::Error {
    fn from(failed: &Failed) -> io::Error {
        match failed.code {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::other(failed.text.clone()),
        }
    }
}

/// Every request of a parser, in order.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Records {
    pub(super) all: Vec<Record>,
}

/// Asks another loader and writes its answers down.
pub(crate) struct RecordingLoader<L> {
    inner: L,
    records: Records,
}

impl<L: Loader> RecordingLoader<L> {
    /// No request was recorded yet.
    pub(crate) fn new(inner: L) -> RecordingLoader<L> {
        RecordingLoader {
            inner,
            records: Records::default(),
        }
    }

    /// The requests, and the other loader.
    pub(crate) fn into_parts(self) -> (Records, L) {
        (self.records, self.inner)
    }

    fn note<T: Clone>(
        &mut self,
        answer: io::Result<T>,
        record: impl FnOnce(Result<T, Failed>) -> Record,
    ) -> io::Result<T> {
        let copy = answer.as_ref().map(T::clone).map_err(Failed::from);
        self.records.all.push(record(copy));
        answer
    }
}

impl<L: Loader> Loader for RecordingLoader<L> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let answer = self.inner.read(path);
        self.note(answer, |answer| Record::Read(path.to_owned(), answer))
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let answer = self.inner.glob(pattern);
        self.note(answer, |answer| Record::Glob(pattern.to_owned(), answer))
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        let answer = self.inner.resolve(host);
        self.note(answer, |answer| Record::Resolve(host.to_owned(), answer))
    }
}

/// Replays the recorded answers, to the same requests in the same order and to no others.
pub(crate) struct ReplayLoader {
    left: VecDeque<Record>,
}

impl ReplayLoader {
    /// Answers from records.
    pub(crate) fn new(records: Records) -> ReplayLoader {
        ReplayLoader {
            left: records.all.into(),
        }
    }

    /// Whether all requests were replayed.
    pub(crate) fn is_finished(&self) -> bool {
        self.left.is_empty()
    }

    fn unknown(what: &dyn std::fmt::Display) -> io::Error {
        io::Error::other(format!("\"{what}\" was not asked for by the master"))
    }
}

impl Loader for ReplayLoader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match self.left.pop_front() {
            Some(Record::Read(known, answer)) if known == path => answer.map_err(|e| (&e).into()),
            _ => Err(Self::unknown(&path.display())),
        }
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        match self.left.pop_front() {
            Some(Record::Glob(known, answer)) if known == pattern => {
                answer.map_err(|e| (&e).into())
            }
            _ => Err(Self::unknown(&pattern)),
        }
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        match self.left.pop_front() {
            Some(Record::Resolve(known, answer)) if known == host => {
                answer.map_err(|e| (&e).into())
            }
            _ => Err(Self::unknown(&host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};

    fn files() -> MemoryLoader {
        let main = "events {} include /conf/*.inc; http { upstream u { server localhost:1; } \
                    server { listen localhost:80; location / { proxy_pass http://u; } } }";
        MemoryLoader::new()
            .with("/conf/nginx.conf", main)
            .with("/conf/a.inc", "worker_processes 3;")
    }

    #[test]
    fn the_second_parser_finds_the_same_without_files() {
        let options = Options::new("/conf/nginx.conf", "/");
        let mut recording = RecordingLoader::new(files());
        let first = sealane_conf::parse(&options, &mut recording).expect("a good one");
        let (records, _) = recording.into_parts();
        let kinds = |wanted: fn(&Record) -> bool| records.all.iter().any(wanted);
        assert!(kinds(|record| matches!(record, Record::Read(..))));
        assert!(kinds(|record| matches!(record, Record::Glob(..))));
        assert!(kinds(|record| matches!(record, Record::Resolve(..))));
        let mut replay = ReplayLoader::new(records);
        let second = sealane_conf::parse(&options, &mut replay).expect("the same");
        assert!(replay.is_finished());
        assert_eq!(format!("{:?}", first.main), format!("{:?}", second.main));
        let [first, second] = [first, second].map(|config| config.http.expect("it has one"));
        for (one, other) in [
            (
                format!("{:?}", first.listeners),
                format!("{:?}", second.listeners),
            ),
            (
                format!("{:?}", first.upstreams),
                format!("{:?}", second.upstreams),
            ),
        ] {
            assert!(one.contains("127.0.0.1") && one == other, "{one}\n{other}");
        }
    }

    #[test]
    fn what_was_not_asked_before_is_an_error() {
        let mut recording = RecordingLoader::new(files());
        recording.read(Path::new("/conf/a.inc")).expect("there");
        let error = recording.read(Path::new("/gone")).expect_err("missing");
        let mut replay = ReplayLoader::new(recording.into_parts().0);
        assert!(replay.read(Path::new("/etc/passwd")).is_err());
        let again = replay.read(Path::new("/gone")).expect_err("as before");
        assert_eq!(again.to_string(), error.to_string());
        assert!(replay.is_finished());
        assert!(replay.glob("/*").is_err() && replay.resolve("localhost").is_err());
    }

    #[test]
    fn errors_of_the_system_keep_their_number() {
        let failed = Failed::from(&io::Error::from_raw_os_error(13));
        assert_eq!(io::Error::from(&failed).raw_os_error(), Some(13));
        let failed = Failed::from(&io::Error::other("other"));
        assert_eq!(io::Error::from(&failed).to_string(), "other");
    }
}
