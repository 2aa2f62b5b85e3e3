//! What is answered for a logical unit number behind which there is nothing (SPC-5 6.6.2,
//! SAM-5 4.11).

use super::{ControlContext, Outcome};
use crate::cdb::{self, Command};
use crate::{Sense, inquiry, param};

/// Runs any command addressed to a logical unit that does not exist: INQUIRY, REPORT LUNS and
/// REQUEST SENSE are answered, everything else is LOGICAL UNIT NOT SUPPORTED.
pub fn execute_absent(cdb: &[u8], context: &ControlContext<'_>) -> Outcome {
    let absent = Sense::logical_unit_not_supported();
    let cut = |mut data: Vec<u8>, allocation_bytes: u32| {
        data.truncate(allocation_bytes as usize);
        Outcome::data(data)
    };
    match cdb::decode(cdb).map(|(_, command)| command) {
        Ok(Command::Inquiry { evpd: false, allocation_bytes, .. }) => {
            cut(inquiry::absent(), allocation_bytes)
        }
        Ok(Command::ReportLuns { select_report, allocation_bytes }) => {
            match param::report_luns(select_report, context.luns) {
                Ok(data) => cut(data, allocation_bytes),
                Err(sense) => Outcome::check(sense),
            }
        }
        Ok(Command::RequestSense { descriptor, allocation_bytes }) => {
            cut(absent.to_bytes(descriptor).to_vec(), allocation_bytes)
        }
        _ => Outcome::check(absent),
    }
}
