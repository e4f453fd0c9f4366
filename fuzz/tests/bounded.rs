//! Every target with a bounded number of inputs, the same in every run: the
//! seeds, what was found before, and mutations of the seeds.

use sealane_fuzz::mutation::{Random, mutate};
use sealane_fuzz::{Target, directory};
use std::panic::catch_unwind;

/// What the mutated inputs of one target may add up to, so that a target with
/// long inputs takes no longer than the others.
const INPUT_BYTES: usize = 40 << 20;

/// How many times more under `make test-long`.
const LONG_FACTOR: usize = 50;

#[track_caller]
fn run(name: &str) {
    let target = Target::named(name).expect("the name is in TARGETS");
    let seeds = target.seeds();
    assert!(
        seeds.len() >= 3,
        "fuzz/seeds/{name} has only {} files",
        seeds.len()
    );
    let tokens = target.tokens();
    assert!(
        !tokens.is_empty(),
        "fuzz/dictionaries/{name}.dict is missing"
    );
    for input in seeds
        .iter()
        .chain(target.regressions().iter().map(|(_, input)| input))
    {
        check(&target, input);
    }
    let long = std::env::var_os("SEALANE_TEST_LONG").is_some_and(|value| value == "1");
    let mut random = Random::new(0x5ea1);
    let inputs = INPUT_BYTES / target.max_bytes / target.cost * if long { LONG_FACTOR } else { 1 };
    for _ in 0..inputs {
        check(
            &target,
            &mutate(&mut random, &seeds, &tokens, target.max_bytes),
        );
    }
}

#[track_caller]
fn check(target: &Target, input: &[u8]) {
    if catch_unwind(|| (target.run)(input)).is_ok() {
        return;
    }
    let findings = directory().join("findings");
    let path = findings.join(format!("{}-{:016x}", target.name, fingerprint(input)));
    let kept = std::fs::create_dir_all(&findings).and_then(|()| std::fs::write(&path, input));
    panic!(
        "{}: the panic above comes from {} bytes, kept in {} ({kept:?}); once mended, move the file to fuzz/regressions/{}/",
        target.name,
        input.len(),
        path.display(),
        target.name
    );
}

/// FNV-1a, for a file name.
fn fingerprint(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// `run.sh` takes its targets from the directories.
#[test]
fn every_target_has_seeds_and_a_dictionary_and_these_have_a_target() {
    let mut targets = sealane_fuzz::TARGETS.map(|target| target.name.to_owned());
    targets.sort();
    assert_eq!(names_in("seeds"), targets);
    assert_eq!(names_in("dictionaries"), targets);
    let regressions = names_in("regressions");
    assert!(
        regressions.iter().all(|name| targets.contains(name)),
        "{regressions:?}"
    );
}

/// What lies in a directory beside this one, without extensions.
fn names_in(name: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory().join(name)).expect("a directory of the repository");
    let mut names: Vec<String> = entries
        .map(|entry| {
            let path = entry.expect("readable").path();
            let stem = path.file_stem().expect("a listed file has a name");
            stem.to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    names
}

#[test]
fn configuration() {
    run("config");
}

#[test]
fn encrypted_hellos() {
    run("ech_hello");
}

#[test]
fn ech_inner() {
    run("ech_inner");
}

#[test]
fn request_heads() {
    run("request");
}

#[test]
fn request_targets_and_hosts() {
    run("uri");
}

#[test]
fn ranges() {
    run("range");
}

#[test]
fn chunked_bodies() {
    run("chunked");
}

#[test]
fn several_requests_on_a_connection() {
    run("h1_stream");
}

#[test]
fn trimmed_pages() {
    run("trim");
}

#[test]
fn media_files() {
    run("mp4");
}

#[test]
fn http_2_connections_of_clients() {
    run("h2_server");
}

#[test]
fn http_2_connections_to_servers() {
    run("h2_client");
}

#[test]
fn responses_of_origins() {
    run("response");
}

#[test]
fn fastcgi_records() {
    run("fastcgi");
}

#[test]
fn dubbo_frames() {
    run("dubbo");
}

#[test]
fn proxy_headers() {
    run("proxy_protocol");
}

#[test]
fn mail_clients() {
    run("mail_client");
}

#[test]
fn responses_of_auth_services() {
    run("mail_auth");
}

#[test]
fn logins_at_mail_servers() {
    run("mail_server");
}

#[test]
fn set_cookie_values() {
    run("set_cookie");
}

#[test]
fn header_blocks() {
    run("hpack");
}

#[test]
fn field_sections_of_http3() {
    run("qpack");
}

#[test]
fn http3_servers() {
    run("h3_server");
}

#[test]
fn cipher_strings() {
    run("cipher_string");
}

#[test]
fn client_hellos() {
    run("client_hello");
}

#[test]
fn preread_hellos() {
    run("preread_hello");
}

#[test]
fn session_tickets() {
    run("session_ticket");
}

#[test]
fn session_values() {
    run("session_value");
}

#[test]
fn early_flights() {
    run("early_flight");
}

#[test]
fn a_whole_worker() {
    run("worker");
}

#[test]
fn bodies_through_filters() {
    run("body_filters");
}

#[test]
fn packed_connections() {
    run("packed");
}

#[test]
fn http2_frames() {
    run("h2_frames");
}

#[test]
fn tls_flights() {
    run("tls_flights");
}

#[test]
fn operations_for_the_key_process() {
    run("key_channel");
}

#[test]
fn keys_for_the_key_process() {
    run("key_deposit");
}

#[test]
fn quic_datagrams() {
    run("quic_packets");
}

#[test]
fn quic_frames() {
    run("quic_frames");
}

#[test]
fn quic_transport_parameters() {
    run("quic_parameters");
}

#[test]
fn quic_tokens() {
    run("quic_tokens");
}

#[test]
fn quic_connections() {
    run("quic_connection");
}
