//! Each kind of wrong data is told by its name, and what is right is never accused.

use proptest::prelude::*;

use super::*;

const BLOCK: usize = 4096;
const VOLUME_BYTES: u64 = 1 << 20;

fn ledger() -> Ledger {
    let mut ledger = Ledger::new(77, BLOCK as u32);
    assert_eq!(ledger.add_volume("a", VOLUME_BYTES, 512), 0);
    assert_eq!(ledger.add_volume("b", VOLUME_BYTES, 4096), 1);
    ledger
}

/// One write of a block: its bytes, as they go to the disk.
fn write(ledger: &mut Ledger, volume: u16, at: u64) -> Vec<u8> {
    let bytes = begin(ledger, volume, at);
    ledger.done(volume, at, BLOCK as u64, ledger.sequence_of(&bytes));
    bytes
}

fn begin(ledger: &mut Ledger, volume: u16, at: u64) -> Vec<u8> {
    let unix_ns = unix_ns();
    let sequence = ledger.next_sequence(unix_ns);
    let mut bytes = vec![0; BLOCK];
    let sector = at / SECTOR_BYTES as u64;
    fill(&mut bytes, Stamp { sector, volume, sequence, key: ledger.key, unix_ns });
    bytes
}

impl Ledger {
    fn sequence_of(&self, bytes: &[u8]) -> u64 {
        Stamp::read(bytes).unwrap().sequence
    }
}

fn seen(ledger: &mut Ledger, volume: u16, at: u64, bytes: &[u8]) -> Option<Mismatch> {
    let mut found = None;
    ledger.check(volume, at, bytes, &mut |mismatch| found = Some(mismatch));
    found
}

#[test]
fn what_was_written_is_right() {
    let mut ledger = ledger();
    for _ in 0..3 {
        let bytes = write(&mut ledger, 0, 8192);
        assert_eq!(seen(&mut ledger, 0, 8192, &bytes), None);
    }
    assert_eq!(
        ledger.check(0, 0, &[0; BLOCK], &mut |_| panic!()),
        0,
        "never written, not compared"
    );
    assert_eq!(ledger.written_blocks(0), 1);
}

#[test]
fn each_mistake_has_its_name() {
    let mut ledger = ledger();
    let old = write(&mut ledger, 0, 4096);
    let new = write(&mut ledger, 0, 4096);
    let other = write(&mut ledger, 1, 4096);
    let beside = write(&mut ledger, 0, 8192);

    let found = seen(&mut ledger, 0, 4096, &old).unwrap();
    assert!(matches!(found.seen, Seen::Old { sequence: 1, written_unix_ns: 1.. }), "{found}");
    assert_eq!((found.lba, found.expected, found.at_bytes), (8, 2, 4096));
    let text = found.to_string();
    assert!(
        text.starts_with("a LBA 8 (byte 4096): expected write 2, last written at or soon after "),
        "{text}"
    );
    assert!(text.contains("; seen write 1, an earlier one, of "), "{text}");

    let elsewhere = |found: Option<Mismatch>| match found.unwrap().seen {
        Seen::Elsewhere { volume, at_bytes, .. } => (volume, at_bytes),
        seen => panic!("{seen}"),
    };
    let twin = seen(&mut ledger, 0, 4096, &other);
    let text = twin.as_ref().unwrap().to_string();
    assert!(text.contains(" of volume 1 (perhaps one disk by two names); read "), "{text}");
    assert_eq!(elsewhere(twin), (1, 4096));
    let text = seen(&mut ledger, 0, 4096, &beside).unwrap().to_string();
    assert!(!text.contains("perhaps"), "{text}");
    assert_eq!(elsewhere(seen(&mut ledger, 0, 4096, &beside)), (0, 8192));
    // A write that went astray is found where nothing was ever written, too.
    assert_eq!(elsewhere(seen(&mut ledger, 0, 0, &beside)), (0, 8192));

    let torn = [&new[..1024], &old[1024..]].concat();
    let found = seen(&mut ledger, 0, 4096, &torn).unwrap().seen;
    assert_eq!(found, Seen::Torn { sequences: (2, 1) });
    assert_eq!(seen(&mut ledger, 0, 4096, &[0; BLOCK]).unwrap().seen, Seen::Zeroes);
    assert_eq!(seen(&mut ledger, 0, 4096, &[9; BLOCK]).unwrap().seen, Seen::Foreign);
    let unanswered = begin(&mut ledger, 0, 4096);
    assert_eq!(seen(&mut ledger, 0, 4096, &unanswered).unwrap().seen, Seen::Newer { sequence: 5 });
}

#[test]
fn a_failed_write_may_be_there_or_not_but_must_stay_so() {
    for done in [false, true] {
        let mut ledger = ledger();
        let before = write(&mut ledger, 0, 0);
        let failed = begin(&mut ledger, 0, 0);
        ledger.failed(0, 0, BLOCK as u64, 2);
        let (first, then) = if done { (&failed, &before) } else { (&before, &failed) };
        assert_eq!(seen(&mut ledger, 0, 0, first), None);
        if done {
            assert!(matches!(seen(&mut ledger, 0, 0, then).unwrap().seen, Seen::Old { .. }));
        }
    }
}

/// A server that was given up may do a write after the one behind it was answered, or after a read has shown
/// that it was not there. Whatever order, no data is wrong; it is told.
#[test]
fn a_write_that_was_given_up_may_come_late() {
    let late = |found: Option<Mismatch>, expected: u64, number: u64| {
        let found = found.unwrap();
        assert_eq!((found.expected, &found.seen), (expected, &Seen::Late { sequence: number }));
    };
    let mut ledger = ledger();
    let first = write(&mut ledger, 0, 0);
    let given_up = [begin(&mut ledger, 0, 0), begin(&mut ledger, 0, 0)];
    (2..=3).for_each(|number| ledger.given_up(0, 0, BLOCK as u64, number));
    assert_eq!(seen(&mut ledger, 0, 0, &given_up[0]), None, "it may be there");
    late(seen(&mut ledger, 0, 0, &given_up[1]), 2, 3);
    assert_eq!(seen(&mut ledger, 0, 0, &given_up[1]), None, "told once");
    let answered = write(&mut ledger, 0, 0);
    assert_eq!(seen(&mut ledger, 0, 0, &answered), None);
    let torn = [&given_up[0][..512], &answered[512..]].concat();
    late(seen(&mut ledger, 0, 0, &torn), 4, 2);
    late(seen(&mut ledger, 0, 0, &given_up[0]), 4, 2);
    let found = seen(&mut ledger, 0, 0, &first).unwrap().seen;
    assert!(matches!(found, Seen::Old { .. }), "{found}");
    let beside = write(&mut ledger, 0, 4096);
    write(&mut ledger, 0, 4096);
    let found = seen(&mut ledger, 0, 4096, &beside).unwrap().seen;
    assert!(matches!(found, Seen::Old { .. }), "of another block: {found}");
}

/// The next run knows of it too.
#[test]
fn the_journal_knows_what_was_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let volume = JournalVolume { name: "a".to_owned(), size_bytes: VOLUME_BYTES, lba_bytes: 512 };
    let volumes = [volume];
    let (mut journal, mut ledger) = Journal::open(&path, 5, BLOCK as u32, &volumes).unwrap();
    let old = write(&mut ledger, 0, 0);
    let given_up = begin(&mut ledger, 0, 0);
    let new = write(&mut ledger, 0, 0);
    journal.note(0, 0, BLOCK as u64, 1).unwrap();
    journal.note_given_up(0, 0, BLOCK as u64, 2).unwrap();
    journal.note(0, 0, BLOCK as u64, 3).unwrap();
    journal.flush().unwrap();
    drop(journal);
    let (_, mut ledger) = Journal::open(&path, 5, BLOCK as u32, &volumes).unwrap();
    assert_eq!(seen(&mut ledger, 0, 0, &new), None);
    let found = seen(&mut ledger, 0, 0, &given_up).unwrap().seen;
    assert_eq!(found, Seen::Late { sequence: 2 });
    let found = seen(&mut ledger, 0, 0, &old).unwrap().seen;
    assert!(matches!(found, Seen::Old { .. }), "{found}");
}

#[test]
fn a_journal_brings_the_ledger_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let volume = |name: &str| JournalVolume {
        name: name.to_owned(),
        size_bytes: VOLUME_BYTES,
        lba_bytes: 512,
    };
    let volumes = [volume("a"), volume("b")];
    let (mut journal, mut ledger) = Journal::open(&path, 5, BLOCK as u32, &volumes).unwrap();
    let old = write(&mut ledger, 1, 4096);
    let new = write(&mut ledger, 1, 4096);
    let unknown = write(&mut ledger, 1, 4096);
    journal.note(1, 4096, BLOCK as u64, 1).unwrap();
    journal.note(1, 4096, BLOCK as u64, 2).unwrap();
    journal.flush().unwrap();
    drop(journal);
    // A crash in the middle of a record.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(&[1; 17]);
    std::fs::write(&path, &bytes).unwrap();

    let (mut journal, mut ledger) = Journal::open(&path, 99, 512, &volumes).unwrap();
    assert_eq!((ledger.key, ledger.block_bytes()), (5, BLOCK as u32), "those of the journal");
    let found = seen(&mut ledger, 1, 4096, &old).unwrap();
    assert!(matches!(found.seen, Seen::Old { .. }) && found.written_unix_ns > 0, "{found}");
    assert_eq!(seen(&mut ledger, 1, 4096, &new), None);
    assert_eq!(seen(&mut ledger, 1, 4096, &unknown), None, "its record was lost with the process");
    assert!(
        matches!(seen(&mut ledger, 1, 4096, &new).unwrap().seen, Seen::Old { .. }),
        "seen once"
    );
    let sequence = ledger.next_sequence(1);
    assert!(sequence > 1 << 24, "{sequence} could be on a disk already");
    journal.note(0, 0, BLOCK as u64, sequence).unwrap();
    journal.flush().unwrap();
    drop(journal);
    let (_, ledger) = Journal::open(&path, 0, 512, &volumes).unwrap();
    assert_eq!(
        (ledger.written(0, 1 << 20), ledger.written(1, 1 << 20)),
        (vec![(0, 4096)], vec![(4096, 4096)])
    );

    let other = Journal::open(&path, 0, 512, &volumes[..1]).unwrap_err();
    assert!(matches!(other, JournalError::OtherVolumes { .. }), "{other}");
    std::fs::write(&path, b"something else that is no journal at all").unwrap();
    assert!(matches!(Journal::open(&path, 0, 512, &volumes), Err(JournalError::NoJournal(_))));
}

/// Of a journal with a flipped bit nothing is believed, and it stays as it is; only the last record may be
/// what a crash has left.
#[test]
fn a_journal_with_a_flipped_bit_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let volumes =
        [JournalVolume { name: "a".to_owned(), size_bytes: VOLUME_BYTES, lba_bytes: 512 }];
    let (mut journal, _) = Journal::open(&path, 5, BLOCK as u32, &volumes).unwrap();
    (1..=3).for_each(|write| journal.note(0, 0, BLOCK as u64, write).unwrap());
    journal.flush().unwrap();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() - 40 {
        for bit in [0, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            std::fs::write(&path, &bytes).unwrap();
            let refused = Journal::open(&path, 5, BLOCK as u32, &volumes).map(|_| ()).unwrap_err();
            let is_said = match at {
                0..8 => matches!(refused, JournalError::NoJournal(_)),
                _ => matches!(refused, JournalError::Damaged { .. }),
            };
            assert!(is_said, "byte {at}: {refused}");
            assert_eq!(std::fs::read(&path).unwrap(), bytes, "it stays as it is");
        }
    }
    let mut bytes = whole.clone();
    bytes[whole.len() - 1] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    Journal::open(&path, 5, BLOCK as u32, &volumes).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), whole[..whole.len() - 40]);
}

/// A sector's own name is data like any other: a bit of it that flipped does not accuse another place,
/// and no name, however far away, ends the run.
#[test]
fn a_damaged_name_is_damage_and_a_made_up_one_is_elsewhere() {
    let mut ledger = ledger();
    let right = write(&mut ledger, 0, 4096);
    for bit in 64..192 {
        let mut bytes = right.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let found = seen(&mut ledger, 0, 4096, &bytes).unwrap().seen;
        assert!(matches!(found, Seen::Damaged { .. }), "bit {bit}: {found:?}");
    }
    let mut made_up = right;
    let first = Stamp { sector: u64::MAX - 8, ..Stamp::read(&made_up).unwrap() };
    fill(&mut made_up, first);
    let found = seen(&mut ledger, 0, 4096, &made_up).unwrap().seen;
    assert!(matches!(found, Seen::Elsewhere { at_bytes: u64::MAX, .. }), "{found:?}");
}

proptest! {
    /// Whatever bit flips, the block is not taken for what was written.
    #[test]
    fn every_bit_counts(bit in 0..BLOCK * 8, writes in 1..4) {
        let mut ledger = ledger();
        let mut bytes = Vec::new();
        for _ in 0..writes {
            bytes = write(&mut ledger, 0, 4096);
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(seen(&mut ledger, 0, 4096, &bytes).is_some());
    }

    #[test]
    fn written_ranges_are_all_that_was_written(blocks in proptest::collection::btree_set(0_u64..256, 0..60)) {
        let mut ledger = ledger();
        for block in &blocks {
            write(&mut ledger, 0, block * BLOCK as u64);
        }
        let ranges = ledger.written(0, 4 * BLOCK as u64);
        let found: Vec<u64> = ranges.iter().flat_map(|(at, len)| (at / BLOCK as u64)..(at + len) / BLOCK as u64).collect();
        prop_assert_eq!(found, blocks.into_iter().collect::<Vec<_>>());
        prop_assert!(ranges.iter().all(|(_, len)| *len <= 4 * BLOCK as u64));
    }
}
