//! `geo` and `split_clients`: values by address, and by hash.

use super::{RealIp, Template, Variable};
use std::net::IpAddr;

/// A `geo` block: what an address is worth.
#[derive(Debug, Clone)]
pub struct Geo {
    /// Where the address is taken from; the client's without one.
    pub address: Option<Variable>,
    /// `proxy` and `proxy_recursive`: whose X-Forwarded-For is believed.
    pub proxies: Option<RealIp>,
    /// `volatile`: the value is not kept for the rest of the request.
    pub volatile: bool,
    pub(crate) values: Box<[Box<[u8]>]>,
    pub(crate) v4: Spans<u32>,
    /// `None` with `ranges`, which know IPv4 only.
    pub(crate) v6: Option<Spans<u128>>,
}

/// All addresses, cut where values change.
#[derive(Debug, Clone)]
pub(crate) struct Spans<T> {
    /// Where each span begins; the first at zero.
    starts: Box<[T]>,
    /// Index of the value of each.
    values: Box<[u32]>,
}

impl Geo {
    /// The value for an address. Without one it is that of 255.255.255.255, as in nginx.
    pub fn value(&self, address: Option<IpAddr>) -> &[u8] {
        let index = match (address.map(|address| address.to_canonical()), &self.v6) {
            (Some(IpAddr::V4(v4)), _) => self.v4.find(v4.into()),
            (Some(IpAddr::V6(v6)), Some(spans)) => spans.find(v6.into()),
            _ => self.v4.find(u32::MAX),
        };
        &self.values[index as usize]
    }
}

impl<T: Ord + Copy + TryFrom<u128>> Spans<T> {
    /// Spans from their beginnings, in order, and the values that hold from there on.
    pub(crate) fn new(cuts: &[(u128, u32)]) -> Spans<T> {
        let start = |cut: &(u128, u32)| {
            let start = T::try_from(cut.0).ok();
            start.expect("addresses have as many bits as their family")
        };
        Spans {
            starts: cuts.iter().map(start).collect(),
            values: cuts.iter().map(|cut| cut.1).collect(),
        }
    }

    fn find(&self, address: T) -> u32 {
        let after = self.starts.partition_point(|start| *start <= address);
        // The first span begins at zero.
        self.values[after.saturating_sub(1)]
    }
}

/// A `split_clients` block.
#[derive(Debug, Clone)]
pub struct SplitClients {
    /// What decides.
    pub source: Template,
    /// Its lines, in order.
    pub parts: Box<[Share]>,
}

/// A line of `split_clients`.
#[derive(Debug, Clone)]
pub struct Share {
    /// The hash below which it holds; none for all that are left.
    pub below: Option<u32>,
    /// The value.
    pub value: Box<[u8]>,
}

impl SplitClients {
    /// The value for a source; empty if no part is left for it.
    pub fn value(&self, source: &[u8]) -> &[u8] {
        let hash = murmur_hash2(source);
        let mut parts = self.parts.iter();
        let found = parts.find(|share| share.below.is_none_or(|below| hash < below));
        found.map_or(&[], |share| &share.value)
    }
}

/// MurmurHash2 by Austin Appleby, 32 bits, with the seed 0.
fn murmur_hash2(text: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = text.len() as u32; // as in nginx, of the low bits
    let (words, rest) = text.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_known_texts() {
        // From the reference implementation of MurmurHash2 with the seed 0.
        assert_eq!(murmur_hash2(b""), 0);
        assert_eq!(murmur_hash2(b"a"), 0x9268_5f5e);
    }

    #[test]
    fn spans_are_found_by_their_beginning() {
        let spans: Spans<u32> = Spans::new(&[(0, 7), (10, 8), (20, 7)]);
        for (address, value) in [(0, 7), (9, 7), (10, 8), (19, 8), (20, 7), (u32::MAX, 7)] {
            assert_eq!(spans.find(address), value, "{address}");
        }
    }
}
