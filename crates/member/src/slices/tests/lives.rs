//! Two lives of one home that both go on, as where its state was copied, or one of them was stopped for a while.

use block::testing::{Fault, Operation, Rule};
use block::{BlockError, IoFuture};

use super::*;

const FORMER: u64 = 0xf0;
const LATER: u64 = 0x0f;

fn begin_write(link: &SliceLink, version: u64) -> IoFuture<()> {
    link.write(0, data(&block(0, version)), WriteFlags::DURABLE)
}

/// What it had not heard of is not sent again, over what the later one was answered.
#[test]
fn a_life_that_was_replaced_does_not_come_back() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let patience = Duration::from_secs(4);
        let former = link_of(&holder, &slice, LinkOptions { patience, ..options() }, FORMER);
        write(&*former, 0, 1).await;
        faults.inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
        let unanswered = begin_write(&former, 2);
        until("the write is at the device", || faults.held() == 1).await;
        let later = link_of(&holder, &slice, options(), LATER);
        let answered = begin_write(&later, 3);
        faults.release();
        answered.await.unwrap();
        let asked = holder.asked();
        until("the former life asks", || holder.asked() > asked + 1).await;
        write(&*later, BLOCK as u64, 4).await;
        assert!(read(&*device, 0).await == block(0, 3), "an answered write was lost");
        assert_eq!(later.trouble(), None);
        // Its write was done before the other one was let in, or not at all, for all that it knows.
        let told = unanswered.await;
        assert!(matches!(told, Ok(()) | Err(BlockError::InDoubt)), "{told:?}");
        let refused =
            former.trouble().is_some_and(|(_, why)| why.contains("another one has replaced"));
        assert!(refused, "{:?}", former.trouble());
        assert!(read(&*device, 0).await == block(0, 3));
    });
}

/// Who asks first after a restart of the member is not refused, nor is a home that starts again and again.
#[test]
fn a_new_life_is_let_in() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        for life in [3, 1, 2, 2] {
            holder.served().open(&slice, HOME, life).await.unwrap();
        }
        for life in [1, 3] {
            let refused = holder.served().open(&slice, HOME, life).await;
            assert!(matches!(refused, Err(OpenError::FormerLife(_))), "{refused:?}");
        }
        holder.served().open(&slice, HOME, 2).await.unwrap();
        let port = holder.go();
        holder.come(port);
        holder.served().open(&slice, HOME, 1).await.unwrap();
    });
}
