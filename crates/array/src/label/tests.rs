//! Labels as bytes and on disks, and the choice between them.

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
    });
    let active = |number: &usize| states[*number] == MemberState::Active;
    Label {
        array: ArrayId([7; 16]),
        generation,
        disk: DiskId(disk),
        layout: Layout::choose(&[SIZE], None).unwrap(),
        members: members.collect(),
        holders: (0..states.len())
            .filter(active)
            .take(3)
            .map(|number| DiskId(number as u16))
            .collect(),
    }
}

const ALL_ACTIVE: &[MemberState] = &[MemberState::Active; 5];
const STALE: MemberState = MemberState::Stale { since_checkpoint: 9 };

fn bytes_of(label: &Label, at: u64) -> Vec<u8> {
    let mut bytes = vec![0xee; LEN];
    encode(label, at, &mut bytes).unwrap();
    bytes
}

fn found(label: &Label) -> Found {
    Found::Label { label: Box::new(label.clone()), rewrite: false }
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
            let Found::Label { label, rewrite } = run(read(&*disk)).unwrap() else {
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
fn one_good_copy_suffices_and_says_so() {
    let b_at = Layout::label_b_at(SIZE).unwrap();
    for bit in [5, b_at * 8 + 5, 8 * 100, (b_at + 100) * 8] {
        let disk = ram_disk(SIZE);
        let label = label(3, 1, ALL_ACTIVE);
        run(write(&*disk, &label)).unwrap();
        assert_eq!(run(read(&*disk)), Ok(found(&label)));
        flip(&*disk, bit);
        let both = Found::Label { label: Box::new(label), rewrite: true };
        assert_eq!(run(read(&*disk)), Ok(both));
        // The same bit of the other copy: none is left.
        flip(&*disk, if bit < b_at * 8 { bit + b_at * 8 } else { bit - b_at * 8 });
        let both = run(read(&*disk)).unwrap();
        assert!(matches!(both, Found::Damaged(_) | Found::Foreign(_)), "{both:?}");
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
        assert_eq!(found, Ok(Found::Label { label: Box::new(label), rewrite: true }));
    }
}

#[test]
fn another_version_and_a_shrunk_disk_are_refused() {
    let disk = ram_disk(SIZE);
    let mut bytes = bytes_of(&label(3, 1, ALL_ACTIVE), 0);
    bytes[8] = 2;
    let crc = crate::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    bytes[5000] = 1;
    poke(&*disk, 0, &bytes);
    assert_eq!(run(read(&*disk)), Ok(Found::Version(2)));
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

fn given(labels: &[Label]) -> Vec<(String, Found)> {
    let names = labels.iter().map(|label| (format!("d{}", label.disk.0), found(label)));
    names.collect()
}

fn all(generation: u64, states: &[MemberState]) -> Vec<Label> {
    (0..states.len()).map(|disk| label(generation, disk as u16, states)).collect()
}

#[test]
fn all_disks_in_any_order_make_the_array() {
    let mut labels = all(5, ALL_ACTIVE);
    labels.reverse();
    let membership = choose(&given(&labels), false).unwrap();
    assert_eq!(membership.current.len(), 5);
    assert_eq!(membership.current[0], Present { index: 0, disk: DiskId(4) });
    assert!(membership.missing.is_empty() && membership.rewrite.is_empty());
    assert_eq!(membership.label.generation, 5);
}

#[test]
fn the_newest_label_says_who_is_stale_failed_or_missing() {
    let states = [MemberState::Active, MemberState::Active, MemberState::Active, STALE, STALE];
    let mut labels = all(6, &states);
    labels[2] = label(5, 2, ALL_ACTIVE); // a change was cut off before it reached this disk
    labels[3] = label(4, 3, ALL_ACTIVE);
    labels.pop();
    let mut disks = given(&labels);
    disks.push(("x".into(), Found::Blank));
    let membership = choose(&disks, false).unwrap();
    assert_eq!(membership.label.generation, 6);
    assert_eq!(membership.current.len(), 3);
    assert_eq!(membership.stale, [(Present { index: 3, disk: DiskId(3) }, 9)]);
    assert_eq!(membership.missing, [DiskId(4)]);
    assert_eq!(membership.foreign, [(4, "blank".to_owned())]);
    let rewrite: Vec<u16> = membership.rewrite.iter().map(|present| present.disk.0).collect();
    assert_eq!(rewrite, [2, 3]);
}

#[test]
fn disks_that_left_are_put_aside() {
    let states = [MemberState::Active, MemberState::Failed, MemberState::Retired];
    let mut labels = all(6, &states);
    let mut impostor = label(2, 0, ALL_ACTIVE);
    impostor.members[0].uuid = [99; 16];
    let membership = choose(&given(&labels), false).unwrap();
    assert_eq!((membership.current.len(), membership.foreign.len()), (1, 2));
    assert!(membership.missing.is_empty() && membership.rewrite.is_empty());
    labels[0] = impostor;
    let refusal = choose(&given(&labels), false).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::NoMajority { present: 0, active: 1, .. }));
    let refusal = choose(&given(&labels), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::NoHolders { present: 0, .. }), "nothing to start from");
}

#[test]
fn a_majority_is_needed_unless_the_operator_accepts() {
    let labels = all(5, ALL_ACTIVE);
    assert!(choose(&given(&labels[..3]), false).is_ok());
    let refusal = choose(&given(&labels[..2]), false).unwrap_err();
    let text = refusal.to_string();
    assert!(text.contains("2 of the 5") && text.contains("disk 2, disk 3, disk 4"), "{text}");
    assert!(choose(&given(&labels[..2]), true).is_ok());
    // Three of five, but one of three holders.
    let refusal = choose(&given(&labels[2..]), false).unwrap_err();
    assert!(refusal.to_string().contains("1 of the 3 disks with the journal"), "{refusal}");
    assert!(choose(&given(&labels[2..]), true).is_ok());
    let refusal = choose(&given(&labels[3..]), true).unwrap_err();
    assert!(refusal.to_string().contains("add one of them"), "{refusal}");
}

#[test]
fn each_refusal_names_the_disk() {
    let mut labels = all(5, ALL_ACTIVE);
    labels[3].array = ArrayId([8; 16]);
    let refusal = choose(&given(&labels), true).unwrap_err();
    assert!(refusal.to_string().starts_with("d0 belongs to array 07"), "{refusal}");
    assert!(refusal.to_string().contains("but d3 to array 08"), "{refusal}");

    let mut labels = all(5, ALL_ACTIVE);
    labels[3] = labels[1].clone();
    let mut disks = given(&labels);
    disks[3].0 = "copy".into();
    let refusal = choose(&disks, true).unwrap_err();
    assert!(refusal.to_string().starts_with("d1 and copy both are disk 1"), "{refusal}");

    let refusal = choose(&given(&all(0, ALL_ACTIVE)), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::HalfMade { ref name, .. } if name == "d0"));

    let mut disks = given(&all(5, ALL_ACTIVE));
    disks[2].1 = Found::Version(2);
    let refusal = choose(&disks, true).unwrap_err();
    assert!(refusal.to_string().starts_with("d2 has format version 2"), "{refusal}");

    let disks = [("sdx".to_owned(), Found::Foreign("an XFS file system".into()))];
    let refusal = choose(&disks, true).unwrap_err();
    assert!(refusal.to_string().ends_with("sdx is an XFS file system"), "{refusal}");
    assert!(choose(&[], true).unwrap_err().to_string().contains("the 0 given"));
}

#[test]
fn rivals_of_one_generation_are_decided_by_most_disks_or_not_at_all() {
    let active = MemberState::Active;
    // A change that found disk 2 away reached disk 0 only; then 1 and 2 went on without disk 0.
    let cut_off = [active, active, STALE];
    let relied_on = [STALE, active, active];
    let rivals = [label(6, 0, &cut_off), label(6, 1, &relied_on), label(6, 2, &relied_on)];
    let membership = choose(&given(&rivals), false).unwrap();
    assert_eq!(membership.stale[0].0.disk, DiskId(0));
    assert_eq!(membership.current.len(), 2);
    let refusal = choose(&given(&rivals[..2]), true).unwrap_err();
    assert!(matches!(refusal, OpenRefusal::Split { generation: 6, .. }), "{refusal}");
}

fn any_label() -> impl Strategy<Value = Label> {
    let state = prop_oneof![
        Just(MemberState::Active),
        any::<u64>().prop_map(|since_checkpoint| MemberState::Stale { since_checkpoint }),
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

    #[test]
    fn choosing_never_panics_and_never_relies_on_a_minority(
        parts in proptest::collection::vec((0_u16..5, 0_u64..4, 0_u8..3), 0..6),
        accept in any::<bool>(),
    ) {
        let kinds = [ALL_ACTIVE, &[MemberState::Active, STALE, MemberState::Active,
            MemberState::Failed, MemberState::Active], &[STALE, MemberState::Active,
            MemberState::Active, MemberState::Active, MemberState::Retired]];
        let labels: Vec<Label> = parts.iter()
            .map(|(disk, generation, kind)| label(*generation, *disk, kinds[usize::from(*kind)]))
            .collect();
        if let Ok(membership) = choose(&given(&labels), accept) {
            let active = membership.label.active().count();
            prop_assert!(accept || membership.current.len() * 2 > active);
            prop_assert!(labels.iter().all(|l| l.generation <= membership.label.generation));
            let uses = membership.current.len() + membership.stale.len();
            prop_assert_eq!(uses + membership.foreign.len(), labels.len());
        }
    }
}
