//! The examples of appendix C, byte for byte. Those with Huffman strings (C.4 and C.6) are also the
//! output of our encoder if every field is indexed at once; the others come from an encoder without
//! Huffman.

use super::*;

/// C.1: integers.
#[test]
fn c_1_integers() {
    for (value, prefix_bits, bytes) in [
        (10, 5, &[0b01010][..]),
        (1337, 5, &[0b11111, 0b1001_1010, 0b0000_1010]),
        (42, 8, &[0b0010_1010]),
    ] {
        let mut out = Vec::new();
        integer::encode(&mut out, 0, prefix_bits, value);
        assert_eq!(out, bytes);
        let mut input = bytes;
        assert_eq!(integer::decode(&mut input, prefix_bits), Ok(value));
        assert!(input.is_empty());
    }
}

/// C.2: one field in each representation; whether it is in the table afterwards.
#[test]
fn c_2_representations() {
    for (block, line, never, entries) in [
        (
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header",
            false,
            1,
        ),
        (
            "040c 2f73 616d 706c 652f 7061 7468",
            ":path: /sample/path",
            false,
            0,
        ),
        (
            "1008 7061 7373 776f 7264 0673 6563 7265 74",
            "password: secret",
            true,
            0,
        ),
        ("82", ":method: GET", false, 0),
    ] {
        let mut decoder = Decoder::new();
        let fields = decode(&mut decoder, &hex(block)).expect("valid");
        let [(name, value, is_never)] = &fields[..] else {
            panic!("{fields:?}")
        };
        assert_eq!(format!("{name}: {value}"), line);
        assert_eq!(*is_never, never);
        let dynamic = decode(&mut decoder, &[0x80 | 62]);
        assert_eq!(dynamic.is_ok(), entries == 1, "{line}");
    }
}

const REQUESTS: [&[&str]; 3] = [
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
    ],
    &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
        "cache-control: no-cache",
    ],
    &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ],
];

/// The table after each request: entries, and their sizes' sum.
const REQUEST_TABLES: [(&[&str], u32); 3] = [
    (&[":authority: www.example.com"], 57),
    (
        &["cache-control: no-cache", ":authority: www.example.com"],
        110,
    ),
    (
        &[
            "custom-key: custom-value",
            "cache-control: no-cache",
            ":authority: www.example.com",
        ],
        164,
    ),
];

/// C.3: requests without Huffman strings.
#[test]
fn c_3_requests() {
    let blocks = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    check_decoder(&mut Decoder::new(), &blocks, &REQUESTS, &REQUEST_TABLES);
}

/// C.4: the same with Huffman strings.
#[test]
fn c_4_requests_with_huffman() {
    let blocks = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    check_decoder(&mut Decoder::new(), &blocks, &REQUESTS, &REQUEST_TABLES);
    check_encoder(&mut Encoder::default(), &blocks, &REQUESTS);
}

const RESPONSES: [&[&str]; 3] = [
    &[
        ":status: 302",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 307",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ],
    &[
        ":status: 200",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:22 GMT",
        "location: https://www.example.com",
        "content-encoding: gzip",
        "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
    ],
];

const RESPONSE_TABLES: [(&[&str], u32); 3] = [
    (
        &[
            "location: https://www.example.com",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "cache-control: private",
            ":status: 302",
        ],
        222,
    ),
    (
        &[
            ":status: 307",
            "location: https://www.example.com",
            "date: Mon, 21 Oct 2013 20:13:21 GMT",
            "cache-control: private",
        ],
        222,
    ),
    (
        &[
            "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            "content-encoding: gzip",
            "date: Mon, 21 Oct 2013 20:13:22 GMT",
        ],
        215,
    ),
];

/// The table size of C.5 and C.6, and the update that brings a decoder there.
const RESPONSE_TABLE_BYTES: u32 = 256;
const TABLE_SIZE_UPDATE: [u8; 3] = [0x3f, 0xe1, 0x01];

fn decoder_for_responses() -> Decoder {
    let mut decoder = Decoder::new();
    decoder.set_limit(RESPONSE_TABLE_BYTES);
    decode(&mut decoder, &TABLE_SIZE_UPDATE).expect("valid");
    decoder
}

/// C.5: responses, with evictions, without Huffman strings.
#[test]
fn c_5_responses() {
    let blocks = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 \
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 \
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d \
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 \
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e \
         3d31",
    ];
    let mut decoder = decoder_for_responses();
    check_decoder(&mut decoder, &blocks, &RESPONSES, &RESPONSE_TABLES);
}

/// C.6: the same with Huffman strings.
#[test]
fn c_6_responses_with_huffman() {
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 \
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab \
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f \
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    let mut decoder = decoder_for_responses();
    check_decoder(&mut decoder, &blocks, &RESPONSES, &RESPONSE_TABLES);
    let mut encoder = Encoder::default();
    encoder.set_peer_limit(RESPONSE_TABLE_BYTES);
    let mut update = Vec::new();
    encoder.block(&mut update);
    assert_eq!(update, TABLE_SIZE_UPDATE);
    // "307" takes three bytes either way, and ours stays plain then.
    let ours = [blocks[0], "4803 3330 37c1 c0bf", blocks[2]];
    check_encoder(&mut encoder, &ours, &RESPONSES);
}

fn check_decoder(
    decoder: &mut Decoder,
    blocks: &[&str; 3],
    messages: &[&[&str]; 3],
    tables: &[(&[&str], u32); 3],
) {
    for ((block, message), (entries, size)) in blocks.iter().zip(messages).zip(tables) {
        assert_eq!(lines(decoder, &hex(block)).expect("valid"), *message);
        assert_eq!(decoder.table_bytes(), *size);
        let indexes: Vec<u8> = (0..entries.len() as u8).map(|age| 0xbe + age).collect();
        assert_eq!(lines(decoder, &indexes).expect("as many"), *entries);
        let beyond = [0xbe + entries.len() as u8];
        let asked = lines(&mut decoder.clone(), &beyond);
        assert_eq!(asked, Err(HpackError::InvalidIndex));
    }
}

fn check_encoder(encoder: &mut Encoder, blocks: &[&str; 3], messages: &[&[&str]; 3]) {
    for (block, message) in blocks.iter().zip(messages) {
        let mut out = Vec::new();
        let mut encoded = encoder.block(&mut out);
        for line in *message {
            let (name, value) = line.rsplit_once(": ").expect("a name and a value");
            encoded.field(name.as_bytes(), value.as_bytes(), Indexing::AtOnce);
        }
        assert_eq!(out, hex(block), "{message:?}");
    }
}
