//! Changing inputs without knowing what the program does with them: the bounded
//! driver's part. It is seeded and gives the same inputs in every run.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).expect("usize fits in 64 bits");
        usize::try_from(self.next_u64() % limit).expect("less than the limit")
    }

    fn byte(&mut self) -> u8 {
        self.next_u64().to_le_bytes()[0]
    }
}

/// A changed copy of one of the `seeds`, at most `max_bytes` long.
pub fn mutate(
    random: &mut Random,
    seeds: &[Vec<u8>],
    tokens: &[Vec<u8>],
    max_bytes: usize,
) -> Vec<u8> {
    let mut input = pick(random, seeds);
    for _ in 0..=random.below(6) {
        change(random, &mut input, seeds, tokens);
    }
    input.truncate(max_bytes);
    input
}

fn pick(random: &mut Random, from: &[Vec<u8>]) -> Vec<u8> {
    from.get(random.below(from.len()))
        .cloned()
        .unwrap_or_default()
}

fn change(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>], tokens: &[Vec<u8>]) {
    let at = random.below(input.len() + 1);
    let end = at + random.below(input.len() - at + 1).min(64);
    match random.below(16) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.byte(),
        2 => input.insert(at, random.byte()),
        3 => drop(input.drain(at..end)),
        4 => {
            let copy = input[at..end].to_vec();
            insert(input, at, &copy);
        }
        5..=8 => insert(input, at, &pick(random, tokens)),
        9..=11 => {
            let token = pick(random, tokens);
            input.splice(at..end, token);
        }
        12 | 13 => {
            // The beginning of this input and the end of another.
            let other = pick(random, seeds);
            input.truncate(at);
            input.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
        14 => input.truncate(at),
        _ => input.push(random.byte()),
    }
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    input.splice(at..at, bytes.iter().copied());
}

/// The bytes of one line of a libFuzzer dictionary, `name="text"` with `\xAB`,
/// `\\` and `\"` as escapes; `None` for comments and empty lines.
pub fn dictionary_entry(line: &str) -> Option<Vec<u8>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let text = line[line.find('"')? + 1..].strip_suffix('"')?;
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'x' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_entries() {
        assert_eq!(dictionary_entry("\"GET \""), Some(b"GET ".to_vec()));
        assert_eq!(
            dictionary_entry(r#"crlf="\x0d\x0A""#),
            Some(b"\r\n".to_vec())
        );
        assert_eq!(dictionary_entry(r#""a\"\\""#), Some(b"a\"\\".to_vec()));
        assert_eq!(dictionary_entry("# \"comment\""), None);
        assert_eq!(dictionary_entry(""), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_they_differ() {
        let seeds = vec![b"location / { return 200; }".to_vec(), b"x".to_vec()];
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..500)
                .map(|_| mutate(&mut random, &seeds, &[b"token".to_vec()], 100))
                .collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        let mut distinct = inputs(1);
        assert!(distinct.iter().all(|input| input.len() <= 100));
        distinct.sort();
        distinct.dedup();
        assert!(
            distinct.len() > 400,
            "{} distinct inputs of 500",
            distinct.len()
        );
    }
}
