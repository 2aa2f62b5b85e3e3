//! Losses of power in the middle of repairs.

use super::*;

/// A disk rots, and a block of it that lives is mended; beside it rots what nobody owns, and both
/// parities are made anew of that. Then the power fails: any part of what was not flushed is left.
#[test]
fn a_parity_that_is_made_anew_waits_for_what_was_mended_beside_it() {
    on_a_core(async {
        for torn in [0, 2048] {
            let rig = Rig::new(Some(Level::Raid6), 4);
            rig.fill(1, &[0, 1], 10).await;
            rig.raid.flush().await;
            let all = rig.known(1, 10);
            let known = |column: usize, row: usize| (column == 0).then(|| all(column, row))?;
            let mended = rig.corrupt(1, 0, 4);
            // In both halves of the block.
            rig.corrupt(1, 1, 4);
            let (freed, at) = rig.place(1, 1, 4);
            rig.disks[freed].flip(at + 3000);
            let found = rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
            assert_eq!((found.bad, found.repaired), (3, 3));
            let [p, q] = [2, 3].map(|strip| rig.place(1, strip, 0).0);
            for (disk, bytes) in [(mended, 0), (p, torn), (q, 0)] {
                rig.disks[disk].lose_power(bytes);
            }
            rig.expect(1, 0, &cluster(10)).await;
            // And once more, now that it is said again.
            rig.raid.scrub_stripe(&rig.set, 1, contents(&known)).await.unwrap();
            rig.lose(&[mended, q]);
            rig.expect(1, 0, &cluster(10)).await;
        }
    });
}
