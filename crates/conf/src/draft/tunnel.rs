//! `tunnel_*` and `proxy_connect_*`, while a block is read.

use crate::model::{List, Template, TunnelAddresses, TunnelRules};
use std::ops::RangeInclusive;

/// The port of HTTPS, which tunnels lead to unless more is allowed.
const HTTPS_PORT: u16 = 443;

/// Where tunnels may lead.
#[derive(Debug, Default, Clone)]
pub(crate) struct TunnelRulesDraft {
    /// `Some(None)`: `all`.
    pub(crate) ports: Option<Option<List<RangeInclusive<u16>>>>,
    pub(crate) addresses: Option<TunnelAddresses>,
}

/// What only `proxy_connect_*` has.
#[derive(Debug, Default, Clone)]
pub(crate) struct ProxyConnectDraft {
    pub(crate) rules: TunnelRulesDraft,
    /// `Some(None)`: `off`.
    pub(crate) address: Option<Option<Template>>,
    pub(crate) response: Option<Template>,
}

impl TunnelRulesDraft {
    /// What holds.
    pub(crate) fn finish(&self) -> TunnelRules {
        let https = || Some(List::from(vec![HTTPS_PORT..=HTTPS_PORT]));
        TunnelRules {
            ports: self.ports.clone().unwrap_or_else(https),
            addresses: self.addresses.clone().unwrap_or_default(),
        }
    }
}
