//! Connections to Redis or Valkey: one server, one found through sentinels, a cluster.

use super::reach::{ServerConnection, Trust};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo,
    RedisConnectionInfo, RedisError, RedisResult, TlsCertificates, TlsMode, Value, cmd,
};
use sealane_conf::model::{SessionStore, StoreAddress, StoreTopology};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a connection attempt may take, for each server tried.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests that may wait for their replies on one connection. With replies
/// after one millisecond this is a million a second; more would only pile up
/// behind a store that does not answer.
pub(super) const MAX_IN_FLIGHT: usize = 1024;

/// Makes connections.
pub(super) struct Dialer {
    place: Endpoint,
    trust: Trust,
    settings: RedisConnectionInfo,
}

/// The server, or the servers, to connect to.
enum Endpoint {
    One(StoreAddress),
    /// The server that these name.
    Sentinels {
        /// The next to be queried comes first.
        sentinels: VecDeque<StoreAddress>,
        service: String,
    },
    Cluster(Box<ClusterClient>),
}

/// A connection that many requests share, pipelined.
#[derive(Clone)]
pub(super) enum Link {
    One(ServerConnection),
    Cluster(ClusterConnection<ServerConnection>),
}

impl Dialer {
    /// Parses the configuration without connecting. `ca_pem` are the contents of
    /// `ca=`.
    ///
    /// # Errors
    /// When the CA certificates cannot be read.
    pub(super) fn new(store: &SessionStore, ca_pem: Option<&[u8]>) -> RedisResult<Dialer> {
        let place = match &store.topology {
            StoreTopology::Single(server) => Endpoint::One(server.clone()),
            StoreTopology::Sentinel { sentinels, service } => Endpoint::Sentinels {
                sentinels: sentinels.iter().cloned().collect(),
                service: service.clone(),
            },
            StoreTopology::Cluster(servers) => {
                Endpoint::Cluster(Box::new(cluster(store, servers, ca_pem)?))
            }
        };
        Ok(Dialer {
            place,
            trust: match store.tls {
                Some(_) => Trust::of(ca_pem)?,
                None => Trust::Anybody,
            },
            settings: settings(store),
        })
    }

    /// Connects, authenticates and waits for the server's first reply.
    ///
    /// # Errors
    /// When there is no reply, or the server refuses.
    pub(super) async fn dial(&mut self) -> RedisResult<Link> {
        let (trust, settings) = (&self.trust, &self.settings);
        match &mut self.place {
            Endpoint::One(server) => {
                let connection = ServerConnection::open(server, trust, settings, config()).await?;
                Ok(Link::One(connection))
            }
            Endpoint::Sentinels { sentinels, service } => {
                let mut failure = None;
                for _ in 0..sentinels.len() {
                    match serving(&sentinels[0], service, trust, settings).await {
                        Ok(connection) => return Ok(Link::One(connection)),
                        Err(error) => failure = Some(error),
                    }
                    sentinels.rotate_left(1);
                }
                // There is at least one.
                Err(failure.unwrap_or_else(|| (ErrorKind::Io, "no sentinel").into()))
            }
            Endpoint::Cluster(client) => {
                Ok(Link::Cluster(client.get_async_generic_connection().await?))
            }
        }
    }
}

/// Connects to the server of a service that a sentinel names, if the server sees itself so.
async fn serving(
    sentinel: &StoreAddress,
    service: &str,
    trust: &Trust,
    settings: &RedisConnectionInfo,
) -> RedisResult<ServerConnection> {
    let nobody = RedisConnectionInfo::default();
    let mut connection = ServerConnection::open(sentinel, trust, &nobody, config()).await?;
    let address: Option<(String, u16)> = cmd("SENTINEL")
        .arg("GET-MASTER-ADDR-BY-NAME")
        .arg(service)
        .query_async(&mut connection)
        .await?;
    let Some((host, port)) = address else {
        let text = "the sentinel knows no such service";
        return Err((ErrorKind::MasterNameNotFoundBySentinel, text).into());
    };
    let server = StoreAddress::Tcp { host, port };
    let mut connection = ServerConnection::open(&server, trust, settings, config()).await?;
    let role: Vec<Value> = cmd("ROLE").query_async(&mut connection).await?;
    match role.first() {
        Some(Value::BulkString(role)) if role == b"master" => Ok(connection),
        // As when it has just become one that follows another.
        _ => Err(RedisError::from((
            ErrorKind::Io,
            "the server that the sentinel names is no master",
        ))),
    }
}

fn config() -> AsyncConnectionConfig {
    // The caller enforces the deadline.
    AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(MAX_IN_FLIGHT)
        .set_concurrency_limit(MAX_IN_FLIGHT)
}

fn cluster(
    store: &SessionStore,
    servers: &[StoreAddress],
    ca_pem: Option<&[u8]>,
) -> RedisResult<ClusterClient> {
    let infos = servers.iter().map(|server| connection_info(store, server));
    let infos = infos.collect::<RedisResult<Vec<_>>>()?;
    let mut builder = ClusterClient::builder(infos)
        .connection_timeout(CONNECT_TIMEOUT)
        .response_timeout(store.timeout)
        .connection_concurrency_limit(MAX_IN_FLIGHT)
        // A handshake does not wait for a second try.
        .retries(1)
        .max_retry_wait(1);
    if store.tls.is_some() {
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: ca_pem.map(<[u8]>::to_vec),
        };
        builder = builder.tls(TlsMode::Secure).certs(certificates);
    }
    builder.build()
}

impl Link {
    /// One command and its answer.
    pub(super) async fn ask(&self, command: &Cmd) -> RedisResult<Value> {
        match self.clone() {
            Link::One(mut connection) => command.query_async(&mut connection).await,
            Link::Cluster(mut connection) => command.query_async(&mut connection).await,
        }
    }
}

fn settings(store: &SessionStore) -> RedisConnectionInfo {
    let mut settings = RedisConnectionInfo::default().set_db(store.database.into());
    if let Some(user) = &store.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &store.password {
        settings = settings.set_password(password.expose());
    }
    settings
}

fn connection_info(store: &SessionStore, server: &StoreAddress) -> RedisResult<ConnectionInfo> {
    let info = address(store, server).into_connection_info()?;
    Ok(info.set_redis_settings(settings(store)))
}

fn address(store: &SessionStore, server: &StoreAddress) -> ConnectionAddr {
    match server {
        StoreAddress::Tcp { host, port } if store.tls.is_some() => ConnectionAddr::TcpTls {
            host: host.clone(),
            port: *port,
            insecure: false,
            tls_params: None,
        },
        StoreAddress::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
        StoreAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
    }
}
