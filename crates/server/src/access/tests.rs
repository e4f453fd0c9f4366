use crate::testing::Site;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::time::{Duration, Instant};

#[test]
fn a_refusal_waits_and_others_do_not() {
    let site = Site::new(
        "auth_delay 50ms; location /basic/ { auth_basic realm; auth_basic_user_file DIR/users; } \
         location /forbidden/ { deny all; } \
         location /asks/ { auth_request /401; } location = /401 { return 401; } \
         location /any/ { satisfy any; deny all; auth_basic realm; auth_basic_user_file DIR/users; }",
    );
    site.file("users", "user:{PLAIN}secret\n");
    for (target, status, waits) in [
        ("/forbidden/", 403, false),
        ("/basic/", 401, true),
        ("/asks/", 401, true),
        ("/any/", 401, true),
    ] {
        let lines = site.error_log().matches("delaying unauthorized").count();
        let begin = Instant::now();
        assert_eq!(site.get(target).status(), status, "{target}");
        let more = site.error_log().matches("delaying unauthorized").count() - lines;
        assert_eq!(more, usize::from(waits), "{target}");
        assert!(!waits || begin.elapsed() >= Duration::from_millis(50));
    }
}

#[test]
fn a_client_that_goes_is_not_waited_for() {
    let site = Site::new("auth_delay 1h; auth_basic realm; auth_basic_user_file DIR/users;");
    let mut exchange = site.exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    exchange.client.feed().set_gone();
    site.handle(&mut exchange);
    assert_eq!(exchange.response.status.0, 499);
    assert!(exchange.response.drop_connection);
}

#[test]
fn what_cannot_be_verified_is_refused_and_the_password_stays_out_of_the_log() {
    let site = Site::new("auth_basic realm; auth_basic_user_file DIR/users;");
    site.file(
        "users",
        "old:$gy$j9T$salt$hash\nplain:password1\nuser:{PLAIN}hidden\n",
    );
    for name in ["old", "plain", "user", "nobody"] {
        let credentials = STANDARD.encode(format!("{name}:password1"));
        let line = format!("Authorization: Basic {credentials}");
        assert_eq!(site.get_with("/", &[&line]).status(), 401, "{name}");
    }
    let log = site.error_log();
    assert!(log.contains("user \"old\": the password in"), "{log}");
    assert!(
        log.contains("has a scheme ($gy$) that is not supported"),
        "{log}"
    );
    for secret in ["password1", "hidden", "salt"] {
        assert!(!log.contains(secret), "{log}");
    }
}

/// Requests of many clients whose passwords take long to compare: all are answered, also
/// while all the slots are taken.
#[test]
fn many_slow_passwords_at_a_time() {
    let site = Site::new("auth_basic realm; auth_basic_user_file DIR/users;");
    site.file("a.txt", "in");
    // Of "secret".
    let stored = "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a";
    site.file("users", format!("user:{stored}\n"));
    let head = |password: &str| {
        let credentials = STANDARD.encode(format!("user:{password}"));
        format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n")
    };
    let statuses = site.block_on(async {
        let tasks: Vec<_> = (0..64)
            .map(|number| {
                let password = if number % 2 == 0 { "secret" } else { "wrong" };
                let mut exchange = site.exchange(&head(password));
                sealane_io::runtime::spawn_with_handle(async move {
                    crate::pipeline::handle(&mut exchange).await;
                    exchange.response.status.0
                })
            })
            .collect();
        let mut statuses = Vec::new();
        for task in tasks {
            statuses.push(task.await.expect("no task panics"));
        }
        statuses
    });
    let want: Vec<u16> = (0..64)
        .map(|number| if number % 2 == 0 { 200 } else { 401 })
        .collect();
    assert_eq!(statuses, want);
}
