//! The disks of an export, checked against each other.

use crate::serve::plan::first_repeated;
use member::spec::Spec;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How many LUNs peripheral device addressing can tell apart (SAM-5 4.7.7.2).
const LUNS_MAX: usize = 256;

/// Disks that do not go together.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    /// Two disks over one file would overwrite each other.
    #[error("'{}' is given twice: write it once, each LUN needs a disk of its own", .0.display())]
    PathTwice(PathBuf),
    /// Hosts would take the two for one disk on two paths.
    #[error("the serial number '{0}' is given twice: write a different one for each disk")]
    SerialTwice(String),
    /// More disks than LUNs.
    #[error("{0} disks are too many for one target: write at most {LUNS_MAX}")]
    TooMany(usize),
}

/// Each disk has its own file, and its own serial number if one is given.
pub(crate) fn check_specs(specs: &[Spec]) -> Result<(), PlanError> {
    if specs.len() > LUNS_MAX {
        return Err(PlanError::TooMany(specs.len()));
    }
    if let Some(path) = first_repeated(specs.iter().filter_map(Spec::path)) {
        return Err(PlanError::PathTwice(Path::to_owned(path)));
    }
    first_repeated(specs.iter().filter_map(|spec| spec.serial.as_ref()))
        .map_or(Ok(()), |serial| Err(PlanError::SerialTwice(serial.clone())))
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
