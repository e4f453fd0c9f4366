//! Devices: slow ones, failing ones, and what computes in their place.

use super::*;
use crate::Holders;
use crate::deposit::Deposited;
use crate::keyring::OpenedKey;
use sealane_awslc::PublicKey;
use sealane_tls::accelerator::{Accelerator, Job};
use sealane_tls::{HolderId, KeyHolder, Route};

const DEVICE: HolderId = HolderId(7);

/// A device with one key, which computes when it is told to.
#[derive(Debug, Clone)]
struct Device {
    key: Arc<PrivateKey>,
    state: Arc<Mutex<DeviceState>>,
}

#[derive(Debug, Default)]
struct DeviceState {
    is_slow: bool,
    is_broken: bool,
    waiting: Vec<Job>,
    renewed: usize,
    asked: Vec<(String, Vec<Secret>)>,
}

impl Device {
    fn new(key: &TestKey) -> Self {
        let key = PrivateKey::from_pem(key.pem.as_bytes(), &[]).expect("a key");
        Self {
            key: Arc::new(key),
            state: Arc::default(),
        }
    }

    fn compute(&self, job: Job) {
        let result = self.key.perform(job.operation()).ok();
        job.complete(result);
    }

    fn go_on(&self) {
        let mut state = lock(&self.state);
        state.is_slow = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(|job| self.compute(job));
    }
}

impl Accelerator for Device {
    fn name(&self) -> &'static str {
        "test"
    }

    fn submit(&self, job: Job) {
        let mut state = lock(&self.state);
        match (state.is_broken, state.is_slow) {
            (true, _) => job.complete(None),
            (false, true) => state.waiting.push(job),
            (false, false) => {
                drop(state);
                self.compute(job);
            }
        }
    }
}

impl OpenKeys for Device {
    fn open(&self, deposited: &Deposited) -> Result<OpenedKey, String> {
        let crate::deposit::DepositedKey::Uri(uri) = deposited.key() else {
            return Err("not a URI".to_owned());
        };
        let asked = (uri.to_owned(), deposited.passwords().to_vec());
        lock(&self.state).asked.push(asked);
        if uri != "pkcs11:object=here" {
            return Err(format!("no key is called {uri}"));
        }
        let spki = self.key.public_key_der().expect("a usual key");
        let public = PublicKey::from_spki_der(&spki).expect("a usual key");
        OpenedKey::of_device(Arc::new(self.clone()), &public)
    }

    fn renew(&self) {
        lock(&self.state).renewed += 1;
    }
}

/// A process for the device, and one for keys from files, with one worker.
struct Setup {
    key: TestKey,
    device: Device,
    /// Lines to processes that are to live.
    service: Service,
    _processor: Service,
    holders: Arc<Holders>,
}

impl Setup {
    fn new(algorithm: &'static rcgen::SignatureAlgorithm) -> Self {
        let key = TestKey::new(algorithm);
        let device = Device::new(&key);
        let opener = device.clone();
        let mut service = Service::start_with(1, move |_| Box::new(opener));
        let pin = [Secret::new(b"1234".to_vec())];
        let mut deposit = |uri| {
            service.try_deposit(&Deposit {
                roles: Roles::SERVER,
                may_decrypt: true,
                accelerator: AcceleratorChoice::Auto,
                passwords: &pin,
                key: KeySource::Uri(uri),
            })
        };
        let missing = "no key is called pkcs11:object=there".to_owned();
        assert_eq!(deposit("pkcs11:object=there"), Err(missing));
        assert_eq!(deposit("pkcs11:object=here"), Ok(key.id()));
        let mut processor = Service::start(1);
        processor.deposit(&key, true);
        let holders = Holders::new(1, Arc::new(|_: &str| ()));
        for (id, service) in [(HolderId::PROCESSOR, &processor), (DEVICE, &service)] {
            let line = service.introduce(1);
            holders.connect(id, "device", line).expect("it is there");
        }
        Self {
            key,
            device,
            service,
            _processor: processor,
            holders,
        }
    }

    fn client(&self, id: HolderId) -> Arc<KeyClient> {
        self.holders.add(id, "device")
    }

    fn submit(&self, route: Route, n: u64) -> PendingJob {
        let (job, pending) = job(sign(0x0403, n));
        self.holders.submit(self.key.id(), route, job);
        pending
    }

    fn wait(&self, id: HolderId, mut pending: PendingJob, n: u64) {
        let client = self.client(id);
        let signature = wait(&client, &client.own(0), &mut pending).expect("a signature");
        let spki = self.key.key.public_key_der().expect("a usual key");
        let public = PublicKey::from_spki_der(&spki).expect("a usual key");
        let verified = public.verify(0x0403, &transcript(n), signature.expose());
        verified.expect("it is right");
    }
}

#[test]
fn a_slow_device_is_given_no_more() {
    let setup = Setup::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    let route = Route {
        holder: DEVICE,
        has_fallback: false,
        max_wait: Some(Duration::from_millis(20)),
    };
    let client = setup.client(DEVICE);
    let first = setup.submit(route, 0);
    setup.wait(DEVICE, first, 0);
    assert!(client.is_up());
    lock(&setup.device.state).is_slow = true;
    let second = setup.submit(route, 1);
    client.send(&client.own(0));
    std::thread::sleep(Duration::from_millis(30)); // no event: that time passes is the point
    let mut third = setup.submit(route, 2);
    assert!(matches!(third.try_take(), Some(None)), "refused at once");
    assert_eq!(client.stats().refused.get(), 1);
    while lock(&setup.device.state).waiting.is_empty() {
        std::thread::yield_now();
    }
    setup.device.go_on();
    setup.wait(DEVICE, second, 1);
    let fourth = setup.submit(route, 3);
    setup.wait(DEVICE, fourth, 3);
    assert_eq!(client.stats().times().count(), 3);
    assert_eq!(client.stats().refused.get(), 1);
}

#[test]
fn what_a_device_fails_to_do_another_process_does() {
    let setup = Setup::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    let without = Route {
        holder: DEVICE,
        ..Route::default()
    };
    let with = Route {
        has_fallback: true,
        ..without
    };
    let client = setup.client(DEVICE);
    lock(&setup.device.state).is_broken = true;
    let failing = setup.submit(without, 0);
    let channel = client.own(0);
    let mut failing = failing;
    assert!(wait(&client, &channel, &mut failing).is_none());
    assert!(!client.is_up(), "its last operation has failed");
    // The device's answer leads to the other process.
    let pending = setup.submit(with, 1);
    client.send(&channel);
    while client.stats().fallbacks.get() == 0 {
        let socket = channel.socket().expect("it is there");
        poll::wait_readable(&[socket.as_fd()], Some(LONG)).expect("a socket");
        client.receive(&channel);
    }
    setup.wait(HolderId::PROCESSOR, pending, 1);
    assert_eq!(client.stats().failed(), 2);
    // Nobody waits for a process that may come back.
    drop(setup.service.line);
    let setup = Setup {
        service: Service::start(1),
        ..setup
    };
    lock(&setup.device.state).is_broken = false;
    let last = setup.submit(without, 2);
    client.send(&channel);
    setup.wait(DEVICE, last, 2);
}

#[test]
fn without_a_process_the_other_one_computes_at_once() {
    let setup = Setup::new(&rcgen::PKCS_ECDSA_P256_SHA256);
    let route = Route {
        holder: HolderId(8),
        has_fallback: true,
        max_wait: None,
    };
    setup.holders.add(route.holder, "to come");
    let pending = setup.submit(route, 1);
    setup.wait(HolderId::PROCESSOR, pending, 1);
    // A process that nobody has told of.
    let route = Route {
        holder: HolderId(9),
        ..route
    };
    let mut pending = setup.submit(route, 1);
    assert!(matches!(pending.try_take(), Some(None)));
    assert_eq!(setup.holders.devices().len(), 2);
    setup.holders.retire(HolderId(8));
    assert_eq!(setup.holders.devices().len(), 1);
}

#[test]
fn a_device_gets_uri_and_pin_and_is_told_of_reloads() {
    let setup = Setup::new(&rcgen::PKCS_RSA_SHA256);
    let state = lock(&setup.device.state);
    let asked: Vec<_> = state.asked.iter().map(|(uri, pin)| (uri, pin)).collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].0, "pkcs11:object=here");
    assert_eq!(asked[1].1[0].expose(), b"1234");
    drop(state);
    line::send_renew(setup.service.line.as_fd()).expect("room");
    let deadline = Instant::now() + LONG;
    while lock(&setup.device.state).renewed == 0 {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}
