//! The examples of appendix B, byte for byte.

use super::*;

#[test]
fn b_1_to_b_5() {
    let mut decoder = Decoder::new(220, 16);
    // B.1: a name of the static table.
    let section = bytes("0000 510b 2f69 6e64 6578 2e68 746d 6c");
    let fields = decode(&mut decoder, 0, &section).expect("valid");
    assert_eq!(fields, Some(vec![text(":path", "/index.html")]));
    assert_eq!(acknowledgements(&mut decoder), []);

    // B.2: the section on stream 4 comes first, and waits for the instructions.
    let section = bytes("0381 10 11");
    assert_eq!(decode(&mut decoder, 4, &section), Ok(None));
    assert_eq!(decoder.next_unblocked(), None);
    let instructions = bytes(
        "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061 7468",
    );
    decoder.encoder_stream(&instructions).expect("valid");
    assert_eq!(decoder.next_unblocked(), Some(4));
    let expected = vec![
        text(":authority", "www.example.com"),
        text(":path", "/sample/path"),
    ];
    assert_eq!(decode(&mut decoder, 4, &section), Ok(Some(expected)));
    assert_eq!(acknowledgements(&mut decoder), bytes("84"));

    // B.3: an entry that nothing refers to yet.
    let instructions = bytes("4a63 7573 746f 6d2d 6b65 79 0c63 7573 746f 6d2d 7661 6c75 65");
    decoder.encoder_stream(&instructions).expect("valid");
    assert_eq!(acknowledgements(&mut decoder), bytes("01"));

    // B.4: a duplicate; the stream with the section that refers to it is given up in the example.
    decoder.encoder_stream(&bytes("02")).expect("valid");
    let section = bytes("0500 80 c1 81");
    let expected = vec![
        text(":authority", "www.example.com"),
        text(":path", "/"),
        text("custom-key", "custom-value"),
    ];
    decoder.cancel(8);
    // Had the increment been due, it would follow what is written at once.
    assert_eq!(acknowledgements(&mut decoder), bytes("48 01"));
    assert_eq!(decode(&mut decoder, 12, &section), Ok(Some(expected)));
    assert_eq!(acknowledgements(&mut decoder), bytes("8c"));

    // B.5: a name of the dynamic table. The oldest entry goes.
    let instructions = bytes("810d 6375 7374 6f6d 2d76 616c 7565 32");
    decoder.encoder_stream(&instructions).expect("valid");
    assert_eq!(acknowledgements(&mut decoder), bytes("01"));
    // Five have come, of which the first is gone: absolute indexes 4 and 1, then 0.
    let section = bytes("0600 80 83");
    let expected = vec![
        text("custom-key", "custom-value2"),
        text(":path", "/sample/path"),
    ];
    assert_eq!(decode(&mut decoder, 16, &section), Ok(Some(expected)));
    assert!(decode(&mut decoder, 20, &bytes("0600 84")).is_err());
}
