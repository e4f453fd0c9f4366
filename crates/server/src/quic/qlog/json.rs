//! Writing of JSON objects, one field after the other.

use std::io::Write as _;
use std::time::Duration;

/// An object that is being written.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    is_empty: bool,
}

/// Appends an object with the fields that `fill` puts into it.
pub(super) fn object(out: &mut Vec<u8>, fill: impl FnOnce(&mut Object<'_>)) {
    out.push(b'{');
    fill(&mut Object {
        out,
        is_empty: true,
    });
    out.push(b'}');
}

/// Appends an array of what `put` makes of each.
pub(super) fn array<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        put(out, item);
    }
    out.push(b']');
}

/// Appends a number.
pub(super) fn number(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a text.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    // Writing into memory does not fail, and text is always JSON.
    let _ = serde_json::to_writer(out, text);
}

/// Appends bytes as a text in hexadecimal.
pub(super) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out.push(b'"');
}

/// Appends milliseconds, to the microsecond.
pub(super) fn milliseconds(out: &mut Vec<u8>, time: Duration) {
    let micros = time.as_micros();
    let _ = write!(out, "{}", micros / 1000);
    if !micros.is_multiple_of(1000) {
        let _ = write!(out, ".{:03}", micros % 1000);
    }
}

impl Object<'_> {
    /// The place for the value of a field, whose name needs no escapes.
    pub(super) fn field(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(super) fn number(&mut self, name: &str, value: impl Into<u64>) {
        number(self.field(name), value.into());
    }

    /// A number of bytes.
    pub(super) fn bytes(&mut self, name: &str, value: usize) {
        number(self.field(name), value as u64);
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        text(self.field(name), value);
    }

    pub(super) fn hex(&mut self, name: &str, value: &[u8]) {
        hex(self.field(name), value);
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        let value: &[u8] = if value { b"true" } else { b"false" };
        self.field(name).extend_from_slice(value);
    }

    pub(super) fn milliseconds(&mut self, name: &str, value: Duration) {
        milliseconds(self.field(name), value);
    }

    pub(super) fn object(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        object(self.field(name), fill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_json() {
        let mut out = Vec::new();
        object(&mut out, |o| {
            o.number("n", u64::MAX);
            o.text("t", "a \"quote\"\n\u{1}");
            o.hex("h", &[0, 0xff]);
            o.flag("f", false);
            o.milliseconds("whole", Duration::from_millis(3));
            o.milliseconds("part", Duration::from_micros(1_050));
            o.object("none", |_| {});
            array(o.field("all"), [1, 2], number);
        });
        let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        let expected = serde_json::json!({
            "n": u64::MAX, "t": "a \"quote\"\n\u{1}", "h": "00ff", "f": false,
            "whole": 3, "part": 1.05, "none": {}, "all": [1, 2],
        });
        assert_eq!(value, expected);
    }
}
