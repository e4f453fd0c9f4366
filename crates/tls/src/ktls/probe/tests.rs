use super::records::{ALERT, DATA, HANDSHAKE, Opener, Record, Sealer};
use super::script::Expectation;
use super::unavailable::has_net_admin;
use super::*;
use crate::ktls::probe::loopback::{Sent, Taken};
use std::os::fd::AsFd;

const CLOSE_NOTIFY: [u8; 2] = [1, 0];

fn sample() -> Sample {
    Sample::new().unwrap()
}

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// What a flawless kernel makes of a script's data: records of 16 KiB, then an
/// alert, each as it is on the wire.
fn flawless(content: &[u8], keys: &RecordKeys) -> Vec<Vec<u8>> {
    let mut sealer = Sealer::new(keys.clone()).unwrap();
    let mut records: Vec<Vec<u8>> = content
        .chunks(16_384)
        .map(|content| sealer.seal(DATA, content).unwrap())
        .collect();
    records.push(sealer.seal(ALERT, &CLOSE_NOTIFY).unwrap());
    records
}

/// Whether a response that arrives as these records is accepted: the flaw that
/// is found, or whether it is complete.
fn judge(sample: &Sample, keys: &RecordKeys, records: &[Vec<u8>]) -> Result<bool, Flaw> {
    judge_script(&Script::response(sample), keys, &records.concat())
}

fn judge_script(script: &Script<'_>, keys: &RecordKeys, wire: &[u8]) -> Result<bool, Flaw> {
    let mut expectation = Expectation::new(script, keys.clone()).unwrap();
    let mut complete = false;
    for piece in wire.chunks(4_001) {
        match expectation.take(piece) {
            Ok(taken) => complete = matches!(taken, Taken::Complete),
            Err(Unavailable::Corrupts {
                version,
                cipher,
                flaw,
            }) => {
                assert_eq!((version, cipher), (keys.version, keys.cipher));
                return Err(flaw);
            }
            Err(other) => panic!("no judgement of the bytes: {other}"),
        }
    }
    Ok(complete)
}

#[test]
fn what_a_flawless_kernel_sends_is_accepted() {
    let sample = sample();
    for (version, cipher) in suites() {
        let keys = RecordKeys::random(version, cipher);
        let records = flawless(&sample.content, &keys);
        assert_eq!(judge(&sample, &keys, &records), Ok(true), "{cipher:?}");
        // The data alone, however much of it, is not the whole.
        let cut = &records[..records.len() - 1];
        assert_eq!(judge(&sample, &keys, cut), Ok(false), "{cipher:?}");
    }
}

#[test]
fn wrong_bytes_in_good_records_are_found() {
    let sample = sample();
    for (version, cipher) in suites() {
        for offset in [0, 1_236, 1_237, 100_000, sample.content.len() - 1] {
            let mut wrong = sample.content.clone();
            wrong[offset] ^= 1;
            let keys = RecordKeys::random(version, cipher);
            let found = judge(&sample, &keys, &flawless(&wrong, &keys));
            let offset = offset as u64;
            assert_eq!(
                found,
                Err(Flaw::Content { offset }),
                "{version:?} {cipher:?}"
            );
        }
        // A page left out, as by a wrong offset into the file.
        let shifted = [&sample.content[..8192], &sample.content[12_288..]].concat();
        let keys = RecordKeys::random(version, cipher);
        let found = judge(&sample, &keys, &flawless(&shifted, &keys));
        assert!(matches!(found, Err(Flaw::Content { .. })), "{found:?}");
    }
}

#[test]
fn every_bit_of_a_record_counts() {
    let sample = sample();
    for (version, cipher) in suites() {
        let keys = RecordKeys::random(version, cipher);
        let record = Sealer::new(keys.clone())
            .unwrap()
            .seal(DATA, b"bytes")
            .unwrap();
        for bit in 0..record.len() * 8 {
            let mut wrong = record.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            let mut opener = Opener::new(keys.clone()).unwrap();
            opener.feed(&wrong);
            // A larger length waits for bytes that do not come: the deadline's task.
            let opened = opener.next();
            assert!(
                matches!(opened, Err(_) | Ok(None)),
                "{version:?} {cipher:?}, bit {bit}: {opened:?}"
            );
            let longer_length = (24..40).contains(&bit);
            assert!(opened.is_err() || longer_length, "bit {bit} goes unnoticed");
        }
        // And in the last record of a response.
        let mut records = flawless(&sample.content, &keys);
        let (last, count) = (records.len() - 1, records.len() as u64);
        *records[last].last_mut().unwrap() ^= 1;
        let found = judge(&sample, &keys, &records);
        assert_eq!(found, Err(Flaw::Unopened { record: count }));
    }
}

#[test]
fn records_lost_repeated_or_in_another_order_are_found() {
    let sample = sample();
    for (version, cipher) in suites() {
        let keys = RecordKeys::random(version, cipher);
        let records = flawless(&sample.content, &keys);
        // GCM in TLS 1.2 shows the number that the record has.
        let flaw = |record| match (version, cipher) {
            (Version::Tls12, Cipher::Aes128Gcm | Cipher::Aes256Gcm) => Flaw::Nonce { record },
            _ => Flaw::Unopened { record },
        };
        let mut lost = records.clone();
        lost.remove(4);
        assert_eq!(judge(&sample, &keys, &lost), Err(flaw(5)));
        let mut repeated = records.clone();
        repeated.insert(2, records[1].clone());
        assert_eq!(judge(&sample, &keys, &repeated), Err(flaw(3)));
        let mut swapped = records.clone();
        swapped.swap(0, 1);
        assert_eq!(judge(&sample, &keys, &swapped), Err(flaw(1)));
        let mut surplus = records.clone();
        surplus.push(records[0].clone());
        let found = judge(&sample, &keys, &surplus);
        assert_eq!(found, Err(Flaw::Surplus));
        let other = RecordKeys::random(version, cipher);
        let found = judge(&sample, &other, &records);
        assert_eq!(found, Err(Flaw::Unopened { record: 1 }));
    }
}

#[test]
fn a_record_of_the_wrong_type_is_found() {
    let sample = sample();
    for (version, cipher) in suites() {
        let keys = RecordKeys::random(version, cipher);
        let with_end = |kind, content: &[u8]| {
            let mut sealer = Sealer::new(keys.clone()).unwrap();
            let mut records: Vec<Vec<u8>> = sample
                .content
                .chunks(16_384)
                .map(|content| sealer.seal(DATA, content).unwrap())
                .collect();
            records.push(sealer.seal(kind, content).unwrap());
            judge(&sample, &keys, &records)
        };
        assert_eq!(with_end(ALERT, &CLOSE_NOTIFY), Ok(true));
        let record = sample.content.len().div_ceil(16_384) as u64 + 1;
        for (kind, content) in [
            (DATA, &CLOSE_NOTIFY[..]),
            (HANDSHAKE, &CLOSE_NOTIFY),
            (ALERT, &[2, 40]),
            (ALERT, &[1, 0, 0]),
        ] {
            let found = with_end(kind, content);
            assert_eq!(found, Err(Flaw::Type { record }), "{kind} {content:?}");
        }
        // An alert where data should be.
        let mut sealer = Sealer::new(keys.clone()).unwrap();
        let early = sealer.seal(ALERT, &CLOSE_NOTIFY).unwrap();
        let found = judge(&sample, &keys, &[early]);
        assert_eq!(found, Err(Flaw::Type { record: 1 }));
    }
}

#[test]
fn a_key_that_was_not_changed_is_found() {
    let sample = sample();
    for cipher in Cipher::ALL {
        let old = RecordKeys::random(Version::Tls13, cipher);
        let new = RecordKeys::after_update(cipher);
        let (before, after) = sample.content.split_at(1_237 + 30_001);
        let wire = |after_keys: Option<&RecordKeys>| {
            let mut sealer = Sealer::new(old.clone()).unwrap();
            let mut wire = Vec::new();
            for content in before.chunks(16_384) {
                wire.extend(sealer.seal(DATA, content).unwrap());
            }
            wire.extend(sealer.seal(HANDSHAKE, &[24, 0, 0, 1, 0]).unwrap());
            if let Some(keys) = after_keys {
                sealer = Sealer::new(keys.clone()).unwrap();
            }
            for content in after.chunks(16_384) {
                wire.extend(sealer.seal(DATA, content).unwrap());
            }
            wire.extend(sealer.seal(ALERT, &CLOSE_NOTIFY).unwrap());
            wire
        };
        let judge =
            |wire: &[u8]| judge_script(&Script::key_update(&sample, new.clone()), &old, wire);
        assert_eq!(judge(&wire(Some(&new))), Ok(true));
        let stale = judge(&wire(None));
        assert_eq!(stale, Err(Flaw::Unopened { record: 4 }));
        let mut late = new.clone();
        late.set_sequence(4);
        let found = judge(&wire(Some(&late)));
        assert_eq!(found, Err(Flaw::Unopened { record: 4 }), "numbers go on");
    }
}

#[test]
fn padding_and_several_lengths_open() {
    for (version, cipher) in suites() {
        let keys = RecordKeys::random(version, cipher);
        let mut sealer = Sealer::new(keys.clone()).unwrap();
        let mut opener = Opener::new(keys).unwrap();
        for length in [1, 2, 255, 256, 16_383, 16_384] {
            let content = vec![0; length]; // ends like padding, and is none
            opener.feed(&sealer.seal(DATA, &content).unwrap());
            let kind = DATA;
            assert_eq!(opener.next(), Ok(Some(Record { kind, content })));
            assert_eq!(opener.next(), Ok(None));
        }
    }
}

#[test]
fn a_sample_crosses_the_buffers_in_parts() {
    let sample = sample();
    let pair = Pair::open(deadline()).unwrap();
    // Without keys in the kernel the bytes arrive as they are; the alert, which
    // only a kernel with keys can send, is left out.
    let mut script = Script::response(&sample).without_end();
    let mut arrived = Vec::new();
    let course = pair
        .drive(
            deadline(),
            |socket| script.send(socket),
            |bytes| {
                arrived.extend_from_slice(bytes);
                Ok(if arrived.len() == sample.content.len() {
                    Taken::Complete
                } else {
                    Taken::Incomplete
                })
            },
        )
        .unwrap();
    assert!(arrived == sample.content, "other bytes arrived");
    assert!(course.waits > 0, "sendfile never stopped half-way");
}

#[test]
fn bytes_that_do_not_arrive_end_the_test() {
    let pair = Pair::open(deadline()).unwrap();
    let soon = Instant::now() + Duration::from_millis(50);
    let silent = pair.drive(soon, |_| Ok(Sent::All), |_| Ok(Taken::Incomplete));
    assert!(
        matches!(&silent, Err(Unavailable::SelfTest(why)) if why.contains("in time")),
        "{silent:?}"
    );
    let Pair { sender, receiver } = Pair::open(deadline()).unwrap();
    sealane_sys::socket::shutdown(sender.as_fd(), std::net::Shutdown::Write).unwrap();
    let pair = Pair { sender, receiver };
    let ended = pair.drive(deadline(), |_| Ok(Sent::All), |_| Ok(Taken::Incomplete));
    assert!(
        matches!(&ended, Err(Unavailable::SelfTest(why)) if why.contains("early")),
        "{ended:?}"
    );
}

#[test]
fn this_kernel_is_either_without_the_module_or_flawless() {
    let found = Capabilities::probe_with_receive();
    for (version, cipher) in suites() {
        for (direction, outcome) in [
            ("transmit", found.transmit(version, cipher)),
            ("receive", found.receive(version, cipher)),
        ] {
            eprintln!("{direction} {version:?} {cipher:?}: {outcome:?}");
            assert!(
                matches!(
                    outcome,
                    Ok(())
                        | Err(Unavailable::NoModule { .. }
                            | Unavailable::Attach { .. }
                            | Unavailable::Suite { .. })
                ),
                "{direction} {version:?} {cipher:?}: {outcome:?}"
            );
        }
    }
    eprintln!("re-key: {:?}", found.rekey());
    let plain = Capabilities::probe();
    for (version, cipher) in suites() {
        assert_eq!(
            plain.transmit(version, cipher),
            found.transmit(version, cipher)
        );
        if plain.transmit(version, cipher).is_ok() {
            let receive = plain.receive(version, cipher);
            assert_eq!(receive, Err(&Unavailable::NotProbed));
        }
    }
}

#[test]
fn one_reason_can_stand_for_everything() {
    let reason = Unavailable::NoModule { may_load: false };
    let none = Capabilities::unavailable(reason.clone());
    for (version, cipher) in suites() {
        assert_eq!(none.transmit(version, cipher), Err(&reason));
        assert_eq!(none.receive(version, cipher), Err(&reason));
    }
    assert_eq!(none.rekey(), Err(&reason));
    let mut places: Vec<usize> = suites().map(|(v, c)| index(v, c)).collect();
    places.dedup();
    assert_eq!(places, [0, 1, 2, 3, 4, 5], "each suite has its own place");
}

#[test]
fn reasons_say_what_and_what_to_do() {
    let (version, cipher) = (Version::Tls13, Cipher::ChaCha20Poly1305);
    let suite = |errno| Unavailable::Suite {
        version,
        cipher,
        errno,
    };
    for (reason, text, remedy) in [
        (
            Unavailable::NoModule { may_load: false },
            "not loaded",
            "modprobe tls",
        ),
        (
            Unavailable::NoModule { may_load: true },
            "no module",
            "CONFIG_TLS",
        ),
        (
            Unavailable::Attach { errno: 1 },
            "(1: Operation not permitted)",
            "sandbox",
        ),
        (Unavailable::Attach { errno: 92 }, "TCP_ULP", "CONFIG_TLS"),
        (
            suite(2),
            "TLSv1.3 with ChaCha20-Poly1305 (2:",
            "modprobe chacha20poly1305",
        ),
        (suite(22), "(22: Invalid argument)", "Linux 5.11"),
        (
            Unavailable::Corrupts {
                version,
                cipher,
                flaw: Flaw::Content { offset: 7 },
            },
            "corrupts TLSv1.3 with ChaCha20-Poly1305: byte 7",
            "another kernel",
        ),
        (Unavailable::NoRekey { errno: 16 }, "(16: ", "6.14"),
        (Unavailable::Loopback("99: no".into()), "loopback", "lo up"),
    ] {
        assert!(reason.to_string().contains(text), "{reason}");
        let advice = reason.remedy().unwrap();
        assert!(advice.contains(remedy), "{advice}");
    }
    assert_eq!(Unavailable::NotProbed.remedy(), None);
}

#[test]
fn refusals_are_told_apart_by_their_error_numbers() {
    use std::io::Error;
    let attach = |errno| Unavailable::of_attach(&Error::from_raw_os_error(errno)).name();
    assert_eq!(attach(2), "no_module");
    assert_eq!(attach(1), "attach_refused");
    assert_eq!(attach(92), "attach_refused");
    let error = Error::from_raw_os_error(22);
    let keys = Unavailable::of_keys(Version::Tls12, Cipher::Aes128Gcm, &error);
    assert_eq!(keys.name(), "suite_unsupported");
    assert_eq!(
        Unavailable::of_new_keys(&Error::from_raw_os_error(16)).name(),
        "no_rekey"
    );
}

#[test]
fn the_right_to_load_modules_is_one_bit() {
    let status = |mask: &str| format!("Name:\tx\nCapPrm:\t0\nCapEff:\t{mask}\nCapBnd:\t0\n");
    assert!(has_net_admin(&status("000001ffffffffff")));
    assert!(has_net_admin(&status("0000000000001000")));
    assert!(!has_net_admin(&status("0000000000000fff")));
    assert!(!has_net_admin(&status("0000000000000000")));
    assert!(!has_net_admin("Name:\tx\n"));
}
