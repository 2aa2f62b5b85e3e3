//! Losses of power in the middle of repairs.

use super::*;
use crate::raid::{Heal, Healed};

/// A block that rotted is rewritten; then what nobody owns rots beside it, and the parity is made anew of
/// that. Then the power fails: any part of what was not flushed is left.
#[test]
fn a_parity_that_is_made_anew_waits_for_what_was_mended_beside_it() {
    on_a_core(async {
        for torn in [0, 2048] {
            let rig = Rig::new(Some(Level::Raid5), 3);
            rig.fill(1, &[0, 1], 10).await;
            rig.raid.flush().await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
            let mended = rig.corrupt(1, 0, 4);
            let (slot, crc) = (rig.set.shape().slot(1, 0), known(0, 4).unwrap());
            let heal = Heal { set: SET, slot, block: 4, crc, disk: DiskId(mended as u16) };
            assert_eq!(rig.raid.heal(&rig.set, &heal).await, Ok(Healed::Healed));
            rot_in_both_halves(&rig, 1);
            let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
            assert_eq!((found.bad, found.repaired), (1, 1));
            for (disk, bytes) in [(mended, 0), (rig.place(1, 2, 0).0, torn)] {
                rig.disks[disk].lose_power(bytes);
            }
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}

/// A block of a column rots in both halves.
fn rot_in_both_halves(rig: &Rig, column: usize) {
    rig.corrupt(1, column, 4);
    let (disk, at) = rig.place(1, column, 4);
    rig.disks[disk].flip(at + 3000);
}

/// A disk rots in a block that lives, and another one where nobody owns anything. Any part of what the
/// scrub did about it is left, and then both rot once more.
#[test]
fn what_nobody_owns_is_restored_as_two_parities_agree_and_no_crash_parts_them() {
    on_a_core(async {
        for (p_bytes, q_bytes) in [(0, 4096), (4096, 0), (2048, 0), (0, 2048), (4096, 4096)] {
            let rig = Rig::new(Some(Level::Raid6), 5);
            rig.fill(1, &[0, 1, 2], 10).await;
            rig.raid.flush().await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column != 1).then(|| all(column, row))?;
            let mended = rig.corrupt(1, 0, 4);
            rot_in_both_halves(&rig, 1);
            let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
            assert_eq!(found.bad, found.repaired);
            let [p, q] = [3, 4].map(|strip| rig.place(1, strip, 0).0);
            for (disk, bytes) in [(mended, 0), (p, p_bytes), (q, q_bytes)] {
                rig.disks[disk].lose_power(bytes);
            }
            rig.lose(&[mended, rig.place(1, 1, 0).0]);
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}
