//! Modules that hang, err, lie or die: SoftHSM behind a module that does so when it is told.

mod setup;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use sealane_awslc::{KeyOperation, Secret};
use sealane_pkcs11::{Failure, FailureKind, Link, OpenError, Options, TokenKey, Uri};

use setup::{
    PIN, Setup, eventually, in_own_process, in_own_process_that_dies, perform, sign, submit, wait,
};

const ECDSA: u16 = 0x0403;
const SHORT: Duration = Duration::from_secs(1);

/// The module, the files by which it is told what to do, and a token with a key of each of two
/// kinds.
struct Faulty<'a> {
    setup: &'a Setup,
    module: PathBuf,
}

impl<'a> Faulty<'a> {
    fn new(setup: &'a Setup) -> Self {
        let module = setup.directory.join("faulty.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faulty_module.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-o"])
            .args([module.as_path(), source.as_ref()])
            .arg("-ldl")
            .output()
            .expect("a C compiler, which the build needs too");
        let text = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success() && text.is_empty(), "{text}");
        setup.token("t");
        setup.key("t", "ec", "01", &rcgen::PKCS_ECDSA_P256_SHA256);
        setup.key("t", "rsa", "02", &rcgen::PKCS_RSA_SHA256);
        let faulty = Self { setup, module };
        faulty.set("ok");
        faulty
    }

    fn set(&self, mode: &str) {
        // In one piece: the module reads it at any time.
        let new = self.setup.directory.join("new");
        std::fs::write(&new, mode).expect("a file");
        std::fs::rename(new, self.setup.directory.join("mode")).expect("the same directory");
    }

    /// How often the module was called so.
    fn calls(&self, name: &str) -> usize {
        let calls = std::fs::read_to_string(self.setup.directory.join("calls"));
        let calls = calls.unwrap_or_default();
        calls.lines().filter(|line| *line == name).count()
    }

    fn open_with(&self, key: &str, pin: &str, options: &Options) -> Result<TokenKey, OpenError> {
        let uri = Uri::parse(&format!("pkcs11:token=t;object={key}")).expect("a URI");
        let pin = Secret::new(pin.as_bytes().to_vec());
        TokenKey::open(&uri, &self.module, Some(&pin), options)
    }

    fn try_open(&self, key: &str) -> Result<TokenKey, OpenError> {
        self.open_with(key, PIN, &self.setup.options())
    }

    fn open(&self, key: &str) -> TokenKey {
        self.try_open(key).unwrap_or_else(|error| panic!("{error}"))
    }

    fn options(&self, sessions: usize, timeout: Duration) -> Options {
        Options {
            sessions,
            timeout,
            ..self.setup.options()
        }
    }
}

fn last_error(key: &TokenKey) -> String {
    key.health().last_error.expect("there was one").0
}

#[test]
fn an_operation_that_hangs_fails_and_its_thread_comes_back() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = faulty.options(2, SHORT);
        let key = faulty.open_with("ec", PIN, &options).expect("it is there");
        faulty.set("hang");
        assert_eq!(perform(&key, sign(ECDSA, b"1")), None);
        assert_eq!(key.stats().failed(FailureKind::TimedOut), 1);
        eventually("one hangs", || key.health().hanging == 1);
        assert_eq!(key.health().link, Link::Up);
        // The second one hangs as well, and takes what waits with it.
        let waiting = [(); 3].map(|()| submit(&key, sign(ECDSA, b"2")));
        for pending in waiting {
            assert_eq!(wait(pending), None);
        }
        let health = key.health();
        assert_eq!((health.link, health.hanging), (Link::NotAnswering, 2));
        assert_eq!(key.stats().failed(FailureKind::TimedOut), 2);
        assert_eq!(key.stats().failed(FailureKind::NotAnswering), 2);
        // New ones fail at once.
        assert_eq!(perform(&key, sign(ECDSA, b"3")), None);
        assert_eq!(key.stats().failed(FailureKind::NotAnswering), 3);
        assert_eq!(faulty.calls("hang"), 2);
        faulty.set("ok");
        eventually("both come back", || key.health().hanging == 0);
        assert_eq!(key.stats().late.get(), 2);
        assert!(perform(&key, sign(ECDSA, b"4")).is_some());
        let reports: [String; 3] = setup.reports();
        assert!(reports[0].contains("1 of 2 threads wait for the module longer than 1s"));
        assert!(reports[1].contains("2 of 2 threads wait"), "{reports:?}");
        assert!(
            reports[2].contains("the module answers again"),
            "{reports:?}"
        );
    });
}

#[test]
fn threads_that_hang_for_good_are_replaced_when_the_key_is_opened_again() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = faulty.options(2, SHORT);
        let key = faulty.open_with("ec", PIN, &options).expect("it is there");
        faulty.set("hang");
        let pending = [(); 2].map(|()| submit(&key, sign(ECDSA, b"x")));
        for pending in pending {
            assert_eq!(wait(pending), None);
        }
        assert_eq!(key.health().link, Link::NotAnswering);
        faulty.set("hold");
        let again = faulty.open_with("ec", PIN, &options).expect("others pass");
        drop(key);
        let health = again.health();
        let numbers = (health.sessions, health.hanging);
        assert_eq!((health.link, numbers), (Link::Up, (4, 2)));
        assert!(perform(&again, sign(ECDSA, b"x")).is_some());
        faulty.set("ok");
        eventually("the first ones end", || again.health().sessions == 2);
        assert_eq!(again.health().hanging, 0);
        assert!(perform(&again, sign(ECDSA, b"x")).is_some());
    });
}

#[test]
fn what_nobody_wants_any_more_is_not_computed_and_queues_are_bounded() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = Options {
            max_queued: 3,
            ..faulty.options(1, Duration::from_secs(60))
        };
        let key = faulty.open_with("ec", PIN, &options).expect("it is there");
        let signed = faulty.calls("sign");
        faulty.set("hang");
        let first = submit(&key, sign(ECDSA, b"first"));
        eventually("it is in the module", || faulty.calls("hang") == 1);
        let mut queued = [(); 3].map(|()| Some(submit(&key, sign(ECDSA, b"queued"))));
        assert_eq!(key.health().queued, 3);
        assert_eq!(perform(&key, sign(ECDSA, b"one too many")), None);
        assert_eq!(key.stats().failed(FailureKind::QueueFull), 1);
        queued[0] = None;
        queued[2] = None;
        faulty.set("ok");
        assert!(wait(first).is_some());
        assert!(wait(queued[1].take().expect("kept")).is_some());
        eventually("all are gone", || key.stats().cancelled.get() == 2);
        assert_eq!(faulty.calls("sign"), signed + 2);
        assert_eq!(key.stats().done(), 2);
    });
}

#[test]
fn errors_of_a_session_are_tried_once_more_with_a_new_one() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = faulty.options(1, Duration::from_secs(60));
        let key = faulty.open_with("ec", PIN, &options).expect("it is there");
        // CKR_GENERAL_ERROR, DEVICE_ERROR, DEVICE_REMOVED, KEY_HANDLE_INVALID, SESSION_CLOSED,
        // SESSION_HANDLE_INVALID, TOKEN_NOT_PRESENT, USER_NOT_LOGGED_IN, a vendor's.
        let lost = ["5", "30", "32", "60", "b0", "b3", "e0", "101", "80000123"];
        for code in lost {
            let opened = faulty.calls("open");
            faulty.set(&format!("sign-once {code}"));
            assert!(perform(&key, sign(ECDSA, b"x")).is_some(), "{code}");
            assert_eq!(faulty.calls("open"), opened + 1, "{code}");
        }
        let done = key.stats().done();
        assert_eq!(done, u64::try_from(lost.len()).expect("few"));
        let [] = setup.reports();
        // An error that comes again ends the operation, and the token is still there.
        let signed = faulty.calls("sign");
        faulty.set("sign 30");
        assert_eq!(perform(&key, sign(ECDSA, b"x")), None);
        assert_eq!(faulty.calls("sign"), signed + 2);
        assert_eq!(
            last_error(&key),
            "PKCS #11 token \"t\": \"pkcs11:token=t;object=ec;type=private\": C_Sign() failed \
             (CKR_DEVICE_ERROR)"
        );
        // Others are not tried again: CKR_KEY_FUNCTION_NOT_PERMITTED.
        faulty.set("sign 68");
        let opened = faulty.calls("open");
        assert_eq!(perform(&key, sign(ECDSA, b"x")), None);
        assert_eq!(
            (faulty.calls("sign"), faulty.calls("open")),
            (signed + 3, opened + 1)
        );
        assert!(
            last_error(&key).contains("the key needs CKA_SIGN"),
            "{}",
            last_error(&key)
        );
        assert_eq!(key.stats().failed(FailureKind::Refused), 2);
        // The operator is told once a minute.
        let [_told] = setup.reports();
        faulty.set("ok");
        assert!(perform(&key, sign(ECDSA, b"x")).is_some());
        assert_eq!(key.health().link, Link::Up);
    });
}

/// A module that gives sessions though its device is gone.
#[test]
fn a_token_that_never_computes_is_away_until_it_does() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let key = faulty.open("ec");
        let begun = faulty.calls("initialize");
        faulty.set("sign 30");
        for _ in 0..3 {
            assert_eq!(perform(&key, sign(ECDSA, b"x")), None);
        }
        assert_eq!(key.stats().failed(FailureKind::Refused), 2);
        assert_eq!(key.stats().failed(FailureKind::TokenAway), 1);
        // Sessions alone would not help: the module begins again.
        eventually("a session was found", || key.health().returned == 1);
        assert_eq!(faulty.calls("initialize"), begun + 1);
        assert_eq!(perform(&key, sign(ECDSA, b"x")), None);
        assert_eq!(key.stats().failed(FailureKind::TokenAway), 2);
        faulty.set("ok");
        eventually("it computes", || perform(&key, sign(ECDSA, b"x")).is_some());
        assert_eq!(key.health().link, Link::Up);
        let [first, lost, back]: [String; 3] = setup.reports();
        assert!(
            first.contains("object=ec;type=private\": C_Sign() failed"),
            "{first}"
        );
        assert!(lost.contains("fail until it is back"), "{lost}");
        assert!(back.contains("it is back after"), "{back}");
    });
}

#[test]
fn wrong_results_are_not_used() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let (ec, rsa) = (faulty.open("ec"), faulty.open("rsa"));
        let number = [&[0, 2][..], &[7; 254]].concat();
        let input = rsa
            .public_key()
            .rsa_raised(&number)
            .expect("below the modulus");
        faulty.set("wrong");
        assert_eq!(perform(&ec, sign(ECDSA, b"x")), None);
        for scheme in [0x0401, 0x0804] {
            assert_eq!(perform(&rsa, sign(scheme, b"x")), None);
        }
        let decrypt = KeyOperation::Decrypt { input };
        assert_eq!(perform(&rsa, decrypt.clone()), None);
        let wrong = |key: &TokenKey| key.stats().failed(FailureKind::WrongResult);
        assert_eq!((wrong(&ec), wrong(&rsa)), (1, 3));
        // Once for each key.
        let reports: [String; 2] = setup.reports();
        assert!(
            reports[0].contains("not what the public key verifies"),
            "{reports:?}"
        );
        // A key that signs wrong is not opened.
        let error = faulty.try_open("ec").expect_err("it is tried");
        assert_eq!(error.failure(), &Failure::WrongResult);
        faulty.set("ok");
        assert!(perform(&rsa, decrypt).is_some_and(|result| result.expose() == number));
    });
}

#[test]
fn numbers_may_come_without_their_zeros() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let key = faulty.open("rsa");
        faulty.set("short");
        for zeros in [1, 2, 9] {
            let number = [&[0; 9][..zeros], &vec![7; 256 - zeros]].concat();
            let input = key.public_key().rsa_raised(&number).expect("it is small");
            let result = perform(&key, KeyOperation::Decrypt { input }).expect("it can");
            assert_eq!(result.expose(), number);
        }
    });
}

#[test]
fn a_token_that_does_not_pad_gets_numbers() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        faulty.set("no-padding");
        let key = faulty.open("rsa");
        for scheme in [
            0x0201, 0x0401, 0x0501, 0x0601, 0x0804, 0x0805, 0x0806, 0xff01,
        ] {
            let raw = faulty.calls("raw");
            let signature = perform(&key, sign(scheme, b"x")).expect("it signs");
            let public = key.public_key();
            public
                .verify(scheme, b"x", signature.expose())
                .expect("it is right");
            assert_eq!(faulty.calls("raw"), raw + 1, "{scheme:#x}");
        }
    });
}

#[test]
fn a_pin_is_tried_once() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = faulty.options(4, Duration::from_secs(60));
        let pin_refused = |key: &str, pin: &str| {
            let error = faulty
                .open_with(key, pin, &options)
                .expect_err("it is wrong");
            assert!(
                matches!(error.failure(), Failure::PinRefused(_)),
                "{error:?}"
            );
            error.to_string()
        };
        let text = pin_refused("ec", "9876");
        assert!(text.contains("CKR_PIN_INCORRECT"), "{text}");
        // Neither for the same key nor for another one of the token.
        pin_refused("ec", "9876");
        pin_refused("rsa", "9876");
        assert_eq!(faulty.calls("login"), 1);
        sealane_pkcs11::forget_refused_pins();
        pin_refused("rsa", "9876");
        assert_eq!(faulty.calls("login"), 2);
        // All keys and sessions of a token share one login.
        let (ec, rsa) = (
            faulty.open_with("ec", PIN, &options).expect("it is right"),
            faulty.open_with("rsa", PIN, &options).expect("it is right"),
        );
        let pending = [(); 20].map(|()| submit(&ec, sign(ECDSA, b"x")));
        for pending in pending {
            assert!(wait(pending).is_some());
        }
        assert_eq!(faulty.calls("login"), 3);
        // A session that is replaced finds the token open, by those of other threads.
        drop(rsa);
        faulty.set("changed-pin");
        assert_eq!(perform(&ec, sign(ECDSA, b"x")), None);
        assert_eq!((faulty.calls("login"), ec.health().link), (3, Link::Up));
    });
}

#[test]
fn a_pin_that_is_refused_later_is_not_tried_again() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = faulty.options(1, Duration::from_secs(60));
        let key = faulty.open_with("ec", PIN, &options).expect("it is right");
        assert!(perform(&key, sign(ECDSA, b"x")).is_some());
        assert_eq!(faulty.calls("login"), 1);
        // The one session is replaced, so it has to log in.
        let opened = faulty.calls("open");
        faulty.set("sign-once b3");
        assert!(perform(&key, sign(ECDSA, b"x")).is_some());
        assert_eq!(
            (faulty.calls("open"), faulty.calls("login")),
            (opened + 1, 2)
        );
        faulty.set("changed-pin");
        for _ in 0..3 {
            assert_eq!(perform(&key, sign(ECDSA, b"x")), None);
        }
        assert_eq!(faulty.calls("login"), 3);
        assert_eq!(key.stats().failed(FailureKind::PinRefused), 3);
        assert_eq!(key.health().link, Link::PinRefused);
        let reports: [String; 1] = setup.reports();
        assert!(reports[0].contains("CKR_PIN_INCORRECT"), "{reports:?}");
        assert!(
            reports[0].contains("opened again with a PIN"),
            "{reports:?}"
        );
        // Opened again, with a PIN that is right, it goes on, for the old key too.
        faulty.set("ok");
        let again = faulty.open_with("ec", PIN, &options).expect("it is right");
        assert!(perform(&again, sign(ECDSA, b"x")).is_some());
        assert!(perform(&key, sign(ECDSA, b"x")).is_some());
        assert_eq!(faulty.calls("login"), 4);
    });
}

#[test]
fn a_pin_is_not_tried_if_the_token_may_lock() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        // CKF_USER_PIN_FINAL_TRY, CKF_USER_PIN_LOCKED.
        for (flags, part) in [("20000", "one more wrong PIN"), ("40000", "PIN is locked")] {
            faulty.set(&format!("flags {flags}"));
            let error = faulty.try_open("ec").expect_err("it is not tried");
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(faulty.calls("login"), 0);
        faulty.set("login a4");
        let error = faulty.try_open("ec").expect_err("CKR_PIN_LOCKED");
        assert!(error.to_string().contains("(CKR_PIN_LOCKED)"), "{error}");
    });
}

#[test]
fn a_module_that_does_not_come_back_from_opening() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = Options {
            open_timeout: SHORT,
            ..setup.options()
        };
        faulty.set("hang-open");
        let error = faulty.open_with("ec", PIN, &options).expect_err("it hangs");
        assert_eq!(error.failure(), &Failure::NoAnswer(SHORT));
        faulty.set("ok");
        assert!(perform(&faulty.open("ec"), sign(ECDSA, b"x")).is_some());
    });
}

#[test]
fn fewer_sessions_than_threads() {
    in_own_process(|setup| {
        let faulty = Faulty::new(setup);
        let options = faulty.options(3, Duration::from_secs(60));
        let key = faulty.open_with("ec", PIN, &options).expect("it is there");
        // CKR_SESSION_COUNT: the session that has opened the key is the only one.
        faulty.set("open b1");
        eventually("threads without a session end", || {
            let pending = [(); 6].map(|()| submit(&key, sign(ECDSA, b"x")));
            for pending in pending {
                assert!(wait(pending).is_some());
            }
            key.health().sessions == 1
        });
        assert_eq!(key.health().link, Link::Up);
        assert!(
            last_error(&key).contains("CKR_SESSION_COUNT"),
            "{}",
            last_error(&key)
        );
        assert!(
            last_error(&key).contains("lower \"sessions\""),
            "{}",
            last_error(&key)
        );
    });
}

#[test]
fn a_module_that_aborts_ends_its_process() {
    in_own_process_that_dies(|setup| {
        let faulty = Faulty::new(setup);
        let key = faulty.open("ec");
        faulty.set("abort");
        perform(&key, sign(ECDSA, b"x"));
    });
}
