//! What a slice has answered is durable, whatever was asked for: nobody knows what a member that restarts had not flushed.

use super::*;

/// The bytes of some blocks, of which no two operations of the test share any.
fn blocks(first: u64, count: u64) -> std::ops::Range<u64> {
    first * BLOCK as u64..(first + count) * BLOCK as u64
}

#[test]
fn what_is_answered_is_durable() {
    const VOLATILE: WriteFlags = WriteFlags::VOLATILE;
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let link = link(&holder, &slice, options());
        for at in [8, 40, 72] {
            write(&*link, at * BLOCK as u64, 1).await;
        }
        faults.watch_durability();
        let written = blocks(0, 1);
        link.write(written.start, data(&block(0, 2)), VOLATILE).await.unwrap();
        assert!(faults.is_durable(&written), "a write");
        let long = blocks(128, 64);
        let equal = vec![0x5a; 64 * BLOCK];
        link.write(long.start, data(&equal), VOLATILE).await.unwrap();
        assert!(faults.is_durable(&long), "a long write");
        for (may_unmap, first) in [(false, 8), (true, 24)] {
            let zeroed = blocks(first, 4);
            link.write_zeroes(zeroed.start, 4 * BLOCK as u64, may_unmap, VOLATILE).await.unwrap();
            assert!(faults.is_durable(&zeroed), "zeroes, {may_unmap}");
        }
        let unmapped = blocks(40, 8);
        link.unmap(unmapped.start, 8 * BLOCK as u64).await.unwrap();
        assert!(faults.is_durable(&unmapped), "what gives space back");
        let compared = blocks(72, 1);
        let (old, new) = (block(72 * BLOCK as u64, 1), block(72 * BLOCK as u64, 2));
        let swap = link.compare_and_write(compared.start, data(&old), data(&new), VOLATILE).await;
        assert_eq!(swap, Ok(block::Compared::Equal));
        assert!(faults.is_durable(&compared), "a comparison");
        let or = blocks(80, 1);
        link.or_write(or.start, data(&block(0, 3)), VOLATILE).await.unwrap();
        assert!(faults.is_durable(&or), "an OR");
        assert!(read(&*device, compared.start).await == new);
    });
}
