//! Labels as bytes and on disks.

use proptest::prelude::*;

use super::format::{Copy, decode, encode};
use super::*;
use crate::testing::{flip, peek, poke, ram_disk, run};

const SIZE: u64 = 16 << 20;
const LEN: usize = LABEL_BYTES as usize;

fn label(generation: u64, disk: u16, states: &[MemberState]) -> Label {
    let members = states.iter().enumerate().map(|(number, state)| MemberRecord {
        disk: DiskId(number as u16),
        uuid: [number as u8; 16],
        size_bytes: SIZE,
        state: *state,
        kind: MemberKind::Data,
        name: format!("d{number}"),
    });
    let active = |number: &usize| states[*number] == MemberState::Active;
    let holders = (0..states.len()).filter(active).take(3).map(|number| DiskId(number as u16));
    let holders: Vec<DiskId> = holders.collect();
    Label {
        array: ArrayId([7; 16]),
        generation,
        change: ChangeId(generation.wrapping_mul(77)),
        ancestors: (0..generation.min(5)).map(ChangeId).collect(),
        disk: DiskId(disk),
        layout: Layout::choose(&[SIZE], None).unwrap(),
        members: members.collect(),
        journal: holders.clone(),
        holders,
        went_out: Vec::new(),
    }
}

const ALL_ACTIVE: &[MemberState] = &[MemberState::Active; 5];
const STALE: MemberState = MemberState::Stale(Since { checkpoint: 9, position: 4096 });

fn bytes_of(label: &Label, at: u64) -> Vec<u8> {
    let mut bytes = vec![0xee; LEN];
    encode(label, at, &mut bytes).unwrap();
    bytes
}

fn found(label: &Label) -> Found {
    Found::Label { label: Box::new(label.clone()), rewrite: false, is_cut: false }
}

#[test]
fn no_flipped_bit_passes() {
    let mut bytes = bytes_of(&label(3, 1, ALL_ACTIVE), 0);
    // All of what is in use, and some of the zeroes behind it.
    for bit in (0..8 * 700).chain((8 * 700..8 * LEN).step_by(1013)) {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let copy = decode(&bytes, 0);
        assert!(matches!(copy, Copy::Damaged(_) | Copy::Other), "bit {bit}: {copy:?}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(matches!(decode(&bytes, 0), Copy::Good(_)));
    assert!(matches!(decode(&bytes, LABEL_BYTES), Copy::Damaged(_)), "in the wrong place");
}

#[test]
fn a_label_torn_at_any_sector_leaves_the_old_or_the_new_one() {
    let (old, new) = (label(3, 1, ALL_ACTIVE), label(4, 1, &[MemberState::Active, STALE]));
    let b_at = Layout::label_b_at(SIZE).unwrap();
    for at in [0, b_at] {
        for sectors in 0..=LEN / 512 {
            let disk = ram_disk(SIZE);
            run(write(&*disk, &old)).unwrap();
            if at == b_at {
                poke(&*disk, 0, &bytes_of(&new, 0));
            }
            if sectors > 0 {
                poke(&*disk, at, &bytes_of(&new, at)[..sectors * 512]);
            }
            let Found::Label { label, rewrite, .. } = run(read(&*disk)).unwrap() else {
                panic!("{sectors} sectors at {at}")
            };
            assert!(*label == old || *label == new, "{sectors} sectors at {at}");
            // The last sectors are zeroes in both, so it can be complete before its last sector.
            let a_new = peek(&*disk, 0, LEN) == bytes_of(&new, 0);
            let b_new = peek(&*disk, b_at, LEN) == bytes_of(&new, b_at);
            assert_eq!(*label == new, a_new || b_new, "{sectors} sectors at {at}");
            let untouched = *label == old && sectors == 0;
            assert_eq!(rewrite, !(untouched || a_new && b_new), "{sectors} sectors at {at}");
        }
    }
}

#[test]
fn reads_that_fail_for_a_moment_keep_no_disk_out() {
    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    let label = label(3, 1, ALL_ACTIVE);
    let ram = ram_disk(SIZE);
    run(write(&*ram, &label)).unwrap();
    let disk = FaultyDisk::new(ram);
    let fault = || Fault::Fail(block::BlockError::Medium { at: 0 });
    disk.inject(Rule::always(Operation::Read, fault()).times(2));
    assert_eq!(
        run(read(&disk)),
        Ok(Found::Label { label: Box::new(label), rewrite: true, is_cut: false })
    );
    disk.inject(Rule::always(Operation::Read, fault()));
    assert!(run(read(&disk)).is_err(), "it must not pass for a blank one");
}

#[test]
fn one_good_copy_suffices_and_says_so() {
    let b_at = Layout::label_b_at(SIZE).unwrap();
    for bit in [5, b_at * 8 + 5, 8 * 100, (b_at + 100) * 8] {
        let disk = ram_disk(SIZE);
        let label = label(3, 1, ALL_ACTIVE);
        run(write(&*disk, &label)).unwrap();
        assert_eq!(run(read(&*disk)), Ok(found(&label)));
        flip(&*disk, bit);
        let both = Found::Label { label: Box::new(label), rewrite: true, is_cut: false };
        assert_eq!(run(read(&*disk)), Ok(both));
        // The same bit of the other copy: none is left.
        flip(&*disk, if bit < b_at * 8 { bit + b_at * 8 } else { bit - b_at * 8 });
        let both = run(read(&*disk)).unwrap();
        assert!(matches!(both, Found::Damaged(_) | Found::Foreign(_)), "{both:?}");
    }
}

#[test]
fn who_went_out_when_stands_behind_what_older_builds_read() {
    let plain = label(4, 1, &[MemberState::Active, MemberState::Active, STALE]);
    let says = Label { went_out: vec![(DiskId(2), 300)], ..plain.clone() };
    let (old, new) = (bytes_of(&plain, 0), bytes_of(&says, 0));
    assert_eq!(decode(&new, 0), Copy::Good(Box::new(says)));
    assert_eq!(decode(&old, 0), Copy::Good(Box::new(plain)));
    let len = |label: &[u8]| u32::from_le_bytes(label[12..16].try_into().unwrap()) as usize;
    assert_eq!(len(&old), len(&new));
    assert_eq!(old[64..64 + len(&old)], new[64..64 + len(&old)]);
}

/// A label over the blank end of a disk that was cut would be all that it needs to pass for whole.
#[test]
fn a_label_is_not_renewed_over_the_blank_end_of_a_disk_that_was_cut() {
    let label = label(3, 1, ALL_ACTIVE);
    let b_at = Layout::label_b_at(SIZE).unwrap();
    let disk = ram_disk(SIZE);
    run(write(&*disk, &label)).unwrap();
    run(renew(&*disk, &label)).unwrap();
    flip(&*disk, b_at * 8 + 5);
    run(renew(&*disk, &label)).expect("a bad copy is mended");
    poke(&*disk, b_at, &vec![0; LEN]);
    assert_eq!(run(renew(&*disk, &label)), Err(LabelError::CutShort));
    let half = ram_disk(SIZE / 2);
    assert_eq!(run(renew(&*half, &label)), Err(LabelError::CutShort));
    let grown = ram_disk(2 * SIZE);
    poke(&*grown, 0, &bytes_of(&label, 0));
    poke(&*grown, b_at, &bytes_of(&label, b_at));
    run(renew(&*grown, &label)).expect("its new end is blank, and nothing is lost");
    assert_eq!(run(read(&*grown)), Ok(found(&label)));
}

#[test]
fn a_disk_that_was_cut_short_is_told_from_one_that_has_grown() {
    let label = label(3, 1, ALL_ACTIVE);
    let b_at = Layout::label_b_at(SIZE).unwrap();
    let disk = ram_disk(SIZE);
    run(write(&*disk, &label)).unwrap();
    poke(&*disk, b_at, &vec![0; LEN]);
    let cut = Found::Label { label: Box::new(label.clone()), rewrite: true, is_cut: true };
    assert_eq!(run(read(&*disk)), Ok(cut.clone()));
    // Once more as large as it was when it joined.
    let disk = ram_disk(2 * SIZE);
    poke(&*disk, 0, &bytes_of(&label, 0));
    assert_eq!(
        run(read(&*disk)),
        Ok(cut),
        "it had grown before, and was cut to less than it had been"
    );
    poke(&*disk, b_at, &bytes_of(&label, b_at));
    let grown = Found::Label { label: Box::new(label), rewrite: true, is_cut: false };
    assert_eq!(run(read(&*disk)), Ok(grown));
}

/// A read that failed once too often, and a healthy disk counted as one that had lost all.
#[test]
fn a_disk_that_has_grown_is_not_blamed_for_a_read_that_fails() {
    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    let label = label(3, 1, ALL_ACTIVE);
    let b_at = Layout::label_b_at(SIZE).unwrap();
    let ram = ram_disk(2 * SIZE);
    poke(&*ram, 0, &bytes_of(&label, 0));
    poke(&*ram, b_at, &bytes_of(&label, b_at));
    let disk = FaultyDisk::new(ram);
    let fails = |error| {
        disk.heal();
        disk.inject(Rule::always(Operation::Read, Fault::Fail(error)).at(b_at..b_at + 1));
        run(read(&disk))
    };
    let grown = Found::Label { label: Box::new(label), rewrite: true, is_cut: false };
    assert_eq!(fails(block::BlockError::Medium { at: b_at }), Ok(grown));
    for passing in [block::BlockError::NoMemory, block::BlockError::Busy] {
        assert_eq!(fails(passing), Err(passing), "it says nothing about the disk");
    }
}

#[test]
fn blank_and_foreign_disks_are_told_apart() {
    let disk = ram_disk(SIZE);
    assert_eq!(run(read(&*disk)), Ok(Found::Blank));
    for at in [0, 100 << 10, SIZE - 512] {
        let disk = ram_disk(SIZE);
        poke(&*disk, at, &[1; 512]);
        assert_eq!(run(read(&*disk)), Ok(Found::Foreign("data of unknown kind".into())));
    }
    let mut sector = [0; 512];
    sector[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
    poke(&*disk, 1024, &sector);
    let Ok(Found::Foreign(what)) = run(read(&*disk)) else { panic!() };
    assert!(what.contains("ext4"));
    assert!(matches!(run(read(&*ram_disk(64 << 10))), Ok(Found::Foreign(_))));
}

#[test]
fn a_disk_that_cannot_be_read_is_never_blank() {
    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    let error = block::BlockError::Medium { at: 0 };
    let b_at = Layout::label_b_at(SIZE).unwrap();
    for bytes in [0..4096, b_at..SIZE] {
        let disk = FaultyDisk::new(ram_disk(SIZE));
        let rule = Rule::always(Operation::Read, Fault::Fail(error)).at(bytes);
        disk.inject(rule.clone());
        assert_eq!(run(read(&disk)), Err(error));
        let label = label(3, 1, ALL_ACTIVE);
        run(write(&disk, &label)).unwrap();
        let found = run(read(&disk));
        assert_eq!(
            found,
            Ok(Found::Label { label: Box::new(label), rewrite: true, is_cut: false })
        );
    }
}

#[test]
fn another_version_and_a_shrunk_disk_are_refused() {
    let disk = ram_disk(SIZE);
    let mut bytes = bytes_of(&label(3, 1, ALL_ACTIVE), 0);
    bytes[8] = 3;
    let crc = crate::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes[5000] = 1;
    poke(&*disk, 0, &bytes);
    assert_eq!(run(read(&*disk)), Ok(Found::Version(3)));
    let half = ram_disk(SIZE / 2);
    poke(&*half, 0, &bytes_of(&label(3, 1, ALL_ACTIVE), 0));
    let Ok(Found::Damaged(why)) = run(read(&*half)) else { panic!() };
    assert!(why.contains("16777216"), "{why}");
}

#[test]
fn a_write_makes_the_first_copy_durable_before_it_touches_the_second() {
    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    let disk = FaultyDisk::new(ram_disk(SIZE));
    let (old, new) = (label(3, 1, ALL_ACTIVE), label(4, 1, ALL_ACTIVE));
    run(write(&disk, &old)).unwrap();
    let fault = Fault::Fail(block::BlockError::Medium { at: 0 });
    disk.inject(Rule::always(Operation::Write, fault).at(0..512));
    assert!(run(write(&disk, &new)).is_err());
    assert_eq!(run(read(&disk)), Ok(found(&old)), "the second copy is untouched");
}

#[test]
fn too_many_members_are_an_error() {
    let many = label(1, 0, &[MemberState::Active; 3000]);
    let mut bytes = vec![0; LEN];
    assert_eq!(encode(&many, 0, &mut bytes), Err(LabelError::TooManyMembers { members: 3000 }));
}

fn any_label() -> impl Strategy<Value = Label> {
    let state = prop_oneof![
        Just(MemberState::Active),
        (any::<u64>(), any::<u64>())
            .prop_map(|(checkpoint, position)| MemberState::Stale(Since { checkpoint, position })),
        Just(MemberState::Failed),
        Just(MemberState::Retired),
    ];
    (proptest::collection::vec(state, 1..100), any::<[u8; 16]>(), any::<u64>(), any::<u16>())
        .prop_map(|(states, array, generation, disk)| Label {
            array: ArrayId(array),
            ..label(generation, disk % states.len() as u16, &states)
        })
}

proptest! {
    #[test]
    fn labels_survive_the_trip(label in any_label(), at in any::<u64>()) {
        prop_assert_eq!(decode(&bytes_of(&label, at), at), Copy::Good(Box::new(label)));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        whole in any::<bool>(),
    ) {
        // With right checksums around them, so that the body is looked at too.
        let mut image = bytes_of(&label(1, 0, ALL_ACTIVE), 0);
        image[64..64 + bytes.len()].copy_from_slice(&bytes);
        if whole {
            image[12..16].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            let crc = crate::crc32c(&image[64..]);
            image[44..48].copy_from_slice(&crc.to_le_bytes());
            let crc = crate::crc32c(&image[..60]);
            image[60..64].copy_from_slice(&crc.to_le_bytes());
        }
        let _ = decode(&image, 0);
        image[..bytes.len()].copy_from_slice(&bytes);
        let _ = decode(&image, 0);
    }
}

#[test]
fn an_erased_disk_is_blank_and_one_that_is_half_erased_is_never() {
    let disk = ram_disk(SIZE);
    let b_at = Layout::label_b_at(SIZE).unwrap();
    run(write(&*disk, &label(0, 1, ALL_ACTIVE))).unwrap();
    poke(&*disk, LABEL_BYTES, &[7; 4096]);
    poke(&*disk, b_at, &[0; LEN]);
    assert!(matches!(run(read(&*disk)).unwrap(), Found::Label { .. }), "label B goes first");
    assert!(!run(is_cut_off(&*disk)).unwrap());
    // Label A may be torn on its way out, as on its way in.
    let mut sector = peek(&*disk, 0, 512);
    sector[100..].fill(0);
    poke(&*disk, 0, &sector);
    assert!(matches!(run(read(&*disk)).unwrap(), Found::Damaged(_)));
    assert!(run(is_cut_off(&*disk)).unwrap());
    poke(&*disk, b_at, &bytes_of(&label(3, 1, ALL_ACTIVE), b_at));
    assert!(!run(is_cut_off(&*disk)).unwrap(), "it was a whole disk once");
    run(erase(&*disk)).unwrap();
    assert_eq!(run(read(&*disk)).unwrap(), Found::Blank);
    assert_eq!(peek(&*disk, 256 << 10, LEN), peek(&*disk, SIZE / 2, LEN));
}
