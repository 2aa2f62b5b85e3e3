//! A device that fails, waits or hangs where a test says so.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ring::Data;

use crate::{BlockDevice, BlockError, Compared, Extent, Geometry, IoFuture, WriteFlags, arguments};

/// How often a held operation looks whether it was let go.
const HOLD_POLL: Duration = Duration::from_micros(200);

/// What an operation is, for choosing which ones fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `read`.
    Read,
    /// `write` and `write_now`.
    Write,
    /// `flush`, which has no range and meets rules of any range.
    Flush,
    /// `unmap`.
    Unmap,
    /// `write_zeroes`.
    WriteZeroes,
    /// `compare_and_write` and `or_write`.
    ReadModifyWrite,
    /// `extent`.
    Extent,
}

/// What happens to an operation that meets a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Ends with this error; nothing reaches the device.
    Fail(BlockError),
    /// Starts so much later.
    Delay(Duration),
    /// Does not start until [`FaultyDisk::release`].
    Hang,
    /// Takes effect, but its answer waits until [`FaultyDisk::release`] or
    /// [`FaultyDisk::release_newest`]: answers in another order than the effects.
    HoldAnswer,
    /// Takes effect, and ends with this error: its answer was lost.
    LoseAnswer(BlockError),
    /// Ends with this error. Of a `write` that is not atomic the first half reaches the device before.
    Tear(BlockError),
}

/// Which operations meet which fault.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The operations meant; empty means all.
    pub operations: Vec<Operation>,
    /// Bytes; an operation that touches one of them is meant.
    pub bytes: Range<u64>,
    /// How often the rule applies before it is used up.
    pub times: u32,
    /// What happens.
    pub fault: Fault,
}

impl Rule {
    /// Every operation of this kind, everywhere, always.
    pub fn always(operation: Operation, fault: Fault) -> Self {
        Self { operations: vec![operation], bytes: 0..u64::MAX, times: u32::MAX, fault }
    }

    /// The same on these bytes only.
    #[must_use]
    pub fn at(self, bytes: Range<u64>) -> Self {
        Self { bytes, ..self }
    }

    /// The same for the next `times` operations only.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    fn means(&self, operation: Operation, bytes: &Range<u64>) -> bool {
        let kind = self.operations.is_empty() || self.operations.contains(&operation);
        let place = self.bytes.start < bytes.end && bytes.start < self.bytes.end;
        self.times > 0 && kind && (place || operation == Operation::Flush)
    }
}

/// A device that passes everything to another one, except what meets a [`Rule`].
#[derive(Debug, Clone)]
pub struct FaultyDisk {
    inner: Arc<dyn BlockDevice>,
    script: Arc<Mutex<Script>>,
    /// A flush failed since it was opened, and it [remembers](Self::remember_failures).
    has_lost: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Script {
    /// What it says its capacity is, where that is not that of the device below.
    blocks: Option<u64>,
    remembers: bool,
    written_bytes: u64,
    /// Changes since it is watched, with whether each was durable of itself.
    changes: Option<Vec<(Range<u64>, bool)>>,
    rules: Vec<Rule>,
    held: Vec<u64>,
    next_id: u64,
}

impl FaultyDisk {
    /// A device without faults yet, over `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        Self { inner, script: Arc::default(), has_lost: Arc::default() }
    }

    /// Adds a rule; of several that mean an operation, the oldest applies.
    pub fn inject(&self, rule: Rule) {
        self.script().rules.push(rule);
    }

    /// From now on a flush that fails is never forgotten, as by a file: until it is opened anew
    /// nothing is durable any more.
    pub fn remember_failures(&self) {
        self.script().remembers = true;
    }

    /// From now on [`is_durable`](Self::is_durable) can tell.
    pub fn watch_durability(&self) {
        self.script().changes = Some(Vec::new());
    }

    /// Whether all of `bytes` was changed durably, or flushed since, or not changed, since it is
    /// watched.
    ///
    /// # Panics
    /// When it is not watched.
    pub fn is_durable(&self, bytes: &Range<u64>) -> bool {
        let script = self.script();
        let changes = script.changes.as_ref().expect("it is watched");
        let block = self.inner.geometry().block_bytes as usize;
        // The newest change of a block is the one that counts.
        bytes.clone().step_by(block).all(|at| {
            let newest = changes.iter().rev().find(|(bytes, _)| bytes.contains(&at));
            newest.is_none_or(|(_, is_durable)| *is_durable)
        })
    }

    /// How much was to be written so far, zeroes and what was unmapped included.
    pub fn written_bytes(&self) -> u64 {
        self.script().written_bytes
    }

    fn note_change(&self, bytes: &Range<u64>, is_durable: bool) {
        let script = &mut self.script();
        // What the device below is about to refuse may be as long as a number.
        script.written_bytes = script.written_bytes.saturating_add(bytes.end - bytes.start);
        if let Some(changes) = &mut script.changes {
            changes.push((bytes.clone(), is_durable));
        }
    }

    fn note_flush(&self) {
        if let Some(changes) = &mut self.script().changes {
            changes.clear();
        }
    }

    /// The shape, where it is not that of the device below, which then cannot judge arguments.
    fn resized(&self) -> Option<Geometry> {
        let blocks = self.script().blocks?;
        Some(Geometry { blocks, ..self.inner.geometry() })
    }

    fn check_durable(&self, is_durable: bool) -> Result<(), BlockError> {
        match is_durable && self.has_lost.load(Ordering::SeqCst) {
            true => Err(BlockError::LostWrites),
            false => Ok(()),
        }
    }

    /// Forgets all rules. What hangs goes on hanging.
    pub fn heal(&self) {
        self.script().rules.clear();
    }

    /// Has this capacity from now on: at most that of the device below.
    pub fn resize(&self, blocks: u64) {
        assert!(blocks <= self.inner.geometry().blocks, "there is no more than that");
        self.script().blocks = Some(blocks);
    }

    /// How many operations hang or hold their answer now.
    pub fn held(&self) -> usize {
        self.script().held.len()
    }

    /// Lets everything go that is held.
    pub fn release(&self) {
        self.script().held.clear();
    }

    /// Lets the operation go that was held last, so that answers come in reverse.
    pub fn release_newest(&self) {
        self.script().held.pop();
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().expect("no test panics while it holds the script")
    }

    fn meets(&self, operation: Operation, bytes: &Range<u64>) -> bool {
        self.script().rules.iter().any(|rule| rule.means(operation, bytes))
    }

    /// Whether a plain write of these bytes is to be torn.
    fn tears(&self, bytes: &Range<u64>) -> bool {
        let script = self.script();
        let rule = script.rules.iter().find(|rule| rule.means(Operation::Write, bytes));
        rule.is_some_and(|rule| matches!(rule.fault, Fault::Tear(_)))
    }

    fn take_fault(&self, operation: Operation, bytes: &Range<u64>) -> Option<Fault> {
        let mut script = self.script();
        let rule = script.rules.iter_mut().find(|rule| rule.means(operation, bytes))?;
        rule.times = if rule.times == u32::MAX { u32::MAX } else { rule.times - 1 };
        Some(rule.fault)
    }

    async fn hold(&self) {
        let id = {
            let mut script = self.script();
            let id = script.next_id;
            script.next_id += 1;
            script.held.push(id);
            id
        };
        while self.script().held.contains(&id) {
            ring::sleep(HOLD_POLL).await;
        }
    }

    fn run<T: 'static>(
        &self,
        operation: Operation,
        bytes: &Range<u64>,
        start: impl FnOnce(&dyn BlockDevice) -> IoFuture<T> + 'static,
    ) -> IoFuture<T> {
        let Some(fault) = self.take_fault(operation, bytes) else {
            return start(&*self.inner);
        };
        let disk = self.clone();
        match fault {
            Fault::Fail(error) | Fault::Tear(error) => IoFuture::ready(Err(error)),
            Fault::LoseAnswer(error) => {
                let running = start(&*self.inner);
                IoFuture::boxed(async move {
                    running.await?;
                    Err(error)
                })
            }
            Fault::Delay(time) => IoFuture::boxed(async move {
                ring::sleep(time).await;
                start(&*disk.inner).await
            }),
            Fault::Hang => IoFuture::boxed(async move {
                disk.hold().await;
                start(&*disk.inner).await
            }),
            Fault::HoldAnswer => {
                let running = start(&*self.inner);
                IoFuture::boxed(async move {
                    let result = running.await;
                    disk.hold().await;
                    result
                })
            }
        }
    }
}

fn span(at: u64, len: u64) -> Range<u64> {
    at..at.saturating_add(len)
}

impl BlockDevice for FaultyDisk {
    fn reopened(&self) -> Option<Arc<dyn BlockDevice>> {
        let inner = self.inner.reopened().unwrap_or_else(|| Arc::clone(&self.inner));
        let script = Arc::clone(&self.script);
        Some(Arc::new(Self { inner, script, has_lost: Arc::default() }))
    }

    fn geometry(&self) -> Geometry {
        self.resized().unwrap_or_else(|| self.inner.geometry())
    }

    fn read(&self, at: u64, len: usize) -> IoFuture<Data> {
        if let Some(answer) = self.resized().and_then(|shape| arguments::read(&shape, at, len)) {
            return IoFuture::ready(answer);
        }
        self.run(Operation::Read, &span(at, len as u64), move |disk| disk.read(at, len))
    }

    fn write_now(
        &self,
        at: u64,
        bytes: &[u8],
        flags: WriteFlags,
    ) -> Option<Result<(), BlockError>> {
        // A rule is met, and used up, by the `write` that follows, which also refuses.
        let bad = |shape| arguments::write(&shape, at, bytes.len(), flags).is_some();
        let is_refused =
            self.check_durable(flags.durable).is_err() || self.resized().is_some_and(bad);
        if is_refused || self.meets(Operation::Write, &span(at, bytes.len() as u64)) {
            return None;
        }
        self.note_change(&span(at, bytes.len() as u64), flags.durable);
        self.inner.write_now(at, bytes, flags)
    }

    fn write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) =
            self.resized().and_then(|shape| arguments::write(&shape, at, data.len(), flags))
        {
            return IoFuture::ready(answer);
        }
        if let Err(error) = self.check_durable(flags.durable) {
            return IoFuture::ready(Err(error));
        }
        let bytes = span(at, data.len() as u64);
        self.note_change(&bytes, flags.durable);
        if flags.atomic || !self.tears(&bytes) {
            return self.run(Operation::Write, &bytes, move |disk| disk.write(at, data, flags));
        }
        let block = self.inner.geometry().block_bytes as usize;
        let half = self.inner.write(at, data.slice(0..data.len() / block / 2 * block), flags);
        let failed = self.run(Operation::Write, &bytes, move |disk| disk.write(at, data, flags));
        IoFuture::boxed(async move {
            half.await?;
            failed.await
        })
    }

    fn flush(&self) -> IoFuture<()> {
        if let Err(error) = self.check_durable(true) {
            return IoFuture::ready(Err(error));
        }
        match self.meets(Operation::Flush, &(0..0)) {
            false => self.note_flush(),
            true if self.script().remembers => self.has_lost.store(true, Ordering::SeqCst),
            true => {}
        }
        self.run(Operation::Flush, &(0..0), |disk| disk.flush())
    }

    fn unmap(&self, at: u64, len: u64) -> IoFuture<()> {
        if let Some(answer) = self.resized().and_then(|shape| arguments::unmap(&shape, at, len)) {
            return IoFuture::ready(answer);
        }
        self.note_change(&span(at, len), false);
        self.run(Operation::Unmap, &span(at, len), move |disk| disk.unmap(at, len))
    }

    fn write_zeroes(&self, at: u64, len: u64, may_unmap: bool, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) =
            self.resized().and_then(|shape| arguments::write_zeroes(&shape, at, len, flags))
        {
            return IoFuture::ready(answer);
        }
        self.note_change(&span(at, len), flags.durable);
        self.run(Operation::WriteZeroes, &span(at, len), move |disk| {
            disk.write_zeroes(at, len, may_unmap, flags)
        })
    }

    fn compare_and_write(
        &self,
        at: u64,
        compare: Data,
        write: Data,
        flags: WriteFlags,
    ) -> IoFuture<Compared> {
        let judged = |shape| arguments::compare_and_write(&shape, at, &compare, &write);
        if let Some(answer) = self.resized().and_then(judged) {
            return IoFuture::ready(answer);
        }
        let bytes = span(at, write.len() as u64);
        self.note_change(&bytes, flags.durable);
        self.run(Operation::ReadModifyWrite, &bytes, move |disk| {
            disk.compare_and_write(at, compare, write, flags)
        })
    }

    fn or_write(&self, at: u64, data: Data, flags: WriteFlags) -> IoFuture<()> {
        if let Some(answer) =
            self.resized().and_then(|shape| arguments::or_write(&shape, at, data.len()))
        {
            return IoFuture::ready(answer);
        }
        let bytes = span(at, data.len() as u64);
        self.note_change(&bytes, flags.durable);
        self.run(Operation::ReadModifyWrite, &bytes, move |disk| disk.or_write(at, data, flags))
    }

    fn extent(&self, at: u64) -> IoFuture<Extent> {
        let refused = |shape: Geometry| arguments::extent(&shape, at).err();
        if let Some(error) = self.resized().and_then(refused) {
            return IoFuture::ready(Err(error));
        }
        let block = u64::from(self.inner.geometry().block_bytes);
        let found = self.run(Operation::Extent, &span(at, block), move |disk| disk.extent(at));
        let Some(shape) = self.resized() else { return found };
        IoFuture::boxed(async move {
            let Extent { len_bytes, state } = found.await?;
            Ok(Extent { len_bytes: len_bytes.min(shape.size_bytes() - at), state })
        })
    }
}

#[cfg(test)]
mod tests;
