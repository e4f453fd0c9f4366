//! A group that replaces another one, as after a reload.

use super::*;

/// A group of two servers, the first of which has failed.
fn half_dead(now: Instant) -> Group {
    let group = Group::new(weighted(Method::RoundRobin, &[1, 1]), 1);
    let picked = pick(&group, now);
    assert_eq!(port(picked.peer()), 1);
    assert!(picked.failed(now).disabled);
    group
}

fn ports(group: &Group, now: Instant) -> Vec<u16> {
    let picks = (0..4).map(|_| {
        let picked = pick(group, now);
        let port = port(picked.peer());
        picked.succeeded(Instant::now());
        port
    });
    picks.collect()
}

#[test]
fn what_is_known_of_servers_is_taken_over() {
    let now = Instant::now();
    let before = half_dead(now);
    let after = Group::after(weighted(Method::RoundRobin, &[1, 1]), 1, Some(&before));
    assert_eq!(ports(&after, now), [2; 4]);
    let same = |(a, b): (&Arc<Peer>, &Arc<Peer>)| Arc::ptr_eq(a, b);
    assert!(before.peers().iter().zip(&after.peers()).all(same));
    // The old one goes on for whoever has it, and both learn that the server is back.
    assert_eq!(ports(&before, now), [2; 4]);
    let later = now + Duration::from_secs(11);
    assert!(ports(&after, later).contains(&1));
    assert!(ports(&before, later).contains(&1));
}

#[test]
fn other_settings_leave_a_server_as_dead_as_it_was() {
    let now = Instant::now();
    let before = half_dead(now);
    let mut settings = weighted(Method::LeastConn, &[1, 1, 1]);
    settings.servers[0].max_conns = 7;
    let after = Group::after(settings, 1, Some(&before));
    assert!(!ports(&after, now).contains(&1));
    assert!(!Arc::ptr_eq(&before.peers()[0], &after.peers()[0]));
    assert!(Arc::ptr_eq(&before.peers()[1], &after.peers()[1]));
    // One that is left out of the new one is still good for the old one.
    let fewer = Group::after(weighted(Method::RoundRobin, &[1]), 1, Some(&before));
    assert_eq!(fewer.peers().len(), 1);
    assert!(!before.peers()[1].is_gone());
}

/// A server of this name and port that is looked up.
fn unresolved(host: &str, port: u16, service: Option<&str>) -> GroupSettings {
    let mut server = ServerSettings::new(format!("{host}:{port}"), Vec::new());
    server.lookup = Some(LookupName {
        host: host.to_owned(),
        port,
        service: service.map(str::to_owned),
    });
    GroupSettings {
        servers: vec![server],
        ..weighted(Method::RoundRobin, &[])
    }
}

#[test]
fn names_stand_for_what_they_stood_for() {
    let before = Group::new(unresolved("app.test", 7, None), 1);
    assert!(before.set_addresses(0, vec![address(7).into()]));
    // Also with another port.
    for port in [7, 8] {
        let after = Group::after(unresolved("App.test", port, None), 1, Some(&before));
        assert_eq!(next_port(&after, 0), port);
    }
    // Another name, or another kind of answer, is a question to be asked.
    for other in [
        unresolved("other.test", 7, None),
        unresolved("app.test", 7, Some("http")),
    ] {
        let after = Group::after(other, 1, Some(&before));
        assert!(after.peers().is_empty());
    }
}

#[test]
fn records_of_services_keep_their_ports() {
    let before = Group::new(unresolved("app.test", 80, Some("http")), 1);
    assert!(before.set_addresses(0, vec![address(7).into()]));
    let after = Group::after(unresolved("app.test", 80, Some("http")), 1, Some(&before));
    assert_eq!(next_port(&after, 0), 7);
}
