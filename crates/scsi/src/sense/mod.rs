//! Sense data (SPC-5 4.4): why a command did not end as asked.
//!
//! [`Sense`] is a small `Copy` value, so that refusing a command costs no allocation. It becomes
//! wire bytes in fixed or descriptor format only when the answer is built.

mod additional;
mod format;
#[cfg(test)]
mod tests;

pub use additional::AdditionalSense;
pub use format::{ParseError, SENSE_BYTES_MAX, SenseBytes};

/// Sense key (SPC-5 table 49). The discriminants are the wire values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum SenseKey {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    BlankCheck = 0x8,
    VendorSpecific = 0x9,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Reserved = 0xc,
    VolumeOverflow = 0xd,
    Miscompare = 0xe,
    Completed = 0xf,
}

impl SenseKey {
    /// The key in the low four bits of `code`; the high bits are ignored.
    pub fn from_code(code: u8) -> Self {
        use SenseKey::*;
        const KEYS: [SenseKey; 16] = [
            NoSense,
            RecoveredError,
            NotReady,
            MediumError,
            HardwareError,
            IllegalRequest,
            UnitAttention,
            DataProtect,
            BlankCheck,
            VendorSpecific,
            CopyAborted,
            AbortedCommand,
            Reserved,
            VolumeOverflow,
            Miscompare,
            Completed,
        ];
        KEYS[usize::from(code & 0x0f)]
    }
}

/// Which byte, and optionally which bit, of the request was in error (SPC-5 4.4.2.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// The CDB (true) or the parameter list (false).
    pub in_cdb: bool,
    /// Byte offset of the field's first byte.
    pub byte: u16,
    /// The most significant bit of the field, 7..=0, where the field is not a whole byte.
    pub bit: Option<u8>,
}

/// One piece of sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sense {
    /// What kind of condition.
    pub key: SenseKey,
    /// Which condition exactly.
    pub additional: AdditionalSense,
    /// INFORMATION: the failing LBA, or the byte offset of a miscompare.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION.
    pub command_specific: Option<u64>,
    /// Sense key specific, with ILLEGAL REQUEST: where the error is.
    pub field: Option<FieldPointer>,
    /// Sense key specific, with NO SENSE or NOT READY: how far a long operation is, in 65536ths.
    pub progress: Option<u16>,
    /// About an earlier command, not this one.
    pub deferred: bool,
}

impl Sense {
    /// Nothing to report.
    pub const NONE: Self = Self::new(SenseKey::NoSense, AdditionalSense::NO_ADDITIONAL_SENSE);

    /// Sense data with a key and a code and nothing more.
    pub const fn new(key: SenseKey, additional: AdditionalSense) -> Self {
        Self {
            key,
            additional,
            information: None,
            command_specific: None,
            field: None,
            progress: None,
            deferred: false,
        }
    }

    const fn illegal(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::IllegalRequest, additional)
    }

    /// The same with an INFORMATION field.
    #[must_use]
    pub const fn with_information(mut self, information: u64) -> Self {
        self.information = Some(information);
        self
    }

    /// The same with a COMMAND-SPECIFIC INFORMATION field.
    #[must_use]
    pub const fn with_command_specific(mut self, value: u64) -> Self {
        self.command_specific = Some(value);
        self
    }

    /// The same with a progress indication in 65536ths.
    #[must_use]
    pub const fn with_progress(mut self, progress: u16) -> Self {
        self.progress = Some(progress);
        self
    }

    /// The same, pointing at a field of the CDB.
    #[must_use]
    pub const fn at_cdb(mut self, byte: u16, bit: Option<u8>) -> Self {
        self.field = Some(FieldPointer { in_cdb: true, byte, bit });
        self
    }

    /// The same, pointing at a field of the parameter list.
    #[must_use]
    pub const fn at_parameter(mut self, byte: u16, bit: Option<u8>) -> Self {
        self.field = Some(FieldPointer { in_cdb: false, byte, bit });
        self
    }

    /// The operation code is not in the command table.
    pub const fn invalid_opcode() -> Self {
        Self::illegal(AdditionalSense::INVALID_COMMAND_OPERATION_CODE).at_cdb(0, None)
    }

    /// A CDB field holds what it must not. `bit` is the field's most significant bit.
    pub const fn invalid_field_in_cdb(byte: u16, bit: Option<u8>) -> Self {
        Self::illegal(AdditionalSense::INVALID_FIELD_IN_CDB).at_cdb(byte, bit)
    }

    /// A field of the parameter list holds what it must not.
    pub const fn invalid_field_in_parameter_list(byte: u16, bit: Option<u8>) -> Self {
        Self::illegal(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST).at_parameter(byte, bit)
    }

    /// What came with the CDB does not suit it: lengths and directions of the transport.
    pub const fn invalid_field_in_information_unit() -> Self {
        Self::illegal(AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
    }

    /// The parameter list is cut short, or longer than it may be.
    pub const fn parameter_list_length_error() -> Self {
        Self::illegal(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR)
    }

    /// The addressed blocks do not all exist. `lba` is the first that does not.
    pub const fn lba_out_of_range(lba: u64) -> Self {
        Self::illegal(AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE).with_information(lba)
    }

    /// There is no such logical unit behind this target.
    pub const fn logical_unit_not_supported() -> Self {
        Self::illegal(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED)
    }

    /// Block `lba` cannot be read.
    pub const fn medium_error_read(lba: u64) -> Self {
        Self::new(SenseKey::MediumError, AdditionalSense::UNRECOVERED_READ_ERROR)
            .with_information(lba)
    }

    /// Block `lba` cannot be written.
    pub const fn write_error(lba: u64) -> Self {
        Self::new(SenseKey::MediumError, AdditionalSense::WRITE_ERROR).with_information(lba)
    }

    /// COMPARE AND WRITE or VERIFY: the first difference is at `offset_bytes` of the Data-Out
    /// Buffer (SBC-4 5.3, 5.38).
    pub const fn miscompare(offset_bytes: u64) -> Self {
        Self::new(SenseKey::Miscompare, AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION)
            .with_information(offset_bytes)
    }

    /// The medium, or the SWP bit of the control mode page, forbids writes.
    pub const fn write_protected() -> Self {
        Self::new(SenseKey::DataProtect, AdditionalSense::WRITE_PROTECTED)
    }

    /// A thin medium has no space left for the write (SBC-4 4.7.3.6).
    pub const fn space_allocation_failed() -> Self {
        Self::new(SenseKey::DataProtect, AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT)
    }

    /// SANITIZE is under way, `progress` 65536ths of it done.
    pub const fn not_ready_sanitizing(progress: u16) -> Self {
        Self::new(SenseKey::NotReady, AdditionalSense::LOGICAL_UNIT_NOT_READY_SANITIZE_IN_PROGRESS)
            .with_progress(progress)
    }

    /// The last SANITIZE failed (SBC-4 4.11.4).
    pub const fn sanitize_failed() -> Self {
        Self::new(SenseKey::MediumError, AdditionalSense::SANITIZE_COMMAND_FAILED)
    }

    /// The backing store cannot be reached for a reason that is not the medium's.
    pub const fn internal_failure() -> Self {
        Self::new(SenseKey::HardwareError, AdditionalSense::INTERNAL_TARGET_FAILURE)
    }

    /// No memory or other resource for the command right now; it may be sent again.
    pub const fn insufficient_resources() -> Self {
        Self::illegal(AdditionalSense::INSUFFICIENT_RESOURCES)
    }

    /// A condition that every command of the I_T nexus is told about once.
    pub const fn unit_attention(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::UnitAttention, additional)
    }
}
