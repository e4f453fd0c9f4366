//! `geoip2` and its proxies, while `http` is read.

use crate::model::{GeoDatabase, GeoIp2, List, PeerNetwork, RealIp, RealIpHeader};
use std::sync::Arc;

/// The directives of [`GeoIp2`].
#[derive(Debug, Default)]
pub(crate) struct GeoIp2Draft {
    pub(crate) databases: Vec<GeoDatabase>,
    pub(crate) proxies: List<PeerNetwork>,
    pub(crate) proxy_recursive: Option<bool>,
}

impl GeoIp2Draft {
    /// What holds.
    pub(crate) fn finish(self) -> Arc<GeoIp2> {
        let proxies = (!self.proxies.is_empty()).then(|| RealIp {
            from: self.proxies,
            header: RealIpHeader::XForwardedFor,
            recursive: self.proxy_recursive.unwrap_or(false),
        });
        Arc::new(GeoIp2 {
            databases: self.databases,
            proxies,
        })
    }
}
