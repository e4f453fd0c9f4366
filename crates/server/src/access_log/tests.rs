use crate::testing::Site;

/// The lines that a request leaves; `log` follows a format called `x`.
fn lines(format: &str, log: &str, request: &str) -> Vec<String> {
    let site = Site::with_http(&format!(
        "log_format x {format}; server {{ listen 127.0.0.1:80; server_name site; {log} }}"
    ));
    site.file("a.txt", "hello");
    let mut exchange = site.exchange(request);
    site.handle(&mut exchange);
    exchange.transfer.sent_bytes = 250;
    exchange.transfer.head_bytes = 245;
    crate::pipeline::log_access(&exchange);
    let log = std::fs::read_to_string(site.root().join("access.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

const REQUEST: &str =
    "GET /a.txt?q HTTP/1.1\r\nHost: a\r\nUser-Agent: \"Agent\"\\\x01\u{e9}\r\nReferer: \r\n\r\n";

#[test]
fn the_combined_format() {
    let lines = lines("''", "access_log DIR/access.log;", REQUEST);
    let [line] = &lines[..] else {
        panic!("{lines:?}")
    };
    let (start, rest) = line.split_once(" [").expect("the time's bracket");
    let (time, end) = rest.split_once("] ").expect("the time ends");
    assert_eq!(start, "192.0.2.7 - -");
    assert_eq!(time.len(), 26);
    assert_eq!(
        end,
        r#""GET /a.txt?q HTTP/1.1" 200 5 "" "\x22Agent\x22\x5C\x01\xC3\xA9""#
    );
}

#[test]
fn absent_values_are_dashes_only_by_default() {
    let lines = |escape: &str| {
        let format = format!("{escape} '$http_none|$http_referer|$http_user_agent|$status'");
        lines(&format, "access_log DIR/access.log x;", REQUEST)
    };
    assert_eq!(lines(""), [r#"-||\x22Agent\x22\x5C\x01\xC3\xA9|200"#]);
    assert_eq!(
        lines("escape=json"),
        ["||\\\"Agent\\\"\\\\\\u0001\u{e9}|200"]
    );
    assert_eq!(lines("escape=none"), ["||\"Agent\"\\\x01\u{e9}|200"]);
}

#[test]
fn several_logs_and_conditions() {
    let two = "access_log DIR/access.log x; access_log DIR/access.log x if=$arg_log;";
    assert_eq!(lines("$status", two, REQUEST), ["200"]);
    for (value, count) in [("0", 1), ("1", 2), ("no", 2), ("", 1)] {
        let request = format!("GET /a.txt?log={value} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(lines("$status", two, &request).len(), count, "{value:?}");
    }
    assert!(lines("$status", "access_log off;", REQUEST).is_empty());
}

#[test]
fn a_client_cannot_forge_a_line() {
    let lines = lines(
        "$uri",
        "access_log DIR/access.log x;",
        "GET /a%0d%0a127.0.0.1%20-%20forged HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(lines, [r"/a\x0D\x0A127.0.0.1 - forged"]);
}

#[test]
fn a_sample_is_as_large_as_its_ratio() {
    for (millionths, expected) in [(1_000_000, 1000), (250_000, 250), (10_000, 10), (1, 0)] {
        let sample = super::LogSample::new(millionths);
        let taken = (0..1000).filter(|_| sample.takes()).count();
        assert_eq!(taken, expected, "{millionths}");
    }
}
