use super::*;

const LAYOUT: Layout = Layout { data_start: 0, chunk_bytes: 4 * 65536 };

fn seat(disk: u16) -> Seat {
    Seat { disk: DiskId(disk), chunk: 0 }
}

fn set(level: Level, members: u16) -> Set {
    let members = (0..members).map(seat).collect();
    Set::empty(SetId(1), Some(level), members, LAYOUT).unwrap()
}

/// The chunk that is free when the last record is durable.
fn recorded(set: &Set) -> Option<Seat> {
    set.recorded().map(|left| left.seat)
}

fn remove_copy(set: &Set, disk: DiskId) -> Option<Seat> {
    set.remove_copy(disk).map(|left| left.seat)
}

#[test]
fn a_record_gives_the_same_set() {
    let set = set(Level::Raid6, 5);
    set.mark_written(2, 0b101);
    set.mark_stale(1, DiskId(3));
    set.set_replacement(3, seat(9)).unwrap();
    let again = Set::new(set.record(), LAYOUT).unwrap();
    assert_eq!(again.record(), set.record());
    assert_eq!(again.stale(1), 1 << REPLACEMENT | 1 << 3);
    assert_eq!((again.written(2), again.written(0)), (0b101, 0));
}

#[test]
fn what_makes_no_set_is_refused() {
    let of = |members: Vec<Seat>| {
        Set::empty(SetId(1), Some(Level::Raid5), members, LAYOUT).map(|_| ()).unwrap_err()
    };
    assert_eq!(of(vec![seat(1), seat(2)]), BadSet::Members(2));
    assert_eq!(of(vec![seat(1), seat(2), seat(1)]), BadSet::SameDisk(DiskId(1)));
    let good = set(Level::Raid5, 3).record();
    let bad = SetRecord { written: vec![0; 3], ..good.clone() };
    assert_eq!(Set::new(bad, LAYOUT).unwrap_err(), BadSet::Stripes);
    let replacement = Some(Replacement { member: 3, seat: seat(9) });
    let bad = SetRecord { replacement, ..good };
    assert_eq!(Set::new(bad, LAYOUT).unwrap_err(), BadSet::Replacement(3));
}

#[test]
fn a_replacement_takes_over_when_it_lacks_nothing() {
    let set = set(Level::Raid1, 2);
    set.mark_stale(2, DiskId(1));
    assert_eq!(set.set_replacement(1, seat(0)), Err(BadSet::SameDisk(DiskId(0))));
    set.set_replacement(1, seat(9)).unwrap();
    for stripe in 0..3 {
        set.clear_stale(stripe, seat(9));
        assert!(!set.promote_replacement());
    }
    set.flush_begins();
    set.clear_stale(3, seat(9));
    set.flush_ends();
    assert!(set.promote_replacement(), "stripe 3 was given during the flush");
    assert_eq!(set.record().stale[3], 1 << REPLACEMENT, "a power cut may take it back");
    assert_eq!(recorded(&set), None);
    set.take_back(DiskId(9));
    assert_eq!(set.stale(3), 1 << REPLACEMENT, "its disk failed before it flushed");
    set.clear_stale(3, seat(9));
    assert!(set.promote_replacement());
    set.flush_begins();
    set.flush_ends();
    assert_eq!(set.record().members, [seat(0), seat(9)]);
    assert_eq!(set.members(), [seat(0), seat(1)], "until the record is durable");
    assert_eq!(set.holders(3, 0).len(), 3, "both are written to");
    assert_eq!(recorded(&set), Some(seat(1)));
    assert_eq!(set.members(), [seat(0), seat(9)]);
    assert_eq!((set.stale_stripes(), set.replacement()), (vec![], None));
}

#[test]
fn what_a_replacement_misses_while_its_promotion_is_written_it_lacks_as_a_member() {
    let set = set(Level::Raid1, 2);
    set.set_replacement(1, seat(9)).unwrap();
    (0..4).for_each(|stripe| set.clear_stale(stripe, seat(9)));
    set.flush_begins();
    set.flush_ends();
    assert!(set.promote_replacement());
    assert_eq!(set.record().stale, []);
    set.mark_stale(2, DiskId(9));
    assert_eq!(recorded(&set), Some(seat(1)));
    assert_eq!((set.members(), set.stale(2)), (vec![seat(0), seat(9)], 0b10));
}

/// A write was begun when the disk had another seat of the set, and ends when it is about to replace a member.
#[test]
fn who_took_a_write_in_a_seat_that_it_has_left_lacks_it_in_the_next_one() {
    let set = set(Level::Raid1, 2);
    set.set_replacement(1, seat(9)).unwrap();
    (0..4).for_each(|stripe| set.clear_stale(stripe, Seat { chunk: 7, ..seat(9) }));
    assert!(!set.promote_replacement());
    (0..4).for_each(|stripe| set.clear_stale(stripe, seat(9)));
    assert!(set.promote_replacement());
}

#[test]
fn what_is_wished_while_a_record_is_written_is_for_the_next_one() {
    let set = set(Level::Raid1, 2);
    set.set_replacement(1, seat(9)).unwrap();
    assert_eq!(set.record().replacement, set.replacement());
    assert!(set.drop_replacement());
    assert_eq!(recorded(&set), None, "the record that is durable still has it");
    assert_eq!(set.record().replacement, None);
    assert_eq!(recorded(&set), Some(seat(9)));
    assert_eq!(set.replacement(), None);

    set.set_replacement(1, seat(9)).unwrap();
    (0..4).for_each(|stripe| set.clear_stale(stripe, seat(9)));
    set.flush_begins();
    set.flush_ends();
    assert!(set.promote_replacement());
    assert_eq!(set.record().members, [seat(0), seat(9)]);
    assert!(set.drop_replacement());
    assert_eq!(recorded(&set), Some(seat(1)), "the record says that it has taken over");
    assert_eq!(set.members(), [seat(0), seat(9)]);
    assert!(!set.drop_replacement(), "a member is none");
}

#[test]
fn copies_of_metadata_come_and_go() {
    let set = Set::empty(SetId(1), None, vec![seat(0)], LAYOUT).unwrap();
    set.add_copy(seat(1)).unwrap();
    assert_eq!(set.add_copy(seat(1)), Err(BadSet::SameDisk(DiskId(1))));
    assert_eq!((set.shape().members(), set.stale(3)), (2, 0b10));
    assert_eq!(remove_copy(&set, DiskId(0)), None, "the new one is empty");
    for stripe in 0..4 {
        set.clear_stale(stripe, seat(1));
    }
    assert_eq!(remove_copy(&set, DiskId(0)), None, "nor is it durable");
    set.flush_begins();
    set.flush_ends();
    assert_eq!(remove_copy(&set, DiskId(0)), Some(seat(0)));
    assert_eq!((set.members(), set.losses_max()), (vec![seat(1)], 0));
    assert_eq!(remove_copy(&set, DiskId(1)), None, "the last one stays");
    let data = super::tests::set(Level::Raid1, 2);
    assert_eq!(data.add_copy(seat(9)), Err(BadSet::Members(3)));
}

#[test]
fn a_forgotten_stripe_lacks_nothing() {
    let set = set(Level::Raid5, 3);
    set.mark_written(0, 1);
    set.mark_all_stale(DiskId(2));
    set.mark_stale(0, DiskId(77));
    assert_eq!(set.stale_stripes(), [0, 1, 2, 3]);
    set.forget(0);
    assert_eq!((set.stale_stripes(), set.written(0)), (vec![1, 2, 3], 0));
}

#[test]
fn every_copy_and_the_replacement_hold_a_mirrored_strip() {
    let set = set(Level::Raid10, 2);
    set.set_replacement(0, seat(9)).unwrap();
    let disks: Vec<_> = set.holders(0, 0).iter().map(|h| (h.seat.disk.0, h.is_stale)).collect();
    assert_eq!(disks, [(0, false), (9, true), (1, false)]);
    assert!(set.drop_replacement());
    assert_eq!(set.holders(0, 0).len(), 3, "until a record without it is durable");
    assert_eq!((set.record().replacement, recorded(&set)), (None, Some(seat(9))));
    assert_eq!(set.holders(0, 0).len(), 2);
    assert!(set.stale_holders(0).is_empty());
}
