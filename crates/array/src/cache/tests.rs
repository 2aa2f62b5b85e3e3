use super::*;

use ring::Buf;

use proptest::prelude::*;

use crate::SetId;

const MIB: u64 = 1 << 20;
const CRCS: [u32; CLUSTER_BLOCKS] = [7; CLUSTER_BLOCKS];

fn place(slot: u32) -> Place {
    Place::new(SetId(1), slot)
}

fn blocks(slot: u32, first: usize, count: usize) -> Blocks<'static> {
    Blocks { place: place(slot), first, crcs: &CRCS[..count] }
}

fn data(byte: u8, blocks: usize) -> Data {
    let mut buf = Buf::alloc(blocks * BLOCK_BYTES).unwrap();
    buf.fill(byte);
    buf.freeze()
}

fn keep(cache: &BlockCache, of: Blocks<'_>, byte: u8, origin: Origin) {
    let now = cache.generation(of.place);
    cache.keep(of, &data(byte, of.crcs.len()), (now, origin));
}

fn end(cache: &BlockCache, slot: u32, mask: u16) {
    cache.end(std::iter::once((place(slot), mask)));
}

/// The first byte of each block, if all of them are there.
fn found(cache: &BlockCache, of: Blocks<'_>) -> Option<Vec<u8>> {
    let data = cache.find(of)?.data;
    let bytes = data.as_slice().expect("it does not change");
    assert_eq!(bytes.len(), of.crcs.len() * BLOCK_BYTES);
    Some(bytes.chunks(BLOCK_BYTES).map(|block| block[0]).collect())
}

fn check(cache: &BlockCache) {
    cache.shards.iter().for_each(|shard| lock(shard).check());
    let figures = cache.figures();
    assert!(figures.bytes <= figures.bytes_max, "{figures:?}");
}

/// Sets its limit, and lets what is too much go.
fn limit(cache: &BlockCache, bytes_max: u64) -> usize {
    cache.set_bytes_max(bytes_max);
    (0..).take_while(|_| cache.shrink_some()).count()
}

#[test]
fn what_was_kept_is_found_and_nothing_else() {
    let cache = BlockCache::new(MIB);
    keep(&cache, blocks(1, 2, 3), 5, Origin::Host);
    assert_eq!(found(&cache, blocks(1, 2, 3)), Some(vec![5; 3]));
    assert_eq!(found(&cache, blocks(1, 3, 1)), Some(vec![5]));
    for other in [blocks(1, 1, 2), blocks(1, 4, 2), blocks(2, 2, 3)] {
        assert_eq!(found(&cache, other), None);
    }
    let others = Blocks { place: place(1), first: 3, crcs: &[8] };
    assert_eq!(found(&cache, others), None, "another checksum");
    assert!(cache.has(blocks(1, 2, 3)) && !cache.has(blocks(1, 1, 3)) && !cache.has(others));
}

#[test]
fn a_write_ends_what_is_kept_of_its_blocks_although_the_checksums_are_the_same() {
    let cache = BlockCache::new(MIB);
    for slot in [1, 2] {
        keep(&cache, blocks(slot, 0, 16), 1, Origin::Nobody);
    }
    end(&cache, 1, 0b0000_0000_0110_0000);
    assert_eq!(found(&cache, blocks(1, 5, 1)), None);
    assert_eq!(found(&cache, blocks(1, 4, 4)), None);
    assert_eq!(found(&cache, blocks(1, 7, 9)), Some(vec![1; 9]), "its others stay");
    assert_eq!(found(&cache, blocks(2, 5, 1)), Some(vec![1]), "so do other places");
    keep(&cache, blocks(1, 5, 2), 2, Origin::Nobody);
    assert_eq!(found(&cache, blocks(1, 4, 4)), Some(vec![1, 2, 2, 1]));
    end(&cache, 1, WHOLE);
    assert_eq!(found(&cache, blocks(1, 0, 1)), None);
    check(&cache);
}

#[test]
fn what_was_read_beside_a_write_is_not_kept() {
    let cache = BlockCache::new(MIB);
    let before = cache.generation(place(1));
    end(&cache, 1, 1 << 9);
    cache.keep(blocks(1, 0, 16), &data(1, 16), (before, Origin::Host));
    assert_eq!(found(&cache, blocks(1, 0, 1)), None);
    keep(&cache, blocks(1, 0, 16), 2, Origin::Host);
    assert_eq!(found(&cache, blocks(1, 9, 1)), Some(vec![2]), "who read it afterwards");
}

#[test]
fn bytes_that_are_lent_stay_as_they_are_when_their_block_goes() {
    let cache = BlockCache::new(MIB);
    keep(&cache, blocks(1, 0, 1), 1, Origin::Host);
    let lent = cache.find(blocks(1, 0, 1)).unwrap().data;
    end(&cache, 1, WHOLE);
    (0..1000).for_each(|slot| keep(&cache, blocks(10 + slot, 0, 1), 2, Origin::Host));
    assert!(lent.as_slice().unwrap().iter().all(|byte| *byte == 1));
}

#[test]
fn it_holds_what_it_may_and_gives_way_at_once() {
    let cache = BlockCache::new(4 * MIB);
    for slot in 0..500 {
        keep(&cache, blocks(slot, 0, 16), 1, Origin::Nobody);
        keep(&cache, blocks(1000 + slot, 3, 1), 1, Origin::Nobody);
    }
    let full = cache.figures();
    assert!(full.bytes <= 4 * MIB && full.bytes > 3 * MIB, "{full:?}");
    assert!(full.evicted > 6000, "{full:?}");
    check(&cache);
    limit(&cache, MIB);
    check(&cache);
    assert!(cache.pool.mapped_bytes() as u64 <= MIB);
    limit(&cache, 0);
    assert_eq!((cache.figures().bytes, cache.pool.mapped_bytes()), (0, 0));
    keep(&cache, blocks(1, 0, 1), 1, Origin::Host);
    assert_eq!(found(&cache, blocks(1, 0, 1)), None, "it may hold nothing");
}

/// Others wait for the lock of a shard, and cores for each other.
#[test]
fn a_large_cache_gives_way_in_steps_and_takes_nothing_meanwhile() {
    let cache = BlockCache::new(64 * MIB);
    (0..20_000).for_each(|slot| keep(&cache, blocks(slot, 0, 1), 1, Origin::Nobody));
    let before = cache.figures();
    cache.set_bytes_max(MIB);
    assert_eq!(cache.figures().bytes, before.bytes, "it does so when it is asked to");
    keep(&cache, blocks(50_000, 0, 1), 1, Origin::Nobody);
    assert!(cache.figures().bytes == before.bytes && !cache.has(blocks(50_000, 0, 1)));
    assert!(cache.shrink_some());
    assert!(before.bytes - cache.figures().bytes < 4 * MIB, "some at a time");
    let steps = limit(&cache, MIB);
    assert!(steps > 30, "{steps}");
    check(&cache);
    assert!(cache.pool.mapped_bytes() as u64 <= MIB);
    let kept = cache.shards.iter().map(|shard| lock(shard).capacity()).sum::<usize>();
    assert!(kept < 2_000, "the tables have shrunk, too: room for {kept}");
}

/// Reads blocks as a host does; whether they were here.
fn ask(cache: &BlockCache, of: Blocks<'_>) -> bool {
    let is_hit = cache.find(of).is_some();
    if !is_hit {
        keep(cache, of, 1, Origin::Host);
    }
    is_hit
}

/// Reads the first block of a slot.
fn read(cache: &BlockCache, slot: u32) -> bool {
    ask(cache, blocks(slot, 0, 1))
}

fn read_all(cache: &BlockCache, slots: std::ops::Range<u32>) {
    slots.for_each(|slot| _ = read(cache, slot));
}

#[test]
fn what_is_read_from_end_to_end_does_not_push_out_what_is_read_again_and_again() {
    let cache = BlockCache::new(8 * MIB);
    // About 1,850 entries fit: half of them are hot.
    let hot = 900;
    (0..4).for_each(|_| read_all(&cache, 0..hot));
    let ratio = || (0..hot).filter(|slot| read(&cache, *slot)).count() * 100 / hot as usize;
    assert_eq!(ratio(), 100);
    for part in 0..10 {
        // Ten times the memory, and the hot ones are read in between.
        let first = 100_000 + part * 2000;
        read_all(&cache, first..first + 2000);
        assert!(ratio() >= 95, "{} % in part {part}", ratio());
    }
    check(&cache);
}

#[test]
fn while_all_is_read_once_few_are_copied_and_what_is_read_again_is_found_out() {
    let cache = BlockCache::new(4 * MIB);
    let kept = |slots: std::ops::Range<u32>| {
        slots.filter(|slot| !read(&cache, *slot) && cache.has(blocks(*slot, 0, 1))).count()
    };
    assert_eq!(kept(0..500), 500, "while there is room");
    kept(500..10_000);
    let few = kept(10_000..20_000);
    assert!((1000..2000).contains(&few), "{few} of 10,000");
    // From here on hosts read some over and over: the second time they are known.
    read_all(&cache, 30_000..30_400);
    read_all(&cache, 30_000..30_400);
    let hits = (30_000..30_400).filter(|slot| read(&cache, *slot)).count();
    assert!(hits >= 390, "{hits} of 400");
    check(&cache);
}

#[test]
fn a_cluster_that_is_read_piece_by_piece_is_read_once() {
    let cache = BlockCache::new(8 * MIB);
    let hot = 60;
    for _ in 0..3 {
        (0..hot).for_each(|slot| _ = ask(&cache, blocks(slot, 0, 16)));
    }
    for slot in 1000..3000 {
        // As read-ahead and a host that follows it in small steps.
        keep(&cache, blocks(slot, 0, 16), 1, Origin::Nobody);
        assert!(cache.find(blocks(slot, 0, 1)).unwrap().is_first);
        (1..16).for_each(|block| assert!(cache.find(blocks(slot, block, 1)).is_some()));
    }
    let left = (0..hot).filter(|slot| cache.has(blocks(*slot, 0, 16))).count();
    assert!(left * 100 >= hot as usize * 90, "{left} of {hot} are left");
    check(&cache);
}

/// One block in so many that are read once is a hot one: 1,400 reads a second beside 370 MB/s.
const HOT_EVERY: usize = 64;
const HOT_BLOCKS: u64 = 2048;
/// What is read from end to end, 64 times what the cache has room for, in parts of which each is looked at.
const SCAN: u32 = 100_000;
const SCAN_PARTS: u32 = 8;
const SCAN_GROUPS: u32 = 32;
const SCAN_GROUP: u32 = 64;

/// A cache, and a host that reads blocks of a hot set of half of its size, here and there, beside one that reads on and on.
struct Beside {
    cache: BlockCache,
    random: u64,
    /// Blocks that the other one has read since the last hot one.
    passed: usize,
    reads: usize,
    hits: usize,
}

impl Beside {
    fn new() -> Self {
        let cache = BlockCache::new(16 * MIB);
        Self { cache, random: 12_345, passed: 0, reads: 0, hits: 0 }
    }

    /// The hot ones are in memory.
    fn warm() -> Self {
        let mut beside = Self::new();
        (0..8 * HOT_BLOCKS).for_each(|_| beside.read_hot());
        beside
    }

    fn read_hot(&mut self) {
        let next = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = next.wrapping_add(1_442_695_040_888_963_407);
        let hot = hot_block((self.random >> 33) % HOT_BLOCKS);
        self.reads += 1;
        self.hits += usize::from(ask(&self.cache, hot));
    }

    /// The other host has read so many blocks.
    fn pass(&mut self, blocks: usize) {
        self.passed += blocks;
        while self.passed >= HOT_EVERY {
            self.passed -= HOT_EVERY;
            self.read_hot();
        }
    }

    /// `scan` reads a group of clusters from one on.
    fn stays_hot(&mut self, scan: impl Fn(&mut Self, u32)) {
        for part in 0..SCAN_PARTS {
            (self.reads, self.hits) = (0, 0);
            for group in 0..SCAN_GROUPS {
                scan(self, SCAN + (part * SCAN_GROUPS + group) * SCAN_GROUP);
            }
            assert!(self.reads >= 500, "{} in part {part}", self.reads);
            let (hits, reads) = (self.hits, self.reads);
            assert!(hits * 100 >= reads * 95, "{hits} of {reads} in part {part}");
        }
        check(&self.cache);
    }
}

fn hot_block(number: u64) -> Blocks<'static> {
    blocks(number as u32 / 16, number as usize % 16, 1)
}

/// The target reads chunks of 256 KiB for a host with four commands of 1 MiB under way. From its third on, each command
/// is a stream of which the next chunk is fetched ahead: at its end, what the next one has begun with long since.
#[test]
fn what_is_fetched_ahead_although_a_host_has_read_it_is_not_used_again() {
    Beside::warm().stays_hot(|beside, first| {
        for (chunk, command) in (0..4).flat_map(|chunk| (0..4).map(move |command| (chunk, command)))
        {
            let at = first + command * 16 + chunk * 4;
            (at..at + 4).for_each(|slot| _ = ask(&beside.cache, blocks(slot, 0, 16)));
            if chunk >= 2 {
                let ahead = at + 4..at + 8;
                ahead.for_each(|slot| keep(&beside.cache, blocks(slot, 0, 16), 1, Origin::Nobody));
            }
            beside.pass(4 * CLUSTER_BLOCKS);
        }
    });
}

/// Half a block each time.
#[test]
fn blocks_that_are_read_twice_in_a_row_are_not_used_again() {
    Beside::warm().stays_hot(|beside, first| {
        for (slot, block) in each_block(first) {
            (0..2).for_each(|_| _ = ask(&beside.cache, blocks(slot, block, 1)));
            beside.pass(1);
        }
    });
}

/// From 512 bytes behind a block on: each is the end of one read and the beginning of the next.
#[test]
fn blocks_of_which_two_reads_have_a_part_are_not_used_again() {
    Beside::warm().stays_hot(|beside, first| {
        for (slot, block) in each_block(first) {
            let here = (CLUSTER_BLOCKS - block).min(2);
            _ = ask(&beside.cache, blocks(slot, block, here));
            if block == CLUSTER_BLOCKS - 1 {
                _ = ask(&beside.cache, blocks(slot + 1, 0, 1));
            }
            beside.pass(1);
        }
    });
}

/// 512 bytes each time, of what was fetched ahead.
#[test]
fn blocks_that_are_read_in_pieces_are_not_used_again() {
    Beside::warm().stays_hot(|beside, first| {
        for (slot, block) in each_block(first) {
            if block == 0 {
                keep(&beside.cache, blocks(slot + 4, 0, 16), 1, Origin::Nobody);
            }
            (0..3).for_each(|_| _ = ask(&beside.cache, blocks(slot, block, 1)));
            beside.pass(1);
        }
    });
}

/// What comes while the cache is full of other things, and is read at once several times, is in use as soon as it is
/// read later on, too.
#[test]
fn what_is_read_again_at_once_and_then_often_becomes_hot() {
    let mut beside = Beside::new();
    (50_000..54_096).for_each(|slot| _ = ask(&beside.cache, blocks(slot, 0, 16)));
    for number in 0..HOT_BLOCKS {
        (0..3).for_each(|_| _ = ask(&beside.cache, hot_block(number)));
    }
    for (slot, block) in (0..20).flat_map(|group| each_block(60_000 + group * SCAN_GROUP)) {
        beside.read_hot();
        _ = ask(&beside.cache, blocks(slot, block, 1));
    }
    beside.stays_hot(|beside, first| {
        for slot in first..first + SCAN_GROUP {
            _ = ask(&beside.cache, blocks(slot, 0, 16));
            beside.pass(CLUSTER_BLOCKS);
        }
    });
}

/// Those of a group of clusters.
fn each_block(first: u32) -> impl Iterator<Item = (u32, usize)> {
    (first..first + SCAN_GROUP).flat_map(|slot| (0..CLUSTER_BLOCKS).map(move |block| (slot, block)))
}

/// Of a cluster that was passed over, the next blocks are passed over, too, and room that a whole one has left is none.
#[test]
fn while_clusters_are_read_once_in_pieces_few_are_copied() {
    let cache = BlockCache::new(4 * MIB);
    (0..200).for_each(|slot| keep(&cache, blocks(slot, 0, 16), 1, Origin::Nobody));
    let read = |slots: std::ops::Range<u32>| {
        let each = slots.flat_map(|slot| (0..CLUSTER_BLOCKS).map(move |block| (slot, block)));
        each.filter(|(slot, block)| {
            assert!(!ask(&cache, blocks(*slot, *block, 1)), "each once");
            cache.has(blocks(*slot, *block, 1))
        })
        .count()
    };
    read(1000..2000);
    let few = read(2000..4000) / CLUSTER_BLOCKS;
    assert!((100..1000).contains(&few), "{few} of 2,000 clusters");
    check(&cache);
}

/// Reads on and on from the middle of blocks: each begins in the block in which the one before has ended.
#[test]
fn what_a_host_reads_on_to_is_news_although_it_has_had_the_first_block() {
    let cache = BlockCache::new(MIB);
    keep(&cache, blocks(1, 0, 16), 1, Origin::Nobody);
    for first in [0, 4, 8] {
        assert!(cache.find(blocks(1, first, 5)).unwrap().is_first);
        assert!(!cache.find(blocks(1, first, 5)).unwrap().is_first);
    }
    check(&cache);
}

/// Both bring the same blocks: one ask each, at the same moment.
#[test]
fn what_two_reads_bring_that_were_under_way_together_is_asked_for_once() {
    let cache = BlockCache::new(MIB);
    keep(&cache, blocks(1, 0, 16), 1, Origin::Host);
    keep(&cache, blocks(1, 0, 16), 1, Origin::Nobody);
    keep(&cache, blocks(1, 4, 4), 1, Origin::Host);
    assert!(!cache.find(blocks(1, 0, 16)).unwrap().is_first);
    check(&cache);
    // Written meanwhile: nobody has asked for that.
    end(&cache, 1, 1 << 2);
    keep(&cache, blocks(1, 2, 1), 2, Origin::Nobody);
    assert!(cache.find(blocks(1, 2, 1)).unwrap().is_first);
    check(&cache);
}

#[test]
fn volumes_are_counted_each_for_itself_and_can_be_left_out() {
    let cache = BlockCache::new(MIB);
    let (one, other) = (cache.volume(VersionId(1)), cache.volume(VersionId(2)));
    one.count_hits(3);
    other.count_misses(2);
    cache.volume(VersionId(1)).count_misses(1);
    assert_eq!((one.hits(), one.misses(), other.hits(), other.misses()), (3, 1, 0, 2));
    assert_eq!((cache.figures().hits, cache.figures().misses), (3, 3));
    assert!(one.is_cached());
    one.set_cached(false);
    assert!(!cache.volume(VersionId(1)).is_cached() && other.is_cached());
    cache.forget_volume(VersionId(1));
    assert!(cache.volume(VersionId(1)).is_cached(), "another one");
    assert_eq!((cache.figures().hits, cache.figures().misses), (3, 3), "of all, ever");
}

#[derive(Debug, Clone)]
enum Step {
    Keep { slot: u32, first: usize, count: usize, late: bool },
    End { slot: u32, first: usize, count: usize },
    Find { slot: u32, first: usize, count: usize },
    Limit(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let range = (0u32..6, 0usize..16, 1usize..17)
        .prop_map(|(slot, first, count)| (slot, first, count.min(16 - first)));
    prop_oneof![
        4 => (range.clone(), any::<bool>())
            .prop_map(|((slot, first, count), late)| Step::Keep { slot, first, count, late }),
        2 => range.clone().prop_map(|(slot, first, count)| Step::End { slot, first, count }),
        6 => range.prop_map(|(slot, first, count)| Step::Find { slot, first, count }),
        1 => (0u64..400 << 10).prop_map(Step::Limit),
    ]
}

proptest! {
    /// Whatever is found is what was kept last of each block, and nothing that was ended since.
    #[test]
    fn what_is_found_is_what_was_kept_last(steps in prop::collection::vec(step(), 1..200)) {
        let cache = BlockCache::new(300 << 10);
        let mut newest = [[None; CLUSTER_BLOCKS]; 6];
        for (number, step) in steps.into_iter().enumerate() {
            let byte = number as u8;
            match step {
                Step::Keep { slot, first, count, late } => {
                    let before = cache.generation(place(slot));
                    end(&cache, slot, mask_of(first, count));
                    newest[slot as usize][first..first + count].fill(None);
                    let generation = if late { before } else { cache.generation(place(slot)) };
                    cache.keep(blocks(slot, first, count), &data(byte, count), (generation, Origin::Host));
                    if !late {
                        newest[slot as usize][first..first + count].fill(Some(byte));
                    }
                }
                Step::End { slot, first, count } => {
                    end(&cache, slot, mask_of(first, count));
                    newest[slot as usize][first..first + count].fill(None);
                }
                Step::Find { slot, first, count } => {
                    if let Some(found) = found(&cache, blocks(slot, first, count)) {
                        let wanted: Vec<_> = found.into_iter().map(Some).collect();
                        prop_assert_eq!(&wanted[..], &newest[slot as usize][first..first + count]);
                    }
                }
                Step::Limit(bytes) => _ = limit(&cache, bytes),
            }
            check(&cache);
        }
    }
}
