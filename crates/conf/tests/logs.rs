//! Destinations and options of logs.

use sealane_conf::model::{LogTarget, PeerAddress};
use sealane_conf::{Config, MemoryLoader, Options};

fn read(http: &str) -> Result<Config, String> {
    let text = format!("error_log stderr; events {{}} http {{ {http} }}");
    let mut loader = MemoryLoader::new().with("/c/nginx.conf", text);
    let mut options = Options::new("/c/nginx.conf", "/c");
    options.hostname = "machine".into();
    sealane_conf::parse(&options, &mut loader).map_err(|failure| failure.error.to_string())
}

fn target(log: &str) -> LogTarget {
    let config = read(&format!("server {{ access_log {log}; }}")).expect("it is valid");
    let http = config.http.expect("it is there");
    http.servers[0].conf.access_logs[0].target.clone()
}

#[test]
fn parameters_of_syslog() {
    let LogTarget::Syslog(server) = target("syslog:server=localhost") else {
        panic!("not syslog");
    };
    let address = "127.0.0.1:514".parse().expect("an address");
    assert_eq!(server.address, PeerAddress::Inet(address));
    assert_eq!((server.facility, server.severity), (23, 6));
    assert_eq!(server.tag, "nginx");
    assert_eq!(server.hostname.as_deref(), Some("machine"));
    let LogTarget::Syslog(server) = target(
        "syslog:tag=A_9,nohostname,server=unix:/run/log,facility=kern,severity=debug combined",
    ) else {
        panic!("not syslog");
    };
    assert_eq!(server.address, PeerAddress::Unix("/run/log".into()));
    assert_eq!((server.facility, server.severity), (0, 7));
    assert_eq!((&*server.tag, &server.hostname), ("A_9", &None));
}

#[test]
fn mistakes_have_nginx_s_words() {
    for (line, expected) in [
        ("access_log syslog:tag=a", "no syslog server specified"),
        ("access_log syslog:", "unknown syslog parameter \"\""),
        ("access_log syslog:server=::1", "in syslog server \"::1\""),
        (
            "access_log syslog:server=no.such",
            "host not found in syslog server \"no.such\"",
        ),
        (
            "access_log syslog:server=127.0.0.1,server=127.0.0.1",
            "duplicate syslog \"server\"",
        ),
        (
            "error_log syslog:server=127.0.0.1,tag=a,tag=b",
            "duplicate syslog \"tag\"",
        ),
        (
            "error_log syslog:server=127.0.0.1,facility=x",
            "unknown syslog facility \"x\"",
        ),
        (
            "error_log syslog:server=127.0.0.1,severity=err",
            "unknown syslog severity \"err\"",
        ),
        (
            "error_log syslog:server=127.0.0.1,tag=a-b",
            "syslog \"tag\" only allows",
        ),
        (
            "access_log syslog:server=127.0.0.1 combined buffer=4k",
            "logs to syslog cannot be buffered",
        ),
        (
            "access_log a/$host combined gzip",
            "buffered logs cannot have variables in name",
        ),
        (
            "access_log a combined gzip=10",
            "invalid compression level \"10\"",
        ),
        (
            "access_log a combined gzip; access_log a combined gzip=2",
            "already defined with conflicting",
        ),
        (
            "open_log_file_cache inactive=3s",
            "must have \"max\" parameter",
        ),
        (
            "open_log_file_cache max=x",
            "invalid \"open_log_file_cache\" parameter \"max=x\"",
        ),
        (
            "open_log_file_cache off; open_log_file_cache off",
            "is duplicate",
        ),
    ] {
        let error = read(&format!("server {{ {line}; }}")).expect_err(line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn a_cache_holds_where_it_is_written_and_below() {
    let config = read(
        "access_log logs/$host; open_log_file_cache max=9 valid=1m; server { location / { \
         open_log_file_cache max=3 min_uses=2 inactive=7s; } location /off { open_log_file_cache off; } }",
    );
    let config = config.expect("it is valid");
    let server = &config.http.as_ref().expect("it is there").servers[0];
    let cache_of = |logs: &[sealane_conf::model::AccessLog]| match &logs[0].target {
        LogTarget::Paths(paths) => {
            assert_eq!(paths.written, std::path::Path::new("/c/logs/$host"));
            paths
                .cache
                .map(|cache| (cache.max, cache.min_uses, cache.inactive.as_secs()))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(cache_of(&server.conf.access_logs), Some((9, 1, 10)));
    let mut below: Vec<_> = server
        .locations
        .all()
        .map(|location| cache_of(&location.conf.access_logs))
        .collect();
    below.sort();
    assert_eq!(below, [None, Some((3, 2, 7))]);
}

#[test]
fn programs_and_samples() {
    let config = |lines: &str| {
        let text = format!("events {{}} http {{ server {{ {lines} }} }}");
        let mut files = MemoryLoader::new().with("/conf", text);
        let parsed = sealane_conf::parse(&Options::new("/conf", "/prefix"), &mut files);
        parsed.map_err(|refused| refused.error.message)
    };
    let log = |line: &str| {
        let config = config(line)?;
        let http = config.http.expect("there is one");
        Ok::<_, String>(http.servers[0].conf.access_logs[0].clone())
    };
    let found = log(r#"access_log "pipe:/usr/bin/logger -t  web" ratio=0.01;"#).expect("valid");
    let LogTarget::Pipe(program) = &found.target else {
        panic!("{:?}", found.target)
    };
    assert_eq!(program.program.to_str(), Some("/usr/bin/logger"));
    assert_eq!(program.arguments, ["-t", "web"]);
    assert_eq!(
        (&*found.format.name, found.ratio),
        ("combined", Some(10_000))
    );
    let found = log("access_log /a combined buffer=8k ratio=1;").expect("valid");
    assert_eq!(
        (found.buffer_bytes, found.ratio),
        (Some(8192), Some(1_000_000))
    );
    for (line, message) in [
        ("access_log pipe:logger;", "invalid log program \"logger\""),
        ("error_log pipe:;", "invalid log program \"\""),
        (
            "access_log \"pipe:rollback logs/a interval=60m\";",
            "invalid log program \"rollback logs/a interval=60m\"",
        ),
        ("access_log /a ratio=0;", "invalid ratio \"0\""),
        ("access_log /a ratio=1.1;", "invalid ratio \"1.1\""),
        ("access_log /a combined ratio=x;", "invalid ratio \"x\""),
    ] {
        let error = config(line).expect_err(line);
        assert!(error.starts_with(message), "{line}: {error}");
    }
}
