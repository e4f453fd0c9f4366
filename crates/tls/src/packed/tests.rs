//! The bytes themselves. `tests/moving.rs` moves connections.

use proptest::prelude::*;

use super::*;
use crate::sessions::stats::{EarlyVerdict, Missed, Resumed};

fn packed(sealer: Sealer) -> Packed {
    Packed {
        server_name: Some("name.test".into()),
        fingerprint: Fingerprint([7; 32]),
        queue_time_us: 1_000,
        sizer: RecordSizer {
            sent: 3,
            last_write_ms: 0x0102_0304_0506,
        },
        session: SessionOutcome::finished(
            Some(Resumed::Store),
            Some(Missed::StoreError),
            Some(EarlyVerdict::MethodRefused),
        ),
        client_offer: Some(Box::new(ClientOffer {
            groups: [0x11ec, 29].into(),
            schemes: [0x0403].into(),
            ja4: "t13d1516h2_8daaf6152771_e5627efa2ab1".into(),
        })),
        ech: EchOutcome::Accepted {
            outer_name: "outer.test".into(),
        },
        sealer,
        refusal: Some(refusal("no")),
        tls: Secret::new(b"keys".to_vec()),
    }
}

fn refusal(error: &str) -> Refusal {
    Refusal::Call {
        call: "setsockopt(TCP_ULP)",
        error: error.to_owned(),
    }
}

const SEALERS: [Sealer; 3] = [
    Sealer::Library,
    Sealer::Writer { sequence: u64::MAX },
    Sealer::Kernel(KernelCounts {
        records: 2,
        key_updates: 1,
    }),
];

#[test]
fn everything_arrives_as_it_left() {
    for sealer in SEALERS {
        let bytes = packed(sealer).into_bytes();
        let there = Packed::from_bytes(bytes.expose()).expect("of this version");
        let here = packed(sealer);
        assert_eq!((there.sealer, &there.refusal), (sealer, &here.refusal));
        assert_eq!(there.server_name(), Some("name.test"));
        assert_eq!(there.certificate(), here.certificate());
        assert_eq!(there.queue_time_us, here.queue_time_us);
        assert_eq!(there.client_offer, here.client_offer);
        assert_eq!(there.ech, here.ech);
        assert_eq!(format!("{:?}", there.sizer), format!("{:?}", here.sizer));
        assert_eq!(
            format!("{:?}", there.session),
            format!("{:?}", here.session)
        );
        assert_eq!(there.tls, here.tls);
        assert_eq!(
            there.is_sealed_by_kernel(),
            matches!(sealer, Sealer::Kernel(_))
        );
        assert!(!format!("{there:?}").contains("keys"));
    }
}

#[test]
fn what_there_was_not_is_not_there() {
    let bytes = Packed {
        server_name: None,
        client_offer: None,
        ech: EchOutcome::Grease,
        refusal: None,
        session: SessionOutcome::finished(None, None, None),
        ..packed(Sealer::Library)
    };
    let there = bytes.into_bytes();
    let there = Packed::from_bytes(there.expose()).expect("of this version");
    assert_eq!(
        (there.server_name(), &there.client_offer, &there.refusal),
        (None, &None, &None)
    );
    assert_eq!(there.ech, EchOutcome::Grease);
    assert_eq!(there.session.resumed(), None);
    assert_eq!(there.session.missed(), None);
    assert_eq!(there.session.early_verdict(), None);
}

/// When this test fails, the format has changed: give it another number.
#[test]
fn the_bytes_of_format_4() {
    let bytes = packed(SEALERS[2]).into_bytes();
    let library = library_version().as_bytes();
    let mut expected = [&[0, 4, library.len() as u8], library].concat();
    expected.extend_from_slice(&[0, 0, 0, 150]);
    expected.extend_from_slice(b"\0\x09name.test");
    expected.extend_from_slice(&[7; 32]);
    expected.extend_from_slice(&[0, 0, 3, 232, 0, 0, 0, 3, 0, 0, 1, 2, 3, 4, 5, 6]);
    expected.extend_from_slice(&[4, 8, 13, 1, 0, 4, 0x11, 0xec, 0, 29, 0, 2, 4, 3]);
    expected.extend_from_slice(b"\0\x24t13d1516h2_8daaf6152771_e5627efa2ab1");
    expected.extend_from_slice(b"\x02\0\x0aouter.test");
    expected.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]);
    expected.extend_from_slice(b"\x02\0\x02no\0\0\0\x04keys");
    assert_eq!(bytes.expose(), expected);
}

#[test]
fn another_version_is_told_from_damage() {
    let bytes = packed(Sealer::Library).into_bytes();
    let mut other = bytes.expose().to_vec();
    other[1] += 1;
    assert_eq!(
        Packed::from_bytes(&other).err(),
        Some(UnpackError::OtherVersion)
    );
    let mut other = bytes.expose().to_vec();
    other[5] ^= 1;
    assert_eq!(
        Packed::from_bytes(&other).err(),
        Some(UnpackError::OtherVersion)
    );
    for length in 0..bytes.expose().len() {
        let error = Packed::from_bytes(&bytes.expose()[..length]).err();
        assert!(
            matches!(error, Some(UnpackError::Malformed(_))),
            "{length}: {error:?}"
        );
    }
    let longer = [bytes.expose(), &[0]].concat();
    assert!(Packed::from_bytes(&longer).is_err());
    let endless = [bytes.expose(), &[0; MAX_PACKED_BYTES]].concat();
    assert_eq!(
        Packed::from_bytes(&endless).err(),
        Some(UnpackError::Malformed("too long"))
    );
}

#[test]
fn a_long_text_is_cut_between_two_characters() {
    let long = Packed {
        refusal: Some(refusal(&"é".repeat(150))),
        ..packed(Sealer::Library)
    };
    let there = long.into_bytes();
    let there = Packed::from_bytes(there.expose()).expect("of this version");
    let Some(Refusal::Call { error, .. }) = there.refusal else {
        panic!("{:?}", there.refusal)
    };
    assert_eq!(error, "é".repeat(100));
}

#[test]
fn the_format_is_one_short_line() {
    let format = moving_format();
    assert!(format.contains(library_version()), "{format}");
    assert!(format.len() < 200 && !format.contains('\n'), "{format}");
}

proptest! {
    /// What is read can be written again, and is the same then.
    #[test]
    fn any_bytes_are_read_or_refused(
        which in 0..SEALERS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut in prop::bool::weighted(0.2),
    ) {
        let bytes = packed(SEALERS[which]).into_bytes();
        let mut bytes = bytes.expose().to_vec();
        for (at, to) in changes {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(packed) = Packed::from_bytes(&bytes) {
            let again = packed.into_bytes();
            prop_assert_eq!(again.expose(), bytes);
        }
    }

    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Packed::from_bytes(&bytes).is_err());
    }
}
