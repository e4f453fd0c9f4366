//! Features of network interfaces, as `ethtool -k` shows them
//! (`linux/ethtool.h`). Reading them needs no privilege.

use crate::CheckReturn;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A feature of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    /// As `ethtool -k` has it: `tls-hw-tx-offload`.
    pub name: String,
    /// Whether it is on.
    pub active: bool,
    /// Whether it cannot be changed (`[fixed]`): the device or its driver does not have it, or
    /// always needs it.
    pub fixed: bool,
}

/// The features of an interface.
///
/// # Errors
/// `ENODEV` when there is no such interface, `EOPNOTSUPP` when it has no
/// features, `InvalidInput` when the name cannot be one.
pub fn features(interface: &str) -> io::Result<Vec<Feature>> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    let socket = OwnedFd::from(socket);
    let names = names(socket.as_fd(), interface)?;
    let blocks = names.len().div_ceil(32);
    let mut request = vec![0_u32; 2 + blocks * BLOCK_WORDS];
    request[0] = ETHTOOL_GFEATURES;
    request[1] = blocks as u32;
    call(socket.as_fd(), interface, &mut request)?;
    Ok(decode(names, &request[2..]))
}

/// `struct ethtool_get_features_block`: available, requested, active,
/// never_changed.
const BLOCK_WORDS: usize = 4;

fn decode(names: Vec<String>, blocks: &[u32]) -> Vec<Feature> {
    let bit = |at: usize, field: usize| {
        let word = blocks.get(at / 32 * BLOCK_WORDS + field);
        word.is_some_and(|word| word & (1 << (at % 32)) != 0)
    };
    let feature = |(at, name)| Feature {
        name,
        active: bit(at, 2),
        fixed: !bit(at, 0) || bit(at, 3),
    };
    // A bit without a name is not used by the kernel.
    let features = names.into_iter().enumerate().map(feature);
    features
        .filter(|feature| !feature.name.is_empty())
        .collect()
}

/// The names of all features, one per bit.
fn names(socket: BorrowedFd<'_>, interface: &str) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: cmd, reserved, a 64-bit mask, the counts.
    let mask = (1_u64 << ETH_SS_FEATURES).to_ne_bytes();
    let word = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
    let mut request = vec![ETHTOOL_GSSET_INFO, 0, word(0), word(4), 0, 0];
    call(socket, interface, &mut request)?;
    let known = request[2] != 0 || request[3] != 0;
    let count = request[4] as usize;
    if !known || count == 0 || count > MAX_FEATURES {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    // struct ethtool_gstrings: cmd, set, count, the strings.
    let mut request = vec![0_u32; 3 + count * NAME_BYTES / 4];
    request[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count as u32]);
    call(socket, interface, &mut request)?;
    let name = |words: &[u32]| {
        let bytes: Vec<u8> = words
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(request[3..].chunks(NAME_BYTES / 4).map(name).collect())
}

/// One `SIOCETHTOOL` call. Every request contains the size of its answer, and must have room for
/// it.
fn call(socket: BorrowedFd<'_>, interface: &str, request: &mut [u32]) -> io::Result<()> {
    // SAFETY: `ifreq` is plain old data; all-zero is a valid value.
    let mut ifreq: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    // A terminating NUL must fit.
    if interface.is_empty()
        || interface.len() >= ifreq.ifr_name.len()
        || interface.as_bytes().contains(&0)
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: `ifreq` and the request that it points at outlive the call, and the
    // answer fits: one count of strings for one set, as many strings as that
    // count (which is a constant of the running kernel), and as many blocks as
    // the request says at most.
    unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut ifreq) }.check()?;
    Ok(())
}

// From linux/sockios.h and linux/ethtool.h.
const SIOCETHTOOL: u32 = 0x8946;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETH_SS_FEATURES: u32 = 4;
/// `ETH_GSTRING_LEN`.
const NAME_BYTES: usize = 32;
/// Far more than there are (Linux 6.18 has about 64).
const MAX_FEATURES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_features_with_names() {
        let features = features("lo").unwrap();
        let find = |name: &str| features.iter().find(|feature| feature.name == name);
        // The loopback pretends to checksum, and nothing changes that.
        let checksum = find("tx-checksum-ip-generic").expect("a feature of every kernel");
        assert!(checksum.active && checksum.fixed, "{checksum:?}");
        let tso = find("tx-tcp-segmentation").expect("a feature of every kernel");
        assert!(!tso.fixed, "{tso:?}");
    }

    #[test]
    fn interfaces_that_do_not_exist_are_errors() {
        let error = features("sealane-none").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        for name in ["", "a-name-of-16-byte", "a\0b"] {
            let error = features(name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
    }

    #[test]
    fn bits_go_to_their_names() {
        let names = ["a", "", "b"].map(str::to_owned).to_vec();
        let mut blocks = [0b111, 0, 0b100, 0b001];
        let feature = |name: &str, active, fixed| Feature {
            name: name.to_owned(),
            active,
            fixed,
        };
        let expected = [feature("a", false, true), feature("b", true, false)];
        assert_eq!(decode(names.clone(), &blocks), expected);
        blocks[0] = 0;
        let expected = [feature("a", false, true), feature("b", true, true)];
        assert_eq!(decode(names, &blocks), expected);
        // The 33rd feature is in the second block.
        let names = (0..33).map(|at| format!("f{at}")).collect();
        let decoded = decode(names, &[0, 0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(decoded[32], feature("f32", true, false));
        assert_eq!(decoded[31], feature("f31", false, true));
    }
}
