//! The file that keeps purges until what they concern has left the disk: `temp/purges` in the
//! directory of the cache.
//!
//! nginx's cache loader removes every file that is no response, but leaves a directory of this name
//! alone.
//!
//! ```text
//! "sealane purges 1" | sum, 4 bytes | sum, 4 | length, 4 | kind, 1 | time, 8 | text | sum ...
//! ```
//!
//! Numbers are little-endian. The sums are CRC-32: of the four numbers that follow, and of the
//! text, which has this length. A purge is answered once its record is on the disk, so an
//! incomplete record at the end belongs to a purge that nobody was told of.

use super::rules::{Mark, Rule};
use crate::key::Hash;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The directory in that of the cache, and the file in it.
const DIRECTORY: &str = "temp";
const NAME: &str = "purges";
/// What is written before it takes the place of the file.
const NEW_NAME: &str = "purges.new";

/// Whoever runs the server reads it, as the responses themselves.
const MODE: u32 = 0o600;

/// The first bytes of the file.
const MAGIC: &[u8; 16] = b"sealane purges 1";
/// A record without its text.
const RECORD_BYTES: usize = 4 + 4 + 4 + 1 + 8;

const KIND_KEY: u8 = 0;
const KIND_PREFIX: u8 = 1;
const KIND_TAG: u8 = 2;

/// The file is written anew when it has more than so many records for each rule, and some more.
const MAX_RECORDS_PER_RULE: usize = 2;
const SPARE_RECORDS: usize = 1000;

/// A file that is longer than that was not written by us.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Long texts count for more than one rule: once more for each so many bytes.
const BYTES_PER_RULE: usize = 256;

/// An operation on a file that has failed.
#[derive(Debug)]
pub struct FileFailure {
    /// The system call, as nginx names it.
    pub call: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

/// What a file says.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    records: Vec<(Rule, i64)>,
    /// How much of it that is.
    bytes: usize,
    /// Behind that there is something that was never a record: others may be lost.
    is_damaged: bool,
}

/// Every rule in force, with its record.
#[derive(Debug)]
pub(super) struct Book {
    directory: PathBuf,
    /// In the order of their generations.
    rules: BTreeMap<u64, (Rule, i64)>,
    generations: HashMap<Rule, u64>,
    cost: usize,
    /// Records in the file, and the file as it was when this process looked last.
    records: usize,
    seen: Option<(u64, u64)>,
}

impl Book {
    /// The book of a cache's directory, which has not been read yet.
    pub(super) fn new(cache: &Path) -> Book {
        Book {
            directory: cache.join(DIRECTORY),
            rules: BTreeMap::new(),
            generations: HashMap::new(),
            cost: 0,
            records: 0,
            seen: None,
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    /// How much of the limit on rules is used.
    pub(super) fn cost(&self) -> usize {
        self.cost
    }

    /// How much these would add to that.
    pub(super) fn added_cost(&self, rules: &[Rule]) -> usize {
        let new = rules
            .iter()
            .filter(|rule| !self.generations.contains_key(rule));
        new.map(cost).sum()
    }

    /// When the oldest rule was recorded.
    pub(super) fn oldest_s(&self) -> Option<i64> {
        let (_, (_, time_s)) = self.rules.first_key_value()?;
        Some(*time_s)
    }

    /// Notes a rule that is in force from now on. The file does not have it yet.
    pub(super) fn note(&mut self, rule: Rule, mark: Mark) {
        match self.generations.insert(rule.clone(), mark.generation) {
            None => self.cost += cost(&rule),
            Some(before) => drop(self.rules.remove(&before)),
        }
        self.rules.insert(mark.generation, (rule, mark.time_s));
    }

    /// Takes out all rules up to a generation.
    pub(super) fn take_until(&mut self, generation: u64) -> Vec<(u64, Rule)> {
        let mut taken = Vec::new();
        while let Some(first) = self.rules.first_entry()
            && *first.key() <= generation
        {
            let (generation, (rule, _)) = first.remove_entry();
            self.generations.remove(&rule);
            self.cost -= cost(&rule);
            taken.push((generation, rule));
        }
        taken
    }

    /// Adds records to the file, and waits until they are on the disk.
    pub(super) fn append(&mut self, rules: &[Rule], time_s: i64) -> Result<(), FileFailure> {
        if self.records > self.generations.len() * MAX_RECORDS_PER_RULE + SPARE_RECORDS {
            return self.rewrite();
        }
        let path = self.path();
        let failed = |call| {
            let path = path.clone();
            move |error| FileFailure { call, path, error }
        };
        self.make_directory()?;
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).mode(MODE).open(&path);
        let mut file = opened.map_err(failed("open()"))?;
        let before = file.metadata().map_err(failed("fstat()"))?;
        let is_new = before.len() == 0;
        let mut bytes = Vec::new();
        if is_new {
            bytes.extend_from_slice(MAGIC);
        }
        for rule in rules {
            encode(rule, time_s, &mut bytes);
        }
        // Another process may write too, so what is there now is not known unless it was before.
        let was_seen = is_new || self.seen == Some((before.ino(), before.len()));
        file.write_all(&bytes)
            .and_then(|()| file.sync_data())
            .map_err(failed("write()"))?;
        if is_new {
            sync_directory(&self.directory)?;
            // The directory itself may be new.
            sync_directory(self.directory.parent().unwrap_or(&self.directory))?;
        }
        self.records += rules.len();
        if was_seen {
            self.seen = Some((before.ino(), before.len() + bytes.len() as u64));
        }
        Ok(())
    }

    /// The cache's own directory has to be there.
    fn make_directory(&self) -> Result<(), FileFailure> {
        match DirBuilder::new().mode(0o700).create(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(FileFailure {
                call: "mkdir()",
                path: self.directory.clone(),
                error,
            }),
            _ => Ok(()),
        }
    }

    /// Writes all rules anew, and waits until they are on the disk.
    pub(super) fn rewrite(&mut self) -> Result<(), FileFailure> {
        let (path, new) = (self.path(), self.directory.join(NEW_NAME));
        let failed = |call| {
            let path = new.clone();
            move |error| FileFailure { call, path, error }
        };
        let mut bytes = MAGIC.to_vec();
        for (rule, time_s) in self.rules.values() {
            encode(rule, *time_s, &mut bytes);
        }
        self.make_directory()?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(MODE);
        let mut file = options.open(&new).map_err(failed("open()"))?;
        file.write_all(&bytes)
            .and_then(|()| file.sync_data())
            .map_err(failed("write()"))?;
        let written = file.metadata().map_err(failed("fstat()"))?;
        fs::rename(&new, &path).map_err(failed("rename()"))?;
        sync_directory(&self.directory)?;
        self.records = self.generations.len();
        self.seen = Some((written.ino(), written.len()));
        Ok(())
    }

    /// Reads what is in the file and was not there when this process looked last: rules with their
    /// times, and whether the file is damaged.
    pub(super) fn read_news(&mut self) -> Result<(Vec<(Rule, i64)>, bool), FileFailure> {
        let path = self.path();
        let failed = |call| {
            let path = path.clone();
            move |error| FileFailure { call, path, error }
        };
        let none = (Vec::new(), false);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(none),
            Err(error) => return Err(failed("open()")(error)),
        };
        let facts = file.metadata().map_err(failed("fstat()"))?;
        if self.seen == Some((facts.ino(), facts.len())) {
            return Ok(none);
        }
        let mut bytes = Vec::new();
        let mut limited = file.take(MAX_FILE_BYTES);
        limited.read_to_end(&mut bytes).map_err(failed("read()"))?;
        let contents = decode(&bytes);
        self.records = contents.records.len();
        self.seen = Some((facts.ino(), facts.len()));
        let is_whole = contents.bytes == bytes.len();
        // Of a rule only the newest record counts.
        let mut newest: HashMap<Rule, i64> = HashMap::new();
        for (rule, time_s) in contents.records {
            let own = newest.entry(rule).or_insert(time_s);
            *own = time_s.max(*own);
        }
        let known_s = |rule: &Rule| Some(self.rules.get(self.generations.get(rule)?)?.1);
        newest.retain(|rule, time_s| known_s(rule).is_none_or(|known_s| known_s < *time_s));
        if !is_whole {
            // Records that are added behind what is incomplete would be lost.
            self.records = usize::MAX;
        }
        let mut newest: Vec<_> = newest.into_iter().collect();
        newest.sort_by_key(|(_, time_s)| *time_s);
        Ok((newest, contents.is_damaged))
    }

    /// Whether records can be added to the file as it is.
    pub(super) fn wants_rewriting(&self) -> bool {
        self.records == usize::MAX
    }
}

fn cost(rule: &Rule) -> usize {
    match rule {
        Rule::Key(_) => 1,
        Rule::Prefix(text) | Rule::Tag(text) => 1 + text.len() / BYTES_PER_RULE,
    }
}

/// There is no such file, or no directory that it could be in.
fn is_missing(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Waits until the names in a directory are on the disk.
pub(super) fn sync_directory(path: &Path) -> Result<(), FileFailure> {
    let failed = |call| {
        move |error| FileFailure {
            call,
            path: path.to_owned(),
            error,
        }
    };
    let directory = File::open(path).map_err(failed("open()"))?;
    directory.sync_all().map_err(failed("fsync()"))
}

fn encode(rule: &Rule, time_s: i64, out: &mut Vec<u8>) {
    let (kind, text): (u8, &[u8]) = match rule {
        Rule::Key(hash) => (KIND_KEY, hash),
        Rule::Prefix(prefix) => (KIND_PREFIX, prefix),
        Rule::Tag(tag) => (KIND_TAG, tag),
    };
    let mut fixed = Vec::with_capacity(RECORD_BYTES);
    fixed.extend_from_slice(&crc32fast::hash(text).to_le_bytes());
    // Keys and tags are limited to far fewer bytes.
    fixed.extend_from_slice(&(text.len() as u32).to_le_bytes());
    fixed.push(kind);
    fixed.extend_from_slice(&time_s.to_le_bytes());
    out.extend_from_slice(&crc32fast::hash(&fixed).to_le_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(text);
}

fn decode(bytes: &[u8]) -> Contents {
    let mut contents = Contents {
        records: Vec::new(),
        bytes: 0,
        is_damaged: false,
    };
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        contents.is_damaged = !MAGIC.starts_with(bytes);
        return contents;
    };
    contents.bytes = MAGIC.len();
    while let Some((fixed, more)) = rest.split_first_chunk::<RECORD_BYTES>() {
        let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| fixed[at + byte]));
        if crc32fast::hash(&fixed[4..]) != number(0) {
            contents.is_damaged = true;
            break;
        }
        let Some(text) = more.get(..number(8) as usize) else {
            break;
        };
        let time_s = i64::from_le_bytes(std::array::from_fn(|byte| fixed[13 + byte]));
        let rule = match fixed[12] {
            KIND_KEY => Hash::try_from(text).ok().map(Rule::Key),
            KIND_PREFIX => Some(Rule::Prefix(text.into())),
            KIND_TAG => Some(Rule::Tag(text.into())),
            _ => None,
        };
        let Some(rule) = rule.filter(|_| crc32fast::hash(text) == number(4)) else {
            contents.is_damaged = true;
            break;
        };
        contents.bytes += RECORD_BYTES + text.len();
        rest = &more[text.len()..];
        contents.records.push((rule, time_s));
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<(Rule, i64)>, Vec<u8>) {
        let records = vec![
            (Rule::Key([7; 16]), 5),
            (Rule::Prefix(b"/a\n\0".as_slice().into()), -1),
            (Rule::Tag(Box::default()), i64::MAX),
        ];
        let mut bytes = MAGIC.to_vec();
        for (rule, time_s) in &records {
            encode(rule, *time_s, &mut bytes);
        }
        (records, bytes)
    }

    #[test]
    fn what_is_written_is_read() {
        let (records, bytes) = sample();
        let contents = decode(&bytes);
        assert_eq!(contents.records, records);
        assert!(contents.bytes == bytes.len() && !contents.is_damaged);
    }

    #[test]
    fn what_was_cut_is_not_damaged() {
        let (records, bytes) = sample();
        for cut in 0..bytes.len() {
            let contents = decode(&bytes[..cut]);
            assert!(!contents.is_damaged, "{cut}");
            assert!(records.starts_with(&contents.records), "{cut}");
        }
    }

    #[test]
    fn damage_is_found_out() {
        let (_, bytes) = sample();
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            assert!(decode(&bytes).is_damaged, "{at}");
        }
        let zeros = [&bytes[..], &[0; 100]].concat();
        let contents = decode(&zeros);
        assert!(contents.is_damaged && contents.records.len() == 3);
    }

    #[test]
    fn the_newest_mark_of_a_rule_counts() {
        let mut book = Book::new(Path::new("/nowhere"));
        let tag = |text: &[u8]| Rule::Tag(text.into());
        for (generation, text) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            let time_s = generation as i64 * 10;
            book.note(tag(text), Mark { generation, time_s });
        }
        assert_eq!((book.cost(), book.oldest_s()), (3, Some(10)));
        assert_eq!(book.added_cost(&[tag(b"a"), tag(&[b'x'; 600])]), 3);
        let mark = Mark {
            generation: 4,
            time_s: 40,
        };
        book.note(tag(b"a"), mark);
        assert_eq!(book.cost(), 3);
        assert_eq!(book.take_until(3), [(2, tag(b"b")), (3, tag(b"c"))]);
        assert_eq!((book.cost(), book.oldest_s()), (1, Some(40)));
        assert_eq!(book.take_until(9), [(4, tag(b"a"))]);
        assert_eq!((book.cost(), book.oldest_s()), (0, None));
    }
}
