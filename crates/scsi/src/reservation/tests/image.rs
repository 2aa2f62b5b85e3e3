//! The APTPL image.

use super::*;
use ReservationType::*;
use proptest::prelude::*;

fn persistent(kind: ReservationType) -> Reservations {
    let mut unit = Unit::reserved(kind);
    let _ = unit.out(&nexus(0), ProutAction::Register, 0, &basic((10, 10), 0x01)).unwrap();
    unit.state
}

/// Equal but for the revision, which counts changes of one process.
fn same(a: &Reservations, b: &Reservations) -> bool {
    Reservations { revision: 0, ..a.clone() } == Reservations { revision: 0, ..b.clone() }
}

#[test]
fn image_round_trip() {
    for kind in ReservationType::ALL {
        let state = persistent(kind);
        let back = Reservations::from_bytes(&state.to_bytes()).unwrap();
        assert!(same(&state, &back), "{kind:?}");
    }
    let empty = Reservations::new();
    assert!(same(&empty, &Reservations::from_bytes(&empty.to_bytes()).unwrap()));
}

#[test]
fn the_first_bytes_are_as_drawn() {
    let image = persistent(ExclusiveAccess).to_bytes();
    let head = [*b"DPRS", [0, 1, 1, 3], [0, 0, 0, 4], [0, 0, 0, 0], [0, 0, 0, 3]].concat();
    assert_eq!(image[..20], head);
    assert_eq!(image[20..38], [0, 0, 0, 0, 0, 0, 0, 10, 0, 1, 0x40, 0, 0, 0, 0, 0, 0, 30]);
}

/// Whom registrations are counted for is kept. Earlier releases read what has them counted by name, as they did.
#[test]
fn owners_that_are_not_the_names_make_another_version() {
    let mut unit = Unit { state: persistent(WriteExclusive) };
    assert_eq!(unit.state.to_bytes()[5], 1);
    let by = Registrar { nexus: nexus(7), owner: "CHAP user bob".into() };
    let list = basic((0, 7), 1);
    let _ = unit.out(by, ProutAction::Register, 0, &list).unwrap();
    let image = unit.state.to_bytes();
    assert_eq!(image[5], 2);
    let back = Reservations::from_bytes(&image).unwrap();
    assert!(same(&back, &unit.state));
    let owners: Vec<_> = back.info().registrants.iter().map(|one| one.owner.to_string()).collect();
    assert_eq!(owners[2..], [nexus(2).initiator.to_string(), "CHAP user bob".to_owned()]);
    assert!(matches!(sealed(image, |b| b[5] = 1), Err(ImageError::Contents(_))));
}

#[test]
fn power_on_keeps_what_aptpl_asked_to_keep() {
    let mut kept = persistent(WriteExclusive);
    kept.power_on();
    assert_eq!(kept.reservation(), Some(WriteExclusive));
    let unit = Unit { state: kept };
    assert_eq!(unit.keys(), (0, vec![10, 11, 12]), "PRGENERATION starts again");
    let mut dropped = Unit::reserved(WriteExclusive).state;
    dropped.power_on();
    assert!(same(&dropped, &Reservations::new()));
}

/// The same unit behind another target port: nothing but the port of its nexuses is another.
#[test]
fn behind_another_port_the_same_hosts_are_registered() {
    for kind in ReservationType::ALL {
        for mut state in [persistent(kind), Unit::reserved(kind).state] {
            let image = with_port(&state.to_bytes(), 1, 7).unwrap();
            let moved = Reservations::from_bytes(&image).unwrap();
            for number in 0..4 {
                let (here, there) = (nexus(number), NexusKey { target_port: 7, ..nexus(number) });
                assert_eq!(moved.key_of(&there), state.key_of(&here), "{kind:?}");
                assert_eq!(moved.access(&there), state.access(&here), "{kind:?} of {number}");
                assert_eq!(moved.key_of(&here), None, "{kind:?}");
            }
            assert_eq!(is_persistent(&image), Ok(state.is_persistent()));
            assert_eq!(with_port(&image, 7, 1).unwrap(), state.to_bytes(), "and back");
            assert_eq!(with_port(&image, 3, 4).unwrap(), image, "nobody came by that one");
            state.power_on();
            assert_eq!(state.key_of(&nexus(0)).is_some(), is_persistent(&image).unwrap());
        }
    }
}

/// A host that has registered by both numbers, of which one was that of an earlier life of the unit.
#[test]
fn who_was_registered_by_the_new_port_before_is_not_registered_by_it() {
    let mut unit = Unit::reserved(WriteExclusiveRegistrantsOnly);
    let old = NexusKey { target_port: 7, ..nexus(5) };
    unit.register(&old, 55);
    unit.register(&NexusKey { target_port: 7, ..nexus(0) }, 77);
    let image = with_port(&unit.state.to_bytes(), 1, 7).unwrap();
    let moved = Reservations::from_bytes(&image).unwrap();
    assert_eq!(moved.key_of(&NexusKey { target_port: 7, ..nexus(0) }), Some(10));
    assert_eq!(moved.key_of(&nexus(0)), Some(77));
    assert_eq!((moved.key_of(&old), moved.key_of(&nexus(5))), (None, Some(55)));
    assert!(
        moved.conflicts(&old, AccessClass::Write),
        "no host came by that number, and none is let in by it"
    );
}

#[test]
fn what_is_no_image_has_no_ports() {
    let mut image = persistent(WriteExclusive).to_bytes();
    assert_eq!(with_port(b"nonsense", 1, 2), Err(ImageError::Magic));
    image[25] ^= 1;
    assert_eq!(with_port(&image, 1, 2), Err(ImageError::Checksum));
    assert_eq!(is_persistent(&image), Err(ImageError::Checksum));
}

/// Replaces the checksum, so that the contents are what is judged.
fn sealed(mut image: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), ImageError> {
    let state = Reservations::from_bytes(&image).unwrap();
    image.truncate(image.len() - 4);
    change(&mut image);
    let crc = crate::reservation::persist::crc32c(&image);
    image.extend(crc.to_be_bytes());
    Reservations::from_bytes(&image).map(|other| assert!(!same(&state, &other)))
}

#[test]
fn contents_that_cannot_be_are_refused() {
    let image = || persistent(WriteExclusive).to_bytes();
    let contradicts =
        |change: fn(&mut Vec<u8>)| matches!(sealed(image(), change), Err(ImageError::Contents(_)));
    assert_eq!(sealed(image(), |b| b[0] = b'X'), Err(ImageError::Magic));
    assert_eq!(sealed(image(), |b| b[5] = 3), Err(ImageError::Version(3)));
    assert!(contradicts(|b| b[7] = 2), "unknown type");
    assert!(contradicts(|b| b[7] = 0), "a holder and no reservation");
    assert!(contradicts(|b| b[7] = 7), "a single holder of an all registrants type");
    assert!(contradicts(|b| b[15] = 3), "the holder is not in the list");
    assert!(contradicts(|b| b[12..16].fill(0xff)), "no holder of a write exclusive type");
    assert!(contradicts(|b| b[16] = 1), "16 million registrations");
    assert!(contradicts(|b| b[19] = 2), "bytes left over");
    assert!(contradicts(|b| b[19] = 4), "bytes missing");
    assert!(contradicts(|b| b[27] = 0), "a zero key");
    assert!(contradicts(|b| b[37] = 0), "an empty name");
    assert!(contradicts(|b| b[38] = 0xff), "a name that is not UTF-8");
    let twice = |b: &mut Vec<u8>| {
        let entry = 18 + 30;
        b.copy_within(20..20 + entry, 20 + entry);
    };
    assert!(contradicts(twice), "one nexus twice");
    assert_eq!(sealed(image(), |b| b[27] = 9), Ok(()), "another key is just another state");
}

proptest! {
    #[test]
    fn a_flipped_bit_is_found(at in 0_usize..190, bit in 0_u8..8) {
        let mut image = persistent(WriteExclusive).to_bytes();
        let at = at % image.len();
        image[at] ^= 1 << bit;
        prop_assert!(Reservations::from_bytes(&image).is_err());
    }

    #[test]
    fn no_bytes_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), seal in any::<bool>()
    ) {
        if seal {
            bytes.splice(0..bytes.len().min(6), *b"DPRS\0\x01");
            let crc = crate::reservation::persist::crc32c(&bytes);
            bytes.extend(crc.to_be_bytes());
        }
        let _ = Reservations::from_bytes(&bytes);
    }
}
