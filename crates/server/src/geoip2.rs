//! `geoip2`: values from databases of addresses, in MaxMind's format.
//!
//! A database is in memory as the master has read it, and all threads share it. Snapshots with the
//! same contents share it as well.

use crate::exchange::Exchange;
use crate::facts::PeerAddress;
use crate::materials::Materials;
use crate::{real_ip, template};
use maxminddb::{MaxMindDbError, PathElement, Reader};
use sealane_conf::diagnostic::Diagnostic;
use sealane_conf::model::{GeoIp2, GeoIp2Metadata, GeoIp2Value, GeoIp2Variable, LogLevel, RealIp};
use sealane_sys::time;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zeroize::Zeroizing;

/// The databases of a configuration, and whose addresses are looked up.
#[derive(Default)]
pub(crate) struct Databases {
    all: Vec<Arc<Database>>,
    proxies: Option<RealIp>,
}

struct Database {
    path: PathBuf,
    contents: Arc<Zeroizing<Vec<u8>>>,
    reader: Reader<Contents>,
    /// When this was read, in seconds since 1970.
    changed_s: i64,
}

struct Contents(Arc<Zeroizing<Vec<u8>>>);

impl AsRef<[u8]> for Contents {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Checks whether these are the contents of a database.
///
/// # Errors
/// Why not, with the file's name.
pub fn check_database(path: &Path, contents: Vec<u8>) -> Result<(), String> {
    match Reader::from_source(contents) {
        Ok(_) => Ok(()),
        Err(error) => Err(refusal(path, &error)),
    }
}

fn refusal(path: &Path, error: &MaxMindDbError) -> String {
    let path = path.display();
    format!("cannot load GeoIP2 database \"{path}\": {error}")
}

impl Databases {
    /// Those that the configuration names.
    ///
    /// # Errors
    /// The first that is none.
    pub(crate) fn build(
        conf: &GeoIp2,
        materials: &Materials,
        before: Option<&Databases>,
    ) -> Result<Databases, Diagnostic> {
        let mut all = Vec::with_capacity(conf.databases.len());
        for database in &conf.databases {
            // The master has read all of them.
            let contents = materials
                .shared(&database.path)
                .cloned()
                .unwrap_or_default();
            let known = before.and_then(|before| before.of(&database.path, &contents));
            all.push(match known {
                Some(known) => Arc::clone(known),
                None => Arc::new(Database::read(&database.path, contents)?),
            });
        }
        Ok(Databases {
            all,
            proxies: conf.proxies.clone(),
        })
    }

    /// A database with the same contents.
    fn of(&self, path: &Path, contents: &[u8]) -> Option<&Arc<Database>> {
        let is_it = |known: &&Arc<Database>| known.path == path && **known.contents == *contents;
        self.all.iter().find(is_it)
    }
}

impl Database {
    fn read(path: &Path, contents: Arc<Zeroizing<Vec<u8>>>) -> Result<Database, Diagnostic> {
        let reader = Reader::from_source(Contents(Arc::clone(&contents)));
        let reader = reader.map_err(|error| Diagnostic {
            level: LogLevel::Emerg,
            message: refusal(path, &error),
            place: None,
            help: None,
        })?;
        Ok(Database {
            path: path.to_owned(),
            contents,
            reader,
            changed_s: time::unix_coarse_s(),
        })
    }

    /// The value at the end of a way through the record of an address. Words that are numbers
    /// are positions in arrays, negative ones from the end, or else keys. Damaged records have
    /// none.
    fn value(&self, address: IpAddr, path: &[Box<str>]) -> Option<Scalar> {
        let found = self.reader.lookup(address).ok()?;
        let decode =
            |path: &[PathElement<'_>]| found.decode_path::<RecordValue>(path).ok().flatten();
        let keys = || path.iter().map(|word| PathElement::Key(word));
        let mut positions = 0;
        let with_positions: Vec<PathElement<'_>> = path
            .iter()
            .map(|word| match word.parse::<i32>() {
                Ok(position) => {
                    positions += 1;
                    PathElement::from(position)
                }
                Err(_) => PathElement::Key(word),
            })
            .collect();
        let value = decode(&with_positions);
        let value = value.or_else(|| match positions {
            0 => None,
            _ => decode(&keys().collect::<Vec<_>>()),
        });
        value?.0
    }
}

/// Appends the value of a variable. Returns whether it has one.
pub(crate) fn append(exchange: &Exchange, variable: &GeoIp2Variable, out: &mut Vec<u8>) -> bool {
    let databases = exchange.snapshot.geoip2();
    let Some(database) = databases.all.get(variable.database) else {
        return false;
    };
    match &variable.value {
        GeoIp2Value::Metadata(field) => {
            let seconds = match field {
                GeoIp2Metadata::BuildEpoch => {
                    i64::try_from(database.reader.metadata().build_epoch).unwrap_or(i64::MAX)
                }
                // The master looks, and tells of changes only.
                GeoIp2Metadata::LastCheck | GeoIp2Metadata::LastChange => database.changed_s,
            };
            out.extend_from_slice(seconds.to_string().as_bytes());
            true
        }
        GeoIp2Value::Data {
            source,
            default,
            path,
        } => {
            let address = match source {
                None => client_address(exchange, databases),
                Some(source) => real_ip::parse_ip(&template::evaluate(source, exchange)),
            };
            let value = address.and_then(|address| database.value(address.to_canonical(), path));
            match &value {
                Some(value) => value.append(out),
                None => out.extend_from_slice(default),
            }
            value.is_some() || !default.is_empty()
        }
    }
}

fn client_address(exchange: &Exchange, databases: &Databases) -> Option<IpAddr> {
    let PeerAddress::Inet(address) = exchange.client_address() else {
        return None;
    };
    Some(match &databases.proxies {
        Some(proxies) => real_ip::forwarded(exchange, proxies, address.ip()),
        None => address.ip(),
    })
}

/// A value that can be written; `None` for maps and arrays.
struct RecordValue(Option<Scalar>);

enum Scalar {
    Text(Box<[u8]>),
    Whole(i128),
    Large(u128),
    Fraction(f64),
}

impl Scalar {
    /// Writes it as the module does.
    fn append(&self, out: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        let _ = match self {
            Scalar::Text(text) => out.write_all(text),
            Scalar::Whole(number) => write!(out, "{number}"),
            Scalar::Large(number) => write!(out, "0x{number:032x}"),
            Scalar::Fraction(number) => write!(out, "{number:.5}"),
        };
    }
}

impl<'de> Deserialize<'de> for RecordValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RecordValue, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

macro_rules! whole {
    ($($visit:ident $number:ty),*) => {
        $(fn $visit<E>(self, number: $number) -> Result<RecordValue, E> {
            Ok(RecordValue(Some(Scalar::Whole(number.into()))))
        })*
    };
}

impl<'de> Visitor<'de> for Any {
    type Value = RecordValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a record")
    }

    whole!(visit_bool bool, visit_i32 i32, visit_i64 i64, visit_u16 u16, visit_u32 u32, visit_u64 u64);

    fn visit_u128<E>(self, number: u128) -> Result<RecordValue, E> {
        Ok(RecordValue(Some(Scalar::Large(number))))
    }

    fn visit_f32<E>(self, number: f32) -> Result<RecordValue, E> {
        Ok(RecordValue(Some(Scalar::Fraction(number.into()))))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RecordValue, E> {
        Ok(RecordValue(Some(Scalar::Fraction(number))))
    }

    fn visit_str<E>(self, text: &str) -> Result<RecordValue, E> {
        Ok(RecordValue(Some(Scalar::Text(text.as_bytes().into()))))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<RecordValue, E> {
        Ok(RecordValue(Some(Scalar::Text(bytes.into()))))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RecordValue, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(RecordValue(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RecordValue, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(RecordValue(None))
    }
}
