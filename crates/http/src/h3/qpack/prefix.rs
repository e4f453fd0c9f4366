//! What precedes a field section (RFC 9204 section 4.5.1).

use super::integer::{self, Overflow};

/// The prefix of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    /// How many entries must have been inserted before the section can be decoded.
    pub(super) required: u64,
    /// From where relative indexes count.
    pub(super) base: u64,
}

/// Why a prefix is wrong, for the log.
type Wrong = &'static str;

impl Prefix {
    /// Takes the prefix; `inserted` entries have come so far, and the table never holds more than
    /// `max_entries`.
    pub(super) fn take(
        section: &mut &[u8],
        inserted: u64,
        max_entries: u64,
    ) -> Result<Prefix, Wrong> {
        let too_large = |Overflow| "field section prefix with too large an integer";
        let cut = "field section ends within its prefix";
        let encoded = integer::decode(section, 8).map_err(too_large)?.ok_or(cut)?;
        let is_negative = section.first().is_some_and(|first| first & 0x80 != 0);
        let delta = integer::decode(section, 7).map_err(too_large)?.ok_or(cut)?;
        let required = required_inserts(encoded, inserted, max_entries)
            .ok_or("field section with an impossible Required Insert Count")?;
        let base = match is_negative {
            false => required.checked_add(delta),
            true => required
                .checked_sub(delta)
                .and_then(|base| base.checked_sub(1)),
        };
        let base = base.ok_or("field section with an impossible Base")?;
        Ok(Prefix { required, base })
    }

    /// Appends the prefix; the peer's table never holds more than `max_entries`.
    pub(super) fn push(self, max_entries: u64, out: &mut Vec<u8>) {
        if self.required == 0 {
            out.extend_from_slice(&[0, 0]);
            return;
        }
        integer::encode(out, 0, 8, self.required % (2 * max_entries) + 1);
        match self.base.checked_sub(self.required) {
            Some(delta) => integer::encode(out, 0, 7, delta),
            None => integer::encode(out, 0x80, 7, self.required - self.base - 1),
        }
    }
}

/// The Required Insert Count of its encoded form (section 4.5.1.1).
fn required_inserts(encoded: u64, inserted: u64, max_entries: u64) -> Option<u64> {
    if encoded == 0 {
        return Some(0);
    }
    let full_range = 2 * max_entries;
    if encoded > full_range {
        return None;
    }
    let max_value = inserted + max_entries;
    let max_wrapped = max_value / full_range * full_range;
    let mut required = max_wrapped + encoded - 1;
    if required > max_value {
        if required <= full_range {
            return None;
        }
        required -= full_range;
    }
    (required != 0).then_some(required)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 4.5.1.1: "if the dynamic table is 100 bytes, then the Required Insert Count will be
    /// encoded modulo 6. If a decoder has received 10 inserts, then an encoded value of 4 indicates
    /// that the Required Insert Count is 9".
    #[test]
    fn the_example_of_section_4_5_1_1() {
        assert_eq!(
            required_inserts(4, 10, super::super::max_entries(100)),
            Some(9)
        );
    }

    #[test]
    fn counts_that_a_table_can_hold_survive_the_wrap() {
        for max_entries in [1, 3, 128] {
            for inserted in 0..400 {
                // What the encoder may refer to: entries that are or will be in the table.
                let lowest = (inserted + 1_u64).saturating_sub(max_entries).max(1);
                for required in lowest..=inserted + max_entries {
                    let prefix = Prefix {
                        required,
                        base: inserted,
                    };
                    let mut out = Vec::new();
                    prefix.push(max_entries, &mut out);
                    let mut section = &out[..];
                    assert_eq!(
                        Prefix::take(&mut section, inserted, max_entries),
                        Ok(prefix)
                    );
                    assert!(section.is_empty());
                }
            }
        }
    }

    #[test]
    fn impossible_counts_and_bases_are_refused() {
        // Beyond the range; zero again after a wrap; without a table; ahead of all inserts.
        for (encoded, inserted, max_entries) in [(7, 10, 3), (1, 0, 3), (1, 0, 0), (6, 1, 3)] {
            assert_eq!(required_inserts(encoded, inserted, max_entries), None);
        }
        // Base below zero.
        assert!(Prefix::take(&mut &[2, 0x81][..], 1, 3).is_err());
        assert_eq!(
            Prefix::take(&mut &[2, 0x80][..], 1, 3),
            Ok(Prefix {
                required: 1,
                base: 0
            })
        );
        for cut in [&[][..], &[0], &[0xff, 0x80], &[0, 0x7f]] {
            assert!(Prefix::take(&mut &cut[..], 1, 3).is_err());
        }
    }
}
