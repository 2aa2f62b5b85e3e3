//! What a logical unit says about itself: the answers of INQUIRY, READ CAPACITY and their like, read
//! with the caution that foreign targets ask for.

use block::{ATOMIC_BYTES_MAX, Geometry};
use scsi::alua::AccessState;
use scsi::referrals::{Segment, SegmentRule};

use super::AttachError;
use crate::mutants::{self, Mutant};

/// Longest data of one command; longer reads and writes are split.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;

/// Longest WRITE SAME: bounded, so that the time of one command is, also where a slow disk has to
/// write it all.
const WRITE_SAME_BYTES_MAX: u64 = 32 << 20;

/// Longest UNMAP.
const UNMAP_BYTES_MAX: u64 = 1 << 30;

/// READ CAPACITY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) blocks: u64,
    pub(super) block_bytes: u32,
    physical_exponent: u8,
    thin: bool,
    /// LBPRZ: unmapped blocks read as zeroes.
    reads_zeroes: bool,
}

impl Capacity {
    /// READ CAPACITY(10) data; `None` when (16) must be asked, or the data is short.
    pub(super) fn parse_10(data: &[u8]) -> Option<Self> {
        let last = be32(data, 0)?;
        let block_bytes = be32(data, 4)?;
        let blocks = u64::from(last) + 1;
        (last != u32::MAX).then_some(Self {
            blocks,
            block_bytes,
            physical_exponent: 0,
            thin: false,
            reads_zeroes: false,
        })
    }

    /// READ CAPACITY(16) data.
    pub(super) fn parse_16(data: &[u8]) -> Option<Self> {
        const LBPME: u8 = 0x80;
        const LBPRZ: u8 = 0x40;
        let last = u64::from(be32(data, 0)?) << 32 | u64::from(be32(data, 4)?);
        Some(Self {
            blocks: last.checked_add(1)?,
            block_bytes: be32(data, 8)?,
            physical_exponent: data.get(13).map_or(0, |byte| byte & 0x0f),
            thin: data.get(14).is_some_and(|byte| byte & LBPME != 0),
            reads_zeroes: data.get(14).is_some_and(|byte| byte & LBPRZ != 0),
        })
    }
}

/// The block limits page, B0h. Zero, also where the page is short, means "not told".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BlockLimits {
    compare_blocks: u8,
    transfer_blocks: u32,
    optimal_blocks: u32,
    unmap_blocks: u32,
    unmap_descriptors: u32,
    unmap_granularity_blocks: u32,
    unmap_alignment_blocks: u32,
    write_same_blocks: u64,
    atomic_blocks: u32,
}

impl BlockLimits {
    pub(super) fn parse(page: &[u8]) -> Self {
        const UGAVALID: u32 = 1 << 31;
        let word = |at| be32(page, at).unwrap_or(0);
        let alignment = word(32);
        Self {
            compare_blocks: page.get(5).copied().unwrap_or(0),
            transfer_blocks: word(8),
            optimal_blocks: word(12),
            unmap_blocks: word(20),
            unmap_descriptors: word(24),
            unmap_granularity_blocks: word(28),
            unmap_alignment_blocks: if alignment & UGAVALID != 0 {
                alignment & !UGAVALID
            } else {
                0
            },
            write_same_blocks: u64::from(word(36)) << 32 | u64::from(word(40)),
            atomic_blocks: word(44),
        }
    }
}

/// The raw answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Answers {
    pub(super) capacity: Option<Capacity>,
    pub(super) limits: BlockLimits,
    /// MEDIUM ROTATION RATE of page B1h.
    pub(super) rotation_rate: u16,
    /// Byte 5 of page B2h: LBPU, LBPWS and so on.
    pub(super) provisioning: u8,
    /// WP of the mode parameter header.
    pub(super) is_write_protected: bool,
    /// DPOFUA of the mode parameter header.
    pub(super) has_fua: bool,
    /// WCE of the caching mode page, if there is one.
    pub(super) write_cache: Option<bool>,
    /// Page 83h.
    pub(super) identification: Vec<u8>,
    /// Page 80h.
    pub(super) serial: Vec<u8>,
    /// TPGS of the standard INQUIRY data: there are ALUA states to ask for.
    pub(super) has_alua: bool,
    /// Page B3h, where R_SUP says that there are referrals.
    pub(super) referrals: Option<SegmentRule>,
    /// Standard INQUIRY data.
    pub(super) standard: Vec<u8>,
}

/// What a disk needs to know. The same through every path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) geometry: Geometry,
    /// What all paths to this unit agree in.
    pub(super) identity: Vec<u8>,
    /// The worldwide name, if there is one of type NAA.
    pub(super) naa: Option<Vec<u8>>,
    pub(super) transfer_bytes_max: u32,
    pub(super) write_same_bytes_max: u64,
    /// 0: there is no COMPARE AND WRITE.
    pub(super) compare_bytes_max: u32,
    /// 0: there is no WRITE ATOMIC.
    pub(super) atomic_bytes_max: u32,
    pub(super) has_fua: bool,
    /// Writes may be answered before they are durable. A unit that does not tell may do so.
    pub(super) is_volatile: bool,
    /// WRITE SAME may give space back, and what it gives back reads as zeroes.
    pub(super) can_unmap: bool,
    /// 0: there is no UNMAP.
    pub(super) unmap_bytes_max: u64,
    pub(super) has_alua: bool,
    /// The unit tells which port groups lead best to which blocks.
    pub(super) referrals: Option<SegmentRule>,
    /// Its target answers SendTargets within a session. That every target should (RFC 7143 appendix
    /// C), but tgtd 1.0.85 ends the session instead, so only ours is asked.
    pub(super) tells_portals: bool,
}

impl Facts {
    pub(super) fn new(answers: &Answers) -> Result<Self, AttachError> {
        const LBPU: u8 = 0x80;
        const LBPWS: u8 = 0x40;
        let capacity = answers.capacity.ok_or(AttachError::Answer("READ CAPACITY"))?;
        let block_bytes = capacity.block_bytes;
        if block_bytes != 512 && block_bytes != 4096 {
            return Err(AttachError::BlockSize(block_bytes));
        }
        let limits = &answers.limits;
        let bytes_of = |blocks: u32| blocks.saturating_mul(block_bytes);
        let or_max = |bytes: u32, max: u32| if bytes == 0 { max } else { bytes.min(max) };
        let transfer_bytes_max = or_max(bytes_of(limits.transfer_blocks), TRANSFER_BYTES_MAX);
        let write_same_blocks = match limits.write_same_blocks {
            0 => WRITE_SAME_BYTES_MAX / u64::from(block_bytes),
            blocks => blocks.min(WRITE_SAME_BYTES_MAX / u64::from(block_bytes)),
        };
        let compare_bytes_max = bytes_of(limits.compare_blocks.into()).min(transfer_bytes_max / 2);
        let atomic_bytes_max =
            bytes_of(limits.atomic_blocks.min(u16::MAX.into())).min(transfer_bytes_max);
        // The trait has one limit for all three; what does not exist at all does not lower it.
        let there = [compare_bytes_max, atomic_bytes_max].into_iter().filter(|&bytes| bytes > 0);
        let can_unmap = capacity.thin && capacity.reads_zeroes && answers.provisioning & LBPWS != 0;
        let has_unmap = answers.provisioning & LBPU != 0 && limits.unmap_descriptors > 0;
        let unmap_bytes_max = match capacity.thin && has_unmap {
            true => (u64::from(limits.unmap_blocks) * u64::from(block_bytes)).min(UNMAP_BYTES_MAX),
            false => 0,
        };
        let geometry = Geometry {
            physical_block_bytes: block_bytes << capacity.physical_exponent.min(8),
            unmap_granularity_bytes: bytes_of(limits.unmap_granularity_blocks.max(1)),
            unmap_alignment_bytes: bytes_of(limits.unmap_alignment_blocks),
            atomic_bytes_max: there
                .chain([transfer_bytes_max, ATOMIC_BYTES_MAX])
                .min()
                .unwrap_or(0),
            optimal_transfer_bytes: or_max(bytes_of(limits.optimal_blocks), transfer_bytes_max),
            read_only: answers.is_write_protected,
            rotational: answers.rotation_rate > 1,
            // What cannot be given back, or leaves who knows what behind, is not offered.
            thin: can_unmap,
            ..Geometry::new(block_bytes, capacity.blocks)
        };
        Ok(Self {
            geometry,
            identity: identity(&answers.identification, &answers.serial),
            naa: naa(&answers.identification),
            transfer_bytes_max,
            write_same_bytes_max: write_same_blocks * u64::from(block_bytes),
            compare_bytes_max,
            atomic_bytes_max,
            has_fua: answers.has_fua,
            is_volatile: answers.write_cache.unwrap_or(true),
            can_unmap,
            unmap_bytes_max,
            has_alua: answers.has_alua,
            referrals: answers.referrals,
            tells_portals: answers.standard.get(8..16) == Some(b"DRYSTONE"),
        })
    }
}

/// A page 83h designation descriptor (SPC-5 7.7.6).
struct Designator<'a> {
    kind: u8,
    association: u8,
    bytes: &'a [u8],
}

fn designators(page: &[u8]) -> impl Iterator<Item = Designator<'_>> {
    let mut rest = page.get(4..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at_checked(4)?;
        let (bytes, next) = tail.split_at_checked(head[3].into())?;
        rest = next;
        Some(Designator { kind: head[1] & 0x0f, association: head[1] >> 4 & 3, bytes })
    })
}

/// The designator type of a worldwide name (SPC-4 7.8.6.6).
const NAA: u8 = 3;

/// The name of the unit: NAA, EUI-64 or T10 vendor identification, else the serial number. Empty
/// for a unit that has no name; two of these are never known to be the same.
fn identity(page_83: &[u8], serial: &[u8]) -> Vec<u8> {
    for kind in [NAA, 2, 1] {
        if let Some(bytes) = name_of_the_unit(page_83, kind) {
            return [&[kind], bytes].concat();
        }
    }
    serial.to_vec()
}

/// What a page 83h calls the unit itself, rather than its port or its target.
fn name_of_the_unit(page_83: &[u8], kind: u8) -> Option<&[u8]> {
    const OF_THE_UNIT: u8 = 0;
    let mut named = designators(page_83);
    named.find(|it| it.association == OF_THE_UNIT && it.kind == kind).map(|it| it.bytes)
}

/// The worldwide name of the unit, as long as such names are.
fn naa(page_83: &[u8]) -> Option<Vec<u8>> {
    let bytes = name_of_the_unit(page_83, NAA)?;
    [8, 16].contains(&bytes.len()).then(|| bytes.to_vec())
}

/// Whether two units are known to be the same.
pub(super) fn is_same(one: &Facts, other: &Facts) -> bool {
    !one.identity.is_empty() && one.identity == other.identity
}

/// WCE of the caching page in MODE SENSE(6) data (SBC-4 6.5.6).
pub(super) fn write_cache(data: &[u8]) -> Option<bool> {
    const CACHING: u8 = 0x08;
    const WCE: u8 = 0x04;
    const HEADER_BYTES: usize = 4;
    let descriptors = usize::from(*data.get(3)?);
    let mut rest = data.get(HEADER_BYTES + descriptors..)?;
    while let [code, len, tail @ ..] = rest {
        // SPF: a subpage, whose length has two bytes.
        let (len, tail) = match (code & 0x40 != 0, tail) {
            (true, [high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])) + 2, tail),
            _ => (usize::from(*len), tail),
        };
        if code & 0x7f == CACHING {
            return tail.first().map(|flags| flags & WCE != 0);
        }
        rest = tail.get(len..)?;
    }
    None
}

/// The target port group that the path leads to.
pub(super) fn port_group(page_83: &[u8]) -> Option<u16> {
    const PORT_GROUP: u8 = 5;
    let found = designators(page_83).find(|it| it.kind == PORT_GROUP)?;
    found.bytes.last_chunk().map(|bytes| u16::from_be_bytes(*bytes))
}

/// The state of a group in REPORT TARGET PORT GROUPS data with the short header (SPC-4 6.37).
pub(super) fn access_of(data: &[u8], group: u16) -> Option<AccessState> {
    let mut rest = data.get(4..)?;
    while let Some((head, tail)) = rest.split_at_checked(8) {
        if u16::from_be_bytes([head[2], head[3]]) == group {
            return Some(match head[0] & 0x0f {
                0x0 => AccessState::ActiveOptimized,
                0x1 => AccessState::ActiveNonOptimized,
                0x2 => AccessState::Standby,
                // LBA dependent: usable, how well depends on the block; the referrals tell.
                0x4 => AccessState::ActiveOptimized,
                0xe => AccessState::Offline,
                0xf => AccessState::Transitioning,
                _ => AccessState::Unavailable,
            });
        }
        rest = tail.get(usize::from(head[7]) * 4..)?;
    }
    None
}

/// The groups that lead best to a segment: those that are optimized for it, else those that are not.
/// Where neither is told, nothing is known.
pub(super) fn owners(segment: &Segment) -> Vec<u16> {
    let groups = |state: AccessState| -> Vec<u16> {
        let of_state = segment.groups.iter().filter(|it| it.state == state as u8);
        of_state.map(|it| it.group).collect()
    };
    let best = groups(AccessState::ActiveOptimized);
    if best.is_empty() { groups(AccessState::ActiveNonOptimized) } else { best }
}

/// The first extent of GET LBA STATUS data from block `lba` on: its length in blocks and its state, 0 to 2. `None` if it
/// begins behind that block; it may begin before, as where a unit tells of whole chunks.
pub(super) fn first_extent(lba: u64, data: &[u8]) -> Option<(u64, u8)> {
    let first = u64::from(be32(data, 8)?) << 32 | u64::from(be32(data, 12)?);
    let end = first.checked_add(be32(data, 16)?.into())?;
    let from = if mutants::is(Mutant::WholeExtent) { first } else { lba };
    let blocks = end.checked_sub(from).filter(|_| first <= lba)?;
    Some((blocks, data.get(20)? & 0x0f))
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scsi::alua::{PortGroup, PortGroups};
    use scsi::param::{LbaRun, Provisioning, lba_status, read_capacity10, read_capacity16};
    use scsi::unit::MediumInfo;

    fn answers() -> Answers {
        let medium = MediumInfo::new(512, 1 << 20);
        Answers {
            capacity: Capacity::parse_16(&read_capacity16(&medium)),
            provisioning: 0xe4,
            ..Answers::default()
        }
    }

    #[test]
    fn capacity_of_both_kinds() {
        let medium = MediumInfo::new(4096, 77);
        let ten = Capacity::parse_10(&read_capacity10(&medium)).unwrap();
        let sixteen = Capacity::parse_16(&read_capacity16(&medium)).unwrap();
        assert_eq!((ten.blocks, ten.block_bytes), (77, 4096));
        assert_eq!((sixteen.blocks, sixteen.block_bytes, sixteen.thin), (77, 4096, true));
        let large = MediumInfo::new(512, 1 << 40);
        assert_eq!(Capacity::parse_10(&read_capacity10(&large)), None, "too large for ten");
        assert_eq!(Capacity::parse_16(&read_capacity16(&large)).unwrap().blocks, 1 << 40);
        assert_eq!(Capacity::parse_16(&[0xff; 8]), None);
    }

    #[test]
    fn a_unit_that_tells_nothing_gets_cautious_limits() {
        let facts = Facts::new(&answers()).unwrap();
        assert_eq!(facts.transfer_bytes_max, TRANSFER_BYTES_MAX);
        assert_eq!((facts.compare_bytes_max, facts.atomic_bytes_max), (0, 0));
        assert!(facts.can_unmap && !facts.has_fua);
        assert_eq!(facts.geometry.size_bytes(), 512 << 20);
    }

    #[test]
    fn limits_become_bytes() {
        let mut page = vec![0; 64];
        page[5] = 128;
        page[8..12].copy_from_slice(&1024_u32.to_be_bytes());
        page[28..32].copy_from_slice(&8_u32.to_be_bytes());
        page[32..36].copy_from_slice(&0x8000_0003_u32.to_be_bytes());
        page[44..48].copy_from_slice(&256_u32.to_be_bytes());
        let limits = BlockLimits::parse(&page);
        let facts = Facts::new(&Answers { limits, ..answers() }).unwrap();
        assert_eq!(facts.transfer_bytes_max, 512 << 10);
        assert_eq!(facts.compare_bytes_max, 64 << 10);
        assert_eq!(facts.atomic_bytes_max, 128 << 10);
        assert_eq!(facts.geometry.atomic_bytes_max, 64 << 10);
        assert_eq!(facts.geometry.unmap_granularity_bytes, 4096);
        assert_eq!(facts.geometry.unmap_alignment_bytes, 3 * 512);
    }

    /// UNMAP needs LBPU and limits; what it leaves behind is not called zeroes, and neither is what a
    /// unit without LBPRZ leaves.
    #[test]
    fn only_what_reads_as_zeroes_is_called_so() {
        const LBPU: u8 = 0x80;
        let mut page = vec![0; 64];
        page[20..24].copy_from_slice(&2048_u32.to_be_bytes());
        page[24..28].copy_from_slice(&1_u32.to_be_bytes());
        let limits = BlockLimits::parse(&page);
        let facts = |limits, provisioning, reads_zeroes| {
            let capacity = answers().capacity.map(|it| Capacity { reads_zeroes, ..it });
            Facts::new(&Answers { limits, provisioning, capacity, ..answers() }).unwrap()
        };
        let only_unmap = facts(limits, LBPU, true);
        assert_eq!((only_unmap.can_unmap, only_unmap.unmap_bytes_max), (false, 1 << 20));
        assert!(!only_unmap.geometry.thin);
        assert_eq!(facts(BlockLimits::default(), LBPU, true).unmap_bytes_max, 0);
        assert_eq!(facts(limits, 0, true).unmap_bytes_max, 0);
        let leaves_garbage = facts(limits, 0xe4, false);
        assert!(!leaves_garbage.can_unmap && !leaves_garbage.geometry.thin);
        assert!(facts(limits, 0xe4, true).geometry.thin);
    }

    #[test]
    fn units_without_a_name_are_not_the_same() {
        let facts =
            |serial: &[u8]| Facts::new(&Answers { serial: serial.to_vec(), ..answers() }).unwrap();
        assert!(is_same(&facts(b"A"), &facts(b"A")) && !is_same(&facts(b"A"), &facts(b"B")));
        assert!(!is_same(&facts(b""), &facts(b"")));
    }

    #[test]
    fn the_write_cache_is_found_among_other_pages() {
        let page = |code: u8, flags: u8| [&[code, 18, flags][..], &[0; 17]].concat();
        let data = |pages: &[Vec<u8>]| [vec![0, 0, 0, 0], pages.concat()].concat();
        assert_eq!(write_cache(&data(&[page(0x0a, 0xff), page(0x88, 0x04)])), Some(true));
        assert_eq!(write_cache(&data(&[page(0x08, 0x01)])), Some(false));
        assert_eq!(write_cache(&data(&[page(0x0a, 4)])), None);
        assert_eq!(write_cache(&[]), None);
    }

    #[test]
    fn odd_blocks_are_refused() {
        let capacity = Capacity { block_bytes: 520, ..answers().capacity.unwrap() };
        let refused = Facts::new(&Answers { capacity: Some(capacity), ..answers() });
        assert!(matches!(refused, Err(AttachError::BlockSize(520))));
    }

    #[test]
    fn the_unit_is_known_by_its_best_name() {
        let page = [
            &[0, 0x83, 0, 0][..],
            &[0x02, 0x01, 0, 3, b'a', b'b', b'c'],
            &[0x01, 0x03, 0, 2, 0x60, 0x01],
            &[0x51, 0x95, 0, 4, 0, 0, 0, 9],
        ]
        .concat();
        assert_eq!(identity(&page, b"serial"), [3, 0x60, 0x01]);
        assert_eq!(port_group(&page), Some(9));
        assert_eq!(identity(&[], b"serial"), b"serial");
        assert_eq!(port_group(&[]), None);
        assert_eq!(naa(&page), None, "two bytes are no worldwide name");
        let name = [0x60, 1, 2, 3, 4, 5, 6, 7];
        let of = |association: u8| [&[0; 4][..], &[1, association | 3, 0, 8], &name].concat();
        assert_eq!(naa(&of(0)).as_deref(), Some(&name[..]));
        assert_eq!(naa(&of(0x10)), None, "that is the port's");
    }

    #[test]
    fn the_best_groups_of_a_segment_own_it() {
        use scsi::referrals::GroupAccess;
        let owners = |groups: &[(u16, AccessState)]| {
            let groups = groups.iter().map(|&(id, state)| GroupAccess::new(id, state)).collect();
            owners(&Segment { first_lba: 0, last_lba: 0, groups })
        };
        use AccessState::{ActiveNonOptimized, ActiveOptimized, Standby};
        assert_eq!(owners(&[(1, ActiveNonOptimized), (2, ActiveOptimized)]), [2]);
        assert_eq!(owners(&[(1, ActiveNonOptimized), (2, Standby)]), [1]);
        assert_eq!(owners(&[(2, Standby)]), []);
    }

    #[test]
    fn groups_are_read_as_the_target_writes_them() {
        let group = |id, state, ports| PortGroup::new(id, state, ports);
        let groups = PortGroups::new(
            vec![
                group(3, AccessState::ActiveNonOptimized, vec![1, 2]),
                group(7, AccessState::Standby, vec![3]),
            ],
            false,
            0,
        )
        .unwrap();
        let data = groups.report(false);
        assert_eq!(access_of(&data, 3), Some(AccessState::ActiveNonOptimized));
        assert_eq!(access_of(&data, 7), Some(AccessState::Standby));
        assert_eq!(access_of(&data, 8), None);
    }

    /// Units that tell of whole chunks begin before it. What is taken for empty and is not would be left out of a copy.
    #[test]
    fn an_extent_counts_from_the_block_that_was_asked_for() {
        let run = LbaRun { lba: 5, blocks: 9, state: Provisioning::Deallocated };
        let from = |lba| first_extent(lba, &lba_status(&[run], 24));
        assert_eq!(from(5), Some((9, 1)));
        assert_eq!(from(8), Some((6, 1)), "it began before");
        assert_eq!((from(4), from(15)), (None, None), "that is of other blocks");
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Capacity::parse_10(&data), access_of(&data, 1), first_extent(7, &data));
            let answers = Answers {
                capacity: Capacity::parse_16(&data),
                limits: BlockLimits::parse(&data),
                identification: data.clone(),
                ..answers()
            };
            let _ = (Facts::new(&answers), port_group(&data));
        }
    }
}
