//! ngx_http_geo_module and ngx_http_split_clients_module.

use super::real_ip::network;
use super::{Arity, HTTP, Module, Row, STREAM};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{
    Geo, Getter, IpNetwork, List, Origin, PeerNetwork, RealIp, RealIpHeader, ServerKind, Share,
    Spans, SplitClients, Template, Variable,
};
use crate::template;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: geo and split_clients",
    doc: "Variables that depend on the client address or on a hash.",
    rows: &[
        Row::block(
            "geo",
            HTTP | STREAM,
            Arity::Between(1, 2),
            "Defines a variable whose value depends on the client address, or on the address in \
             another variable given as the first argument. Lines have the form `network value`; \
             the most specific network wins. Special parameters: `default value`, `delete \
             network`, `include file`, `proxy network` and `proxy_recursive` (X-Forwarded-For \
             from these networks is trusted), `volatile`; `ranges`, which must come first, \
             changes networks to `from-to`. Binary bases (`.bin`) are not used.",
            geo,
        ),
        Row::block(
            "split_clients",
            HTTP | STREAM,
            Arity::Between(2, 2),
            "Defines a variable (second argument) whose value depends on a hash of the first \
             argument. Each value is used for a given share of hashes, and the same string always \
             gets the same value. Lines have the form `12.5% value`, or `* value` for the \
             remainder.",
            split_clients,
        ),
    ],
};

/// Networks: their first address and how many bits they fix, and the value.
type Networks = BTreeMap<(u128, u8), u32>;

/// A `geo` block that is open.
#[derive(Default)]
struct OpenGeo {
    name: String,
    address: Option<Variable>,
    /// Values, and the index of each; the first is empty.
    values: Vec<Box<[u8]>>,
    index: HashMap<Box<[u8]>, u32>,
    v4: Networks,
    v6: Networks,
    networks_seen: bool,
    /// `ranges`: first address, then the last one and the value.
    ranges: Option<BTreeMap<u32, (u32, u32)>>,
    range_default: Option<u32>,
    proxies: List<PeerNetwork>,
    proxy_recursive: bool,
    volatile: bool,
}

fn geo(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut address = None;
    let first = c.variable_name(1)?;
    let mut name = first;
    if c.count() == 2 {
        address = Some(b.names.variable(first, &c.origin)?);
        name = c.variable_name(2)?;
    }
    let defined = b.names.define_as(name, Getter::Absent);
    defined.map_err(|fault| fault.at_word(c.count()))?;
    let mut open = OpenGeo {
        name: name.to_owned(),
        address,
        ..OpenGeo::default()
    };
    open.value(b"");
    b.opening = Some(Opening::List(Box::new(open)));
    Ok(())
}

impl ListBlock for OpenGeo {
    fn line(&mut self, b: &mut Build<'_>, words: &[Word], _: &Origin) -> Result<(), Fault> {
        let (key, value) = match words {
            [word] if word.bytes == b"ranges" && self.networks_seen => {
                return Err(Fault::new(
                    "the \"ranges\" directive must be the first directive inside \"geo\" block",
                ));
            }
            [word] if word.bytes == b"ranges" => {
                self.ranges.get_or_insert_default();
                return Ok(());
            }
            [word] if word.bytes == b"proxy_recursive" && b.kind() == ServerKind::Http => {
                self.proxy_recursive = true;
                return Ok(());
            }
            [word] if word.bytes == b"volatile" => {
                self.volatile = true;
                return Ok(());
            }
            [key, value] => (&key.bytes[..], &value.bytes[..]),
            _ => return Err(Fault::new("invalid number of the geo parameters")),
        };
        match key {
            b"proxy" if b.kind() == ServerKind::Http => {
                self.proxies
                    .push(PeerNetwork::Network(parse_network(b, value)?));
                Ok(())
            }
            _ if self.ranges.is_some() => self.range_line(b, key, value),
            _ => self.network_line(b, key, value),
        }
    }

    fn includes(&self) -> bool {
        true
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        let (v4, v6) = match &self.ranges {
            Some(ranges) => (range_cuts(ranges, self.range_default.unwrap_or(0)), None),
            None => (
                network_cuts(&self.v4, 32),
                Some(network_cuts(&self.v6, 128)),
            ),
        };
        let recursive = self.proxy_recursive;
        let proxies = (!self.proxies.is_empty()).then_some(RealIp {
            from: self.proxies,
            header: RealIpHeader::XForwardedFor,
            recursive,
        });
        let getter = Getter::Geo(Arc::new(Geo {
            address: self.address,
            proxies,
            volatile: self.volatile,
            values: self.values.into(),
            v4: Spans::new(&v4),
            v6: v6.map(|cuts| Spans::new(&cuts)),
        }));
        b.names.define_as(&self.name, getter).map(drop)
    }
}

fn parse_network(b: &mut Build<'_>, written: &[u8]) -> Result<IpNetwork, Fault> {
    let Some((network, cut)) = network(written) else {
        return Err(Fault::new(format!(
            "invalid network \"{}\"",
            shown(written)
        )));
    };
    if cut {
        b.warn(format!(
            "low address bits of {} are meaningless",
            shown(written)
        ));
    }
    Ok(network)
}

impl OpenGeo {
    /// The index of a value; equal ones are kept once.
    fn value(&mut self, value: &[u8]) -> u32 {
        if let Some(index) = self.index.get(value) {
            return *index;
        }
        let index = u32::try_from(self.values.len()).expect("a configuration is not that large");
        self.values.push(value.into());
        self.index.insert(value.into(), index);
        index
    }

    fn shown_value(&self, index: u32) -> String {
        shown(&self.values[index as usize])
    }

    fn network_line(&mut self, b: &mut Build<'_>, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.networks_seen = true;
        if key == b"default" {
            let index = self.value(value);
            for ipv6 in [false, true] {
                self.add(b, (0, 0), ipv6, index, key);
            }
            return Ok(());
        }
        let written = if key == b"delete" { value } else { key };
        let network = parse_network(b, written)?;
        let (first, bits) = network.first_and_bits();
        if key == b"delete" {
            let networks = self.networks(network.is_ipv6());
            if networks.remove(&(first, bits)).is_none() {
                b.warn(format!("no network \"{}\" to delete", shown(written)));
            }
            return Ok(());
        }
        let index = self.value(value);
        self.add(b, (first, bits), network.is_ipv6(), index, written);
        Ok(())
    }

    fn networks(&mut self, ipv6: bool) -> &mut Networks {
        match ipv6 {
            true => &mut self.v6,
            false => &mut self.v4,
        }
    }

    fn add(
        &mut self,
        b: &mut Build<'_>,
        network: (u128, u8),
        v6: bool,
        value: u32,
        shown_as: &[u8],
    ) {
        if let Some(old) = self.networks(v6).insert(network, value) {
            let (new, old) = (self.shown_value(value), self.shown_value(old));
            let network = shown(shown_as);
            b.warn(format!(
                "duplicate network \"{network}\", value: \"{new}\", old value: \"{old}\""
            ));
        }
    }

    fn range_line(&mut self, b: &mut Build<'_>, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        if key == b"default" {
            let index = self.value(value);
            if let Some(old) = self.range_default.replace(index) {
                let (new, old) = (shown(value), self.shown_value(old));
                b.warn(format!(
                    "duplicate default geo range value: \"{new}\", old value: \"{old}\""
                ));
            }
            return Ok(());
        }
        let written = if key == b"delete" { value } else { key };
        let (start, end) = parse_range(written)?;
        let index = if key == b"delete" {
            0
        } else {
            self.value(value)
        };
        let ranges = self.ranges.get_or_insert_default();
        if key == b"delete" {
            match ranges.get(&start) {
                Some((last, _)) if *last == end => {
                    ranges.remove(&start);
                }
                _ => b.warn(format!("no address range \"{}\" to delete", shown(written))),
            }
            return Ok(());
        }
        // The last range that begins where this one ends, or before.
        let Some((&first, &(last, old))) = ranges.range(..=end).next_back() else {
            ranges.insert(start, (end, index));
            return Ok(());
        };
        if last < start {
            ranges.insert(start, (end, index));
            return Ok(());
        }
        if first > start || last < end {
            let shown = shown(written);
            let (first, last) = (Ipv4Addr::from(first), Ipv4Addr::from(last));
            return Err(
                Fault::new(format!("range \"{shown}\" overlaps \"{first}-{last}\""))
                    .help("a range may be inside an earlier one, but must not cross its ends"),
            );
        }
        // It lies inside, and is cut out.
        ranges.remove(&first);
        if first < start {
            ranges.insert(first, (start - 1, old));
        }
        if end < last {
            ranges.insert(end + 1, (last, old));
        }
        ranges.insert(start, (end, index));
        if (first, last) == (start, end) {
            let (new, old) = (self.shown_value(index), self.shown_value(old));
            let range = shown(written);
            b.warn(format!(
                "duplicate range \"{range}\", value: \"{new}\", old value: \"{old}\""
            ));
        }
        Ok(())
    }
}

fn parse_range(written: &[u8]) -> Result<(u32, u32), Fault> {
    let parse = || {
        let (start, end) = std::str::from_utf8(written).ok()?.split_once('-')?;
        let start = u32::from(start.parse::<Ipv4Addr>().ok()?);
        let end = u32::from(end.parse::<Ipv4Addr>().ok()?);
        // As in nginx, no range may end with 255.255.255.255.
        (start <= end && end < u32::MAX).then_some((start, end))
    };
    parse().ok_or_else(|| Fault::new(format!("invalid range \"{}\"", shown(written))))
}

/// Beginnings of spans with their values, in order.
type Cuts = Vec<(u128, u32)>;

/// From here on another value holds.
fn cut(cuts: &mut Cuts, start: u128, value: u32) {
    match cuts.last_mut() {
        Some(last) if last.0 == start => last.1 = value,
        Some(last) if last.1 == value => {}
        _ => cuts.push((start, value)),
    }
}

/// The most specific network that contains an address decides.
fn network_cuts(networks: &Networks, width: u8) -> Cuts {
    let highest = u128::MAX >> (128 - u32::from(width));
    let mut cuts = vec![(0, 0)];
    // Networks around the place that has been reached, with their last addresses.
    let mut around: Vec<(u128, u32)> = Vec::new();
    let leave_until = |around: &mut Vec<(u128, u32)>, cuts: &mut Cuts, next: Option<u128>| {
        while let Some((last, _)) = around.pop_if(|(last, _)| next.is_none_or(|next| *last < next))
            && last < highest
        {
            cut(cuts, last + 1, around.last().map_or(0, |(_, value)| *value));
        }
    };
    // Outer networks come before those inside.
    for (&(first, bits), &value) in networks {
        leave_until(&mut around, &mut cuts, Some(first));
        cut(&mut cuts, first, value);
        let beyond = highest.checked_shr(u32::from(bits)).unwrap_or(0);
        around.push((first | beyond, value));
    }
    leave_until(&mut around, &mut cuts, None);
    cuts
}

fn range_cuts(ranges: &BTreeMap<u32, (u32, u32)>, default: u32) -> Cuts {
    let mut cuts = vec![(0, default)];
    for (&first, &(last, value)) in ranges {
        cut(&mut cuts, first.into(), value);
        if let Some(next) = last.checked_add(1) {
            cut(&mut cuts, next.into(), default);
        }
    }
    cuts
}

/// A `split_clients` block that is open.
struct OpenSplit {
    name: String,
    source: Template,
    /// Hundredths of a percent; 0 for `*`.
    parts: Vec<(u32, Box<[u8]>)>,
}

fn split_clients(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let source = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let name = c.variable_name(2)?;
    let defined = b.names.define_as(name, Getter::Absent);
    defined.map_err(|fault| fault.at_word(2))?;
    b.opening = Some(Opening::List(Box::new(OpenSplit {
        name: name.to_owned(),
        source,
        parts: Vec::new(),
    })));
    Ok(())
}

impl ListBlock for OpenSplit {
    fn line(&mut self, _: &mut Build<'_>, words: &[Word], _: &Origin) -> Result<(), Fault> {
        let [share, value] = words else {
            return Err(Fault::new("invalid number of the split_clients parameters"));
        };
        let percent = match &share.bytes[..] {
            b"*" => 0,
            written => {
                let percent = written.strip_suffix(b"%").and_then(hundredths);
                percent.filter(|percent| *percent > 0).ok_or_else(|| {
                    Fault::new(format!("invalid percent value \"{}\"", shown(written)))
                })?
            }
        };
        self.parts.push((percent, value.bytes[..].into()));
        Ok(())
    }

    fn includes(&self) -> bool {
        false
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        let mut total: u64 = 0;
        let mut below: u32 = 0;
        let mut parts = Vec::with_capacity(self.parts.len());
        for (percent, value) in self.parts {
            total = match percent {
                0 => 10_000,
                _ => total + u64::from(percent),
            };
            if total > 10_000 {
                return Err(Fault::new("percent total is greater than 100%"));
            }
            let share = u64::from(percent) * u64::from(u32::MAX) / 10_000;
            below = below.wrapping_add(share as u32); // at most all of them
            parts.push(Share {
                below: (percent > 0).then_some(below),
                value,
            });
        }
        let getter = Getter::Split(Arc::new(SplitClients {
            source: self.source,
            parts: parts.into(),
        }));
        b.names.define_as(&self.name, getter).map(drop)
    }
}

/// A number with up to two decimals, times a hundred.
fn hundredths(written: &[u8]) -> Option<u32> {
    let dot = memchr::memchr(b'.', written).unwrap_or(written.len());
    let (whole, decimals) = (&written[..dot], written.get(dot + 1..).unwrap_or_default());
    if written.is_empty() || decimals.len() > 2 {
        return None;
    }
    let mut number: u32 = 0;
    let padding = [b'0'; 2];
    let digits = whole
        .iter()
        .chain(decimals)
        .chain(&padding[decimals.len()..]);
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number = number.checked_mul(10)?.checked_add(digit.into())?;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents() {
        for (written, want) in [
            ("50", Some(5000)),
            ("0.5", Some(50)),
            ("12.25", Some(1225)),
            (".5", Some(50)),
            ("1.", Some(100)),
            ("1.234", None),
            ("", None),
            ("x", None),
            ("99999999999", None),
        ] {
            assert_eq!(hundredths(written.as_bytes()), want, "{written}");
        }
    }

    #[test]
    fn networks_inside_networks() {
        let networks: Networks = [
            ((0, 0), 9),
            ((0x0a00_0000, 8), 1),
            ((0x0a01_0000, 16), 2),
            ((0x0a01_0200, 24), 3),
            ((0x0aff_0000, 16), 4),
            ((0xffff_ffff, 32), 5),
        ]
        .into();
        let want = [
            (0, 9),
            (0x0a00_0000, 1),
            (0x0a01_0000, 2),
            (0x0a01_0200, 3),
            (0x0a01_0300, 2),
            (0x0a02_0000, 1),
            (0x0aff_0000, 4),
            (0x0b00_0000, 9),
            (0xffff_ffff, 5),
        ];
        assert_eq!(network_cuts(&networks, 32), want);
        assert_eq!(network_cuts(&Networks::new(), 128), [(0, 0)]);
    }
}
