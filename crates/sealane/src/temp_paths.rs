//! Directories for temporary files and cached responses. The master creates them before the worker
//! starts, which may lack the rights to: mode 0700, owned by the worker's user, as in nginx.
//!
//! Directories that the configuration names must exist in the end. The default
//! ones are created if something may need them, and so is the directory that they are in (the
//! prefix, or the package's), so that a configuration that came from nginx finds them. Without
//! them the server starts all the same.

use crate::certificates::acme::state_directories;
use crate::identity::Identity;
use crate::journal::{Journal, note};
use sealane_conf::Config;
use sealane_conf::model::{Family, LocationConf, Pass};
use sealane_log::OsError;
use sealane_sys::guard::Guard;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the worker needs of its directory: read, write, search.
const OWNER_ALL: u32 = 0o700;

/// The prefix has what others need as well: root's, less the mask.
const PREFIX_MODE: u32 = 0o777;

/// Creates the directories of a configuration. `temp` is where the default ones are, `identity` the
/// worker's user.
///
/// # Errors
/// nginx's message for a directory that the configuration names and that cannot be created.
pub(crate) fn prepare(
    config: &Config,
    temp: &Path,
    identity: Option<&Identity>,
    guard: &Guard,
    journal: &Journal,
) -> Result<(), String> {
    for (path, directive) in wanted(config) {
        let is_default = path == default_path(temp, directive);
        if is_default && let Some(parent) = path.parent() {
            // What is wrong with it shows in the next step.
            let _ = guard.make_directories(parent, PREFIX_MODE);
        }
        match prepare_one(&path, TEMPORARY, identity.map(Identity::uid), guard) {
            Ok(()) => {}
            Err(message) if is_default => note!(
                journal,
                Warn,
                "{message}; bodies that do not fit into memory will fail: name another directory \
                 with \"{directive}_temp_path\""
            ),
            Err(message) => return Err(message),
        }
    }
    Ok(())
}

/// What directories are for, in messages.
const TEMPORARY: &str = "temporary files";
const CACHE: &str = "cached responses";
const ACME_STATE: &str = "the state of an acme issuer";

/// Creates the directories of `state_path`: with the same rights, because the worker writes what it
/// gets from the network, and the master does not read that.
///
/// # Errors
/// As [`prepare`], for every directory.
pub(crate) fn prepare_acme(
    config: &Config,
    prefix: &Path,
    identity: Option<&Identity>,
    guard: &Guard,
) -> Result<(), String> {
    for path in state_directories(config.http.as_ref()) {
        if path.parent() == Some(prefix) {
            // What is wrong with it shows in the next step.
            let _ = guard.make_directories(prefix, PREFIX_MODE);
        }
        prepare_one(&path, ACME_STATE, identity.map(Identity::uid), guard)?;
    }
    Ok(())
}

/// Creates the directories of `proxy_cache_path` and its relatives, whether a location uses them or
/// not. As in nginx, the directory that each is in must be there.
///
/// # Errors
/// As [`prepare`], for every directory.
pub(crate) fn prepare_caches(
    config: &Config,
    identity: Option<&Identity>,
    guard: &Guard,
) -> Result<(), String> {
    for path in caches(config) {
        prepare_one(path, CACHE, identity.map(Identity::uid), guard)?;
    }
    Ok(())
}

/// The directories of cached responses.
pub(crate) fn caches(config: &Config) -> impl Iterator<Item = &Path> {
    let caches = config.http.iter().flat_map(|http| &http.cache_paths);
    caches.map(|cache| cache.path.as_path())
}

/// Sees that the directories of `quic_qlog` are there. They are the operator's, who reads what is
/// in them: they are not made here.
///
/// # Errors
/// The first one that is missing, or no directory.
pub(crate) fn check_qlog_directories(config: &Config) -> Result<(), String> {
    for path in qlog_directories(config) {
        let error = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => io::Error::from_raw_os_error(libc::ENOTDIR),
            Err(error) => error,
        };
        let path = path.display();
        return Err(format!(
            "\"quic_qlog\" cannot write to \"{path}\" ({}): make the directory, and give it \
             to the user of the worker processes",
            OsError(&error)
        ));
    }
    Ok(())
}

/// The directories of `quic_qlog`.
pub(crate) fn qlog_directories(config: &Config) -> impl Iterator<Item = &Path> {
    let servers = config.http.iter().flat_map(|http| &http.servers);
    let qlogs = servers.filter_map(|server| server.quic.qlog.as_deref());
    qlogs.map(|qlog| qlog.directory.as_path())
}

/// Paths that may be needed, each with the beginning of its directive's name.
pub(crate) fn wanted(config: &Config) -> BTreeMap<PathBuf, &'static str> {
    let mut wanted = BTreeMap::new();
    for conf in locations(config) {
        add_location(&mut wanted, conf);
    }
    wanted
}

/// The settings for files of servers, locations and every `if` in one.
pub(crate) fn locations(config: &Config) -> impl Iterator<Item = &Arc<LocationConf>> {
    let servers = config.http.iter().flat_map(|http| &http.servers);
    let locations = config.http.iter().flat_map(|http| http.locations());
    servers.map(|server| &server.conf).chain(locations)
}

/// A location needs a directory if it proxies request bodies, turns them into files or generates
/// long responses; a pass needs another for the responses that it receives.
fn add_location(wanted: &mut BTreeMap<PathBuf, &'static str>, conf: &LocationConf) {
    let Some(pass) = &conf.pass else {
        let puts_files = conf.dav.as_ref().is_some_and(|dav| dav.methods.put);
        let makes_answers = conf.autoindex.is_some() || conf.mp4.is_some();
        if !conf.mirrors.is_empty() || puts_files || makes_answers {
            wanted.insert(conf.client_body_temp_path.path.clone(), CLIENT_BODY);
        }
        return;
    };
    if let Pass::Tunnel(_) | Pass::Stream(_) = pass {
        return; // nothing waits on a disk
    }
    wanted.insert(conf.client_body_temp_path.path.clone(), CLIENT_BODY);
    let settings = pass.upstream();
    // gRPC and Dubbo have no such directive: their responses are never buffered.
    if !matches!(settings.family, Family::Grpc | Family::Dubbo) {
        wanted.insert(settings.temp_path.path.clone(), settings.family.name());
    }
}

const CLIENT_BODY: &str = "client_body";

fn default_path(temp: &Path, directive: &str) -> PathBuf {
    temp.join(format!("{directive}_temp"))
}

fn prepare_one(
    path: &Path,
    purpose: &str,
    owner: Option<u32>,
    guard: &Guard,
) -> Result<(), String> {
    let failed = |call: &str, error: &io::Error| {
        format!(
            "{call}() \"{}\" failed ({})",
            path.display(),
            OsError(error)
        )
    };
    let place = guard.find(path).map_err(|error| failed("mkdir", &error))?;
    let directory = match place.directory(OWNER_ALL, owner) {
        Ok(directory) => directory,
        Err((_, error)) if error.raw_os_error() == Some(libc::ENOTDIR) => {
            return Err(format!(
                "\"{}\" is for {purpose} but is not a directory",
                path.display()
            ));
        }
        Err((call, error)) => return Err(failed(call, &error)),
    };
    let Some(uid) = owner else {
        return Ok(()); // the worker stays who made it
    };
    let facts = directory
        .metadata()
        .map_err(|error| failed("fstat", &error))?;
    if facts.uid() != uid {
        // Changing its owner would give away what may have been moved there.
        return Err(format!(
            "\"{}\" is for {purpose} but belongs to user {}: let it belong to user {uid}, \
             whom worker processes run as, or remove it",
            path.display(),
            facts.uid()
        ));
    }
    if facts.mode() & OWNER_ALL != OWNER_ALL {
        let mode = facts.mode() | OWNER_ALL;
        directory
            .set_permissions(Permissions::from_mode(mode))
            .map_err(|error| failed("fchmod", &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{MemoryLoader, Options};
    use sealane_log::Logger;
    use std::fs;

    /// A directory that goes with the test.
    struct TestDirectory(PathBuf);

    impl TestDirectory {
        fn new(name: &str) -> TestDirectory {
            let path = std::env::temp_dir().join(format!("sealane-{name}-{}", std::process::id()));
            fs::create_dir(&path).expect("new");
            TestDirectory(path)
        }

        fn prepare(&self, server: &str) -> Result<(), String> {
            self.prepare_http(&format!("server {{ listen 127.0.0.1:80; {server} }}"))
        }

        fn prepare_http(&self, inside_http: &str) -> Result<(), String> {
            let text = format!("events {{}} http {{ {inside_http} }}");
            let conf = self.0.join("nginx.conf");
            let mut loader = MemoryLoader::new().with(&conf, text.clone());
            let options = Options::new(&conf, &self.0);
            let config = match sealane_conf::parse(&options, &mut loader) {
                Ok(config) => config,
                Err(failure) => panic!("{failure:?}\n{text}"),
            };
            let journal = Journal::running(Logger::discard());
            let guard = Guard::default();
            prepare(&config, &self.0, None, &guard, &journal)?;
            prepare_caches(&config, None, &guard)
        }

        fn entries(&self) -> Vec<String> {
            let entries = fs::read_dir(&self.0).expect("ours");
            let name = |entry: io::Result<fs::DirEntry>| {
                let name = entry.expect("readable").file_name();
                name.into_string().expect("ASCII")
            };
            let mut names: Vec<_> = entries.map(name).collect();
            names.sort();
            names
        }
    }

    impl Drop for TestDirectory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_server_of_files_needs_no_directory() {
        let place = TestDirectory::new("temp-files");
        place
            .prepare("location / { root /srv; }")
            .expect("nothing to do");
        assert!(place.entries().is_empty());
    }

    #[test]
    fn directories_are_made_for_those_who_hand_bodies_on() {
        let place = TestDirectory::new("temp-pass");
        let server = "location /a { proxy_pass http://127.0.0.1:1; } \
                      location /b { location /b/c { proxy_pass http://127.0.0.1:1; \
                      proxy_temp_path own 1 2; } }";
        place.prepare(server).expect("the prefix is ours");
        assert_eq!(place.entries(), ["client_body_temp", "own", "proxy_temp"]);
        let mode = |name| fs::metadata(place.0.join(name)).expect("there").mode() & 0o777;
        assert_eq!(mode("own"), 0o700);
        place.prepare(server).expect("a second time finds them");
    }

    #[test]
    fn a_named_directory_must_be_there() {
        let place = TestDirectory::new("temp-named");
        let error = place
            .prepare("location / { proxy_pass http://127.0.0.1:1; proxy_temp_path none/here; }")
            .expect_err("its parent is missing");
        let path = place.0.join("none/here");
        assert_eq!(
            error,
            format!(
                "mkdir() \"{}\" failed (2: No such file or directory)",
                path.display()
            )
        );
        fs::write(place.0.join("file"), "").expect("ours");
        let error = place
            .prepare("location / { proxy_pass http://127.0.0.1:1; proxy_temp_path file; }")
            .expect_err("a file");
        assert!(error.ends_with("is not a directory"), "{error}");
    }

    #[test]
    fn directories_of_caches_are_made_whoever_uses_them() {
        let place = TestDirectory::new("temp-cache");
        let two = "proxy_cache_path one keys_zone=a:1m; scgi_cache_path two/ keys_zone=b:1m;";
        place.prepare_http(two).expect("their parent is there");
        assert_eq!(place.entries(), ["one", "two"]);
        for name in ["one", "two"] {
            let facts = fs::metadata(place.0.join(name)).expect("there");
            assert_eq!(facts.mode() & 0o777, 0o700, "{name}");
        }
        place.prepare_http(two).expect("a second time finds them");
        let deeper = "proxy_cache_path none/here keys_zone=a:1m;";
        let error = place.prepare_http(deeper).expect_err("no parent");
        let path = place.0.join("none/here");
        let words = "failed (2: No such file or directory)";
        assert_eq!(error, format!("mkdir() \"{}\" {words}", path.display()));
        fs::write(place.0.join("file"), "").expect("ours");
        let file = "proxy_cache_path file keys_zone=a:1m;";
        let error = place.prepare_http(file).expect_err("a file");
        let words = "is for cached responses but is not a directory";
        assert!(error.ends_with(words), "{error}");
    }

    #[test]
    fn the_owner_gets_the_rights_that_it_needs() {
        let place = TestDirectory::new("temp-rights");
        let path = place.0.join("d");
        fs::create_dir(&path).expect("new");
        fs::set_permissions(&path, Permissions::from_mode(0o540)).expect("ours");
        let uid = fs::metadata(&path).expect("there").uid();
        prepare_one(&path, TEMPORARY, Some(uid), &Guard::default()).expect("it is ours");
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o740);
    }
}
