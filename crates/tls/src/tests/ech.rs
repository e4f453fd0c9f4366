//! Encrypted Client Hello: what is inside decides, and clients with another key learn of ours.

use std::sync::Mutex;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sealane_awslc::unix_time_s;

use super::*;
use crate::client_hello::{Parsed, collect};
use crate::{
    EarlyData, EarlyVerdict, EchKeyFile, EchKeys, NewEchKey, ReplayRegister, SelectServer,
    Selected, WINDOW_S, new_ech_key,
};

/// PEM, in lines that every reader takes.
fn block(label: &str, der: &[u8]) -> String {
    let digits = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = digits
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    let lines = lines.join("\n");
    format!("-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n")
}

/// A key, and the file that has it.
pub(super) fn key_file(label: &str) -> (NewEchKey, EchKeyFile) {
    let key = new_ech_key("public.test").expect("a valid name");
    let text = block("PRIVATE KEY", key.pkcs8.expose()) + &block("ECHCONFIG", &key.config_list);
    let file = EchKeyFile {
        pem: Secret::new(text.into_bytes()),
        label: label.to_owned(),
    };
    (key, file)
}

/// Servers of a listener: one for the name inside, one for all others. Keeps the names asked for.
struct Names {
    inner: Arc<ServerTls>,
    outer: Arc<ServerTls>,
    asked: Mutex<Vec<String>>,
}

impl SelectServer for Names {
    fn select(&self, name: Option<&str>) -> Selected {
        let name = name.unwrap_or_default();
        self.asked.lock().expect("no panic").push(name.to_owned());
        match name {
            "inner.test" => Selected::Server(Arc::clone(&self.inner), 1),
            _ => Selected::Server(Arc::clone(&self.outer), 2),
        }
    }
}

struct Site {
    names: Arc<Names>,
    acceptor: Acceptor,
    keys: Vec<NewEchKey>,
}

impl Site {
    /// A listener with two keys; `configure` changes the settings of both servers.
    fn new(configure: impl Fn(&mut ServerSettings)) -> Self {
        let (keys, files): (Vec<_>, Vec<_>) = ["first", "second"].map(key_file).into_iter().unzip();
        let ech = EchKeys::build(&files).expect("just made").expect("two");
        let built = |made: Made, retry: &str| {
            let mut settings = ServerSettings {
                ech: Some((Arc::clone(&ech), Some(retry.to_owned()))),
                remember_client_offer: true,
                ..settings(&[made])
            };
            configure(&mut settings);
            server(&settings)
        };
        let names = Arc::new(Names {
            inner: built(p256(), "first"),
            outer: built(rsa(), "second"),
            asked: Mutex::default(),
        });
        let select: Arc<dyn SelectServer> = Arc::clone(&names) as _;
        Self {
            names,
            acceptor: Acceptor::new(select).with_ech(Some(ech)),
            keys,
        }
    }

    fn pair(&self, context: &ClientContext, list: &[u8]) -> Pair {
        let mut pair = Pair::new(context, &self.acceptor, Some("inner.test"));
        pair.client.set_ech_configs(list).expect("a list");
        pair
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.names.asked.lock().expect("no panic"))
    }
}

fn tls13() -> ClientContext {
    client(|builder| version(builder, ProtocolVersion::Tls13))
}

fn shown(pair: &Pair) -> (&'static str, String, String) {
    let info = pair.server.info().expect("a server was chosen");
    (
        info.ech_status(),
        info.ech_outer_server_name().to_owned(),
        info.server_name().to_owned(),
    )
}

#[test]
fn the_name_inside_chooses_the_server_for_every_key() {
    let site = Site::new(|_| {});
    let context = tls13();
    for key in &site.keys {
        for chunk_bytes in [usize::MAX, 1] {
            let mut pair = site.pair(&context, &key.config_list);
            pair.chunk_bytes = chunk_bytes;
            pair.handshake().expect("the key is known");
            assert!(pair.client.is_ech_accepted());
            assert_eq!(pair.server.selected_token(), 1);
            assert_eq!(site.asked(), ["inner.test"]);
            let names = ("SUCCESS", "public.test".to_owned(), "inner.test".to_owned());
            assert_eq!(shown(&pair), names);
            assert_eq!(pair.up(b"hello"), b"hello");
            assert_eq!(pair.down(b"hello"), b"hello");
        }
    }
}

#[test]
fn the_fingerprint_is_that_of_the_hello_inside() {
    let site = Site::new(|_| {});
    let context = tls13();
    let mut pair = site.pair(&context, &site.keys[0].config_list);
    pair.handshake().expect("the key is known");
    let inside = pair.server.info().expect("established").ja4().to_owned();
    // Without a name, the hello outside would be another one.
    assert!(inside.starts_with("t13d"), "{inside}");
    let mut plain = Pair::new(&context, &site.acceptor, Some("inner.test"));
    plain.handshake().expect("no key is needed");
    let open = plain.server.info().expect("established").ja4().to_owned();
    // The hello inside has one extension more, which says what it is.
    assert_eq!(inside[..6], open[..6]);
    assert_eq!(shown(&plain).0, "NOT_TRIED");
}

#[test]
fn a_client_with_another_key_is_sent_those_of_the_outer_server() {
    let site = Site::new(|_| {});
    let context = tls13();
    // The same id, so that it is tried, and another key: what is published too late.
    let (stranger, _) = key_file("stranger");
    let mut list = stranger.config_list.clone();
    list[6] = site.keys[0].config_list[6];
    let mut pair = site.pair(&context, &list);
    let failed = pair.handshake().expect_err("the client insists");
    assert!(matches!(failed, Failure::Client(_)), "{failed:?}");
    assert_eq!(site.asked(), ["public.test"]);
    assert_eq!(pair.server.selected_token(), 2);
    assert_eq!(shown(&pair).0, "GREASE");
    let retry = pair.client.ech_retry_configs();
    assert_eq!(retry, site.keys[1].config_list, "of the outer server");
    let mut pair = site.pair(&context, &retry);
    pair.handshake().expect("the key is known now");
    assert!(pair.client.is_ech_accepted());
}

#[test]
fn grease_is_no_obstacle() {
    let site = Site::new(|_| {});
    let context = tls13();
    for _ in 0..8 {
        let mut pair = Pair::new(&context, &site.acceptor, Some("inner.test"));
        pair.client.set_ech_grease();
        pair.handshake().expect("nothing is meant by it");
        let names = ("GREASE", String::new(), "inner.test".to_owned());
        assert_eq!(shown(&pair), names);
        assert!(!pair.client.is_ech_accepted());
    }
    // The same without keys.
    let plain = server(&settings(&[p256()]));
    let mut pair = Pair::with(&context, &plain);
    pair.client.set_ech_grease();
    pair.handshake().expect("nothing is meant by it");
    assert_eq!(shown(&pair).0, "GREASE");
}

#[test]
fn a_second_hello_is_opened_as_well() {
    // The client's first key share is for another group.
    let site = Site::new(|settings| settings.groups = Some("P-384".to_owned()));
    let mut pair = site.pair(&tls13(), &site.keys[1].config_list);
    pair.handshake().expect("after a HelloRetryRequest");
    assert!(pair.client.is_ech_accepted());
    assert_eq!(pair.client.group().map(|group| group.id), Some(24));
    assert_eq!(shown(&pair).0, "SUCCESS");
}

#[test]
fn sessions_are_looked_up_by_the_hello_inside() {
    for tickets in [true, false] {
        // Without tickets, sessions are looked up before libssl sees the hello.
        let cache = Arc::new(crate::SessionCache::new(1 << 20));
        let site = Site::new(|settings| {
            settings.tickets = tickets;
            settings.session_cache = crate::SessionCacheSetting::Shared(Arc::clone(&cache));
        });
        let context = tls13();
        let list = &site.keys[0].config_list;
        let mut first = site.pair(&context, list);
        first.handshake().expect("the key is known");
        let session = first.session().expect("a ticket");
        let mut second = site.pair(&context, list);
        second.client.set_session(&session).expect("in time");
        second.handshake().expect("the key is known");
        assert!(second.client.is_session_reused(), "tickets {tickets}");
        assert!(second.client.is_ech_accepted());
        assert_eq!(shown(&second).0, "SUCCESS");
    }
}

#[test]
fn early_data_is_taken_once_by_the_hello_inside() {
    let ring = crate::RingSettings {
        rotation_s: 100,
        lifetime_s: 300,
        overlap_s: 0,
    };
    let now_s = unix_time_s();
    let ring = Arc::new(crate::TicketRing::rotating(ring, now_s).expect("memory"));
    let register = ReplayRegister::new(10_000, now_s - 2 * WINDOW_S);
    let register = Arc::new(register.expect("memory"));
    let site = Site::new(|settings| {
        settings.ticket_ring = Some(Arc::clone(&ring));
        settings.early_data = Some(EarlyData {
            register: Arc::clone(&register),
        });
    });
    let context = tls13();
    let list = &site.keys[0].config_list;
    let mut first = site.pair(&context, list);
    first.handshake().expect("the key is known");
    let session = first.session().expect("a ticket");
    let mut second = site.pair(&context, list);
    second.client.set_session(&session).expect("in time");
    second.client.offer_early_data();
    let status = second.client.handshake(&mut &[][..], &mut second.to_server);
    assert_eq!(status.expect("it can start"), HandshakeStatus::Done);
    second
        .client
        .write(b"early", &mut second.to_server)
        .expect("early data can be written");
    let flight = second.to_server.clone();
    for expected in [EarlyVerdict::Accepted, EarlyVerdict::Replayed] {
        let mut server = Connection::accept(&site.acceptor);
        let (mut input, mut output) = (&flight[..], Vec::new());
        let status = server.handshake(&mut input, &mut output, Load::default());
        assert!(status.is_ok(), "{status:?}");
        assert_eq!(server.early_verdict(), Some(expected));
        let is_accepted = expected == EarlyVerdict::Accepted;
        assert_eq!(server.is_early_data(), is_accepted);
        let mut buffer = [0; 100];
        if is_accepted {
            let read = server.read(&mut input, &mut output, &mut buffer);
            assert_eq!(read, Ok(ReadStatus::Data(5)));
            assert_eq!(&buffer[..5], b"early");
        }
    }
}

/// The records of a client's encrypted hello.
fn hello(site: &Site) -> Vec<u8> {
    let mut pair = site.pair(&tls13(), &site.keys[0].config_list);
    let status = pair.client.handshake(&mut &[][..], &mut pair.to_server);
    assert_eq!(status.expect("it begins"), HandshakeStatus::WantRead);
    pair.to_server
}

#[test]
fn split_mode_is_refused() {
    let site = Site::new(|_| {});
    let records = hello(&site);
    let Parsed::Complete(message) = collect(&records) else {
        panic!("one whole hello")
    };
    let outer = crate::client_hello::ClientHello::parse(&message).expect("well formed");
    let keys = site.acceptor.ech().expect("they were set");
    let inner = keys.open(&outer, &records).expect("memory");
    let inner = inner.expect("the key is known");
    let length = u16::try_from(inner.len()).expect("one record");
    let records = [&[22, 3, 1][..], &length.to_be_bytes(), &inner].concat();
    let mut server = Connection::accept(&site.acceptor);
    let mut output = Vec::new();
    let refused = server.handshake(&mut &records[..], &mut output, Load::default());
    assert_eq!(refused, Err(Error::SplitMode));
    assert_eq!(output, [21, 3, 3, 0, 2, 2, 47]);
}

#[test]
fn damaged_hellos_are_refused_or_taken_for_the_one_outside() {
    let site = Site::new(|_| {});
    let records = hello(&site);
    // The header of a record is not part of the message.
    for at in 5..records.len() {
        let mut damaged = records.clone();
        damaged[at] ^= 0x55;
        let mut server = Connection::accept(&site.acceptor);
        let mut output = Vec::new();
        // Whatever it says; both openings agree, or a debug assertion fails.
        let _ = server.handshake(&mut &damaged[..], &mut output, Load::default());
        let info = server.info();
        let status = info.map_or("", |info| info.ech_status());
        assert_ne!(status, "SUCCESS", "byte {at} is covered by the seal");
    }
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let (key, good) = key_file("good");
    let (other, _) = key_file("other");
    let private = block("PRIVATE KEY", key.pkcs8.expose());
    let list = &key.config_list;
    let twice = {
        let configs = [&list[2..], &list[2..]].concat();
        let length = u16::try_from(configs.len()).expect("short");
        [&length.to_be_bytes()[..], &configs].concat()
    };
    let build = |text: String| {
        EchKeys::build(&[EchKeyFile {
            pem: Secret::new(text.into_bytes()),
            label: "ech.pem".to_owned(),
        }])
        .map(|keys| keys.is_some())
        .map_err(|error| error.to_string())
    };
    assert_eq!(
        build(private.clone() + &block("ECHCONFIG", &twice)),
        Ok(true)
    );
    assert_eq!(EchKeys::build(&[]).map(|keys| keys.is_none()), Ok(true));
    for (text, why) in [
        (block("ECHCONFIG", list), "NO_START_LINE"),
        (
            private.clone(),
            "there is no usable PEM block \"ECHCONFIG\"",
        ),
        (
            private.clone() + &block("ECHCONFIG", &list[..list.len() - 1]),
            "there is no usable PEM block",
        ),
        (
            private.clone() + &block("ECHCONFIG", &[0, 0]),
            "there is no usable PEM block",
        ),
        (
            private + &block("ECHCONFIG", &other.config_list),
            "ECH_SERVER_CONFIG_AND_PRIVATE_KEY_MISMATCH",
        ),
        (
            p256().key_pem + &block("ECHCONFIG", list),
            "the key is not an X25519 key",
        ),
    ] {
        let error = build(text).expect_err(why);
        assert!(
            error.starts_with("cannot load ECH key \"ech.pem\": "),
            "{error}"
        );
        assert!(error.contains(why), "{error} should say {why}");
    }
    assert!(!format!("{good:?}").contains("PRIVATE"));
}
