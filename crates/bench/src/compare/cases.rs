//! What is compared: one row per case.

use std::{net::SocketAddr, time::Duration};

use crate::{
    Error, Expected, Url,
    compare::config::{File, Ports},
    load::{ConnectionUse, KeyType, Limit, Plan, Protocol, Resumption, TlsPlan},
};

/// One row of the comparison.
#[derive(Debug)]
pub(super) struct Case {
    /// Name on the command line and in JSON.
    pub(super) name: &'static str,
    /// Name for people.
    pub(super) title: &'static str,
    /// The site of the configuration that is asked.
    pub(super) site: CaseSite,
    /// The file that is asked for.
    pub(super) file: File,
    pub(super) measure: Measure,
    pub(super) unit: Unit,
    /// The ratio to the peer `reference` that Sealane wants to stay below.
    pub(super) target: Option<f64>,
}

/// The listener, with what the client pins.
#[derive(Clone, Copy, Debug)]
pub(super) enum CaseSite {
    Plain,
    Tls13(KeyType),
    /// TLS 1.3 where the server takes early data.
    EarlyData,
    /// TLS 1.2 with an RSA certificate and ECDHE-RSA-AES256-GCM-SHA384.
    Tls12,
    /// The same with RSA key exchange: AES256-GCM-SHA384.
    Tls12StaticRsa,
    /// As `Tls12`, where nothing but certificate and key is configured.
    Tls12Untuned,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Measure {
    CpuPerOperation {
        connection: Connection,
        clients: usize,
    },
    MemoryPerIdleConnection {
        connections: usize,
    },
}

/// What an operation does to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    KeepAlive,
    Full,
    Ticket,
    SessionId,
    /// Resumed by ticket, with the request in early data.
    EarlyData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    MicrosecondsPerOperation,
    SecondsPerOperation,
    KibibytesPerConnection,
}

impl Unit {
    pub(super) fn nanoseconds(self) -> f64 {
        match self {
            Self::MicrosecondsPerOperation => 1e3,
            Self::SecondsPerOperation => 1e9,
            Self::KibibytesPerConnection => 1.0,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::MicrosecondsPerOperation => "us",
            Self::SecondsPerOperation => "s",
            Self::KibibytesPerConnection => "KiB",
        }
    }
}

const KEEP_ALIVE: Measure = Measure::CpuPerOperation {
    connection: Connection::KeepAlive,
    clients: 32,
};
/// Fewer clients: 100 KiB responses fill socket buffers.
const KEEP_ALIVE_LARGE: Measure = Measure::CpuPerOperation {
    connection: Connection::KeepAlive,
    clients: 16,
};
const DOWNLOAD: Measure = Measure::CpuPerOperation {
    connection: Connection::KeepAlive,
    clients: 1,
};
const FULL: Measure = Measure::CpuPerOperation {
    connection: Connection::Full,
    clients: 16,
};
const TICKET: Measure = Measure::CpuPerOperation {
    connection: Connection::Ticket,
    clients: 16,
};
const SESSION_ID: Measure = Measure::CpuPerOperation {
    connection: Connection::SessionId,
    clients: 16,
};
const EARLY_DATA: Measure = Measure::CpuPerOperation {
    connection: Connection::EarlyData,
    clients: 16,
};
const IDLE: Measure = Measure::MemoryPerIdleConnection { connections: 4000 };

const TLS13_P256: CaseSite = CaseSite::Tls13(KeyType::P256);
const TLS13_RSA: CaseSite = CaseSite::Tls13(KeyType::Rsa);
const US: Unit = Unit::MicrosecondsPerOperation;

/// All cases, in the order in which they run.
#[rustfmt::skip]
pub(super) const ALL: &[Case] = &[
    Case { name: "tls13-1k", title: "1 KiB keep-alive, TLS 1.3", site: TLS13_P256, file: File::Small, measure: KEEP_ALIVE, unit: US, target: Some(0.80) },
    Case { name: "tls13-100k", title: "100 KiB keep-alive, TLS 1.3", site: TLS13_P256, file: File::Medium, measure: KEEP_ALIVE_LARGE, unit: US, target: None },
    Case { name: "tls13-1g", title: "1 GiB AES-256-GCM, TLS 1.3", site: TLS13_P256, file: File::Large, measure: DOWNLOAD, unit: Unit::SecondsPerOperation, target: Some(0.90) },
    Case { name: "tls13-full-p256", title: "connection, TLS 1.3 full, P-256", site: TLS13_P256, file: File::Small, measure: FULL, unit: US, target: Some(0.55) },
    Case { name: "tls13-full-rsa", title: "connection, TLS 1.3 full, RSA-2048", site: TLS13_RSA, file: File::Small, measure: FULL, unit: US, target: Some(0.72) },
    Case { name: "tls12-full-rsa", title: "connection, TLS 1.2 full, ECDHE-RSA", site: CaseSite::Tls12, file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "tls13-ticket", title: "connection, TLS 1.3 resumed by ticket", site: TLS13_P256, file: File::Small, measure: TICKET, unit: US, target: Some(0.50) },
    Case { name: "tls12-ticket", title: "connection, TLS 1.2 resumed by ticket", site: CaseSite::Tls12, file: File::Small, measure: TICKET, unit: US, target: Some(0.70) },
    Case { name: "tls12-session-id", title: "connection, TLS 1.2 resumed by session id", site: CaseSite::Tls12, file: File::Small, measure: SESSION_ID, unit: US, target: Some(0.70) },
    Case { name: "tls13-early-data", title: "connection, TLS 1.3 resumed, request in early data", site: CaseSite::EarlyData, file: File::Small, measure: EARLY_DATA, unit: US, target: None },
    Case { name: "tls12-1k-untuned", title: "1 KiB keep-alive, TLS 1.2, nothing tuned", site: CaseSite::Tls12Untuned, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "tls12-full-untuned", title: "connection, TLS 1.2 full, nothing tuned", site: CaseSite::Tls12Untuned, file: File::Small, measure: FULL, unit: US, target: None },
    Case { name: "tls12-1k-static-rsa", title: "1 KiB keep-alive, TLS 1.2, RSA key exchange", site: CaseSite::Tls12StaticRsa, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "tls12-ticket-static-rsa", title: "connection, TLS 1.2 resumed by ticket, RSA key exchange", site: CaseSite::Tls12StaticRsa, file: File::Small, measure: TICKET, unit: US, target: Some(0.70) },
    Case { name: "tls12-1k", title: "1 KiB keep-alive, TLS 1.2, ECDHE", site: CaseSite::Tls12, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "plain-1k", title: "1 KiB keep-alive, plain HTTP", site: CaseSite::Plain, file: File::Small, measure: KEEP_ALIVE, unit: US, target: None },
    Case { name: "tls13-idle", title: "memory per idle connection, TLS 1.3", site: TLS13_P256, file: File::Small, measure: IDLE, unit: Unit::KibibytesPerConnection, target: Some(0.35) },
];

/// The name of [`S3`] on the command line.
pub(super) const S3_NAME: &str = "s3";

/// What a study of HTTPS tuning compared, keep-alive and one connection per request:
/// nothing tuned, tickets with a session cache, the same with ECDHE; and what came
/// after it: resumption in TLS 1.3, and early data.
pub(super) const S3: &[&str] = &[
    "tls12-1k-untuned",
    "tls12-full-untuned",
    "tls12-1k-static-rsa",
    "tls12-ticket-static-rsa",
    "tls12-1k",
    "tls12-ticket",
    "tls12-session-id",
    "tls13-1k",
    "tls13-ticket",
    "tls13-early-data",
];

/// The named cases in the order of the table; all if none is named.
pub(super) fn select(names: &[String]) -> Result<Vec<&'static Case>, Error> {
    let is_known = |name: &str| name == S3_NAME || ALL.iter().any(|case| case.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known: Vec<_> = ALL.iter().map(|case| case.name).collect();
        return Err(Error::Usage(format!(
            "there is no case \"{unknown}\"; there are {}, and {S3_NAME} for {}",
            known.join(", "),
            S3.join(", ")
        )));
    }
    let is_named = |case: &Case| {
        names
            .iter()
            .any(|name| name == case.name || (name == S3_NAME && S3.contains(&case.name)))
    };
    Ok(ALL
        .iter()
        .filter(|case| names.is_empty() || is_named(case))
        .collect())
}

impl Case {
    pub(super) fn needs_large_file(&self) -> bool {
        self.file == File::Large
    }

    /// The run of the generator against a server on `ports`.
    pub(super) fn plan(&self, ports: &Ports, measurement: Duration, quick: bool) -> Plan {
        let (tls, port) = self.site.choose(ports);
        let url = Url {
            tls: tls.is_some(),
            host: "localhost".into(),
            port,
            path: format!("/{}", self.file.name()),
        };
        let connection_use = match self.measure {
            Measure::CpuPerOperation {
                connection: Connection::Full | Connection::Ticket | Connection::SessionId,
                ..
            } => ConnectionUse::PerRequest,
            _ => ConnectionUse::KeepAlive,
        };
        let expected = Expected {
            status: 200,
            body_bytes: Some(self.file.bytes()),
        };
        let mut plan = Plan::new(
            &url,
            SocketAddr::from(([127, 0, 0, 1], port)),
            expected,
            connection_use,
        );
        plan.tls = tls;
        plan.limit = if self.needs_large_file() {
            Limit::Operations(if quick { 1 } else { 2 })
        } else {
            Limit::Duration(measurement)
        };
        plan.warm_up = if self.needs_large_file() {
            Duration::ZERO
        } else {
            measurement / 4
        };
        match self.measure {
            Measure::CpuPerOperation {
                connection,
                clients,
            } => {
                plan.clients = clients;
                plan.threads = 2;
                if let Some(tls) = plan.tls.as_mut() {
                    tls.tickets = connection != Connection::SessionId;
                    tls.resumption = match connection {
                        Connection::KeepAlive | Connection::Full => Resumption::Full,
                        Connection::Ticket | Connection::SessionId => Resumption::Resumed,
                        Connection::EarlyData => Resumption::EarlyData,
                    };
                }
            }
            Measure::MemoryPerIdleConnection { connections } => {
                plan.clients = if quick { connections / 4 } else { connections }
            }
        }
        plan
    }
}

impl CaseSite {
    /// What is pinned, and where the site listens.
    fn choose(self, ports: &Ports) -> (Option<TlsPlan>, u16) {
        const TLS13: &str = "TLS_AES_256_GCM_SHA384";
        const TLS12: &str = "ECDHE-RSA-AES256-GCM-SHA384";
        let (protocol, suite, key_type, port) = match self {
            Self::Plain => return (None, ports.plain),
            Self::Tls13(KeyType::Rsa) => (Protocol::Tls13, TLS13, KeyType::Rsa, ports.rsa),
            Self::Tls13(key_type) => (Protocol::Tls13, TLS13, key_type, ports.p256),
            Self::EarlyData => (Protocol::Tls13, TLS13, KeyType::P256, ports.early),
            Self::Tls12 => (Protocol::Tls12, TLS12, KeyType::Rsa, ports.rsa),
            Self::Tls12Untuned => (Protocol::Tls12, TLS12, KeyType::Rsa, ports.untuned),
            Self::Tls12StaticRsa => {
                let suite = "AES256-GCM-SHA384";
                (Protocol::Tls12, suite, KeyType::Rsa, ports.rsa)
            }
        };
        (Some(tls_plan(protocol, suite, key_type)), port)
    }
}

fn tls_plan(protocol: Protocol, suite: &str, key_type: KeyType) -> TlsPlan {
    TlsPlan {
        protocol: Some(protocol),
        suite: Some(suite.into()),
        group: Some("X25519".into()),
        key_type: Some(key_type),
        ..TlsPlan::default()
    }
}
