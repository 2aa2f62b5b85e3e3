//! How read data is cut into Data-In PDUs (RFC 7143 §11.7): no segment above the initiator's
//! MaxRecvDataSegmentLength, and the F bit at each end of a MaxBurstLength.

/// One Data-In PDU to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataInPart {
    /// Byte offset in the command's read data.
    pub offset: u32,
    /// Payload bytes.
    pub len: u32,
    /// DataSN of the PDU.
    pub data_sn: u32,
    /// F: the last PDU of its burst.
    pub final_in_burst: bool,
    /// The last PDU of the whole command: it may carry the status.
    pub last: bool,
}

/// Walks over the read data of one command, in order, possibly in several steps.
#[derive(Debug)]
pub struct DataInPlan {
    total: u32,
    segment: u32,
    burst: u32,
    offset: u32,
    burst_left: u32,
    data_sn: u32,
}

impl DataInPlan {
    /// A plan for `total` bytes with segments of at most `segment` bytes (the initiator's
    /// MaxRecvDataSegmentLength, at least 512) in bursts of at most `burst` bytes.
    #[inline]
    #[must_use]
    pub fn new(total: u32, segment: u32, burst: u32) -> Self {
        debug_assert!(segment >= 512 && burst >= 512, "RFC 7143 13.12 and 13.13: 512 at least");
        Self { total, segment, burst, offset: 0, burst_left: burst, data_sn: 0 }
    }

    /// Data-In PDUs planned so far (the ExpDataSN of the response).
    #[must_use]
    pub fn pdus(&self) -> u32 {
        self.data_sn
    }

    /// The next PDU out of at most `available` further bytes, or `None` when these (or all) are
    /// used up.
    #[inline]
    pub fn next_part(&mut self, available: u32) -> Option<DataInPart> {
        let left = (self.total - self.offset).min(available);
        if left == 0 {
            return None;
        }
        let len = left.min(self.segment).min(self.burst_left);
        let offset = self.offset;
        self.offset += len;
        self.burst_left -= len;
        let last = self.offset == self.total;
        let final_in_burst = last || self.burst_left == 0;
        if self.burst_left == 0 {
            self.burst_left = self.burst;
        }
        let data_sn = self.data_sn;
        self.data_sn += 1;
        Some(DataInPart { offset, len, data_sn, final_in_burst, last })
    }
}
