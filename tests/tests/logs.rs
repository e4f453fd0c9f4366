//! Where log lines go besides plain files: syslog servers, compressed files, files
//! with variables in their names; and what happens when they cannot go anywhere.

use sealane_tests::wire::{Connection, get};
use sealane_tests::{PATIENCE, Server, Site, command, wait_for};
use std::fs;
use std::io::Read;
use std::net::{Shutdown, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Requests on one connection; all of them must be answered.
fn requests(server: &Server<'_>, targets: impl IntoIterator<Item = String>) {
    let mut connection = Connection::open(server.port("plain"));
    for target in targets {
        connection.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(connection.response(false).status, 200, "{target}");
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[track_caller]
fn wait_for_text(path: &Path, wanted: &str) {
    wait_for(&format!("{} to be {wanted:?}", path.display()), || {
        (read(path) == wanted).then_some(())
    });
}

/// Lets everybody write there: the worker of a server that root has started is
/// somebody else.
fn open_to_all(path: &Path) {
    let mode = fs::Permissions::from_mode(0o777);
    fs::set_permissions(path, mode).expect("it is ours");
}

/// A syslog server that anybody may write to.
fn syslog_server(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).expect("the site is writable");
    open_to_all(path);
    socket
        .set_read_timeout(Some(PATIENCE))
        .expect("it is valid");
    socket
}

/// A datagram with what differs from run to run replaced: times, process, thread
/// and connection numbers, the site's directory.
fn normalised(datagram: &[u8], site: &Site) -> String {
    let text = String::from_utf8_lossy(datagram);
    let text = text.replace(&site.path("").display().to_string(), "SITE/");
    let mut out = String::new();
    let mut digits = false;
    // The priority and the status are of interest, any other number is not.
    let (priority, rest) = text.split_once('>').expect("a priority");
    out.push_str(priority);
    out.push('>');
    let (month, rest) = rest.split_at(3);
    assert!(
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".contains(month),
        "{text}"
    );
    for byte in rest.chars() {
        if byte.is_ascii_digit() {
            digits = true;
            continue;
        }
        if std::mem::take(&mut digits) {
            // A day may have one digit and a blank before it.
            out.truncate(out.trim_end().len() + usize::from(out.ends_with(' ')));
            out.push('#');
        }
        out.push(byte);
    }
    if digits {
        out.push('#');
    }
    out
}

fn datagrams_of(
    site: &Site,
    server: &Server<'_>,
    udp: &UdpSocket,
    unix: &UnixDatagram,
) -> Vec<String> {
    assert_eq!(get(server.port("plain"), "/a.txt").status, 200);
    assert_eq!(get(server.port("plain"), "/missing?q=%22").status, 404);
    let mut buffer = vec![0; 65536];
    let mut all = Vec::new();
    for _ in 0..2 {
        let length = udp.recv(&mut buffer).expect("an access line");
        all.push(normalised(&buffer[..length], site));
    }
    let mut errors = Vec::new();
    while errors.len() < 3 {
        let length = unix.recv(&mut buffer).expect("a line");
        let text = normalised(&buffer[..length], site);
        // What is said about starting and ending differs.
        if text.contains("/missing") || text.contains("/a.txt") {
            errors.push(text);
        }
    }
    errors.sort(); // access and error lines come by sockets of their own
    all.extend(errors);
    all
}

#[test]
fn datagrams_are_nginx_s() {
    let mut of_both = Vec::new();
    for nginx in [false, true] {
        let site = Site::new();
        site.write("html/a.txt", "hello");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let unix = syslog_server(&site.path("log"));
        udp.set_read_timeout(Some(PATIENCE)).expect("it is valid");
        let (port, path) = (
            udp.local_addr().expect("it is bound").port(),
            site.path("log").display().to_string(),
        );
        let http = format!(
            "log_format line '$request_method $request_uri \"$http_none\" $status';
             server {{
                 listen 127.0.0.1:%plain%; root html; server_name here;
                 access_log syslog:server=localhost:{port},facility=mail,tag=Web_1,severity=warn line;
                 access_log syslog:server=unix:{path},nohostname line;
                 error_log syslog:server=unix:{path},facility=daemon,severity=debug,tag=err info;
             }}"
        );
        let server = if nginx {
            site.serve_by_nginx(&http)
        } else {
            site.serve(&http)
        };
        of_both.push(datagrams_of(&site, &server, &udp, &unix));
    }
    assert_eq!(of_both[0], of_both[1]);
    assert!(of_both[0][0].starts_with("<20>"), "{:?}", of_both[0]);
}

#[test]
fn a_syslog_server_that_is_away_costs_nothing_and_its_return_is_noticed() {
    let site = Site::new();
    site.write("html/a.txt", "hello");
    let path = site.path("log");
    let server = site.serve(&format!(
        "log_format uri $uri; server {{ listen 127.0.0.1:%plain%; root html;
         access_log syslog:server=unix:{},nohostname uri; }}",
        path.display()
    ));
    server.expect_alert("syslog server \"unix:");
    requests(&server, ["/a.txt".into()]); // it is not there yet
    for round in 0..2 {
        wait_for("its absence to be said", || {
            let log = server.error_log();
            let absent = "cannot be written (2: No such file or directory); the service goes on";
            (log.matches(absent).count() > round).then_some(())
        });
        let socket = syslog_server(&path);
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).expect("the line that was kept");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert!(
            text.starts_with("<190>") && text.ends_with(" nginx: /a.txt"),
            "{text}"
        );
        // Closing is not enough: another test may be starting a program, which has all descriptors
        // until it is executed.
        socket.shutdown(Shutdown::Both).expect("it is open");
        drop(socket);
        fs::remove_file(&path).expect("it is ours");
        wait_for("the return to be said", || {
            let log = server.error_log();
            (log.matches("can be written again after").count() > round).then_some(())
        });
        requests(&server, ["/a.txt".into()]);
    }
    requests(&server, vec!["/a.txt".to_owned(); 100]);
}

#[test]
fn a_syslog_server_that_does_not_read_loses_lines_which_are_counted() {
    const LINES: usize = 4000;
    let site = Site::new();
    site.write("html/a.txt", "hello");
    let path = site.path("log");
    let socket = syslog_server(&path);
    let server = site.serve_with(
        "log_queue_size 64k;",
        "",
        &format!(
            "log_format uri $uri$uri$uri$uri$uri$uri; keepalive_requests 10000;
             server {{ listen 127.0.0.1:%plain%; root html;
             access_log syslog:server=unix:{} uri; }}",
            path.display()
        ),
    );
    server.expect_alert("lines for syslog server");
    requests(&server, vec!["/a.txt".to_owned(); LINES]);
    socket.set_nonblocking(true).expect("it is valid");
    let mut buffer = [0; 1024];
    let mut arrived = 0;
    wait_for("every line to arrive or be counted", || {
        while socket.recv(&mut buffer).is_ok() {
            arrived += 1;
        }
        let log = server.error_log();
        let lost = log.lines().filter_map(|line| {
            let (start, _) = line.split_once(" lines for syslog server")?;
            start.rsplit(' ').next()?.parse::<usize>().ok()
        });
        let lost: usize = lost.sum();
        (lost > 0 && arrived + lost == LINES).then_some(())
    });
}

#[test]
fn compressed_logs_hold_what_nginx_s_hold_and_are_written_at_the_end() {
    let mut of_both = Vec::new();
    for (nginx, signal) in [(false, "QUIT"), (false, "TERM"), (true, "QUIT")] {
        let site = Site::new();
        site.write("html/a.txt", "hello");
        let http = "log_format line '$uri $args $status'; server {
             listen 127.0.0.1:%plain%; root html;
             access_log logs/small.gz line gzip=9 buffer=1k;
             access_log logs/default.gz line gzip;
             access_log logs/plain.log line buffer=1m; }";
        let server = if nginx {
            site.serve_by_nginx(http)
        } else {
            site.serve(http)
        };
        requests(&server, (0..500).map(|number| format!("/a.txt?{number}")));
        assert!(server.stop(signal).success());
        let text = |name: &str| {
            let file = site.path(name).display().to_string();
            command("gzip", &["-dc", &file], b"").success().text()
        };
        let (small, default) = (text("logs/small.gz"), text("logs/default.gz"));
        let plain = read(&site.path("logs/plain.log"));
        assert_eq!(small, plain);
        assert_eq!(default, plain);
        assert!(
            fs::metadata(site.path("logs/default.gz"))
                .expect("it is there")
                .len()
                < 3000
        );
        of_both.push(plain);
    }
    assert_eq!(of_both[0].lines().count(), 500);
    assert!(of_both.iter().all(|text| *text == of_both[0]));
}

/// Log files that the worker has open.
fn open_logs(server: &Server<'_>, site: &Site) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", server.worker_pid()));
    let open = open.expect("it runs").flatten();
    let targets = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets
        .filter(|target| target.starts_with(site.path("names")))
        .count()
}

#[test]
fn variables_in_paths() {
    for nginx in [false, true] {
        let site = Site::new();
        site.write("html/a.txt", "hello");
        site.write("names/.keep", "");
        open_to_all(&site.path("names"));
        let http = "log_format line '$uri'; server {
             listen 127.0.0.1:%plain%; open_log_file_cache max=2 inactive=60s valid=60s;
             location / { root html; access_log names/$arg_to.log line; }
             location = /nowhere { root missing; return 200 x; access_log names/nowhere$arg_to.log line; }
             location = /uncached { root html; return 200 x; open_log_file_cache off;
                                    access_log names/$arg_to.log line; } }";
        let server = if nginx {
            site.serve_by_nginx(http)
        } else {
            site.serve(http)
        };
        server.expect_alert("log files \"");
        server.expect_alert("names/no/directory.log\" failed (2: No such file or directory)");
        for round in 1..=3 {
            for name in ["a", "b", "c", "d"] {
                requests(
                    &server,
                    [format!("/a.txt?to={name}"), format!("/uncached?to={name}")],
                );
                let file = site.path(format!("names/{name}.log"));
                wait_for("both lines", || {
                    let lines = read(&file);
                    let (plain, direct) = (lines.matches("/a.txt\n"), lines.matches("/uncached\n"));
                    (plain.count() == round && direct.count() == round).then_some(())
                });
                // A file that is not kept open is closed after its line was written.
                wait_for("no more than are kept open", || {
                    (open_logs(&server, &site) <= 2).then_some(())
                });
            }
        }
        requests(
            &server,
            ["/nowhere?to=1".into(), "/a.txt?to=no/directory".into()],
        );
        requests(&server, ["/a.txt?to=last".into()]);
        wait_for_text(&site.path("names/last.log"), "/a.txt\n");
        assert!(
            !site.path("names/nowhere1.log").exists(),
            "its root is missing"
        );
        if nginx {
            continue; // it looks at the name when `valid=` has passed only
        }
        server.wait_for_log("lines for log files \"");
        fs::rename(site.path("names/last.log"), site.path("names/old")).expect("it is there");
        server.signal("USR1");
        wait_for("the files to be closed", || {
            (open_logs(&server, &site) == 0).then_some(())
        });
        requests(&server, ["/a.txt?to=last".into()]);
        wait_for_text(&site.path("names/last.log"), "/a.txt\n");
        assert_eq!(read(&site.path("names/old")), "/a.txt\n");
    }
}

#[test]
fn logs_that_cannot_be_written_hold_up_no_request() {
    const LINES: usize = 3000;
    let site = Site::new();
    site.write("html/a.txt", "hello");
    site.write("gone/log", "");
    let fifo = site.path("logs/fifo");
    command("mkfifo", &[fifo.display().to_string()], b"").success();
    let server = site.serve_with(
        "log_queue_size 64k;",
        "",
        "log_format uri $uri$uri$uri$uri$uri$uri$uri$uri; keepalive_requests 10000; server {
         listen 127.0.0.1:%plain%; root html;
         access_log logs/fifo uri; access_log /dev/full uri; access_log gone/log uri;
         access_log logs/fine uri; }",
    );
    server.expect_alert("lines for log file");
    server.expect_alert("/dev/full");
    server.expect_alert("gone/log");
    fs::remove_dir_all(site.path("gone")).expect("it is ours");
    requests(&server, vec!["/a.txt".to_owned(); LINES]);
    server.wait_for_log("log file \"/dev/full\" cannot be written (28: No space left on device)");
    server.signal("USR1"); // the directory is gone: the file that is open stays in use
    server.wait_for_log("gone/log\" failed (2: No such file or directory)");
    wait_for("the good log to have every line", || {
        (read(&site.path("logs/fine")).lines().count() == LINES).then_some(())
    });
    let dropped = server.wait_for_log("lines for log file \"");
    assert!(
        dropped.contains("were dropped") && dropped.contains("logs/fifo"),
        "{dropped}"
    );
    // A reader gets what has been kept, in whole lines.
    let mut reader = fs::File::open(&fifo).expect("it is ours");
    let arrived = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        text
    });
    assert!(server.stop("QUIT").success());
    let arrived = arrived.join().expect("no panic");
    assert!(arrived.lines().count() > 1000, "pipe and queue hold more");
    assert!(arrived.lines().all(|line| line == "/a.txt".repeat(8)));
}

#[test]
fn compressed_logs_can_be_read_after_rotation_and_a_crash() {
    let site = Site::new();
    site.write("html/a.txt", "hello");
    let server = site.serve(
        "log_format line '$args'; server { listen 127.0.0.1:%plain%; root html;
         access_log logs/all.gz line gzip=1 buffer=1k; }",
    );
    for alert in ["crashed: signal", "exited on signal", "#", "names of these"] {
        server.expect_alert(alert);
    }
    let send = |numbers: std::ops::Range<usize>| {
        requests(
            &server,
            numbers.map(|number| format!("/a.txt?line-{number}")),
        );
    };
    send(0..500);
    fs::rename(site.path("logs/all.gz"), site.path("logs/old.gz")).expect("it is there");
    server.signal("USR1");
    // Said by the master and by the worker.
    wait_for("both to go on in a new file", || {
        let said = server.error_log().matches(": reopening logs").count();
        (said == 2).then_some(())
    });
    send(500..1000);
    let text = |name: &str| {
        let file = site.path(name).display().to_string();
        command("zcat", &[&file], b"").success().text()
    };
    // The rest is in the buffer, which holds about 100, until another line comes.
    wait_for("what fills buffers to be written", || {
        // A member may be half written, or none be there yet.
        let file = site.path("logs/all.gz").display().to_string();
        let read = command("zcat", &[&file], b"");
        (read.status == 0 && read.text().lines().count() > 300).then_some(())
    });
    let worker = server.worker_pid();
    command("kill", &["-SEGV", &worker.to_string()], b"").success();
    wait_for("another worker", || {
        let workers = server.worker_pids();
        workers.first().filter(|pid| **pid != worker).map(|_| ())
    });
    send(1000..1500);
    assert!(server.stop("QUIT").success());
    // Members are whole; what the buffer held is lost with the worker that held it.
    let all = text("logs/old.gz") + &text("logs/all.gz");
    let has = |number: usize| all.contains(&format!("line-{number}\n"));
    assert!((0..500).chain(1000..1500).all(has), "{all}");
    let kept = (500..1000).filter(|number| has(*number)).count();
    assert!(kept > 300, "{kept} of 500");
}

#[test]
fn a_log_server_that_is_restarted_gets_datagrams_again() {
    let site = Site::new();
    site.write("html/a.txt", "hello");
    let bind = |address: &str| {
        let socket = UdpSocket::bind(address).expect("a free port");
        socket
            .set_read_timeout(Some(PATIENCE))
            .expect("it is valid");
        socket
    };
    let first = bind("127.0.0.1:0");
    let address = first.local_addr().expect("it is bound").to_string();
    let server = site.serve(&format!(
        "log_format args $args; server {{ listen 127.0.0.1:%plain%; root html;
         access_log syslog:server={address} args; }}"
    ));
    let mut buffer = [0; 1024];
    let mut receive = |socket: &UdpSocket| {
        let length = socket.recv(&mut buffer).expect("a line");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        text.rsplit(' ').next().unwrap_or_default().to_owned()
    };
    requests(&server, ["/a.txt?before".into()]);
    assert_eq!(receive(&first), "before");
    drop(first);
    // The answer to what nobody took comes with a later datagram; and a program that another test
    // is starting has the socket until it is executed.
    wait_for("the refusal to be said", || {
        requests(&server, ["/a.txt?meanwhile".into()]);
        let log = server.error_log();
        let refused = "sendto() failed (111: Connection refused)";
        log.contains(refused).then_some(())
    });
    let second = bind(&address);
    requests(&server, ["/a.txt?after-1".into(), "/a.txt?after-2".into()]);
    while receive(&second) != "after-2" {}
}

#[test]
fn a_disk_that_is_full_holds_up_no_request_and_is_used_again() {
    const LINES: usize = 4000;
    let site = Site::new();
    site.write("html/a.txt", "hello");
    fs::create_dir(site.path("small")).expect("new");
    let small = site.path("small").display().to_string();
    // A file system of 128 KiB that only the server sees, most of it taken.
    let mount = format!(
        "mount -t tmpfs -o size=128k,mode=755 none {small} && head -c 65536 /dev/zero > {small}/other"
    );
    let unshare = ["-m", "sh", "-c", &mount];
    if command("unshare", &unshare, b"").status != 0 {
        sealane_needs::root();
        return sealane_needs::leave_out("not even root may mount here (CAP_SYS_ADMIN)");
    }
    let wrapper = format!("{mount} && exec \"$0\" \"$@\"");
    let server = Server::start_under(
        &site,
        sealane_tests::Program::Sealane,
        "error_log logs/error.log notice; log_queue_size 64k;
         events { worker_connections 64; }
         http { log_format uri $uri$uri$uri$uri$uri$uri$uri$uri; keepalive_requests 10000;
             server { listen 127.0.0.1:%plain%; root html; access_log small/log uri; } }",
        &["unshare", "-m", "sh", "-c", &wrapper],
    );
    server.expect_alert("small/log");
    requests(&server, vec!["/a.txt".to_owned(); LINES]);
    server.wait_for_log("small/log\" cannot be written (28: No space left on device)");
    let seen = |name: &str| format!("/proc/{}/root{small}/{name}", server.pid());
    // More room than lines can have been written.
    let resize = format!("mount -o remount,size=1m {small}");
    let pid = server.pid().to_string();
    command("nsenter", &["-m", "-t", &pid, "sh", "-c", &resize], b"").success();
    let line = server.wait_for_log("can be written again after");
    let lost = line
        .rsplit_once("; ")
        .and_then(|(_, rest)| rest.split(' ').next());
    let lost: usize = lost.and_then(|lost| lost.parse().ok()).expect("a number");
    assert!(lost > 0, "{line}");
    let written = || fs::read_to_string(seen("log")).unwrap_or_default();
    wait_for("every line to be there or counted", || {
        (written().lines().count() + lost == LINES).then_some(())
    });
    assert!(written().lines().all(|line| line == "/a.txt".repeat(8)));
}
