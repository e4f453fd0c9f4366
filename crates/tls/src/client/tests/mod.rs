//! Connections in memory, against this crate's server, and to `openssl s_server`.

mod handshakes;
mod held_keys;
mod ktls;
mod openssl;
mod robustness;
mod sessions;
mod settings;
mod verification;

use std::sync::{Arc, OnceLock};

use sealane_awslc::{Secret, unix_time_s};

use super::*;
use crate::settings::Identity;
use crate::tests::{data, deliver, ended_socket, identity, read_all, server};
use crate::{Acceptor, HandshakeStatus, Load, Protocol, ReadStatus, ServerSettings, ServerTls};

/// A certificate authority made for this run of the tests.
struct Ca {
    issuer: rcgen::CertifiedIssuer<'static, rcgen::KeyPair>,
}

/// A certificate with its key and what it was made of.
struct Made {
    /// The leaf first, then the intermediates to be sent.
    chain_pem: String,
    key_pem: String,
    serial: u64,
}

impl Ca {
    fn root(name: &str) -> Self {
        Self {
            issuer: rcgen::CertifiedIssuer::self_signed(authority(name), key()).expect("signs"),
        }
    }

    fn intermediate(&self, name: &str) -> Self {
        Self {
            issuer: rcgen::CertifiedIssuer::signed_by(authority(name), key(), &self.issuer)
                .expect("signs"),
        }
    }

    fn pem(&self) -> String {
        self.issuer.pem()
    }

    fn leaf(&self, names: &[&str]) -> Made {
        self.leaf_with(names, |_| {})
    }

    fn leaf_with(&self, names: &[&str], edit: impl FnOnce(&mut rcgen::CertificateParams)) -> Made {
        static SERIAL: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1000);
        let serial = SERIAL.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = rcgen::CertificateParams::new(names).expect("valid names");
        params.serial_number = Some(serial.into());
        edit(&mut params);
        let key = key();
        let certificate = params.signed_by(&key, &self.issuer).expect("signs");
        Made {
            chain_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            serial,
        }
    }

    /// A revocation list with these serial numbers.
    fn revoke(&self, serials: &[u64]) -> String {
        let revoked = serials.iter().map(|serial| rcgen::RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: rcgen::date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(2120, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("signs");
        list.pem().expect("encodes")
    }
}

fn authority(name: &str) -> rcgen::CertificateParams {
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.key_usages = vec![
        rcgen::KeyUsagePurpose::KeyCertSign,
        rcgen::KeyUsagePurpose::CrlSign,
    ];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    params
}

fn key() -> rcgen::KeyPair {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("supported")
}

/// The authority that most tests trust.
fn root() -> &'static Ca {
    static ROOT: OnceLock<Ca> = OnceLock::new();
    ROOT.get_or_init(|| Ca::root("Root"))
}

impl Made {
    fn with(mut self, intermediate: &Ca) -> Self {
        self.chain_pem.push_str(&intermediate.pem());
        self
    }

    fn identity(&self) -> Identity {
        identity(&self.chain_pem, &self.key_pem)
    }

    fn server(&self) -> Arc<ServerTls> {
        server(&ServerSettings {
            identities: vec![self.identity()],
            ..ServerSettings::default()
        })
    }
}

fn pem(text: &str) -> Option<PemFile> {
    Some(PemFile {
        pem: text.as_bytes().to_vec(),
        label: "file.pem".to_owned(),
    })
}

/// Settings that verify against `roots`.
fn verifying(roots: &str) -> ClientSettings {
    ClientSettings {
        verify: true,
        server_name: true,
        trusted: pem(roots),
        ..ClientSettings::default()
    }
}

fn client(settings: &ClientSettings) -> ClientTls {
    let (client, warnings) = ClientTls::build(settings).expect("valid settings");
    assert_eq!(warnings, [], "no warning is expected");
    client
}

/// Only this version.
fn only(protocol: Protocol, settings: &ClientSettings) -> ClientSettings {
    ClientSettings {
        protocols: [protocol].into_iter().collect(),
        ..settings.clone()
    }
}

/// Both ends and the bytes between them.
struct Pair {
    client: Connection,
    server: crate::Connection,
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// Bytes delivered per call.
    chunk_bytes: usize,
}

impl Pair {
    fn new(client: &ClientTls, server: &Arc<ServerTls>, name: &str) -> Self {
        Self::resuming(client, server, name, None)
    }

    fn resuming(
        client: &ClientTls,
        server: &Arc<ServerTls>,
        name: &str,
        session: Option<&Session>,
    ) -> Self {
        Self {
            client: client.connect(Some(name), session).expect("a valid name"),
            server: crate::Connection::accept(&Acceptor::single(Arc::clone(server))),
            to_server: Vec::new(),
            to_client: Vec::new(),
            chunk_bytes: usize::MAX,
        }
    }

    /// Runs both sides until they are done; the error is the client's, or says what the
    /// server made of it.
    fn handshake(&mut self) -> Result<(), Error> {
        let (mut client_done, mut server_done) = (false, false);
        for _ in 0..100_000 {
            if client_done && server_done {
                return Ok(());
            }
            if !client_done {
                let status = deliver(&mut self.to_client, self.chunk_bytes, |input| {
                    self.client.handshake(input, &mut self.to_server)
                });
                client_done = status? == Handshake::Done;
            }
            if !server_done {
                let status = deliver(&mut self.to_server, self.chunk_bytes, |input| {
                    self.server
                        .handshake(input, &mut self.to_client, Load::default())
                });
                server_done = status.expect("the server agrees") == HandshakeStatus::Done;
            }
        }
        panic!("the handshake makes no progress");
    }

    /// Sends `data` from the server; returns what the client reads.
    fn down(&mut self, data: &[u8]) -> Vec<u8> {
        self.server
            .write(data, 0, &mut self.to_client)
            .expect("established");
        self.receive().expect("valid records").0
    }

    /// Reads all that is under way to the client, and its last status.
    fn receive(&mut self) -> Result<(Vec<u8>, ReadStatus), Error> {
        let mut received = Vec::new();
        let mut last = ReadStatus::WantRead;
        let wire = std::mem::take(&mut self.to_client);
        for piece in wire.chunks(self.chunk_bytes.min(wire.len().max(1))) {
            let mut input = piece;
            loop {
                last = self
                    .client
                    .read(&mut input, &mut self.to_server, &mut received, 40_000)?;
                if !matches!(last, ReadStatus::Data(_)) {
                    break;
                }
            }
            assert!(input.is_empty(), "everything is consumed");
        }
        Ok((received, last))
    }

    /// Sends `data` from the client; returns what the server reads.
    fn up(&mut self, data: &[u8]) -> Vec<u8> {
        self.client
            .write(data, &mut self.to_server)
            .expect("established");
        let wire = std::mem::take(&mut self.to_server);
        let chunk_bytes = self.chunk_bytes;
        read_all(&mut self.server, &wire, chunk_bytes, &mut self.to_client)
    }
}
