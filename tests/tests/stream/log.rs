//! What the error log says of sessions at level `info`.

use super::*;
use sealane_tests::nginx_has_stream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

/// Passes a session through each server, one after the other. Returns the lines about them, with
/// names in place of ports; the port that the server connects from is what its origin sees.
fn lines(program: Program) -> Vec<String> {
    let site = Site::new();
    let origin = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let to = origin.local_addr().expect("it is bound").port();
    let unix = site.path("origin.sock");
    let unix_origin = UnixListener::bind(&unix).expect("a new name");
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&unix, all).expect("it is ours");
    let unix = unix.display().to_string();
    let text = configuration(&format!(
        "server {{ listen 127.0.0.1:%tcp%; proxy_pass 127.0.0.1:{to}; }}
         server {{ listen 127.0.0.1:%unix%; proxy_pass unix:{unix}; }}"
    ));
    let server = Server::start(&site, program, &text);
    let mut lines = Vec::new();
    for name in ["tcp", "unix"] {
        let mut client = connect(server.port(name));
        let own = client.local_addr().expect("it is connected").port();
        client.write_all(b"hello").expect("it is taken");
        let mut ports = vec![
            (to, "ORIGIN"),
            (server.port(name), "SERVER"),
            (own, "CLIENT"),
        ];
        // Whether the server listens has been asked by connections that say nothing.
        let mut there = loop {
            let (mut there, local): (Box<dyn Read>, _) = match name {
                "tcp" => {
                    let (there, peer) = origin.accept().expect("a session");
                    (Box::new(there), Some(peer.port()))
                }
                _ => (Box::new(unix_origin.accept().expect("a session").0), None),
            };
            if there.read_exact(&mut [0; 5]).is_ok() {
                ports.extend(local.map(|port| (port, "LOCAL")));
                break there;
            }
        };
        drop(client);
        assert_eq!(there.read(&mut [0; 5]).expect("it ends"), 0);
        let of_session = wait_for("the end of the session in the log", || {
            let log = server.error_log();
            let begin = format!("client 127.0.0.1:{own} connected");
            let first = log.lines().find(|line| line.contains(&begin))?;
            let number = first.split_once('*')?.1.split_once(' ')?.0;
            let number = format!("*{number} ");
            let lines = log.lines().filter_map(|line| line.split_once(&number));
            let lines: Vec<String> = lines.map(|(_, line)| line.to_owned()).collect();
            lines.last()?.contains("disconnected").then_some(lines)
        });
        lines.extend(of_session.into_iter().map(|line| {
            let line = ports.iter().fold(line, |line, (port, name)| {
                line.replace(&format!(":{port}"), &format!(":{name}"))
            });
            line.replace(&unix, "/PATH")
        }));
    }
    lines
}

#[test]
fn it_says_where_sessions_come_from_and_go_to() {
    let end = "client disconnected, bytes from/to client:5/0, bytes from/to upstream:0/5";
    let ours = lines(Program::Sealane);
    assert_eq!(
        ours,
        [
            "client 127.0.0.1:CLIENT connected to 127.0.0.1:SERVER",
            "proxy 127.0.0.1:LOCAL connected to 127.0.0.1:ORIGIN",
            end,
            "client 127.0.0.1:CLIENT connected to 127.0.0.1:SERVER",
            "proxy unix: connected to unix:/PATH",
            end,
        ]
    );
    if !nginx_has_stream() {
        return sealane_needs::leave_out("this nginx has no \"stream\" to compare with");
    }
    assert_eq!(ours, lines(Program::Nginx));
}
