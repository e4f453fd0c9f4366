//! The nginx that runs.

use super::Request;
use crate::migrate::Reader;
use crate::pid_file;
use sealane_conf::Options;
use sealane_log::OsError;
use sealane_sys::guard::Guard;
use sealane_sys::pidfd::OtherProcess;
use sealane_sys::process::Pid;
use sealane_sys::socket::{self, BindAddress};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How nginx calls itself.
const MASTER: &[u8] = b"nginx: master process";

/// What nginx was built and is started with.
pub(super) struct Paths {
    pub(super) program: PathBuf,
    pub(super) prefix: PathBuf,
    pub(super) conf_file: PathBuf,
    /// For `-e`: a path or `stderr`.
    pub(super) error_log: OsString,
    /// Unless the configuration names another one.
    pid_file: PathBuf,
}

impl Paths {
    /// Asks the program (`nginx -V`).
    pub(super) fn find(request: &Request) -> Result<Paths, String> {
        let program = request.nginx.clone().unwrap_or_else(|| "nginx".into());
        let shown = program.display().to_string();
        let answer = Command::new(&program).arg("-V").output().map_err(|error| {
            let error = OsError(&error);
            format!(
                "cannot run {shown} -V ({error}): name nginx's program with --nginx, and its \
                 configuration with -c"
            )
        })?;
        let answer = String::from_utf8_lossy(&answer.stderr).into_owned();
        let built = built_with(&answer);
        let path = |name: &str, default: &str| {
            PathBuf::from(built.get(name).map_or(default, String::as_str))
        };
        let here = std::env::current_dir().unwrap_or_default();
        let prefix = match &request.prefix {
            Some(given) => here.join(given),
            None => path("prefix", "/usr/local/nginx"),
        };
        let conf_file = match &request.conf_file {
            Some(given) => here.join(given),
            None => prefix.join(path("conf-path", "conf/nginx.conf")),
        };
        let error_log = path("error-log-path", "logs/error.log");
        Ok(Paths {
            error_log: match error_log == Path::new("stderr") {
                true => error_log.into(),
                false => prefix.join(error_log).into(),
            },
            pid_file: prefix.join(path("pid-path", "logs/nginx.pid")),
            program,
            prefix,
            conf_file,
        })
    }

    /// nginx's pid file with this configuration.
    fn pid_file(&self, globals: Option<&OsStr>) -> Result<PathBuf, String> {
        let options = Options {
            globals: globals.map(|text| text.to_string_lossy().into_owned()),
            pid: self.pid_file.clone(),
            ..Options::new(&self.conf_file, &self.prefix)
        };
        let parsed = sealane_conf::parse(&options, &mut Reader::default());
        let config = parsed.map_err(|failure| failure.error.headline())?;
        Ok(config.main.pid)
    }
}

/// `--name=value` of the line of configure arguments.
fn built_with(answer: &str) -> HashMap<&str, String> {
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix("configure arguments:"));
    let words = line.unwrap_or_default().split_whitespace();
    let options = words.filter_map(|word| word.strip_prefix("--")?.split_once('='));
    options
        .map(|(name, value)| (name, value.trim_matches('\'').to_owned()))
        .collect()
}

/// Its master process.
pub(super) struct Nginx {
    pub(super) pid: Pid,
    pub(super) process: OtherProcess,
    pub(super) program: PathBuf,
    pub(super) prefix: PathBuf,
    pub(super) conf_file: PathBuf,
    /// The name of its service, if it is one of systemd's.
    service: Option<String>,
}

/// A socket that it listens with.
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    address: BindAddress,
}

impl Socket {
    pub(super) fn shown(&self) -> String {
        match &self.address {
            BindAddress::Inet(address) | BindAddress::Datagram(address) => address.to_string(),
            BindAddress::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl Nginx {
    /// The one whose number is in the pid file of this configuration.
    pub(super) fn find(paths: &Paths, globals: Option<&OsStr>) -> Result<Nginx, String> {
        let pid_file = paths.pid_file(globals)?;
        let guard = Guard::default();
        let pid = pid_file::read(&pid_file, &guard).map_err(|message| {
            format!(
                "nginx does not run with this configuration: {message}. Start Sealane instead, or \
                 name the configuration of the nginx that runs with -c"
            )
        })?;
        let is_gone = |error: io::Error| {
            let (file, error) = (pid_file.display(), OsError(&error));
            format!("nginx does not run: process {pid} of {file} is gone ({error}). Start Sealane")
        };
        let process = OtherProcess::open(pid).map_err(is_gone)?;
        let title = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(is_gone)?;
        if !title.starts_with(MASTER) {
            return Err(format!(
                "process {pid} of {} is not nginx but \"{}\"",
                pid_file.display(),
                title.escape_ascii()
            ));
        }
        Ok(Nginx {
            pid,
            process,
            program: paths.program.clone(),
            prefix: paths.prefix.clone(),
            conf_file: paths.conf_file.clone(),
            service: service_of(pid),
        })
    }

    /// Duplicates of its listening sockets.
    pub(super) fn sockets(&self) -> Result<Vec<Socket>, String> {
        let failed = |error: io::Error| {
            let (pid, error) = (self.pid, OsError(&error));
            format!(
                "cannot take the sockets of nginx, process {pid} ({error}): run this as root, on \
                 Linux 5.6 or later; nginx serves as before"
            )
        };
        let mut sockets = Vec::new();
        let entries = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map_err(failed)?;
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let number = entry.file_name().to_string_lossy().parse();
            let target = match std::fs::read_link(entry.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // closed
                target => target.map_err(failed)?,
            };
            let is_socket = target.to_string_lossy().starts_with("socket:");
            let Some(number) = number.ok().filter(|_| is_socket) else {
                continue;
            };
            let fd = self.process.descriptor(number).map_err(failed)?;
            // Channels to its workers are sockets as well.
            if let Ok(Some(address)) = socket::listening_address(&fd) {
                sockets.push(Socket { fd, address });
            }
        }
        if sockets.is_empty() {
            return Err(format!("nginx, process {}, listens on nothing", self.pid));
        }
        Ok(sockets)
    }

    /// The name of its service.
    pub(super) fn unit(&self) -> Option<&str> {
        self.service.as_deref()
    }

    /// Waits until systemd has done what belongs to the end of the service.
    pub(super) fn wait_for_its_service(&self, patience: Duration, poll: Duration) {
        let Some(unit) = self.unit() else { return };
        let deadline = Instant::now() + patience;
        while !has_stopped(unit) && Instant::now() < deadline {
            std::thread::sleep(poll);
        }
    }
}

/// Whether a service has stopped, its last commands included.
fn has_stopped(unit: &str) -> bool {
    let arguments = ["show", "--property", "ActiveState", "--value", unit];
    match Command::new("systemctl").args(arguments).output() {
        Ok(answer) => matches!(answer.stdout.trim_ascii(), b"" | b"inactive" | b"failed"),
        Err(_) => true, // nobody runs such commands then
    }
}

/// The service that a process belongs to, in any of the hierarchies of control groups; the session
/// of a user is none.
fn service_of(pid: Pid) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    service_in(&text).map(str::to_owned)
}

/// The name of a service in the lines of `/proc/PID/cgroup`.
fn service_in(groups: &str) -> Option<&str> {
    let names = groups.lines().filter_map(|line| line.rsplit_once('/'));
    let mut names = names.map(|(_, name)| name);
    names.find(|name| name.ends_with(".service"))
}

/// Second names of the files of Unix sockets, which nginx removes at its end.
pub(super) fn keep_names(sockets: &[Socket]) -> Vec<(PathBuf, PathBuf)> {
    let paths = sockets.iter().filter_map(|socket| match &socket.address {
        BindAddress::Unix(path) => Some(path),
        BindAddress::Inet(_) | BindAddress::Datagram(_) => None,
    });
    let mut kept = Vec::new();
    for path in paths {
        let mut second = path.clone().into_os_string();
        second.push(".takeover");
        let second = PathBuf::from(second);
        let _ = std::fs::remove_file(&second); // of a takeover that was killed
        match std::fs::hard_link(path, &second) {
            Ok(()) => kept.push((second, path.clone())),
            Err(error) => super::step(&format!(
                "the file of unix:{} will be gone with nginx ({}); restart Sealane then",
                path.display(),
                OsError(&error)
            )),
        }
    }
    kept
}

/// The first names again.
pub(super) fn give_names_back(kept: Vec<(PathBuf, PathBuf)>) {
    for (second, first) in kept {
        let done = match first.exists() {
            true => std::fs::remove_file(&second),
            false => std::fs::rename(&second, &first),
        };
        if let Err(error) = done {
            super::step(&format!(
                "cannot give unix:{} its name back ({}): rename {}",
                first.display(),
                OsError(&error),
                second.display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_its_group() {
        for (groups, name) in [
            ("0::/system.slice/nginx.service\n", Some("nginx.service")),
            (
                "1:name=systemd:/a/nginx.service\n0::/\n",
                Some("nginx.service"),
            ),
            ("0::/user.slice/user-0.slice/session-1.scope\n", None),
            ("", None),
        ] {
            assert_eq!(service_in(groups), name, "{groups}");
        }
    }

    #[test]
    fn the_answer_of_nginx_tells_its_paths() {
        let answer = "nginx version: nginx/1.22.1\nbuilt with OpenSSL\nconfigure arguments: \
                      --with-cc-opt='-g -O2' --prefix=/usr/share/nginx --pid-path='/run/nginx.pid' \
                      --with-http_v2_module\n";
        let built = built_with(answer);
        assert_eq!(built["prefix"], "/usr/share/nginx");
        assert_eq!(built["pid-path"], "/run/nginx.pid");
        assert!(built_with("").is_empty());
    }
}
