//! Changes of persistent reservations on a copy.

use super::*;
use proptest::prelude::*;

/// What was not installed is in nobody's way, and nobody hears of it.
#[test]
fn a_draft_is_seen_by_nobody_until_it_is_installed() {
    let bench = Bench::new();
    let (one, two) = (bench.host(1, 1), bench.host(2, 1));
    assert_eq!(register(&bench, &one, 7, false).status, Status::Good);
    assert_eq!(register(&bench, &two, 8, false).status, Status::Good);
    let before = bench.unit.reservations_image();
    let mut draft = bench.unit.draft();
    for (host, action, keys) in [(&one, 1, [7, 0]), (&two, 1, [8, 0]), (&one, 4, [7, 8])] {
        let (_, command) = decode(&prout_cdb(action)).unwrap();
        let done = bench.unit.persistent_out(&mut draft, host.key(), &command, &prout_list(keys));
        let conflicts = Arc::ptr_eq(host, &two);
        assert_eq!(done.status == Status::ReservationConflict, conflicts, "each sees the last one");
        assert_eq!(bench.status(&two, &WRITE), Status::Good);
        assert!(bench.unit.reservations_image() == before);
    }
    assert!(!draft.is_to_save() && draft.image().is_none(), "without APTPL");
    bench.unit.install(draft);
    assert_eq!(bench.status(&two, &WRITE), Status::ReservationConflict);
    assert_eq!(attention(&bench.send(&two, &READ)), Some((0x2a, 0x05)));
    // One that is dropped has never been.
    let (_, command) = decode(&prout_cdb(3)).unwrap();
    drop(bench.draft(&one, &command, &prout_list([7, 0])));
    assert_eq!(bench.status(&two, &WRITE), Status::ReservationConflict);
}

/// A change that a host wants: its number, the service action and the two keys.
type Wanted = (u8, u8, [u64; 2]);

fn wanted() -> impl Strategy<Value = Vec<Wanted>> {
    // Few keys, so that they are right often enough. REGISTER AND MOVE needs another list.
    let one = (0..3_u8, 0..7_u8, [0..3_u64, 0..3_u64]);
    prop::collection::vec(one, 1..40)
}

fn bench_of_three() -> (Bench, [Arc<Nexus>; 3]) {
    let bench = Bench::new();
    let hosts = [0, 1, 2].map(|n| bench.host(n, 1));
    (bench, hosts)
}

proptest! {
    /// Changes that are made together, as many at once as it happens, come to what they come to one after
    /// the other: each is answered the same, everybody is told the same, and the same is saved.
    #[test]
    fn changes_made_together_are_changes_one_after_the_other(
        changes in wanted(),
        batches in prop::collection::vec(1..6_usize, 40),
    ) {
        let ((alone, one_by_one), (bench, together)) = (bench_of_three(), bench_of_three());
        let mut left = &changes[..];
        for batch in batches {
            let (now, rest) = left.split_at(batch.min(left.len()));
            left = rest;
            let mut draft = bench.unit.draft();
            let mut told = Vec::new();
            for &(host, action, keys) in now {
                let (cdb, list) = (prout_cdb(action), prout_list(keys));
                let (_, command) = decode(&cdb).unwrap();
                let key = together[usize::from(host)].key();
                told.push(bench.unit.persistent_out(&mut draft, key, &command, &list));
            }
            bench.unit.install(draft);
            for (&(host, action, keys), together) in now.iter().zip(told) {
                let (_, command) = decode(&prout_cdb(action)).unwrap();
                let nexus = &one_by_one[usize::from(host)];
                let (draft, outcome) = alone.draft(nexus, &command, &prout_list(keys));
                alone.unit.install(draft);
                prop_assert_eq!(outcome, together);
            }
            prop_assert_eq!(alone.unit.reservations_image(), bench.unit.reservations_image());
            for (a, b) in one_by_one.iter().zip(&together) {
                prop_assert_eq!(alone.send(a, &REQUEST_SENSE), bench.send(b, &REQUEST_SENSE));
                prop_assert_eq!(a.gate(), b.gate());
            }
        }
    }
}
