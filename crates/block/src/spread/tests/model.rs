//! Any history has the same answers as on one disk, and leaves the pages of other slices alone.

use super::*;

use proptest::prelude::*;

const PAGE_BYTES: u64 = 16 << 10;
const SLICES: u8 = 4;
/// It ends within a page.
const SIZE_BYTES: u64 = 67 * PAGE_BYTES + 5 * BLOCK;
/// What slices hold where they have no page of the volume.
const FOREIGN: u8 = 0xee;

#[derive(Debug, Clone, Copy)]
enum Kind {
    Write { flags: WriteFlags, now: bool },
    Zeroes { may_unmap: bool },
    Unmap,
    Compare { spoiled: Option<u64> },
    Or,
    Read,
}

/// What is written: blocks with checksums, or equal ones.
#[derive(Debug, Clone, Copy)]
enum Content {
    Summed(u32),
    Equal(u8),
}

#[derive(Debug, Clone, Copy)]
struct Step {
    kind: Kind,
    block: u64,
    blocks: u64,
    content: Content,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(durable, atomic, now)| {
            Kind::Write { flags: WriteFlags { durable, atomic }, now }
        }),
        1 => any::<bool>().prop_map(|may_unmap| Kind::Zeroes { may_unmap }),
        1 => Just(Kind::Unmap),
        2 => prop::option::of(any::<u64>()).prop_map(|spoiled| Kind::Compare { spoiled }),
        1 => Just(Kind::Or),
        1 => Just(Kind::Read),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let blocks_in_all = SIZE_BYTES / BLOCK;
    let content = prop_oneof![
        any::<u32>().prop_map(Content::Summed),
        prop_oneof![Just(0), Just(0xff), any::<u8>()].prop_map(Content::Equal),
    ];
    // A few leave the device.
    (kind(), 0..blocks_in_all, 0..200u64, content).prop_map(|(kind, block, blocks, content)| Step {
        kind,
        block,
        blocks,
        content,
    })
}

/// The same of both, errors too.
async fn run(disk: &dyn BlockDevice, step: &Step) -> Result<Vec<u8>, BlockError> {
    let (at, len) = (step.block * BLOCK, step.blocks * BLOCK);
    let content = match step.content {
        Content::Summed(seed) => summed(len, seed),
        Content::Equal(byte) => equal(len, byte),
    };
    let nothing = |()| Vec::new();
    match step.kind {
        Kind::Write { flags, now: true } => match disk.write_now(at, &bytes_of(&content), flags) {
            Some(done) => done.map(nothing),
            None => disk.write(at, content, flags).await.map(nothing),
        },
        Kind::Write { flags, now: false } => disk.write(at, content, flags).await.map(nothing),
        Kind::Zeroes { may_unmap } => {
            disk.write_zeroes(at, len, may_unmap, VOLATILE).await.map(nothing)
        }
        Kind::Unmap => disk.unmap(at, len).await.map(nothing),
        Kind::Compare { spoiled } => {
            let mut compare = bytes_of(&disk.read(at, len as usize).await?);
            if let (Some(spoiled), 1..) = (spoiled, len) {
                compare[(spoiled % len) as usize] ^= 1;
            }
            let compare = data(compare);
            let compared = disk.compare_and_write(at, compare, content, VOLATILE).await?;
            Ok(format!("{compared:?}").into_bytes())
        }
        Kind::Or => disk.or_write(at, content, VOLATILE).await.map(nothing),
        Kind::Read => disk.read(at, len as usize).await.map(|read| bytes_of(&read)),
    }
}

/// Fills the pages that the volume has on other slices, and the room behind its end.
async fn fill_foreign(slices: &[Arc<dyn BlockDevice>], dealing: &Dealing) {
    for (slice, device) in slices.iter().enumerate() {
        for at in (0..device.geometry().size_bytes()).step_by(PAGE_BYTES as usize) {
            if dealing.slice_at(at) != slice || at >= SIZE_BYTES {
                device.write(at, equal(PAGE_BYTES, FOREIGN), VOLATILE).await.unwrap();
            }
        }
    }
}

async fn foreign_is_untouched(slices: &[Arc<dyn BlockDevice>], dealing: &Dealing) {
    for (slice, device) in slices.iter().enumerate() {
        for at in (0..device.geometry().size_bytes()).step_by(PAGE_BYTES as usize) {
            if dealing.slice_at(at) != slice || at >= SIZE_BYTES {
                let found = read(&**device, at, PAGE_BYTES).await;
                assert!(found == [FOREIGN; PAGE_BYTES as usize], "slice {slice} at {at}");
            }
        }
    }
}

/// What each block of a disk is, told by extents that may begin anywhere.
async fn same_extents(spread: &dyn BlockDevice, one: &dyn BlockDevice) {
    for at in (0..SIZE_BYTES).step_by(5 * BLOCK as usize) {
        let (found, wanted) = (spread.extent(at).await.unwrap(), one.extent(at).await.unwrap());
        assert_eq!(found.state, wanted.state, "at {at}");
        assert!(found.len_bytes > 0 && found.len_bytes <= wanted.len_bytes, "{found:?} at {at}");
    }
}

async fn histories_agree(pattern: Vec<u8>, steps: Vec<Step>) {
    let dealing = dealing(PAGE_BYTES, &pattern);
    let slices: Vec<_> =
        (0..SLICES).map(|_| ram(SIZE_BYTES.next_multiple_of(PAGE_BYTES))).collect();
    fill_foreign(&slices, &dealing).await;
    let spread = SpreadDisk::new(slices.clone(), dealing.clone(), SIZE_BYTES / BLOCK).unwrap();
    let one = ram(SIZE_BYTES);
    for step in &steps {
        assert_eq!(run(&spread, step).await, run(&*one, step).await, "{step:?}");
    }
    assert!(read(&spread, 0, SIZE_BYTES).await == read(&*one, 0, SIZE_BYTES).await);
    same_extents(&spread, &*one).await;
    foreign_is_untouched(&slices, &dealing).await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_history_has_the_answers_of_one_disk(
        pattern in prop::collection::vec(0..SLICES, 1..7),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        on_a_core(histories_agree(pattern, steps));
    }
}
