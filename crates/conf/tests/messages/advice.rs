//! What is said below an error: how to mend what people write wrong first.

use sealane_conf::{MemoryLoader, Options, parse};

#[test]
fn beginners_mistakes_come_with_what_to_write() {
    for (text, help) in [
        (
            "http { server { listen 443 http3 reuseport; } }",
            "write \"quic\": \"listen 443 quic;\"",
        ),
        (
            "http { server { listen [::]:443 quic ssl; } }",
            "use two lines: \"listen [::]:443 ssl;\" and \"listen [::]:443 quic;\"",
        ),
        (
            "http { http3_push on; }",
            "server push was dropped; remove the line",
        ),
        (
            "http { add_header Alt-Svc h3=\":443\"; ma=86400; }",
            "a value that contains \";\" must be in quotation marks",
        ),
        (
            "http { server { return 200 $session_time; } }",
            "it is used in /etc/nginx.conf:1; \"$session_time\" exists in \"stream\" only",
        ),
        (
            "stream { server { listen 1; return $request; } }",
            "it is used in /etc/nginx.conf:1; \"$request\" exists in \"http\" only",
        ),
        (
            "stream { access_log a; }",
            "\"stream\" has no predefined format: define one with \"log_format\", and name it after \
             the file",
        ),
        (
            "stream { access_log a combined; }",
            "\"stream\" has no predefined format: define one with \"log_format\", and name it after \
             the file",
        ),
        (
            "stream { server { listen 1; proxy_pass http://127.0.0.1:5; } }",
            "\"stream\" takes an address and a port, not a URL: \"proxy_pass 127.0.0.1:5432;\"",
        ),
        (
            "mail { auth_http https://127.0.0.1/; }",
            "the service is asked without TLS: \"auth_http 127.0.0.1:9000/auth;\"",
        ),
        (
            "mail { server { protocol imaps; } }",
            "it can be \"imap\", \"pop3\" or \"smtp\"; for TLS, add \"ssl\" to \"listen\"",
        ),
        (
            "mail { pop3_auth digest; }",
            "it can be \"plain\", \"apop\", \"cram-md5\", \"external\", \"xoauth2\", \"oauthbearer\"",
        ),
        (
            "mail { server { listen 25; } }",
            "add \"auth_http 127.0.0.1:9000/auth;\", the address of the service",
        ),
    ] {
        assert_eq!(help_for(text), help, "{text}");
    }
}

#[test]
fn contexts_are_those_of_the_block_where_they_might_be_mistaken() {
    for (text, help) in [
        ("http { ip_hash; }", "it is allowed in: upstream"),
        (
            "stream { upstream u { ip_hash; } }",
            "it is allowed in: upstream in http",
        ),
        (
            "stream { server { location / {} } }",
            "it is allowed in: server in http, location",
        ),
        ("mail { ssl on; }", "it is allowed in: http, server in http"),
        (
            "http { proxy_half_close on; }",
            "it is allowed in: stream, server in stream",
        ),
    ] {
        assert_eq!(help_for(text), help, "{text}");
    }
}

/// The advice with the error of a configuration.
fn help_for(text: &str) -> String {
    let mut files = MemoryLoader::new().with("/etc/nginx.conf", format!("events {{}} {text}"));
    let options = Options::new("/etc/nginx.conf", "/srv");
    let failure = parse(&options, &mut files).expect_err(text);
    failure.error.help.unwrap_or_default()
}
