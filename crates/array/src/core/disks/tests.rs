//! Disks that refuse what all holders are to get, for good or for want of memory, while the array works and
//! after it has stopped.

use std::sync::Arc;

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use block::{BlockError, RamDisk, WriteFlags};
use ring::Buf;

use super::*;
use crate::api::{Cache, VolumeSpec};
use crate::engine::CLOSED;
use crate::{Array, CreateOptions, Member, RingEnv};

/// The last one holds neither the journal nor the checkpoints.
const DISKS: usize = 4;
const REFUSAL: Fault = Fault::Fail(BlockError::Medium { at: 0 });

struct Rig {
    disks: Vec<Arc<FaultyDisk>>,
    array: Array,
}

impl Rig {
    async fn new() -> Self {
        let disk = |_| Arc::new(FaultyDisk::new(Arc::new(RamDisk::new(4096, 8192).unwrap())));
        let disks: Vec<Arc<FaultyDisk>> = (0..DISKS).map(disk).collect();
        let member = |(index, disk): (usize, &Arc<FaultyDisk>)| Member {
            name: format!("disk-{index}"),
            device: Arc::clone(disk) as Arc<dyn BlockDevice>,
        };
        let members = disks.iter().enumerate().map(member).collect();
        let made = Array::create(Arc::new(RingEnv), members, CreateOptions::default()).await;
        Self { disks, array: made.unwrap() }
    }

    async fn volume(&self) -> Arc<dyn BlockDevice> {
        let spec = VolumeSpec {
            name: "v".into(),
            size_bytes: 1 << 20,
            level: None,
            thick: false,
            block_bytes: 4096,
            cache: Cache::Durable,
            read_ahead_bytes: None,
            cached: true,
        };
        self.array.create_volume(spec).await.unwrap();
        self.array.device("v").unwrap()
    }

    /// One of the holders refuses a write that all of them are to get.
    async fn write_that_one_refuses(&self) -> Result<(), ArrayError> {
        self.disks[0].inject(Rule::always(Operation::Write, REFUSAL));
        self.write_to_all().await
    }

    /// Something that all holders are to get.
    async fn write_to_all(&self) -> Result<(), ArrayError> {
        let at = self.array.core.layout.redo_at();
        let write = |device: &Arc<dyn BlockDevice>| -> Write<'_> {
            let device = Arc::clone(device);
            let zeroes = Buf::alloc(4096).unwrap().freeze();
            Box::pin(async move { device.write(at, zeroes, WriteFlags::DURABLE).await })
        };
        self.array.core.write_to_holders(write).await
    }

    /// How many labels, on the disks that take any, say that all members are in.
    async fn labels_with_all_in(&self) -> usize {
        let mut count = 0;
        for disk in &self.disks[1..] {
            let Ok(crate::label::Found::Label { label, .. }) = crate::label::read(&**disk).await
            else {
                panic!("the disk has a label");
            };
            let is_in = |record: &crate::label::MemberRecord| record.state == MemberState::Active;
            count += usize::from(label.members.iter().all(is_in));
        }
        count
    }
}

fn on_a_core(test: impl Future<Output = ()> + 'static) {
    ring::block_on(&ring::CoreConfig::default(), test).unwrap();
}

#[test]
fn a_holder_that_refuses_is_out_of_the_labels_before_the_write_counts() {
    on_a_core(async {
        let rig = Rig::new().await;
        assert_eq!(rig.write_that_one_refuses().await, Ok(()));
        assert_eq!(rig.labels_with_all_in().await, 0);
    });
}

/// A write of something else has closed a holder, and the labels do not say so yet: what the others have got since
/// was relied on, and a start with the closed one alone believed what it has.
#[test]
fn a_holder_that_was_closed_is_out_of_the_labels_before_a_write_counts_that_it_lacks() {
    on_a_core(async {
        let rig = Rig::new().await;
        rig.array.core.shut(DiskId(0));
        assert_eq!(rig.write_to_all().await, Ok(()));
        assert_eq!(rig.labels_with_all_in().await, 0);
    });
}

/// A record or a wave was taken for written on all holders although one had refused it, and no label of the
/// stopped array says that it is out: a start with that one alone believes what it has.
#[test]
fn what_a_holder_refuses_does_not_count_once_the_array_has_stopped() {
    on_a_core(async {
        let rig = Rig::new().await;
        rig.array.core.stop(&ArrayError::Unflushed);
        let written = rig.write_that_one_refuses().await;
        assert!(matches!(written, Err(ArrayError::Stopped(_))), "{written:?}");
        assert_eq!(rig.labels_with_all_in().await, DISKS - 1);
    });
}

/// The same of one that is being closed, while a checkpoint that was given up goes on.
#[test]
fn what_a_holder_refuses_does_not_count_while_the_array_is_closed() {
    on_a_core(async {
        let rig = Rig::new().await;
        rig.array.core.lock().stopped = Some(CLOSED.into());
        let written = rig.write_that_one_refuses().await;
        assert_eq!(written, Err(ArrayError::Stopped(CLOSED.into())));
        assert_eq!(rig.labels_with_all_in().await, DISKS - 1);
    });
}

/// A holder was put out when there was no memory for a moment for its part of a redo wave or of a record.
#[test]
fn a_holder_is_not_put_out_for_want_of_memory() {
    on_a_core(async {
        let rig = Rig::new().await;
        let layout = rig.array.core.layout;
        let no_memory = Fault::Fail(BlockError::NoMemory);
        for area in
            [layout.checkpoint_at(0)..layout.redo_at(), layout.redo_at()..layout.journal_at()]
        {
            rig.disks[0].inject(Rule::always(Operation::Write, no_memory).at(area).times(3));
        }
        assert_eq!(rig.write_to_all().await, Ok(()));
        rig.array.checkpoint().await.unwrap();
        rig.array.checkpoint().await.unwrap();
        let events = rig.array.events(0).0;
        assert!(events.iter().all(|event| !event.text.contains("disk-0 is out")), "{events:?}");
    });
}

/// A disk that became a holder was put out, with its label changed and a line in the log, when there was no
/// memory for a moment to give it the journal.
#[test]
fn a_disk_that_joins_the_journal_is_not_put_out_for_want_of_memory() {
    on_a_core(async {
        let rig = Rig::new().await;
        let core = &rig.array.core;
        let (from, to) = (core.layout.journal_at(), core.layout.chunks_at());
        let no_memory = Fault::Fail(BlockError::NoMemory);
        let scarce = Rule::always(Operation::Write, no_memory).at(from..to).times(3);
        rig.disks[DISKS - 1].inject(scarce);
        let last = DiskId(DISKS as u16 - 1);
        let volume = rig.volume().await;
        rig.disks[0].inject(Rule::always(Operation::Write, REFUSAL));
        // The first one puts a holder out; what is in the journal is what another one is given.
        for _ in 0..8 {
            let bytes = Buf::zeroed(4096).unwrap().freeze();
            volume.write(0, bytes, WriteFlags::DURABLE).await.unwrap();
            rig.array.checkpoint().await.unwrap();
        }
        assert!(core.lock().label.journal.contains(&last), "{:?}", core.lock().label);
        let events = rig.array.events(0).0;
        assert!(events.iter().all(|event| !event.text.contains("disk-3 is out")), "{events:?}");
    });
}

/// While its record is being written, which may take long, a checkpoint is one already that marks tell of: a disk
/// that goes and comes back as it was before would be believed, and marked as newer by the next one.
#[test]
fn an_old_image_is_told_by_the_checkpoint_whose_record_is_being_written() {
    on_a_core(async {
        let rig = Rig::new().await;
        let (core, volume, last) = (&rig.array.core, rig.volume().await, DiskId(DISKS as u16 - 1));
        let write = async |byte: u8| {
            let mut all = Buf::alloc(1 << 20).unwrap();
            all.fill(byte);
            volume.write(0, all.freeze(), WriteFlags::DURABLE).await.unwrap();
        };
        write(1).await;
        rig.array.checkpoint().await.unwrap();
        let device = &rig.disks[DISKS - 1];
        let image = RamDisk::new(4096, 8192).unwrap();
        for at in (0..8192 * 4096).step_by(1 << 20) {
            let held = device.read(at, 1 << 20).await.unwrap();
            image.write(at, held, WriteFlags::VOLATILE).await.unwrap();
        }
        assert!(!core.is_behind(last, &image).await, "it is what the disk is");
        write(2).await;
        for (disk, slot) in rig.disks.iter().flat_map(|disk| [(disk, 0), (disk, 1)]) {
            let at = core.layout.checkpoint_at(slot) + 4096;
            disk.inject(Rule::always(Operation::Write, Fault::Hang).at(at..at + 4096));
        }
        let array = rig.array.clone();
        ring::spawn(async move { drop(array.checkpoint().await) });
        while rig.disks.iter().all(|disk| disk.held() == 0) {
            ring::sleep(std::time::Duration::from_millis(1)).await;
        }
        assert!(core.is_behind(last, &image).await);
        assert!(!core.is_behind(last, &**device).await);
        rig.disks.iter().for_each(|disk| disk.heal());
    });
}
