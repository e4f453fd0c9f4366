use super::*;
use crate::name_server::zones::tests::zones;
use sealane_server::{AcmeId, DnsAnswer};

fn serving(count: usize) -> AcmeState {
    let state = AcmeState::default();
    let answers = (0..count).map(|number| DnsAnswer {
        identifier: "a.test".to_owned(),
        value: format!("{number:0>43}"),
    });
    state.set_dns_answers(AcmeId([1; 32]), answers.collect());
    state
}

fn query(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    let name = full_name(name).expect("a name");
    message.queries.push(Query::query(name, kind));
    message
}

/// The answer over TCP.
fn ask(message: &Message, serving: &AcmeState) -> Message {
    let bytes = message.to_vec().expect("a good one");
    let answer = respond(&bytes, &zones(), serving, None).expect("an answer");
    let answer = Message::from_vec(&answer).expect("a message");
    assert_eq!(answer.metadata.id, message.metadata.id);
    assert_eq!(answer.metadata.message_type, MessageType::Response);
    assert!(!answer.metadata.recursion_available);
    answer
}

fn kinds(records: &[Record]) -> Vec<RecordType> {
    records.iter().map(Record::record_type).collect()
}

#[test]
fn names_have_what_is_to_be_verified_and_zones_their_records() {
    use RecordType::{A, AAAA, ANY, CAA, CNAME, NS, SOA, TXT};
    use ResponseCode::{NXDomain, NoError, Refused};
    let serving = serving(2);
    let none: &[RecordType] = &[];
    for (name, kind, code, answers, authorities) in [
        ("a.test.acme.test", TXT, NoError, &[TXT, TXT][..], none),
        ("A.tEST.acme.Test", TXT, NoError, &[TXT, TXT], none),
        ("a.test.acme.test", ANY, NoError, &[TXT, TXT], none),
        ("a.test.acme.test", A, NoError, none, &[SOA][..]),
        ("a.test.acme.test", CNAME, NoError, none, &[SOA]),
        ("b.test.acme.test", TXT, NoError, none, &[SOA]),
        ("test.acme.test", TXT, NoError, none, &[SOA]),
        ("none.acme.test", TXT, NXDomain, none, &[SOA]),
        ("x.a.test.acme.test", TXT, NXDomain, none, &[SOA]),
        ("acme.test", SOA, NoError, &[SOA], none),
        ("acme.test", NS, NoError, &[NS], none),
        ("acme.test", AAAA, NoError, none, &[SOA]),
        ("acme.test", TXT, NoError, none, &[SOA]),
        ("_acme-challenge.a.test", TXT, NoError, &[TXT, TXT], none),
        ("_acme-challenge.a.test", SOA, NoError, &[SOA], none),
        ("_acme-challenge.a.test", NS, NoError, &[NS], none),
        ("_acme-challenge.a.test", CAA, NoError, none, &[SOA]),
        ("x._acme-challenge.a.test", TXT, NXDomain, none, &[SOA]),
        ("a.test", TXT, Refused, none, none),
        ("example.org", A, Refused, none, none),
        ("acme.test", RecordType::AXFR, Refused, none, none),
        ("acme.test", RecordType::IXFR, Refused, none, none),
    ] {
        let answer = ask(&query(name, kind), &serving);
        assert_eq!(answer.metadata.response_code, code, "{name} {kind}");
        assert_eq!(kinds(&answer.answers), answers, "{name} {kind}");
        assert_eq!(kinds(&answer.authorities), authorities, "{name} {kind}");
        assert!(answer.additionals.is_empty());
        assert_eq!(answer.metadata.authoritative, code != Refused, "{name}");
        assert!(answer.metadata.recursion_desired);
        // The letters are repeated as they came.
        let asked = &query(name, kind).queries;
        assert_eq!(
            answer.queries[0].name().to_ascii(),
            asked[0].name().to_ascii()
        );
    }
    let answer = ask(&query("a.test.acme.test", TXT), &serving);
    let texts: Vec<String> = answer
        .answers
        .iter()
        .map(|it| it.data.to_string())
        .collect();
    assert_eq!(texts, [format!("{:0>43}", 0), format!("{:0>43}", 1)]);
    let owner = &ask(&query("x.a.test.acme.test", TXT), &serving).authorities[0];
    assert_eq!(owner.name.to_ascii(), "acme.test.");
}

#[test]
fn what_is_no_question_is_refused_in_short() {
    let serving = serving(1);
    let code = |bytes: &[u8]| {
        let answer = respond(bytes, &zones(), &serving, Some(true))?;
        assert_eq!(answer[..2], bytes[..2]);
        Some(answer[3] & 15)
    };
    let good = query("a.test.acme.test", RecordType::TXT)
        .to_vec()
        .expect("good");
    assert_eq!(code(&good), Some(0));
    for length in 0..HEAD_BYTES {
        assert_eq!(code(&good[..length]), None, "{length}");
    }
    for length in HEAD_BYTES..good.len() {
        assert_eq!(code(&good[..length]), Some(1), "{length}");
    }
    let with = |at: usize, byte: u8| {
        let mut changed = good.clone();
        changed[at] = byte;
        changed
    };
    assert_eq!(code(&with(2, 0x80)), None, "an answer is not answered");
    assert_eq!(code(&with(2, 5 << 3)), Some(4), "no updates");
    assert_eq!(code(&with(2, 4 << 3)), Some(4), "no notifications");
    assert_eq!(code(&with(5, 0)), Some(1), "no question");
    assert_eq!(code(&with(5, 2)), Some(1), "two questions");
    assert_eq!(code(&with(7, 1)), Some(1));
    assert_eq!(code(&with(9, 1)), Some(1));
    assert_eq!(code(&with(11, 3)), Some(1));
    let class_at = good.len() - 1;
    assert_eq!(code(&with(class_at, 3)), Some(5), "only the Internet");
    // A name that leads to itself.
    let mut around = good[..HEAD_BYTES].to_vec();
    around.extend(b"\xc0\x0c\0\x10\0\x01");
    assert_eq!(code(&around), Some(1));
    let long = [&good[..], &[0; MAX_QUERY_BYTES]].concat();
    assert_eq!(code(&long), Some(1));
}

#[test]
fn options_are_those_of_edns_0() {
    let serving = serving(1);
    let mut message = query("a.test.acme.test", RecordType::TXT);
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    message.edns = Some(edns.clone());
    let answer = ask(&message, &serving);
    let ours = answer.edns.expect("options for options");
    assert_eq!(
        (ours.version(), ours.max_payload()),
        (0, MAX_DATAGRAM_BYTES)
    );
    edns.set_version(1);
    message.edns = Some(edns);
    let answer = ask(&message, &serving);
    // Its number, which means something else in signatures.
    let code = u16::from(answer.metadata.response_code);
    assert_eq!(code, u16::from(ResponseCode::BADVERS));
    assert!(answer.answers.is_empty());
    let plain = ask(&query("a.test.acme.test", RecordType::TXT), &serving);
    assert!(plain.edns.is_none(), "no options without options");
}

#[test]
fn answers_over_udp_are_short_and_say_so() {
    let serving = serving(2 * MAX_TEXTS);
    let mut message = query("a.test.acme.test", RecordType::TXT);
    let over_udp = |message: &Message, may_be_whole| {
        let bytes = message.to_vec().expect("good");
        let answer = respond(&bytes, &zones(), &serving, Some(may_be_whole));
        answer.expect("an answer")
    };
    let parsed = |bytes: &[u8]| Message::from_vec(bytes).expect("a message");
    for payload in [None, Some(0), Some(512), Some(u16::MAX)] {
        message.edns = payload.map(|payload| {
            let mut edns = Edns::new();
            edns.set_max_payload(payload);
            edns
        });
        let answer = over_udp(&message, true);
        assert!(answer.len() <= 100, "{payload:?}: {}", answer.len());
        let answer = parsed(&answer);
        assert!(answer.metadata.truncation && answer.answers.is_empty());
    }
    let whole = ask(&message, &serving);
    assert!(!whole.metadata.truncation);
    assert_eq!(whole.answers.len(), MAX_TEXTS);
    // One that would fit, but is one too many for its network.
    let other = query("acme.test", RecordType::SOA);
    assert!(!parsed(&over_udp(&other, true)).metadata.truncation);
    let told = parsed(&over_udp(&other, false));
    assert!(told.metadata.truncation && told.answers.is_empty());
}

/// A generator of numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

#[test]
fn damaged_queries_get_short_answers_or_none() {
    let (serving, zones) = (serving(3), zones());
    let mut edns = Edns::new();
    edns.set_max_payload(u16::MAX);
    let mut seeds = Vec::new();
    for name in [
        "a.test.acme.test",
        "_acme-challenge.a.test",
        "acme.test",
        "x.org",
    ] {
        for kind in [RecordType::TXT, RecordType::SOA, RecordType::ANY] {
            let mut message = query(name, kind);
            seeds.push(message.to_vec().expect("good"));
            message.edns = Some(edns.clone());
            seeds.push(message.to_vec().expect("good"));
        }
    }
    let mut numbers = Numbers(0x5ea1_a9e5_eed5);
    let (mut answered, mut whole) = (0, 0);
    for round in 0..200_000 {
        let mut query = seeds[numbers.below(seeds.len())].clone();
        for _ in 0..=numbers.below(4) {
            let at = numbers.below(query.len());
            match numbers.below(4) {
                0 => query[at] = numbers.below(256) as u8,
                1 => query[at] ^= 1 << numbers.below(8),
                2 => query.truncate(at.max(1)),
                _ => query.insert(at, numbers.below(256) as u8),
            }
        }
        let Some(answer) = respond(&query, &zones, &serving, Some(true)) else {
            continue;
        };
        answered += 1;
        assert!(
            answer.len() <= usize::from(MAX_DATAGRAM_BYTES),
            "round {round}"
        );
        assert_eq!(answer[..2], query[..2], "round {round}");
        assert_ne!(answer[2] & 0x80, 0, "round {round}");
        let parsed = Message::from_vec(&answer).expect("what is sent is a message");
        whole += usize::from(!parsed.answers.is_empty());
    }
    assert!(answered > 50_000 && whole > 1_000, "{answered} {whole}");
}
