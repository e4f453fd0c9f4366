//! `rewrite`, `if`, `set`, `map` and the like.

use super::compare_http;
use super::files::some_files;

#[test]
fn rewrites_in_a_server_and_in_locations() {
    compare_http(
        "",
        "rewrite ^/old/(.*)$ /new/$1; rewrite ^/to/(.*) /a.txt?to=$1 last; rewrite ^/drop /a.txt?; \
         rewrite ^/mark /shown?x?; rewrite ^/empty/(.*) $1; rewrite ^/two/(.*)/(.*)$ /shown/$2/$1?own=$1; \
         location /new/ { rewrite ^/new/(.+)$ /shown/$1 last; return 200 new:$uri; } \
         location /shown { return 200 \"$uri|$args|$1|$2|$request_uri|$is_args\"; } \
         location /chain { rewrite ^/chain/a /chain/b; rewrite ^/chain/b /shown/c?d=e; rewrite ^ /never break; } \
         location /break/ { rewrite ^/break/(.*)$ /$1 break; } \
         location /last/ { rewrite ^/last/(.*)$ /$1 last; rewrite ^ /shown/no; } \
         location /stop { rewrite ^/stop/(.*) /shown/$1; break; rewrite ^ /dir/index.html; return 200 stop; } \
         location /cycle { rewrite ^/cycle(.*)$ /cycle$1x last; } \
         location /in { internal; return 200 in:$uri; } \
         location /to-in { rewrite ^ /in/side last; } \
         location /nomatch { rewrite ^/(b)c /a.txt; return 200 [$1]; }",
        some_files,
        &[
            "GET /old/x",
            "GET /old/x?a=b",
            "GET /old/",
            "GET /old/sp%20ace?q=%20",
            "GET /to/x",
            "GET /to/x?y=z",
            "GET /to/a%26b+c%20d%3F",
            "GET /to/a+b",
            "GET /drop?a",
            "GET /mark?a",
            "GET /empty/",
            "GET /empty/x",
            "GET /two/a/b?c=d",
            "GET /two/a%25/b%2B?c=d",
            "GET /chain/a",
            "GET /chain/b?x",
            "GET /chain/c",
            "GET /break/a.txt",
            "GET /break/dir",
            "GET /break/dir/",
            "GET /break/missing",
            "HEAD /break/a.txt",
            "POST /break/a.txt|Content-Length: 3",
            "GET /last/a.txt",
            "GET /last/dir/x.TXT",
            "GET /stop/x",
            "GET /cycle",
            "GET /in/x",
            "GET /to-in",
            "GET /nomatch",
        ],
    );
}

#[test]
fn redirects_by_rewrite() {
    compare_http(
        "",
        "location /r/ { rewrite ^/r/(.*)$ /a/$1 redirect; } \
         location /p/ { rewrite ^/p/(.*)$ /a/$1?own=1 permanent; } \
         location /drop/ { rewrite ^/drop/(.*)$ /a/$1? permanent; } \
         location /http/ { rewrite ^/http/(.*)$ http://other.test/$1; return 200 no; } \
         location /https/ { rewrite ^ https://$host$request_uri? last; } \
         location /scheme/ { rewrite ^/scheme/(.*)$ $scheme://x/$1 break; } \
         location /httpp/ { rewrite ^ http://x/ permanent; } \
         location /esc { rewrite ^/esc(.*)$ /a%20b%41%3Fx%4gy%zz$1%4 redirect; } \
         location /page { error_page 302 /a.txt; rewrite ^ /x redirect; } \
         location /rel { absolute_redirect off; rewrite ^ /x redirect; }",
        some_files,
        &[
            "GET /r/x",
            "GET /r/x?y",
            "GET /r/a%20b?y",
            "GET /r/a%26b%2Bc+d%3Fe%23",
            "GET /r/%C3%A9",
            "GET /r/a?b=%41",
            "GET /p/x?y",
            "HEAD /p/x",
            "GET /drop/x?y",
            "GET /http/x?y",
            "GET /https/x?y=%20",
            "GET /scheme/a%2fb",
            "GET /httpp/x?y",
            "GET /esc",
            "GET /esc%20",
            "GET /esc+?a=%41",
            "GET /page",
            "GET /rel",
        ],
    );
}

#[test]
fn what_try_files_falls_back_to_under_an_alias() {
    compare_http(
        "",
        "location / { return 200 \"<$uri>$args\"; } \
         location /once { alias DIR/dir; try_files $uri $uri/ /once/x?$args; } \
         location /twice { alias DIR/dir; try_files $uri /twice/twice/index.html?$args; } \
         location /slashes { alias DIR/dir; try_files $uri /slashes//slashes/index.html?$args; } \
         location /fixed { alias DIR/dir; try_files $uri /fixed/index.html; } \
         location /named { alias DIR/dir; try_files $uri $arg_to; } \
         location ~ ^/re(/.*) { alias DIR$1; try_files $uri /re/x?$args; } \
         location /out/ { alias DIR/dir/; location /out/in/ { location /out/in/deep { try_files $arg_x /a$uri?$args; } } } \
         location @n { return 200 named; }",
        some_files,
        &[
            "GET /once/index.html",
            "GET /once/no?a=b",
            "GET /once",
            "GET /twice/no",
            "GET /twice/index.html",
            "GET /slashes/no",
            "GET /fixed/no",
            "GET /named/no?to=/named/index.html",
            "GET /named/no?to=/named@n",
            "GET /named/no?to=@n",
            "GET /named/no?to=/name",
            "GET /re/no",
            "GET /out/in/deep",
            "GET /out/in/deep?x=no",
        ],
    );
}

#[test]
fn conditions() {
    compare_http(
        "",
        "set $a 1; if ($arg_s) { set $a s; } if ($arg_s = x) { set $a x$a; } if ($arg_ret) { return 403; } \
         if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; } \
         if ($http_user_agent ~* \"(old)(er)?\") { set $ua \"<$1$2>\"; rewrite ^ /ua last; } \
         location /a { return 200 \"$a\"; } \
         location /ua { return 200 \"$ua [$1]\"; } \
         location /neg { if ($arg_x !~ ^a(.)) { return 200 \"no [$1]\"; } return 200 \"yes [$1]\"; } \
         location /caseless { if ($arg_x !~* ^A) { return 200 no; } return 200 yes; } \
         location /eq { if ($arg_x != \"$arg_y\") { return 200 differ; } if ($arg_x = \"\") { return 200 empty; } return 200 same; } \
         location /zero { if ($arg_x) { return 200 true; } return 200 false; } \
         location /spaced { if ( $arg_x = y ) { return 200 yes; } if ( -f DIR/a.txt ) { return 200 file; } } \
         location /files { set $r ''; if (-f $document_root/$arg_p) { set $r f; } if (-d $document_root/$arg_p) { set $r \"${r}d\"; } \
            if (-e $document_root/$arg_p) { set $r \"${r}e\"; } if (-x $document_root/$arg_p) { set $r \"${r}x\"; } \
            if (!-f $document_root/$arg_p) { set $r \"${r}F\"; } if (!-d $document_root/$arg_p) { set $r \"${r}D\"; } \
            if (!-e $document_root/$arg_p) { set $r \"${r}E\"; } if (!-x $document_root/$arg_p) { set $r \"${r}X\"; } return 200 \"$r\"; } \
         location / { if (!-e $request_filename) { rewrite ^/(.*)$ /a?s=$1 last; } }",
        some_files,
        &[
            "GET /a",
            "GET /a?s=1",
            "GET /a?s=0",
            "GET /a?s=x",
            "GET /a?s=",
            "GET /a?ret=0",
            "GET /a?ret=00",
            "PUT /a",
            "DELETE /a",
            "GET /a|User-Agent: OLD",
            "GET /a|User-Agent: the older one",
            "GET /neg?x=ab",
            "GET /neg?x=ba",
            "GET /neg",
            "GET /caseless?x=ab",
            "GET /caseless?x=ba",
            "GET /eq?x=1&y=1",
            "GET /eq?x=1&y=2",
            "GET /eq",
            "GET /zero?x=0",
            "GET /zero?x=00",
            "GET /zero?x=1",
            "GET /zero",
            "GET /spaced?x=y",
            "GET /spaced",
            "GET /files?p=a.txt",
            "GET /files?p=dir",
            "GET /files?p=missing",
            "GET /files?p=a.txt/x",
            "GET /files?p=",
            "GET /missing",
            "GET /a.txt",
            "GET /dir",
            "GET /sp%20ace/none%2B",
        ],
    );
}

#[test]
fn settings_of_an_if_in_a_location() {
    compare_http(
        "",
        "location / { add_header X-Outer yes; expires 1h; if ($arg_a) { add_header X-A yes; } if ($arg_b) { root DIR/dir; } \
            if ($arg_e) { error_page 404 /a.txt; expires off; } if ($arg_x) { error_page 404 =200 @named; } } \
         location @named { return 200 named:$uri:$args; } \
         location /try { try_files /a.txt =404; if ($arg_a) { set $x 1; } } \
         location /status { if ($arg_a) { add_header X-A 1; } return 418; error_page 418 /z.txt; } \
         location /after { uninitialized_variable_warn off; if ($arg_a) { add_header X-A 1; set $v a; } add_header X-V \"$v\"; rewrite ^ /a.txt break; } \
         location /alias/ { alias DIR/; if ($arg_a) { add_header X-A 1; } if ($arg_r) { rewrite ^/alias/(.*) /other/$1 break; } } \
         location ~ ^/re/(.*)$ { if ($arg_a ~ (.)) { add_header X-C \"$1\"; } alias DIR/$1; } \
         location /body { client_max_body_size 1; if ($arg_a) { set $b 1; } return 200; }",
        some_files,
        &[
            "GET /a.txt",
            "GET /a.txt?a=1",
            "GET /x.TXT",
            "GET /x.TXT?b=1",
            "GET /a.txt?a=1&b=1",
            "GET /missing",
            "GET /missing?e=1",
            "GET /missing?a=1",
            "GET /missing?x=1",
            "POST /missing?x=1|Content-Length: 2",
            "GET /try",
            "GET /try?a=1",
            "GET /status",
            "GET /status?a=1",
            "GET /after",
            "GET /after?a=1",
            "GET /alias/a.txt",
            "GET /alias/a.txt?a=1",
            "GET /alias/a.txt?r=1",
            "GET /re/a.txt",
            "GET /re/a.txt?a=b",
            "POST /body|Content-Length: 2",
        ],
    );
}

#[test]
fn variables_that_are_set() {
    compare_http(
        "",
        "set $one $uri; set $two \"${one}-$args\"; set $args \"x=1&$args\"; set $Mixed_9 $arg_x; \
         set $http_x_mine \"own\"; set $arg_mine own; \
         location /show { return 200 \"$one|$two|$args|$mixed_9|$request_uri|$is_args|$http_x_mine|$arg_mine\"; } \
         location /unset { return 200 \"[$never]\"; } location /never { set $never 1; } \
         location /cap { if ($uri ~ ^/cap/(?<part>[^/]*)/(.*)$) { set $rest $2; } return 200 \"$part|$rest|$1\"; } \
         location /esc { if ($uri ~ (.*)) { set $e $1; } set $f $1; return 200 \"$e|$f|$1\"; } \
         location /file { set $p /a.txt; try_files $p =404; } \
         location ~ ^/(?<user>[a-z]+)/num(\\d+)$ { set $n $2; return 200 \"$user $n $1 $2\"; } \
         location /rate { set $limit_rate 1000k; return 200 $limit_rate; } \
         location /badrate { set $limit_rate x; return 200 $limit_rate; } \
         location /passes { set $args a=b; error_page 404 /show; return 404; }",
        some_files,
        &[
            "GET /show",
            "GET /show?a=b",
            "GET /show|X-Mine: theirs",
            "GET /show?mine=theirs",
            "GET /unset",
            "GET /never",
            "GET /cap/x/y/z",
            "GET /cap//",
            "GET /cap",
            "GET /esc",
            "GET /esc%20%3F&+",
            "GET /esc?a=%20",
            "GET /file",
            "GET /anna/num12",
            "GET /rate",
            "GET /badrate",
            "GET /passes?q",
        ],
    );
}

#[test]
fn maps() {
    compare_http(
        "map $arg_k $plain { default def; one 1; TWO two; \\default literal; \\hostnames h; '' empty; ~^re(.)x(?<named>.)? \"re $1 $named\"; \
            ~*^CASE(.*) \"case $1 $arg_k\"; \\~tilde tilde; $ dollar; }
         map $arg_k$arg_l $nodefault { ab both; }
         map $arg_h $host_name { hostnames; default none; example.org exact; *.example.org star; .dots.test dotted; www.* tail; \
            *.deep.example.org deep; mail.deep.* mailtail; }
         map $arg_k $kept { default \"$uri\"; }
         map $arg_k $fresh { volatile; default \"$uri\"; }
         map $plain $chain { 1 \"first $kept\"; default \"other:$plain\"; }
         map $loop_b $loop_a { default \"a$loop_b\"; } map $loop_a $loop_b { default \"b$loop_a\"; }
         map $twice $twice { default x; }
         map $arg_k $redefined { default first; } map $arg_k $redefined { default second; }",
        "location /plain { return 200 \"[$plain][$1][$named]\"; } location /no { return 200 \"[$nodefault]\"; } \
         location /host { return 200 $host_name; } \
         location /kept { set $x \"$kept $fresh\"; rewrite ^ /kept2 last; } location /kept2 { return 200 \"$x|$kept|$fresh\"; } \
         location /chain { return 200 $chain; } location /loop { return 200 \"$loop_a\"; } location /twice { return 200 \"$twice\"; } \
         location /redefined { return 200 $redefined; } \
         location /set { set $plain mine; return 200 \"$plain $chain\"; } \
         location /page { error_page 404 /kept2; set $x $kept; return 404; } \
         location ~ ^/groups/(.*)$ { return 200 \"$1 $plain $1\"; }",
        some_files,
        &[
            "GET /plain",
            "GET /plain?k=",
            "GET /plain?k=one",
            "GET /plain?k=ONE",
            "GET /plain?k=two",
            "GET /plain?k=default",
            "GET /plain?k=hostnames",
            "GET /plain?k=reaxb",
            "GET /plain?k=reax",
            "GET /plain?k=Reax",
            "GET /plain?k=caSeX",
            "GET /plain?k=~tilde",
            "GET /plain?k=$",
            "GET /plain?k=none",
            "GET /no?k=a&l=b",
            "GET /no?k=a",
            "GET /host?h=example.org",
            "GET /host?h=EXAMPLE.org.",
            "GET /host?h=a.example.org",
            "GET /host?h=a.b.example.org",
            "GET /host?h=x.deep.example.org",
            "GET /host?h=deep.example.org",
            "GET /host?h=dots.test",
            "GET /host?h=x.dots.test",
            "GET /host?h=.dots.test",
            "GET /host?h=www.anything.at.all",
            "GET /host?h=www.",
            "GET /host?h=www",
            "GET /host?h=mail.deep.org",
            "GET /host?h=.",
            "GET /host",
            "GET /kept",
            "GET /chain?k=one",
            "GET /chain?k=x",
            "GET /loop",
            "GET /twice",
            "GET /redefined",
            "GET /set?k=one",
            "GET /page",
            "GET /groups/x?k=one",
        ],
    );
}

#[test]
fn named_locations_and_error_pages() {
    compare_http(
        "",
        "error_page 404 = @fallback; error_page 410 /gone; error_page 500 502 503 =200 /a.txt; error_page 418 http://tea.test/$uri; \
         location @fallback { rewrite ^/named/(.*)$ /shown/$1 last; rewrite ^/stay/(.*)$ /$1 break; return 200 fallback:$uri:$args; } \
         location /shown { return 200 shown:$uri:$args; } \
         location /gone { internal; return 200 gone; } \
         location /code { return 503; } location /tea { return 418; } location /g { return 410; } \
         location /stay/ { try_files /none @stay; } location @stay { rewrite ^/stay(/.*)$ $1 break; } \
         location /rec { recursive_error_pages on; error_page 404 /rec410; error_page 410 /a.txt; return 404; } \
         location /rec410 { recursive_error_pages on; error_page 410 /a.txt; return 410; } \
         location /norec { error_page 404 /norec410; error_page 410 /a.txt; return 404; } location /norec410 { error_page 410 /a.txt; return 410; } \
         location /endless { recursive_error_pages on; error_page 404 /endless; return 404; } \
         location /var { error_page 404 $arg_t; return 404; } \
         location /fixed { error_page 404 =403 /a.txt; return 404; } location /redirected { error_page 404 =301 http://x.test/; return 404; } \
         location /missing-named { error_page 404 @nobody; return 404; } \
         location /if { error_page 404 /gone; if ($arg_a) { error_page 404 /a.txt; return 404; } return 404; }",
        some_files,
        &[
            "GET /named/x?y",
            "GET /none?y=z",
            "HEAD /none",
            "POST /none|Content-Length: 2",
            "GET /stay/a.txt",
            "GET /stay/none",
            "GET /gone",
            "GET /g",
            "GET /code",
            "GET /tea",
            "GET /rec",
            "GET /norec",
            "GET /endless",
            "GET /var?t=/a.txt",
            "GET /var?t=@fallback",
            "GET /var?t=http://x.test/",
            "GET /var",
            "GET /fixed",
            "GET /redirected",
            "GET /missing-named",
            "GET /if?a=1",
            "GET /if",
            "PUT /if",
        ],
    );
}

#[test]
fn values_by_address() {
    compare_http(
        "geo $arg_a $net { default d; 10.0.0.0/8 ten; 10.1.0.0/16 ten-one; 10.1.2.3 host; 192.168.0.0/16 priv; \
            delete 192.168.0.0/16; 255.255.255.255 none; 2001:db8::/32 doc; ::1 six; 0.0.0.0/1 low; }
         geo $arg_a $bare { 127.0.0.1 local; }
         geo $arg_a $range { ranges; default d; 10.0.0.0-10.255.255.255 ten; 10.1.0.0-10.1.255.255 inner; \
            10.1.0.0-10.1.0.255 begin; 10.1.255.255-10.1.255.255 end; 1.1.1.1-1.1.1.1 one; delete 1.1.1.1-1.1.1.1; \
            9.9.9.8-9.9.10.1 nine; 255.255.255.0-255.255.255.254 none; }
         geo $arg_a $through { proxy 10.0.0.0/8; default d; 10.0.0.0/8 proxy; 1.2.3.0/24 client; 5.0.0.0/8 five; }
         geo $arg_a $chain { proxy 10.0.0.0/8; proxy ::1; proxy_recursive; default d; 10.0.0.0/8 proxy; 1.2.3.0/24 client; 5.0.0.0/8 five; }
         geo $uri $not_an_address { default d; 255.255.255.255 none; }",
        "location / { return 200 \"$net|$bare|$range|$through|$chain|$not_an_address\"; }",
        some_files,
        &[
            "GET /?a=10.0.0.0",
            "GET /?a=10.1.2.2",
            "GET /?a=10.1.2.3",
            "GET /?a=10.255.255.255",
            "GET /?a=11.0.0.0",
            "GET /?a=192.168.3.4",
            "GET /?a=200.1.1.1",
            "GET /?a=127.0.0.1",
            "GET /?a=2001:db8::1",
            "GET /?a=2001:db9::1",
            "GET /?a=::1",
            "GET /?a=::ffff:10.1.2.3",
            "GET /?a=x",
            "GET /",
            "GET /?a=1.1.1.1",
            "GET /?a=10.1.0.17",
            "GET /?a=10.1.1.0",
            "GET /?a=10.1.255.255",
            "GET /?a=10.2.0.0",
            "GET /?a=9.9.9.255",
            "GET /?a=9.9.10.2",
            "GET /?a=10.0.0.1|X-Forwarded-For: 1.2.3.4",
            "GET /?a=10.0.0.1|X-Forwarded-For: 1.2.3.4, 10.0.0.2",
            "GET /?a=10.0.0.1|X-Forwarded-For: 5.6.7.8, 1.2.3.4, 10.0.0.2",
            "GET /?a=10.0.0.1|X-Forwarded-For: 1.2.3.4|X-Forwarded-For: 10.3.4.5",
            "GET /?a=10.0.0.1|X-Forwarded-For: unknown",
            "GET /?a=1.2.3.4|X-Forwarded-For: 5.6.7.8",
            "GET /?a=::1|X-Forwarded-For: 5.6.7.8",
        ],
    );
}

#[test]
fn values_by_chance() {
    let texts: Vec<String> = (0..120)
        .map(|number| format!("GET /?t={}", "x".repeat(number % 9) + &number.to_string()))
        .collect();
    let requests: Vec<&str> = texts.iter().map(String::as_str).collect();
    compare_http(
        "split_clients $arg_t $part { 0.5% tiny; 12.25% some; 30% more; * rest; } \
         split_clients \"${arg_t}salt\" $open { 33.33% a; 33.33% b; } \
         split_clients $uri$arg_t $all { 100% all; }",
        "location / { return 200 \"$part $open $all\"; }",
        some_files,
        &requests,
    );
}

#[test]
fn what_is_rewritten_is_logged() {
    compare_http(
        "rewrite_log on;",
        "location /a { rewrite ^/a/(.*)$ /b/$1?x=$1; rewrite ^/c /d; if ($uri ~ x) { return 204; } if ($arg_a !~* Y) { return 205; } } \
         location /b { rewrite ^ http://other.test/$uri; } \
         location /quiet { rewrite_log off; rewrite ^ /b; } \
         location /late { if ($arg_a = 1) { rewrite_log off; uninitialized_variable_warn off; rewrite ^ /none; } return 200 \"$unset\"; } \
         location /set { set $unset 1; }",
        some_files,
        &[
            "GET /a/1?y=2",
            "GET /a/x",
            "GET /a?a=y",
            "GET /a",
            "GET /quiet",
            "GET /late?a=1",
            "GET /late",
        ],
    );
}

#[test]
fn browsers_by_their_user_agent() {
    compare_http(
        "",
        "modern_browser unlisted; ancient_browser Lynx netscape4; \
         location / { return 200 \"outer [$modern_browser|$ancient_browser|$msie]\"; } \
         location /listed { modern_browser msie 5.5; modern_browser gecko 1.7.8; \
             modern_browser_value new; ancient_browser_value old; \
             return 200 \"[$modern_browser|$ancient_browser|$msie]\"; } \
         location /opera { modern_browser opera 9.0; modern_browser msie 6.0; modern_browser unlisted; \
             return 200 \"[$modern_browser|$ancient_browser|$msie]\"; } \
         location /old { ancient_browser \"MSIE 5\"; ancient_browser_value old; \
             if ($ancient_browser) { return 200 \"old [$ancient_browser]\"; } return 200 new; } \
         location /server { set $all \"[$modern_browser|$ancient_browser|$msie]\"; return 200 $all; }",
        |_| {},
        &[
            "GET /",
            "GET /|User-Agent: Lynx/2.8.5",
            "GET /|User-Agent: Mozilla/4.72 [en] (X11; U)",
            "GET /|User-Agent: Mozilla/4.72",
            "GET /|User-Agent: curl/8.0",
            "GET /listed",
            "GET /listed|User-Agent: Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.1)",
            "GET /listed|User-Agent: Mozilla/4.0 (compatible; MSIE 5.01; Windows NT 5.1)",
            "GET /listed|User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 7.50  [en]",
            "GET /listed|User-Agent: Mozilla/5.0 (X11; U; Linux i686; en-US; rv:1.7.8) Gecko/20050511",
            "GET /listed|User-Agent: Mozilla/5.0 (X11; U; Linux i686; en-US; rv:1.6) Gecko/20040206",
            "GET /listed|User-Agent: curl/8.0",
            "GET /opera|User-Agent: Opera/9.01 (X11; FreeBSD 6 i386; U; en)",
            "GET /opera|User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; X11; FreeBSD i386) Opera 8.5",
            "GET /opera|User-Agent: Mozilla/4.0 (compatible; MSIE 10.0; Windows NT 6.1)",
            "GET /opera|User-Agent: curl/8.0",
            "GET /old|User-Agent: Mozilla/4.0 (compatible; MSIE 5.01; Windows NT 5.0)",
            "GET /old|User-Agent: Mozilla/4.0 (compatible; MSIE 6.01; Windows NT 5.0)",
            "GET /server|User-Agent: Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.1)",
        ],
    );
}

#[test]
fn a_request_that_an_earlier_if_passes_on_is_not_for_files() {
    compare_http(
        "",
        "location /pass { if ($arg_a) { proxy_pass http://127.0.0.1:1; } if ($arg_b) { add_header X b; } } \
         location /gif { empty_gif; if ($arg_a) { proxy_pass http://127.0.0.1:1; } if ($arg_b) { add_header X b; } } \
         location /on { if ($arg_a) { proxy_pass http://127.0.0.1:1; } if ($arg_b) { rewrite ^ /a.txt last; } } \
         location /to { error_page 500 /a.txt; if ($arg_a) { proxy_pass http://127.0.0.1:1; } if ($arg_b) { set $b b; } }",
        some_files,
        &[
            "GET /pass?a=1&b=1",
            "GET /pass?b=1",
            "GET /gif?a=1&b=1",
            "GET /gif?b=1",
            "GET /on?a=1&b=1",
            "GET /to?a=1&b=1",
        ],
    );
}
