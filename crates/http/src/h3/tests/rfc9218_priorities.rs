//! Priorities (RFC 9218).

use super::*;
use crate::message::Priority;

fn update(id: u64, value: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    varint::put(&mut payload, id);
    payload.extend_from_slice(value.as_bytes());
    raw_frame(0xf0700, &payload)
}

fn priority(urgency: u8, incremental: bool) -> Option<Priority> {
    Some(Priority {
        urgency,
        incremental,
    })
}

fn get_with(value: &str) -> Vec<u8> {
    headers(&[&GET[..], &[("priority", value)]].concat())
}

#[test]
fn section_5_the_header_counts() {
    let mut server = server();
    assert!(request(&mut server, 0, &get_with("u=1, i")).is_ok());
    assert_eq!(server.priority(0), priority(1, true));
    assert!(request(&mut server, 4, &headers(&GET)).is_ok());
    assert_eq!(server.priority(4), priority(3, false));
    assert_eq!(server.priority(8), None);
}

#[test]
fn section_7_2_updates_count_more() {
    let mut server = server();
    assert!(request(&mut server, 0, &get_with("u=1, i")).is_ok());
    let outcome = control(&mut server, &update(0, "u=5"));
    assert_eq!(outcome, Ok(vec!["0 u=5".to_owned()]));
    assert_eq!(server.priority(0), priority(5, false));
    // Before the request, even before its stream.
    assert_eq!(control(&mut server, &update(8, "u=0")), Ok(vec![]));
    assert_eq!(control(&mut server, &update(8, "u=6, i")), Ok(vec![]));
    assert!(request(&mut server, 8, &get_with("u=1")).is_ok());
    assert_eq!(server.priority(8), priority(6, true));
    // Of a stream whose response is written, and perhaps not sent.
    server.reset(0);
    let outcome = control(&mut server, &update(0, "u=5"));
    assert_eq!(outcome, Ok(vec!["0 u=5".to_owned()]));
    assert_eq!(server.priority(0), None);
}

#[test]
fn section_7_2_few_updates_are_remembered() {
    let mut server = server();
    for number in 0..100 {
        assert_eq!(control(&mut server, &update(number * 4, "u=1")), Ok(vec![]));
    }
    assert!(server.heap_bytes() < 2000);
    for (id, urgency) in [(0, 3), (396, 1)] {
        assert!(request(&mut server, id, &headers(&GET)).is_ok());
        assert_eq!(server.priority(id), priority(urgency, false));
    }
}

#[test]
fn section_7_2_identifiers_are_checked() {
    for id in [1, 2, 3] {
        let outcome = control(&mut server(), &update(id, "u=1"));
        assert_eq!(outcome, Err(Code::H3_ID_ERROR));
    }
    let mut server = server();
    server.set_request_limit(100);
    assert_eq!(control(&mut server, &update(396, "u=1")), Ok(vec![]));
    assert_eq!(
        control(&mut server, &update(400, "u=1")),
        Err(Code::H3_ID_ERROR)
    );
    // No push was promised.
    let push = raw_frame(0xf0701, b"\x00u=1");
    assert_eq!(control(&mut super::server(), &push), Err(Code::H3_ID_ERROR));
}

#[test]
fn updates_of_our_client_are_understood() {
    let mut client = client(&[(0, "GET")]);
    let before = client.outgoing(Channel::Control).len();
    client.sent(Channel::Control, before);
    client.send_priority_update(
        0,
        Priority {
            urgency: 2,
            incremental: true,
        },
    );
    let bytes = client.outgoing(Channel::Control).to_vec();
    let mut server = server();
    assert_eq!(opened(&mut server, 0), Ok(None));
    assert_eq!(
        control(&mut server, &bytes),
        Ok(vec!["0 u=2, i".to_owned()])
    );
}
