//! What the command table says about one command.

use super::Command;
use crate::Sense;

/// How a command fares against a reservation that another I_T nexus holds: one column set of the
/// tables "commands allowed in the presence of various reservations" (SPC-5 5.13.1, SBC-4 4.17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessClass {
    /// Runs whatever is reserved: INQUIRY, REPORT LUNS, REQUEST SENSE, LOG SENSE, READ CAPACITY.
    Always,
    /// Runs beside any persistent reservation, but conflicts with a RESERVE of another nexus:
    /// TEST UNIT READY, PERSISTENT RESERVE IN, the REPORT commands.
    AlwaysPersistent,
    /// Reads the medium: allowed beside Write Exclusive types, otherwise only to the holder or,
    /// with the registrants types, to the registered.
    Read,
    /// Changes the medium or the logical unit: only for the holder or, with the registrants types,
    /// for the registered.
    Write,
    /// A reservation command, which decides for itself.
    Reservation,
}

/// Who runs the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Executor {
    /// [`LogicalUnit::execute`](crate::unit::LogicalUnit::execute), from its own state.
    Control,
    /// The caller, against the medium.
    Medium,
    /// The caller's copy manager (SPC-5 5.16).
    CopyManager,
}

/// Which way data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No data.
    None,
    /// Data-In: from the logical unit to the initiator.
    In,
    /// Data-Out: from the initiator to the logical unit.
    Out,
}

/// One row of the command table.
///
/// The row is what decodes the command, what decides whether it may run, and what REPORT SUPPORTED
/// OPERATION CODES and the documentation are made from.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec {
    /// OPERATION CODE.
    pub opcode: u8,
    /// SERVICE ACTION, in the low five bits of byte 1, for commands that have one.
    pub service_action: Option<u8>,
    /// The standard's name.
    pub name: &'static str,
    /// Length of the CDB in bytes.
    pub cdb_bytes: u8,
    /// Which bits of the CDB are evaluated, byte 0 first; the operation code and service action
    /// bits are set too.
    pub(super) usage: u128,
    /// Bits that are not evaluated but may be set: GROUP NUMBER, which SBC-4 4.22 lets a device
    /// server without grouping functions ignore.
    pub(super) ignored: u128,
    /// How it fares against reservations. A few commands depend on a CDB field as well: ask
    /// [`Command::access`].
    pub access: AccessClass,
    /// Runs although a unit attention condition is pending (SAM-5 5.14).
    pub ignores_attention: bool,
    /// Who runs it.
    pub executor: Executor,
    /// Which way its data goes.
    pub direction: Direction,
    /// RECOMMENDED COMMAND TIMEOUT in seconds; 0 is "no recommendation" (SPC-5 6.34.4).
    pub timeout_s: u32,
    pub(super) parse: fn(&Cdb) -> Result<Command, Sense>,
}

/// A CDB that matches its usage bitmap, padded with zeroes to 16 bytes.
#[derive(Debug)]
pub(super) struct Cdb(pub(super) [u8; 16]);

impl Cdb {
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.0[at]
    }

    pub(super) fn bit(&self, at: usize, bit: u8) -> bool {
        self.0[at] & (1 << bit) != 0
    }

    pub(super) fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) << 16 | u32::from(self.u16(at + 2))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) << 32 | u64::from(self.u32(at + 4))
    }
}

impl CommandSpec {
    /// A row with the defaults of a command that asks for information and changes nothing.
    /// `usage` is the CDB usage data from byte 1 on: the mask of evaluated bits, without the
    /// service action.
    pub(super) const fn new(
        opcode: u8,
        name: &'static str,
        usage: &[u8],
        parse: fn(&Cdb) -> Result<Command, Sense>,
    ) -> Self {
        let mut mask = [0; 16];
        mask[0] = 0xff;
        let mut at = 0;
        while at < usage.len() {
            mask[at + 1] = usage[at];
            at += 1;
        }
        Self {
            opcode,
            service_action: None,
            name,
            cdb_bytes: usage.len() as u8 + 1,
            usage: u128::from_be_bytes(mask),
            ignored: 0,
            access: AccessClass::AlwaysPersistent,
            ignores_attention: false,
            executor: Executor::Control,
            direction: Direction::In,
            timeout_s: 30,
            parse,
        }
    }

    pub(super) const fn action(mut self, service_action: u8) -> Self {
        self.service_action = Some(service_action);
        self.usage |= 0x1f << (14 * 8);
        self
    }

    /// Byte `at` ends in a six-bit GROUP NUMBER, which is ignored.
    pub(super) const fn group_number(mut self, at: usize) -> Self {
        self.ignored = 0x3f << ((15 - at) * 8);
        self
    }

    pub(super) const fn access(mut self, access: AccessClass) -> Self {
        self.access = access;
        self
    }

    pub(super) const fn ignores_attention(mut self) -> Self {
        self.ignores_attention = true;
        self
    }

    pub(super) const fn run_by(mut self, executor: Executor) -> Self {
        self.executor = executor;
        self
    }

    pub(super) const fn data(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    pub(super) const fn timeout_s(mut self, timeout_s: u32) -> Self {
        self.timeout_s = timeout_s;
        self
    }

    /// CDB USAGE DATA as REPORT SUPPORTED OPERATION CODES gives it: the operation code and service
    /// action themselves, and a one for every other bit that is evaluated (SPC-5 6.34.3). The
    /// first [`CommandSpec::cdb_bytes`] bytes count.
    pub fn usage_data(&self) -> [u8; 16] {
        let mut usage = self.usage.to_be_bytes();
        usage[0] = self.opcode;
        if let Some(action) = self.service_action {
            usage[1] = usage[1] & !0x1f | action;
        }
        usage
    }

    /// The CDB without what follows it in a longer field, as one number.
    pub(super) fn significant(&self, padded: [u8; 16]) -> u128 {
        let padding_bits = (16 - u32::from(self.cdb_bytes)) * 8;
        u128::from_be_bytes(padded) >> padding_bits << padding_bits
    }

    /// Whether the command reads or writes blocks of the medium.
    pub fn touches_medium(&self) -> bool {
        self.executor == Executor::Medium
    }
}
