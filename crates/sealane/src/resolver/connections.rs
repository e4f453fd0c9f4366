//! Connections to name servers, as the resolver library makes them, but for how soon a question is
//! repeated.

use hickory_resolver::config::{ConnectionConfig, ProtocolConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::udp::UdpClientStream;
use hickory_resolver::net::xfer::DnsExchange;
use hickory_resolver::{ConnectionProvider, PoolContext};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

/// How long a question over UDP waits for its answer before it is repeated, at the least; nginx
/// waits for 5 s. A name server that has to ask others needs a second at times. The library would
/// repeat it after a third of one, three times the work for such a name server.
pub(super) const REPEATED_AFTER: Duration = Duration::from_secs(2);

/// Makes the connections of one resolver.
#[derive(Clone, Default)]
pub(super) struct Connections(TokioRuntimeProvider);

type Connecting = Pin<
    Box<dyn Future<Output = Result<DnsExchange<TokioRuntimeProvider>, NetError>> + Send + 'static>,
>;

impl ConnectionProvider for Connections {
    type Conn = DnsExchange<TokioRuntimeProvider>;
    type FutureConn = Connecting;
    type RuntimeProvider = TokioRuntimeProvider;

    fn new_connection(
        &self,
        ip: IpAddr,
        config: &ConnectionConfig,
        pool: &PoolContext,
    ) -> Result<Connecting, NetError> {
        if !matches!(config.protocol, ProtocolConfig::Udp) {
            return self.0.new_connection(ip, config, pool);
        }
        let options = &pool.options;
        let address = SocketAddr::new(ip, config.port);
        let floor_ms = u64::try_from(REPEATED_AFTER.as_millis()).unwrap_or(u64::MAX);
        let stream = UdpClientStream::builder(address, self.0.clone())
            .with_timeout(Some(options.timeout))
            .with_os_port_selection(options.os_port_selection)
            .avoid_local_ports(options.avoid_local_udp_ports.clone())
            .with_bind_addr(config.bind_addr)
            .with_retry_interval_floor(floor_ms);
        Ok(Box::pin(async move { Ok(stream.exchange()) }))
    }

    fn runtime_provider(&self) -> &TokioRuntimeProvider {
        &self.0
    }
}
