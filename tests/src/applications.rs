//! Programs behind the server under test: PHP-FPM, uwsgi, gunicorn, a small SCGI server,
//! a Dubbo provider, a WebSocket server and an MQTT broker.

use crate::{Site, command, repository, wait_for};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running program, killed with all its children when it is dropped.
#[derive(Debug)]
pub struct Application {
    child: Child,
    log: PathBuf,
}

impl Application {
    /// PHP-FPM with four processes, on a unix socket in the site or on the port behind a
    /// `%name%`. Its scripts are those of `tests/applications`, copied into `html`.
    #[track_caller]
    pub fn php_fpm(site: &Site, listen: &str) -> Application {
        let binary = php_fpm_binary();
        let listen = site.fill_in(listen);
        let page = std::fs::read(repository().join("tests/applications/page.php"));
        site.write("html/page.php", page.expect("it lies in the repository"));
        let configuration = format!(
            "[global]\ndaemonize = no\nerror_log = {log}\n\
             [www]\nlisten = {listen}\nlisten.mode = 0666\n\
             pm = static\npm.max_children = 4\nclear_env = yes\n\
             php_admin_flag[log_errors] = on\nphp_admin_flag[display_errors] = off\n\
             php_admin_flag[html_errors] = off\nphp_admin_value[output_buffering] = 4096\n\
             php_admin_value[post_max_size] = 64M\nphp_admin_value[upload_max_filesize] = 64M\n\
             php_admin_value[memory_limit] = 256M\n",
            log = site.path("logs/php-fpm.log").display(),
        );
        let file = site.write("php-fpm.conf", configuration);
        let file = file.display().to_string();
        let words = ["--allow-to-run-as-root", "--fpm-config", &file];
        Application::start(site, &binary, &words, &listen)
    }

    /// uwsgi with the application of `tests/applications/app.py`.
    #[track_caller]
    pub fn uwsgi(site: &Site, listen: &str) -> Application {
        let listen = site.fill_in(listen);
        let application = repository().join("tests/applications/app.py");
        let application = application.display().to_string();
        let temporary = site.path("temporary").display().to_string();
        let words = [
            "--plugin",
            "python3",
            "--socket",
            &listen,
            "--chmod-socket=666",
            "--wsgi-file",
            &application,
            "--master",
            "--die-on-term",
            "--processes",
            "2",
            "--buffer-size",
            "65535",
            "--chdir",
            &temporary,
        ];
        Application::start(site, Path::new("uwsgi"), &words, &listen)
    }

    /// The SCGI server of `tests/applications/scgi.py` on a port or a socket's path.
    #[track_caller]
    pub fn scgi(site: &Site, listen: &str) -> Application {
        let listen = site.fill_in(listen);
        let script = repository().join("tests/applications/scgi.py");
        let script = script.display().to_string();
        let address = listen.strip_prefix("127.0.0.1:").unwrap_or(&listen);
        let words = ["-B", &script, address];
        Application::start(site, Path::new("python3"), &words, &listen)
    }

    /// The Dubbo provider of `tests/applications/dubbo.py`, on a port.
    #[track_caller]
    pub fn dubbo(site: &Site, listen: &str) -> Application {
        let listen = site.fill_in(listen);
        let script = repository().join("tests/applications/dubbo.py");
        let script = script.display().to_string();
        let port = listen.rsplit(':').next().unwrap_or_default();
        let words = ["-B", &script, port];
        Application::start(site, Path::new("python3"), &words, &listen)
    }

    /// Apache Dubbo's own provider, on a port of the IPv6 loopback address: it refuses that of
    /// IPv4. `None` if `scripts/peers/build-dubbo.sh` was not run.
    #[track_caller]
    pub fn java_dubbo(site: &Site, listen: &str) -> Option<Application> {
        let cache = std::env::var_os("SEALANE_CACHE").map(PathBuf::from);
        let cache = cache.unwrap_or_else(|| repository().join(".cache"));
        let provider = cache.join("peers/dubbo-provider");
        if !provider.join("classes").is_dir() {
            return None;
        }
        let listen = site.fill_in(listen);
        let path = format!("{0}/classes:{0}/lib/*", provider.display());
        let port = listen.rsplit(':').next().unwrap_or_default();
        let words = [
            "-cp",
            &path,
            "-DDUBBO_IP_TO_BIND=::1",
            // Hessian reads the fields of exceptions.
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            "example.Provider",
            port,
        ];
        Some(Application::start(site, Path::new("java"), &words, &listen))
    }

    /// gunicorn with the application of `tests/applications/streaming.py`, on a port.
    #[track_caller]
    pub fn gunicorn(site: &Site, listen: &str) -> Application {
        let listen = site.fill_in(listen);
        let directory = repository()
            .join("tests/applications")
            .display()
            .to_string();
        let words = [
            "--bind",
            &listen,
            "--chdir",
            &directory,
            "--worker-class",
            "gthread",
            "--threads",
            "4",
            "--keep-alive",
            "5",
            "streaming:application",
        ];
        Application::start(site, Path::new("gunicorn"), &words, &listen)
    }

    /// The WebSocket server of `tests/applications/websocket.py` on a port. Debian's Python
    /// has the library.
    #[track_caller]
    pub fn web_socket(site: &Site, listen: &str) -> Application {
        let listen = site.fill_in(listen);
        let port = listen.rsplit(':').next().unwrap_or_default();
        let script = repository().join("tests/applications/websocket.py");
        let script = script.display().to_string();
        let words = ["-B", &script, "serve", port];
        Application::start(site, Path::new("/usr/bin/python3"), &words, &listen)
    }

    /// mosquitto, an MQTT broker, on a port; it logs everything that it does. `None` if it is not
    /// installed.
    #[track_caller]
    pub fn mosquitto(site: &Site, listen: &str) -> Option<Application> {
        let program = Path::new("/usr/sbin/mosquitto");
        if !program.exists() {
            return None;
        }
        let listen = site.fill_in(listen);
        let port = listen.rsplit(':').next().unwrap_or_default();
        let file = site.write(
            "mosquitto.conf",
            format!(
                "listener {port} 127.0.0.1\nallow_anonymous true\nlog_type all\nlog_dest stderr\n"
            ),
        );
        let file = file.display().to_string();
        Some(Application::start(site, program, &["-c", &file], &listen))
    }

    /// Any other program with these words, which is to listen on that address.
    #[track_caller]
    pub fn start(site: &Site, program: &Path, words: &[&str], listen: &str) -> Application {
        let name = program.file_name().expect("a program has a name");
        let log = site.path(format!("logs/{}.out", name.display()));
        let output = std::fs::File::create(&log).expect("the site is writable");
        let errors = output.try_clone().expect("a descriptor is left");
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| {
                let name = program.display();
                panic!("{name} is not installed (scripts/install-test-deps.sh): {error}")
            });
        let mut application = Application { child, log };
        wait_for(
            &format!("{} to listen on {listen}", program.display()),
            || {
                application.assert_running();
                match listen.starts_with('/') {
                    true => UnixStream::connect(listen).is_ok().then_some(()),
                    false => TcpStream::connect(listen).is_ok().then_some(()),
                }
            },
        );
        application
    }

    /// Panics with what the program has said if it has ended.
    #[track_caller]
    pub fn assert_running(&mut self) {
        let status = self.child.try_wait().expect("the child is ours");
        assert!(
            status.is_none(),
            "the application ended by itself: {status:?}\n{}",
            self.log()
        );
    }

    /// What the program has written to its standard output and error.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- application ----\n{}---- end ----", self.log());
        }
        // The group: these programs have workers.
        let group = format!("-{}", self.child.id());
        command("kill", &["-KILL", "--", &group], b"");
        let _ = self.child.wait();
    }
}

/// Debian's PHP-FPM has its version in its name.
#[track_caller]
fn php_fpm_binary() -> PathBuf {
    let programs = std::fs::read_dir("/usr/sbin").expect("/usr/sbin is a directory");
    let mut found: Vec<PathBuf> = programs
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("php-fpm"))
        })
        .collect();
    found.sort();
    found
        .pop()
        .expect("php-fpm is not installed (scripts/install-test-deps.sh)")
}
