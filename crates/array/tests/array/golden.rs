//! Disks that an earlier build left behind, in the middle of its work: what opens them today must open
//! them for ever. A newer format gets an image of its own beside these.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array::api::{Cache, SettingsChange, SnapshotAccess, VolumeSpec, VolumeState};
use array::{Array, Level};
use block::{BlockDevice, WriteFlags};
use ring::Buf;

use crate::common::{Shelf, read, run, sound, spec};

/// Images by their file, one for each format that was ever promised to be read.
const IMAGES: [&str; 1] = ["format-2.disks"];
const DISKS: usize = 4;
const DISK_MIB: u64 = 24;
const BLOCK: usize = 4096;
/// Set to make the newest image anew, by hand and once: an image that is promised never changes.
const WRITE: &str = "DRYSTONE_GOLDEN_WRITE";

fn path(image: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(image)
}

/// A block as hosts of the golden array write it: one byte all over, so that images are small.
fn block_of(seed: u8, block: u64) -> u8 {
    seed.wrapping_add((block % 7) as u8 * 16)
}

async fn fill(device: &Arc<dyn BlockDevice>, blocks: std::ops::Range<u64>, seed: u8) {
    for block in blocks {
        let mut data = Buf::alloc(BLOCK).expect("memory");
        data.fill(block_of(seed, block));
        let written = device.write(block * BLOCK as u64, data.freeze(), WriteFlags::DURABLE);
        written.await.expect("it takes writes");
    }
}

async fn has(device: &Arc<dyn BlockDevice>, blocks: std::ops::Range<u64>, seed: u8) {
    for block in blocks {
        let found = read(device, block * BLOCK as u64, BLOCK).await;
        assert!(found.iter().all(|byte| *byte == block_of(seed, block)), "block {block} of {seed}");
    }
}

/// Volumes of several levels, snapshots of all kinds, a clone, a volume in the recycle bin; and changes of
/// all kinds that only the journal has.
async fn make(shelf: &Shelf) {
    let array = shelf.create(Level::Raid5).await;
    array.create_volume(spec("plain", 2)).await.expect("it works");
    let thick = VolumeSpec {
        level: Some(Level::Raid10),
        thick: true,
        block_bytes: 4096,
        ..spec("mirror", 1)
    };
    array.create_volume(thick).await.expect("it works");
    let volatile =
        VolumeSpec { level: Some(Level::Raid6), cache: Cache::Volatile, ..spec("double", 1) };
    array.create_volume(volatile).await.expect("it works");
    array.create_volume(spec("gone", 1)).await.expect("it works");
    let device = |name: &str| array.device(name).expect("it works");
    fill(&device("plain"), 0..256, 1).await;
    fill(&device("mirror"), 0..100, 2).await;
    fill(&device("double"), 0..100, 3).await;
    fill(&device("gone"), 0..10, 4).await;
    array.snapshot(&[("plain", Some("first"))]).await.expect("it works");
    fill(&device("plain"), 0..40, 5).await;
    array.clone_snapshot("plain", "first", "copy", true).await.expect("it works");
    fill(&device("copy"), 100..120, 6).await;
    array.set_snapshot_writable("plain", "first", false).await.expect("it works");
    let view = array.snapshot_view_device("plain", "first").expect("it works");
    fill(&view, 200..210, 7).await;
    array.set_volume_online("gone", false).await.expect("it works");
    array.delete_volume("gone").await.expect("it works");
    let settings = SettingsChange { scrub_days: Some(7), ..SettingsChange::default() };
    array.set(settings).await.expect("it works");
    array.checkpoint().await.expect("it works");
    // From here on the journal alone has it.
    fill(&device("plain"), 10..30, 8).await;
    fill(&device("mirror"), 50..60, 9).await;
    fill(&view, 205..207, 10).await;
    device("plain").unmap(128 * BLOCK as u64, 64 * BLOCK as u64).await.expect("it works");
    array.snapshot(&[("plain", Some("second"))]).await.expect("it works");
    fill(&device("plain"), 20..22, 11).await;
    device("double").flush().await.expect("it works");
}

/// All that [`make`] made.
async fn check(array: &Array, states: &[VolumeState]) {
    let volumes: Vec<_> = array.volumes();
    let of = |name: &str| volumes.iter().find(|volume| volume.name == name).expect("it works");
    let kinds = ["plain", "mirror", "double", "gone", "copy"].map(|name| {
        let volume = of(name);
        (volume.size_bytes >> 20, volume.raid, volume.thick, volume.block_bytes, volume.cache)
    });
    assert_eq!(
        kinds,
        [
            (2, Level::Raid5, false, 512, Cache::Durable),
            (1, Level::Raid10, true, 4096, Cache::Durable),
            (1, Level::Raid6, false, 512, Cache::Volatile),
            (1, Level::Raid5, false, 512, Cache::Durable),
            (2, Level::Raid5, false, 512, Cache::Durable),
        ]
    );
    assert_eq!((volumes.len(), of("gone").state), (5, VolumeState::Deleted));
    assert!(states.contains(&of("plain").state), "{:?}", of("plain"));
    assert_eq!(array.info().settings.scrub_days, 7);
    let snapshots = array.snapshots("plain").expect("it works");
    let names: Vec<_> =
        snapshots.iter().map(|snapshot| (&*snapshot.name, snapshot.online)).collect();
    assert_eq!(names, [("first", true), ("second", false)]);
    assert_eq!(snapshots[0].access, SnapshotAccess::ReadWrite);

    let device = |name: &str| array.device(name).expect("it works");
    let plain = device("plain");
    for (blocks, seed) in [(0..10, 5), (10..20, 8), (20..22, 11), (22..30, 8), (30..40, 5)] {
        has(&plain, blocks, seed).await;
    }
    has(&plain, 40..128, 1).await;
    assert_eq!(read(&plain, 128 * BLOCK as u64, 64 * BLOCK).await, vec![0; 64 * BLOCK]);
    has(&plain, 192..256, 1).await;
    has(&device("mirror"), 0..50, 2).await;
    has(&device("mirror"), 50..60, 9).await;
    has(&device("double"), 0..100, 3).await;
    has(&device("copy"), 0..100, 1).await;
    has(&device("copy"), 100..120, 6).await;
    has(&array.snapshot_device("plain", "first").expect("it works"), 0..256, 1).await;
    has(&array.snapshot_device("plain", "second").expect("it works"), 10..30, 8).await;
    let view = array.snapshot_view_device("plain", "first").expect("it works");
    for (blocks, seed) in [(0..200, 1), (200..205, 7), (205..207, 10), (207..210, 7)] {
        has(&view, blocks, seed).await;
    }
}

/// Blocks that are not zero: number of the disk, number of the block, runs of one byte.
async fn pack(shelf: &Shelf) -> Vec<u8> {
    let mut image = Vec::new();
    for (disk, device) in shelf.0.iter().enumerate() {
        for block in 0..DISK_MIB << 8 {
            let bytes = read(&(Arc::clone(device) as _), block * BLOCK as u64, BLOCK).await;
            if bytes.iter().all(|byte| *byte == 0) {
                continue;
            }
            let runs: Vec<&[u8]> = bytes.chunk_by(|one, other| one == other).collect();
            image.push(disk as u8);
            image.extend((block as u32).to_le_bytes());
            image.extend((runs.len() as u16).to_le_bytes());
            for run in runs {
                image.extend((run.len() as u16).to_le_bytes());
                image.push(run[0]);
            }
        }
    }
    image
}

async fn unpack(mut image: &[u8]) -> Shelf {
    let mut take = |len: usize| {
        let (taken, rest) = image.split_at_checked(len)?;
        image = rest;
        Some(taken)
    };
    let shelf = Shelf::new(DISKS, DISK_MIB);
    while let Some(&[disk]) = take(1) {
        let block = u32::from_le_bytes(take(4).expect("it works").try_into().expect("it works"));
        let runs = u16::from_le_bytes(take(2).expect("it works").try_into().expect("it works"));
        let mut bytes = Vec::new();
        for _ in 0..runs {
            let len = u16::from_le_bytes(take(2).expect("it works").try_into().expect("it works"));
            bytes.resize(bytes.len() + usize::from(len), take(1).expect("it works")[0]);
        }
        let mut data = Buf::alloc(BLOCK).expect("memory");
        data.copy_from_slice(&bytes);
        let at = u64::from(block) * BLOCK as u64;
        let device = &shelf.0[usize::from(disk)];
        device.write(at, data.freeze(), WriteFlags::VOLATILE).await.expect("it works");
    }
    shelf
}

#[test]
fn every_format_that_was_promised_is_read() {
    run(async {
        if std::env::var_os(WRITE).is_some() {
            let shelf = Shelf::new(DISKS, DISK_MIB);
            make(&shelf).await;
            let newest = path(IMAGES[IMAGES.len() - 1]);
            fs::create_dir_all(newest.parent().expect("it works")).expect("it works");
            fs::write(newest, pack(&shelf).await).expect("it works");
        }
        for image in IMAGES {
            let packed = fs::read(path(image)).expect("it works");
            // Whole, and without a disk that it bears to lose.
            for missing in [None, Some(0), Some(3)] {
                let shelf = unpack(&packed).await;
                let mut members = shelf.members();
                if let Some(missing) = missing {
                    members.remove(missing);
                }
                let options = array::OpenOptions::default();
                let array = Array::open(Arc::new(array::RingEnv), members, options).await;
                let array = array.unwrap_or_else(|error| panic!("{image}: {error}"));
                let is_whole = missing.is_none();
                let states = [VolumeState::Online, VolumeState::Degraded];
                check(&array, if is_whole { &states[..1] } else { &states }).await;
                if is_whole {
                    sound(&array).await;
                }
                array.close().await.expect("it works");
                // What this build made of it is read as well.
                if is_whole {
                    let array = shelf.open().await;
                    check(&array, &[VolumeState::Online]).await;
                    array.close().await.expect("it works");
                }
            }
        }
    });
}
