//! Tests against their own name server.

mod keeping;
mod name_server;

use self::name_server::{NameServer, Says, address, alias};
use super::*;
use hickory_resolver::proto::op::ResponseCode;
use sealane_upstream::resolve::{Resolve, ResolveError};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

fn conf(servers: &[SocketAddr]) -> model::Resolver {
    model::Resolver {
        status_zone: None,
        servers: servers.to_vec(),
        valid: None,
        ipv4: true,
        ipv6: true,
    }
}

/// A resolver that answers, on the runtime of the test.
fn started(conf: model::Resolver, timeout: Duration) -> Arc<NameResolver> {
    let resolver = Resolvers::default().of(&Arc::new(conf), timeout);
    let dns = Arc::new(resolver.dns().expect("settings that fit"));
    tokio::spawn(resolver.answering(dns));
    resolver
}

async fn asking(server: &NameServer) -> Arc<NameResolver> {
    started(conf(&[server.address]), Duration::from_secs(20))
}

async fn addresses(resolver: &NameResolver, name: &str) -> Result<Vec<String>, ResolveError> {
    let found = resolver.lookup(name).await?;
    let mut found: Vec<String> = found.iter().map(IpAddr::to_string).collect();
    found.sort();
    Ok(found)
}

#[tokio::test]
async fn a_name_has_addresses_of_both_kinds() {
    let server = NameServer::start().await;
    let records = vec![
        address("app.test", 60, "192.0.2.1"),
        address("app.test", 60, "192.0.2.2"),
        address("app.test", 60, "2001:db8::1"),
    ];
    server.says("app.test", Says::Records(records));
    let resolver = asking(&server).await;
    let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
    assert_eq!(
        addresses(&resolver, "app.test").await,
        Ok(all.map(String::from).to_vec())
    );
    // In different case it is the same name, and is not queried again.
    let asked = server.asked();
    for name in ["app.test.", "APP.Test"] {
        assert_eq!(
            addresses(&resolver, name).await.map(|found| found.len()),
            Ok(3)
        );
    }
    assert_eq!(server.asked(), asked);
}

#[tokio::test]
async fn one_kind_of_address_can_be_left_out() {
    let server = NameServer::start().await;
    let records = vec![
        address("app.test", 60, "192.0.2.1"),
        address("app.test", 60, "2001:db8::1"),
    ];
    server.says("app.test", Says::Records(records));
    let mut conf = conf(&[server.address]);
    conf.ipv6 = false;
    let resolver = started(conf.clone(), Duration::from_secs(20));
    assert_eq!(
        addresses(&resolver, "app.test").await,
        Ok(vec!["192.0.2.1".to_owned()])
    );
    assert_eq!(server.asked(), 1);
    (conf.ipv4, conf.ipv6) = (false, true);
    let resolver = started(conf, Duration::from_secs(20));
    assert_eq!(
        addresses(&resolver, "app.test").await,
        Ok(vec!["2001:db8::1".to_owned()])
    );
}

#[tokio::test]
async fn addresses_are_used_in_turn() {
    let server = NameServer::start().await;
    let records = (1..4).map(|last| address("app.test", 60, &format!("192.0.2.{last}")));
    server.says("app.test", Says::Records(records.collect()));
    let resolver = asking(&server).await;
    let mut first = Vec::new();
    for _ in 0..3 {
        first.push(resolver.lookup("app.test").await.expect("addresses")[0]);
    }
    first.sort();
    first.dedup();
    assert_eq!(first.len(), 3);
}

#[tokio::test]
async fn aliases_are_followed() {
    let server = NameServer::start().await;
    server.says(
        "www.test",
        Says::Records(vec![alias("www.test", 60, "app.test")]),
    );
    let records = vec![address("app.test", 60, "192.0.2.1")];
    server.says("app.test", Says::Records(records));
    let resolver = asking(&server).await;
    assert_eq!(
        addresses(&resolver, "www.test").await,
        Ok(vec!["192.0.2.1".to_owned()])
    );
    // One that leads to itself leads nowhere.
    server.says(
        "loop.test",
        Says::Records(vec![alias("loop.test", 60, "loop.test")]),
    );
    assert!(addresses(&resolver, "loop.test").await.is_err());
    // Nor does a long way, each step of which is another answer.
    for number in 0..100 {
        let (name, next) = (format!("{number}.test"), format!("{}.test", number + 1));
        server.says(&name, Says::Records(vec![alias(&name, 60, &next)]));
    }
    let asked = server.asked();
    assert!(addresses(&resolver, "0.test").await.is_err());
    let asked = server.asked() - asked;
    assert!(asked < 50, "{asked} questions");
}

#[tokio::test]
async fn one_step_of_an_alias_is_told() {
    let server = NameServer::start().await;
    let records = vec![alias("_acme-challenge.a.test", 60, "A.Acme.test")];
    server.says("_acme-challenge.a.test", Says::Records(records));
    let records = vec![address("b.test", 60, "192.0.2.1")];
    server.says("b.test", Says::Records(records));
    server.says("refused.test", Says::Code(ResponseCode::Refused));
    let resolver = asking(&server).await;
    let ask = async |name: &str| resolver.alias(name).await.expect("an answer");
    let target = Ok(Some("a.acme.test".to_owned()));
    assert_eq!(ask("_acme-challenge.a.test").await, target);
    assert_eq!(ask("_ACME-challenge.A.test.").await, target);
    assert_eq!(ask("b.test").await, Ok(None));
    assert_eq!(ask("none.test").await, Ok(None));
    assert_eq!(ask("refused.test").await, Err(ResolveError::Refused));
}

#[tokio::test]
async fn why_a_name_has_no_address() {
    let server = NameServer::start().await;
    for (name, code) in [
        ("formerr.test", ResponseCode::FormErr),
        ("servfail.test", ResponseCode::ServFail),
        ("notimp.test", ResponseCode::NotImp),
        ("refused.test", ResponseCode::Refused),
    ] {
        server.says(name, Says::Code(code));
    }
    server.says("empty.test", Says::Records(Vec::new()));
    let resolver = asking(&server).await;
    for (name, text) in [
        ("formerr.test", "1: Format error"),
        ("servfail.test", "2: Server failure"),
        ("nxdomain.test", "3: Host not found"),
        ("empty.test", "3: Host not found"),
        ("notimp.test", "4: Unimplemented"),
        ("refused.test", "5: Operation refused"),
        // Names that need no query.
        ("", "3: Host not found"),
        (".", "3: Host not found"),
        ("a..test", "3: Host not found"),
        (&"a".repeat(64), "3: Host not found"),
    ] {
        let error = addresses(&resolver, name).await.expect_err(name);
        assert_eq!(error.to_string(), text, "{name}");
    }
}

#[tokio::test]
async fn addresses_of_one_kind_count_even_if_the_other_fails() {
    // No AAAA records: the server replies that the name exists, without records.
    let server = NameServer::start().await;
    server.says(
        "app.test",
        Says::Records(vec![address("app.test", 60, "192.0.2.1")]),
    );
    let resolver = asking(&server).await;
    assert_eq!(
        addresses(&resolver, "app.test").await,
        Ok(vec!["192.0.2.1".to_owned()])
    );
}

#[tokio::test]
async fn silence_and_nonsense_end_with_resolver_timeout() {
    let server = NameServer::start().await;
    server.says("silent.test", Says::Silence);
    server.says("nonsense.test", Says::Nonsense);
    let timeout = Duration::from_millis(300);
    let resolver = started(conf(&[server.address]), timeout);
    for name in ["silent.test", "nonsense.test"] {
        let start = Instant::now();
        let error = addresses(&resolver, name).await.expect_err(name);
        assert_eq!(error.to_string(), "110: Operation timed out", "{name}");
        assert!(start.elapsed() >= timeout);
    }
}

#[tokio::test]
async fn a_question_is_repeated_after_a_while_and_not_before() {
    let server = NameServer::start().await;
    server.says("silent.test", Says::Silence);
    let only_ipv4 = model::Resolver {
        ipv6: false,
        ..conf(&[server.address])
    };
    let resolver = started(only_ipv4, Duration::from_secs(60));
    let start = Instant::now();
    let lookup = tokio::spawn(async move { addresses(&resolver, "silent.test").await });
    while server.asked() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= connections::REPEATED_AFTER);
    lookup.abort();
}

#[tokio::test]
async fn a_dead_name_server_does_not_matter_if_there_is_another() {
    // Nobody answers at the first.
    let dead = tokio::net::UdpSocket::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let server = NameServer::start().await;
    server.says(
        "app.test",
        Says::Records(vec![address("app.test", 60, "192.0.2.1")]),
    );
    let servers = [dead.local_addr().expect("an address"), server.address];
    let resolver = started(conf(&servers), Duration::from_secs(20));
    assert_eq!(
        addresses(&resolver, "app.test").await,
        Ok(vec!["192.0.2.1".to_owned()])
    );
}

#[tokio::test]
async fn what_does_not_fit_into_udp_comes_over_tcp() {
    let server = NameServer::start().await;
    let records = (1..200).map(|last| address("app.test", 60, &format!("192.0.2.{last}")));
    server.says("app.test", Says::OnlyOverTcp(records.collect()));
    let resolver = asking(&server).await;
    assert_eq!(
        addresses(&resolver, "app.test")
            .await
            .map(|found| found.len()),
        Ok(199)
    );
    assert!(server.asked_over_tcp() > 0);
}

#[tokio::test]
async fn no_name_has_more_addresses_than_are_kept() {
    let server = NameServer::start().await;
    let records = (0..1500).map(|number| {
        let ip = format!("10.0.{}.{}", number / 250, number % 250);
        address("app.test", 60, &ip)
    });
    server.says("app.test", Says::OnlyOverTcp(records.collect()));
    let resolver = asking(&server).await;
    let found = addresses(&resolver, "app.test").await;
    assert_eq!(found.map(|found| found.len()), Ok(256));
}

#[tokio::test]
async fn answers_are_kept_for_their_ttl_or_as_valid_says() {
    let server = NameServer::start().await;
    server.says(
        "app.test",
        Says::Records(vec![address("app.test", 0, "192.0.2.1")]),
    );
    let resolver = asking(&server).await;
    // With a TTL of 0 there is a query every time.
    for lookups in 1..=3 {
        addresses(&resolver, "app.test").await.expect("addresses");
        assert_eq!(server.asked(), 2 * lookups);
    }
    let mut conf = conf(&[server.address]);
    conf.valid = Some(Duration::from_secs(1000));
    let resolver = started(conf, Duration::from_secs(20));
    let asked = server.asked();
    for _ in 0..3 {
        addresses(&resolver, "app.test").await.expect("addresses");
    }
    assert_eq!(server.asked(), asked + 2);
}

#[tokio::test]
async fn what_is_kept_is_asked_for_again_when_its_time_is_over() {
    let server = NameServer::start().await;
    server.says(
        "app.test",
        Says::Records(vec![address("app.test", 1, "192.0.2.1")]),
    );
    let resolver = asking(&server).await;
    addresses(&resolver, "app.test").await.expect("addresses");
    server.says(
        "app.test",
        Says::Records(vec![address("app.test", 1, "192.0.2.2")]),
    );
    loop {
        let found = addresses(&resolver, "app.test").await.expect("addresses");
        if found == ["192.0.2.2"] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(server.asked(), 4);
}

#[tokio::test]
async fn many_that_wait_for_one_name_ask_once() {
    let server = NameServer::start().await;
    let records = vec![address("app.test", 60, "192.0.2.1")];
    server.says("app.test", Says::Late(Duration::from_millis(200), records));
    let resolver = asking(&server).await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        let resolver = Arc::clone(&resolver);
        waiting.push(tokio::spawn(async move {
            addresses(&resolver, "app.test").await
        }));
    }
    // A cancelled request does not cancel the others.
    waiting.remove(0).abort();
    for one in waiting {
        let found = one.await.expect("no panic");
        assert_eq!(found, Ok(vec!["192.0.2.1".to_owned()]));
    }
    assert_eq!(server.asked(), 2);
}

#[tokio::test]
async fn more_questions_than_may_wait_are_answered_at_once() {
    // Nobody has started this one.
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let timeout = Duration::from_secs(20);
    let resolver = Resolvers::default().of(&Arc::new(conf(&[nobody])), timeout);
    let waiting: Vec<_> = (0..4_096)
        .map(|number| resolver.lookup(&format!("{number}.test")))
        .collect();
    assert_eq!(
        resolver.lookup("one.more.test").await,
        Err(ResolveError::TimedOut)
    );
    drop(waiting);
}

#[tokio::test]
async fn addresses_stand_for_themselves() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let resolver = Resolvers::default().of(&Arc::new(conf(&[nobody])), Duration::from_secs(20));
    for (written, meant) in [
        ("192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
    ] {
        assert_eq!(
            addresses(&resolver, written).await,
            Ok(vec![meant.to_owned()])
        );
    }
}

#[tokio::test]
async fn the_same_directive_has_one_resolver() {
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let conf = Arc::new(conf(&[nobody]));
    let mut resolvers = Resolvers::default();
    let seconds = Duration::from_secs;
    let first = resolvers.of(&conf, seconds(30));
    assert!(Arc::ptr_eq(
        &first,
        &resolvers.of(&Arc::new((*conf).clone()), seconds(30))
    ));
    assert!(!Arc::ptr_eq(&first, &resolvers.of(&conf, seconds(5))));
}

/// The thread itself, as the worker process starts it.
#[test]
fn the_thread_answers_a_worker() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let journal = Journal::running(sealane_log::Logger::discard());
    // The name server needs a thread to run it while the worker waits.
    let (say, address_of) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(move || {
        runtime().block_on(async move {
            let server = NameServer::start().await;
            server.says(
                "app.test",
                Says::Records(vec![address("app.test", 60, "192.0.2.1")]),
            );
            say.send(server.address).expect("the test waits");
            let _ = stopped.await;
        });
    });
    let mut resolvers = Resolvers::default();
    let server = address_of.recv().expect("an address");
    let resolver = resolvers.of(&Arc::new(conf(&[server])), Duration::from_secs(20));
    let mut thread = ResolverThread::default();
    thread
        .set(&resolvers, Vec::new(), &journal)
        .expect("a thread");
    let found = runtime().block_on(addresses(&resolver, "app.test"));
    assert_eq!(found, Ok(vec!["192.0.2.1".to_owned()]));
    drop(stop);
    serving.join().expect("no panic");
}
