//! What became of a copy, and what the copy manager can do: RECEIVE COPY RESULTS and its kin
//! (SPC-4 §6.21 to §6.26, §6.31).

use std::sync::Arc;

use scsi::Sense;
use scsi::cdb::Command;
use scsi::copy::{operating_parameters, report_all};

use super::Request;
use crate::outcome::Outcome;
use crate::unit::Unit;

/// Answers a command that only asks. `units` are those of the target that is asked.
pub(crate) fn receive(request: &Request, units: &[Arc<Unit>], command: Command) -> Outcome {
    match parameters(request, units, command) {
        Ok((mut data, allocation_bytes)) => {
            data.truncate(allocation_bytes as usize);
            Outcome::Parameters(data)
        }
        Err(sense) => Outcome::Check(sense),
    }
}

/// The parameter data, and how much of it is wanted.
fn parameters(
    request: &Request,
    units: &[Arc<Unit>],
    command: Command,
) -> Result<(Vec<u8>, u32), Sense> {
    let (unit, key) = (&request.unit, &request.key);
    let descriptor = unit.logical.descriptor_sense();
    match command {
        Command::ReceiveCopyOperatingParameters { allocation_bytes } => {
            Ok((operating_parameters(unit.block_bytes), allocation_bytes))
        }
        Command::ReportAllRodTokens { allocation_bytes } => {
            // Who may not log in to another target hears nothing of its tokens.
            let tokens: Vec<u8> =
                units.iter().flat_map(|unit| unit.tokens.management_tokens()).collect();
            Ok((report_all(&tokens), allocation_bytes))
        }
        _ => unit.records(|records| {
            Ok(match command {
                Command::ReceiveCopyStatus { list_id, allocation_bytes } => {
                    (records.status_lid1(key, list_id)?, allocation_bytes)
                }
                Command::ReceiveCopyData { list_id, allocation_bytes } => {
                    (records.held_data(key, list_id)?, allocation_bytes)
                }
                Command::ReceiveCopyFailureDetails { list_id, allocation_bytes } => {
                    let data =
                        records.failure_details(key, list_id, descriptor, allocation_bytes)?;
                    (data, allocation_bytes)
                }
                Command::ReceiveCopyStatusLid4 { list_id, allocation_bytes } => {
                    (records.status_lid4(key, list_id, descriptor)?, allocation_bytes)
                }
                Command::ReceiveRodTokenInformation { list_id, allocation_bytes } => {
                    let data =
                        records.token_information(key, list_id, descriptor, allocation_bytes)?;
                    (data, allocation_bytes)
                }
                _ => return Err(Sense::internal_failure()),
            })
        }),
    }
}
