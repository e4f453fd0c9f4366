//! Who is let in, how often, and with which cookies, with what is logged.

use super::files::some_files;
use super::{Files, compare_http};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use md5::Digest;

/// Clients say who they are.
const ANYBODY: &str = "set_real_ip_from 0.0.0.0/0; real_ip_header X-Real-IP;";

#[test]
fn addresses() {
    compare_http(
        ANYBODY,
        "deny 10.0.0.9; allow 10.0.0.0/8; deny all; \
         location /own/ { allow 192.0.2.0/24; } \
         location /inherits/ { return 200 in; } \
         location /v6/ { allow 2001:db8::/32; deny 2001:db9::1; allow 10.1.0.0/16; deny all; } \
         location /only6/ { deny ::/0; } \
         location /mapped6/ { deny ::ffff:10.0.0.0/104; } \
         location /unix/ { allow unix:; deny all; } \
         location /open/ { allow all; alias DIR/; } \
         location /static/ { alias DIR/; } \
         location /rewritten/ { rewrite ^/rewritten/(.*)$ /static/$1 last; } \
         location /page/ { error_page 403 /open/a.txt; deny all; } \
         location /pages/ { error_page 403 /static/a.txt; deny all; } \
         location /named/ { error_page 403 = @named; deny all; } \
         location @named { allow all; return 200 named:$status; }",
        some_files,
        &[
            "GET /static/a.txt",
            "GET /static/a.txt|X-Real-IP: 10.0.0.9",
            "GET /static/a.txt|X-Real-IP: 10.0.0.8",
            "HEAD /static/a.txt|X-Real-IP: 10.0.0.9",
            "GET /static/a.txt|X-Real-IP: ::1",
            "GET /own/a.txt|X-Real-IP: 10.0.0.9",
            "GET /own/a.txt|X-Real-IP: 192.0.2.1",
            "GET /inherits/a.txt|X-Real-IP: 10.0.0.9",
            "GET /v6/a|X-Real-IP: 2001:db8:1::1",
            "GET /v6/a|X-Real-IP: 2001:db9::1",
            "GET /v6/a|X-Real-IP: 2001:db9::2",
            "GET /v6/a|X-Real-IP: 10.1.0.1",
            "GET /v6/a|X-Real-IP: ::ffff:10.1.0.1",
            "GET /v6/a|X-Real-IP: ::ffff:10.2.0.1",
            "GET /only6/a|X-Real-IP: ::ffff:10.2.0.1",
            "GET /only6/a|X-Real-IP: 10.2.0.1",
            "GET /only6/a|X-Real-IP: 2001:db9::2",
            "GET /mapped6/a|X-Real-IP: ::ffff:10.2.0.1",
            "GET /mapped6/a|X-Real-IP: ::ffff:11.2.0.1",
            "GET /unix/a|X-Real-IP: 10.2.0.1",
            "GET /open/a.txt|X-Real-IP: 10.0.0.9",
            "GET /rewritten/a.txt|X-Real-IP: 10.0.0.9",
            "GET /rewritten/a.txt|X-Real-IP: 10.0.0.8",
            "GET /page/a.txt",
            "POST /page/a.txt|Content-Length: 2",
            "GET /pages/a.txt",
            "GET /named/a.txt",
        ],
    );
}

fn credentials(text: impl AsRef<[u8]>) -> String {
    format!("Authorization: Basic {}", STANDARD.encode(text))
}

fn with_users(files: &Files) {
    some_files(files);
    let users = "# comment\nplain:{PLAIN}secret\nmd5:$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1\n\
         apr:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/:rest\r\ndes:abNANd1rDfiNc\n\
         sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n\
         ssha:{SSHA}1G904nLkTkGWjKNnQuB/hpWXC/hzYWx0c2FsdA==\n\
         yes:$y$j75$abcdefghijklmno.$Pn8sxQPHVTdAnM9GGNj8GPFUmfKJYY0lO2Oh12De2yB\n\
         bc:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n\
         five:$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA\n\
         short:$1$abc\nempty:\nbad:{SHA}short\nlast:{PLAIN}se:cret";
    files
        .file("users", users)
        .file("dir/users", "own:{PLAIN}x\n");
}

#[test]
fn names_and_passwords() {
    let mut requests = vec![
        "GET /a.txt".to_owned(),
        "HEAD /a.txt".to_owned(),
        "GET /a.txt|Authorization: Bearer x".to_owned(),
        "GET /a.txt|Authorization: Basic".to_owned(),
        "GET /a.txt|Authorization: Basic ====".to_owned(),
        "GET /a.txt|Authorization: Basic cGxhaW46c2VjcmV".to_owned(),
        "GET /a.txt|Authorization: Basic cGxhaW46c2VjcmV0".to_owned(),
        "GET /a.txt|Authorization: basic    cGxhaW46c2VjcmV0==".to_owned(),
        "GET /a.txt|Authorization: Basic cGxhaW46c2VjcmV0 x".to_owned(),
        "GET /a.txt|Authorization: Basic cGxh*W46c2VjcmV0".to_owned(),
    ];
    let pairs: &[&[u8]] = &[
        b"plain:secret",
        b"plain:Secret",
        b"plain:secre",
        b"plain:secrets",
        b"plain:secret\0and more",
        b"plain:",
        b"plain",
        b":secret",
        b"md5:secret",
        b"md5:secrets",
        b"apr:secret",
        b"apr:wrong",
        b"des:secret",
        b"des:wrong",
        b"sha:secret",
        b"sha:wrong",
        b"ssha:secret",
        b"ssha:wrong",
        b"yes:secret",
        b"yes:wrong",
        b"bc:secret",
        b"bc:wrong",
        b"five:secret",
        b"five:wrong",
        b"short:secret",
        b"bad:secret",
        b"last:se",
        b"last:se:cret",
        b"# comment:",
        b"nobody:secret",
        b"p:secret",
        b"\xc3\xa9:x",
    ];
    for pair in pairs {
        requests.push(format!("GET /a.txt|{}", credentials(pair)));
    }
    for more in [
        "GET /off/",
        "GET /no-file/",
        "GET /missing/",
        "GET /directory/",
        "GET /in/?file=users&realm=off",
        "GET /in/?file=users&realm=one",
        "GET /in/?file=dir/users&realm=two",
        "GET /in/?file=none&realm=two",
        "GET /page/",
        "GET /open/",
    ] {
        requests.push(more.to_owned());
        requests.push(format!("{more}|{}", credentials("plain:secret")));
        requests.push(format!("{more}|{}", credentials("own:x")));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        "",
        "auth_basic \"the realm\"; auth_basic_user_file DIR/users; add_header X-User \"[$remote_user]\" always; \
         location /off/ { auth_basic off; return 200 off; } \
         location /open/ { auth_basic off; alias DIR/; } \
         location /no-file/ { auth_basic other; alias DIR/; } \
         location /missing/ { auth_basic_user_file DIR/missing; alias DIR/; } \
         location /directory/ { auth_basic_user_file DIR/dir; alias DIR/; } \
         location /in/ { auth_basic $arg_realm; auth_basic_user_file DIR/$arg_file; alias DIR/; } \
         location /page/ { error_page 401 /open/a.txt; }",
        with_users,
        &requests,
    );
}

#[test]
fn satisfying_all_or_any() {
    let good = credentials("plain:secret");
    let bad = credentials("plain:wrong");
    let mut requests = Vec::new();
    for location in [
        "any",
        "all",
        "any-asks",
        "all-asks",
        "asks",
        "any-none",
        "any-403",
        "any-500",
        "any-basic",
    ] {
        for who in ["", "|X-Real-IP: 10.0.0.1", "|X-Real-IP: 11.0.0.1"] {
            for how in ["", &good, &bad] {
                let bar = if how.is_empty() { "" } else { "|" };
                requests.push(format!("GET /{location}/a.txt{who}{bar}{how}"));
            }
        }
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        ANYBODY,
        "allow 10.0.0.0/8; deny 192.0.2.0/24; deny 127.0.0.0/8; auth_basic_user_file DIR/users; \
         location /any/ { satisfy any; auth_basic realm; alias DIR/; } \
         location /all/ { auth_basic realm; alias DIR/; } \
         location /any-asks/ { satisfy any; auth_basic realm; auth_request /granted; alias DIR/; } \
         location /all-asks/ { auth_basic realm; auth_request /granted; alias DIR/; } \
         location /asks/ { satisfy any; auth_request /401; alias DIR/; } \
         location /any-none/ { satisfy any; alias DIR/; } \
         location /any-403/ { satisfy any; auth_basic realm; auth_request /403; alias DIR/; } \
         location /any-500/ { satisfy any; auth_request /500; auth_basic realm; alias DIR/; } \
         location /any-basic/ { satisfy any; auth_basic realm; alias DIR/; if ($uri) { set $x 1; } } \
         location = /granted { return 204; } \
         location = /401 { add_header WWW-Authenticate \"Basic realm=asked\" always; return 401; } \
         location = /403 { return 403; } location = /500 { return 500; }",
        with_users,
        &requests,
    );
}

#[test]
fn other_settings_for_other_methods() {
    let mut requests = Vec::new();
    for location in [
        "get",
        "post",
        "all",
        "script",
        "tries",
        "basic",
        "status",
        "nested",
        "nested/in",
        "named",
        "if",
        "internal",
        "re",
    ] {
        for method in ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "BREW"] {
            let body = match method {
                "POST" | "PUT" => "|Content-Length: 3",
                _ => "",
            };
            requests.push(format!("{method} /{location}/a.txt{body}"));
        }
    }
    requests.push(format!("POST /basic/a.txt|{}", credentials("plain:secret")));
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        "",
        "location /get/ { alias DIR/; limit_except GET { deny all; } } \
         location /post/ { alias DIR/; limit_except post { deny all; } } \
         location /all/ { deny all; alias DIR/; limit_except GET POST { allow all; } } \
         location /script/ { limit_except GET { allow all; } return 200 script; } \
         location /tries/ { try_files /a.txt =404; limit_except GET { allow all; } } \
         location /basic/ { alias DIR/; limit_except GET { auth_basic realm; auth_basic_user_file DIR/users; } } \
         location /status/ { stub_status; limit_except GET HEAD { allow all; } } \
         location /nested/ { alias DIR/; limit_except GET { deny all; } location /nested/in/ { return 200 in; } } \
         location /named/ { error_page 404 = @named; } \
         location @named { limit_except GET { deny all; } return 200 named; } \
         location /if/ { limit_except GET { deny all; } if ($request_method = POST) { return 200 if; } return 201 no; } \
         location /internal/ { internal; limit_except GET { deny all; } } \
         location ~ ^/re/(.*)$ { limit_except GET { deny all; } return 200 $1; }",
        with_users,
        &requests
            .iter()
            .copied()
            .filter(|request| {
                !request.starts_with("GET /status") && !request.starts_with("HEAD /status")
            })
            .collect::<Vec<_>>(),
    );
}

#[test]
fn limits_of_requests() {
    // Nothing drips out of these buckets while the test runs.
    compare_http(
        "limit_req_zone $arg_key zone=key:1m rate=1r/m; limit_req_zone $uri zone=uri:1m rate=1r/m; \
         limit_req_zone $arg_other zone=other:1m rate=1r/m;",
        "add_header X-Status $limit_req_status always; error_page 429 = /open/a.txt; \
         location /one/ { limit_req zone=key; alias DIR/; } \
         location /burst/ { limit_req zone=key burst=2 nodelay; alias DIR/; } \
         location /status/ { limit_req zone=key; limit_req_status 429; limit_req_log_level warn; alias DIR/; } \
         location /dry/ { limit_req zone=key; limit_req_dry_run on; alias DIR/; } \
         location /dry-delay/ { limit_req zone=key burst=9; limit_req_dry_run on; alias DIR/; } \
         location /two/ { limit_req zone=uri burst=1 nodelay; limit_req zone=key burst=1 delay=1; alias DIR/; } \
         location /asks/ { limit_req zone=key; auth_request /one/a.txt; alias DIR/; } \
         location /asked/ { auth_request /limited/a.txt; limit_req zone=other; alias DIR/; } \
         location /limited/ { limit_req zone=key; alias DIR/; } \
         location /open/ { limit_req zone=key; alias DIR/; } \
         location /named/ { error_page 503 = @named; limit_req zone=key; alias DIR/; } \
         location @named { limit_req zone=uri; return 200 named:$limit_req_status; }",
        some_files,
        &[
            "GET /one/a.txt",
            "GET /one/a.txt",
            "GET /one/a.txt?key=1",
            "GET /one/a.txt?key=1",
            "HEAD /one/a.txt?key=1",
            "GET /burst/a.txt?key=2",
            "GET /burst/a.txt?key=2",
            "GET /burst/a.txt?key=2",
            "GET /burst/a.txt?key=2",
            "GET /one/a.txt?key=2",
            "GET /status/a.txt?key=3",
            "GET /status/a.txt?key=3",
            "GET /dry/a.txt?key=4",
            "GET /dry/a.txt?key=4",
            "GET /dry-delay/a.txt?key=5",
            "GET /dry-delay/a.txt?key=5",
            "GET /two/a.txt?key=6",
            "GET /two/a.txt?key=6",
            "GET /two/a.txt?key=6",
            "GET /two/z.txt",
            "GET /two/z.txt",
            "GET /two/z.txt",
            "GET /two/z.txt?key=7",
            "GET /two/dir/x.TXT?key=6",
            "GET /asks/a.txt?key=8",
            "GET /asks/a.txt?key=8",
            "GET /asked/a.txt?key=9",
            "GET /asked/a.txt?key=9",
            "GET /asked/a.txt?key=9&other=1",
            "GET /asked/a.txt?key=9&other=1",
            "GET /named/a.txt?key=10",
            "GET /named/a.txt?key=10",
        ],
    );
}

/// MD5 of a text, as `secure_link` and as `secure_link_secret` have it.
fn hashes(text: &str) -> (String, String) {
    let digest = md5::Md5::digest(text);
    let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (URL_SAFE_NO_PAD.encode(digest), hex)
}

#[test]
fn secure_links() {
    let (plain, _) = hashes("/hash/a.txt secret");
    let (timed, _) = hashes("4102444800/timed/a.txt secret");
    let (over, _) = hashes("1000000000/timed/a.txt secret");
    let (_, old) = hashes("a.txtword");
    let (_, old_args) = hashes("a.txt?x=ywordother");
    let mut requests = Vec::new();
    for link in [
        &*plain,
        "",
        "x",
        "=",
        "AAAAAAAAAAAAAAAAAAAAAA",
        "%00",
        "AAAA,",
    ] {
        requests.push(format!("GET /hash/a.txt?h={link}"));
        requests.push(format!("GET /hash/a.txt?h={link}=="));
        requests.push(format!("GET /hash/a.txt?h={link}AAAAA"));
    }
    for (link, until) in [
        (&timed, "4102444800"),
        (&over, "1000000000"),
        (&timed, "4102444801"),
        (&timed, "4102444800x"),
        (&timed, "0"),
        (&timed, ""),
        (&timed, "-1"),
        (&timed, "99999999999999999999"),
    ] {
        requests.push(format!("GET /timed/a.txt?h={link}&e={until}"));
    }
    for path in [
        format!("/old/{old}/a.txt"),
        format!("/old/{}/a.txt", old.to_uppercase()),
        format!("/old/{old}/b.txt"),
        format!("/old/{old}/"),
        format!("/old/{old}"),
        format!("/old/{}/a.txt", &old[1..]),
        format!("/old/{}g/a.txt", &old[1..]),
        format!("/old/in/{old}/a.txt"),
        format!("/other/{old_args}/a.txt?x=y"),
        "/old/".to_owned(),
        "/old".to_owned(),
    ] {
        requests.push(format!("GET {path}"));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        "",
        "secure_link_md5 \"$secure_link_expires$uri secret\"; \
         location /hash/ { secure_link $arg_h; return 200 \"[$secure_link|$secure_link_expires]\"; } \
         location /timed/ { secure_link $arg_h,$arg_e; if ($secure_link = \"\") { return 403; } \
            if ($secure_link = 0) { return 410 \"gone $secure_link_expires\"; } return 200 $secure_link; } \
         location /old { secure_link_secret word; return 200 \"[$secure_link|$secure_link_expires]\"; } \
         location /other { secure_link_secret wordother; return 200 \"[$secure_link]\"; } \
         location /none { return 200 \"[$secure_link|$secure_link_expires]\"; }",
        some_files,
        &[&requests[..], &["GET /none"]].concat(),
    );
}

#[test]
fn referrers() {
    let mut requests = Vec::new();
    let long = "a".repeat(300);
    let long = format!("http://{long}.org/");
    for referer in [
        "",
        "|Referer: http://www.example.org/x",
        "|Referer: HTTPS://WWW.Example.ORG:8443/x",
        "|Referer: http://example.org/x",
        "|Referer: http://a.example.com/x",
        "|Referer: http://example.com",
        "|Referer: http://a.b.sub.example.net/x",
        "|Referer: http://sub.example.net/x",
        "|Referer: http://mail.anything.at.all",
        "|Referer: http://path.org/images/x",
        "|Referer: http://path.org:80/images/x",
        "|Referer: http://path.org/x",
        "|Referer: http://path.org",
        "|Referer: http://site/",
        "|Referer: http://site.tld/",
        "|Referer: http://x.galaxy.org/a",
        "|Referer: http://x.org/~galaxy",
        "|Referer: ftp://www.example.org/",
        "|Referer: blocked",
        "|Referer: http://i.r",
        "|Referer: http://",
        "|Referer:",
    ] {
        for location in ["none", "names", "server", "paths", "regex", "nothing"] {
            requests.push(format!("GET /{location}{referer}"));
        }
    }
    requests.push(format!("GET /none|Referer: {long}"));
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        "",
        "location /none { valid_referers none blocked www.example.org; return 200 \"[$invalid_referer]\"; } \
         location /names { valid_referers .example.com *.example.net mail.*; valid_referers example.org; \
            if ($invalid_referer) { return 403; } return 200 in; } \
         location /server { valid_referers server_names; return 200 \"[$invalid_referer]\"; } \
         location /paths { valid_referers path.org/images/; return 200 \"[$invalid_referer]\"; } \
         location /regex { valid_referers ~GALAXY; return 200 \"[$invalid_referer]\"; } \
         location /nothing { return 200 \"[$invalid_referer]\"; }",
        some_files,
        &requests,
    );
}

#[test]
fn cookies_that_clients_bring() {
    // Sixteen bytes, as they come with a mark, without, with another one, and broken.
    let mut requests = Vec::new();
    for cookie in [
        "uid=CgAAAWXQ8Q0AAAAAAwMBAg==",
        "a=b; uid=CgAAAWXQ8Q0AAAAAAwMBAg==; c=d",
        "uid=CgAAAWXQ8Q0AAAAAAwMBAgZ=",
        "uid=CgAAAWXQ8Q0AAAAAAwMBAgY=",
        "uid=CgAAAWXQ8Q0AAAAAAwMBAgmore",
    ] {
        for location in ["on", "v1", "mark", "log", "off", "all", "zero"] {
            requests.push(format!("GET /{location}/a.txt|Cookie: {cookie}"));
            requests.push(format!("HEAD /{location}/missing|Cookie: {cookie}"));
        }
    }
    for cookie in [
        "uid=short",
        "uid=",
        "uid=!gAAAWXQ8Q0AAAAAAwMBAg==",
        "other=x",
    ] {
        requests.push(format!("GET /log/a.txt|Cookie: {cookie}"));
    }
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    compare_http(
        "",
        "userid on; add_header X-Uid \"[$uid_got|$uid_set|$uid_reset]\" always; \
         location /on/ { alias DIR/; } \
         location /v1/ { userid v1; alias DIR/; } \
         location /mark/ { userid_mark Z; alias DIR/; } \
         location /log/ { userid log; alias DIR/; } \
         location /off/ { userid off; alias DIR/; } \
         location /zero/ { set $uid_reset 0; alias DIR/; } \
         location /all/ { userid_mark =; userid_domain example.org; userid_path /p; userid_expires max; \
            userid_flags samesite=strict httponly secure; userid_p3p 'CP=\"ALL\"'; alias DIR/; }",
        some_files,
        &requests,
    );
}
