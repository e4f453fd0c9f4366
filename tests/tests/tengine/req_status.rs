//! `req_status`: what is counted of real connections, and what a reload leaves of it.

use sealane_tests::reload::{self, Reload};
use sealane_tests::wire::{Connection, get};
use sealane_tests::{Site, wait_for};

fn configuration(size: &str) -> String {
    format!(
        "worker_processes 2; error_log logs/error.log info; pid logs/pid;
         events {{ }}
         http {{
           req_status_zone hosts \"$host,$uri\" {size};
           server {{
             listen 127.0.0.1:%plain%;
             req_status hosts;
             location / {{ return 200 text; }}
             location /missing {{ return 404; }}
             location /show {{ req_status_show; req_status_bypass 1;
               req_status_show_field conn_total req_total http_200 http_404 bytes_in bytes_out; }}
           }}
         }}"
    )
}

/// The numbers of a value, once they are these but for bytes.
fn wait_for_numbers(port: u16, value: &str, expected: [u64; 4]) -> Vec<u64> {
    wait_for("the numbers", || {
        let text = get(port, "/show").text();
        let line = text.lines().find_map(|line| line.strip_prefix(value))?;
        let numbers = line
            .split(',')
            .skip(1)
            .map(|it| it.parse().expect("a number"));
        let numbers: Vec<u64> = numbers.collect();
        (numbers[..4] == expected).then_some(numbers)
    })
}

#[test]
fn requests_are_counted_by_value_and_survive_a_reload() {
    let site = Site::new();
    let server = site.serve_whole(&configuration("1m"));
    let port = server.port("plain");
    let request = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut connection = Connection::open(port);
    let mut sent = 0;
    for _ in 0..3 {
        assert!(connection.send(request));
        assert_eq!(connection.response(false).status, 200);
        sent += request.len() as u64;
    }
    assert_eq!(get(port, "/missing").status, 404);
    let numbers = wait_for_numbers(port, "localhost,/a", [1, 3, 3, 0]);
    assert_eq!(numbers[4], sent);
    assert!(numbers[5] > 3 * 100, "{numbers:?}");
    wait_for_numbers(port, "localhost,/missing", [1, 1, 0, 1]);
    // The same zone goes on, one of another size begins anew.
    let reloaded = reload::reload(&site, &server, &configuration("1m"));
    assert_eq!(reloaded, Reload::Applied);
    assert!(connection.send(request));
    assert_eq!(connection.response(false).status, 200);
    wait_for_numbers(port, "localhost,/a", [1, 4, 4, 0]);
    let reloaded = reload::reload(&site, &server, &configuration("2m"));
    assert_eq!(reloaded, Reload::Applied);
    assert_eq!(get(port, "/show").text(), "");
}
