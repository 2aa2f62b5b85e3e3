//! The command window of one session (RFC 7143 §4.2.2.1): which CmdSN runs next, which may wait,
//! and how many more the initiator may send.
//!
//! Invariant: `exp_cmd_sn - 1 <= max_cmd_sn` in serial arithmetic, and `max_cmd_sn` never moves
//! back, since an initiator ignores a MaxCmdSN that does.

use super::serial::{serial_le, serial_lt};

/// What to do with a command that has just arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Next in order: run it now.
    InOrder,
    /// Inside the window but ahead of others that are still on their way (another connection of
    /// the session): keep it until its turn.
    Early,
    /// Outside the window or seen before: ignore it silently, as RFC 7143 §4.2.2.1 demands.
    Ignore,
}

/// Numbering of one session's commands, and the room it is given.
#[derive(Debug)]
pub struct CommandWindow {
    exp_cmd_sn: u32,
    max_cmd_sn: u32,
    depth: u32,
    outstanding: u32,
}

impl CommandWindow {
    /// A window that expects `exp_cmd_sn` next and lets at most `depth` (1 or more) commands be
    /// under way.
    #[must_use]
    pub fn new(exp_cmd_sn: u32, depth: u32) -> Self {
        assert!(depth > 0 && depth < 0x4000_0000, "a window holds at least one command");
        let max_cmd_sn = exp_cmd_sn.wrapping_add(depth).wrapping_sub(1);
        Self { exp_cmd_sn, max_cmd_sn, depth, outstanding: 0 }
    }

    /// The next CmdSN that will run.
    #[inline]
    #[must_use]
    pub fn exp_cmd_sn(&self) -> u32 {
        self.exp_cmd_sn
    }

    /// The last CmdSN that the initiator may send.
    #[inline]
    #[must_use]
    pub fn max_cmd_sn(&self) -> u32 {
        self.max_cmd_sn
    }

    /// Commands taken in order and not yet completed.
    #[must_use]
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Where a non-immediate command with `cmd_sn` belongs. `InOrder` has already been counted as
    /// outstanding, and the next number is expected after it.
    #[inline]
    pub fn place(&mut self, cmd_sn: u32) -> Placement {
        if cmd_sn == self.exp_cmd_sn && serial_le(cmd_sn, self.max_cmd_sn) {
            self.exp_cmd_sn = self.exp_cmd_sn.wrapping_add(1);
            self.outstanding += 1;
            return Placement::InOrder;
        }
        if serial_lt(self.exp_cmd_sn, cmd_sn) && serial_le(cmd_sn, self.max_cmd_sn) {
            Placement::Early
        } else {
            Placement::Ignore
        }
    }

    /// One command that `place` took in order has ended. With `pressed` (memory runs short) the
    /// window is not opened further than one command, so that it closes as commands drain.
    #[inline]
    pub fn complete(&mut self, pressed: bool) {
        debug_assert!(self.outstanding > 0, "completed a command that was never taken");
        self.outstanding = self.outstanding.saturating_sub(1);
        self.reopen(pressed);
    }

    /// Opens the window as far as the outstanding commands allow; never moves it back.
    #[inline]
    pub fn reopen(&mut self, pressed: bool) {
        let depth = if pressed { 1 } else { self.depth };
        let room = depth.saturating_sub(self.outstanding);
        let max = self.exp_cmd_sn.wrapping_add(room).wrapping_sub(1);
        if serial_lt(self.max_cmd_sn, max) {
            self.max_cmd_sn = max;
        }
    }
}
