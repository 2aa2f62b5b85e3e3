//! What tells this machine from others, and the serial numbers made from it.

use std::fs;

/// Files that hold a text of this machine's own, best first. The second changes with the host
/// name, but is there in a container that has no machine ID.
const IDENTITIES: [&str; 2] = ["/etc/machine-id", "/proc/sys/kernel/hostname"];

/// A text that differs between machines and stays over restarts.
pub(crate) fn identity() -> String {
    let read = |path: &&str| {
        fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|t| !t.is_empty())
    };
    IDENTITIES.iter().find_map(read).unwrap_or_default()
}

/// A serial number of 16 hexadecimal digits for the disk `what` of target `iqn` on `machine`.
///
/// Hosts take two disks with one serial number for two paths to one disk, and multipath then
/// mixes their data. So whatever tells two disks apart is in it.
pub(crate) fn serial(machine: &str, iqn: &str, what: &str) -> String {
    // The parts cannot hold a zero byte, so no two triples read alike.
    format!("{:016X}", fnv1a_64(format!("{machine}\0{iqn}\0{what}").as_bytes()))
}

/// FNV-1a, 64 bits: unlike the standard library's hashers it is the same in every release.
fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn fnv_gives_its_published_values() {
        let cases = [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ];
        for (text, hash) in cases {
            assert_eq!(fnv1a_64(text.as_bytes()), hash, "{text}");
        }
    }

    #[test]
    fn serials_differ_in_each_part_and_never_change() {
        let serials = [
            serial("m", "iqn.a", "file:/x"),
            serial("n", "iqn.a", "file:/x"),
            serial("m", "iqn.b", "file:/x"),
            serial("m", "iqn.a", "file:/y"),
            serial("mi", "qn.a", "file:/x"),
        ];
        assert_eq!(serials.iter().collect::<HashSet<_>>().len(), serials.len());
        // Hosts remember it: a release that changes it presents every disk as a new one.
        assert_eq!(serial("m", "iqn.a", "file:/x"), "F0EF44E2EAF8504A");
    }

    #[test]
    fn this_machine_has_an_identity() {
        assert!(!identity().is_empty());
        assert_eq!(identity(), identity());
    }
}
