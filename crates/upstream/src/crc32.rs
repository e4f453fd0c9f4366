//! The CRC-32 of IEEE 802.3, which `hash` uses for keys and servers. Keys are short, so a table for
//! one byte per step is enough.

/// A CRC in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crc32(u32);

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            let carry = if rest & 1 == 1 { 0xedb8_8320 } else { 0 };
            rest = (rest >> 1) ^ carry;
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

impl Crc32 {
    pub(super) fn new() -> Crc32 {
        Crc32(u32::MAX)
    }

    /// Continues the CRC with these bytes.
    #[must_use]
    pub(super) fn and(self, bytes: &[u8]) -> Crc32 {
        let step =
            |rest: u32, byte: &u8| TABLE[((rest ^ u32::from(*byte)) & 0xff) as usize] ^ (rest >> 8);
        Crc32(bytes.iter().fold(self.0, step))
    }

    pub(super) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Crc32;

    #[test]
    fn the_check_value_of_the_standard() {
        assert_eq!(Crc32::new().and(b"123456789").value(), 0xcbf4_3926);
        assert_eq!(Crc32::new().and(b"1234").and(b"56789").value(), 0xcbf4_3926);
        assert_eq!(Crc32::new().value(), 0);
    }
}
