//! Where the worker may change files (`worker_landlock`), derived from the configuration.
//!
//! Reading is not confined: served files may be anywhere, and the rights of the worker's user
//! are the same as in nginx. A worker writes only below directories that the configuration names:
//! temporary files, cached responses, files of clients (`dav_methods`) and of upstream servers
//! (`proxy_store`), lists of upstream servers (`state`), logs with variables in their paths, core
//! dumps. The kernel identifies these directories by inode, not by name, so a replaced one needs
//! another process.
//!
//! Confinement has two more effects: the worker cannot look into processes outside it (their
//! memory, environment and descriptors below `/proc`), and cannot signal them.

use crate::certificates::acme::state_directories;
use crate::journal::{Journal, note};
use crate::temp_paths;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use sealane_conf::Config;
use sealane_conf::model::{FilesAt, Landlock, LocationConf, LogTarget, Part, Template};
use sealane_log::confinement;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a worker may do in its directories. The same in all of them, or files could not be moved
/// from one to another.
const CHANGES: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    WriteFile | RemoveFile | RemoveDir | MakeReg | MakeDir | Refer
});

/// With `strict`: the kernel then checks the path of every file that is opened, for reading too.
const EMPTYING: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ Truncate });

/// What it does nowhere.
const NEVER: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    Execute | MakeChar | MakeSock | MakeFifo | MakeBlock | MakeSym | IoctlDev
});

/// Where the kernel names the file for a core dump.
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// The directories below which a worker changes files, with what they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changeable(BTreeMap<PathBuf, (u64, u64)>);

impl Changeable {
    /// Of a configuration, as the directories are now.
    pub(crate) fn of(config: &Config) -> Changeable {
        let mut found = Changeable::default();
        if config.main.worker_landlock == Landlock::Off {
            return found;
        }
        for path in temp_paths::wanted(config).into_keys() {
            found.add(&path); // the master has made it, or said why not
        }
        for path in temp_paths::caches(config) {
            found.add(path); // made by the master, too
        }
        for path in state_directories(config.http.as_ref()) {
            found.add(&path); // made by the master, too
        }
        for conf in temp_paths::locations(config) {
            found.add_location(conf);
        }
        let upstreams = config.http.iter().flat_map(|http| &http.upstreams);
        for state in upstreams.filter_map(|upstream| upstream.state.as_ref()) {
            // A file behind a link is replaced where it is.
            let path = fs::canonicalize(&state.path).unwrap_or_else(|_| state.path.clone());
            found.add_nearest(path.parent().unwrap_or(Path::new("/")));
        }
        if config.main.worker_rlimit_core.is_some() {
            let pattern = fs::read(CORE_PATTERN).unwrap_or_default();
            let place = config.main.working_directory.as_deref();
            found.add_nearest(&core_directory(&pattern, place.unwrap_or(Path::new("."))));
        }
        found
    }

    fn add_location(&mut self, conf: &LocationConf) {
        if conf.dav.is_some() {
            let (FilesAt::Root(path) | FilesAt::Alias(path)) = &conf.files_at;
            self.add_nearest(&known_part(path));
        }
        if let Some(store) = conf
            .pass
            .as_ref()
            .and_then(|pass| pass.upstream().store.as_ref())
        {
            self.add_nearest(&match (&store.path, &conf.files_at) {
                (Some(path), _) => directory_of(path),
                (None, FilesAt::Root(path) | FilesAt::Alias(path)) => known_part(path),
            });
        }
        for log in &conf.access_logs {
            if let (LogTarget::Paths(_), Some(path)) = (&log.target, &log.path) {
                self.add_nearest(&known_part(path));
            }
        }
    }

    /// If it is there.
    fn add(&mut self, path: &Path) -> bool {
        let Ok(facts) = fs::metadata(path) else {
            return false;
        };
        let id = (facts.dev(), facts.ino());
        facts.is_dir() && self.0.insert(path.to_owned(), id).is_none_or(|_| true)
    }

    /// The directory, or the one in which it may be made.
    fn add_nearest(&mut self, path: &Path) {
        let _ = path.ancestors().find(|path| self.add(path));
    }

    /// Whether a process that was started for this one can do what the other needs.
    pub(crate) fn covers(&self, other: &Changeable) -> bool {
        let is_here = |(path, id)| self.0.get(path) == Some(id);
        other.0.iter().all(is_here)
    }

    /// Confines this process, whose only thread must be the calling one.
    pub(super) fn confine(&self, how: Landlock, journal: &Journal) {
        let changes = match how {
            Landlock::Strict => CHANGES | EMPTYING,
            _ => CHANGES,
        };
        match self.restrict(changes) {
            Ok(status) if status.ruleset != RulesetStatus::NotEnforced => {
                confinement::begin();
                let paths: Vec<_> = self.0.keys().map(|path| path.to_string_lossy()).collect();
                let places = match &*paths {
                    [] => "nowhere".to_owned(),
                    paths => format!("below {} only", paths.join(", ")),
                };
                note!(
                    journal,
                    Info,
                    "worker process may change files {places} (worker_landlock)"
                );
            }
            Ok(status) => {
                let reason = match status.landlock {
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
            }
            Err(error) => note!(
                journal,
                Warn,
                "worker process cannot be confined ({error}): it may change every file that its \
                 user may, \"worker_landlock off\" silences this"
            ),
        }
    }

    fn restrict(
        &self,
        changes: BitFlags<AccessFs>,
    ) -> Result<landlock::RestrictionStatus, landlock::RulesetError> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(changes | NEVER)?
            .scope(Scope::from_all(ABI::V6))?
            .create()?;
        for path in self.0.keys() {
            // What cannot be reached cannot be changed either.
            if let Ok(directory) = PathFd::new(path) {
                rules = rules.add_rule(PathBeneath::new(directory, changes))?;
            }
        }
        rules.restrict_self()
    }
}

/// The directory that all values of a path lie in.
fn known_part(path: &Template) -> PathBuf {
    let literal = match path.parts() {
        [] => return "/".into(), // "root /"
        [Part::Literal(whole)] => return OsStr::from_bytes(whole).into(),
        [Part::Literal(beginning), ..] => &**beginning,
        [Part::Variable(_), ..] => &[],
    };
    let end = literal.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let directory = OsStr::from_bytes(&literal[..end]);
    if directory.is_empty() {
        "/".into()
    } else {
        directory.into()
    }
}

/// The directory that the files at all values of a path lie in.
fn directory_of(path: &Template) -> PathBuf {
    match path.as_literal() {
        Some(file) => {
            let file = Path::new(OsStr::from_bytes(file));
            file.parent().unwrap_or(file).to_owned()
        }
        None => known_part(path),
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
