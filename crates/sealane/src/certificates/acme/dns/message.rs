//! The messages of dynamic updates, and as much of the answers as is needed.

const TYPE_SOA: u16 = 6;
const TYPE_TXT: u16 = 16;
pub(super) const TYPE_TSIG: u16 = 250;
const CLASS_IN: u16 = 1;
const CLASS_NONE: u16 = 254;
pub(super) const CLASS_ANY: u16 = 255;

/// Opcodes, in the place that they have among the flags.
const OPCODE_MASK: u16 = 0x7800;
const OPCODE_UPDATE: u16 = 5 << 11;
const FLAG_RESPONSE: u16 = 0x8000;

/// Bytes of a message's head.
pub(super) const HEAD_BYTES: usize = 12;
/// Where the count of additional records is.
pub(super) const ADDITIONAL_COUNT_AT: usize = 10;

/// How long resolvers may keep a record that lives for minutes, in seconds.
const TTL_S: u32 = 60;

/// Pointers that a name may have: enough, and no loop.
const MAX_POINTERS: usize = 16;

/// A record that is added to a zone or removed from it.
pub(super) struct Change<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    pub(super) is_added: bool,
}

/// An update of one TXT record.
///
/// # Errors
/// When a name or the text is too long.
pub(super) fn update_message(
    id: u16,
    zone: &str,
    change: &Change<'_>,
) -> Result<Vec<u8>, &'static str> {
    let mut message = head(id, OPCODE_UPDATE, [1, 0, 1, 0]);
    message.extend(name_bytes(zone)?);
    message.extend(TYPE_SOA.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    message.extend(name_bytes(change.name)?);
    message.extend(TYPE_TXT.to_be_bytes());
    let (class, ttl_s) = match change.is_added {
        true => (CLASS_IN, TTL_S),
        false => (CLASS_NONE, 0), // exactly this record (RFC 2136 section 2.5.4)
    };
    message.extend(class.to_be_bytes());
    message.extend(ttl_s.to_be_bytes());
    let length = u8::try_from(change.text.len()).map_err(|_| "a text is too long")?;
    message.extend((u16::from(length) + 1).to_be_bytes());
    message.push(length);
    message.extend(change.text.as_bytes());
    Ok(message)
}

/// The question which zone a name is in.
///
/// # Errors
/// When the name is too long.
pub(super) fn zone_question(id: u16, name: &str) -> Result<Vec<u8>, &'static str> {
    let mut message = head(id, 0, [1, 0, 0, 0]);
    message.extend(name_bytes(name)?);
    message.extend(TYPE_SOA.to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    Ok(message)
}

fn head(id: u16, flags: u16, counts: [u16; 4]) -> Vec<u8> {
    let mut message = Vec::with_capacity(512);
    message.extend(id.to_be_bytes());
    message.extend(flags.to_be_bytes());
    message.extend(counts.iter().flat_map(|count| count.to_be_bytes()));
    message
}

/// A name on the wire, in lower case as signatures want it.
///
/// # Errors
/// When it is too long.
pub(super) fn name_bytes(name: &str) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        let length = u8::try_from(label.len()).ok().filter(|length| *length < 64);
        bytes.push(length.ok_or("a part of a name is too long")?);
        bytes.extend(label.to_ascii_lowercase().as_bytes());
    }
    bytes.push(0);
    match bytes.len() > 255 {
        true => Err("a name is too long"),
        false => Ok(bytes),
    }
}

/// What a server says.
pub(super) struct Answer {
    code: u16,
    /// The owner of the first SOA record.
    pub(super) zone: Option<String>,
}

impl Answer {
    /// Reads the answer to a message.
    ///
    /// # Errors
    /// When it is none, or damaged.
    pub(super) fn parse(message: &[u8], id: u16) -> Result<Answer, &'static str> {
        let mut reader = Reader::new(message);
        let flags = reader.head(id)?;
        let counts = [4, 6, 8, 10].map(|at| number(message, at));
        reader.skip_questions(counts[0])?;
        let mut zone = None;
        // An update's answer may repeat its records, which are of no interest.
        let is_update = flags & OPCODE_MASK == OPCODE_UPDATE;
        for _ in 0..u32::from(counts[1]) + u32::from(counts[2]) {
            let record = reader.record()?;
            if record.kind == TYPE_SOA && zone.is_none() && !is_update {
                zone = Some(record.name);
            }
        }
        Ok(Answer {
            code: flags & 15,
            zone,
        })
    }

    /// What went wrong, by its name.
    pub(super) fn failure(&self) -> Option<String> {
        Some(match self.code {
            0 => return None,
            1 => "FORMERR".to_owned(),
            2 => "SERVFAIL".to_owned(),
            3 => "NXDOMAIN".to_owned(),
            4 => "NOTIMP (it takes no updates)".to_owned(),
            5 => "REFUSED".to_owned(),
            8 => "NXRRSET".to_owned(),
            9 => "NOTAUTH (not its zone, or not its key)".to_owned(),
            10 => "NOTZONE".to_owned(),
            other => format!("code {other}"),
        })
    }
}

/// Two bytes as a number; 0 beyond the end.
pub(super) fn number(message: &[u8], at: usize) -> u16 {
    let bytes = message.get(at..at + 2);
    bytes.map_or(0, |bytes| u16::from(bytes[0]) << 8 | u16::from(bytes[1]))
}

/// A record of an answer.
pub(super) struct Record<'a> {
    pub(super) name: String,
    pub(super) kind: u16,
    pub(super) data: &'a [u8],
    /// Where it begins.
    pub(super) start: usize,
}

/// Reads a message from its beginning.
pub(super) struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

const CUT: &str = "the server's answer is cut off or damaged";

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { message, at: 0 }
    }

    /// The flags of the answer with this number.
    ///
    /// # Errors
    /// When it is no answer to the question.
    pub(super) fn head(&mut self, id: u16) -> Result<u16, &'static str> {
        if self.message.len() < HEAD_BYTES {
            return Err(CUT);
        }
        let flags = number(self.message, 2);
        if number(self.message, 0) != id || flags & FLAG_RESPONSE == 0 {
            return Err("the server's answer belongs to no question");
        }
        self.at = HEAD_BYTES;
        Ok(flags)
    }

    /// Leaves out the questions.
    ///
    /// # Errors
    /// When the message ends before.
    pub(super) fn skip_questions(&mut self, count: u16) -> Result<(), &'static str> {
        for _ in 0..count {
            self.name()?;
            self.take(4)?;
        }
        Ok(())
    }

    /// The next record.
    ///
    /// # Errors
    /// When the message ends before.
    pub(super) fn record(&mut self) -> Result<Record<'a>, &'static str> {
        let start = self.at;
        let name = self.name()?;
        let head = self.take(10)?;
        let (kind, length) = (number(head, 0), number(head, 8));
        Ok(Record {
            name,
            kind,
            data: self.take(usize::from(length))?,
            start,
        })
    }

    /// A name, wherever its parts are.
    ///
    /// # Errors
    /// When it is damaged.
    pub(super) fn name(&mut self) -> Result<String, &'static str> {
        let mut name = String::new();
        let (mut at, mut pointers) = (self.at, 0);
        loop {
            let length = usize::from(*self.message.get(at).ok_or(CUT)?);
            match length {
                0 => {
                    if pointers == 0 {
                        self.at = at + 1;
                    }
                    return Ok(name);
                }
                0xc0.. => {
                    if pointers == 0 {
                        self.at = at + 2;
                    }
                    pointers += 1;
                    let low = usize::from(*self.message.get(at + 1).ok_or(CUT)?);
                    if pointers > MAX_POINTERS {
                        return Err(CUT);
                    }
                    at = (length & 0x3f) << 8 | low;
                }
                64.. => return Err(CUT),
                _ => {
                    let label = self.message.get(at + 1..at + 1 + length).ok_or(CUT)?;
                    if !name.is_empty() {
                        name.push('.');
                    }
                    name.push_str(&String::from_utf8_lossy(label).to_ascii_lowercase());
                    at += 1 + length;
                }
            }
            if name.len() > 255 {
                return Err(CUT);
            }
        }
    }

    /// What has not been read.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.message.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let taken = self.message.get(self.at..self.at + count).ok_or(CUT)?;
        self.at += count;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_those_of_rfc_2136() {
        let change = Change {
            name: "_acme-challenge.A.test",
            text: "abc",
            is_added: true,
        };
        let message = update_message(0x1234, "a.test", &change).expect("short enough");
        assert_eq!(&message[..12], b"\x12\x34\x28\0\0\x01\0\0\0\x01\0\0");
        assert_eq!(&message[12..24], b"\x01a\x04test\0\0\x06\0\x01");
        let record = &message[24..];
        assert!(record.starts_with(b"\x0f_acme-challenge\x01a\x04test\0"));
        assert!(record.ends_with(b"\0\x10\0\x01\0\0\0\x3c\0\x04\x03abc"));
        let removed = Change {
            is_added: false,
            ..change
        };
        let message = update_message(1, "a.test", &removed).expect("short enough");
        assert!(message.ends_with(b"\0\x10\0\xfe\0\0\0\0\0\x04\x03abc"));
        let long = Change {
            text: &"x".repeat(256),
            ..removed
        };
        assert!(update_message(1, "a.test", &long).is_err());
        assert!(name_bytes(&"a".repeat(64)).is_err());
        assert!(name_bytes(&"a.".repeat(128)).is_err());
    }

    #[test]
    fn the_zone_is_the_owner_of_the_soa_record() {
        let mut message = b"\0\x07\x81\x83\0\x01\0\0\0\x01\0\0".to_vec();
        message.extend(b"\x01x\x01a\x04TEST\0\0\x06\0\x01");
        // A pointer to "a.test" in the question.
        message.extend(b"\xc0\x0e\0\x06\0\x01\0\0\0\0\0\x02\xc0\x0e");
        let Ok(answer) = Answer::parse(&message, 7) else {
            panic!("it is well formed");
        };
        assert_eq!(answer.zone.as_deref(), Some("a.test"));
        assert_eq!(answer.failure().as_deref(), Some("NXDOMAIN"));
        assert!(Answer::parse(&message, 8).is_err());
        for length in 0..message.len() {
            assert!(Answer::parse(&message[..length], 7).is_err(), "{length}");
        }
    }

    #[test]
    fn names_without_end_are_damaged() {
        let mut message = b"\0\x07\x81\0\0\x01\0\0\0\0\0\0".to_vec();
        message.extend(b"\xc0\x0c\0\x06\0\x01");
        assert!(Answer::parse(&message, 7).is_err());
    }
}
