//! The memory of tasks.
//!
//! A core starts a task or more for each command, and all of these are of a few sizes. So what a task
//! has lain in is kept for the next one of about the same size: in a steady state no task allocates.
//!
//! Invariant: a block that is kept belongs to nobody, and was allocated with the layout of its class.

use std::alloc::{self, Layout};
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The smallest class; each further one has twice as many bytes.
const CLASS_BYTES_MIN: usize = 128;
/// Up to 8 KiB. What is larger, or aligned in a special way, is allocated each time.
const CLASSES: usize = 7;
/// As `malloc` aligns, and enough for any future that holds no vectors of the processor.
const CLASS_ALIGN_BYTES: usize = 16;
/// What is kept of each class.
const KEPT_BYTES_MAX: usize = 1 << 20;

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept([const { Vec::new() }; CLASSES])) };
}

/// Blocks without a task, by class.
struct Kept([Vec<NonNull<u8>>; CLASSES]);

impl Drop for Kept {
    fn drop(&mut self) {
        for (class, blocks) in self.0.iter_mut().enumerate() {
            for block in blocks.drain(..) {
                // SAFETY: by the module's invariant it has this layout, and nobody uses it.
                unsafe { alloc::dealloc(block.as_ptr(), layout_of(class)) };
            }
        }
    }
}

fn layout_of(class: usize) -> Layout {
    Layout::from_size_align(CLASS_BYTES_MIN << class, CLASS_ALIGN_BYTES).expect("a small layout")
}

/// The class that a value of this layout fits in, if there is one.
fn class_of(value: Layout) -> Option<usize> {
    if value.align() > CLASS_ALIGN_BYTES {
        return None;
    }
    let class = value.size().div_ceil(CLASS_BYTES_MIN).max(1).next_power_of_two().ilog2() as usize;
    (class < CLASSES).then_some(class)
}

/// Memory for a value of this layout, which is given back by [`give_back`] with the same layout.
fn take(value: Layout) -> NonNull<u8> {
    let class = class_of(value);
    let kept =
        class.and_then(|class| KEPT.try_with(|kept| kept.borrow_mut().0[class].pop()).ok()?);
    kept.unwrap_or_else(|| {
        let layout = class.map_or(value, layout_of);
        assert!(layout.size() > 0, "a class has bytes, and what has no class is large");
        // SAFETY: the layout has bytes, as was just checked.
        let block = unsafe { alloc::alloc(layout) };
        NonNull::new(block).unwrap_or_else(|| alloc::handle_alloc_error(layout))
    })
}

/// # Safety
/// `block` came from [`take`] with the same layout, and nobody uses it any more.
unsafe fn give_back(block: NonNull<u8>, value: Layout) {
    let class = class_of(value);
    let is_kept = class.is_some_and(|class| {
        let keep = |kept: &RefCell<Kept>| {
            let blocks = &mut kept.borrow_mut().0[class];
            let has_room = blocks.len() < KEPT_BYTES_MAX / layout_of(class).size();
            if has_room {
                blocks.push(block);
            }
            has_room
        };
        // At the end of the thread there is nobody to keep it for.
        KEPT.try_with(keep).unwrap_or(false)
    });
    if !is_kept {
        // SAFETY: `take` allocated it with this layout, and by the caller's word nobody uses it.
        unsafe { alloc::dealloc(block.as_ptr(), class.map_or(value, layout_of)) };
    }
}

/// An owned task, as `Pin<Box<dyn Future>>` would be, in memory that is used again.
pub(super) struct TaskBox(NonNull<dyn Future<Output = ()>>);

impl TaskBox {
    pub(super) fn new<F: Future<Output = ()> + 'static>(future: F) -> Self {
        let place = take(Layout::new::<F>()).cast::<F>();
        // SAFETY: the block has the size and the alignment of `F`, and nobody else has it.
        unsafe { place.write(future) };
        Self(place)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: the future lies in a block that is this value's alone, and it does not move before
        // it is dropped there.
        unsafe { Pin::new_unchecked(self.0.as_mut()) }.poll(cx)
    }
}

impl Drop for TaskBox {
    fn drop(&mut self) {
        /// Also when the future panics while it is dropped.
        struct Block(NonNull<u8>, Layout);
        impl Drop for Block {
            fn drop(&mut self) {
                // SAFETY: `TaskBox::new` took it with this layout, and the future in it is gone.
                unsafe { give_back(self.0, self.1) };
            }
        }
        // SAFETY: the future is there until the end of this function.
        let layout = Layout::for_value(unsafe { self.0.as_ref() });
        let _block = Block(self.0.cast(), layout);
        // SAFETY: it is dropped here, once, and not used afterwards.
        unsafe { self.0.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;
    use std::task::Waker;

    fn poll(task: &mut TaskBox) -> Poll<()> {
        task.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[repr(align(64))]
    struct Aligned([u8; 64]);

    #[test]
    fn every_size_has_its_place_and_is_dropped_once() {
        fn of<const N: usize>(alive: &Rc<()>) -> TaskBox {
            let (bytes, alive) = ([7_u8; N], alive.clone());
            TaskBox::new(async move {
                std::future::pending::<()>().await;
                assert!(bytes.iter().all(|&byte| byte == 7));
                drop(alive);
            })
        }
        let alive = Rc::new(());
        for _ in 0..3 {
            let mut all = [
                of::<0>(&alive),
                of::<100>(&alive),
                of::<1000>(&alive),
                of::<8000>(&alive),
                of::<100_000>(&alive),
            ];
            assert_eq!(Rc::strong_count(&alive), 6);
            assert!(all.iter_mut().all(|task| poll(task).is_pending()));
        }
        assert_eq!(Rc::strong_count(&alive), 1, "dropped half-way");
        assert!(poll(&mut TaskBox::new(async {})).is_ready());
        let aligned = Aligned([1; 64]);
        let is_aligned = async move {
            assert_eq!(std::ptr::from_ref(&aligned).addr() % 64, 0);
            std::future::ready(()).await;
            assert_eq!(aligned.0[63], 1);
        };
        assert!(poll(&mut TaskBox::new(is_aligned)).is_ready());
    }

    #[test]
    fn a_block_is_used_again_by_its_class_alone() {
        let at = |task: &TaskBox| task.0.cast::<u8>();
        let future = |len: usize| async move { drop(vec![0_u8; len]) };
        let one = TaskBox::new(future(1));
        let place = at(&one);
        drop(one);
        let bytes = [0_u8; 3000];
        let large = TaskBox::new(async move { assert_eq!(std::hint::black_box(bytes)[0], 0) });
        let again = TaskBox::new(future(2));
        assert_eq!(at(&again), place);
        assert_ne!(at(&large), place);
    }

    #[test]
    fn classes_hold_what_they_are_for() {
        for size in [0, 1, 127, 128, 129, 256, 257, 4096, 4097, 8192] {
            let value = Layout::from_size_align(size, 8).unwrap();
            let class = layout_of(class_of(value).unwrap());
            assert!(class.size() >= size && (size <= 128 || class.size() < 2 * size), "{size}");
        }
        assert_eq!(class_of(Layout::from_size_align(8193, 8).unwrap()), None);
        assert_eq!(class_of(Layout::from_size_align(8, 32).unwrap()), None);
    }
}
