//! PERSISTENT RESERVE IN (SPC-4 6.15).

use super::{Holder, Refusal, ReservationType, Reservations, TransportId};
use crate::cdb::PrinAction;

/// CRH, SIP_C, ATP_C and PTPL_C; RLR_C is zero (SPC-4 table 207, byte 2).
const CAPABILITIES: u8 = 0x10 | 0x08 | 0x04 | 0x01;
/// TMV, and ALLOW COMMANDS 001b: TEST UNIT READY passes every persistent reservation, and the
/// command table is asked about the others (SPC-4 table 208).
const TYPE_MASK_VALID_AND_ALLOW_COMMANDS: u8 = 0x80 | 0b001 << 4;
const R_HOLDER: u8 = 0x01;

impl Reservations {
    /// The parameter data of one service action, in full; the caller cuts it at the allocation
    /// length.
    ///
    /// Refused with RESERVATION CONFLICT while the unit is reserved by SPC-2 RESERVE.
    pub fn persistent_in(&self, action: PrinAction) -> Result<Vec<u8>, Refusal> {
        if self.legacy.is_some() {
            return Err(Refusal::Conflict); // SPC-2 5.5.1
        }
        Ok(match action {
            PrinAction::ReadKeys => self.read_keys(),
            PrinAction::ReadReservation => self.read_reservation(),
            PrinAction::ReportCapabilities => self.report_capabilities().to_vec(),
            PrinAction::ReadFullStatus => self.read_full_status(),
        })
    }

    /// READ KEYS (6.15.2): one entry for each registration, equal keys repeated.
    fn read_keys(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.registrations.len() * 8);
        for entry in &self.registrations {
            body.extend(entry.key.to_be_bytes());
        }
        self.with_header(&body)
    }

    /// READ RESERVATION (6.15.3).
    fn read_reservation(&self) -> Vec<u8> {
        let Some(held) = &self.held else { return self.with_header(&[]) };
        let key = match &held.holder {
            Holder::AllRegistrants => 0,
            Holder::One(holder) => self.key_of(holder).unwrap_or(0),
        };
        let mut body = [0; 16];
        body[..8].copy_from_slice(&key.to_be_bytes());
        body[13] = held.kind as u8; // SCOPE zero: the logical unit
        self.with_header(&body)
    }

    /// REPORT CAPABILITIES (6.15.4).
    fn report_capabilities(&self) -> [u8; 8] {
        let persistent = u8::from(self.persist); // PTPL_A
        // Bit n of the mask's first byte is type n, types 8 and up continue in the second byte.
        let mask = ReservationType::ALL.iter().fold(0_u16, |mask, &kind| mask | 1 << kind as u8);
        let [high, low] = mask.to_le_bytes();
        [0, 8, CAPABILITIES, TYPE_MASK_VALID_AND_ALLOW_COMMANDS | persistent, high, low, 0, 0]
    }

    /// READ FULL STATUS (6.15.5): one descriptor for each registered nexus. ALL_TG_PT is zero,
    /// since each target port is registered, and reported, for itself.
    fn read_full_status(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for entry in &self.registrations {
            let mut id = Vec::new();
            TransportId::from(&entry.nexus).emit(&mut id);
            let held = self.held.as_ref().filter(|_| self.is_holder(&entry.nexus));
            body.extend(entry.key.to_be_bytes());
            body.extend([0; 4]);
            body.push(if held.is_some() { R_HOLDER } else { 0 });
            body.push(held.map_or(0, |held| held.kind as u8));
            body.extend([0; 4]);
            body.extend(entry.nexus.target_port.to_be_bytes());
            body.extend((id.len() as u32).to_be_bytes());
            body.extend(id);
        }
        self.with_header(&body)
    }

    /// PRGENERATION and ADDITIONAL LENGTH before `body`.
    fn with_header(&self, body: &[u8]) -> Vec<u8> {
        let mut data = Vec::with_capacity(8 + body.len());
        data.extend(self.generation.to_be_bytes());
        data.extend((body.len() as u32).to_be_bytes());
        data.extend(body);
        data
    }
}
