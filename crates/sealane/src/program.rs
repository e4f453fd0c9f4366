//! The program that this process was started from, to be executed again when its file has changed.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Path and arguments of this process.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
}

impl Program {
    /// The path that was started, whatever file is there later: `/proc/self/exe` follows
    /// the current file when it is moved or deleted.
    pub(crate) fn of_this_process() -> Program {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let name = arguments.first().map(PathBuf::from).unwrap_or_default();
        let path = find(&name, std::env::var_os("PATH"));
        Program { path, arguments }
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Starts it with the same arguments and this environment, with no signal blocked and with
    /// the descriptors that are not closed on exec. Returns its process id.
    ///
    /// # Errors
    /// When no process can be created, or the file cannot be executed.
    pub(crate) fn start(
        &self,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> io::Result<u32> {
        check_format(&self.path)?;
        let mut command = Command::new(&self.path);
        if let Some((name, others)) = self.arguments.split_first() {
            command.arg0(name).args(others);
        }
        command.env_clear().envs(environment);
        let child = sealane_sys::signal::unblock_in_child(&mut command).spawn()?;
        // The master collects all of its children in one place.
        Ok(child.id())
    }
}

/// A file that is no program is an error, as for execve(2). The library would have a shell run it,
/// as execvp(3) does.
fn check_format(path: &Path) -> io::Result<()> {
    // One that cannot be read may still be a program; one that is not there is found out soon.
    let Ok(mut file) = File::open(path) else {
        return Ok(());
    };
    let mut beginning = Vec::new();
    file.by_ref().take(4).read_to_end(&mut beginning)?;
    match beginning.starts_with(b"\x7fELF") || beginning.starts_with(b"#!") {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::ENOEXEC)),
    }
}

/// Where a shell, or execvp(3), has found it.
fn find(name: &Path, search: Option<OsString>) -> PathBuf {
    if name.components().count() > 1 || name.is_absolute() {
        return std::path::absolute(name).unwrap_or_else(|_| name.to_owned());
    }
    let is_program = |path: &PathBuf| {
        let facts = path.metadata();
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let search = search.unwrap_or_default();
    let mut places = std::env::split_paths(&search).map(|directory| directory.join(name));
    let found = places.find(is_program);
    let found = found.and_then(|path| std::path::absolute(path).ok());
    // Somebody has made the name up; the file of now has the right path, if it stays.
    let running = || std::env::current_exe().unwrap_or_else(|_| name.to_owned());
    found.unwrap_or_else(running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_sys::signal::Signal;

    /// A shell such as dash would clear the mask itself.
    #[test]
    fn it_starts_without_blocked_signals() {
        sealane_sys::signal::block(&[Signal::Usr1]).expect("it can be blocked");
        let directory = std::env::temp_dir();
        let file = directory.join(format!("sealane-program-{}", std::process::id()));
        let script = format!("grep SigBlk /proc/self/status > {}", file.display());
        let program = Program {
            path: "/bin/bash".into(),
            arguments: ["bash", "-c", &script].map(OsString::from).into(),
        };
        let search = ("PATH".into(), "/usr/bin:/bin".into());
        let pid = program.start([search]).expect("it starts");
        let pid = i32::try_from(pid).expect("a process id");
        sealane_sys::process::wait_for(pid).expect("it is our child");
        let found = std::fs::read_to_string(&file).expect("it has written");
        std::fs::remove_file(&file).expect("it is ours");
        assert_eq!(found, "SigBlk:\t0000000000000000\n");
    }

    #[test]
    fn a_path_is_made_whole_and_a_name_is_looked_up() {
        let cwd = std::env::current_dir().expect("a directory");
        assert_eq!(
            find(Path::new("/usr/sbin/x"), None),
            Path::new("/usr/sbin/x")
        );
        assert_eq!(find(Path::new("./bin/x"), None), cwd.join("bin/x"));
        let search = Some("/nonexistent:/usr/bin:/bin".into());
        let found = find(Path::new("env"), search);
        assert!(
            found.ends_with("bin/env") && found.is_absolute(),
            "{found:?}"
        );
        let made_up = find(Path::new("no such name"), Some("/bin".into()));
        assert_eq!(made_up, std::env::current_exe().expect("this test"));
    }
}
