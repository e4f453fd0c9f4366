//! The published tables, as their authors printed them.

/// Downloads of 1 GiB by curl, ten times, in kB/s: system, whether kernel TLS, then smallest,
/// largest, median, mean and deviation.
pub(super) struct KernelTls {
    pub(super) system: &'static str,
    pub(super) figures: [f64; 5],
}

/// The article about kernel TLS in nginx 1.21.4.
pub(super) const S1: [KernelTls; 4] = [
    KernelTls {
        system: "FreeBSD 13.0, user space",
        figures: [532_225.0, 573_348.0, 555_616.0, 555_155.6, 10_239.137],
    },
    KernelTls {
        system: "FreeBSD 13.0, kernel TLS",
        figures: [629_379.0, 723_164.0, 717_349.0, 708_600.4, 28_304.766],
    },
    KernelTls {
        system: "Ubuntu 21.10, user space",
        figures: [529_199.0, 705_720.0, 662_354.0, 654_321.6, 48_025.103],
    },
    KernelTls {
        system: "Ubuntu 21.10, kernel TLS",
        figures: [619_105.0, 760_208.0, 756_278.0, 741_848.3, 43_255.246],
    },
];

/// The gain that the article claims on FreeBSD, on Ubuntu, and "under heavy load".
pub(super) const S1_FREEBSD: f64 = 1.28;
pub(super) const S1_UBUNTU: f64 = 1.13;
pub(super) const S1_HEAVY_LOAD: f64 = 2.0;

/// Full handshakes per second of a suite, with and without a card that does the private-key
/// operations.
pub(super) struct Offload {
    /// The case that measures the same.
    pub(super) case: &'static str,
    pub(super) suite: &'static str,
    pub(super) with: &'static str,
    pub(super) without: &'static str,
    /// How many times as many handshakes the card brings.
    pub(super) factor: f64,
    /// The comparison that this factor is from.
    pub(super) factor_of: &'static str,
}

/// The table of Tengine 2.2.2 with an Intel QAT card.
pub(super) const S2: [Offload; 4] = [
    Offload {
        case: "s2-rsa",
        suite: "RSA key exchange, AES128-GCM-SHA256",
        with: "17.6 k on 8 cores",
        without: "29 k on 32 cores",
        factor: 3.8,
        factor_of: "on 8 cores",
    },
    Offload {
        case: "s2-ecdhe-rsa",
        suite: "ECDHE-RSA-AES128-GCM-SHA256",
        with: "15 k on 16 cores",
        without: "9.4 k on 32 cores",
        factor: 2.65,
        factor_of: "on 8 cores",
    },
    Offload {
        case: "s2-ecdsa-p384",
        suite: "ECDHE-ECDSA-AES128-GCM-SHA256, secp384r1",
        with: "13 k on 8 cores",
        without: "11 k on 32 cores",
        factor: 2.0,
        factor_of: "on 16 cores",
    },
    Offload {
        case: "s2-ecdsa-p256",
        suite: "ECDHE-ECDSA-AES128-GCM-SHA256, prime256v1",
        with: "16 k on 8 cores",
        without: "29 k on 32 cores",
        factor: 1.23,
        factor_of: "on 8 cores",
    },
];

/// Requests per second of a configuration, with keep-alive and with one connection per request.
pub(super) struct Tuning {
    pub(super) configuration: &'static str,
    pub(super) keep_alive: f64,
    pub(super) close: f64,
    /// The cases that measure the same.
    pub(super) keep_alive_case: &'static str,
    pub(super) close_case: &'static str,
}

/// The table of the tuning study: nginx 1.10.2 on six cores, TLS 1.2.
pub(super) const S3: [Tuning; 4] = [
    Tuning {
        configuration: "nothing tuned",
        keep_alive: 41_360.72,
        close: 1_240.95,
        keep_alive_case: "tls12-1k-untuned",
        close_case: "tls12-full-untuned",
    },
    Tuning {
        configuration: "tickets + session cache",
        keep_alive: 62_148.92,
        close: 8_574.25,
        keep_alive_case: "tls12-1k-static-rsa",
        close_case: "tls12-ticket-static-rsa",
    },
    Tuning {
        configuration: "ECDHE + tickets",
        keep_alive: 62_206.96,
        close: 8_606.01,
        keep_alive_case: "tls12-1k",
        close_case: "tls12-ticket",
    },
    Tuning {
        configuration: "OCSP stapling + tickets",
        keep_alive: 62_318.07,
        close: 8_785.82,
        keep_alive_case: "tls12-1k-stapled",
        close_case: "tls12-ticket-stapled",
    },
];
