//! Parameter lists and parameter data of block commands (SBC-4 clause 5) and of REPORT LUNS.

mod capacity;
mod lba_status;
mod luns;
mod sanitize;
#[cfg(test)]
mod tests;
mod unmap;

pub use capacity::{read_capacity10, read_capacity16};
pub use lba_status::{LbaRun, Provisioning, lba_status, lba_status_runs_max};
pub use luns::{decode_lun, encode_lun, report_luns};
pub use sanitize::Overwrite;
pub use unmap::parse_unmap;
