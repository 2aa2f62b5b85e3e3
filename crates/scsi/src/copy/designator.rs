//! How a copy command names a logical unit: a designator of its VPD page 83h (SPC-4 7.8.6).

/// The longest designator that a CSCD descriptor holds (SPC-4 6.4.5.6).
pub const DESIGNATOR_BYTES_MAX: usize = 20;

const TYPE_T10_VENDOR: u8 = 0x1;
const TYPE_EUI64: u8 = 0x2;
const TYPE_NAA: u8 = 0x3;
const TYPE_SCSI_NAME: u8 = 0x8;

/// A designation descriptor of up to 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Designator {
    code_set: u8,
    association: u8,
    kind: u8,
    len: u8,
    /// Padded with zeroes, so that comparing the whole array is right.
    bytes: [u8; DESIGNATOR_BYTES_MAX],
}

impl Designator {
    /// `code_set` 1h binary, 2h ASCII, 3h UTF-8; `association` 0 logical unit, 1 target port,
    /// 2 target device; `kind` is DESIGNATOR TYPE. `None` if `bytes` is longer than 20.
    pub fn new(code_set: u8, association: u8, kind: u8, bytes: &[u8]) -> Option<Self> {
        let mut padded = [0; DESIGNATOR_BYTES_MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self {
            code_set: code_set & 0x0f,
            association: association & 0x03,
            kind: kind & 0x0f,
            len: bytes.len() as u8,
            bytes: padded,
        })
    }

    /// NAA IEEE Registered Extended (or any NAA) identifier of a logical unit.
    pub fn naa(bytes: &[u8; 16]) -> Self {
        Self::new(0x1, 0, TYPE_NAA, bytes).expect("16 bytes are at most 20")
    }

    /// The designator itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether it is of a kind that names one logical unit: T10 vendor, EUI-64, NAA or SCSI name
    /// string, associated with the logical unit. A name of a port or of the device does not.
    pub fn names_unit(&self) -> bool {
        const NAMES: [u8; 4] = [TYPE_T10_VENDOR, TYPE_EUI64, TYPE_NAA, TYPE_SCSI_NAME];
        self.association == 0 && NAMES.contains(&self.kind)
    }

    /// Whether a unit whose VPD page 83h holds `identity` is meant: all fields equal
    /// (SPC-4 6.4.5.6).
    pub fn is_in(&self, identity: &[Self]) -> bool {
        self.names_unit() && identity.contains(self)
    }

    /// Reads bytes 4 to 27 of an identification descriptor CSCD descriptor.
    /// On error: the offset in the CSCD descriptor.
    pub(super) fn parse(cscd: &[u8; 32]) -> Result<Self, usize> {
        const LENGTH_AT: usize = 7;
        let bytes = cscd[8..28].get(..usize::from(cscd[LENGTH_AT])).ok_or(LENGTH_AT)?;
        Self::new(cscd[4], cscd[5] >> 4, cscd[5], bytes).ok_or(LENGTH_AT)
    }

    /// Writes bytes 4 to 27 of an identification descriptor CSCD descriptor.
    pub(super) fn emit(&self, cscd: &mut [u8]) {
        cscd[4] = self.code_set;
        cscd[5] = self.association << 4 | self.kind;
        cscd[7] = self.len;
        cscd[8..28].copy_from_slice(&self.bytes);
    }
}

impl std::fmt::Debug for Designator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Designator(type {}, ", self.kind)?;
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ")")
    }
}
