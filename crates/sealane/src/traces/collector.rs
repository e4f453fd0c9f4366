//! The collector: a connection to it, and calls on that.

use super::messages::{
    EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse, InstrumentationScope, KeyValue,
    Resource, ResourceSpans, ScopeSpans, SpanMessage,
};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sealane_conf::model::{ExportHeader, TraceAddress};
use sealane_log::OsError;
use sealane_server::TraceTarget;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codegen::Service;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, Binary, MetadataKey, MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

/// The longest time for one export, connecting included.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest answer to an export, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The longest header of an answer, in bytes.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// The longest text of a collector that is logged, in bytes.
const MAX_MESSAGE_BYTES: usize = 300;

/// A collector, as a configuration names it.
pub(super) struct Collector {
    target: Arc<TraceTarget>,
    /// What every export begins with.
    resource: Resource,
    /// Fields of every call.
    fields: MetadataMap,
    origin: Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The connection, once there is one.
    link: Mutex<Option<Caller>>,
}

/// What became of an export.
pub(super) enum Exported {
    /// The collector has it, but for so many spans and this reason.
    Taken(usize, String),
    /// It may have it later.
    NotYet(ExportError),
    /// It will not have it.
    Refused(ExportError),
}

/// Why an export failed.
#[derive(Debug)]
pub(super) enum ExportError {
    /// No connection.
    Connect(io::Error),
    /// TLS with the collector.
    Tls(io::Error),
    /// What the collector, or the connection to it, says.
    Call(Box<Status>),
    /// No answer in time.
    TimedOut,
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Connect(error) => write!(f, "connect() failed ({})", OsError(error)),
            ExportError::Tls(error) => write!(f, "TLS handshake failed ({error})"),
            ExportError::TimedOut => {
                write!(f, "no answer within {} s", EXPORT_TIMEOUT.as_secs())
            }
            ExportError::Call(status) => {
                let message = shortened(status.message());
                write!(f, "{:?}: {message}", status.code())?;
                let mut source = status.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
        }
    }
}

/// As much of a text as is logged.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)]
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Collector {
    /// Connects to nothing yet.
    ///
    /// # Errors
    /// When `trusted_certificate` or a header cannot be used.
    pub(super) fn new(target: Arc<TraceTarget>) -> Result<Collector, String> {
        let conf = &target.conf;
        let attributes = conf.resource.iter();
        let attributes = attributes.map(|(name, value)| KeyValue::text(name, value));
        let resource = Resource {
            attributes: attributes.collect(),
        };
        let (authority, name) = match &conf.endpoint.address {
            TraceAddress::Tcp { host, port } if host.contains(':') => {
                (format!("[{host}]:{port}"), &**host)
            }
            TraceAddress::Tcp { host, port } => (format!("{host}:{port}"), &**host),
            TraceAddress::Unix(_) => ("localhost".to_owned(), "localhost"),
        };
        let tls = match conf.endpoint.tls {
            false => None,
            true => {
                let server = ServerName::try_from(name.to_owned());
                let server = server.map_err(|_| format!("\"{name}\" is no name for TLS"))?;
                Some((connector(target.trusted.as_deref())?, server))
            }
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let origin = format!("{scheme}://{authority}").parse();
        Ok(Collector {
            resource,
            fields: fields(&conf.headers)?,
            origin: origin.map_err(|error| format!("invalid endpoint ({error})"))?,
            tls,
            link: Mutex::new(None),
            target,
        })
    }

    /// What it was made from.
    pub(super) fn target(&self) -> &Arc<TraceTarget> {
        &self.target
    }

    /// Its address as it was written.
    pub(super) fn name(&self) -> &str {
        &self.target.conf.endpoint.written
    }

    /// Sends spans, and waits for the answer.
    pub(super) async fn export(&self, spans: Vec<SpanMessage>) -> Exported {
        let exporting = tokio::time::timeout(EXPORT_TIMEOUT, self.call(spans));
        let error = match exporting.await {
            Ok(Ok(answer)) => {
                let partial = answer.partial_success.unwrap_or_default();
                let rejected = usize::try_from(partial.rejected_spans).unwrap_or(0);
                let message = shortened(&partial.error_message);
                return Exported::Taken(rejected, message.to_owned());
            }
            Ok(Err(ExportError::Call(status))) if !is_passing(&status) => {
                return Exported::Refused(ExportError::Call(status));
            }
            Ok(Err(error)) => error,
            Err(_elapsed) => ExportError::TimedOut,
        };
        // A connection on which nothing is answered is as good as none.
        *self.link.lock().await = None;
        Exported::NotYet(error)
    }

    async fn call(
        &self,
        spans: Vec<SpanMessage>,
    ) -> Result<ExportTraceServiceResponse, ExportError> {
        let caller = self.caller().await?;
        let mut grpc = Grpc::with_origin(caller, self.origin.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES);
        let lost = |error: hyper::Error| {
            ExportError::Call(Box::new(Status::unavailable(error.to_string())))
        };
        grpc.ready().await.map_err(lost)?;
        let mut request = tonic::Request::new(ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(InstrumentationScope {
                        name: "sealane".to_owned(),
                        version: env!("CARGO_PKG_VERSION").to_owned(),
                    }),
                    spans,
                }],
            }],
        });
        *request.metadata_mut() = self.fields.clone();
        request.set_timeout(EXPORT_TIMEOUT);
        let path = PathAndQuery::from_static(EXPORT);
        let codec: ProstCodec<_, ExportTraceServiceResponse> = ProstCodec::default();
        let answer = grpc.unary(request, path, codec).await;
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| ExportError::Call(Box::new(status)))
    }

    /// The connection; a new one if that has ended.
    async fn caller(&self) -> Result<Caller, ExportError> {
        let mut link = self.link.lock().await;
        if let Some(caller) = link.as_ref().filter(|caller| !caller.0.is_closed()) {
            return Ok(caller.clone());
        }
        let stream = self.connect().await?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => stream,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), stream).await;
                Box::new(stream.map_err(ExportError::Tls)?)
            }
        };
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .max_header_list_size(MAX_HEADER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| ExportError::Connect(io::Error::other(error)))?;
        tokio::spawn(async move {
            let _ = connection.await; // calls on it fail, and say why
        });
        Ok(link.insert(Caller(sender)).clone())
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, ExportError> {
        let connected: io::Result<Box<dyn Stream>> = match &self.target.conf.endpoint.address {
            TraceAddress::Unix(path) => match UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(error) => Err(error),
            },
            TraceAddress::Tcp { host, port } => match TcpStream::connect((&**host, *port)).await {
                Ok(stream) => stream.set_nodelay(true).map(|()| Box::new(stream) as _),
                Err(error) => Err(error),
            },
        };
        connected.map_err(ExportError::Connect)
    }
}

/// Whether the same export may succeed later (OTLP's specification).
fn is_passing(status: &Status) -> bool {
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => true,
        // With advice when to come again.
        Code::ResourceExhausted => !status.details().is_empty(),
        // A connection that broke.
        Code::Unknown => status.source().is_some(),
        _ => false,
    }
}

/// Verifies collectors with these CA certificates, or those of the system.
fn connector(trusted: Option<&[u8]>) -> Result<TlsConnector, String> {
    let mut roots = RootCertStore::empty();
    match trusted {
        Some(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let added = certificate
                    .map_err(|error| error.to_string())
                    .and_then(|it| roots.add(it).map_err(|error| error.to_string()));
                added.map_err(|why| format!("\"trusted_certificate\" cannot be used ({why})"))?;
            }
            if roots.is_empty() {
                return Err("\"trusted_certificate\" has no certificate in PEM".to_owned());
            }
        }
        // Those that cannot be used verify nobody.
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// `header` lines; the values of names that end in `-bin` are sent in base64, as gRPC asks for.
fn fields(headers: &[ExportHeader]) -> Result<MetadataMap, String> {
    let mut fields = MetadataMap::new();
    for ExportHeader { name, value } in headers {
        let unusable = || format!("\"header {name}\" cannot be sent");
        if name.ends_with("-bin") {
            let key = MetadataKey::<Binary>::from_bytes(name.as_bytes());
            let value = MetadataValue::from_bytes(value.as_bytes());
            fields.append_bin(key.map_err(|_| unusable())?, value);
        } else {
            let key = MetadataKey::<Ascii>::from_bytes(name.as_bytes());
            let value = MetadataValue::try_from(&**value);
            fields.append(key.map_err(|_| unusable())?, value.map_err(|_| unusable())?);
        }
    }
    Ok(fields)
}

/// A connection that calls share.
#[derive(Clone)]
struct Caller(SendRequest<Body>);

impl Service<Request<Body>> for Caller {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
