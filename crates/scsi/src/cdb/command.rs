//! Decoded commands.

use super::AccessClass;

/// A run of logical blocks. What `blocks == 0` means is the command's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockRange {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks.
    pub blocks: u32,
}

/// BYTCHK: what a verify operation compares (SBC-4 5.38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteCheck {
    /// 00b: only that the medium can be read; no data is sent.
    MediumOnly,
    /// 01b: each block against a block of the Data-Out Buffer.
    EachBlock,
    /// 11b: every block against the one block in the Data-Out Buffer.
    OneBlock,
}

/// The two sizes of mode parameter header (SPC-5 7.5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModeHeader {
    /// Four bytes: MODE SENSE(6) and MODE SELECT(6).
    Short,
    /// Eight bytes: MODE SENSE(10) and MODE SELECT(10).
    Long,
}

/// PERSISTENT RESERVE IN service actions (SPC-5 6.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum PrinAction {
    ReadKeys,
    ReadReservation,
    ReportCapabilities,
    ReadFullStatus,
}

/// PERSISTENT RESERVE OUT service actions (SPC-5 6.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum ProutAction {
    Register,
    Reserve,
    Release,
    Clear,
    Preempt,
    PreemptAndAbort,
    RegisterAndIgnoreExistingKey,
    RegisterAndMove,
}

/// SANITIZE service actions (SBC-4 5.26). CRYPTOGRAPHIC ERASE is not among them: nothing is
/// encrypted here, so it would be a lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum SanitizeAction {
    Overwrite,
    BlockErase,
    ExitFailureMode,
}

/// A decoded CDB. `allocation_bytes` is always ALLOCATION LENGTH, `list_bytes` always PARAMETER
/// LIST LENGTH, `lba` and `blocks` always count logical blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum Command {
    TestUnitReady,
    RequestSense {
        descriptor: bool,
        allocation_bytes: u32,
    },
    Inquiry {
        evpd: bool,
        page_code: u8,
        allocation_bytes: u32,
    },
    ReportLuns {
        select_report: u8,
        allocation_bytes: u32,
    },
    ModeSense(ModeSense),
    ModeSelect {
        header: ModeHeader,
        page_format: bool,
        list_bytes: u32,
    },
    LogSense(LogSense),
    ReadCapacity10,
    ReadCapacity16 {
        allocation_bytes: u32,
    },
    Read {
        range: BlockRange,
        dpo: bool,
        fua: bool,
    },
    Write {
        range: BlockRange,
        dpo: bool,
        fua: bool,
    },
    WriteAndVerify {
        range: BlockRange,
        check: ByteCheck,
    },
    Verify {
        range: BlockRange,
        check: ByteCheck,
    },
    /// `blocks == 0`: to the end of the medium.
    SynchronizeCache {
        range: BlockRange,
        immediate: bool,
    },
    /// `blocks == 0`: to the end of the medium.
    PreFetch {
        range: BlockRange,
        immediate: bool,
    },
    Unmap {
        anchor: bool,
        list_bytes: u32,
    },
    WriteSame {
        range: BlockRange,
        unmap: bool,
        anchor: bool,
        no_data_out: bool,
    },
    CompareAndWrite {
        range: BlockRange,
        dpo: bool,
        fua: bool,
    },
    OrWrite {
        range: BlockRange,
        dpo: bool,
        fua: bool,
    },
    WriteAtomic {
        range: BlockRange,
        dpo: bool,
        fua: bool,
    },
    GetLbaStatus {
        lba: u64,
        allocation_bytes: u32,
    },
    ReportReferrals {
        lba: u64,
        one_segment: bool,
        allocation_bytes: u32,
    },
    PersistentReserveIn {
        action: PrinAction,
        allocation_bytes: u32,
    },
    /// `scope` and `kind` (TYPE) are the two halves of byte 2.
    PersistentReserveOut {
        action: ProutAction,
        scope: u8,
        kind: u8,
        list_bytes: u32,
    },
    Reserve,
    Release,
    ReportTargetPortGroups {
        extended_header: bool,
        allocation_bytes: u32,
    },
    SetTargetPortGroups {
        list_bytes: u32,
    },
    ExtendedCopy {
        list_bytes: u32,
    },
    PopulateToken {
        list_id: u32,
        list_bytes: u32,
    },
    WriteUsingToken {
        list_id: u32,
        list_bytes: u32,
    },
    ReceiveCopyStatus {
        list_id: u8,
        allocation_bytes: u32,
    },
    ReceiveCopyData {
        list_id: u8,
        allocation_bytes: u32,
    },
    ReceiveCopyOperatingParameters {
        allocation_bytes: u32,
    },
    ReceiveCopyFailureDetails {
        list_id: u8,
        allocation_bytes: u32,
    },
    ReceiveCopyStatusLid4 {
        list_id: u32,
        allocation_bytes: u32,
    },
    ReceiveRodTokenInformation {
        list_id: u32,
        allocation_bytes: u32,
    },
    ReportAllRodTokens {
        allocation_bytes: u32,
    },
    /// POWER CONDITION and LOEJ are refused: there are no power conditions and nothing to eject.
    StartStopUnit {
        immediate: bool,
        no_flush: bool,
        start: bool,
    },
    PreventAllow {
        prevent: bool,
    },
    ReadDefectData10 {
        lists: DefectLists,
        allocation_bytes: u32,
    },
    ReadDefectData12 {
        lists: DefectLists,
        address_index: u32,
        allocation_bytes: u32,
    },
    Sanitize {
        action: SanitizeAction,
        immediate: bool,
        unrestricted_exit: bool,
        list_bytes: u32,
    },
    ReportSupportedOpcodes(ReportSupportedOpcodes),
    ReportSupportedTaskManagement {
        extended: bool,
        allocation_bytes: u32,
    },
    SendDiagnostic {
        self_test: bool,
        list_bytes: u32,
    },
}

/// MODE SENSE(6) and (10) (SPC-5 6.13, 6.14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeSense {
    /// Which of the two.
    pub header: ModeHeader,
    /// DBD: leave the block descriptor out.
    pub disable_block_descriptors: bool,
    /// LLBAA: a long block descriptor is welcome.
    pub long_lba_accepted: bool,
    /// PC, 0 to 3: current, changeable, default, saved.
    pub page_control: u8,
    /// PAGE CODE.
    pub page: u8,
    /// SUBPAGE CODE.
    pub subpage: u8,
    /// ALLOCATION LENGTH.
    pub allocation_bytes: u32,
}

/// LOG SENSE (SPC-5 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSense {
    /// PC, 0 to 3: threshold, cumulative, default threshold, default cumulative.
    pub page_control: u8,
    /// PAGE CODE.
    pub page: u8,
    /// SUBPAGE CODE.
    pub subpage: u8,
    /// PARAMETER POINTER: the first parameter code wanted.
    pub parameter_pointer: u16,
    /// ALLOCATION LENGTH.
    pub allocation_bytes: u32,
}

/// Which lists READ DEFECT DATA asks for, and how addressed (SBC-4 5.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefectLists {
    /// REQ_PLIST.
    pub primary: bool,
    /// REQ_GLIST.
    pub grown: bool,
    /// DEFECT LIST FORMAT.
    pub format: u8,
}

/// REPORT SUPPORTED OPERATION CODES (SPC-5 6.34).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportSupportedOpcodes {
    /// RCTD: add timeouts descriptors.
    pub timeouts: bool,
    /// REPORTING OPTIONS, 0 to 7.
    pub options: u8,
    /// REQUESTED OPERATION CODE.
    pub opcode: u8,
    /// REQUESTED SERVICE ACTION.
    pub service_action: u16,
    /// ALLOCATION LENGTH.
    pub allocation_bytes: u32,
}

impl Command {
    /// The blocks that the CDB itself addresses, if it addresses any.
    pub fn range(&self) -> Option<BlockRange> {
        use Command::*;
        match *self {
            Read { range, .. }
            | Write { range, .. }
            | WriteAndVerify { range, .. }
            | Verify { range, .. }
            | SynchronizeCache { range, .. }
            | PreFetch { range, .. }
            | WriteSame { range, .. }
            | CompareAndWrite { range, .. }
            | OrWrite { range, .. }
            | WriteAtomic { range, .. } => Some(range),
            GetLbaStatus { lba, .. } => Some(BlockRange { lba, blocks: 1 }),
            _ => None,
        }
    }

    /// How the command fares against reservations, given that the table says `table` for its
    /// operation code (SBC-4 table 13 makes two commands depend on a field).
    pub fn access(&self, table: AccessClass) -> AccessClass {
        match *self {
            Self::StartStopUnit { start: true, .. } => AccessClass::AlwaysPersistent,
            Self::PreventAllow { prevent: false } => AccessClass::Always,
            _ => table,
        }
    }

    /// How many bytes of Data-Out the CDB announces, on a medium of `block_bytes` blocks.
    pub fn data_out_bytes(&self, block_bytes: u32) -> u64 {
        use Command::*;
        let size = u64::from(block_bytes);
        match *self {
            Write { range, .. }
            | WriteAndVerify { range, .. }
            | OrWrite { range, .. }
            | WriteAtomic { range, .. }
            | Verify { range, check: ByteCheck::EachBlock } => u64::from(range.blocks) * size,
            Verify { check: ByteCheck::OneBlock, range } if range.blocks > 0 => size,
            CompareAndWrite { range, .. } => 2 * u64::from(range.blocks) * size,
            WriteSame { no_data_out: false, .. } => size,
            ModeSelect { list_bytes, .. }
            | Unmap { list_bytes, .. }
            | PersistentReserveOut { list_bytes, .. }
            | SetTargetPortGroups { list_bytes }
            | ExtendedCopy { list_bytes }
            | PopulateToken { list_bytes, .. }
            | WriteUsingToken { list_bytes, .. }
            | Sanitize { list_bytes, .. }
            | SendDiagnostic { list_bytes, .. } => u64::from(list_bytes),
            _ => 0,
        }
    }

    /// The most bytes of Data-In that the CDB lets the logical unit send.
    pub fn data_in_bytes_max(&self, block_bytes: u32) -> u64 {
        use Command::*;
        match *self {
            Read { range, .. } => u64::from(range.blocks) * u64::from(block_bytes),
            ReadCapacity10 => 8,
            ModeSense(sense) => sense.allocation_bytes.into(),
            LogSense(sense) => sense.allocation_bytes.into(),
            ReportSupportedOpcodes(report) => report.allocation_bytes.into(),
            RequestSense { allocation_bytes, .. }
            | Inquiry { allocation_bytes, .. }
            | ReportLuns { allocation_bytes, .. }
            | ReadCapacity16 { allocation_bytes }
            | GetLbaStatus { allocation_bytes, .. }
            | ReportReferrals { allocation_bytes, .. }
            | PersistentReserveIn { allocation_bytes, .. }
            | ReportTargetPortGroups { allocation_bytes, .. }
            | ReceiveCopyStatus { allocation_bytes, .. }
            | ReceiveCopyData { allocation_bytes, .. }
            | ReceiveCopyOperatingParameters { allocation_bytes }
            | ReceiveCopyFailureDetails { allocation_bytes, .. }
            | ReceiveCopyStatusLid4 { allocation_bytes, .. }
            | ReceiveRodTokenInformation { allocation_bytes, .. }
            | ReportAllRodTokens { allocation_bytes }
            | ReadDefectData10 { allocation_bytes, .. }
            | ReadDefectData12 { allocation_bytes, .. }
            | ReportSupportedTaskManagement { allocation_bytes, .. } => allocation_bytes.into(),
            _ => 0,
        }
    }
}
