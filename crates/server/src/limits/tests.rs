use super::connections::NoPermit;
use super::requests::{ZoneLookup, delay_ms};
use super::*;
use crate::materials::Materials;
use crate::testing::{Site, parse};
use proptest::prelude::*;
use sealane_log::LogSet;
use sealane_sys::guard::Guard;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

const NOW_MS: u64 = 1_000_000_000;

fn added(zone: &RequestZone, key: &str, rate: i64, burst: i64, now_ms: u64) -> ZoneLookup {
    zone.ask(key.as_bytes(), rate, burst, true, now_ms).1
}

#[test]
fn a_bucket_leaks_at_its_rate() {
    let zone = RequestZone::new(1 << 20);
    let ask = |after_ms: u64| added(&zone, "key", 2000, 3000, NOW_MS + after_ms);
    assert_eq!(ask(0), ZoneLookup::Added(0));
    assert_eq!(ask(0), ZoneLookup::Added(1000));
    assert_eq!(ask(0), ZoneLookup::Added(2000));
    assert_eq!(ask(0), ZoneLookup::Added(3000));
    assert_eq!(ask(0), ZoneLookup::Busy(4000));
    assert_eq!(ask(100), ZoneLookup::Busy(3800));
    assert_eq!(ask(500), ZoneLookup::Added(3000));
    assert_eq!(ask(501), ZoneLookup::Busy(3998));
    assert_eq!(ask(1501), ZoneLookup::Added(1998));
    assert_eq!(ask(60_000), ZoneLookup::Added(0));
    // A clock that goes back by a little counts as one that stands still.
    assert_eq!(ask(59_000), ZoneLookup::Added(1000));
    assert_eq!(
        added(&zone, "other", 2000, 3000, NOW_MS),
        ZoneLookup::Added(0)
    );
    assert_eq!(delay_ms(3000, 0, 2000), 1500);
    assert_eq!(delay_ms(3000, 1000, 2000), 1000);
    assert_eq!(delay_ms(1000, 1000, 2000), 0);
    assert_eq!(delay_ms(0, 0, 16), 0);
    assert_eq!(delay_ms(i64::MAX, 0, 1), i64::MAX as u64);
}

#[test]
fn a_pinned_bucket_is_filled_later_and_stays_until_then() {
    // Room for about two hundred keys.
    let zone = RequestZone::new(32 << 10);
    let (position, answer) = zone.ask(b"pinned", 1000, 0, false, NOW_MS);
    let ZoneLookup::Pinned(id) = answer else {
        panic!("{answer:?}")
    };
    for number in 0..1000 {
        zone.ask(format!("{number}").as_bytes(), 1000, 0, true, NOW_MS);
    }
    assert_eq!(zone.add(position, id, 1000, NOW_MS), 0);
    assert_eq!(
        added(&zone, "pinned", 1000, 0, NOW_MS),
        ZoneLookup::Busy(1000)
    );
    let (position, answer) = zone.ask(b"pinned", 1000, 0, false, NOW_MS + 1000);
    assert_eq!(answer, ZoneLookup::Pinned(id));
    zone.unpin(position, id);
    assert_eq!(
        added(&zone, "pinned", 1000, 0, NOW_MS + 1000),
        ZoneLookup::Added(0)
    );
}

#[test]
fn the_oldest_key_makes_room_and_a_zone_of_pinned_ones_is_full() {
    let zone = RequestZone::new(32 << 10);
    for number in 0..100_000 {
        let answer = added(&zone, &format!("{number}"), 1000, 0, NOW_MS);
        assert_eq!(answer, ZoneLookup::Added(0), "{number}");
    }
    let (keys, shards) = zone.zone_len();
    assert_eq!(shards, 1, "as small as it is, it is one list");
    assert!((150..=256).contains(&keys), "{keys}");
    assert_eq!(
        added(&zone, "99999", 1000, 0, NOW_MS),
        ZoneLookup::Busy(1000)
    );
    assert_eq!(added(&zone, "0", 1000, 0, NOW_MS), ZoneLookup::Added(0));
    // What was used last stays.
    for number in 0..keys {
        added(&zone, "99999", 1000, 0, NOW_MS);
        added(&zone, &format!("new{number}"), 1000, 0, NOW_MS);
    }
    assert_eq!(
        added(&zone, "99999", 1000, 0, NOW_MS),
        ZoneLookup::Busy(1000)
    );

    let mut pinned = 0;
    while let (_, ZoneLookup::Pinned(_)) =
        zone.ask(format!("pin{pinned}").as_bytes(), 1000, 0, false, NOW_MS)
    {
        pinned += 1;
        assert!(pinned <= 256);
    }
    let (_, answer) = zone.ask(b"one more", 1000, 0, true, NOW_MS);
    assert_eq!(answer, ZoneLookup::NoNode);
}

#[test]
fn empty_buckets_are_forgotten_after_a_minute() {
    let zone = RequestZone::new(1 << 20);
    for number in 0..100 {
        added(&zone, &format!("{number}"), 1000, 0, NOW_MS);
    }
    for number in 0..60 {
        added(&zone, &format!("later{number}"), 1000, 0, NOW_MS + 60_000);
    }
    let (keys, _) = zone.zone_len();
    assert!(keys < 160, "{keys}");
}

#[test]
fn large_zones_have_many_shards_and_hold_what_nginx_holds() {
    let zone = RequestZone::new(10 << 20);
    for number in 0..200_000_u32 {
        zone.ask(&number.to_be_bytes(), 1000, 0, true, NOW_MS);
    }
    let (keys, shards) = zone.zone_len();
    assert_eq!(shards, 64);
    assert!((78_000..=82_000).contains(&keys), "{keys}");
}

#[test]
fn threads_on_one_key_never_let_through_more_than_one_would() {
    const THREADS: usize = 8;
    let zone = RequestZone::new(1 << 20);
    let passed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..1000 {
                    if let ZoneLookup::Added(_) = added(&zone, "key", 1000, 500_000, NOW_MS) {
                        passed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(passed.load(Ordering::Relaxed), 501);
}

/// What nginx's source says, for one key and without a zone that fills up.
struct Model {
    excess: i64,
    last_ms: u64,
}

proptest! {
    #[test]
    fn answers_are_those_of_the_formula(
        rate in 1_i64..100_000,
        burst in 0_i64..10_000,
        steps in proptest::collection::vec((0_u64..3, 0_u64..5_000), 1..200),
    ) {
        let zone = RequestZone::new(1 << 20);
        let mut models: HashMap<u64, Model> = HashMap::new();
        let mut now_ms = NOW_MS;
        for (key, passed_ms) in steps {
            now_ms += passed_ms;
            let answer = added(&zone, &format!("{key}"), rate, burst, now_ms);
            let Some(model) = models.get_mut(&key) else {
                models.insert(key, Model { excess: 0, last_ms: now_ms });
                prop_assert_eq!(answer, ZoneLookup::Added(0));
                continue;
            };
            let ms = i64::try_from(now_ms - model.last_ms).expect("small");
            let excess = (model.excess - rate * ms / 1000 + 1000).max(0);
            if excess > burst {
                prop_assert_eq!(answer, ZoneLookup::Busy(excess));
                continue;
            }
            prop_assert_eq!(answer, ZoneLookup::Added(excess));
            model.excess = excess;
            if ms > 0 {
                model.last_ms = now_ms;
            }
        }
    }
}

#[test]
fn places_are_given_up() {
    let zone = Arc::new(ConnectionZone::new(32 << 10));
    let one = zone.enter(b"key", 2).expect("there is room");
    let two = zone.enter(b"key", 2).expect("there is room");
    assert_eq!(zone.enter(b"key", 2).err(), Some(NoPermit::Busy));
    assert_eq!(zone.keys(), 1);
    drop(one);
    let three = zone.enter(b"key", 2).expect("one has gone");
    drop((two, three));
    assert_eq!(zone.keys(), 0);

    let mut held = Vec::new();
    let full = loop {
        match zone.enter(format!("{}", held.len()).as_bytes(), 1) {
            Ok(permit) => held.push(permit),
            Err(reason) => break reason,
        }
        assert!(held.len() <= 512);
    };
    assert_eq!(full, NoPermit::NoNode);
    assert!(held.len() >= 300, "{}", held.len());
    held.pop();
    assert!(zone.enter(b"key", 1).is_ok());
}

#[test]
fn threads_never_hold_more_permits_than_there_are() {
    let zone = Arc::new(ConnectionZone::new(1 << 20));
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    if let Ok(permit) = zone.enter(b"key", 3) {
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                }
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert_eq!(zone.keys(), 0);
}

#[test]
fn a_request_holds_its_permit_until_it_is_over() {
    let site = Site::with_http(
        "limit_conn_zone $arg_key zone=a:1m; limit_conn_zone $server_name zone=b:1m; \
         server { listen 127.0.0.1:80; limit_conn_status 429; add_header X-Status $limit_conn_status always; \
         location /one/ { limit_conn a 1; alias DIR/; } \
         location /both/ { limit_conn b 2; limit_conn a 1; alias DIR/; } \
         location /dry/ { limit_conn a 1; limit_conn_dry_run on; alias DIR/; } \
         location /asks/ { limit_conn a 1; auth_request /one/a.txt; alias DIR/; } }",
    );
    site.file("a.txt", "a");
    let begin = |target: &str| {
        let mut exchange = site.exchange(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        site.handle(&mut exchange);
        exchange
    };
    let status = |target: &str| {
        let reply = site.get(target);
        let shown = reply.header("X-Status").map(str::to_owned);
        (reply.status(), shown.unwrap_or_default())
    };
    let is = |code: u16, name: &str| (code, name.to_owned());
    let held = begin("/one/a.txt?key=1");
    assert_eq!(status("/one/a.txt?key=1"), is(429, "REJECTED"));
    assert_eq!(status("/one/a.txt?key=2"), is(200, "PASSED"));
    assert_eq!(status("/one/a.txt"), is(200, ""));
    assert_eq!(status("/dry/a.txt?key=1"), is(200, "REJECTED_DRY_RUN"));
    assert_eq!(status("/dry/a.txt?key=2"), is(200, "PASSED"));
    let also = begin("/both/a.txt?key=2");
    // A refusal by the second zone gives up the place in the first one.
    assert_eq!(status("/both/a.txt?key=1"), is(429, "REJECTED"));
    assert_eq!(status("/both/a.txt?key=3"), is(200, "PASSED"));
    drop(held);
    assert_eq!(status("/one/a.txt?key=1"), is(200, "PASSED"));
    drop(also);
    // Its subrequest is the same request.
    assert_eq!(status("/asks/a.txt?key=1"), is(200, "PASSED"));
    assert_eq!(status("/one/a.txt?key=1"), is(200, "PASSED"));
    let log = site.error_log();
    assert!(log.contains("limiting connections by zone \"a\""), "{log}");
    assert!(
        log.contains("limiting connections, dry run, by zone \"a\""),
        "{log}"
    );
    let long = "k".repeat(256);
    assert_eq!(status(&format!("/one/a.txt?key={long}")), is(200, ""));
    assert!(site.error_log().contains("key is more than 255 bytes"));
}

#[test]
fn a_delayed_request_waits_and_may_go() {
    let site = Site::with_http(
        "limit_req_zone $uri zone=a:1m rate=20r/s; limit_req_zone $uri zone=slow:1m rate=1r/m; \
         server { listen 127.0.0.1:80; add_header X-Status $limit_req_status always; \
         location /a { limit_req zone=a burst=5; } location /slow { limit_req zone=slow burst=5; } }",
    );
    site.file("a", "a").file("slow", "b");
    assert_eq!(site.get("/a").header("X-Status"), Some("PASSED"));
    let begin = std::time::Instant::now();
    let mut delayed = 0;
    for _ in 0..4 {
        let reply = site.get("/a");
        assert_eq!(reply.status(), 200);
        delayed += usize::from(reply.header("X-Status") == Some("DELAYED"));
    }
    // Five requests at twenty in a second, less what the coarse clock hides.
    assert!(begin.elapsed() >= std::time::Duration::from_millis(150));
    assert!(delayed > 0);
    assert!(site.error_log().contains("[warn] "));
    assert!(site.error_log().contains("delaying request, excess: "));
    site.get("/slow");
    let mut exchange = site.exchange("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    exchange.client.feed().set_gone();
    site.handle(&mut exchange);
    assert_eq!(exchange.response.status.0, 499);
}

/// Two snapshots of the same process: what a zone remembers goes on where it is the same.
#[test]
fn zones_outlive_a_reload() {
    let build = |zones: &str, before: Option<Arc<Snapshot>>| {
        let directory = std::env::temp_dir();
        let log = directory.join(format!("sealane-zones-{}", std::process::id()));
        let log = log.display();
        let config = parse(&format!(
            "error_log {log}; events {{}} http {{ access_log off; {zones} server {{ }} }}"
        ));
        let logs = LogSet::open(&config, &Guard::default()).expect("it can be written");
        let mut materials = Materials::new();
        if let Some(before) = before {
            materials.set_before(before);
        }
        let built = Snapshot::build(&config, &materials, &logs);
        let _ =
            std::fs::remove_file(directory.join(format!("sealane-zones-{}", std::process::id())));
        Arc::new(built.expect("it is valid").0)
    };
    let before = build(
        "limit_req_zone $uri zone=a:1m rate=1r/s; limit_req_zone $uri zone=b:1m rate=1r/s; \
         limit_req_zone $uri zone=c:1m rate=1r/s; limit_conn_zone $uri zone=d:1m;",
        None,
    );
    let after = build(
        "limit_conn_zone $uri zone=d:1m; limit_req_zone $uri zone=a:1m rate=5r/s; \
         limit_req_zone $args zone=b:1m rate=1r/s; limit_req_zone $uri zone=c:2m rate=1r/s;",
        Some(Arc::clone(&before)),
    );
    let state = |snapshot: &Snapshot, name: &str| {
        let mut zones = snapshot.limit_zones.iter();
        let zone = zones.find(|zone| *zone.conf.name == *name);
        match &zone.expect("it is configured").state {
            ZoneState::Requests(zone) => Arc::as_ptr(zone).addr(),
            ZoneState::Connections(zone) => Arc::as_ptr(zone).addr(),
        }
    };
    for (name, goes_on) in [("a", true), ("b", false), ("c", false), ("d", true)] {
        let same = state(&before, name) == state(&after, name);
        assert_eq!(same, goes_on, "{name}");
    }
}

/// The statuses of some requests, one after the other.
fn statuses(site: &Site, targets: &[&str]) -> Vec<u16> {
    let targets = targets.iter();
    targets.map(|target| site.get(target).status()).collect()
}

#[test]
fn keys_of_several_variables_are_joined() {
    let site = Site::with_http(
        "limit_req_zone $arg_a $arg_b zone=both:1m rate=1r/m;
         server { listen 127.0.0.1:80; limit_req zone=both; location / { empty_gif; } }",
    );
    let asked = ["/?a=1&b=2", "/?a=1&b=3", "/?a=1&b=2", "/?a=1", "/?a=1"];
    assert_eq!(statuses(&site, &asked), [200, 200, 503, 200, 503]);
    // All are empty: it is not counted.
    assert_eq!(statuses(&site, &["/", "/", "/"]), [200, 200, 200]);
}

#[test]
fn a_forbidden_request_is_redirected_and_limited_once() {
    let site = Site::with_http(
        "limit_req_zone $uri zone=one:1m rate=1r/m; limit_req_zone $server_name zone=all:1m rate=1r/m;
         limit_req zone=all burst=5 nodelay;
         server { listen 127.0.0.1:80;
             location /uri { limit_req zone=one forbid_action=/sorry; empty_gif; }
             location /name { limit_req zone=one forbid_action=@sorry; empty_gif; }
             location /dry { limit_req zone=one forbid_action=@sorry; limit_req_dry_run on; empty_gif; }
             location /sorry { limit_req zone=one; add_header X-Status $limit_req_status;
                 return 200 $args; }
             location @sorry { return 201 $uri; }
             location /off { limit_req off; empty_gif; } }",
    );
    assert_eq!(statuses(&site, &["/uri?a", "/uri?b"]), [200, 200]);
    let reply = site.get("/uri?c=d");
    assert_eq!(reply.text(), "c=d");
    assert_eq!(reply.header("X-Status"), Some("REJECTED"));
    assert_eq!(statuses(&site, &["/name", "/name"]), [200, 201]);
    assert_eq!(site.get("/name").text(), "/name");
    assert_eq!(statuses(&site, &["/dry", "/dry"]), [200, 200]);
    assert_eq!(statuses(&site, &["/off"; 9]), [200; 9]);
    let log = site.error_log();
    assert!(log.contains("limiting requests, forbid_action is @sorry, client: "));
}

#[test]
fn listed_values_are_not_limited() {
    let site = Site::with_http(
        "limit_req_zone $uri zone=one:1m rate=1r/m; map $arg_who $friend { me 1; default 0; }
         server { listen 127.0.0.1:80; limit_req zone=one;
             limit_req_whitelist geo_var_name=friend geo_var_value=1;
             location / { empty_gif; }
             location /nobody { limit_req_whitelist geo_var_name=friend geo_var_value=x;
                 empty_gif; } }",
    );
    assert_eq!(statuses(&site, &["/?who=me"; 3]), [200; 3]);
    assert_eq!(
        statuses(&site, &["/?who=you", "/?who=you", "/?who=me"]),
        [200, 503, 200]
    );
    let nobody = ["/nobody?who=me", "/nobody?who=me"];
    assert_eq!(statuses(&site, &nobody), [200, 503]);
}

#[test]
fn rates_may_depend_on_the_request() {
    let site = Site::with_http(
        "limit_req_zone $uri zone=one:1m rate=$arg_rate;
         server { listen 127.0.0.1:80; limit_req zone=one burst=2 nodelay;
             location / { empty_gif; } }",
    );
    assert_eq!(statuses(&site, &["/a?rate=1r/m"; 4]), [200, 200, 200, 503]);
    // Its buckets are the same, and leak at the rate of who asks.
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(statuses(&site, &["/a?rate=1000r/s"]), [200]);
    assert_eq!(statuses(&site, &["/a", "/a?rate=0r/s"]), [500, 500]);
    let log = site.error_log();
    assert!(log.contains("invalid rate \"0r/s\" for \"limit_req\", client: "));
}
