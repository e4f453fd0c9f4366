//! The language itself, and the contexts around `http`.
//!
//! Each row: where the text stands, the text, and what is said about it.

use super::Case;
use super::Where::*;

pub(super) const CASES: &[Case] = &[
    Case(
        Whole,
        "thread_pool a threads=4 max_queue=9;events{}http{aio threads=a;server{aio threads=$host;}}",
        "OK",
    ),
    Case(
        Whole,
        "events{}http{aio threads=b;}",
        r#"[emerg] unknown thread pool "b" in FILE:1"#,
    ),
    Case(
        Whole,
        "events{}http{aio threads;aio off;}",
        r#"[emerg] "aio" directive is duplicate in FILE:1"#,
    ),
    Case(
        Whole,
        "events{}http{aio some;}",
        r#"[emerg] "aio" directive invalid value in FILE:1"#,
    ),
    Case(
        Main,
        "thread_pool a threads=0;",
        r#"[emerg] invalid threads value "threads=0" in FILE:1"#,
    ),
    Case(
        Main,
        "thread_pool a threads=1 max_queue=x;",
        r#"[emerg] invalid max_queue value "max_queue=x" in FILE:1"#,
    ),
    Case(
        Main,
        "thread_pool a max_queue=1;",
        r#"[emerg] "thread_pool" must have "threads" parameter in FILE:1"#,
    ),
    Case(
        Main,
        "thread_pool a threads=1; thread_pool a threads=1;",
        r#"[emerg] duplicate thread pool "a" in FILE:1"#,
    ),
    Case(
        Main,
        "user  www-data;\n\n\n  pid\n/a\n;foo",
        r#"[emerg] unknown directive "foo" in FILE:7"#,
    ),
    Case(
        Whole,
        "events{}http{sendfile on;foo;}",
        r#"[emerg] unknown directive "foo" in FILE:1"#,
    ),
    Case(
        Whole,
        "events{}#http{\nfoo;",
        r#"[emerg] unknown directive "foo" in FILE:2"#,
    ),
    Case(
        Whole,
        "events { worker_connections 10; };",
        r#"[emerg] unexpected ";" in FILE:1"#,
    ),
    Case(
        Main,
        "worker_processes auto; foo;",
        r#"[emerg] unknown directive "foo" in FILE:1"#,
    ),
    Case(
        Main,
        "worker_processes -1;",
        r#"[emerg] "worker_processes" directive invalid value in FILE:1"#,
    ),
    Case(
        Main,
        "master_process off; daemon off; foo;",
        r#"[emerg] unknown directive "foo" in FILE:1"#,
    ),
    Case(
        Whole,
        "events {}\nfoo bar;",
        r#"[emerg] unknown directive "foo" in FILE:2"#,
    ),
    Case(
        Main,
        "worker_cpu_affinity 01 1x;",
        r#"[emerg] invalid character "x" in "worker_cpu_affinity" in FILE:1"#,
    ),
    Case(
        Main,
        "worker_cpu_affinity 01 10; worker_cpu_affinity 01;",
        r#"[emerg] "worker_cpu_affinity" directive is duplicate in FILE:1"#,
    ),
    Case(
        Main,
        "worker_cpu_affinity auto 01 10;",
        r#"[emerg] invalid number of arguments in "worker_cpu_affinity" directive in FILE:1"#,
    ),
    Case(
        Main,
        "worker_priority -5; worker_priority +x;",
        r#"[emerg] "worker_priority" directive is duplicate in FILE:1"#,
    ),
    Case(
        Main,
        "worker_priority +x;",
        r#"[emerg] "worker_priority" directive invalid number in FILE:1"#,
    ),
    Case(Main, "foo", r#"[emerg] unknown directive "foo" in FILE:2"#),
    Case(
        Whole,
        "events {",
        r#"[emerg] unexpected end of file, expecting "}" in FILE:1"#,
    ),
    Case(
        Whole,
        "events {}\n}\n",
        r#"[emerg] unexpected "}" in FILE:2"#,
    ),
    Case(
        Whole,
        "events {}\nhttp { server { ",
        r#"[emerg] unexpected end of file, expecting "}" in FILE:2"#,
    ),
    Case(Whole, "events {} ;", r#"[emerg] unexpected ";" in FILE:1"#),
    Case(
        Main,
        "user a b c;",
        r#"[emerg] invalid number of arguments in "user" directive in FILE:1"#,
    ),
    Case(
        Main,
        "daemon on",
        r#"[emerg] directive "daemon" is not terminated by ";" in FILE:2"#,
    ),
    Case(
        Main,
        "daemon on {}",
        r#"[emerg] directive "daemon" is not terminated by ";" in FILE:1"#,
    ),
    Case(
        Whole,
        "events;",
        r#"[emerg] directive "events" has no opening "{" in FILE:1"#,
    ),
    Case(
        Main,
        "daemon maybe;",
        r#"[emerg] invalid value "maybe" in "daemon" directive, it must be "on" or "off" in FILE:1"#,
    ),
    Case(
        Main,
        "daemon on;\ndaemon off;",
        r#"[emerg] "daemon" directive is duplicate in FILE:2"#,
    ),
    Case(
        Main,
        "daemon;",
        r#"[emerg] invalid number of arguments in "daemon" directive in FILE:1"#,
    ),
    Case(
        Main,
        "daemon 'on",
        r#"[emerg] unexpected end of file, expecting ";" or "}" in FILE:3"#,
    ),
    Case(
        Main,
        r#"daemon "on"#,
        r#"[emerg] unexpected end of file, expecting ";" or "}" in FILE:3"#,
    ),
    Case(
        Main,
        r#"daemon "on"x;"#,
        r#"[emerg] unexpected "x" in FILE:1"#,
    ),
    Case(Main, "daemon on }", r#"[emerg] unexpected "}" in FILE:1"#),
    Case(Whole, "{ }", r#"[emerg] unexpected "{" in FILE:1"#),
    Case(
        Whole,
        "events {} events {}",
        r#"[emerg] "events" directive is duplicate in FILE:1"#,
    ),
    Case(Whole, "", r#"[emerg] no "events" section in configuration"#),
    Case(
        Whole,
        "# nothing\n",
        r#"[emerg] no "events" section in configuration"#,
    ),
    Case(
        Whole,
        "http {}\n",
        r#"[emerg] no "events" section in configuration"#,
    ),
    Case(
        Whole,
        "events {}\nhttp {}\nhttp {}",
        r#"[emerg] "http" directive is duplicate in FILE:3"#,
    ),
    Case(
        Main,
        "sendfile on;",
        r#"[emerg] "sendfile" directive is not allowed here in FILE:1"#,
    ),
    Case(
        Main,
        "server {}",
        r#"[emerg] "server" directive is not allowed here in FILE:1"#,
    ),
    Case(
        Main,
        "location / {}",
        r#"[emerg] "location" directive is not allowed here in FILE:1"#,
    ),
    Case(
        Main,
        "worker_processes x;",
        r#"[emerg] "worker_processes" directive invalid value in FILE:1"#,
    ),
    Case(
        Main,
        "worker_processes 1;\nworker_processes 2;",
        r#"[emerg] "worker_processes" directive is duplicate in FILE:2"#,
    ),
    Case(
        Whole,
        "events { worker_connections x; }",
        r#"[emerg] invalid number "x" in FILE:1"#,
    ),
    Case(
        Whole,
        "events { worker_connections 10;\n worker_connections 11; }",
        r#"[emerg] "worker_connections" directive is duplicate in FILE:2"#,
    ),
    Case(
        Whole,
        "events { use foo; }",
        r#"[emerg] invalid event type "foo" in FILE:1"#,
    ),
    Case(
        Whole,
        "events { use epoll; use epoll; }",
        r#"[emerg] "use" directive is duplicate in FILE:1"#,
    ),
    Case(
        Whole,
        "events { worker_connections 1; }\nhttp { server { listen 1.1.1.1:8081; } }",
        "[emerg] 1 worker_connections are not enough for 1 listening sockets",
    ),
    Case(
        Main,
        "worker_rlimit_nofile 1k;",
        r#"[emerg] "worker_rlimit_nofile" directive invalid number in FILE:1"#,
    ),
    Case(
        Main,
        "worker_shutdown_timeout 1x;",
        r#"[emerg] "worker_shutdown_timeout" directive invalid value in FILE:1"#,
    ),
    Case(
        Main,
        "worker_rlimit_core x;",
        r#"[emerg] "worker_rlimit_core" directive invalid value in FILE:1"#,
    ),
    Case(
        Main,
        "timer_resolution 1y;",
        r#"[emerg] "timer_resolution" directive invalid value in FILE:1"#,
    ),
    Case(
        Main,
        "error_log stderr foo;",
        r#"[emerg] invalid log level "foo" in FILE:1"#,
    ),
    Case(
        Main,
        "error_log stderr warn error;",
        r#"[emerg] duplicate log level "error" in FILE:1"#,
    ),
    Case(
        Main,
        "include nothere.conf;",
        r#"[emerg] open() "DIR/nothere.conf" failed (2: No such file or directory) in FILE:1"#,
    ),
    Case(
        Main,
        "include a b;",
        r#"[emerg] invalid number of arguments in "include" directive in FILE:1"#,
    ),
    Case(
        Main,
        "pid a;pid b;",
        r#"[emerg] "pid" directive is duplicate in FILE:1"#,
    ),
    Case(
        Main,
        "working_directory a; working_directory b;",
        r#"[emerg] "working_directory" directive is duplicate in FILE:1"#,
    ),
    Case(
        Whole,
        "events {} load_module x.so;",
        r#"[emerg] "load_module" directive is specified too late in FILE:1"#,
    ),
    Case(
        Main,
        "env A=b; env; ",
        r#"[emerg] invalid number of arguments in "env" directive in FILE:1"#,
    ),
    Case(
        Main,
        "lock_file a; lock_file b;",
        r#"[emerg] "lock_file" directive is duplicate in FILE:1"#,
    ),
    Case(
        Main,
        "debug_points foo;",
        r#"[emerg] invalid value "foo" in FILE:1"#,
    ),
    Case(
        Main,
        "thread_pool;",
        r#"[emerg] invalid number of arguments in "thread_pool" directive in FILE:1"#,
    ),
    Case(
        Main,
        "pcre_jit x;",
        r#"[emerg] invalid value "x" in "pcre_jit" directive, it must be "on" or "off" in FILE:1"#,
    ),
];
