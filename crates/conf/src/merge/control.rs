//! The server of `control_socket`, which is in no configuration and inherits from none.

use crate::diagnostic::{Diagnostic, Failure};
use crate::input::Options;
use crate::listen::MAX_UNIX_PATH_BYTES;
use crate::model::{Config, Http, ListenAddress, LogLevel};
use crate::parser::parse_own;
use std::path::{Path, PathBuf};

/// What it is, as one would write it. The path of the socket follows.
const TEXT: &str = "
    events {}
    http {
        access_log off;
        server {
            listen unix:control_socket;
            status_zone off;
            location = /metrics { metrics; }
            location /status/ { api; }
            location / { return 404; }
        }
    }";

/// Ends its name, in place of `.pid`.
const EXTENSION: &str = ".control.sock";

/// Where the socket is when no directive says so: beside the pid file, if there can be one.
pub(super) fn default_path(pid: &Path) -> Option<PathBuf> {
    let mut path = pid.to_owned();
    if path.extension().is_some_and(|extension| extension == "pid") {
        path.set_extension("");
    }
    path.as_mut_os_string().push(EXTENSION);
    let fits = path.as_os_str().len() <= MAX_UNIX_PATH_BYTES;
    // `pid /dev/null` is how one does without a pid file.
    (fits && !pid.starts_with("/dev")).then_some(path)
}

/// Adds the server of the control socket, if the configuration has both.
///
/// # Errors
/// When a `listen` line has the same address.
pub(crate) fn add_server(mut config: Config, options: &Options) -> Result<Config, Failure> {
    let (Some(path), Some(http)) = (&config.main.control_socket, &mut config.http) else {
        return Ok(config);
    };
    let address = ListenAddress::Unix(path.clone());
    if http.listeners.iter().any(|it| it.address == address) {
        let error = Diagnostic {
            level: LogLevel::Emerg,
            message: format!("\"listen\" and \"control_socket\" have the same address {address}"),
            place: None,
            help: Some("nothing else can be served at the control socket".to_owned()),
        };
        return Err(Failure {
            warnings: config.warnings,
            error: Box::new(error),
        });
    }
    let own = Options {
        globals: None,
        conf_path: PathBuf::from("control_socket"),
        ..options.clone()
    };
    let own = parse_own(&own, TEXT, &config.main.error_logs)?;
    append(http, own.http, address);
    Ok(config)
}

/// Adds a server and its listener, which become the last ones.
fn append(http: &mut Http, own: Option<Http>, address: ListenAddress) {
    let index = http.servers.len();
    for mut listener in own.iter().flat_map(|own| own.listeners.clone()) {
        listener.address = address.clone();
        listener.default_server = index;
        listener.servers = vec![index];
        listener.is_control = true;
        http.listeners.push(listener);
    }
    http.servers
        .extend(own.into_iter().flat_map(|own| own.servers));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::MemoryLoader;

    fn parsed(text: &str) -> Result<Config, Failure> {
        let mut files = MemoryLoader::new().with("/etc/nginx.conf", text);
        let options = Options {
            adds_control_server: true,
            ..Options::new("/etc/nginx.conf", "/srv")
        };
        crate::parse(&options, &mut files)
    }

    fn sockets(text: &str) -> Vec<String> {
        let config = parsed(text).expect("it is valid");
        let http = config.http.expect("there is one");
        let own = http.listeners.iter().filter(|it| it.is_control);
        own.map(|it| it.address.to_string()).collect()
    }

    #[test]
    fn the_socket_is_beside_the_pid_file_unless_a_directive_says_otherwise() {
        let http = "events {} http { server { listen 80; } }";
        for (main, expected) in [
            ("", Some("unix:/srv/logs/sealane.control.sock")),
            ("pid /run/nginx.pid;", Some("unix:/run/nginx.control.sock")),
            ("pid /run/nginx.1;", Some("unix:/run/nginx.1.control.sock")),
            ("pid /dev/null;", None),
            ("control_socket /run/a;", Some("unix:/run/a")),
            ("control_socket b.sock;", Some("unix:/srv/b.sock")),
            ("control_socket off;", None),
        ] {
            let expected: Vec<&str> = expected.into_iter().collect();
            assert_eq!(sockets(&format!("{main} {http}")), expected, "{main}");
            // As `pid`, it may follow the block.
            assert_eq!(sockets(&format!("{http} {main}")), expected, "{main}");
        }
        let long = format!("pid /{}.pid; {http}", "x".repeat(100));
        assert!(sockets(&long).is_empty());
    }

    #[test]
    fn it_is_the_last_server_and_inherits_nothing() {
        let text = "error_log /var/log/e info; events {} \
            http { deny all; auth_basic x; auth_basic_user_file f; server { listen 80; } }";
        let http = parsed(text)
            .expect("it is valid")
            .http
            .expect("there is one");
        assert_eq!((http.servers.len(), http.listeners.len()), (2, 2));
        let listener = &http.listeners[1];
        assert_eq!((listener.default_server, &*listener.servers), (1, &[1][..]));
        let conf = &http.servers[1].conf;
        assert!(conf.access_logs.is_empty());
        assert_eq!(conf.error_logs, http.servers[0].conf.error_logs);
    }

    #[test]
    fn nothing_else_is_served_there() {
        let failure =
            parsed("control_socket /run/s; events {} http { server { listen unix:/run/s; } }");
        let failure = failure.expect_err("both have the address");
        assert!(
            failure
                .error
                .message
                .contains("have the same address unix:/run/s")
        );
    }
}
