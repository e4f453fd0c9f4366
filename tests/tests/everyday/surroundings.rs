//! What a configuration finds where it is started: files, applications, and the paths and ports
//! of a test in the place of those that it names.

use crate::asking::{self, Answer};
use crate::sites::{self, Behind};
use sealane_tests::origin::{self, Origin};
use sealane_tests::{
    Application, Certificate, CertificateKey, Program, Server, Site, repository, wait_for,
};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

/// Seconds since 1970 of every file, 2021-11-09.
const MODIFIED_S: u64 = 1_636_416_000;

/// Beginnings of paths that lie in the test's directory.
const PATHS: &[&str] = &[
    "/etc/nginx",
    "/etc/ssl/nginx",
    "/var/www",
    "/var/log/nginx",
    "/srv/",
    "/opt/",
    "/run/",
];

/// A directory with one configuration and all that it names.
pub(crate) struct Place {
    site: Site,
    main: String,
    /// They run as long as the place is there.
    _applications: Vec<Application>,
    _origins: Vec<Origin>,
    _services: Vec<Service>,
}

/// The gRPC service of `tests/clients/grpc`.
struct Service {
    child: Child,
    port: u16,
}

impl Service {
    fn start() -> Service {
        // Debian's, which is where its python3-grpcio is.
        let mut child = Command::new("/usr/bin/python3")
            .arg("-B")
            .arg(repository().join("tests/clients/grpc/origin.py"))
            .arg("0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is installed");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        let _ = BufReader::new(output).read_line(&mut line);
        let port = line.trim().parse();
        let port = port.expect("the service starts (python3-grpcio is installed)");
        Service { child, port }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Ours; it may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Place {
    pub(crate) fn new(configured: &sites::Site) -> Place {
        let site = Site::new();
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_S);
        for (name, content) in configured.files {
            let path = site.write(name, content);
            let file = std::fs::File::open(path).expect("just written");
            file.set_modified(modified).expect("the file is ours");
        }
        for directory in [
            "run/php",
            "var/log/nginx",
            "var/www/html",
            "etc/nginx/conf.d",
        ] {
            std::fs::create_dir_all(site.path(directory)).expect("the site is writable");
        }
        for name in [
            "mime.types",
            "fastcgi_params",
            "fastcgi.conf",
            "proxy_params",
        ] {
            let text =
                std::fs::read(format!("/etc/nginx/{name}")).expect("Debian's nginx is installed");
            site.write(format!("etc/nginx/{name}"), &text);
            // Beside the configuration, where relative paths begin.
            site.write(name, text);
        }
        let mut texts = vec![configured.configuration(), configured.surroundings()];
        let (mut applications, mut origins, mut services) = (Vec::new(), Vec::new(), Vec::new());
        for (address, behind) in configured.behind {
            let port = match behind {
                Behind::Php => {
                    applications.push(Application::php_fpm(&site, "%site%/run/php/php-fpm.sock"));
                    continue;
                }
                Behind::Gunicorn => {
                    applications.push(Application::gunicorn(&site, "127.0.0.1:%gunicorn%"));
                    site.port("gunicorn")
                }
                Behind::WebSockets => {
                    applications.push(Application::web_socket(&site, "127.0.0.1:%chat%"));
                    site.port("chat")
                }
                Behind::Origin => {
                    origins.push(Origin::answering(answer));
                    origins[origins.len() - 1].port()
                }
                Behind::Grpc => {
                    services.push(Service::start());
                    services[services.len() - 1].port
                }
                Behind::Nobody => site.port("nobody"),
            };
            for text in &mut texts {
                *text = text.replace(address, &format!("127.0.0.1:{port}"));
            }
        }
        if texts[0].contains("ssl_certificate ") {
            for name in ["cloud", "site"] {
                site.certificate(&Certificate::localhost(name, CertificateKey::P256));
                for kind in ["pem", "key"] {
                    let from = site.path(format!("certificates/{name}.{kind}"));
                    let text = std::fs::read(from).expect("it was just made");
                    site.write(format!("etc/ssl/nginx/{name}.{kind}"), text);
                }
            }
        }
        let [own, main] = [&texts[0], &texts[1]].map(|text| placed(&site, text));
        let main = match main.is_empty() {
            true => own,
            false => {
                site.write("etc/nginx/sites-enabled/site", own);
                main
            }
        };
        Place {
            site,
            main,
            _applications: applications,
            _origins: origins,
            _services: services,
        }
    }

    /// Starts a server, sends it all requests, and ends it.
    pub(crate) fn ask_all(&self, program: Program, requests: &[String]) -> Vec<Answer> {
        let main = self.main.replace('%', "%%");
        let mut server = Server::start(&self.site, program, &main);
        let (plain, tls) = (self.site.port("plain"), self.site.port("tls"));
        // What listens stands in another file.
        wait_for("the server to listen", || {
            server.assert_running();
            TcpStream::connect(("127.0.0.1", plain)).ok()
        });
        for text in ["[alert]", "[crit]", "[emerg]"] {
            server.expect_alert(text);
        }
        requests
            .iter()
            .map(|request| asking::ask(request, plain, tls))
            .collect()
    }
}

/// The text with the test's directory before its paths, and the test's ports for 80 and 443.
fn placed(site: &Site, text: &str) -> String {
    let directory = site.path("");
    let directory = directory.display().to_string();
    let directory = directory.trim_end_matches('/');
    let mut out = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if line.trim_start().starts_with("listen") {
            for (known, name) in [("80", "plain"), ("443", "tls")] {
                let port = site.port(name);
                for end in [" ", ";"] {
                    line =
                        line.replace(&format!("[::]:{known}{end}"), &format!("[::1]:{port}{end}"));
                    line = line.replace(
                        &format!(" {known}{end}"),
                        &format!(" 127.0.0.1:{port}{end}"),
                    );
                }
            }
        } else if !line.trim_start().starts_with("location") {
            for path in PATHS {
                for before in [" ", "unix:"] {
                    line = line.replace(
                        &format!("{before}{path}"),
                        &format!("{before}{directory}{path}"),
                    );
                }
            }
        }
        out.push_str(&line);
        out.push('\n');
    }
    out
}

/// Says what it was asked, but for what is not compared: who says what about the connection.
fn answer(asked: &origin::Asked) -> origin::Answer {
    let text = asked.text();
    let mut lines: Vec<&str> = text.split("\r\n").filter(|line| !line.is_empty()).collect();
    // Without `proxy_http_version` nginx asks with HTTP/1.0 up to 1.29.6, and with 1.1 since.
    let first = lines.remove(0).replace(" HTTP/1.0", " HTTP/1.1");
    lines.retain(|line| !line.to_ascii_lowercase().starts_with("connection: close"));
    lines.sort_unstable();
    let mut body = format!("{first}\n{}\n", lines.join("\n")).into_bytes();
    body.extend_from_slice(&asked.body);
    let target = asked.target();
    let (status, more) = match target.split('?').next().unwrap_or_default() {
        path if path.ends_with("/missing") => ("404 Not Found", ""),
        path if path.ends_with("/forbidden") => ("403 Forbidden", ""),
        path if path.ends_with("/broken") => ("500 Internal Server Error", ""),
        path if path.ends_with("/login") => (
            "302 Found",
            "Location: /after?x=1\r\nSet-Cookie: id=1; Path=/\r\n",
        ),
        path if path.ends_with("/object") => (
            "200 OK",
            "ETag: \"0\"\r\nLast-Modified: Tue, 09 Nov 2021 00:00:00 GMT\r\nSet-Cookie: a=b\r\n\
             x-amz-request-id: 1\r\nx-amz-id-2: 2\r\nAccept-Ranges: bytes\r\n",
        ),
        path if path.ends_with("/json") => ("200 OK", "Cache-Control: no-cache\r\n"),
        _ => ("200 OK", "X-Powered-By: origin\r\n"),
    };
    let kind = if target.contains("json") {
        "application/json"
    } else {
        "text/plain"
    };
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    if !asked.head.starts_with(b"HEAD ") {
        bytes.extend_from_slice(&body);
    }
    origin::Answer::Send(bytes)
}

/// A file of `tests/everyday`.
pub(crate) fn file(name: &str) -> String {
    let path = repository().join("tests/tests/everyday").join(name);
    std::fs::read_to_string(path).expect("it is part of the repository")
}
