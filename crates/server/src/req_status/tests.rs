use crate::testing::Site;

/// A request and its end.
fn ask(site: &Site, target: &str) {
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut exchange = site.exchange(&head);
    site.handle(&mut exchange);
    exchange.transfer.request_bytes = head.len() as u64;
    exchange.transfer.sent_bytes = 100;
    super::count(&exchange);
}

fn shown(site: &Site, target: &str) -> String {
    site.get(target).text().to_owned()
}

#[test]
fn lines_are_those_of_tengine() {
    let site = Site::with_http(
        "req_status_zone codes $arg_k 1m; req_status_zone_add_indicator codes $arg_n;
         req_status_zone other \"$host,$server_port\" 1m;
         server { listen 127.0.0.1:80; req_status codes;
             location /200 { return 200; } location /404 { return 404; }
             location /418 { return 418; } location /503 { return 503; }
             location /both { req_status codes other; return 302 /; }
             location /show { req_status_show; req_status_bypass 1; }
             location /codes { req_status_show codes; req_status_bypass 1;
                 req_status_show_field req_total http_4xx $arg_n; } }",
    );
    for (target, times) in [
        ("/200?k=a&n=1.5", 3),
        ("/404?k=a", 2),
        ("/418?k=b&n=x7", 1),
        ("/503?k=b", 1),
        ("/both?k=a", 1),
    ] {
        (0..times).for_each(|_| ask(&site, target));
    }
    assert_eq!(shown(&site, "/codes"), "a,6,2,45\nb,2,1,7\n");
    let all = shown(&site, "/show");
    let lines: Vec<Vec<&str>> = all.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 3, "{all}");
    // Value, 29 fields and the indicator; the other zone has a comma in its value.
    assert_eq!((lines[0].len(), lines[2].len()), (31, 31), "{all}");
    assert_eq!(lines[0][2], "600");
    assert_eq!(lines[0][4..10], ["6", "3", "1", "2", "0", "0"]);
    // 200, 206, 302, 304, 403, 404.
    assert_eq!(lines[0][14..20], ["3", "0", "1", "0", "0", "2"]);
    assert_eq!(lines[1][22..29], ["0", "0", "1", "0", "0", "1", "0"]);
    assert_eq!(lines[0][30], "45");
    assert_eq!(lines[2][0], "a");
}

#[test]
fn the_first_location_decides_and_bypass_is_evaluated_there() {
    let site = Site::with_http(
        "req_status_zone z \"$uri$sent_http_x\" 1m; map $arg_skip $skips { 1 1; default 0; }
         server { listen 127.0.0.1:80;
             location /first { req_status z; req_status_bypass $skips; rewrite ^ /second; }
             location /second { add_header X y; return 204; }
             location /late { req_status z; req_status_lazy on; add_header X y; return 204; }
             location /show { req_status_show; req_status_show_field req_total; } }",
    );
    for target in ["/first", "/first?skip=1", "/second", "/late"] {
        ask(&site, target);
    }
    assert_eq!(shown(&site, "/show"), "/first,1\n/latey,1\n");
}

#[test]
fn values_are_cut_off_and_cannot_forge_lines() {
    let site = Site::with_http(
        "req_status_zone z $uri 1m; req_status_zone_key_length z 6;
         server { listen 127.0.0.1:80; req_status z; location / { return 204; }
             location /show { req_status_bypass 1; req_status_show z;
                 req_status_show_field req_total; } }",
    );
    for target in ["/abcdefg", "/abcdexyz", "/a%0ab,1", "/%ff"] {
        ask(&site, target);
    }
    assert_eq!(shown(&site, "/show"), "/a\\x0Ab,1,1\n/abcde,2\n/\\xFF,1\n");
}

#[test]
fn without_zones_there_is_nothing_to_show() {
    let site = Site::new("location /show { req_status_show; }");
    assert_eq!(site.get("/show").status(), 204);
}
