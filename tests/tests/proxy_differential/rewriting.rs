//! What the rewrite module makes of requests that are handed on, and of those that are not:
//! every tail of a URI behind every way to rewrite it.

use super::{Pair, TAILS, compare, get};
use sealane_tests::Site;
use sealane_tests::origin::Origin;
use sealane_tests::wire::Response;

const REWRITES: &str = r#"
    server_tokens off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    map $arg_x$uri $mapped { default none; ~^/map/(?<first>[^/]*)(.*)$ "first=$first&rest=$2"; }
    server {
        listen 127.0.0.1:%plain%;
        server_name front.test;
        root html;

        location /last/ { rewrite ^/last/(.*)$ /plain/$1 last; }
        location /plain/ { proxy_pass http://ORIGIN; }
        location /break/ { rewrite ^/break/(.*)$ /broken/$1 break; proxy_pass http://ORIGIN; }
        location /uri/ { rewrite ^/uri/(.*)$ /changed/$1 break; proxy_pass http://ORIGIN/instead/; }
        location /uri-last/ { rewrite ^/uri-last/(.*)$ /top/$1; }
        location /top/ { proxy_pass http://ORIGIN/instead/; }
        location /args/ { rewrite ^/args/(.*)$ /plain/a?tail=$1&uri=$uri last; }
        location /noargs/ { rewrite ^/noargs/(.*)$ /plain/a?tail=$1? last; }
        location /set/ { set $tail $uri; if ($uri ~ ^/set/(.*)$) { set $tail $1; } return 200 "[$tail][$1][$args]"; }
        location /setargs/ { set $args "t=$uri&$args"; proxy_pass http://ORIGIN; }
        location /if/ {
            proxy_set_header Connection "";
            proxy_set_header X-Where outside;
            proxy_pass http://ORIGIN/outside/;
            if ($arg_a) { proxy_pass http://ORIGIN; }
            if ($uri ~ x) { set $x 1; add_header X-Where ignored; }
        }
        location /inherits/ {
            proxy_pass http://ORIGIN/inherits/;
            if ($uri ~ ^/inherits/x) { expires 1h; }
        }
        location /redirect/ { rewrite ^/redirect/(.*)$ http://other.test/$1 permanent; }
        location /relative/ { rewrite ^/relative/(.*)$ /a/$1?t=$1 redirect; }
        location /map/ { return 200 "$mapped|$first|$2"; }
        location /return/ { return 301 https://other.test$uri?$args; }
        location /files/ { if (!-e $document_root/there.txt$arg_a) { rewrite ^/files/(.*)$ /plain/$1 last; } rewrite ^ /there.txt break; }
    }
"#;

const PREFIXES: &[&str] = &[
    "/last/",
    "/break/",
    "/uri/",
    "/uri-last/",
    "/args/",
    "/noargs/",
    "/set/",
    "/setargs/",
    "/if/",
    "/inherits/",
    "/redirect/",
    "/relative/",
    "/map/",
    "/return/",
    "/files/",
];

#[test]
fn rewritten_requests_are_those_of_nginx() {
    let origin = Origin::echo();
    let (ours, theirs) = (Site::new(), Site::new());
    let pair = Pair::start(&ours, &theirs, &origin, REWRITES);
    let mut requests = Vec::new();
    for prefix in PREFIXES {
        for tail in TAILS {
            requests.push(get(&format!("{prefix}{tail}"), ""));
        }
    }
    compare(&pair, &requests, |request, ours, theirs| {
        // nginx sends a redirect with a line break in its target; here it has no target.
        request.starts_with(b"GET /return/%0a") || splits_lines(ours, theirs)
    });
}

/// What was decoded and is a control character in a header or in the request line: nginx
/// sends it, and whoever reads it sees something else than what was meant.
fn splits_lines(ours: &[Response], theirs: &[Response]) -> bool {
    let refused = ours.first().is_some_and(|response| response.status == 500);
    let broken = theirs.first().is_none_or(|response| {
        let line = response
            .text()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        line.bytes().any(|byte| byte < b' ' || byte == 0x7f) || line.split(' ').count() != 3
    });
    refused && broken
}
