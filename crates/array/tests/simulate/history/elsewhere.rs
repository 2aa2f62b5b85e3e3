//! Another life of the array: copies of some of its drives go on without the others, far enough to be
//! newer than they are in the end. Then the drives that come next are some of these, with nothing but
//! their labels taken off.

use std::time::Duration;

use array::{CLUSTER_BYTES, Env};
use block::WriteFlags;
use ring::Buf;

use super::History;
use crate::disk::Drive;
use crate::machine::in_time;
use crate::memory::enough;
use crate::subject::{Maker, Subject};

/// Time for a checkpoint.
const IDLE: Duration = Duration::from_secs(12);
/// What no host of the history writes.
const BYTE: u8 = 0xe1;

impl<M: Maker> History<'_, M> {
    pub(super) fn live_elsewhere(&self) {
        if !self.made.get() || !self.maker.keeps_all_on_drives() || !self.random.one_in(4) {
            return;
        }
        let mut copies: Vec<Drive> = self.installed().iter().map(Drive::copy).collect();
        if self.random.one_in(2) {
            self.random.shuffle(&mut copies);
            copies.truncate(self.random.between(1, copies.len() as u64) as usize);
        }
        self.env.note(format!("another life of {copies:?}"));
        let steps = self.random.between(1_000, 30_000);
        self.power_on(Some(steps), self.write_elsewhere(&copies));
        copies.iter().for_each(Drive::release);
        self.env.note("another life ends");
        for drive in
            self.drives.iter().filter(|drive| self.random.one_in(2) || !drive.is_installed())
        {
            let alike: Vec<Drive> =
                copies.iter().filter(|copy| copy.is_like(drive)).cloned().collect();
            if !alike.is_empty() {
                drive.set_past(self.random.pick(&alike));
            }
        }
    }

    /// What is written does not matter, nor what becomes of it.
    async fn write_elsewhere(&self, drives: &[Drive]) {
        let opening = in_time(&self.env, self.maker.open(&self.env, drives, true)).await;
        let Some(Ok(array)) = opening else { return };
        let volumes = array.volumes();
        for _ in 0..self.random.below(200) {
            if volumes.is_empty() || self.random.one_in(16) {
                self.env.sleep(IDLE).await;
                continue;
            }
            let volume = self.random.pick(&volumes);
            let Ok(device) = array.device(&volume.name) else { continue };
            let cluster = CLUSTER_BYTES as u64;
            let at = self.random.below(volume.size_bytes / cluster) * cluster;
            let len = 4096 << self.random.below(5);
            let mut data = enough(|| Buf::alloc(len)).expect("a test has memory");
            data.fill(BYTE);
            // A write that fails, or waits for disks that are not there, is as good as any.
            _ = in_time(&self.env, device.write(at, data.freeze(), WriteFlags::DURABLE)).await;
        }
        if self.random.one_in(2) {
            drop(in_time(&self.env, array.close()).await);
        }
    }
}
