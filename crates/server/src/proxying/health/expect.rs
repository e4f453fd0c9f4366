//! Whether a response is right: `match`, and gRPC's health checking protocol.

use super::Fault;
use super::located::CheckedResponse;
use crate::exchange::Exchange;
use crate::request_log::Text;
use crate::template;
use sealane_conf::model::{HeaderRule, HeaderTest, Pass, ResponseMatch};

/// `SERVING` of `grpc.health.v1.HealthCheckResponse`.
const SERVING: u64 = 1;
/// A message's compression flag and length.
const GRPC_PREFIX_BYTES: usize = 5;

/// Whether a response passes all tests, or has a status from 200 to 399 without any.
///
/// # Errors
/// What is wrong with it.
pub(super) fn judge(
    expect: Option<&ResponseMatch>,
    pass: &Pass,
    answer: &CheckedResponse,
    exchange: &Exchange,
) -> Result<(), Fault> {
    let status = answer.head.parsed.status.0;
    let Some(expect) = expect else {
        // That a key is not in memcached says that memcached works.
        let is_right =
            (200..400).contains(&status) || matches!((pass, status), (Pass::Memcached(_), 404));
        return match is_right {
            true => Ok(()),
            false => Err(Fault(format!("it answers with status {status}"))),
        };
    };
    let name = &expect.name;
    if let Some(test) = &expect.status
        && !test.allows(status)
    {
        let text = format!("status {status} is not what match \"{name}\" wants");
        return Err(Fault(text));
    }
    for test in &expect.headers {
        if !has(test, answer) {
            let field = Text(&test.name);
            let text = format!("header \"{field}\" is not what match \"{name}\" wants");
            return Err(Fault(text));
        }
    }
    if !expect.bodies.iter().all(|test| test.allows(&answer.body)) {
        let text = format!("the body is not what match \"{name}\" wants");
        return Err(Fault(text));
    }
    let mut required = expect.require.iter();
    if !required.all(|value| template::is_true(value, exchange)) {
        let text = format!("a variable that match \"{name}\" requires is empty or 0");
        return Err(Fault(text));
    }
    Ok(())
}

/// Whether the fields of that name are what they must be. Of several, one has to be.
fn has(test: &HeaderTest, answer: &CheckedResponse) -> bool {
    let head = &answer.head;
    let named = head.parsed.headers.iter();
    let mut values = named
        .filter(|header| {
            header
                .name
                .of(&head.buffer)
                .eq_ignore_ascii_case(&test.name)
        })
        .map(|header| header.value.of(&head.buffer));
    match &test.test {
        HeaderRule::Present => values.next().is_some(),
        HeaderRule::Absent => values.next().is_none(),
        HeaderRule::Value(rule) if rule.negated => values.all(|value| rule.allows(value)),
        HeaderRule::Value(rule) => values.any(|value| rule.allows(value)),
    }
}

/// Whether a gRPC server says that it serves, or answers with the status that is expected of it.
///
/// # Errors
/// What it answers instead.
pub(super) fn judge_grpc(expected: Option<u32>, answer: &CheckedResponse) -> Result<(), Fault> {
    let status = answer.head.parsed.status.0;
    if status != 200 {
        return Err(Fault(format!("it answers with status {status}")));
    }
    let grpc_status = grpc_status(answer)
        .ok_or_else(|| Fault("its response has no \"grpc-status\"".to_owned()))?;
    if let Some(expected) = expected {
        return match grpc_status == expected {
            true => Ok(()),
            false => Err(Fault(format!(
                "it answers with gRPC status {grpc_status} instead of {expected}"
            ))),
        };
    }
    if grpc_status != 0 {
        return Err(Fault(format!("it answers with gRPC status {grpc_status}")));
    }
    match serving_status(&answer.body) {
        Some(SERVING) => Ok(()),
        Some(other) => Err(Fault(format!("it says that it is not serving ({other})"))),
        None => Err(Fault("its health check response is malformed".to_owned())),
    }
}

/// From the trailers, or from the head of a response that has nothing else.
fn grpc_status(answer: &CheckedResponse) -> Option<u32> {
    let is_it = |name: &[u8]| name.eq_ignore_ascii_case(b"grpc-status");
    let mut trailers = answer.trailers.iter();
    let found = trailers
        .find(|(name, _)| is_it(name))
        .map(|(_, value)| value);
    let head = &answer.head;
    let value = found.or_else(|| {
        let mut headers = head.parsed.headers.iter();
        let header = headers.find(|header| is_it(header.name.of(&head.buffer)))?;
        Some(header.value.of(&head.buffer))
    })?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// `grpc.health.v1.HealthCheckRequest` as one message of gRPC.
pub(super) fn grpc_message(service: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(1 << 3 | 2); // field 1, of a length that follows
        push_varint(&mut message, service.len() as u64);
        message.extend_from_slice(service);
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend_from_slice(&length.to_be_bytes());
    framed.append(&mut message);
    framed
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// `status` of `grpc.health.v1.HealthCheckResponse` in one message of gRPC; 0 (`UNKNOWN`) if it is
/// not there, as Protocol Buffers leave out zeros.
fn serving_status(framed: &[u8]) -> Option<u64> {
    let (prefix, message) = framed.split_first_chunk::<GRPC_PREFIX_BYTES>()?;
    let [compressed, length @ ..] = *prefix;
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    if compressed != 0 || length != message.len() {
        return None;
    }
    let mut rest = message;
    let mut status = 0;
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        match key & 7 {
            0 => {
                let value = take_varint(&mut rest)?;
                if key >> 3 == 1 {
                    status = value;
                }
            }
            1 => rest = rest.get(8..)?,
            2 => {
                let length = usize::try_from(take_varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            5 => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, further) = rest.split_first()?;
        *rest = further;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_of_grpc() {
        assert_eq!(grpc_message(b""), [0, 0, 0, 0, 0]);
        assert_eq!(grpc_message(b"shop"), b"\0\0\0\0\x06\x0a\x04shop");
        let long = grpc_message(&[b'a'; 200]);
        assert_eq!(long[..8], [0, 0, 0, 0, 203, 0x0a, 200, 1]);
    }

    #[test]
    fn the_answer_of_grpc() {
        for (framed, status) in [
            (&b"\0\0\0\0\x02\x08\x01"[..], Some(1)),
            (b"\0\0\0\0\x02\x08\x02", Some(2)),
            (b"\0\0\0\0\0", Some(0)),
            // Fields that are not known are skipped.
            (b"\0\0\0\0\x07\x12\x03abc\x08\x01", Some(1)),
            (b"\0\0\0\0\x07\x15abcd\x08\x01", Some(1)),
            (b"\0\0\0\0\x0b\x11abcdefgh\x08\x01", Some(1)),
            (b"\x01\0\0\0\x02\x08\x01", None),
            (b"\0\0\0\0\x03\x08\x01", None),
            (b"\0\0\0\0\x01\x08", None),
            (b"\0\0\0\0\x02\x12\x05", None),
            (b"\0\0\0\0\x02\x0b\x05", None),
            (
                b"\0\0\0\0\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                None,
            ),
            (b"\0\0", None),
            (b"", None),
        ] {
            assert_eq!(serving_status(framed), status, "{framed:?}");
        }
    }
}
