//! Opens a private key in a PKCS #11 token as a server does, has it sign, and prints what that
//! costs.
//!
//! ```text
//! cargo run -p sealane-pkcs11 --example token_key -- URI [MODULE [OPERATIONS [SESSIONS]]]
//! ```
//!
//! The PIN is read from the file that the URI names by `pin-source`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};

use sealane_awslc::{KeyKind, KeyOperation, Secret};
use sealane_pkcs11::{
    FailureKind, Options, TokenKey, Uri, find_module, forget_refused_pins, is_uri, wait_for_threads,
};
use sealane_tls::accelerator::{Accelerator, PendingJob, job};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = run(&arguments);
    wait_for_threads(Duration::from_secs(1));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("token_key: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let uri = arguments.first().filter(|value| is_uri(value));
    let uri = Uri::parse(uri.ok_or("which URI?")?)?;
    let module = find_module(&uri, arguments.get(1).map(Path::new))?;
    let operations = arguments.get(2).map_or(Ok(200), |number| number.parse())?;
    let pin = match uri.pin_source() {
        Some(file) => Some(Secret::new(std::fs::read(file)?)),
        None => None,
    };
    let mut options = Options::new(Arc::new(|text: &str| eprintln!("told: {text}")));
    if let Some(sessions) = arguments.get(3) {
        options.sessions = sessions.parse()?;
    }
    forget_refused_pins(); // As a server does that is told to read its configuration again.
    let start = Instant::now();
    let key = TokenKey::open(&uri, &module, pin.as_ref(), &options)?;
    let public = key.public_key();
    println!(
        "{uri}: {:?}, {} bits, opened in {:?}",
        public.kind(),
        public.bits(),
        start.elapsed()
    );
    for scheme in schemes(public.kind()) {
        measure(&key, *scheme, operations)?;
    }
    println!("{:?}", key.health());
    for kind in FailureKind::ALL {
        let failed = key.stats().failed(kind);
        if failed > 0 {
            println!("{}: {failed}", kind.name());
        }
    }
    Ok(())
}

fn schemes(kind: KeyKind) -> &'static [u16] {
    match kind {
        KeyKind::Rsa => &[0x0401, 0x0804],
        KeyKind::EcP256 => &[0x0403],
        KeyKind::EcP384 => &[0x0503],
        KeyKind::EcP521 => &[0x0603],
        KeyKind::Ed25519 => &[0x0807],
        KeyKind::Other => &[],
    }
}

/// One after the other, then all at once; then what verifying costs of that.
fn measure(key: &TokenKey, scheme: u16, operations: u32) -> Result<(), &'static str> {
    let operation = KeyOperation::Sign {
        scheme,
        input: vec![0x20; 130],
    };
    let submit = || {
        let (job, pending) = job(operation.clone());
        key.submit(job);
        pending
    };
    let start = Instant::now();
    for _ in 0..operations {
        wait(submit()).ok_or("an operation failed")?;
    }
    let single = start.elapsed() / operations.max(1);
    let start = Instant::now();
    let pending: Vec<_> = (0..operations).map(|_| submit()).collect();
    let mut signature = None;
    for pending in pending {
        signature = wait(pending);
        signature.as_ref().ok_or("an operation failed")?;
    }
    let together = start.elapsed() / operations.max(1);
    let signature = signature.ok_or("nothing to do")?;
    let start = Instant::now();
    for _ in 0..operations {
        let verified = key
            .public_key()
            .verify(scheme, &[0x20; 130], signature.expose());
        verified.map_err(|_| "the signature is wrong")?;
    }
    let verifying = start.elapsed() / operations.max(1);
    println!(
        "scheme {scheme:#06x}: {} each, {} at once; verifying takes {} of that",
        micros(single),
        micros(together),
        micros(verifying)
    );
    Ok(())
}

fn micros(time: Duration) -> String {
    format!("{} us", time.as_micros())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait(mut pending: PendingJob) -> Option<Secret> {
    let waker = Arc::new(Unpark(std::thread::current())).into();
    loop {
        if let Poll::Ready(result) = pending.poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        std::thread::park();
    }
}
