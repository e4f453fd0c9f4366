//! How many subrequests a request may set off, whatever for, and how often it may say the same.

use sealane_tests::wire::{Connection, get};
use sealane_tests::{Server, Site, wait_for};
use std::io::Read;

/// What a GET brings until the server closes, which must be before there are 16 MiB.
fn bounded(server: &Server<'_>, path: &str) -> String {
    const MOST_BYTES: u64 = 16 << 20;
    let mut client = Connection::open(server.port("plain"));
    client.send(format!("GET {path} HTTP/1.0\r\nHost: a\r\n\r\n"));
    let mut answer = Vec::new();
    let read = client.socket().take(MOST_BYTES).read_to_end(&mut answer);
    read.expect("an answer");
    assert!(answer.len() < MOST_BYTES as usize, "it has no end");
    String::from_utf8(answer).expect("text")
}

/// Lines of the error log with this text.
fn lines(server: &Server<'_>, text: &str) -> Vec<String> {
    let log = server.error_log();
    let lines = log.lines().filter(|line| line.contains(text));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_page_that_includes_itself_twice_ends_and_says_little() {
    let site = Site::new();
    let include = "<!--# include virtual=\"/twice.html\" -->";
    site.write("html/twice.html", include.repeat(2));
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; ssi on; }");
    server.expect_alert("request reference counter overflow");
    let answer = bounded(&server, "/twice.html");
    assert!(answer.contains("[an error occurred while processing the directive]"));
    server.wait_for_log("message repeated");
    let cycles = lines(
        &server,
        "subrequests cycle while processing \"/twice.html\"",
    );
    assert_eq!(cycles.len(), 2, "{cycles:#?}");
    assert!(cycles[1].contains("] ") && cycles[1].contains(" times: [subrequests cycle"));
    let refused = "request reference counter overflow while processing \"/twice.html\", \
                   max_subrequests is 10000";
    let refused = lines(&server, refused);
    assert!(refused[0].contains("[crit]"), "{refused:#?}");
    assert!(refused.len() <= 2, "{refused:#?}");
}

#[test]
fn every_kind_of_subrequest_counts() {
    let site = Site::new();
    site.write("html/part", "part ");
    site.write(
        "html/three.html",
        "<!--# include virtual=\"/part\" -->".repeat(3),
    );
    let server = site.serve(
        "server { listen 127.0.0.1:%plain%; root html; max_subrequests 2;
            location /three.html { ssi on; ssi_silent_errors on; }
            location /added/ { addition_types *; add_before_body /part; add_after_body /part;
                alias %site%/html/; }
            location /added-too-much/ { max_subrequests 1; addition_types *; add_before_body /part;
                add_after_body /part; alias %site%/html/; }
            location /asked/ { max_subrequests 1; auth_request /part; alias %site%/html/; }
            location /refused/ { max_subrequests 0; auth_request /part; alias %site%/html/; }
            location /shown/ { max_subrequests 0; mirror /part; alias %site%/html/; } }",
    );
    server.expect_alert("request reference counter overflow");
    let port = server.port("plain");
    assert_eq!(get(port, "/three.html").text(), "part part ");
    assert_eq!(get(port, "/added/part").text(), "part part part ");
    let cut = bounded(&server, "/added-too-much/part");
    assert!(cut.ends_with("\r\n\r\npart part "), "{cut}");
    assert_eq!(get(port, "/asked/part").text(), "part ");
    assert_eq!(get(port, "/refused/part").status, 500);
    assert_eq!(get(port, "/shown/part").text(), "part ");
    let overflows = wait_for("every one to be logged", || {
        let lines = lines(&server, "request reference counter overflow");
        (lines.len() >= 4).then_some(lines)
    });
    assert_eq!(overflows.len(), 4, "{overflows:#?}");
}

/// They follow one another, and are as many as the file is long.
#[test]
fn pieces_count_while_they_last() {
    let site = Site::new();
    let text = "0123456789".repeat(1000);
    site.write("html/file.txt", &text);
    let server = site.serve(
        "server { listen 127.0.0.1:%origin%; root html; }
         server { listen 127.0.0.1:%plain%; slice 100; max_subrequests 1;
            location / { proxy_http_version 1.1; proxy_set_header Range $slice_range;
                proxy_pass http://127.0.0.1:%origin%; } }",
    );
    assert_eq!(get(server.port("plain"), "/file.txt").text(), text);
}

/// A request whose lines differ has a limit too, and others' lines are their own.
#[test]
fn lines_of_one_request_are_bounded() {
    let site = Site::new();
    let include = |number| format!("<!--# include virtual=\"/missing-{number}\" -->");
    let all: String = (0..3000).map(include).collect();
    site.write("html/all.html", all);
    let server = site.serve("server { listen 127.0.0.1:%plain%; root html; ssi on; }");
    for _ in 0..2 {
        bounded(&server, "/all.html");
    }
    wait_for("both to be over", || {
        let over = lines(&server, "2000 more messages about the same request");
        (over.len() == 2).then_some(())
    });
    let missing = lines(&server, "open() ");
    let written = missing
        .iter()
        .filter(|line| !line.contains(" more messages "));
    assert_eq!(written.count(), 2000);
}
