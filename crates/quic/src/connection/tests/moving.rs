//! Migration, RFC 9000 section 9.

use super::*;

fn other_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 41_000))
}

fn other_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 9], 40_000))
}

#[test]
fn a_client_behind_a_translator_is_found_again_and_validated() {
    for address in [other_port(), other_address()] {
        let mut pair = Pair::connected();
        let id = pair.open();
        pair.client.write(id, 10_000, false);
        pair.until("before", |pair| pair.server().got(id).0 == 10_000);
        pair.translated = Some(address);
        pair.client.write(id, 400_000, true);
        pair.server().write(id, 200_000, true);
        pair.until("after", |pair| {
            pair.server().got(id) == (262_144, false) || pair.server().got(id).1
        });
        let connection = &mut pair.server().connection;
        assert_eq!(connection.addresses().remote, address);
        assert_eq!(connection.counters().migrations, 1);
        pair.until("validated", |pair| {
            pair.server().connection.paths.current.path.is_validated()
        });
    }
}

#[test]
fn little_is_sent_to_an_address_that_does_not_answer_rfc_9000_section_9_3_1() {
    let mut pair = Pair::connected();
    let id = pair.open();
    pair.client.write(id, 1000, false);
    pair.until("opened", |pair| pair.server().got(id).0 == 1000);
    // Somebody sends a copy of the client's packet from another address, ahead of it.
    pair.client.write(id, 2000, false);
    pair.flush(true);
    let mut copy = pair.to_server.pop_back().expect("a packet");
    copy.addresses.remote = other_address();
    let copy_len = copy.bytes.len();
    pair.to_server.push_front(copy);
    pair.server().write(id, 1_000_000, true);
    let is_away = |pair: &mut Pair| pair.server().connection.addresses().remote == other_address();
    pair.until("the copy", is_away);
    // What is sent there is lost.
    let (mut steps, mut sent) = (0, 0);
    while is_away(&mut pair) && steps < 100 {
        pair.to_client.retain(|under_way| {
            let is_there = under_way.sent_to == other_address();
            sent += usize::from(is_there) * under_way.bytes.len();
            !is_there
        });
        pair.step();
        steps += 1;
    }
    assert_eq!(
        pair.server().connection.addresses().remote,
        client_address()
    );
    assert!(sent > 0 && sent <= 3 * copy_len, "{sent}");
    // The connection goes on where it was.
    pair.client.connection.ping();
    pair.until("the rest", |pair| pair.client.got(id).0 >= 262_144);
}

#[test]
fn a_client_that_comes_back_is_not_dropped_for_a_challenge_that_is_lost() {
    let mut pair = Pair::connected();
    pair.pass(20 * DELAY);
    let is_at = |pair: &mut Pair, remote| pair.server().connection.addresses().remote == remote;
    pair.translated = Some(other_address());
    pair.client.connection.ping();
    pair.until("it has moved", |pair| is_at(pair, other_address()));
    // What the server sends from now on is lost.
    pair.to_client.clear();
    pair.translated = None;
    pair.client.connection.ping();
    pair.until("it is back", |pair| {
        pair.to_client.clear();
        is_at(pair, client_address())
    });
    let end = pair.now + Duration::from_secs(8);
    while pair.now < end {
        pair.to_client.clear();
        assert!(pair.step());
    }
    let server = &pair.server().connection;
    assert!(!server.is_ending(), "{:?}", server.close_reason());
}

#[test]
fn a_server_that_allows_no_migration_stays_where_it_is() {
    let settings = ConnectionSettings {
        migration: false,
        ..settings()
    };
    let mut pair = Pair::with(settings, Version::V1);
    pair.handshake();
    pair.translated = Some(other_address());
    pair.client.connection.ping();
    for _ in 0..5 {
        pair.step();
    }
    assert_eq!(
        pair.server().connection.addresses().remote,
        client_address()
    );
}

#[test]
fn challenges_of_a_flood_are_answered_one_at_a_time() {
    let mut pair = Pair::connected();
    let addresses = pair.server().connection.addresses();
    for n in 0..10_000_u64 {
        let connection = &mut pair.server().connection;
        connection.note_challenge(addresses, n.to_be_bytes());
        let elsewhere = Addresses {
            remote: SocketAddr::from(([127, 1, (n >> 8) as u8, n as u8], 1)),
            ..addresses
        };
        connection.note_challenge(elsewhere, n.to_be_bytes());
    }
    let before = pair.server().connection.counters().datagrams_sent;
    pair.flush(false);
    let sent = pair.server().connection.counters().datagrams_sent - before;
    assert!(sent <= 3, "{sent}");
}
