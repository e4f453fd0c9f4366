use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parse(line: &str) -> Result<Command, clap::Error> {
    Line::try_parse_from(line.split_ascii_whitespace()).map(|line| line.args.command)
}

fn load_args(line: &str) -> LoadArgs {
    match parse(line) {
        Ok(Command::Load(args)) => args,
        Ok(other) => panic!("{other:?}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_definition_is_consistent() {
    use clap::CommandFactory;
    Line::command().debug_assert();
}

#[test]
fn load_with_everything_pinned() {
    let args = load_args(
        "bench load https://[::1]:8443/1k --protocol 1.3 --suite TLS_AES_256_GCM_SHA384 --group X25519 \
         --key-type p256 --status 206 --length 1024 -c 8 -t 2 -s 0.5 --pid 7 --cpus 0,2 --no-tickets --staple",
    );
    let plan = args
        .target
        .plan(ConnectionUse::PerRequest)
        .expect("consistent");
    assert_eq!(plan.address, "[::1]:8443".parse().expect("an address"));
    assert_eq!(
        plan.expected,
        Expected {
            status: 206,
            body_bytes: Some(1024)
        }
    );
    assert_eq!(plan.cpus, [0, 2]);
    let tls = plan.tls.expect("https");
    assert_eq!(
        (tls.protocol, tls.key_type, tls.tickets, tls.staple),
        (Some(Protocol::Tls13), Some(KeyType::P256), false, true)
    );
    assert_eq!(
        (args.clients, args.threads, args.seconds),
        (8, 2, Duration::from_millis(500))
    );
    assert!(String::from_utf8_lossy(&plan.request).contains("\r\nConnection: close\r\n"));
}

#[test]
fn an_address_replaces_the_host() {
    let args = load_args("bench load http://nowhere.invalid/ --address 127.0.0.1:1234");
    let plan = args
        .target
        .plan(ConnectionUse::KeepAlive)
        .expect("consistent");
    assert_eq!(plan.address, "127.0.0.1:1234".parse().expect("an address"));
    assert_eq!(plan.server_name.as_deref(), Some("nowhere.invalid"));
    assert!(plan.tls.is_none());
}

#[test]
fn what_contradicts_itself_is_refused() {
    for line in [
        "bench load",
        "bench load ftp://h/",
        "bench load http://h/ -s x",
        "bench load http://h/ -s -1",
        "bench load http://h/ -n 5 -s 5",
        "bench load http://h/ --protocol 1.4",
        "bench load https://h/ --early-data --resume",
        "bench compare --certificates c --work w",
        "bench compare --certificates c --work w --server no-path",
        "bench compare --certificates c --work w --server a=/bin/a --keys 0",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    let args = load_args("bench load http://127.0.0.1/ --protocol 1.3");
    assert!(matches!(
        args.target.plan(ConnectionUse::KeepAlive),
        Err(Error::Usage(_))
    ));
    for line in [
        "bench load http://127.0.0.1:9/ --resume",
        "bench load http://127.0.0.1:9/ --early-data",
    ] {
        assert!(matches!(run_load(&load_args(line)), Err(Error::Usage(_))));
    }
}

#[test]
fn quick_comparison_of_two_servers() {
    let line = "bench compare --quick --server a=/bin/a --server b=/bin/b=c --certificates c --work w --case plain-1k";
    match parse(line) {
        Ok(Command::Compare(args)) => {
            assert_eq!(args.turns.servers.len(), 2);
            assert_eq!(args.turns.servers[1].path, PathBuf::from("/bin/b=c"));
            assert!(args.turns.quick);
        }
        other => panic!("{other:?}"),
    }
}

fn storm_args(line: &str) -> StormArgs {
    match parse(line) {
        Ok(Command::Storm(args)) => args,
        Ok(other) => panic!("{other:?}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn storm_with_variants_of_a_server() {
    let line = "bench storm --certificates c --work w --server a=/bin/a --server b=/bin/b \
                --events b=multi_accept=on; --directives a=ssl_async=off; --key rsa4096,p256 \
                --main b=user=x; --clients 32 --interval 0.5 --server-cores 2,1 --rounds 7 --nice -20";
    let args = storm_args(line);
    assert_eq!(args.keys, [StormKey::Rsa4096, StormKey::P256]);
    assert_eq!(
        (args.clients, args.interval),
        (32, Duration::from_micros(500))
    );
    assert_eq!(args.server_cores, [2, 1]);
    assert_eq!((args.turns.rounds(), args.turns.nice), (7, Some(-20)));
    let servers = args.turns.servers().expect("both exist");
    let extras: Vec<_> = servers
        .iter()
        .map(|server| [&server.directives, &server.events, &server.main].map(String::as_str))
        .collect();
    assert_eq!(
        extras,
        [
            ["ssl_async=off;", "", ""],
            ["", "multi_accept=on;", "user=x;"]
        ]
    );
}

#[test]
fn storms_without_arguments_of_their_own() {
    let args = storm_args("bench storm --certificates c --work w --server a=/bin/a");
    assert!(args.keys.is_empty() && args.server_cores.is_empty());
    assert_eq!((args.clients, args.turns.rounds()), (64, 5));
    assert_eq!(args.interval, Duration::from_millis(2));
    assert_eq!(args.turns.measurement(args.seconds), Duration::from_secs(3));
    let quick = storm_args("bench storm --quick --certificates c --work w --server a=/bin/a");
    assert!(quick.turns.rounds() < 5 && quick.turns.measurement(quick.seconds) < args.seconds);
}

#[test]
fn storms_that_make_no_sense_are_refused() {
    let line = "bench storm --certificates c --work w --server a=/bin/a";
    for more in [
        "--key rsa1024",
        "--interval 0",
        "--interval -1",
        "--server-cores x",
        "--seconds x",
    ] {
        assert!(parse(&format!("{line} {more}")).is_err(), "{more}");
    }
    for more in [
        "--events b=x;",
        "--directives b=x;",
        "--main b=x;",
        "--events x",
    ] {
        let turns = storm_args(&format!("{line} {more}")).turns;
        assert!(matches!(turns.servers(), Err(Error::Usage(_))), "{more}");
    }
    let contradiction =
        "bench compare --server-cpu 1 --server-cores 2 --certificates c --work w --server a=/bin/a";
    assert!(parse(contradiction).is_err());
}

#[test]
fn a_server_of_another_kind_has_no_directives() {
    let line = "bench storm --certificates c --work w --server a=/bin/a --server b=/bin/b --server c=/bin/c";
    let servers = |more: &str| storm_args(&format!("{line} {more}")).turns.servers();
    let kinds = |more: &str| {
        let servers = servers(more).expect("consistent");
        servers.iter().map(|server| server.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(""), [Kind::Nginx; 3]);
    assert_eq!(
        kinds("--kind c=haproxy --kind a=h2o --kind b=nginx --directives b=x;"),
        [Kind::H2o, Kind::Nginx, Kind::Haproxy]
    );
    for more in [
        "--kind a=apache",
        "--kind a=",
        "--kind a",
        "--kind d=h2o",
        "--kind a=h2o --directives a=x;",
        "--kind a=h2o --rsa-directives a=x;",
        "--kind a=haproxy --events a=x;",
        "--kind a=haproxy --main a=x;",
    ] {
        assert!(matches!(servers(more), Err(Error::Usage(_))), "{more}");
    }
}

#[test]
fn http3_is_a_matter_of_the_target() {
    let plan = |line: &str| load_args(line).target.plan(ConnectionUse::KeepAlive);
    let with =
        plan("bench load https://localhost:8443/1k --http3 --streams 10 --address 127.0.0.1:1");
    let resource = with.expect("consistent").http3.expect("asked for");
    assert_eq!(
        (
            resource.streams,
            resource.authority.as_str(),
            resource.path.as_str()
        ),
        (10, "localhost:8443", "/1k")
    );
    let without = plan("bench load https://localhost:8443/1k --address 127.0.0.1:1");
    assert_eq!(without.expect("consistent").http3, None);
    let plain = plan("bench load http://localhost/ --http3 --address 127.0.0.1:1");
    assert!(matches!(plain, Err(Error::Usage(_))));
    for contradiction in [
        "bench load https://localhost/ --streams 2",
        "bench load https://localhost/ --http3 --streams 0",
        "bench load https://localhost/ --http3 --protocol 1.2",
        "bench load https://localhost/ --http3 --staple",
    ] {
        assert!(parse(contradiction).is_err(), "{contradiction}");
    }
}
