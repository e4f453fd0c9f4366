//! Prints how many private-key operations a second the engine does, and what each costs this
//! process: with OpenSSL's own provider, which computes on the thread, and with a simulated card,
//! which answers after a millisecond and computes nothing here (the provider of the tests, which
//! remembers its results). Or of another provider, if one is named.
//!
//! `cargo run --release -p sealane-provider --example provider_speed -- [SECONDS [NAME [CONF
//! [URI]]]]`, where a URI names a key of the provider's, as in `store:URI`.

#[path = "../tests/providers/card.rs"]
mod card;

use std::collections::VecDeque;
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use sealane_awslc::{KeyKind, KeyOperation, PrivateKey, PublicKey};
use sealane_provider::{
    Engine, EngineOptions, Provider, ProviderError, ProviderKey, ProviderOptions,
};
use sealane_tls::accelerator::{PendingJob, job};

/// Operations that are submitted and not done, at any time.
const AT_ONCE: usize = 1000;
/// The simulated card. It wakes jobs by calls, as Intel's provider does.
const CARD: [(&str, &str); 4] = [
    ("latency_us", "1000"),
    ("remember", "yes"),
    ("wake", "callback"),
    ("threads", "1"),
];

type Kind = (&'static str, &'static rcgen::SignatureAlgorithm, u16);

const KINDS: [Kind; 4] = [
    ("RSA-2048, PSS", &rcgen::PKCS_RSA_SHA256, 0x0804),
    ("ECDSA P-256", &rcgen::PKCS_ECDSA_P256_SHA256, 0x0403),
    ("ECDSA P-384", &rcgen::PKCS_ECDSA_P384_SHA384, 0x0503),
    ("Ed25519", &rcgen::PKCS_ED25519, 0x0807),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let time = Duration::from_secs_f32(seconds);
    if let Some(name) = arguments.next() {
        let conf = arguments.next().filter(|conf| !conf.is_empty());
        return other(name, conf.map(PathBuf::from), arguments.next(), time);
    }
    println!("AWS-LC, one thread:");
    for kind in KINDS {
        alone(kind, time / 4)?;
    }
    let default = Provider::load(&ProviderOptions {
        name: "default".into(),
        library: card::library(),
        ..ProviderOptions::default()
    })?;
    println!(
        "\n{}, provider \"default\", {AT_ONCE} at once:",
        default.openssl_version()
    );
    for kind in &KINDS[..3] {
        measure(&default, *kind, time)?;
    }
    match card::compile(&std::env::temp_dir()) {
        Ok(module) => {
            println!("\na simulated card, {AT_ONCE} at once:");
            let provider = card::load(&module, &CARD)?;
            for kind in &KINDS[1..3] {
                measure(&provider, *kind, time)?;
            }
            remove(&module);
        }
        Err(why) => println!("\nno simulated card: {why}"),
    }
    Ok(())
}

/// Measures a provider of the operator's, with keys made here or with one of its own.
fn other(
    name: String,
    conf: Option<PathBuf>,
    uri: Option<String>,
    time: Duration,
) -> Result<(), Box<dyn Error>> {
    println!("provider \"{name}\", {AT_ONCE} at once:");
    let provider = Provider::load(&ProviderOptions {
        name,
        conf,
        library: card::library(),
    })?;
    // One engine for all: Intel's provider in software does not survive the end of a thread.
    let engine = start(&provider, false)?;
    let Some(uri) = uri else {
        for (name, algorithm, scheme) in &KINDS[..3] {
            let (pem, _) = made(algorithm)?;
            let key = provider.key_from_pem(pem.as_bytes(), None)?;
            measure_key(&engine, name, key, *scheme, time)?;
        }
        return Ok(());
    };
    let key = provider.key_from_uri(&uri, None)?;
    let scheme = match key.kind() {
        KeyKind::Rsa => 0x0804,
        KeyKind::Ed25519 => 0x0807,
        _ => 0x0403,
    };
    measure_key(&engine, &uri, key, scheme, time)
}

fn remove(module: &Path) {
    let _ = std::fs::remove_file(module);
}

fn message(scheme: u16) -> KeyOperation {
    // As long as what TLS 1.3 signs.
    let input = vec![0x20; 130];
    KeyOperation::Sign { scheme, input }
}

fn made(
    algorithm: &'static rcgen::SignatureAlgorithm,
) -> Result<(String, PublicKey), Box<dyn Error>> {
    use rcgen::PublicKeyData as _;
    let pair = rcgen::KeyPair::generate_for(algorithm)?;
    let public = PublicKey::from_spki_der(&pair.subject_public_key_info())?;
    Ok((pair.serialize_pem(), public))
}

/// What signing and verifying cost without any provider.
fn alone((name, algorithm, scheme): Kind, time: Duration) -> Result<(), Box<dyn Error>> {
    let (pem, public) = made(algorithm)?;
    let key = PrivateKey::from_pem(pem.as_bytes(), &[])?;
    let operation = message(scheme);
    let result = key.perform(&operation)?;
    let sign_us = microseconds(time, || drop(black_box(key.perform(&operation))));
    let verify_us = microseconds(time, || {
        let _ = black_box(public.verify_result(&operation, result.expose()));
    });
    println!("  {name:<14} signs in {sign_us:6.1} us, verifies in {verify_us:6.1} us");
    Ok(())
}

fn microseconds(time: Duration, mut run: impl FnMut()) -> f64 {
    let (start, mut count) = (Instant::now(), 0_u32);
    while start.elapsed() < time {
        run();
        count += 1;
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

fn measure(
    provider: &Provider,
    (name, algorithm, scheme): Kind,
    time: Duration,
) -> Result<(), Box<dyn Error>> {
    let (pem, public) = made(algorithm)?;
    for verify_ecdsa in [true, false] {
        if !is_ecdsa(scheme) && !verify_ecdsa {
            continue;
        }
        let engine = start(provider, verify_ecdsa)?;
        let key = provider.key_from_pem(pem.as_bytes(), None)?;
        assert_eq!((key.kind(), key.bits()), (public.kind(), public.bits()));
        let name = match (is_ecdsa(scheme), verify_ecdsa) {
            (true, false) => format!("{name}, unverified"),
            _ => format!("{name}, verified"),
        };
        measure_key(&engine, &name, key, scheme, time)?;
    }
    Ok(())
}

fn is_ecdsa(scheme: u16) -> bool {
    scheme & 0xff == 3
}

fn start(provider: &Provider, verify_ecdsa: bool) -> Result<Engine, ProviderError> {
    // A slow device cannot do so many in the usual time.
    let options = EngineOptions {
        verify_ecdsa,
        timeout: Duration::from_secs(600),
        ..EngineOptions::default()
    };
    Engine::start(
        provider,
        options,
        Arc::new(|text: &str| eprintln!("{text}")),
    )
}

fn measure_key(
    engine: &Engine,
    name: &str,
    key: ProviderKey,
    scheme: u16,
    time: Duration,
) -> Result<(), Box<dyn Error>> {
    let by = key.computing_provider().to_owned();
    let accelerator = engine.accelerator(key);
    let submit = || {
        let (job, pending) = job(message(scheme));
        accelerator.submit(job);
        pending
    };
    let mut pending: VecDeque<PendingJob> = (0..AT_ONCE).map(|_| submit()).collect();
    let (start, before, mut count) = (Instant::now(), Cpu::now()?, 0_u64);
    while start.elapsed() < time {
        let first = pending.pop_front().ok_or("nothing is pending")?;
        wait(first);
        count += 1;
        pending.push_back(submit());
    }
    let (elapsed, cpu) = (start.elapsed(), Cpu::now()?);
    pending.into_iter().for_each(wait);
    let per_operation = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
    println!(
        "  {name:<26} by {by:<11} {:8.0} operations/s; each takes {:6.1} us of \
             the engine's thread, {:6.1} us of all threads",
        count as f64 / elapsed.as_secs_f64(),
        per_operation(cpu.engine - before.engine),
        per_operation(cpu.all - before.all),
    );
    Ok(())
}

/// Time of processors that this process has used.
struct Cpu {
    engine: Duration,
    all: Duration,
}

impl Cpu {
    /// As the kernel counts it for each thread (`/proc/PID/task/TID/schedstat`). Threads that have
    /// ended do not count.
    fn now() -> Result<Self, Box<dyn Error>> {
        let (mut engine, mut all) = (Duration::ZERO, Duration::ZERO);
        for task in std::fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            let numbers = std::fs::read_to_string(task.join("schedstat"))?;
            let first = numbers.split(' ').next().unwrap_or_default();
            let time = Duration::from_nanos(first.parse()?);
            all += time;
            if std::fs::read_to_string(task.join("comm"))?.trim() == "provider" {
                engine += time;
            }
        }
        Ok(Self { engine, all })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait(mut pending: PendingJob) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match pending.poll(&mut cx) {
            Poll::Ready(_) => return,
            Poll::Pending => thread::park(),
        }
    }
}
