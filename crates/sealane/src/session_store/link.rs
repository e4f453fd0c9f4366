//! Connections to Redis or Valkey: one server, one found by sentinels, a cluster.

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    RedisConnectionInfo, RedisResult, TlsCertificates, TlsMode, Value,
};
use sealane_conf::model::{SessionStore, StoreAddress, StoreTopology};
use std::time::Duration;

/// How long a connection attempt may take, for each server tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Requests that may wait for their answers on one connection. With answers
/// after one millisecond this is a million a second; more would only pile up
/// behind a store that does not answer.
pub(super) const MAX_IN_FLIGHT: usize = 1024;

/// Makes connections.
pub(super) enum Dialer {
    One(Box<Client>),
    Sentinel(Box<SentinelClient>),
    Cluster(Box<ClusterClient>),
}

/// A connection that many requests share, pipelined.
#[derive(Clone)]
pub(super) enum Link {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Dialer {
    /// Reads the configuration; connects to nothing. `ca_pem` are the contents of
    /// `ca=`.
    ///
    /// # Errors
    /// When the CA certificates cannot be read.
    pub(super) fn new(store: &SessionStore, ca_pem: Option<&[u8]>) -> RedisResult<Dialer> {
        let certificates = TlsCertificates {
            client_tls: None,
            root_cert: ca_pem.map(<[u8]>::to_vec),
        };
        let info = |server| connection_info(store, server);
        Ok(match &store.topology {
            StoreTopology::Single(server) if store.tls.is_some() => Dialer::One(Box::new(
                Client::build_with_tls(info(server)?, certificates)?,
            )),
            StoreTopology::Single(server) => Dialer::One(Box::new(Client::open(info(server)?)?)),
            StoreTopology::Sentinel { sentinels, service } => {
                let addresses = sentinels.iter().map(|server| address(store, server));
                let mut builder = SentinelClientBuilder::new(
                    addresses.collect::<Vec<_>>(),
                    service,
                    SentinelServerType::Master,
                )?
                .set_client_to_redis_db(store.database.into());
                if let Some(user) = &store.user {
                    builder = builder.set_client_to_redis_username(user);
                }
                if let Some(password) = &store.password {
                    builder = builder.set_client_to_redis_password(password.expose());
                }
                if store.tls.is_some() {
                    builder = builder
                        .set_client_to_redis_tls_mode(TlsMode::Secure)
                        .set_client_to_redis_certificates(certificates.clone())
                        .set_client_to_sentinel_tls_mode(TlsMode::Secure)
                        .set_client_to_sentinel_certificates(certificates);
                }
                Dialer::Sentinel(Box::new(builder.build()?))
            }
            StoreTopology::Cluster(servers) => {
                let servers = servers.iter().map(info).collect::<RedisResult<Vec<_>>>()?;
                let mut builder = ClusterClient::builder(servers)
                    .connection_timeout(CONNECT_TIMEOUT)
                    .response_timeout(store.timeout)
                    .connection_concurrency_limit(MAX_IN_FLIGHT)
                    // A handshake does not wait for a second try.
                    .retries(1)
                    .max_retry_wait(1);
                if store.tls.is_some() {
                    builder = builder.tls(TlsMode::Secure).certs(certificates);
                }
                Dialer::Cluster(Box::new(builder.build()?))
            }
        })
    }

    /// Connects, names itself to the server and is answered.
    ///
    /// # Errors
    /// When nobody answers, or the answer is no.
    pub(super) async fn dial(&mut self) -> RedisResult<Link> {
        // Whoever asks keeps the time.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MAX_IN_FLIGHT)
            .set_concurrency_limit(MAX_IN_FLIGHT);
        Ok(match self {
            Dialer::One(client) => Link::One(
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await?,
            ),
            Dialer::Sentinel(client) => {
                Link::One(client.get_async_connection_with_config(&config).await?)
            }
            Dialer::Cluster(client) => Link::Cluster(client.get_async_connection().await?),
        })
    }
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

fn connection_info(store: &SessionStore, server: &StoreAddress) -> RedisResult<ConnectionInfo> {
    let mut settings = RedisConnectionInfo::default().set_db(store.database.into());
    if let Some(user) = &store.user {
        settings = settings.set_username(user);
    }
    if let Some(password) = &store.password {
        settings = settings.set_password(password.expose());
    }
    let info = address(store, server).into_connection_info()?;
    Ok(info.set_redis_settings(settings))
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
