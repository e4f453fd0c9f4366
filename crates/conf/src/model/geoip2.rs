//! `geoip2`: values from databases of addresses.

use super::{RealIp, Template};
use std::path::PathBuf;
use std::time::Duration;

/// The databases, and whose addresses are looked up.
#[derive(Debug, Clone, Default)]
pub struct GeoIp2 {
    /// In the order of the configuration.
    pub databases: Vec<GeoDatabase>,
    /// `geoip2_proxy` and `geoip2_proxy_recursive`: whose X-Forwarded-For is believed.
    pub proxies: Option<RealIp>,
}

/// A database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeoDatabase {
    /// Its file.
    pub path: PathBuf,
    /// `auto_reload`: how often the file is looked at for changes; `None` if never.
    pub auto_reload: Option<Duration>,
}

/// A variable of a `geoip2` block.
#[derive(Debug, Clone)]
pub struct GeoIp2Variable {
    /// Index into [`GeoIp2::databases`].
    pub database: usize,
    /// What its value is.
    pub value: GeoIp2Value,
}

/// What the value of a variable is.
#[derive(Debug, Clone)]
pub enum GeoIp2Value {
    /// Something about the database.
    Metadata(GeoIp2Metadata),
    /// A value of the record of an address.
    Data {
        /// `source`: the address; the client's without one.
        source: Option<Template>,
        /// `default`: the value if none is found. If it is empty, there is none.
        default: Box<[u8]>,
        /// The way to the value: keys of maps, or positions in arrays.
        path: Box<[Box<str>]>,
    },
}

/// Something about a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoIp2Metadata {
    /// `build_epoch`: when its provider made it.
    BuildEpoch,
    /// `last_check`: when it was last read to look for changes.
    LastCheck,
    /// `last_change`: when the contents in use were read.
    LastChange,
}
