//! Connections to the servers of a store, one at a time: by TCP, TLS or a UNIX socket.

use super::answer_meter::Metered;
use super::link::CONNECT_TIMEOUT;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster_async::Connect;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, Pipeline,
    RedisConnectionInfo, RedisFuture, RedisResult, Value,
};
use sealane_conf::model::StoreAddress;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// A connection to one server, which many requests share. Its answers have a limit.
#[derive(Clone)]
pub(super) struct ServerConnection {
    connection: MultiplexedConnection,
    /// `None`: the library has it.
    _driver: Option<Arc<Driver>>,
}

/// The task that reads and writes; it ends with the last sender.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whom to believe.
#[derive(Clone)]
pub(super) enum Trust {
    /// Any server: there is no TLS.
    Anybody,
    /// Servers with certificates of these authorities; `None` means the system's.
    Authorities(Option<RootCertStore>),
}

impl Trust {
    /// The authorities of `ca=`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) fn of(ca_pem: Option<&[u8]>) -> io::Result<Trust> {
        let Some(pem) = ca_pem else {
            return Ok(Trust::Authorities(None));
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(io::Error::other)?;
            roots.add(certificate).map_err(io::Error::other)?;
        }
        Ok(Trust::Authorities(Some(roots)))
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for S {}

impl ServerConnection {
    /// Connects, authenticates and waits for the server's first reply.
    ///
    /// # Errors
    /// When there is no reply, or the server refuses.
    pub(super) async fn open(
        address: &StoreAddress,
        trust: &Trust,
        settings: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<ServerConnection> {
        let opening = async {
            let stream = Metered::new(connect(address, trust).await?);
            MultiplexedConnection::new_with_config(settings, stream, config).await
        };
        let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
        let (connection, driver) =
            opened.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))??;
        Ok(ServerConnection {
            connection,
            _driver: Some(Arc::new(Driver(tokio::spawn(driver)))),
        })
    }
}

async fn connect(address: &StoreAddress, trust: &Trust) -> io::Result<Box<dyn Stream>> {
    let (host, port) = match address {
        StoreAddress::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        StoreAddress::Tcp { host, port } => (host.as_str(), *port),
    };
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let Trust::Authorities(roots) = trust else {
        return Ok(Box::new(stream));
    };
    let roots = match roots {
        Some(roots) => roots.clone(),
        None => system_authorities()?,
    };
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::new(config));
    Ok(Box::new(connector.connect(name, stream).await?))
}

fn system_authorities() -> io::Result<RootCertStore> {
    let mut found = rustls_native_certs::load_native_certs();
    if let Some(error) = found.errors.pop() {
        return Err(io::Error::other(error));
    }
    let mut roots = RootCertStore::empty();
    for certificate in found.certs {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    Ok(roots)
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.connection.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

/// How the library reaches the servers of a cluster.
impl Connect for ServerConnection {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let info = info.into_connection_info()?;
            if let ConnectionAddr::Tcp(host, port) = info.addr() {
                let address = StoreAddress::Tcp {
                    host: host.clone(),
                    port: *port,
                };
                return Self::open(&address, &Trust::Anybody, info.redis_settings(), config).await;
            }
            // With TLS only the library knows whom to believe, so that the stream is its own.
            let client = Client::open(info)?;
            let connection = client
                .get_multiplexed_async_connection_with_config(&config)
                .await?;
            Ok(ServerConnection {
                connection,
                _driver: None,
            })
        })
    }
}
