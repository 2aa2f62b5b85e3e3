use super::*;

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;
use ring::CoreConfig;

const KIB: u64 = 1 << 10;

#[test]
fn sharers_share_and_an_exclusive_holder_is_alone() {
    let locks = StripeLocks::default();
    let first = locks.try_lock(0, 4 * KIB, Access::Shared).unwrap();
    let second = locks.try_lock(0, 4 * KIB, Access::Shared).unwrap();
    assert!(locks.try_lock(0, 512, Access::Exclusive).is_none());
    drop(first);
    assert!(locks.try_lock(0, 512, Access::Exclusive).is_none());
    drop(second);
    let alone = locks.try_lock(0, 512, Access::Exclusive).unwrap();
    assert!(locks.try_lock(0, 512, Access::Shared).is_none());
    assert!(locks.try_lock(0, 512, Access::Exclusive).is_none());
    assert!(locks.try_lock(STRIPE_BYTES, 512, Access::Exclusive).is_some(), "another stripe");
    drop(alone);
    assert!(locks.try_lock(0, 512, Access::Shared).is_some());
}

#[test]
fn a_failed_attempt_leaves_nothing_behind() {
    let locks = StripeLocks::default();
    let in_the_middle = locks.try_lock(2 * STRIPE_BYTES, 1, Access::Exclusive).unwrap();
    assert!(locks.try_lock(0, 4 * STRIPE_BYTES, Access::Shared).is_none());
    assert!(locks.try_lock(0, 4 * STRIPE_BYTES, Access::Exclusive).is_none());
    drop(in_the_middle);
    assert!(locks.try_lock(0, 4 * STRIPE_BYTES, Access::Exclusive).is_some());
    assert!(locks.words.iter().all(|word| word.0.load(Ordering::Relaxed) & !MARKED == 0));
}

#[test]
fn a_huge_range_takes_the_whole_device() {
    let locks = StripeLocks::default();
    let all = locks.try_lock(0, WORDS as u64 * STRIPE_BYTES, Access::Exclusive).unwrap();
    for at in [0, 77 * STRIPE_BYTES, 1 << 50] {
        assert!(locks.try_lock(at, 1, Access::Shared).is_none());
    }
    drop(all);
}

#[test]
fn a_guard_that_moves_into_a_future_is_held_all_along() {
    let locks = Arc::new(StripeLocks::default());
    let guard = locks.try_lock(0, 512, Access::Shared).unwrap().into_owned(&locks);
    assert!(locks.try_lock(0, 512, Access::Exclusive).is_none());
    drop(guard);
    assert!(locks.try_lock(0, 512, Access::Exclusive).is_some());
}

#[test]
fn only_exclusive_holders_mark() {
    let locks = StripeLocks::default();
    drop(locks.try_lock(0, 2 * STRIPE_BYTES, Access::Shared));
    assert!(!locks.is_marked(0, 2 * STRIPE_BYTES));
    drop(locks.try_lock(STRIPE_BYTES, 512, Access::Exclusive));
    assert!(locks.is_marked(0, 2 * STRIPE_BYTES));
    assert!(!locks.is_marked(0, STRIPE_BYTES));
}

#[test]
fn a_waiting_exclusive_stops_new_sharers_until_it_gives_up() {
    let locks = Arc::new(StripeLocks::default());
    ring::block_on(&CoreConfig::default(), async move {
        let share = locks.try_lock_owned(0, 512, Access::Shared).unwrap();
        let wait = Arc::clone(&locks).lock(0, 512, Access::Exclusive);
        assert!(ring::timeout(Duration::from_millis(2), wait).await.is_none());
        // The abandoned wait left no claim.
        drop(locks.try_lock(0, 512, Access::Shared).unwrap());

        let got = Rc::new(Cell::new(false));
        let flag = Rc::clone(&got);
        let waiter = Arc::clone(&locks);
        ring::spawn(async move {
            let _guard = waiter.lock(0, 512, Access::Exclusive).await;
            flag.set(true);
        });
        ring::sleep(Duration::from_millis(1)).await;
        assert!(locks.try_lock(0, 512, Access::Shared).is_none(), "the waiter goes first");
        assert!(locks.try_lock(0, 512, Access::Exclusive).is_none(), "others queue behind it");
        drop(share);
        ring::sleep(Duration::from_millis(4)).await;
        assert!(got.get());
        assert!(locks.try_lock(0, 512, Access::Shared).is_some());
    })
    .unwrap();
}

#[test]
fn overlapping_exclusive_waiters_all_get_their_turn() {
    let locks = Arc::new(StripeLocks::default());
    ring::block_on(&CoreConfig::default(), async move {
        let done = Rc::new(Cell::new(0));
        for task in 0..20u64 {
            let (locks, done) = (Arc::clone(&locks), Rc::clone(&done));
            ring::spawn(async move {
                // Ranges that wrap around the table included.
                let at = (WORDS as u64 - 3 + task % 5) * STRIPE_BYTES;
                let _guard = locks.lock(at, 4 * STRIPE_BYTES, Access::Exclusive).await;
                ring::turn_end().await;
                done.set(done.get() + 1);
            });
        }
        let everyone = async {
            while done.get() < 20 {
                ring::sleep(Duration::from_micros(100)).await;
            }
        };
        ring::timeout(Duration::from_secs(5), everyone).await.expect("no deadlock");
    })
    .unwrap();
}

proptest! {
    #[test]
    fn ranges_conflict_exactly_when_they_share_a_word(
        a in 0u64..3000 * STRIPE_BYTES, a_len in 1u64..40 * STRIPE_BYTES,
        b in 0u64..3000 * STRIPE_BYTES, b_len in 1u64..40 * STRIPE_BYTES,
    ) {
        let words = |at: u64, len: u64| {
            (at / STRIPE_BYTES..=(at + len - 1) / STRIPE_BYTES)
                .map(|stripe| stripe % WORDS as u64)
                .collect::<std::collections::BTreeSet<_>>()
        };
        let locks = StripeLocks::default();
        let held = locks.try_lock(a, a_len, Access::Exclusive).unwrap();
        let meets = !words(a, a_len).is_disjoint(&words(b, b_len));
        prop_assert_eq!(locks.try_lock(b, b_len, Access::Shared).is_none(), meets);
        drop(held);
        let ascending: Vec<_> = Span::new(a, a_len).indices().collect();
        prop_assert!(ascending.is_sorted());
        prop_assert_eq!(ascending.len(), words(a, a_len).len());
    }
}
