//! The decoder's rules, by section.

use super::*;

/// A literal with indexing, its name and value as plain strings.
fn indexing(name: &str, value: &str) -> Vec<u8> {
    literal(0x40, name, value)
}

fn literal(flags: u8, name: &str, value: &str) -> Vec<u8> {
    let mut block = vec![flags];
    for text in [name, value] {
        integer::encode(&mut block, 0, 7, text.len() as u32);
        block.extend_from_slice(text.as_bytes());
    }
    block
}

fn size_update(size: u32) -> Vec<u8> {
    let mut block = Vec::new();
    integer::encode(&mut block, 0x20, 5, size);
    block
}

#[track_caller]
fn assert_lines(decoder: &mut Decoder, block: &[u8], expected: &[&str]) {
    let found = lines(decoder, block).expect("valid");
    assert_eq!(found, expected);
}

#[track_caller]
fn assert_refused(block: &[u8], error: HpackError) {
    assert_eq!(lines(&mut Decoder::new(), block), Err(error));
}

/// Section 2.3.1 and appendix A.
#[test]
fn s_2_3_1_static_table() {
    let (mut names, mut with_values) = (Vec::new(), 0);
    for index in 1..=61 {
        let (name, value) = static_field(index).expect("an entry");
        let (name, value) = (
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(value),
        );
        assert_lines(
            &mut Decoder::new(),
            &[0x80 | index as u8],
            &[&format!("{name}: {value}")],
        );
        names.push(name.into_owned());
        with_values += u32::from(!value.is_empty());
    }
    assert_eq!((static_field(0), static_field(62)), (None, None));
    assert_eq!(with_values, 14);
    // From accept-charset on the names are in order, but for accept.
    let mut sorted = names[14..].to_vec();
    sorted.sort();
    let accept = sorted.remove(0);
    sorted.insert(4, accept);
    assert_eq!(names[14..], sorted);
    // All of it, told by another implementation.
    let mut other = httlib_hpack::Decoder::default();
    let (mut indexes, mut fields) = ((0x81..=0xbd).collect::<Vec<u8>>(), Vec::new());
    other.decode(&mut indexes, &mut fields).expect("valid");
    for (index, (name, value, _)) in (1..=61).zip(fields) {
        assert_eq!(static_field(index), Some((&name[..], &value[..])));
    }
}

/// Section 2.3.2: first in, first out; duplicates are allowed. Section 2.3.3: the newest has index
/// 62.
#[test]
fn s_2_3_2_dynamic_table() {
    let mut decoder = Decoder::new();
    let block = [indexing("a", "1"), indexing("b", "2"), indexing("a", "1")].concat();
    assert_lines(&mut decoder, &block, &["a: 1", "b: 2", "a: 1"]);
    assert_lines(&mut decoder, &[0xbe, 0xbf, 0xc0], &["a: 1", "b: 2", "a: 1"]);
    assert_eq!(decoder.table_bytes(), 3 * 34);
}

/// Section 2.3.3: indexes beyond both tables; index 0 (section 6.1).
#[test]
fn s_2_3_3_index_address_space() {
    assert_refused(&[0x80], HpackError::InvalidIndex);
    assert_refused(&[0xbe], HpackError::InvalidIndex);
    let mut largest = Vec::new();
    integer::encode(&mut largest, 0x80, 7, u32::MAX);
    assert_refused(&largest, HpackError::InvalidIndex);
    // As the name of a literal.
    assert_refused(&[0x7e, 1, b'x'], HpackError::InvalidIndex);
    assert_refused(&[0x0f, 0x2f, 1, b'x'], HpackError::InvalidIndex);
    assert_refused(&[0x1f, 0x2f, 1, b'x'], HpackError::InvalidIndex);
}

/// Section 3.2: fields are told in order, duplicates and all, and what is added counts within the
/// block.
#[test]
fn s_3_2_order() {
    let block = [
        vec![0x82],
        indexing("x", "1"),
        vec![0xbe, 0x82],
        literal(0, "x", "2"),
    ]
    .concat();
    assert_lines(
        &mut Decoder::new(),
        &block,
        &[":method: GET", "x: 1", "x: 1", ":method: GET", "x: 2"],
    );
    assert_lines(&mut Decoder::new(), b"", &[]);
}

/// Section 4.1: 32 bytes more than name and value; those of a Huffman string count decoded.
#[test]
fn s_4_1_size() {
    let mut decoder = Decoder::new();
    decode(&mut decoder, &indexing("name", "value")).expect("valid");
    assert_eq!(decoder.table_bytes(), 32 + 9);
    // C.4.1's authority.
    let block = hex("418c f1e3 c2e5 f23a 6ba0 ab90 f4ff");
    decode(&mut decoder, &block).expect("valid");
    assert_eq!(decoder.table_bytes(), 32 + 9 + 57);
}

/// Section 4.2: updates stand at the beginning of a block, up to the limit that was acknowledged.
#[test]
fn s_4_2_maximum_table_size() {
    let late = [vec![0x82], size_update(100)].concat();
    assert_refused(&late, HpackError::TableSizeUpdateLate);
    assert_refused(&size_update(4097), HpackError::TableSizeTooLarge);
    assert_lines(&mut Decoder::new(), &size_update(4096), &[]);
    // Two, as after a limit that sank and rose again.
    let twice = [size_update(0), size_update(4096), vec![0x82]].concat();
    assert_lines(&mut Decoder::new(), &twice, &[":method: GET"]);

    let mut decoder = Decoder::new();
    decoder.set_limit(8192);
    assert_lines(&mut decoder, &size_update(8192), &[]);
    assert_eq!(
        lines(&mut decoder, &size_update(8193)),
        Err(HpackError::TableSizeTooLarge)
    );
}

/// Section 4.2: an encoder whose limit sank below the table's size must say so first.
#[test]
fn s_4_2_lower_limit_must_be_followed() {
    let lowered = || {
        let mut decoder = Decoder::new();
        decoder.set_limit(100);
        decoder
    };
    let missing = Err(HpackError::TableSizeUpdateMissing);
    assert_eq!(lines(&mut lowered(), &[0x82]), missing);
    let mut decoder = lowered();
    let block = [size_update(50), vec![0x82]].concat();
    assert_lines(&mut decoder, &block, &[":method: GET"]);
    assert_lines(&mut decoder, &[0x82], &[":method: GET"]);
    // The peer had gone below already: nothing to say.
    let mut decoder = Decoder::new();
    decode(&mut decoder, &size_update(50)).expect("valid");
    decoder.set_limit(100);
    assert_lines(&mut decoder, &[0x82], &[":method: GET"]);
}

/// That there is none at this index, asked of a clone: an error is final.
#[track_caller]
fn assert_no_entry(decoder: &Decoder, index: u8) {
    let asked = lines(&mut decoder.clone(), &[index]);
    assert_eq!(asked, Err(HpackError::InvalidIndex));
}

/// Section 4.3: a smaller size evicts the oldest; zero clears the table and gives its memory back.
#[test]
fn s_4_3_eviction_when_the_size_changes() {
    let mut decoder = Decoder::new();
    let block = [indexing("a", "1"), indexing("b", "2"), indexing("c", "3")].concat();
    decode(&mut decoder, &block).expect("valid");
    let two = [size_update(2 * 34), vec![0xbe, 0xbf]].concat();
    assert_lines(&mut decoder, &two, &["c: 3", "b: 2"]);
    assert_no_entry(&decoder, 0xc0);
    let one = [size_update(2 * 34 - 1), vec![0xbe]].concat();
    assert_lines(&mut decoder, &one, &["c: 3"]);
    assert_no_entry(&decoder, 0xbf);
    assert!(decoder.heap_bytes() > 0);
    let none = [size_update(0), size_update(4096)].concat();
    assert_lines(&mut decoder, &none, &[]);
    assert_eq!((decoder.table_bytes(), decoder.heap_bytes()), (0, 0));
    assert_no_entry(&decoder, 0xbe);
}

/// Section 4.4: the oldest go until the new one fits.
#[test]
fn s_4_4_eviction_when_a_field_is_added() {
    let mut decoder = Decoder::new();
    let block = [
        size_update(3 * 34),
        indexing("a", "1"),
        indexing("b", "2"),
        indexing("c", "3"),
        indexing("dd", "4"),
    ]
    .concat();
    decode(&mut decoder, &block).expect("valid");
    assert_lines(&mut decoder, &[0xbe, 0xbf], &["dd: 4", "c: 3"]);
    assert_no_entry(&decoder, 0xc0);
}

/// Section 4.4: a field larger than the table empties it and is told all the same.
#[test]
fn s_4_4_field_larger_than_the_table() {
    let mut decoder = Decoder::new();
    let large = "x".repeat(4096 - 32);
    let block = [indexing("a", "1"), indexing("n", &large)].concat();
    assert_lines(&mut decoder, &block, &["a: 1", &format!("n: {large}")]);
    assert_eq!(decoder.table_bytes(), 0);
    assert_no_entry(&decoder, 0xbe);
    // One byte less fills it.
    decode(&mut decoder, &indexing("n", &large[1..])).expect("valid");
    assert_eq!(decoder.table_bytes(), 4096);
}

/// Section 4.4: the name may be that of an entry that goes.
#[test]
fn s_4_4_name_of_an_evicted_entry() {
    let mut decoder = Decoder::new();
    decode(
        &mut decoder,
        &[size_update(40), indexing("name", "1")].concat(),
    )
    .expect("valid");
    let block = [0x40 | 62, 4, b'2', b'2', b'2', b'2', 0xbe];
    assert_lines(&mut decoder, &block, &["name: 2222", "name: 2222"]);
    // Even if the new one does not fit.
    let block = [0x40 | 62, 5, b'3', b'3', b'3', b'3', b'3'];
    assert_lines(&mut decoder, &block, &["name: 33333"]);
    assert_eq!(decoder.table_bytes(), 0);
}

/// Section 5.1: integers end, and within 32 bits.
#[test]
fn s_5_1_integers() {
    for prefix_bits in 1..=8 {
        for value in (0..1000).chain([u32::MAX - 1, u32::MAX, 1 << 31, 16383, 16384, 1 << 21]) {
            let mut bytes = Vec::new();
            integer::encode(&mut bytes, 0, prefix_bits, value);
            for end in 0..bytes.len() {
                let cut = integer::decode(&mut &bytes[..end], prefix_bits);
                assert_eq!(cut, Err(HpackError::Truncated));
            }
            bytes.push(0xaa);
            let mut input = &bytes[..];
            assert_eq!(integer::decode(&mut input, prefix_bits), Ok(value));
            assert_eq!(input, [0xaa]);
        }
    }
    let decode = |mut bytes: &[u8]| integer::decode(&mut bytes, 5);
    // 31 + (2^32 - 1 - 31), and one more.
    assert_eq!(decode(&[0x1f, 0xe0, 0xff, 0xff, 0xff, 0x0f]), Ok(u32::MAX));
    let overflow = Err(HpackError::IntegerOverflow);
    assert_eq!(decode(&[0x1f, 0xe1, 0xff, 0xff, 0xff, 0x0f]), overflow);
    assert_eq!(decode(&[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f]), overflow);
    // Zeros in front count as well: five bytes are enough for anybody.
    assert_eq!(decode(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x00]), Ok(31));
    assert_eq!(
        decode(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00]),
        overflow
    );
}

/// Section 5.2: strings end within the block; Huffman or not is each string's own choice.
#[test]
fn s_5_2_strings() {
    let whole = [literal(0, "name", "value"), hex("0085 a8eb 1064 9c")].concat();
    for end in 1..literal(0, "name", "value").len() {
        assert_refused(&whole[..end], HpackError::Truncated);
    }
    assert_refused(
        &[0x00, 0x7f, 0x80, 0xff, 0xff, 0xff, 0x0f],
        HpackError::Truncated,
    );
    assert_refused(
        &[0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0x7f],
        HpackError::IntegerOverflow,
    );
    // A name in Huffman, a value in plain, and the other way round.
    assert_lines(
        &mut Decoder::new(),
        &hex("0086 a8eb 1064 9cbf 0161"),
        &["no-cache: a"],
    );
    assert_lines(
        &mut Decoder::new(),
        &hex("0001 6186 a8eb 1064 9cbf"),
        &["a: no-cache"],
    );
    assert_refused(&hex("0001 6181 ff"), HpackError::HuffmanPadding);
    assert_refused(&hex("0001 6185 ffff fffc 00"), HpackError::HuffmanEos);
    assert_lines(&mut Decoder::new(), &[0x00, 0x00, 0x80], &[": "]);
}

/// Sections 6.2.1 to 6.2.3: what enters the table, and what is told.
#[test]
fn s_6_2_literals() {
    for (flags, prefix_bits, enters, never) in [
        (0x40, 6, true, false),
        (0x00, 4, false, false),
        (0x10, 4, false, true),
    ] {
        let mut decoder = Decoder::new();
        let expected = ("n".to_owned(), "v".to_owned(), never);
        let fields = decode(&mut decoder, &literal(flags, "n", "v")).expect("valid");
        assert_eq!(fields, [expected]);
        let mut block = Vec::new();
        integer::encode(&mut block, flags, prefix_bits, 58);
        block.extend_from_slice(b"\x01w");
        let expected = ("user-agent".to_owned(), "w".to_owned(), never);
        assert_eq!(decode(&mut decoder, &block).expect("valid"), [expected]);
        assert_eq!(decode(&mut decoder, &[0xbf]).is_ok(), enters);
    }
}

/// Where fields come from, and that the sink is told again what it noted.
#[test]
fn origins_and_notes() {
    let mut decoder = Decoder::new();
    let limits = FieldLimits::default();
    let first = [
        indexing("a", "1"),
        vec![0x82],
        indexing("b", "2"),
        vec![0x41, 1, b'x'],
    ]
    .concat();
    let (_, collector) = decode_with(&mut decoder, &first, &limits).expect("valid");
    use Origin::*;
    assert_eq!(
        collector.origins,
        [Literal, Static(2), Literal, StaticName(1)]
    );
    // a: 1 was number 1, b: 2 number 3, :authority number 4.
    let second = [0xbe, 0xbf, 0xc0, 0x0f, 0x80 + 62 - 15 - 128 + 1, 1, b'y'];
    let (_, collector) = decode_with(&mut decoder, &second, &limits).expect("valid");
    let expected = [Dynamic(4), Dynamic(3), Dynamic(1), DynamicName(3)];
    assert_eq!(collector.origins, expected);
}

/// Section 7.4: one limit passed ends what is told, but not the table, so the connection can go on.
#[test]
fn s_7_4_limits() {
    let limits = FieldLimits {
        max_field_bytes: 100,
        max_block_bytes: 250,
        max_fields: 5,
    };
    let long = "x".repeat(99);
    let field_too_long = [indexing("n", &long), indexing("m", &"y".repeat(100))].concat();
    let block_too_long = [indexing("n", &long), vec![0xbe, 0xbe]].concat();
    let too_many = [indexing("n", "1"), vec![0xbe; 5]].concat();
    for (block, told) in [(field_too_long, 1), (block_too_long, 2), (too_many, 5)] {
        // What follows the limit is not told either, but known afterwards.
        let block = [block, indexing("after", "limit"), literal(0, "p", "q")].concat();
        let mut decoder = Decoder::new();
        let (decoded, collector) = decode_with(&mut decoder, &block, &limits).expect("valid");
        assert_eq!(decoded, Decoded::LimitExceeded);
        assert_eq!(collector.fields.len(), told);
        assert_lines(&mut decoder, &[0xbe], &["after: limit"]);
    }
    // Errors are errors beyond a limit too.
    let block = [vec![0x82; 6], vec![0x80]].concat();
    let outcome = decode_with(&mut Decoder::new(), &block, &limits);
    assert_eq!(outcome.err(), Some(HpackError::InvalidIndex));
}

/// Section 7.4, the other way: a small block that refers to one large entry again and again.
#[test]
fn s_7_4_bomb() {
    let mut decoder = Decoder::new();
    let large = "x".repeat(4000);
    decode(&mut decoder, &indexing("n", &large)).expect("valid");
    let (mut head, mut collector) = (Vec::new(), Collector::default());
    let limits = FieldLimits::default();
    let decoded = decoder.decode(&[0xbe; 16 * 1024], &limits, &mut head, &mut collector);
    assert_eq!(decoded, Ok(Decoded::LimitExceeded));
    assert_eq!(collector.fields.len(), limits.max_block_bytes / 4001);
    assert!(head.capacity() <= 2 * limits.max_block_bytes + 8192);
}

/// Section 7.3: what the table holds in memory follows what is in it.
#[test]
fn s_7_3_memory() {
    assert_eq!(Decoder::new().heap_bytes(), 0);
    let mut decoder = Decoder::new();
    for round in 0..10_000 {
        let value = "v".repeat(round % 97);
        decode(&mut decoder, &indexing(&round.to_string(), &value)).expect("valid");
        assert!(decoder.table_bytes() <= 4096);
    }
    // Lines twice, and entries of 16 bytes, at most 4096 / 32 of them.
    assert!(decoder.heap_bytes() <= 2 * 4096 + 256 + 128 * 16 * 2);
    decode(&mut decoder, &size_update(100)).expect("valid");
    assert!(decoder.heap_bytes() <= 512, "{}", decoder.heap_bytes());
}
