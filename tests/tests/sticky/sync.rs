//! `sticky learn ... sync`: nodes share sessions through a Redis.

use super::{Two, get, get_with, origin_of, origins};
use sealane_tests::{Program, Redis, Server, Site, wait_for};

const SESSIONS: usize = 10;

fn configuration(two: &Two, redis: u16, parameters: &str) -> String {
    let sticky = format!(
        "sticky learn create=$upstream_cookie_session lookup=$cookie_session zone=s:1m sync \
         {parameters};"
    );
    let http = two.configuration(&sticky, "max_fails=0", "max_fails=0");
    format!(
        "error_log logs/error.log info; pid logs/pid; worker_processes 1; events {{}}
         http {{ access_log off;
             upstream_store redis://127.0.0.1:{redis} key=store.key timeout=1s;
             {http} }}"
    )
}

fn sites() -> [Site; 2] {
    let sites = [Site::new(), Site::new()];
    for site in &sites {
        site.write("store.key", "0123456789abcdef0123456789abcdef");
    }
    sites
}

fn cookie(session: usize) -> String {
    format!("Cookie: session=secret{session}\r\n")
}

/// Logs in as often as there are sessions to make; the servers of the sessions.
fn log_in(server: &Server<'_>) -> Vec<String> {
    let home = |session| {
        let response = get(server.port("plain"), &format!("/login/secret{session}"));
        assert_eq!(response.status, 200);
        origin_of(&response).to_owned()
    };
    (0..SESSIONS).map(home).collect()
}

/// Waits until all sessions are in the store. One that was made before the node was connected is
/// written when it is used.
#[track_caller]
fn wait_for_sessions(redis: &Redis<'_>, server: &Server<'_>) {
    wait_for("sessions in the store", || {
        homes(server);
        (redis.keys().len() == SESSIONS).then_some(())
    });
}

/// Where each session leads to.
fn homes(server: &Server<'_>) -> Vec<String> {
    let home = |session| origins(server, "/", &cookie(session), 1);
    (0..SESSIONS).map(home).collect()
}

#[test]
fn a_session_of_one_node_leads_to_its_server_from_another() {
    let sites = sites();
    let two = Two::new();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let text = configuration(&two, redis.port(), "timeout=10m");
    let first = Server::start(&sites[0], Program::Sealane, &text);
    let second = Server::start(&sites[1], Program::Sealane, &text);
    let known = log_in(&first);
    assert!(
        known.contains(&"a".to_owned()) && known.contains(&"b".to_owned()),
        "{known:?}"
    );
    wait_for_sessions(&redis, &first);
    assert_eq!(homes(&second), known);
    // A node that has forgotten everything asks again.
    second.stop("QUIT");
    let second = Server::start(&sites[1], Program::Sealane, &text);
    assert_eq!(homes(&second), known);
    // Neither sessions nor servers can be read in the store, and they do not stay.
    for key in redis.keys() {
        assert!(key.starts_with("sealane:g:") && key.len() == 74, "{key}");
        let value = redis.ask(&["--no-raw", "GET", &key]);
        assert!(!value.contains("secret") && value.len() > 40, "{value}");
        let ttl: i64 = redis.ask(&["TTL", &key]).parse().expect("a number");
        assert!((1..=600).contains(&ttl), "{ttl}");
    }
    // A session that nobody has made is not learnt.
    let unknown = origins(&second, "/", "Cookie: session=other\r\n", 4);
    assert!(unknown == "abab" || unknown == "baba", "{unknown}");
    assert_eq!(redis.keys().len(), SESSIONS);
}

#[test]
fn a_session_that_moves_leads_to_its_new_server_from_another_node() {
    let sites = sites();
    let two = Two::new();
    let redis = Redis::start(&sites[0], "redis", &[]);
    // Nodes compare what they know after a quarter of it.
    let text = configuration(&two, redis.port(), "timeout=8s");
    let first = Server::start(&sites[0], Program::Sealane, &text);
    let second = Server::start(&sites[1], Program::Sealane, &text);
    let known = log_in(&first);
    let of_a = known
        .iter()
        .position(|home| home == "a")
        .expect("it has some");
    wait_for_sessions(&redis, &first);
    assert_eq!(homes(&second), known);
    wait_for("the other node to hear of it", || {
        // a refuses this, so that b does it. More than once, as the other node may just be writing
        // what it knows into the store.
        let response = get_with(first.port("plain"), "/fails", &cookie(of_a));
        assert_eq!((response.status, origin_of(&response)), (200, "b"));
        (origins(&second, "/", &cookie(of_a), 1) == "b").then_some(())
    });
    assert_eq!(origins(&first, "/", &cookie(of_a), 1), "b");
}

#[test]
fn sessions_that_are_used_stay_in_the_store() {
    let sites = sites();
    let two = Two::new();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let text = configuration(&two, redis.port(), "timeout=4s");
    let first = Server::start(&sites[0], Program::Sealane, &text);
    let known = log_in(&first);
    wait_for_sessions(&redis, &first);
    // All but one are forgotten.
    wait_for("the others to end", || {
        assert_eq!(origins(&first, "/", &cookie(0), 1), known[0]);
        (redis.keys().len() == 1).then_some(())
    });
    let begun = std::time::Instant::now();
    while begun.elapsed().as_secs() < 5 {
        assert_eq!(origins(&first, "/", &cookie(0), 1), known[0]);
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(redis.keys().len(), 1);
    let second = Server::start(&sites[1], Program::Sealane, &text);
    assert_eq!(origins(&second, "/", &cookie(0), 1), known[0]);
    // It is not written with every request.
    let stats = redis.ask(&["INFO", "commandstats"]);
    let sets = stats.lines().find(|line| line.starts_with("cmdstat_set:"));
    let calls = sets.and_then(|line| line.split("calls=").nth(1)?.split(',').next()?.parse().ok());
    let calls: usize = calls.expect("a number");
    let seconds = begun.elapsed().as_secs() as usize + 60;
    assert!(calls < SESSIONS + seconds, "{calls}");
    println!("{calls} writes");
}

#[test]
fn requests_are_served_while_the_store_is_paused_or_gone() {
    let sites = sites();
    let two = Two::new();
    let mut redis = Redis::start(&sites[0], "redis", &[]);
    let text =
        configuration(&two, redis.port(), "timeout=10m").replace("timeout=1s", "timeout=50ms");
    let first = Server::start(&sites[0], Program::Sealane, &text);
    let known = log_in(&first);
    let all_served = |what: &str| {
        // What this node knows it need not look up.
        assert_eq!(homes(&first), known, "{what}");
        for number in 0..50 {
            let unknown = format!("Cookie: session=attack{number}\r\n");
            assert_eq!(
                get_with(first.port("plain"), "/", &unknown).status,
                200,
                "{what}"
            );
        }
        for number in 0..50 {
            let target = format!("/login/{what}{number}");
            assert_eq!(get(first.port("plain"), &target).status, 200, "{what}");
        }
        let session = format!("Cookie: session={what}7\r\n");
        let learnt = origins(&first, "/", &session, 4);
        assert!(learnt == "aaaa" || learnt == "bbbb", "{what}: {learnt}");
    };
    redis.pause();
    all_served("paused");
    first.wait_for_log("is not reachable");
    redis.resume();
    redis.kill();
    all_served("gone");
    redis.restart();
    first.wait_for_log("is back");
    all_served("back");
}

#[test]
fn what_others_write_into_the_store_is_not_believed() {
    let sites = sites();
    let two = Two::new();
    let redis = Redis::start(&sites[0], "redis", &[]);
    let text = configuration(&two, redis.port(), "timeout=10m");
    let first = Server::start(&sites[0], Program::Sealane, &text);
    let known = log_in(&first);
    wait_for_sessions(&redis, &first);
    let keys = redis.keys();
    // Values of sessions that belong to another server: each is moved to the next name.
    for (at, key) in keys.iter().enumerate() {
        redis.ask(&["COPY", key, &format!("copy{at}")]);
    }
    for (at, key) in keys.iter().enumerate() {
        let other = format!("copy{}", (at + 1) % keys.len());
        redis.ask(&["COPY", &other, key, "REPLACE"]);
    }
    let second = Server::start(&sites[1], Program::Sealane, &text);
    let in_turns = |server: &Server<'_>| {
        for session in 0..SESSIONS {
            let homes = origins(server, "/", &cookie(session), 4);
            assert!(homes == "abab" || homes == "baba", "{session}: {homes}");
        }
    };
    in_turns(&second);
    for garbage in ["", "garbage", &"x".repeat(20_000)] {
        for key in &keys {
            redis.ask(&["SET", key, garbage]);
        }
        in_turns(&second);
    }
    // The node that has made them knows better.
    assert_eq!(homes(&first), known);
}

#[test]
fn nothing_is_shared_without_a_store_or_a_key() {
    let site = Site::new();
    let learn = "create=$cookie_a lookup=$cookie_a zone=z:1m sync";
    for (http, upstream, words) in [
        (
            "",
            "sticky learn LEARN;",
            "\"sticky learn ... sync\" of upstream \"u\" needs a store",
        ),
        (
            "ssl_session_store redis://127.0.0.1:1;",
            "sticky learn LEARN;",
            "needs a store with \"key=\"",
        ),
        (
            "upstream_store redis://127.0.0.1:1 key=short.key;",
            "sticky learn LEARN;",
            "must hold at least 32 bytes, not 5",
        ),
        (
            "upstream_store redis://127.0.0.1:1 key=missing.key;",
            "check shared;",
            "missing.key\": open() failed (2",
        ),
        (
            "",
            "check shared;",
            "\"check ... shared\" of upstream \"u\" needs a store",
        ),
        (
            "upstream_store redis://127.0.0.1:1 key=short.key;",
            "upstream_store off; check shared;",
            "needs a store",
        ),
        (
            "upstream_store redis://:guessed@127.0.0.1:1 nonsense;",
            "",
            "invalid parameter \"nonsense\"",
        ),
        (
            "",
            "upstream_store ftp://h;",
            "invalid URL of the session store",
        ),
        (
            "",
            "upstream_store off; upstream_store off;",
            "\"upstream_store\" directive is duplicate",
        ),
        (
            "server { listen 127.0.0.1:%plain%; location / { proxy_pass http://u; health_check shared; } }",
            "",
            "\"health_check ... shared\" of upstream \"u\" needs a store",
        ),
    ] {
        site.write("short.key", "short");
        let upstream = upstream.replace("LEARN", learn);
        let text = format!(
            "error_log stderr; pid nginx.pid; events {{}} http {{ {http} upstream u {{ server 127.0.0.1:1; {upstream} }} }}"
        );
        let file = site.write("wrong.conf", site.fill_in(&text));
        let tested = std::process::Command::new(sealane_tests::sealane_binary())
            .args(["-t", "-c"])
            .arg(&file)
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&tested.stderr).into_owned();
        assert!(!tested.status.success(), "{text}: {said}");
        assert!(said.contains(words), "{text}: {said}");
        assert!(!said.contains("guessed"), "{said}");
    }
}
