use super::*;

fn fill(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn buffers_are_aligned_in_classes_and_recycled() {
    for len in [0, 1, 4096, 4097, 70_000, 1 << 20, (1 << 20) + 1, 5 << 20] {
        let mut buf = Buf::alloc(len).unwrap();
        assert_eq!(buf.len(), len);
        assert_eq!(buf.as_ptr() as usize % PAGE_BYTES, 0, "{len}");
        buf.fill(7);
        assert!(buf.iter().all(|&b| b == 7));
    }
    let first = Buf::alloc(10_000).unwrap();
    let address = first.as_ptr();
    drop(first);
    assert_eq!(Buf::alloc(16_384).unwrap().as_ptr(), address, "the warm buffer goes out first");
}

#[test]
fn the_budget_bounds_memory_and_classes_share_it() {
    set_pool_budget(1 << 20);
    let small: Vec<Buf> = (0..256).map(|_| Buf::alloc(4096).unwrap()).collect();
    assert!(Buf::alloc(1).is_none(), "the budget is used up");
    assert_eq!(pool_usage(), PoolUsage { used_bytes: 1 << 20, budget_bytes: 1 << 20 });
    drop(small);
    let large = Buf::alloc(1 << 20).expect("cached small buffers make room");
    assert!(Buf::alloc(4096).is_none());
    drop(large);
    assert!(Buf::alloc((1 << 20) + 1).is_none(), "larger than the budget");
    assert!(Buf::alloc(usize::MAX).is_none());
    assert!(Buf::alloc(4096).is_some());
    assert_eq!(pool_usage().used_bytes, 0);
}

#[test]
fn large_buffers_are_used_again_and_give_way() {
    const LARGE: usize = (1 << 20) + 4096;
    set_pool_budget(8 << 20);
    let mut first = Buf::alloc(LARGE).unwrap();
    first[..4].copy_from_slice(b"mine");
    let at = first.as_ptr();
    drop(first);
    let again = Buf::alloc(LARGE).unwrap();
    assert_eq!((again.as_ptr(), &again[..4]), (at, &b"mine"[..]), "not even cleared");
    let six: Vec<Buf> = (0..6).map(|_| Buf::alloc(LARGE).unwrap()).collect();
    assert!(Buf::alloc(LARGE).is_none(), "seven have used up the budget");
    drop((six, again));
    assert_eq!(pool_usage().used_bytes, 0);
    let whole = Buf::alloc(8 << 20).expect("what is kept makes room");
    drop(whole);
    assert!(Buf::alloc(1 << 20).is_some(), "for smaller ones, too");
}

#[test]
fn a_buffer_of_nothing_is_there_however_full_the_pool_is() {
    set_pool_budget(64 << 10);
    let full: Vec<Buf> = (0..16).map(|_| Buf::alloc(4096).unwrap()).collect();
    assert!(Buf::alloc(1).is_none());
    let mut nothing = Buf::alloc(0).expect("it takes nothing");
    assert_eq!((&nothing[..], nothing.as_ptr() as usize % 4096), (&[][..], 0));
    nothing.truncate(0);
    assert!(format!("{nothing:?}").contains("cap: 0"));
    let data = nothing.freeze();
    assert_eq!((data.len(), data.clone().as_slice()), (0, Some(&[][..])));
    drop(full);
    assert_eq!(pool_usage().used_bytes, 0);
}

#[test]
fn what_is_kept_in_reserve_is_for_those_who_may_take_it() {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    set_pool_budget(1 << 20);
    keep_pool_reserve(256 << 10);
    assert_eq!((pool_usage().budget_bytes, pool_reserve()), (768 << 10, 256 << 10));
    let held: Vec<Buf> = (0..3).map(|_| Buf::alloc(256 << 10).unwrap()).collect();
    assert!(Buf::alloc(4096).is_none(), "the rest is kept");
    let mut cx = Context::from_waker(Waker::noop());
    let taken = pin!(with_reserve(poll_fn(|_| Poll::Ready(Buf::alloc(256 << 10))))).poll(&mut cx);
    let Poll::Ready(Some(taken)) = taken else { panic!("it may take the reserve") };
    assert!(Buf::alloc(4096).is_none(), "others may not, now as before");
    drop(taken);
    assert!(Buf::alloc(256 << 10).is_none(), "nor what was given back to the reserve");
    drop(held);
    assert!(Buf::alloc(512 << 10).is_some());
    keep_pool_reserve(8 << 20);
    assert_eq!(pool_reserve(), 512 << 10, "half of the budget stays for all");
}

#[test]
fn recycled_slots_that_were_trimmed_do_not_disturb_their_neighbours() {
    set_pool_budget(64 << 10);
    let mut kept = Buf::alloc(4096).unwrap();
    kept.fill(0xa5);
    let others: Vec<Buf> = (0..15).map(|_| Buf::alloc(4096).unwrap()).collect();
    drop(others);
    let big = Buf::alloc(32 << 10).expect("trims cached neighbours of `kept`");
    assert!(kept.iter().all(|&b| b == 0xa5));
    drop(big);
}

#[test]
fn data_shares_a_buffer_until_the_last_reference() {
    let used = pool_usage().used_bytes;
    let mut buf = Buf::alloc(10_000).unwrap();
    buf.copy_from_slice(&fill(10_000, 1));
    let data = buf.freeze();
    let part = data.slice(100..200);
    let deeper = part.slice(10..20).into_slice(1..3);
    drop((data, part));
    assert!(pool_usage().used_bytes > used, "a slice keeps its buffer");
    assert_eq!(deeper.as_slice().unwrap(), &fill(10_000, 1)[111..113]);
    drop(deeper);
    assert_eq!(pool_usage().used_bytes, used);
}

#[test]
fn a_buffer_may_outlive_its_thread_local_pool() {
    thread_local! { static LATE: std::cell::RefCell<Option<Data>> = const { std::cell::RefCell::new(None) }; }
    std::thread::spawn(|| {
        LATE.with(|late| late.replace(None));
        let data = Buf::zeroed(8192).unwrap().freeze();
        LATE.with(|late| late.replace(Some(data)));
    })
    .join()
    .unwrap();
}

#[test]
#[should_panic(expected = "slice outside the data")]
fn slicing_past_the_end_panics() {
    let _ = Data::from(&b"abc"[..]).slice(1..4);
}

#[test]
fn static_data_reads_back() {
    let data = Data::from(&b"hello"[..]);
    let mut two = [0; 2];
    data.copy_to(3, &mut two);
    assert_eq!(&two, b"lo");
    assert_eq!(&data.to_buf().unwrap()[..], b"hello");
    assert!(Data::default().is_empty());
}

#[test]
fn alignment_is_told_for_bytes_that_cannot_be_borrowed_too() {
    let region = Region::new(3 * PAGE_BYTES).unwrap();
    let buf = Buf::alloc(3 * PAGE_BYTES).unwrap().freeze();
    for data in [region.slice(0, 3 * PAGE_BYTES), buf] {
        assert!(data.is_aligned_to(PAGE_BYTES));
        assert!(data.slice(PAGE_BYTES..2 * PAGE_BYTES).is_aligned_to(PAGE_BYTES));
        let inside = data.slice(512..1024);
        assert!(inside.is_aligned_to(512) && !inside.is_aligned_to(PAGE_BYTES));
    }
}

#[test]
fn a_region_reads_what_was_written_and_zeroes_elsewhere() {
    let region = Region::new(1 << 20).unwrap();
    let bytes = fill(10_000, 9);
    region.write(5_000, &bytes);
    let mut back = vec![1; 10_002];
    region.read_into(4_999, &mut back);
    assert_eq!((back[0], &back[1..10_001], back[10_001]), (0, &bytes[..], 0));

    let lent = region.slice(5_000, 10_000);
    assert!(lent.as_slice().is_none(), "region bytes are never borrowed");
    assert_eq!(&lent.to_buf().unwrap()[..], &bytes[..]);
    region.write_data(5_004, &lent);
    let mut moved = vec![0; 10_000];
    region.read_into(5_004, &mut moved);
    assert_eq!(moved, bytes, "overlapping copies work");
    drop(region);
    assert_eq!(lent.to_buf().unwrap().len(), 10_000, "a slice keeps the region");
}

#[test]
fn what_could_change_is_copied_and_the_rest_is_taken_as_it_is() {
    let region = Region::new(PAGE_BYTES).unwrap();
    region.write(0, b"before");
    let lent = region.slice(0, 6);
    let stable = lent.clone().into_stable().unwrap();
    assert_eq!(lent.with_stable(<[u8]>::to_vec).unwrap(), b"before");
    region.write(0, b"behind");
    assert_eq!(stable.as_slice(), Some(&b"before"[..]));
    assert_eq!(lent.with_stable(<[u8]>::to_vec).unwrap(), b"behind");
    let before = pool_usage().used_bytes;
    let same = stable.clone().into_stable().unwrap();
    assert_eq!(pool_usage().used_bytes, before, "nothing is copied twice");
    assert_eq!(same.raw(), stable.raw());
}

#[test]
fn a_buffer_takes_what_its_capacity_says_and_lent_memory_takes_nothing() {
    for len in [0, 1, PAGE_BYTES, PAGE_BYTES + 1, 1 << 20, (1 << 20) + 1] {
        let before = pool_usage().used_bytes;
        let data = Data::from(Buf::alloc(len).unwrap());
        assert_eq!(pool_usage().used_bytes - before, Buf::capacity_of(len), "{len} bytes");
        assert_eq!(data.pooled_bytes(), len);
    }
    assert_eq!(Data::from(&b"static"[..]).pooled_bytes(), 0);
    assert_eq!(Region::new(PAGE_BYTES).unwrap().slice(0, 10).pooled_bytes(), 0);
}

#[test]
fn discard_zeroes_exactly_its_range() {
    let len = 5 * PAGE_BYTES;
    for (at, n) in [(0, len), (1, 10), (4095, 2), (4096, 4096), (100, 9_000), (4096, 8_191), (7, 0)]
    {
        let region = Region::new(len).unwrap();
        region.write(0, &vec![0xff; len]);
        region.discard(at, n);
        let mut back = vec![0; len];
        region.read_into(0, &mut back);
        for (i, &byte) in back.iter().enumerate() {
            let inside = (at..at + n).contains(&i);
            assert_eq!(byte, if inside { 0 } else { 0xff }, "byte {i} of discard({at}, {n})");
        }
    }
}

#[test]
#[should_panic(expected = "outside the region")]
fn a_region_is_bounds_checked_even_when_the_sum_overflows() {
    Region::new(4096).unwrap().slice(usize::MAX, 2);
}

#[test]
fn memory_fails_by_chance_where_a_test_wants_it() {
    let had = |times| (0..times).filter(|_| Buf::alloc(1).is_some()).count();
    refuse_one_in(4, None);
    let of_400 = had(400);
    refuse_one_in(0, None);
    assert!((250..350).contains(&of_400), "{of_400} of 400");
    assert_eq!(had(100), 100);
}
