//! Entries of static tables.

/// An entry as the decoder appends it: `name: value\r\n`.
#[derive(Clone, Copy)]
pub(crate) struct StaticLine {
    pub(crate) line: &'static [u8],
    pub(crate) name_bytes: u32,
}

impl StaticLine {
    pub(crate) const fn name(&self) -> &'static [u8] {
        self.line.split_at(self.name_bytes as usize).0
    }

    pub(crate) const fn value(&self) -> &'static [u8] {
        let (_, rest) = self.line.split_at(self.name_bytes as usize + 2);
        rest.split_at(rest.len() - 2).0
    }
}

/// The entry with this name and this value.
macro_rules! static_line {
    ($name:literal, $value:literal) => {
        StaticLine {
            line: concat!($name, ": ", $value, "\r\n").as_bytes(),
            name_bytes: $name.len() as u32,
        }
    };
}

pub(crate) use static_line;
