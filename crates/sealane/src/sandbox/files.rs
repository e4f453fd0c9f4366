//! Which files the worker may change (`worker_landlock`) and read (`worker_landlock_read`), derived
//! from the configuration.
//!
//! A worker writes only below directories that the configuration names: temporary files, cached
//! responses, files of clients (`dav_methods`) and of upstream servers (`proxy_store`), lists of
//! upstream servers (`state`), logs with variables in their paths, recordings (`quic_qlog`), core
//! dumps. Reading is confined on request: links out of a `root` are in use, and nobody has told the
//! server where they lead.
//!
//! The kernel identifies directories by inode, not by name, so a replaced one needs
//! another process.
//!
//! Confinement has two more effects: the worker cannot look into processes outside it (their
//! memory, environment and descriptors below `/proc`), and cannot signal them.

mod places;
mod readable;

use self::places::{Places, directory_of, known_part};
use self::readable::Readable;
use crate::certificates::acme::state_directories;
use crate::journal::{Journal, note};
use crate::temp_paths::{self, qlog_directories};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, make_bitflags,
};
use sealane_conf::Config;
use sealane_conf::model::{FilesAt, Landlock, LocationConf, LogTarget};
use sealane_log::confinement;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What a worker may do in its directories. The same in all of them, or files could not be moved
/// from one to another.
const CHANGES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    WriteFile | RemoveFile | RemoveDir | MakeReg | MakeDir | Refer
});

/// With `strict`: the kernel then checks the path of every file that is opened, for reading too.
const EMPTYING: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ Truncate });

/// With `worker_landlock_read`.
const READS: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ ReadFile | ReadDir });

/// What it does nowhere.
const NEVER: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    Execute | MakeChar | MakeSock | MakeFifo | MakeBlock | MakeSym | IoctlDev
});

/// Where the kernel names the file for a core dump.
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// Directories of processes and of settings stay those that the kernel knows only while they are
/// open.
static OPEN: OnceLock<Vec<PathFd>> = OnceLock::new();

/// The file system of which that is true.
const PROCESSES: &str = "/proc";

/// What a worker may do to files, besides what its user may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRules {
    /// The directories below which it changes files.
    changeable: Places,
    readable: Readable,
    /// Paths of `worker_landlock_read` that lead nowhere.
    missing: Vec<PathBuf>,
}

impl FileRules {
    /// Of a configuration, as files are now.
    pub(crate) fn of(config: &Config) -> FileRules {
        if config.main.worker_landlock == Landlock::Off {
            return FileRules {
                changeable: Places::default(),
                readable: Readable::Everything,
                missing: Vec::new(),
            };
        }
        let changeable = changeable(config);
        let readable = Readable::of(config, &changeable);
        let named = config.main.worker_landlock_read.iter().flatten();
        FileRules {
            changeable,
            readable,
            missing: named.filter(|path| !path.exists()).cloned().collect(),
        }
    }

    /// The directive of `after` for which a process that was started for this one lacks rights, or
    /// has too many.
    pub(crate) fn lack(&self, after: &FileRules) -> Option<&'static str> {
        if !self.changeable.cover(&after.changeable) {
            return Some("worker_landlock");
        }
        let is_covered = self.readable.covers(&after.readable);
        (!is_covered).then_some("worker_landlock_read")
    }

    /// Confines this process, whose only thread must be the calling one.
    pub(super) fn confine(&self, how: Landlock, journal: &Journal) {
        let changes = match how {
            Landlock::Strict => CHANGES | EMPTYING,
            _ => CHANGES,
        };
        if let Readable::Unknown(reason) = &self.readable {
            note!(
                journal,
                Warn,
                "worker process may read every file that its user may, in spite of \
                 \"worker_landlock_read on\": {reason}; name the directories that it leads to \
                 after \"on\""
            );
        }
        match self.restrict(changes) {
            Ok(status) if status.ruleset != RulesetStatus::NotEnforced => {
                self.note_confined(journal)
            }
            Ok(status) => self.note_free(status.landlock, journal),
            Err(error) => note!(
                journal,
                Warn,
                "worker process cannot be confined ({error}): it may read and change every file that its \
                 user may, \"worker_landlock off\" silences this"
            ),
        }
    }

    fn note_confined(&self, journal: &Journal) {
        let places = match &*self.changeable.names() {
            "" => "nowhere".to_owned(),
            names => format!("below {names} only"),
        };
        note!(
            journal,
            Info,
            "worker process may change files {places} (worker_landlock)"
        );
        let Readable::Places(readable) = &self.readable else {
            return confinement::begin(false);
        };
        confinement::begin(true);
        for path in &self.missing {
            let path = path.display();
            note!(
                journal,
                Warn,
                "\"worker_landlock_read\" names \"{path}\", which does not exist: reload once it does"
            );
        }
        note!(
            journal,
            Info,
            "worker process may read {} only, with what is below, and public files of the system \
             (worker_landlock_read)",
            readable.names()
        );
    }

    fn note_free(&self, status: LandlockStatus, journal: &Journal) {
        let reason = match status {
            LandlockStatus::NotEnabled => "has Landlock switched off (\"lsm=\" at boot)",
            LandlockStatus::NotImplemented => "has no Landlock",
            LandlockStatus::Available { .. } => "has a Landlock that cannot move files",
        };
        note!(
            journal,
            Notice,
            "the kernel {reason}: worker processes may change every file that their user \
             may"
        );
        if let Readable::Places(_) = &self.readable {
            note!(
                journal,
                Warn,
                "the kernel {reason}: worker processes may read every file that their user may, \
                 in spite of \"worker_landlock_read on\""
            );
        }
    }

    fn restrict(&self, changes: BitFlags<AccessFs>) -> Result<RestrictionStatus, RulesetError> {
        let (reads, readable) = match &self.readable {
            Readable::Places(places) => (READS, Some(places)),
            _ => (BitFlags::EMPTY, None),
        };
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(changes | NEVER | reads)?
            .scope(Scope::from_all(ABI::V6))?
            .create()?;
        let mut open = Vec::new();
        let system = readable
            .iter()
            .flat_map(|_| readable::SYSTEM)
            .map(Path::new);
        let read = readable.into_iter().flat_map(Places::paths).chain(system);
        let read = read.map(|path| (path, reads));
        let changed = self.changeable.paths().map(|path| (path, changes | reads));
        for (path, rights) in changed.chain(read) {
            // What cannot be reached can be neither changed nor read.
            let (Ok(place), Ok(facts)) = (PathFd::new(path), fs::metadata(path)) else {
                continue;
            };
            let rights = match facts.is_dir() {
                true => rights,
                false => rights & AccessFs::from_file(ABI::V6),
            };
            rules = rules.add_rule(PathBeneath::new(&place, rights))?;
            if path.starts_with(PROCESSES) {
                open.push(place);
            }
        }
        let status = rules.restrict_self()?;
        let _ = OPEN.set(open);
        Ok(status)
    }
}

/// The directories below which a worker changes files, as they are now.
fn changeable(config: &Config) -> Places {
    let mut found = Places::default();
    for path in temp_paths::wanted(config).into_keys() {
        found.add_directory(&path); // the master has made it, or said why not
    }
    for path in temp_paths::caches(config) {
        found.add_directory(path); // made by the master, too
    }
    for path in state_directories(config.http.as_ref()) {
        found.add_directory(&path); // made by the master, too
    }
    for conf in temp_paths::locations(config) {
        add_changed_by(conf, &mut found);
    }
    let upstreams = config.http.iter().flat_map(|http| &http.upstreams);
    for state in upstreams.filter_map(|upstream| upstream.state.as_ref()) {
        // A file behind a link is replaced where it is.
        let path = fs::canonicalize(&state.path).unwrap_or_else(|_| state.path.clone());
        found.add_nearest(path.parent().unwrap_or(Path::new("/")));
    }
    for path in qlog_directories(config) {
        found.add_directory(path); // it was looked for at the start
    }
    if config.main.worker_rlimit_core.is_some() {
        let pattern = fs::read(CORE_PATTERN).unwrap_or_default();
        let place = config.main.working_directory.as_deref();
        found.add_nearest(&core_directory(&pattern, place.unwrap_or(Path::new("."))));
    }
    found
}

fn add_changed_by(conf: &LocationConf, found: &mut Places) {
    if conf.dav.is_some() {
        let (FilesAt::Root(path) | FilesAt::Alias(path)) = &conf.files_at;
        found.add_nearest(&known_part(path));
    }
    if let Some(store) = conf
        .pass
        .as_ref()
        .and_then(|pass| pass.upstream().store.as_ref())
    {
        found.add_nearest(&match (&store.path, &conf.files_at) {
            (Some(path), _) => directory_of(path),
            (None, FilesAt::Root(path) | FilesAt::Alias(path)) => known_part(path),
        });
    }
    for log in &conf.access_logs {
        if let (LogTarget::Paths(_), Some(path)) = (&log.target, &log.path) {
            found.add_nearest(&known_part(path));
        }
    }
}

/// Where the kernel puts core dumps of a process in `place`. A program that receives them is not
/// confined.
fn core_directory(pattern: &[u8], place: &Path) -> PathBuf {
    let pattern = pattern.trim_ascii();
    let end = pattern.iter().position(|byte| *byte == b'%');
    let known = &pattern[..end.unwrap_or(pattern.len())];
    match known.iter().rposition(|byte| *byte == b'/') {
        Some(end) if known.starts_with(b"/") => OsStr::from_bytes(&known[..end.max(1)]).into(),
        _ => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_dumps_go_where_the_kernel_says() {
        let of = |pattern: &str| core_directory(pattern.as_bytes(), Path::new("/place"));
        for (pattern, expected) in [
            ("core\n", "/place"),
            ("core.%p\n", "/place"),
            ("|/usr/lib/systemd/systemd-coredump %P\n", "/place"),
            ("/var/crash/core.%e.%p\n", "/var/crash"),
            ("/core\n", "/"),
            ("/var/%e/core\n", "/var"),
            ("", "/place"),
        ] {
            assert_eq!(of(pattern), Path::new(expected), "{pattern}");
        }
    }
}
