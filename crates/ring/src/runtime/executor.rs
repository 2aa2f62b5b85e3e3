//! Tasks of one core and their wakers.
//!
//! A waker is three numbers: core, task, and the task's serial number. So it is cheap to clone,
//! never allocates, never keeps a task alive, and may be used from any thread: on another one it
//! goes through the core's mailbox. One that outlives its task wakes nobody, or at worst, after
//! 2^24 further tasks, another task for nothing.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use slab::Slab;

use super::task_box::TaskBox;
use super::{Core, mailbox};

/// Names a task: bits 0..24 its place in the slab, 24..48 its serial number, 48..64 its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskId(usize);

const PLACE_BITS: u32 = 24;
const PLACE_MASK: usize = (1 << PLACE_BITS) - 1;
const CORE_SHIFT: u32 = 48;

impl TaskId {
    fn place(self) -> usize {
        self.0 & PLACE_MASK
    }

    pub(super) fn core_uid(self) -> u16 {
        (self.0 >> CORE_SHIFT) as u16
    }

    fn waker(self) -> Waker {
        let data = std::ptr::without_provenance(self.0);
        // SAFETY: the functions of the table use `data` as a number only, from any thread, and
        // there is nothing to free.
        unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) }
    }

    fn wake(self) {
        match Core::try_current() {
            Some(core) if core.tasks.core_uid == self.core_uid() => core.tasks.wake(self),
            _ => mailbox::wake_remote(self),
        }
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |data| RawWaker::new(data, &VTABLE),
    |data| TaskId(data.addr()).wake(),
    |data| TaskId(data.addr()).wake(),
    |_| (),
);

struct Task {
    id: TaskId,
    /// `None` while it is polled.
    future: Option<TaskBox>,
    /// In the run queue.
    queued: bool,
}

pub(super) struct Tasks {
    core_uid: u16,
    serial: Cell<usize>,
    slab: RefCell<Slab<Task>>,
    ready: RefCell<VecDeque<TaskId>>,
}

impl Tasks {
    pub(super) fn new(core_uid: u16) -> Tasks {
        Tasks {
            core_uid,
            serial: Cell::new(0),
            slab: RefCell::default(),
            ready: RefCell::default(),
        }
    }

    pub(super) fn spawn(&self, future: TaskBox) {
        let serial = self.serial.get();
        self.serial.set((serial + 1) & PLACE_MASK);
        let mut slab = self.slab.borrow_mut();
        let entry = slab.vacant_entry();
        assert!(entry.key() <= PLACE_MASK, "16 million tasks on one core");
        let id = entry.key() | serial << PLACE_BITS | usize::from(self.core_uid) << CORE_SHIFT;
        entry.insert(Task { id: TaskId(id), future: Some(future), queued: true });
        self.ready.borrow_mut().push_back(TaskId(id));
    }

    pub(super) fn any_ready(&self) -> bool {
        !self.ready.borrow().is_empty()
    }

    /// Puts a task into the run queue, if it still exists and is not there yet.
    pub(super) fn wake(&self, id: TaskId) {
        if let Some(task) = self.slab.borrow_mut().get_mut(id.place())
            && task.id == id
            && !task.queued
        {
            task.queued = true;
            self.ready.borrow_mut().push_back(id);
        }
    }

    /// Polls ready tasks, also those that become ready meanwhile, `polls_max` in all.
    pub(super) fn run(&self, polls_max: usize) {
        for _ in 0..polls_max {
            let Some(id) = self.ready.borrow_mut().pop_front() else { return };
            let mut future = {
                let mut slab = self.slab.borrow_mut();
                let Some(task) = slab.get_mut(id.place()).filter(|task| task.id == id) else {
                    continue;
                };
                task.queued = false;
                task.future.take().expect("a task is not polled while it is polled")
            };
            let done = future.poll(&mut Context::from_waker(&id.waker())).is_ready();
            if done {
                self.slab.borrow_mut().remove(id.place());
            } else {
                self.slab.borrow_mut()[id.place()].future = Some(future);
            }
        }
    }

    /// Drops all tasks, and those that their destructors spawn.
    pub(super) fn clear(&self) {
        loop {
            let tasks = self.slab.take();
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        self.ready.take();
    }
}
