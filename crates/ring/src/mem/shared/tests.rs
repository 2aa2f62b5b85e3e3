use std::collections::{BTreeSet, VecDeque};
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::mem::Data;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

impl State {
    /// The invariants of the module, each counted anew.
    fn check(&self) {
        let bytes =
            |mask: fn(&Block) -> u16| self.blocks.iter().map(|b| bytes_of(mask(b))).sum::<usize>();
        let (used_bytes, mapped_bytes) = (bytes(|b| b.used), bytes(|b| b.mapped));
        assert_eq!((self.used_bytes, self.mapped_bytes), (used_bytes, mapped_bytes));
        assert!(mapped_bytes <= self.budget_bytes.max(used_bytes), "more than allowed is mapped");
        assert_eq!(self.blocks.len(), self.chunks.len() * CHUNK_BLOCKS);
        let mut members = 0;
        for (chunk, blocks) in self.blocks.chunks(CHUNK_BLOCKS).enumerate() {
            let is_mapped = blocks.iter().any(|block| block.mapped != 0);
            assert_eq!(self.chunks[chunk].is_some(), is_mapped, "chunk {chunk}");
            assert_eq!(self.gone.contains(&chunk), !is_mapped, "chunk {chunk}");
            for (at, block) in blocks.iter().enumerate().filter(|_| is_mapped) {
                assert_eq!(block.used & !block.mapped, 0);
                for (set, at_in_set) in block.sets().into_iter().zip(block.at) {
                    let Some(set) = set else { continue };
                    assert_eq!(self.sets[set].get(at_in_set), Some(&(chunk * CHUNK_BLOCKS + at)));
                    members += 1;
                }
            }
        }
        assert_eq!(
            self.sets.iter().map(Vec::len).sum::<usize>(),
            members,
            "nobody else is in a set"
        );
    }

    fn mapped_chunks(&self) -> usize {
        self.chunks.iter().flatten().count()
    }
}

impl SharedPool {
    fn check(&self) {
        self.0.lock().check();
    }

    /// As many buffers as there are.
    fn take_all(&self, len: usize) -> Vec<SharedBuf> {
        std::iter::from_fn(|| self.take(len)).collect()
    }
}

/// Bytes that follow from a number, and differ from page to page.
fn byte_at(number: u64, at: usize) -> u8 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ at as u8 ^ (at >> 8) as u8
}

fn fill(buf: &mut [u8], number: u64) {
    for (at, byte) in buf.iter_mut().enumerate() {
        *byte = byte_at(number, at);
    }
}

fn is_filled(bytes: &[u8], number: u64) -> bool {
    bytes.iter().enumerate().all(|(at, &byte)| byte == byte_at(number, at))
}

/// The same numbers each time (xorshift), from one that is not zero.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % end as u64) as usize
    }

    /// Of a buffer, in any class, small ones more often.
    fn buffer_len(&mut self) -> usize {
        let class_bytes = PAGE_BYTES << self.below(CLASSES);
        1 + self.below(class_bytes)
    }
}

#[test]
fn buffers_are_aligned_and_take_their_class() {
    let pool = SharedPool::new(MIB);
    assert_eq!((pool.budget_bytes(), pool.used_bytes(), pool.mapped_bytes()), (MIB, 0, 0));
    for (len, cap) in [(1, 4096), (4096, 4096), (4097, 8192), (16_385, 32_768), (65_536, 65_536)] {
        let mut buf = pool.take(len).unwrap();
        assert_eq!((buf.len(), SharedPool::capacity_of(len)), (len, cap));
        assert_eq!(buf.as_ptr() as usize % PAGE_BYTES, 0, "{len}");
        assert_eq!(pool.used_bytes(), cap, "{len}");
        fill(&mut buf, 7);
        assert!(format!("{buf:?}").contains(&format!("cap: {cap}")));
        let data = buf.freeze();
        assert_eq!((data.len(), data.capacity()), (len, cap));
        assert!(is_filled(&data, 7));
    }
    assert_eq!(pool.used_bytes(), 0);
    assert!(pool.take(0).is_none());
    assert!(pool.take(SharedPool::LARGEST_BYTES + 1).is_none());
    assert_eq!((SharedPool::capacity_of(0), SharedPool::capacity_of(MIB)), (0, usize::MAX));
    pool.check();
}

#[test]
fn fresh_memory_is_zero_and_used_memory_comes_back_warm() {
    let pool = SharedPool::new(MIB);
    let mut first = pool.take(10_000).unwrap();
    assert!(first.iter().all(|&byte| byte == 0));
    first[0] = 9;
    let address = first.as_ptr();
    drop(first);
    let again = pool.take(16_384).unwrap();
    assert_eq!((again.as_ptr(), again[0]), (address, 9));
}

#[test]
fn every_gap_is_found_and_the_smallest_is_taken() {
    let is_unused = |used: u16, at: usize, class: usize| used & pages(at, 1 << class) == 0;
    // The largest unused run around a page that begins an unused run of `class`.
    let gap = |used: u16, at: usize, class: usize| {
        (class..CLASSES).rev().find(|&c| is_unused(used, (at >> c) << c, c)).unwrap()
    };
    for used in 0..=u16::MAX {
        for class in 0..CLASSES {
            let begins = (0..BLOCK_PAGES).step_by(1 << class);
            let gaps =
                begins.filter(|&at| is_unused(used, at, class)).map(|at| gap(used, at, class));
            let smallest = gaps.min();
            assert_eq!(smallest.is_some(), room(used).is_some_and(|room| room >= class));
            let best = best_page(used, class);
            assert_eq!(best.map(|at| gap(used, at, class)), smallest, "{used:016b} {class}");
            assert!(
                best.is_none_or(|at| at.is_multiple_of(1 << class) && is_unused(used, at, class))
            );
        }
    }
}

#[test]
fn the_budget_is_exact_over_classes() {
    let pool = SharedPool::new(10 * PAGE_BYTES + 100);
    let small = pool.take_all(1);
    assert_eq!((small.len(), pool.mapped_bytes()), (10, 10 * PAGE_BYTES));
    drop(small);
    let half = pool.take(32 * KIB).expect("what is kept of small ones makes room");
    let rest = pool.take_all(8 * KIB);
    assert_eq!(rest.len(), 1, "100 bytes are too few for the next one");
    assert!(pool.take(1).is_none() && pool.take(64 * KIB).is_none());
    pool.check();
    drop(rest);
    assert_eq!(pool.take_all(1).len(), 2);
    drop(half);
    assert_eq!((pool.used_bytes(), pool.mapped_bytes()), (0, 10 * PAGE_BYTES));

    let pool = SharedPool::new(68 * KIB);
    let page = pool.take(1).unwrap();
    let spread = pool.take_all(1);
    assert_eq!(spread.len(), 16);
    drop(spread);
    let large = pool.take(64 * KIB).expect("pages around the first one are given back for it");
    assert_eq!(pool.mapped_bytes(), 68 * KIB);
    assert!(pool.take(1).is_none());
    pool.check();
    drop((page, large));
}

#[test]
fn the_last_reference_gives_back_on_any_thread() {
    let pool = SharedPool::new(64 * KIB);
    let mut buf = pool.take(64 * KIB).unwrap();
    fill(&mut buf, 3);
    let data = buf.freeze();
    let theirs = data.clone();
    let thread = thread::spawn(move || assert!(is_filled(&theirs, 3)));
    thread.join().unwrap();
    assert_eq!(pool.used_bytes(), 64 * KIB, "one reference is left");
    thread::spawn(move || drop(data)).join().unwrap();
    assert_eq!(pool.used_bytes(), 0);
    let buf = pool.take(64 * KIB).expect("it is free again");
    thread::spawn(move || drop(buf)).join().unwrap();
    assert_eq!(pool.used_bytes(), 0);
    pool.check();
}

#[test]
fn bytes_outlive_the_handles_and_the_pool_ends_with_the_last_of_them() {
    let pool = SharedPool::new(MIB);
    let state = Arc::downgrade(&pool.0);
    let mut buf = pool.take(5000).unwrap();
    drop(pool.clone());
    drop(pool);
    fill(&mut buf, 11);
    let data = buf.freeze();
    let lent = Data::from(data.clone());
    assert!(is_filled(&data, 11));
    drop(data);
    assert!(is_filled(lent.as_slice().unwrap(), 11));
    assert!(state.upgrade().is_some());
    drop(lent);
    assert!(state.upgrade().is_none(), "nothing keeps its memory any more");
}

#[test]
fn a_lower_budget_waits_for_what_is_used() {
    let pool = SharedPool::new(256 * KIB);
    let mut held = pool.take_all(64 * KIB);
    assert_eq!(held.len(), 4);
    pool.set_budget(128 * KIB);
    assert_eq!((pool.budget_bytes(), pool.mapped_bytes()), (128 * KIB, 256 * KIB));
    for left in [3, 2] {
        assert!(pool.take(1).is_none());
        held.pop();
        assert_eq!((pool.used_bytes(), pool.mapped_bytes()), (left * 64 * KIB, left * 64 * KIB));
        pool.check();
    }
    assert!(pool.take(1).is_none(), "as much is used as there may be");
    held.pop();
    assert_eq!(pool.mapped_bytes(), 128 * KIB, "from here on it is kept for later");
    let last = pool.take(64 * KIB).unwrap();
    assert!(pool.take(1).is_none());
    drop((last, held));
    pool.set_budget(0);
    assert_eq!((pool.used_bytes(), pool.mapped_bytes()), (0, 0), "what is unused goes at once");
    assert!(pool.take(1).is_none());
    pool.set_budget(usize::MAX);
    assert!(pool.take(1).is_some());
    pool.check();
}

#[test]
fn trim_gives_back_what_nobody_uses_and_nothing_else() {
    let pool = SharedPool::new(9 * MIB);
    let mut bufs = pool.take_all(8 * KIB);
    assert_eq!((bufs.len(), pool.0.lock().mapped_chunks()), (9 * 128, 3));
    for buf in &mut bufs {
        fill(buf, 5);
    }
    let held = bufs.swap_remove(700);
    drop(bufs);
    pool.trim(10 * MIB);
    assert_eq!(pool.mapped_bytes(), 9 * MIB, "no more is mapped");
    pool.trim(MIB);
    let mapped_bytes = pool.mapped_bytes();
    assert!((MIB - BLOCK_BYTES..=MIB).contains(&mapped_bytes), "{mapped_bytes}");
    pool.check();
    pool.trim(0);
    assert_eq!((pool.used_bytes(), pool.mapped_bytes()), (8 * KIB, 8 * KIB));
    assert_eq!(pool.0.lock().mapped_chunks(), 1);
    pool.check();
    assert!(is_filled(&held, 5));
    let fresh = pool.take_all(4 * KIB);
    assert_eq!(fresh.len(), 9 * 256 - 2);
    assert!(fresh.iter().all(|buf| buf.iter().all(|&byte| byte == 0)), "the system had it");
    assert!(is_filled(&held, 5));
    drop((fresh, held));
    pool.trim(0);
    assert_eq!((pool.mapped_bytes(), pool.0.lock().mapped_chunks()), (0, 0));
    pool.check();
}

#[test]
fn classes_that_alternate_use_the_same_pages() {
    const BUDGET_BYTES: usize = 256 * KIB;
    let pool = SharedPool::new(BUDGET_BYTES);
    let mut stragglers = VecDeque::new();
    for round in 0..10_000_u64 {
        let len = [4 * KIB, 64 * KIB, 16 * KIB, 64 * KIB][round as usize % 4];
        let free_bytes = BUDGET_BYTES - pool.used_bytes();
        let mut bufs = pool.take_all(len);
        assert_eq!(bufs.len(), free_bytes / len, "round {round}");
        assert!(pool.mapped_bytes() <= BUDGET_BYTES);
        // A block for 64 KiB is among the 64 of a chunk, as no more than 48 pages are used elsewhere.
        assert_eq!(pool.0.lock().mapped_chunks(), 1, "round {round}");
        if let Some(mut last) = bufs.pop() {
            fill(&mut last, round);
            stragglers.push_back((round, last));
        }
        if stragglers.len() > 2 {
            let (round, old) = stragglers.pop_front().unwrap();
            assert!(is_filled(&old, round), "round {round}");
        }
    }
    pool.check();
}

#[test]
fn whatever_is_taken_and_dropped_the_invariants_hold() {
    let pool = SharedPool::new(6 * MIB);
    let mut dice = Dice(0x5eed);
    let mut held: Vec<(u64, SharedBuf)> = Vec::new();
    let mut refused = 0;
    for number in 0..20_000_u64 {
        let (budget_bytes, used_bytes) = (pool.budget_bytes(), pool.used_bytes());
        match dice.below(100) {
            0..52 => {
                let len = dice.buffer_len();
                let fits = used_bytes + SharedPool::capacity_of(len) <= budget_bytes;
                let taken = pool.take(len);
                assert_eq!(taken.is_some(), fits, "{len} of {used_bytes} to {budget_bytes}");
                refused += u32::from(taken.is_none());
                if let Some(mut buf) = taken {
                    fill(&mut buf, number);
                    held.push((number, buf));
                }
            }
            52..98 if !held.is_empty() => {
                let (number, buf) = held.swap_remove(dice.below(held.len()));
                assert!(is_filled(&buf, number), "buffer {number}");
            }
            98 => pool.trim(dice.below(6 * MIB)),
            99 => pool.set_budget(dice.below(6 * MIB)),
            _ => {}
        }
        pool.check();
    }
    assert!(refused > 100, "the budget was met {refused} times only");
    assert!(held.iter().all(|(number, buf)| is_filled(buf, *number)));
}

#[test]
fn many_threads_never_see_the_bytes_of_others() {
    const THREADS: u64 = 4;
    let pool = SharedPool::new(2 * MIB);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<(u64, SharedData)>()).unzip();
    let threads = receivers.into_iter().zip(0_u64..).map(|(receiver, me)| {
        let (pool, next) = (pool.clone(), senders[((me + 1) % THREADS) as usize].clone());
        thread::spawn(move || {
            let mut dice = Dice(me + 1);
            let mut held = VecDeque::new();
            for turn in 0..3_000 {
                let len = dice.buffer_len();
                if let Some(mut buf) = pool.take(len) {
                    let number = (me << 32) | turn;
                    fill(&mut buf, number);
                    let data = buf.freeze();
                    // The neighbour may be done already.
                    let _ = next.send((number, data.clone()));
                    held.push_back((number, data));
                }
                while held.len() > dice.below(24) {
                    let (number, data) = held.pop_front().unwrap();
                    assert!(is_filled(&data, number), "own {number:x}");
                }
                for (number, data) in receiver.try_iter() {
                    assert!(is_filled(&data, number), "of a neighbour {number:x}");
                }
                match dice.below(64) {
                    0 => pool.trim(dice.below(2 * MIB)),
                    1 => pool.set_budget(MIB + dice.below(MIB)),
                    _ => {}
                }
            }
        })
    });
    let threads: Vec<_> = threads.collect();
    drop(senders);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(pool.used_bytes(), 0);
    pool.set_budget(2 * MIB);
    pool.check();
}

#[test]
fn pieces_do_not_overlap() {
    let pool = SharedPool::new(5 * MIB);
    let mut dice = Dice(77);
    let bufs: Vec<_> =
        std::iter::from_fn(|| pool.take(PAGE_BYTES << dice.below(CLASSES))).collect();
    let pages_of = |buf: &SharedBuf| {
        let first = buf.as_ptr() as usize;
        (first..first + buf.len()).step_by(PAGE_BYTES)
    };
    let distinct: BTreeSet<usize> = bufs.iter().flat_map(pages_of).collect();
    assert_eq!(distinct.len() * PAGE_BYTES, pool.used_bytes());
    assert!(bufs.len() > 100);
}

#[test]
fn as_data_they_are_stable_and_take_nothing_of_the_cores_pool() {
    let of_core = crate::pool_usage().used_bytes;
    let pool = SharedPool::new(64 * KIB);
    let mut buf = pool.take(10_000).unwrap();
    fill(&mut buf, 21);
    let address = buf.as_ptr();
    let data = Data::from(buf.freeze());
    assert_eq!((data.len(), data.pooled_bytes()), (10_000, 0));
    assert_eq!(data.as_slice().unwrap().as_ptr(), address, "nothing was copied");
    assert!(data.is_aligned_to(PAGE_BYTES));
    assert!(format!("{data:?}").contains("shared"));
    let part = data.slice(100..200).into_slice(10..20).into_stable().unwrap();
    drop(data);
    assert_eq!(pool.used_bytes(), 16 * KIB, "a slice keeps its buffer");
    for mut other in pool.take_all(4 * KIB) {
        other.fill(0xee);
    }
    let expected: Vec<u8> = (110..120).map(|at| byte_at(21, at)).collect();
    assert_eq!(part.as_slice(), Some(&expected[..]));
    assert_eq!(crate::pool_usage().used_bytes, of_core);
    drop(part);
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn handles_and_bytes_go_to_other_threads() {
    fn is_shared<T: Send + Sync>() {}
    fn is_sent<T: Send>() {}
    is_shared::<SharedPool>();
    is_shared::<SharedData>();
    is_sent::<SharedBuf>();
}
