//! The parser's input: options and a way to read files.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Everything that reading a configuration needs from outside.
///
/// The parser calls nothing else, so a test or the fuzzer can hand in files
/// that exist in memory only.
pub trait Loader {
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// The operating system's; its text ends up in nginx's message
    /// (`open() "..." failed (2: No such file or directory)`).
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files that match a pattern with `*`, `?` and `[...]` as in `glob(3)`,
    /// sorted. No match is an empty list, not an error.
    ///
    /// # Errors
    ///
    /// When a directory cannot be read.
    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>>;

    /// The addresses of a host named in `listen`, `proxy_pass`, `upstream` and
    /// elsewhere, in the system's order.
    /// Literal addresses never come here.
    ///
    /// # Errors
    ///
    /// When the name does not resolve.
    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The addresses of a host, each once: the system may name one for each kind of
/// socket. Empty when there are none.
pub(crate) fn addresses_of(loader: &mut dyn Loader, host: &str) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for address in loader.resolve(host).unwrap_or_default() {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// Where and as whom a configuration is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The configuration file, absolute (`-c`). Relative names of `include`,
    /// certificates and keys start from its directory, as in nginx.
    pub conf_path: PathBuf,
    /// `-p`: relative names of `root`, logs and the pid file start here.
    pub prefix: PathBuf,
    /// `-g`: directives of the `main` context, each with its `;`.
    pub globals: Option<String>,
    /// `-e`: the error log until, and unless, the configuration names one.
    pub error_log: PathBuf,
    /// The access log of `http` when the configuration names none.
    pub access_log: PathBuf,
    /// The pid file when the configuration names none.
    pub pid: PathBuf,
    /// Directories for temporary files are here when the configuration names none.
    pub temp: PathBuf,
    /// Whether the process has root's privileges: without a `listen` line, a
    /// server listens on port 80, or on 8000 without them.
    pub privileged: bool,
    /// The machine's name, for `server_name $hostname`.
    pub hostname: String,
    /// Whether the configuration gets the server of its `control_socket`. Who only looks at what
    /// is written does without.
    pub adds_control_server: bool,
}

impl Options {
    /// Options for a configuration file below a prefix, with nginx's default
    /// paths (`logs/error.log`, `logs/access.log`, `logs/nginx.pid` become
    /// `logs/sealane.pid`), privileged.
    pub fn new(conf_path: impl Into<PathBuf>, prefix: impl Into<PathBuf>) -> Options {
        let prefix = prefix.into();
        Options {
            conf_path: conf_path.into(),
            globals: None,
            error_log: prefix.join("logs/error.log"),
            access_log: prefix.join("logs/access.log"),
            pid: prefix.join("logs/sealane.pid"),
            temp: prefix.clone(),
            prefix,
            privileged: true,
            hostname: String::new(),
            adds_control_server: false,
        }
    }

    /// A path of the configuration that starts from the prefix when relative.
    pub fn under_prefix(&self, path: &Path) -> PathBuf {
        self.prefix.join(path)
    }

    /// A path of the configuration that starts from the configuration file's
    /// directory when relative.
    pub fn beside_conf(&self, path: &Path) -> PathBuf {
        match self.conf_path.parent() {
            Some(directory) => directory.join(path),
            None => path.to_owned(),
        }
    }
}

/// Files that exist in memory only, for tests, tools and the fuzzer. Knows
/// the host `localhost` and no other.
#[derive(Debug, Clone, Default)]
pub struct MemoryLoader {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl MemoryLoader {
    /// No files.
    pub fn new() -> MemoryLoader {
        MemoryLoader::default()
    }

    /// The same with one more file.
    #[must_use]
    pub fn with(mut self, path: impl Into<PathBuf>, text: impl Into<Vec<u8>>) -> MemoryLoader {
        self.files.insert(path.into(), text.into());
        self
    }
}

impl Loader for MemoryLoader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        self.files
            .get(path)
            .cloned()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        let matches = |path: &&PathBuf| path.to_str().is_some_and(|path| matches(pattern, path));
        Ok(self.files.keys().filter(matches).cloned().collect())
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        match host {
            "localhost" => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Whether a path matches a pattern with `*`, `?` and `[...]`, segment by
/// segment; a leading dot must be matched explicitly, as in `glob(3)`.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (mut patterns, mut segments) = (pattern.split('/'), path.split('/'));
    loop {
        match (patterns.next(), segments.next()) {
            (None, None) => return true,
            (Some(pattern), Some(segment)) => {
                let hidden = segment.starts_with('.') && !pattern.starts_with('.');
                if hidden || !segment_matches(pattern.as_bytes(), segment.as_bytes()) {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// Goes back to the last `*` only, which suffices and keeps the time linear
/// in the product of the lengths.
fn segment_matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => set_matches(&pattern[p..], text[t]),
            Some(byte) => (*byte == text[t]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => {
                p += step;
                t += 1;
            }
            (None, Some((star_p, star_t))) => {
                p = star_p + 1;
                t = star_t + 1;
                star = Some((star_p, t));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Length of the set `[...]` at the beginning of `pattern` if `byte` is in
/// it. A bracket that is never closed matches itself.
fn set_matches(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = 1 + usize::from(negated);
    // A `]` right at the beginning belongs to the set.
    let close = pattern
        .iter()
        .skip(first + 1)
        .position(|b| *b == b']')
        .map(|at| at + first + 1);
    let Some(close) = close else {
        return (byte == b'[').then_some(1);
    };
    let mut set = &pattern[first..close];
    let mut found = false;
    while let Some((low, rest)) = set.split_first() {
        if let [b'-', high, rest @ ..] = rest {
            found |= (*low..=*high).contains(&byte);
            set = rest;
        } else {
            found |= *low == byte;
            set = rest;
        }
    }
    (found != negated).then_some(close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_glob() {
        for (pattern, path) in [
            ("/etc/*.conf", "/etc/a.conf"),
            ("/etc/*", "/etc/a"),
            ("/etc/?.conf", "/etc/a.conf"),
            ("/etc/[a-c]x", "/etc/bx"),
            ("/etc/[!a]x", "/etc/bx"),
            ("/*/b*d*f", "/a/bcdxdef"),
            ("/etc/[", "/etc/["),
            ("/etc/[]]x", "/etc/]x"),
            ("/.*", "/.a"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("/etc/*.conf", "/etc/a/b.conf"),
            ("/etc/*", "/etc/.hidden"),
            ("/etc/?", "/etc/"),
            ("/etc/[a-c]", "/etc/d"),
            ("/etc/[!a]", "/etc/a"),
            ("/a*b", "/ab/b"),
            ("/a*b*c", "/abbbb"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let pattern = format!("{}b", "*a".repeat(200));
        assert!(!matches(&pattern, &"a".repeat(5000)));
    }

    #[test]
    fn memory_files_are_sorted() {
        let mut loader = MemoryLoader::new()
            .with("/b.conf", "b")
            .with("/a.conf", "a");
        let found = loader.glob("/*.conf").expect("never fails");
        assert_eq!(found, [PathBuf::from("/a.conf"), PathBuf::from("/b.conf")]);
    }
}
