//! Where new volumes are made.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

/// What a member is, for placement: its number, whether it is present, its free bytes if it has told of them, its pool.
type Sketch = (u8, bool, Option<u64>, &'static str);

fn roll_of(members: &[Sketch]) -> Roll {
    let pools = BTreeMap::from(["fast", "slow"].map(|name| (name.to_owned(), Pool::default())));
    let mut roll = Roll { pools, ..Roll::default() };
    for (number, is_present, free_bytes, pool) in members {
        let id = MemberId(u16::from(*number));
        let record = MemberRecord { incarnation: 7, ..applicant(*number).record(NOW) };
        roll.members.insert(id, record);
        if *is_present {
            roll.present.insert(id, 7);
        }
        if let Some(free_bytes) = *free_bytes {
            let capacity_bytes = free_bytes + GIB;
            let room = Inventory { free_bytes, capacity_bytes, ..Inventory::default() };
            roll.inventories.insert(id, Arc::new(room));
        }
        if let Some(pool) = roll.pools.get_mut(*pool) {
            pool.members.insert(id);
        }
    }
    roll
}

/// Which member takes it that is asked of member 1.
fn placed(roll: &Roll, size_bytes: u64, thick: bool, pool: Option<&str>) -> Result<u16, String> {
    let wanted = Wanted { size_bytes, thick, pool, asked: MemberId(1) };
    place(roll, &wanted).map(|member| member.0).map_err(|error| error.to_string())
}

#[test]
fn a_volume_goes_to_the_member_of_the_pool_with_the_most_room() {
    let roll = roll_of(&[
        (1, true, Some(10 * GIB), "default"),
        (2, true, Some(30 * GIB), "default"),
        (3, true, Some(90 * GIB), "fast"),
        (4, false, Some(99 * GIB), "default"),
        (5, true, None, "default"),
        (6, true, Some(30 * GIB), "default"),
    ]);
    let usual = placed(&roll, GIB, true, None);
    assert_eq!(usual, Ok(2), "of two with the same room the lower number");
    assert_eq!(placed(&roll, 30 * GIB, true, Some("default")), Ok(2), "all that there is");
    assert_eq!(placed(&roll, 1 << 50, false, None), Ok(2), "what is thin takes no room yet");
    assert_eq!(placed(&roll, GIB, true, Some("fast")), Ok(3));
    let wanted = Wanted { size_bytes: GIB, thick: true, pool: None, asked: MemberId(3) };
    assert_eq!(place(&roll, &wanted), Ok(MemberId(3)), "the pool of who is asked");
}

/// Thin volumes take no room at first, and the members of a group are often alike.
#[test]
fn of_those_with_as_much_room_the_one_with_the_fewest_volumes_takes_it() {
    let mut roll = roll_of(&[
        (1, true, Some(GIB), "default"),
        (2, true, Some(GIB), "default"),
        (3, true, Some(GIB), "default"),
    ]);
    let mut takers = Vec::new();
    for _ in 0..6 {
        let taker = placed(&roll, GIB, false, None).expect("there is room");
        let inventory = roll.inventories.get_mut(&MemberId(taker)).expect("it has told");
        Arc::make_mut(inventory).volumes.push(ListedVolume::default());
        takers.push(taker);
    }
    assert_eq!(takers, [1, 2, 3, 1, 2, 3]);
    // What is in the recycle bin is there as well, and room comes before all.
    Arc::make_mut(roll.inventories.get_mut(&MemberId(1)).unwrap()).deleted.push("x".to_owned());
    assert_eq!(placed(&roll, GIB, false, None), Ok(2));
    Arc::make_mut(roll.inventories.get_mut(&MemberId(1)).unwrap()).free_bytes += 1;
    assert_eq!(placed(&roll, GIB, false, None), Ok(1));
}

#[test]
fn who_takes_no_volume_says_why() {
    let roll = roll_of(&[
        (1, true, Some(10 * GIB + 1), "default"),
        (2, false, Some(30 * GIB), "fast"),
        (3, true, None, "fast"),
        (4, true, Some(0), "slow"),
    ]);
    let refused = |pool, size_bytes, thick| placed(&roll, size_bytes, thick, pool).unwrap_err();
    assert_eq!(
        refused(None, 11 * GIB, true),
        "no member of the pool 'default' has room for 11 GiB: of those that are present none has more than 10.0 GiB"
    );
    let absent = "no member of the pool 'fast' is present and has said how much room it has";
    assert_eq!(refused(Some("fast"), GIB, false), absent);
    assert_eq!(refused(Some("huge"), GIB, false), "the group has no pool 'huge'");
    for thick in [false, true] {
        let full = refused(Some("slow"), GIB, thick);
        let begin = "no member of the pool 'slow' that is present has room for a new volume: ";
        assert!(full.starts_with(begin), "{full}");
    }
    let wanted = Wanted { size_bytes: GIB, thick: false, pool: None, asked: MemberId(1) };
    let empty = place(&Roll::default(), &wanted);
    assert_eq!(empty, Err(PlacementError::NobodyPresent("default".to_owned())));
}

/// A member of an earlier version tells what it serves, and nothing of its room.
#[test]
fn who_says_nothing_of_its_room_is_not_taken_for_full() {
    let mut roll = roll_of(&[(1, true, None, "default"), (2, true, Some(GIB), "default")]);
    roll.inventories.insert(MemberId(1), Arc::default());
    assert_eq!(placed(&roll, 1, false, None), Ok(2));
    roll.inventories.insert(MemberId(2), Arc::default());
    let unknown = "no member of the pool 'default' is present and has said how much room it has";
    assert_eq!(placed(&roll, 1, false, None), Err(unknown.to_owned()));
}

fn sketches() -> impl Strategy<Value = Vec<Sketch>> {
    let pool = prop_oneof![Just("default"), Just("fast"), Just("slow")];
    let member = (any::<bool>(), proptest::option::of(0_u64..5), pool);
    proptest::collection::vec(member, 0..8).prop_map(|members| {
        let numbered = (1_u8..).zip(members);
        let sketch = |(number, (is_present, free, pool))| (number, is_present, free, pool);
        numbered.map(sketch).collect()
    })
}

proptest! {
    /// Whoever takes a volume can, and nobody who can has more room; where nobody takes it, nobody can.
    #[test]
    fn the_best_of_those_that_can_takes_it(
        members in sketches(),
        size_bytes in 0_u64..6,
        thick: bool,
        pool in prop_oneof![Just("default"), Just("fast"), Just("slow")],
    ) {
        let roll = roll_of(&members);
        let free_of = |sketch: &Sketch| {
            let (_, is_present, free, at) = *sketch;
            let free = free.filter(|_| is_present && at == pool)?;
            (free > 0 && (!thick || free >= size_bytes)).then_some(free)
        };
        let best = members.iter().filter_map(free_of).max();
        match placed(&roll, size_bytes, thick, Some(pool)) {
            Ok(number) => {
                let sketch = members.iter().find(|sketch| u16::from(sketch.0) == number);
                let free = sketch.and_then(free_of);
                prop_assert!(free.is_some());
                prop_assert_eq!(free, best);
                let is_lower = |sketch: &&Sketch| u16::from(sketch.0) < number;
                let lower = members.iter().filter(is_lower).filter_map(free_of).max();
                prop_assert!(lower < best);
            }
            Err(why) => prop_assert_eq!(best, None, "{}", why),
        }
    }
}
