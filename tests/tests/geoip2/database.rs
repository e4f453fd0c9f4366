//! Writes databases in MaxMind's format, version 2.0: a search tree of the bits of addresses, then
//! records, then what describes both.

use std::net::IpAddr;

/// A value of a record.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Bytes(Vec<u8>),
    Double(f64),
    Float(f32),
    U16(u16),
    U32(u32),
    I32(i32),
    U64(u64),
    U128(u128),
    Bool(bool),
    Map(Vec<(String, Value)>),
    Array(Vec<Value>),
}

impl Value {
    pub(crate) fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    pub(crate) fn map<const N: usize>(pairs: [(&str, Value); N]) -> Value {
        Value::Map(pairs.map(|(key, value)| (key.to_owned(), value)).into())
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Text(text) => bytes(out, 2, text.as_bytes()),
            Value::Double(number) => bytes(out, 3, &number.to_be_bytes()),
            Value::Bytes(content) => bytes(out, 4, content),
            Value::U16(number) => bytes(out, 5, &number.to_be_bytes()),
            Value::U32(number) => bytes(out, 6, &number.to_be_bytes()),
            Value::Map(pairs) => {
                control(out, 7, pairs.len());
                for (key, value) in pairs {
                    bytes(out, 2, key.as_bytes());
                    value.write(out);
                }
            }
            Value::I32(number) => bytes(out, 8, &number.to_be_bytes()),
            Value::U64(number) => bytes(out, 9, &number.to_be_bytes()),
            Value::U128(number) => bytes(out, 10, &number.to_be_bytes()),
            Value::Array(values) => {
                control(out, 11, values.len());
                values.iter().for_each(|value| value.write(out));
            }
            Value::Bool(value) => control(out, 14, usize::from(*value)),
            Value::Float(number) => bytes(out, 15, &number.to_be_bytes()),
        }
    }
}

/// The type of a value and its size, which is small in tests.
fn control(out: &mut Vec<u8>, kind: u8, size: usize) {
    let size = u8::try_from(size).expect("a small value");
    assert!(size < 29, "a small value");
    match kind {
        1..=7 => out.push(kind << 5 | size),
        _ => out.extend_from_slice(&[size, kind - 7]),
    }
}

fn bytes(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    control(out, kind, content.len());
    out.extend_from_slice(content);
}

/// Where a bit leads.
#[derive(Debug, Clone, Copy)]
enum Next {
    Nothing,
    Node(usize),
    /// A record, by its place in the data section.
    Record(usize),
}

/// A database for both kinds of addresses; IPv4 is at `::/96`.
pub(crate) struct Database {
    built: u64,
    nodes: Vec<[Next; 2]>,
    data: Vec<u8>,
}

impl Database {
    /// An empty one that was made at this time.
    pub(crate) fn new(built: u64) -> Database {
        Database {
            built,
            nodes: vec![[Next::Nothing; 2]],
            data: Vec::new(),
        }
    }

    /// Adds a network; one that lies in another has to come after it.
    pub(crate) fn add(&mut self, address: &str, prefix: u8, record: Value) {
        let (bits, prefix) = match address.parse().expect("an address") {
            IpAddr::V4(address) => (u128::from(u32::from(address)), prefix + 96),
            IpAddr::V6(address) => (u128::from(address), prefix),
        };
        let place = self.data.len();
        record.write(&mut self.data);
        let mut node = 0;
        for depth in 0..prefix {
            let bit = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth + 1 == prefix {
                self.nodes[node][bit] = Next::Record(place);
                return;
            }
            node = match self.nodes[node][bit] {
                Next::Node(next) => next,
                // A smaller network in a larger one, whose other half stays.
                rest => {
                    self.nodes.push([rest; 2]);
                    let next = self.nodes.len() - 1;
                    self.nodes[node][bit] = Next::Node(next);
                    next
                }
            };
        }
    }

    /// The file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        const SEPARATOR: usize = 16;
        let count = self.nodes.len();
        let mut out = Vec::new();
        for next in self.nodes.iter().flatten() {
            let number = match next {
                Next::Nothing => count,
                Next::Node(node) => *node,
                Next::Record(place) => count + SEPARATOR + place,
            };
            let number = u32::try_from(number).expect("a small database");
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&[0; SEPARATOR]);
        out.extend_from_slice(&self.data);
        out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        let count = u32::try_from(count).expect("a small database");
        Value::map([
            ("binary_format_major_version", Value::U16(2)),
            ("binary_format_minor_version", Value::U16(0)),
            ("build_epoch", Value::U64(self.built)),
            ("database_type", Value::text("Test")),
            ("description", Value::map([])),
            ("ip_version", Value::U16(6)),
            ("languages", Value::Array(Vec::new())),
            ("node_count", Value::U32(count)),
            ("record_size", Value::U16(32)),
        ])
        .write(&mut out);
        out
    }
}
