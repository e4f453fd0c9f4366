//! The end of connections (section 5.2).

use super::*;

fn outgoing(connection: &mut Connection) -> Vec<u8> {
    let out = connection.outgoing(Channel::Control).to_vec();
    connection.sent(Channel::Control, out.len());
    out
}

#[test]
fn a_server_announces_the_end_and_then_takes_no_more() {
    let mut server = server();
    outgoing(&mut server);
    assert_eq!(
        request(&mut server, 0, &headers(&GET)).map(|events| events.len()),
        Ok(1)
    );
    server.shut_down();
    assert_eq!(outgoing(&mut server), numbers(7, &[(1 << 62) - 4]));
    assert_eq!(
        request(&mut server, 8, &headers(&GET)).map(|events| events.len()),
        Ok(1)
    );
    server.drain();
    assert_eq!(outgoing(&mut server), numbers(7, &[12]));
    // One below was on its way.
    assert_eq!(
        request(&mut server, 4, &headers(&GET)).map(|events| events.len()),
        Ok(1)
    );
    for id in [12, 16] {
        assert_eq!(opened(&mut server, id), Ok(Some(Code::H3_REQUEST_REJECTED)));
        assert_eq!(receive(&mut server, id, &headers(&GET), true), Ok(vec![]));
    }
    assert_eq!(server.open_streams(), 3);
    // Not twice, and not higher.
    server.drain();
    server.shut_down();
    assert_eq!(outgoing(&mut server), []);
}

#[test]
fn a_client_learns_which_requests_are_not_processed() {
    let mut client = client(&[(0, "GET"), (4, "GET")]);
    assert_eq!(
        control(&mut client, &numbers(7, &[8])),
        Ok(vec!["goaway 8".to_owned()])
    );
    assert!(client.can_request(4) && !client.can_request(8));
    assert_eq!(
        control(&mut client, &numbers(7, &[4])),
        Ok(vec!["goaway 4".to_owned()])
    );
    assert_eq!(
        control(&mut client, &numbers(7, &[8])),
        Err(Code::H3_ID_ERROR)
    );
}

#[test]
fn identifiers_of_goaway_are_checked() {
    // That of a server names a request.
    for wrong in [1, 2, 3, 5] {
        assert_eq!(
            control(&mut client(&[]), &numbers(7, &[wrong])),
            Err(Code::H3_ID_ERROR)
        );
    }
    // That of a client names a push.
    let mut server = server();
    assert_eq!(
        control(&mut server, &numbers(7, &[3])),
        Ok(vec!["goaway 3".to_owned()])
    );
    assert_eq!(
        control(&mut server, &numbers(7, &[4])),
        Err(Code::H3_ID_ERROR)
    );
}
