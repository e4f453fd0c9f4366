//! From a query to its answer, without I/O. The messages are hickory-proto's.

use super::zones::{Found, Zones};
use hickory_resolver::proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_resolver::proto::rr::rdata::{NS, SOA, TXT};
use hickory_resolver::proto::rr::{DNSClass, Name, RData, Record, RecordType};
use sealane_server::AcmeState;

/// The longest query, in bytes: the name, a few options, and no more.
pub(super) const MAX_QUERY_BYTES: usize = 512;

/// The longest answer over UDP: what every client takes, and what no network has to divide.
const PLAIN_BYTES: usize = 512;
const MAX_DATAGRAM_BYTES: u16 = 1_232;

/// TXT records of one name: certificates that are ordered at the same time.
const MAX_TEXTS: usize = 64;

/// How long others may keep what is said here, in seconds: the next order has other records.
const TTL_S: u32 = 1;

/// Times of a zone that has no other servers, in seconds.
const REFRESH_S: i32 = 3600;
const RETRY_S: i32 = 600;
const EXPIRE_S: i32 = 86_400;

/// Bytes of a message's head.
const HEAD_BYTES: usize = 12;

/// The answer to a query; `None` if it gets none. Over UDP, `datagram` says whether it may be
/// whole; otherwise it only says to ask over TCP.
pub(super) fn respond(
    query: &[u8],
    zones: &Zones,
    serving: &AcmeState,
    datagram: Option<bool>,
) -> Option<Vec<u8>> {
    let head = query.first_chunk::<HEAD_BYTES>()?;
    // To answer answers would never end.
    if head[2] & 0x80 != 0 {
        return None;
    }
    let count = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let operation = head[2] >> 3 & 15;
    if operation != 0 {
        return Some(bare(head, 4)); // NOTIMP
    }
    // One question, and of other records the options and a signature at the most.
    let is_query = count(4) == 1 && count(6) == 0 && count(8) == 0 && count(10) <= 2;
    if !is_query || query.len() > MAX_QUERY_BYTES {
        return Some(bare(head, 1)); // FORMERR
    }
    let Ok(message) = Message::from_vec(query) else {
        return Some(bare(head, 1));
    };
    let [question] = &message.queries[..] else {
        return Some(bare(head, 1));
    };
    let whole = answer(&message, question, zones, serving);
    let Some(may_be_whole) = datagram else {
        return whole.to_vec().ok();
    };
    let most = message.edns.as_ref().map_or(PLAIN_BYTES, |edns| {
        usize::from(edns.max_payload().clamp(512, MAX_DATAGRAM_BYTES))
    });
    let bytes = whole.to_vec().ok()?;
    match may_be_whole && bytes.len() <= most {
        true => Some(bytes),
        false => cut(whole).to_vec().ok(),
    }
}

/// A head with a response code and nothing else.
fn bare(query: &[u8; HEAD_BYTES], code: u8) -> Vec<u8> {
    let mut head = vec![0; HEAD_BYTES];
    head[..2].copy_from_slice(&query[..2]);
    // Whether recursion is desired, and the operation, are repeated.
    head[2] = 0x80 | query[2] & 0x79;
    head[3] = code;
    head
}

/// Says that the rest does not fit.
fn cut(mut whole: Message) -> Message {
    whole.answers.clear();
    whole.authorities.clear();
    whole.metadata.truncation = true;
    whole
}

fn answer(query: &Message, question: &Query, zones: &Zones, serving: &AcmeState) -> Message {
    let mut response = Message::new(query.metadata.id, MessageType::Response, OpCode::Query);
    response.metadata.recursion_desired = query.metadata.recursion_desired;
    response.queries.push(question.clone());
    if let Some(edns) = &query.edns {
        let mut ours = Edns::new();
        ours.set_max_payload(MAX_DATAGRAM_BYTES);
        response.edns = Some(ours);
        if edns.version() != 0 {
            response.metadata.response_code = ResponseCode::BADVERS;
            return response;
        }
    }
    let name = question.name().to_ascii().to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_transfer = matches!(question.query_type(), RecordType::AXFR | RecordType::IXFR);
    let is_ours =
        question.query_class() == DNSClass::IN && !is_transfer && query.signature.is_none();
    let Some(found) = zones.find(name).filter(|_| is_ours) else {
        response.metadata.response_code = ResponseCode::Refused;
        return response;
    };
    response.metadata.authoritative = true;
    if !found.exists {
        response.metadata.response_code = ResponseCode::NXDomain;
    }
    response.answers = answers(question, name, &found, serving);
    if response.answers.is_empty() {
        response.authorities.extend(soa(&found));
    }
    response
}

fn answers(question: &Query, name: &str, found: &Found<'_>, serving: &AcmeState) -> Vec<Record> {
    let owner = question.name();
    let is_top = name == found.zone;
    let wants = |kind| [kind, RecordType::ANY].contains(&question.query_type());
    let mut answers = Vec::new();
    if wants(RecordType::TXT)
        && let Some(identifier) = found.identifier
    {
        let texts = serving.dns_texts(identifier, MAX_TEXTS).into_iter();
        let text = |text| RData::TXT(TXT::new(vec![text]));
        answers.extend(texts.map(|it| Record::from_rdata(owner.clone(), TTL_S, text(it))));
    }
    if is_top && wants(RecordType::SOA) {
        answers.extend(soa(found));
    }
    if is_top
        && wants(RecordType::NS)
        && let Ok(server) = full_name(found.name_server)
    {
        let record = RData::NS(NS(server));
        answers.push(Record::from_rdata(owner.clone(), TTL_S, record));
    }
    answers
}

fn soa(found: &Found<'_>) -> Option<Record> {
    let zone = full_name(found.zone).ok()?;
    let server = full_name(found.name_server).ok()?;
    // There is nobody behind it who reads mail about records of a second.
    let mailbox = full_name(&format!("hostmaster.{}", found.name_server)).ok()?;
    let data = SOA::new(server, mailbox, 1, REFRESH_S, RETRY_S, EXPIRE_S, TTL_S);
    Some(Record::from_rdata(zone, TTL_S, RData::SOA(data)))
}

fn full_name(name: &str) -> Result<Name, ()> {
    let mut parsed = Name::from_ascii(name).map_err(|_invalid| ())?;
    parsed.set_fqdn(true);
    Ok(parsed)
}

#[cfg(test)]
mod tests;
