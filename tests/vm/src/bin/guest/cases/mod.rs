//! The cases. They run one after the other in the order of this table.
//!
//! To add one: write a function in the file of its theme and a line here.

use crate::lab::Lab;

mod absent;
mod cached;
mod changing;
mod clients;
mod doctor;
mod downloads;
mod measured;
mod records;
mod resumption;
mod streams;
mod updates;
mod upgrade;
mod upstreams;

/// One behaviour.
pub(crate) struct Case {
    /// `FILE::CASE`.
    pub(crate) name: &'static str,
    /// Whether it belongs to the core part, which `make test` runs.
    pub(crate) core: bool,
    /// Panics when the behaviour is not there.
    pub(crate) run: fn(&Lab),
}

macro_rules! cases {
    ($($part:ident $file:ident::$case:ident,)*) => {
        &[$(Case {
            name: concat!(stringify!($file), "::", stringify!($case)),
            core: is_core(stringify!($part)),
            run: $file::$case,
        }),*]
    };
}

const fn is_core(part: &str) -> bool {
    matches!(part.as_bytes(), b"core")
}

/// Modules of the kernel cannot be taken away once they are in use, so the cases
/// without them come first.
const CASES: &[Case] = cases! {
    core absent::module_tls,
    core doctor::without_the_module,
    core absent::chacha20_poly1305,
    core doctor::what_the_kernel_can_do,
    core downloads::tls12_aes128_gcm_sha256,
    core downloads::tls12_aes256_gcm_sha384,
    core downloads::tls12_ecdhe_rsa_aes128_gcm_sha256,
    core downloads::tls12_ecdhe_rsa_aes256_gcm_sha384,
    core downloads::tls12_ecdhe_rsa_chacha20_poly1305,
    core downloads::tls13_aes128_gcm_sha256,
    core downloads::tls13_aes256_gcm_sha384,
    core downloads::tls13_chacha20_poly1305_sha256,
    core downloads::switched_off,
    core downloads::cbc_stays_in_user_space,
    core downloads::auto_takes_over_for_large_bodies,
    core downloads::ranges,
    core downloads::head_and_tiny_files,
    core downloads::a_hundred_requests_on_one_connection,
    core downloads::pipelined_requests,
    core cached::hits_go_through_the_kernel,
    rest downloads::sixty_four_mebibytes,
    core changing::file_replaced_while_sent,
    core changing::file_truncated_while_sent,
    core clients::slow_reader,
    core clients::slow_reader_to_the_last_byte,
    core clients::client_that_vanishes,
    rest clients::many_clients_that_vanish,
    core clients::half_closed_by_the_client,
    core records::wire_tls13,
    core records::wire_tls12,
    rest records::wire_every_suite,
    core records::wire_auto_mid_connection,
    core records::forged_record_tls13,
    core records::forged_record_tls12,
    core records::oversized_record,
    core records::unknown_record_type,
    core records::renegotiation_is_refused,
    core records::close_notify_at_the_end,
    core updates::key_update_without_request,
    core updates::key_update_with_request,
    core updates::key_update_while_sending,
    core updates::limit_per_key,
    rest updates::key_updates_without_end,
    core resumption::tickets_tls13,
    core resumption::tickets_tls12,
    core streams::both_ways,
    core streams::reload_meanwhile,
    core upstreams::towards_servers,
    core upstreams::kept_connections,
    core upstreams::limit_per_key_of_upstreams,
    rest upgrade::tls13_aes128_gcm,
    core upgrade::tls13_aes256_gcm,
    rest upgrade::tls13_chacha20_poly1305,
    core upgrade::tls12_aes128_gcm,
    rest upgrade::tls12_aes256_gcm,
    rest upgrade::tls12_cbc,
    rest upgrade::taken_over_after_a_change,
    core upgrade::key_updates,
    core upgrade::requests_meanwhile,
    rest upgrade::download_meanwhile,
    rest upgrade::clients_that_leave_meanwhile,
    rest measured::curl_loop,
    rest measured::system_calls_per_mebibyte,
};

/// Every case, in order.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    CASES.iter()
}
