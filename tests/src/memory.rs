//! Searches for key bytes in the memory of processes and in the files they leave behind.

use crate::command;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes that are to be looked for.
#[derive(Debug, Clone)]
pub struct Secret {
    /// What they are.
    pub name: String,
    /// A part would be enough for whoever finds it.
    pub bytes: Vec<u8>,
}

/// Where a secret was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In anonymous private memory that is not part of core dumps.
    Heap,
    /// In this mapping, as `/proc/PID/maps` has it.
    Elsewhere(String),
}

/// Bytes of a secret that are looked for.
const PART_BYTES: usize = 32;

/// Numbers of a private key by their names in what `openssl pkey -text` prints.
const NUMBERS: [&str; 7] = [
    "privateExponent",
    "prime1",
    "prime2",
    "exponent1",
    "exponent2",
    "coefficient",
    "priv", // of an elliptic curve
];

/// Behind the name of a number that is kept as the library computes with it: little end first.
pub const AS_IN_MEMORY: &str = " as in memory";

impl Secret {
    fn new(name: impl Into<String>, bytes: &[u8]) -> Secret {
        Secret {
            name: name.into(),
            bytes: bytes.to_vec(),
        }
    }

    /// Of a key file: its lines, what they encode, and the numbers of the key, in the order of
    /// files and in that of memory. `label` begins the names.
    #[track_caller]
    pub fn of_key_file(label: &str, path: &Path) -> Vec<Secret> {
        let text = std::fs::read_to_string(path).expect("a key");
        let path = path.display().to_string();
        let mut secrets = Vec::new();
        for (index, line) in text.lines().filter(|line| line.len() == 64).enumerate() {
            secrets.push(Secret::new(
                format!("{label} line {index}"),
                line.as_bytes(),
            ));
        }
        let der = command("openssl", &["pkey", "-in", &path, "-outform", "DER"], b"").success();
        let der = der.stdout;
        // What the public key consists of is no secret: the first half of an RSA key, and what
        // comes behind the number of a curve's.
        let private = if der.len() > 300 {
            der.len() / 2 / PART_BYTES + 1..der.len() / PART_BYTES
        } else {
            1..2
        };
        for index in private {
            let part = &der[index * PART_BYTES..][..PART_BYTES];
            secrets.push(Secret::new(format!("{label} encoded part {index}"), part));
        }
        let printed = command("openssl", &["pkey", "-in", &path, "-noout", "-text"], b"");
        let printed = printed.success().text();
        for name in NUMBERS {
            let Some(number) = number(&printed, name) else {
                continue;
            };
            let little: Vec<u8> = number.iter().rev().copied().collect();
            let name = format!("{label} {name}");
            secrets.push(Secret::new(format!("{name} as in files"), part(&number)));
            secrets.push(Secret::new(format!("{name}{AS_IN_MEMORY}"), part(&little)));
        }
        secrets
    }

    /// The two keys of a file of `ssl_session_ticket_key` with 80 bytes.
    pub fn of_ticket_key(label: &str, file: &[u8; 80]) -> Vec<Secret> {
        vec![
            Secret::new(format!("{label} ticket key 1"), &file[16..48]),
            Secret::new(format!("{label} ticket key 2"), &file[48..]),
        ]
    }
}

fn part(number: &[u8]) -> &[u8] {
    &number[..PART_BYTES.min(number.len())]
}

/// The number with this name, without leading zeros.
fn number(printed: &str, name: &str) -> Option<Vec<u8>> {
    let start = printed
        .lines()
        .position(|line| line.split_once(':').is_some_and(|(found, _)| found == name))?;
    let lines = printed.lines().skip(start + 1);
    let digits: String = lines
        .take_while(|line| line.starts_with(' '))
        .flat_map(str::chars)
        .filter(char::is_ascii_hexdigit)
        .collect();
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal digits")
    });
    Some(bytes.skip_while(|byte| *byte == 0).collect())
}

/// Those of `secrets` that are in `memory`, by name.
pub fn find(secrets: &[Secret], memory: &[u8]) -> BTreeSet<String> {
    let mut starts = vec![false; 1 << 16];
    let two = |bytes: &[u8]| usize::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    for secret in secrets {
        starts[two(&secret.bytes)] = true;
    }
    let mut found = BTreeSet::new();
    for (at, window) in memory.windows(2).enumerate() {
        if starts[two(window)] {
            let here = &memory[at..];
            let here = secrets
                .iter()
                .filter(|secret| here.starts_with(&secret.bytes));
            found.extend(here.map(|secret| secret.name.clone()));
        }
    }
    found
}

/// The first of `secrets` that are in a file, which may be larger than memory.
#[track_caller]
pub fn find_in_file(secrets: &[Secret], path: &Path) -> BTreeSet<String> {
    const PIECE_BYTES: usize = 16 << 20;
    let file = File::open(path).expect("it is there");
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    loop {
        let count = file.read_at(&mut piece, at).expect("it can be read");
        let found = find(secrets, &piece[..count]);
        if !found.is_empty() || count <= PART_BYTES {
            return found;
        }
        // What lies across the end of this piece is in the next one as a whole.
        at += (count - PART_BYTES) as u64;
    }
}

/// Looks through all memory of a process that can be read, whatever it belongs to.
#[track_caller]
pub fn find_in_process(secrets: &[Secret], pid: u32) -> BTreeSet<(String, Place)> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("it runs");
    let memory = File::open(format!("/proc/{pid}/mem")).expect("it may be read");
    let mut found = BTreeSet::new();
    for mapping in mappings(&maps) {
        for bytes in resident(pid, &memory, &mapping) {
            let names = find(secrets, &bytes).into_iter();
            found.extend(names.map(|name| (name, mapping.place.clone())));
        }
    }
    found
}

struct Mapping {
    start: u64,
    end: u64,
    place: Place,
}

/// The readable mappings in the text of `/proc/PID/smaps`.
fn mappings(text: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    let mut is_readable = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let range = words.first().and_then(|word| word.split_once('-'));
        let address = |text| u64::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(a, b)| (address(a), address(b))) {
            is_readable = words[1].starts_with('r');
            if is_readable {
                all.push(Mapping {
                    start,
                    end,
                    place: Place::Elsewhere(line.to_owned()),
                });
            }
        } else if is_readable && words.first() == Some(&"VmFlags:") && words.contains(&"dd") {
            let mapping = all.last_mut().expect("flags follow a mapping");
            if let Place::Elsewhere(line) = &mapping.place
                && line.contains(" rw-p ")
                && line.split_ascii_whitespace().count() == 5
            {
                mapping.place = Place::Heap;
            }
        }
    }
    all
}

/// The contents of pages that have memory, by `/proc/PID/pagemap`; neighbours together.
fn resident(pid: u32, memory: &File, mapping: &Mapping) -> Vec<Vec<u8>> {
    const PAGE: u64 = 4096;
    let map = File::open(format!("/proc/{pid}/pagemap")).expect("it runs");
    let mut runs: Vec<(u64, u64)> = Vec::new();
    let mut entries = vec![0; 8 << 16];
    let mut at = mapping.start / PAGE;
    while at < mapping.end / PAGE {
        let count = ((mapping.end / PAGE - at) as usize).min(1 << 16);
        let entries = &mut entries[..count * 8];
        if map.read_exact_at(entries, at * 8).is_err() {
            break; // the kernel's own pages are beyond the map
        }
        let (words, _) = entries.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            if u64::from_le_bytes(*word) >> 62 == 0 {
                continue; // neither in memory nor swapped out
            }
            let page = at + index as u64;
            match runs.last_mut() {
                Some((_, end)) if *end == page => *end += 1,
                _ => runs.push((page, page + 1)),
            }
        }
        at += count as u64;
    }
    let read = |(start, end): (u64, u64)| {
        let mut bytes = vec![0; ((end - start) * PAGE) as usize];
        // Pages of devices cannot be read, nor those that are gone meanwhile.
        memory.read_exact_at(&mut bytes, start * PAGE).ok()?;
        Some(bytes)
    };
    runs.into_iter().filter_map(read).collect()
}
