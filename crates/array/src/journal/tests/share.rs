use super::*;
use crate::journal::share::AGAIN_BYTES;

/// Blocks of a ring of 1,024 that hosts may use.
const LIMIT: u64 = 896;

fn running() -> (Arc<Journal>, Executor) {
    let disk = TestDisk::new();
    let journal = new_journal(std::slice::from_ref(&disk));
    let mut executor = Executor::default();
    start(&mut executor, &journal, &Arc::default());
    (journal, executor)
}

/// Hosts write until they are refused; how many blocks.
fn fill(journal: &Journal, executor: &mut Executor) -> u64 {
    let blocks = (0..).take_while(|block| {
        executor.turn();
        write(journal, *block, 1).is_ok()
    });
    blocks.count() as u64
}

/// As a checkpoint does with what a lost volume has: so many blocks, each with a record of its own.
fn again(journal: &Journal, executor: &mut Executor, blocks: u64) {
    for block in 0..blocks {
        let added = journal.append_again(&data(block, 1), Some(&payload(block, 1)));
        added.expect("room was looked for");
    }
    executor.turn();
}

#[test]
fn what_is_kept_fits_in_once_more_however_full_hosts_and_notes_make_it() {
    let (journal, mut executor) = running();
    // Of 128 blocks, and their records.
    let kept = 128 + 8;
    again(&journal, &mut executor, 128);
    journal.keep_again(Some(kept));
    let mut begin = journal.cut();
    for _ in 0..5 {
        assert!(fill(&journal, &mut executor) > 100, "hosts have room");
        assert!(!is_ready(journal.room(1)), "and wait for more");
        assert!(journal.is_full() && journal.is_to_be_trimmed());
        // A checkpoint begins, and each of its waves notes something.
        let next = journal.cut();
        for _ in 0..30 {
            journal.append_reserved(&zero(1), None).unwrap();
            executor.turn();
        }
        assert!(
            !journal.has_room_again(kept, begin),
            "not where it would have no room the next time"
        );
        assert!(journal.has_room_again(kept, next));
        again(&journal, &mut executor, 128);
        journal.trim(next);
        assert!(is_ready(journal.room(1)), "hosts go on");
        begin = next;
    }
}

#[test]
fn what_is_written_to_a_volume_at_risk_counts_twice() {
    for share in 1..5 {
        let (journal, mut executor) = running();
        journal.keep_again(Some(0));
        let (mut risky, mut records, mut refused) = (0, 2, 0);
        for block in 0.. {
            executor.turn();
            // Now and then to the one that may be lost, and some of that is zeroes.
            let is_risky = block % 5 < share;
            let added = match (is_risky, block % 7) {
                (true, 0) => journal.append_at_risk(&zero(block), None, block % 2 == 0),
                (true, _) => {
                    journal.append_at_risk(&data(block, 1), Some(&payload(block, 1)), true)
                }
                (false, _) => write(&journal, block, 1),
            };
            refused = if added.is_ok() { 0 } else { refused + 1 };
            if refused > 10 {
                break;
            }
            if is_risky && added.is_ok() {
                (risky, records) = (risky + u64::from(block % 7 != 0), records + 2);
            }
        }
        let needed = risky + (records * AGAIN_BYTES).div_ceil(BLOCK);
        assert!(risky > 30, "{risky}");
        let mark = journal.cut();
        assert!(journal.has_room_again(needed, mark), "{needed} of {}", journal.used_blocks());
        again(&journal, &mut executor, risky);
    }
}

#[test]
fn hosts_leave_no_room_where_they_would_have_next_to_none() {
    let (journal, mut executor) = running();
    journal.keep_again(Some(LIMIT / 2));
    assert_eq!((journal.keeps_again(), journal.fill_level().limit), (false, LIMIT));
    // Not even what they write to a volume at risk.
    journal.append_at_risk(&data(0, 1), Some(&payload(0, 1)), true).unwrap();
    assert!(fill(&journal, &mut executor) > 0);
    assert!(journal.used_blocks() >= LIMIT - 2 && !journal.is_to_be_trimmed());
}

#[test]
fn who_waits_for_room_that_is_kept_is_woken_when_it_is_not_any_more() {
    let (journal, mut executor) = running();
    journal.keep_again(Some(100));
    fill(&journal, &mut executor);
    let waiting = Arc::clone(&journal);
    let waits = executor.spawn(async move { waiting.room(1).await.unwrap() });
    executor.turn();
    assert!(!executor.is_done(waits));
    journal.keep_again(None);
    executor.turn();
    assert!(executor.is_done(waits));
}
