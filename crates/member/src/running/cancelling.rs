//! How a scrub or a check is left off in the middle.
//!
//! The array knows no word for that: its future is dropped. That gives back its locks and its place among the
//! jobs. But what it was changing would stay half done, and a change that a disk has not answered yet would
//! come down when nobody keeps others away from that place any more. So it is dropped between two changes
//! only. Most scrubs change nothing; one that repairs blocks comes to such a moment with each of them.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::Member;
use crate::meters::Scope;

/// That work is not wanted any more.
#[derive(Debug, Default)]
pub(super) struct Cancel {
    is_asked: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Cancel {
    /// Asks for it. To be called again and again, as the work may not be where it can be left.
    pub(super) fn ask(&self) {
        self.is_asked.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// When work may be left, apart from changes that it has under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Safe {
    /// At any time.
    Always,
    /// Once it reads data: before, it may be at the labels, which are several changes.
    OnceItReads,
}

impl Safe {
    /// Whether that time has come, with so many jobs that read data and so many that will. Jobs have no
    /// owners, so all of them have to be there.
    pub(super) fn is_so(self, reading: usize, verifying: usize) -> bool {
        match self {
            Self::Always => true,
            Self::OnceItReads => reading >= verifying,
        }
    }
}

/// Scrubs and checks of a member that are under way, of which this is one.
#[derive(Debug)]
pub(super) struct Verifying(Rc<Cell<usize>>);

impl Verifying {
    pub(super) fn count(&self) -> usize {
        self.0.get()
    }
}

impl Drop for Verifying {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Member {
    /// One more scrub or check begins, and ends with what is returned.
    pub(super) fn verifies(&self) -> Verifying {
        self.verifying.set(self.verifying.get() + 1);
        Verifying(self.verifying.clone())
    }
}

/// Does the work to its end, or until it is cancelled and `look` says that it may be left. Its result, or what
/// `look` saw.
pub(super) async fn until_cancelled<T, Seen>(
    work: impl Future<Output = T>,
    cancel: Rc<Cancel>,
    look: impl Fn() -> Option<Seen>,
) -> Result<T, Seen> {
    let scope = Rc::new(Scope::default());
    let mut work = pin!(work);
    poll_fn(move |cx| {
        if let Poll::Ready(result) = scope.poll(|| work.as_mut().poll(cx)) {
            return Poll::Ready(Ok(result));
        }
        if cancel.is_asked.get()
            && scope.is_at_rest()
            && let Some(seen) = look()
        {
            return Poll::Ready(Err(seen));
        }
        *cancel.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use block::testing::{Fault, FaultyDisk, Operation, Rule};
    use block::{BlockDevice, BlockError, RamDisk, WriteFlags};
    use ring::Buf;

    use super::*;
    use crate::meters::Meters;

    fn on_a_core(test: impl Future<Output = ()> + 'static) {
        ring::block_on(&ring::CoreConfig::default(), test).unwrap();
    }

    fn faulty() -> (Arc<FaultyDisk>, Arc<dyn BlockDevice>) {
        let ram: Arc<dyn BlockDevice> = Arc::new(RamDisk::new(4096, 16).expect("memory"));
        let faulty = Arc::new(FaultyDisk::new(ram));
        let metered = Meters::default().meter("a", Arc::clone(&faulty) as _);
        (faulty, metered)
    }

    async fn write(disk: &dyn BlockDevice) {
        let data = Buf::zeroed(4096).expect("memory").freeze();
        // Whether it was done does not matter here.
        let _ = disk.write(0, data, WriteFlags::VOLATILE).await;
    }

    /// Cancels work that changes a disk which does not answer, and says whether it was left before it did.
    async fn is_left(operation: Operation, flush: bool) -> (bool, bool) {
        let (faulty, disk) = faulty();
        faulty.inject(Rule::always(operation, Fault::Hang));
        let (cancel, left) = (Rc::new(Cancel::default()), Rc::new(Cell::new(false)));
        let (asked, told) = (cancel.clone(), left.clone());
        ring::spawn(async move {
            let work = async move {
                match flush {
                    true => _ = disk.flush().await,
                    false => write(&*disk).await,
                }
                std::future::pending::<()>().await;
            };
            assert!(until_cancelled(work, asked, || Some(7)).await == Err(7));
            told.set(true);
        });
        ring::sleep(Duration::from_millis(5)).await;
        for _ in 0..3 {
            cancel.ask();
            ring::sleep(Duration::from_millis(5)).await;
        }
        let before = left.get();
        faulty.release();
        ring::sleep(Duration::from_millis(20)).await;
        cancel.ask();
        ring::sleep(Duration::from_millis(5)).await;
        (before, left.get())
    }

    #[test]
    fn work_is_not_left_while_a_change_or_a_flush_of_its_own_is_under_way() {
        on_a_core(async {
            assert_eq!(is_left(Operation::Write, false).await, (false, true));
            assert_eq!(is_left(Operation::Flush, true).await, (false, true));
            // A disk that is only read is left at once.
            assert_eq!(is_left(Operation::Read, false).await, (true, true));
        });
    }

    /// Cancels work that a disk refuses its first writes, and that writes so often.
    async fn refused(refusals: u32, writes: u32) -> Result<&'static str, ()> {
        let (faulty, disk) = faulty();
        let refusal = Fault::Fail(BlockError::NoMemory);
        faulty.inject(Rule::always(Operation::Write, refusal).times(refusals));
        let cancel = Rc::new(Cancel::default());
        cancel.ask();
        let work = async move {
            for _ in 0..writes {
                write(&*disk).await;
            }
            ring::sleep(Duration::from_millis(20)).await;
            "done"
        };
        until_cancelled(work, cancel, || Some(())).await
    }

    #[test]
    fn work_that_a_disk_refused_a_change_goes_on_to_its_end() {
        on_a_core(async {
            assert_eq!(refused(1, 1).await, Ok("done"));
            assert_eq!(refused(2, 2).await, Ok("done"));
        });
    }

    #[test]
    fn work_whose_change_was_taken_at_a_second_try_is_left() {
        on_a_core(async {
            assert_eq!(refused(1, 2).await, Err(()));
            assert_eq!(refused(2, 3).await, Err(()));
        });
    }

    #[test]
    fn a_scrub_waits_until_all_that_verify_read() {
        assert!(Safe::Always.is_so(0, 1));
        assert!(!Safe::OnceItReads.is_so(0, 1) && !Safe::OnceItReads.is_so(1, 2));
        assert!(Safe::OnceItReads.is_so(2, 2));
    }
}
