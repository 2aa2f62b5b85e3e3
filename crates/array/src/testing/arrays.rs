//! Small arrays for tests that look inside.

use std::sync::Arc;

use block::{BlockDevice, RamDisk, WriteFlags};
use ring::Buf;

use crate::api::{Cache, VolumeSpec};
use crate::core::Core;
use crate::raid::Set;
use crate::{Array, BLOCK_BYTES, CreateOptions, Level, Member, RingEnv};

pub(crate) fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

fn spec() -> VolumeSpec {
    VolumeSpec {
        name: "v".into(),
        size_bytes: 1 << 20,
        level: None,
        thick: false,
        block_bytes: 4096,
        cache: Cache::Durable,
        read_ahead_bytes: None,
        cached: true,
    }
}

pub(crate) fn disk() -> Arc<dyn BlockDevice> {
    Arc::new(RamDisk::new(4096, 8192).unwrap())
}

/// An array of so many disks with a volume of one MiB, all of it written and in its place.
pub(crate) async fn filled(level: Level, disks: usize) -> (Array, Arc<dyn BlockDevice>) {
    filled_on((0..disks).map(|_| disk()).collect(), level).await
}

pub(crate) async fn filled_on(
    disks: Vec<Arc<dyn BlockDevice>>,
    level: Level,
) -> (Array, Arc<dyn BlockDevice>) {
    let member = |(index, device)| Member { name: format!("disk-{index}"), device };
    let options = CreateOptions { level, chunk_bytes: Some(1 << 20), ..Default::default() };
    let members = disks.into_iter().enumerate().map(member).collect();
    let array = Array::create(Arc::new(RingEnv), members, options).await.unwrap();
    array.create_volume(spec()).await.unwrap();
    let volume = array.device("v").unwrap();
    write(&volume, 0, 256).await;
    array.checkpoint().await.unwrap();
    (array, volume)
}

pub(crate) async fn write(volume: &Arc<dyn BlockDevice>, block: u64, blocks: usize) {
    let mut data = Buf::alloc(blocks * BLOCK_BYTES).unwrap();
    data.fill(block as u8 | 1);
    volume.write(block * BLOCK_BYTES as u64, data.freeze(), WriteFlags::DURABLE).await.unwrap();
}

/// The first set of this kind.
pub(crate) fn set_of(core: &Core, level: Option<Level>) -> Arc<Set> {
    core.sets.all().into_iter().find(|set| set.level() == level).unwrap()
}
