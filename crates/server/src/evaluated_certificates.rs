//! `ssl_certificate` and `ssl_certificate_key` with variables: found in the handshake.
//!
//! ```text
//! ClientHello -> Selecting::select (SNI) -> Selecting::identities
//!     names: templates, evaluated as for a request without a head
//!     pairs: the cache, or disk threads that read and parse, and the key process
//!     Identities: what the server has built of these pairs before, or builds on the disk thread
//! ```
//!
//! If all of it is at hand, the handshake does not wait.

use crate::acme::{AcmeId, AcmeState};
use crate::certificate_files::{Cached, CertificateReader, Kept, Names};
use crate::client_link::ClientLink;
use crate::exchange::Exchange;
use crate::facts::{ConnectionFacts, TlsFacts};
use crate::prologue::Arrival;
use crate::snapshot::{ListenerId, ServerId, Snapshot};
use crate::template;
use crate::worker::Worker;
use sealane_conf::model::EvaluatedPair;
use sealane_http::h1::RequestHead;
use sealane_io::disk;
use sealane_keys::KeyClient;
use sealane_tls::{
    Acceptor, CertificatePair, HelloFacts, IdentityAnswer, IdentityResult, SelectServer, Selected,
    ServerTls,
};
use std::sync::Arc;
use std::time::Instant;

/// The certificates of one server.
pub(crate) struct EvaluatedCertificates {
    pairs: Arc<[EvaluatedPair]>,
    reader: CertificateReader<Arc<CertificatePair>>,
    /// Where the server's `acme_certificate` is.
    acme: Option<(Arc<AcmeState>, AcmeId)>,
}

impl EvaluatedCertificates {
    pub(crate) fn new(
        pairs: Arc<[EvaluatedPair]>,
        reader: CertificateReader<Arc<CertificatePair>>,
        acme: Option<(Arc<AcmeState>, AcmeId)>,
    ) -> EvaluatedCertificates {
        EvaluatedCertificates {
            pairs,
            reader,
            acme,
        }
    }

    /// What the server sends in a handshake with these variables.
    fn find(&self, server: &Arc<ServerTls>, exchange: &Exchange) -> IdentityAnswer {
        let found = self.pairs.iter().map(|pair| match pair {
            EvaluatedPair::Named { certificate, key } => {
                let certificate = template::evaluate(certificate, exchange);
                let names = Names::new(&certificate, &template::evaluate(key, exchange));
                Ok(match self.reader.known(&names) {
                    Cached::Fresh(pair) => Found::Pair(pair),
                    Cached::Unsure(kept) => Found::Names(names, kept),
                })
            }
            EvaluatedPair::Acme => self.ordered().map(Found::Pair),
        });
        let found = match found.collect::<Result<Vec<_>, String>>() {
            Ok(found) => found,
            Err(why) => return IdentityAnswer::Ready(Err(why)),
        };
        let at_hand = found.iter().map(Found::pair).collect::<Option<Vec<_>>>();
        if let Some(pairs) = &at_hand
            && let Some(known) = server.known_identities(pairs)
        {
            return IdentityAnswer::Ready(Ok(known));
        }
        let (reader, server) = (self.reader.clone(), Arc::clone(server));
        let keys = exchange.worker.key_loader();
        IdentityAnswer::Pending(Box::pin(build(reader, server, found, keys)))
    }

    /// What `acme_certificate` has brought.
    fn ordered(&self) -> Result<Arc<CertificatePair>, String> {
        let acme = self.acme.as_ref();
        let pair = acme.and_then(|(state, id)| state.pair(*id));
        pair.ok_or_else(|| "there is no certificate for \"$acme_certificate\" yet".to_owned())
    }
}

/// A pair, or what is known about it.
enum Found {
    Pair(Arc<CertificatePair>),
    Names(Names, Option<Kept<Arc<CertificatePair>>>),
}

impl Found {
    fn pair(&self) -> Option<Arc<CertificatePair>> {
        match self {
            Found::Pair(pair) => Some(Arc::clone(pair)),
            Found::Names(..) => None,
        }
    }
}

/// Reads and builds what is not there.
async fn build(
    reader: CertificateReader<Arc<CertificatePair>>,
    server: Arc<ServerTls>,
    found: Vec<Found>,
    keys: Option<Arc<KeyClient>>,
) -> IdentityResult {
    let mut pairs = Vec::with_capacity(found.len());
    for found in found {
        pairs.push(match found {
            Found::Pair(pair) => pair,
            Found::Names(names, kept) => reader.read(names, kept, keys.clone()).await?,
        });
    }
    if let Some(known) = server.known_identities(&pairs) {
        return Ok(known);
    }
    let built = disk::run(move || server.identities(&pairs));
    built.await.map_err(|error| error.to_string())
}

/// Chooses the server and its certificates for one connection, of which the variables speak.
pub(crate) struct Selecting {
    pub(crate) by_name: Acceptor,
    pub(crate) worker: Arc<Worker>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) facts: Arc<ConnectionFacts>,
    pub(crate) listener: ListenerId,
}

impl Selecting {
    /// A request that has not begun.
    fn exchange(&self, server: ServerId) -> Exchange {
        let arrival = Arrival {
            worker: self.worker.clone(),
            snapshot: self.snapshot.clone(),
            facts: self.facts.clone(),
            listener: self.listener,
            server,
            client: ClientLink::default(),
            buffer: Vec::new(),
            head: RequestHead::default(),
            since: Instant::now(),
            early_data: false,
        };
        arrival.begin()
    }

    /// Of the server selected or, if it has no TLS settings, of the one whose settings it uses.
    fn certificates(&self, selected: ServerId) -> Option<&EvaluatedCertificates> {
        let server = match self.snapshot.server(selected) {
            server if server.tls.is_some() => server,
            _ => {
                let names = &self.snapshot.listener(self.listener).names;
                self.snapshot.server(names.default_server())
            }
        };
        server.certificates.as_ref()
    }
}

impl SelectServer for Selecting {
    fn select(&self, name: Option<&str>) -> Selected {
        self.by_name.selection().select(name)
    }

    fn challenge(&self, name: &str) -> Option<Arc<ServerTls>> {
        self.by_name.selection().challenge(name)
    }

    fn identities(
        &self,
        server: &Arc<ServerTls>,
        token: u32,
        hello: HelloFacts<'_>,
    ) -> IdentityAnswer {
        let selected = ServerId(token);
        let Some(certificates) = self.certificates(selected) else {
            return IdentityAnswer::Ready(Err("no \"ssl_certificate\" is defined".to_owned()));
        };
        self.facts.set_hello(TlsFacts {
            server_name: hello.server_name().into(),
            client_curves: hello.curves().into(),
            client_sigalgs: hello.sigalgs().into(),
            ja4: hello.ja4().into(),
            ..TlsFacts::default()
        });
        certificates.find(server, &self.exchange(selected))
    }
}
