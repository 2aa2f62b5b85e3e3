//! The operations of a disk, as commands. All of this runs on the core that owns the disk.

use std::rc::Rc;

use block::{BlockError, Compared, Extent, ExtentState, WriteFlags, zeroes};
use ring::{Buf, Data};
use scsi::{AdditionalSense, SenseKey};

use super::cdb::{self, Blocks};
use super::core::{Command, Core};
use super::facts::first_extent;
use super::judge::error_of;
use crate::session::{Reply, Transfer};

/// What is written where WRITE SAME does not exist.
const ZERO_BYTES: usize = 256 << 10;

impl Core {
    fn block_bytes(&self) -> u32 {
        self.facts.geometry.block_bytes
    }

    fn blocks(&self, at: u64, len: usize) -> Blocks {
        let block_bytes = u64::from(self.block_bytes());
        let count = u32::try_from(len as u64 / block_bytes).expect("commands are bounded");
        Blocks { lba: at / block_bytes, count }
    }

    async fn good(self: &Rc<Self>, at: u64, command: Command) -> Result<Reply, BlockError> {
        let reply = self.run(command).await?;
        match error_of(&reply, at, self.block_bytes()) {
            None => Ok(reply),
            Some(error) => Err(error),
        }
    }

    /// How much of what begins at byte `at` one command may be about: pages of another owner are
    /// read and written through other paths.
    fn piece_len(&self, at: u64, left: usize) -> usize {
        let max = usize::try_from(self.facts.transfer_bytes_max).unwrap_or(usize::MAX);
        let end = self.router.borrow().run_end(at..at + left.min(max) as u64);
        usize::try_from(end - at).expect("it is cut, not grown")
    }

    pub(super) async fn read(self: Rc<Self>, at: u64, len: usize) -> Result<Data, BlockError> {
        if self.piece_len(at, len) == len {
            return self.read_piece(at, len).await;
        }
        let mut whole = Buf::alloc(len).ok_or(BlockError::NoMemory)?;
        let mut done = 0;
        while done < len {
            let here = at + done as u64;
            let piece = self.read_piece(here, self.piece_len(here, len - done)).await?;
            piece.copy_to(0, &mut whole[done..done + piece.len()]);
            done += piece.len();
        }
        Ok(whole.freeze())
    }

    async fn read_piece(self: &Rc<Self>, at: u64, len: usize) -> Result<Data, BlockError> {
        let transfer = Transfer::In(u32::try_from(len).expect("pieces are bounded"));
        let command = Command::asking(cdb::read(self.blocks(at, len)), transfer, at);
        let reply = self.good(at, command).await?;
        // A target that answers GOOD with less has not read what it should.
        if reply.data.len() == len { Ok(reply.data) } else { Err(BlockError::Medium { at }) }
    }

    pub(super) async fn write(
        self: Rc<Self>,
        at: u64,
        data: Data,
        flags: WriteFlags,
    ) -> Result<(), BlockError> {
        let (fua, losses) = (flags.durable && self.facts.has_fua, self.cache.losses());
        if flags.atomic {
            if self.facts.atomic_bytes_max == 0 {
                return Err(BlockError::Unsupported);
            }
            let cdb = cdb::write_atomic(self.blocks(at, data.len()), fua);
            self.change(at, (cdb, fua), data).await?;
        } else {
            let mut done = 0;
            while done < data.len() {
                let here = at + done as u64;
                let end = done + self.piece_len(here, data.len() - done);
                let piece = data.slice(done..end);
                done = end;
                let cdb = cdb::write(self.blocks(here, piece.len()), fua);
                self.change(here, (cdb, fua), piece).await?;
            }
        }
        self.settle(flags.durable && !fua, losses).await
    }

    /// A command that writes `data` over as many bytes, durably if it says so.
    async fn change(
        self: &Rc<Self>,
        at: u64,
        (cdb, is_durable): (cdb::Cdb, bool),
        data: Data,
    ) -> Result<(), BlockError> {
        let changes = Some(at..at + data.len() as u64);
        let transfer = Transfer::Out(data);
        let command = Command { changes, is_durable, ..Command::asking(cdb, transfer, at) };
        self.good(at, command).await.map(drop)
    }

    /// Makes what was written durable where the command itself could not; `losses` is how often
    /// something was lost before it was written.
    async fn settle(self: &Rc<Self>, is_due: bool, losses: u64) -> Result<(), BlockError> {
        if !is_due {
            return Ok(());
        }
        let synchronized = self.synchronize().await;
        // What was written is there, whether it lasts or not.
        synchronized.map_err(|error| match error {
            BlockError::Unreachable => BlockError::InDoubt,
            other => other,
        })?;
        if self.cache.losses() == losses { Ok(()) } else { Err(BlockError::LostWrites) }
    }

    /// # Errors
    /// [`BlockError::LostWrites`] once after writes that were answered are lost.
    pub(super) async fn flush(self: Rc<Self>) -> Result<(), BlockError> {
        self.synchronize().await?;
        self.cache.tell()
    }

    /// Before the unit's target stops in order: what is durable then is not lost when it is back.
    pub(super) async fn settle_cache(self: Rc<Self>) {
        if self.cache.is_dirty()
            && let Err(error) = self.synchronize().await
        {
            tracing::debug!("{}: its cache was not flushed before a logout: {error}", self.address);
        }
    }

    async fn synchronize(self: &Rc<Self>) -> Result<(), BlockError> {
        let mark = self.cache.mark();
        let command = Command::asking(cdb::synchronize_cache(), Transfer::None, 0);
        self.good(0, Command { at: None, ..command }).await?;
        self.cache.flushed(mark);
        Ok(())
    }

    /// Gives space back: by WRITE SAME where that leaves zeroes, else by UNMAP, which may leave what
    /// was there (SBC-4 5.35). Where the unit has neither, nothing is done: to write zeroes would
    /// fill it.
    pub(super) async fn unmap(self: Rc<Self>, at: u64, len: u64) -> Result<(), BlockError> {
        if self.facts.can_unmap {
            return self.zero(at, len, true, false).await;
        }
        let mut here = at;
        while here < at + len && self.facts.unmap_bytes_max > 0 {
            let step = self.facts.unmap_bytes_max.min(at + len - here);
            let blocks = u32::try_from(step / u64::from(self.block_bytes()));
            let count = blocks.expect("steps are bounded");
            let blocks = Blocks { lba: here / u64::from(self.block_bytes()), count };
            let list = cdb::unmap_list(blocks);
            let mut parameters = Buf::alloc(list.len()).ok_or(BlockError::NoMemory)?;
            parameters.copy_from_slice(&list);
            let transfer = Transfer::Out(parameters.freeze());
            let command = Command::asking(cdb::unmap(list.len()), transfer, here);
            match self.good(here, Command { changes: Some(here..here + step), ..command }).await {
                // It was a wish.
                Err(BlockError::Unsupported) => return Ok(()),
                done => done?,
            };
            here += step;
        }
        Ok(())
    }

    /// Zeroes by WRITE SAME, which may give space back, or by writes. `unmap` is a wish; the zeroes
    /// are not, so UNMAP, which may leave data in place (SBC-4 5.35), is never used.
    pub(super) async fn zero(
        self: Rc<Self>,
        at: u64,
        len: u64,
        unmap: bool,
        durable: bool,
    ) -> Result<(), BlockError> {
        let (end, losses) = (at + len, self.cache.losses());
        let mut here = at;
        while here < end {
            let step = self.facts.write_same_bytes_max.min(end - here);
            match self.write_same(here, step, unmap && self.facts.can_unmap).await {
                // Perhaps of these blocks only.
                Err(BlockError::Unsupported) => self.write_zero_data(here, here + step).await?,
                done => done?,
            }
            here += step;
        }
        self.settle(durable && len > 0, losses).await
    }

    /// `Unsupported` where WRITE SAME is refused.
    async fn write_same(self: &Rc<Self>, at: u64, len: u64, unmap: bool) -> Result<(), BlockError> {
        if self.lacks_write_same.get() {
            return Err(BlockError::Unsupported);
        }
        let block = zeroes(self.block_bytes() as usize)?;
        let blocks = u32::try_from(len / u64::from(self.block_bytes())).expect("steps are bounded");
        let lba = at / u64::from(self.block_bytes());
        let cdb = cdb::write_same(Blocks { lba, count: blocks }, unmap);
        let command = Command::asking(cdb, Transfer::Out(block), at);
        let reply = self.run(Command { changes: Some(at..at + len), ..command }).await?;
        let code = reply.sense.map(|sense| sense.additional);
        if code == Some(AdditionalSense::INVALID_COMMAND_OPERATION_CODE) {
            self.lacks_write_same.set(true);
        }
        error_of(&reply, at, self.block_bytes()).map_or(Ok(()), Err)
    }

    async fn write_zero_data(self: &Rc<Self>, at: u64, end: u64) -> Result<(), BlockError> {
        let zeroes = zeroes(ZERO_BYTES)?;
        let mut here = at;
        while here < end {
            let len = usize::try_from(end - here).unwrap_or(usize::MAX).min(ZERO_BYTES);
            self.clone().write(here, zeroes.slice(0..len), WriteFlags::VOLATILE).await?;
            here += len as u64;
        }
        Ok(())
    }

    pub(super) async fn compare_and_write(
        self: Rc<Self>,
        at: u64,
        compare: Data,
        write: Data,
        durable: bool,
    ) -> Result<Compared, BlockError> {
        if self.facts.compare_bytes_max == 0 {
            return Err(BlockError::Unsupported);
        }
        let fua = durable && self.facts.has_fua;
        let len = compare.len();
        let mut both = Buf::alloc(2 * len).ok_or(BlockError::NoMemory)?;
        compare.copy_to(0, &mut both[..len]);
        write.copy_to(0, &mut both[len..]);
        let blocks = self.blocks(at, len);
        let cdb = cdb::compare_and_write(blocks, fua);
        let command = Command {
            changes: Some(at..at + len as u64),
            is_durable: fua,
            resolve: Some(blocks),
            ..Command::asking(cdb, Transfer::Out(both.freeze()), at)
        };
        let losses = self.cache.losses();
        let reply = self.run(command).await?;
        match reply.sense {
            Some(sense) if sense.key == SenseKey::Miscompare => {
                let offset = sense.information.and_then(|offset| usize::try_from(offset).ok());
                Ok(Compared::Miscompare { offset_bytes: offset.unwrap_or(0).min(len - 1) })
            }
            _ => match error_of(&reply, at, self.block_bytes()) {
                Some(error) => Err(error),
                None => {
                    self.settle(durable && !fua, losses).await?;
                    Ok(Compared::Equal)
                }
            },
        }
    }

    pub(super) async fn or_write(
        self: Rc<Self>,
        at: u64,
        data: Data,
        durable: bool,
    ) -> Result<(), BlockError> {
        let (fua, losses) = (durable && self.facts.has_fua, self.cache.losses());
        let cdb = cdb::or_write(self.blocks(at, data.len()), fua);
        self.change(at, (cdb, fua), data).await?;
        self.settle(durable && !fua, losses).await
    }

    pub(super) async fn extent(self: Rc<Self>, at: u64) -> Result<Extent, BlockError> {
        const ONE_EXTENT_BYTES: u32 = 24;
        let geometry = self.geometry();
        let left = geometry.size_bytes() - at;
        let all = Extent { len_bytes: left, state: ExtentState::Mapped };
        if !geometry.thin {
            return Ok(all);
        }
        let lba = at / u64::from(geometry.block_bytes);
        let cdb = cdb::get_lba_status(lba, ONE_EXTENT_BYTES);
        let command = Command::asking(cdb, Transfer::In(ONE_EXTENT_BYTES), at);
        let data = match self.good(at, command).await {
            Ok(reply) => reply.data,
            // Who cannot tell has to be taken as full.
            Err(BlockError::Unsupported) => return Ok(all),
            Err(error) => return Err(error),
        };
        let first = data.as_slice().and_then(|data| first_extent(lba, data));
        let (blocks, state) = first.unwrap_or((0, 0));
        let len_bytes = blocks.saturating_mul(geometry.block_bytes.into()).min(left);
        if len_bytes == 0 {
            return Ok(all);
        }
        let state = match state {
            1 => ExtentState::Deallocated,
            2 => ExtentState::Anchored,
            _ => ExtentState::Mapped,
        };
        Ok(Extent { len_bytes, state })
    }
}
