//! A Redis server for one test.

use crate::{Site, command, wait_for};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running `redis-server`, killed when it is dropped.
#[derive(Debug)]
pub struct Redis<'a> {
    site: &'a Site,
    name: String,
    /// A configuration file, for sentinels.
    file: Option<PathBuf>,
    options: Vec<String>,
    child: Option<Child>,
}

impl<'a> Redis<'a> {
    /// Starts it on the port behind `%name%`, without a file, with further words
    /// for its command line.
    #[track_caller]
    pub fn start(site: &'a Site, name: &str, options: &[&str]) -> Redis<'a> {
        Redis::start_any(site, name, None, options)
    }

    /// The same with a configuration file, as sentinels need.
    #[track_caller]
    pub fn start_with_file(site: &'a Site, name: &str, file: &Path, options: &[&str]) -> Redis<'a> {
        Redis::start_any(site, name, Some(file.to_owned()), options)
    }

    #[track_caller]
    fn start_any(site: &'a Site, name: &str, file: Option<PathBuf>, options: &[&str]) -> Redis<'a> {
        let mut redis = Redis {
            site,
            name: name.to_owned(),
            file,
            options: options.iter().map(|&word| word.to_owned()).collect(),
            child: None,
        };
        redis.restart();
        redis
    }

    /// Starts it again, empty, after [`Redis::kill`].
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let port = self.port().to_string();
        let log = std::fs::File::create(self.site.path(format!("logs/{}.log", self.name)))
            .expect("the site is writable");
        let child = Command::new("redis-server")
            .args(&self.file)
            .args(["--bind", "127.0.0.1", "--port", &port])
            .args(["--save", "", "--appendonly", "no"])
            .args(&self.options)
            .current_dir(self.site.path("temporary"))
            .stdin(Stdio::null())
            .stdout(log)
            .spawn()
            .expect("redis-server is installed (scripts/install-test-deps.sh)");
        self.child = Some(child);
        let tls = self.options.iter().any(|word| word == "--tls-port");
        wait_for("redis-server to listen", || {
            let mut socket = TcpStream::connect(("127.0.0.1", self.port())).ok()?;
            if tls {
                return Some(());
            }
            socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            socket.write_all(b"PING\r\n").ok()?;
            let mut line = String::new();
            BufReader::new(socket).read_line(&mut line).ok()?;
            (line.starts_with("+PONG") || line.starts_with("-NOAUTH")).then_some(())
        });
    }

    /// Its TCP port.
    pub fn port(&self) -> u16 {
        self.site.port(&self.name)
    }

    /// Lets it neither read nor answer; connections stay.
    #[track_caller]
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Ends [`Redis::pause`].
    #[track_caller]
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Ends it without a word.
    #[track_caller]
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("the child is ours");
        child.wait().expect("the child is ours");
    }

    /// Runs a command by `redis-cli` and gives its output, trimmed.
    #[track_caller]
    pub fn ask(&self, words: &[&str]) -> String {
        let port = self.port().to_string();
        let mut arguments = vec!["-p", &port, "--no-auth-warning"];
        if let Some(at) = self.options.iter().position(|word| word == "--requirepass") {
            arguments.extend(["-a", &self.options[at + 1]]);
        }
        arguments.extend(words);
        let outcome = command("redis-cli", &arguments, b"").success();
        outcome.text().trim().to_owned()
    }

    /// The names of all keys.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let keys = self.ask(&["--raw", "KEYS", "*"]);
        keys.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    fn signal(&self, name: &str) {
        let child = self.child.as_ref().expect("it runs");
        crate::upgrade::signal(child.id(), name);
    }
}

impl Drop for Redis<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // A paused process dies of KILL as well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
