//! Records on holders that fail, lag and tear.

use block::testing::{Fault, FaultyDisk, Operation, Rule};
use proptest::prelude::*;

use super::*;
use crate::testing::{flip, peek, poke, ram_disk, run};

const SIZE: u64 = 16 << 20;
const ARRAY: ArrayId = ArrayId([3; 16]);

fn layout() -> Layout {
    Layout::choose(&[SIZE], None).unwrap()
}

fn holders() -> Vec<Arc<dyn BlockDevice>> {
    (0..3).map(|_| ram_disk(SIZE)).collect()
}

fn write(devices: &[Arc<dyn BlockDevice>], number: u64, payload: &[u8]) {
    let results =
        run(write_slot(devices, &layout(), ARRAY, (number, payload), &|_, _| {})).unwrap();
    assert!(results.iter().all(Result::is_ok));
}

fn read(devices: &[Arc<dyn BlockDevice>]) -> Result<Slot, SlotError> {
    run(read_slots(devices, &layout(), ARRAY))
}

fn slot(number: u64, payload: &[u8], lagging: &[usize]) -> Slot {
    Slot { number, payload: payload.to_vec(), lagging: lagging.to_vec(), unread: Vec::new() }
}

#[test]
fn the_newest_record_is_found_on_whoever_has_it() {
    let devices = holders();
    assert_eq!(read(&devices), Err(SlotError::NoneWhole { array: ARRAY }));
    write(&devices, 1, b"one");
    assert_eq!(read(&devices), Ok(slot(1, b"one", &[])));
    write(&devices[1..2], 2, b"two");
    assert_eq!(read(&devices), Ok(slot(2, b"two", &[0, 2])));
    write(&devices[..1], 3, b"");
    assert_eq!(read(&devices), Ok(slot(3, b"", &[1, 2])));
}

#[test]
fn a_record_is_of_one_array_and_of_its_slot() {
    let devices = holders();
    write(&devices, 1, b"one");
    let other = run(read_slots(&devices, &layout(), ArrayId([4; 16])));
    assert!(matches!(other, Err(SlotError::NoneWhole { .. })));
    // A misdirected write: record 1 in the slot of even numbers.
    let image = peek(&*devices[0], layout().checkpoint_at(1), 8192);
    let devices = holders();
    poke(&*devices[0], layout().checkpoint_at(0), &image);
    assert_eq!(read(&devices), Err(SlotError::NoneWhole { array: ARRAY }));
}

#[test]
fn a_record_torn_at_any_sector_leaves_the_one_before() {
    let payload: Vec<u8> = (0..10_000_u32).map(|n| (n / 7) as u8).collect();
    let (layout, newer) = (layout(), holders());
    write(&newer[..1], 4, &payload);
    let image = peek(&*newer[0], layout.checkpoint_at(0), 4 * BLOCK_BYTES);
    for sectors in 0..image.len() / 512 {
        let devices = vec![ram_disk(SIZE)];
        write(&devices, 2, b"two");
        write(&devices, 3, b"three");
        if sectors > 0 {
            poke(&*devices[0], layout.checkpoint_at(0), &image[..sectors * 512]);
        }
        let found = read(&devices).unwrap();
        let complete = sectors * 512 >= BLOCK_BYTES + payload.len();
        assert_eq!(found.number, if complete { 4 } else { 3 }, "{sectors} sectors");
    }
}

#[test]
fn no_flipped_bit_passes() {
    let devices = vec![ram_disk(SIZE)];
    write(&devices, 1, b"old");
    write(&devices, 2, &[0x5a; 300]);
    let at = layout().checkpoint_at(0) * 8;
    let payload = at + 8 * BLOCK_BYTES as u64;
    for bit in
        (at..at + 600).chain((at..at + 2 * 8 * 4096).step_by(97)).chain(payload..payload + 40)
    {
        flip(&*devices[0], bit);
        assert_eq!(read(&devices), Ok(slot(1, b"old", &[])), "bit {}", bit - at);
        flip(&*devices[0], bit);
    }
    assert_eq!(read(&devices).unwrap().number, 2);
}

/// Three refusals in a row on an opening of a machine short of memory made the older record the newest.
#[test]
fn want_of_memory_makes_no_older_record_the_newest() {
    let faulty = FaultyDisk::new(ram_disk(SIZE));
    let devices: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(faulty.clone())];
    write(&devices, 1, b"one");
    write(&devices, 2, b"two");
    let at = layout().checkpoint_at(0);
    for part in [at..at + 1, at + 4096..at + 4097] {
        let fault = Fault::Fail(BlockError::NoMemory);
        faulty.inject(Rule::always(Operation::Read, fault).at(part));
        assert_eq!(read(&devices), Err(SlotError::NoMemory));
        faulty.heal();
        assert_eq!(read(&devices), Ok(slot(2, b"two", &[])));
    }
}

#[test]
fn a_read_that_fails_once_is_tried_again_and_one_that_fails_is_told() {
    let error = BlockError::Medium { at: 0 };
    let faulty = FaultyDisk::new(ram_disk(SIZE));
    let devices: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(faulty.clone())];
    write(&devices, 1, b"one");
    write(&devices, 2, b"two");
    let at = layout().checkpoint_at(0);
    let bad = Rule::always(Operation::Read, Fault::Fail(error)).at(at..at + 1);
    faulty.inject(bad.clone().times(1));
    assert_eq!(read(&devices), Ok(slot(2, b"two", &[])));
    faulty.inject(bad);
    assert_eq!(read(&devices), Ok(Slot { unread: vec![0], ..slot(1, b"one", &[]) }));
    run(void_other(&*devices[0], &layout(), 1)).unwrap();
    faulty.heal();
    assert_eq!(read(&devices), Ok(slot(1, b"one", &[])), "the other is gone for good");
}

#[test]
fn each_holder_answers_for_itself() {
    let error = BlockError::Medium { at: 0 };
    let faulty = FaultyDisk::new(ram_disk(SIZE));
    let devices: Vec<Arc<dyn BlockDevice>> = vec![ram_disk(SIZE), Arc::new(faulty.clone())];
    write(&devices, 1, b"one");
    faulty.inject(Rule::always(Operation::Flush, Fault::Fail(error)));
    let results = run(write_slot(&devices, &layout(), ARRAY, (2, b"two"), &|_, _| {})).unwrap();
    assert_eq!(results, [Ok(()), Err(error)]);
    faulty.heal();
    faulty.inject(Rule::always(Operation::Read, Fault::Fail(error)));
    assert_eq!(read(&devices), Ok(Slot { unread: vec![1], ..slot(2, b"two", &[1]) }));
    assert_eq!(read(&devices[1..]), Err(SlotError::Unreadable { array: ARRAY, error }));
}

#[test]
fn a_slot_has_an_end() {
    let devices = vec![ram_disk(SIZE)];
    let max = payload_bytes_max(&layout()) as usize;
    let payload = vec![7; max];
    write(&devices, 1, &payload);
    write(&devices, 2, &payload);
    assert_eq!(read(&devices), Ok(slot(2, &payload, &[])));
    let refused = run(write_slot(&devices, &layout(), ARRAY, (3, &vec![7; max + 1]), &|_, _| {}));
    assert!(matches!(refused, Err(SlotError::TooLong { .. })));
    assert!(peek(&*devices[0], layout().redo_at(), 4096).iter().all(|byte| *byte == 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_survive_the_trip(
        payload in proptest::collection::vec(any::<u8>(), 0..20_000),
        number in 1_u64..,
    ) {
        let devices = vec![ram_disk(SIZE)];
        write(&devices, number, &payload);
        prop_assert_eq!(read(&devices), Ok(slot(number, &payload, &[])));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 512), len_bytes in any::<u64>(),
    ) {
        let devices = vec![ram_disk(SIZE)];
        poke(&*devices[0], layout().checkpoint_at(0), &bytes);
        prop_assert!(read(&devices).is_err());
        let mut block = [0; BLOCK_BYTES];
        Head { array: ARRAY, number: 2, len_bytes, crc: 1 }.encode(&MAGIC, &mut block);
        poke(&*devices[0], layout().checkpoint_at(0), &block);
        prop_assert!(read(&devices).is_err());
    }
}
