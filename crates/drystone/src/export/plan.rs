//! The options of an export, checked against each other and with secrets read.

use crate::access::secret::{self, Login, SecretError, Sources};
use crate::cli::export::ExportArgs;
use crate::spec::Spec;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How many LUNs peripheral device addressing can tell apart (SAM-5 4.7.7.2).
const LUNS_MAX: usize = 256;

/// What is left to do once the command line has been read.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What hosts must prove.
    pub(crate) chap: Option<Login>,
    /// What the target proves.
    pub(crate) mutual: Option<Login>,
}

/// Options that do not go together.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    /// A secret that cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// CHAP in the direction that alone proves nothing about the host.
    #[error("mutual CHAP needs CHAP: write --chap USER:SECRET beside --mutual-chap")]
    MutualAlone,
    /// RFC 7143 9.2.1 forbids it: one side's answer would serve as the other's.
    #[error("CHAP and mutual CHAP have the same secret: write a different one for --mutual-chap")]
    SameSecret,
    /// The same address again.
    #[error("the portal {0} is given twice: write it once")]
    PortalTwice(SocketAddr),
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

impl Plan {
    /// Checks `args` as a whole; `environment` gives the value of a variable.
    pub(crate) fn of(
        args: &ExportArgs,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Plan, PlanError> {
        check_portals(&args.portals)?;
        check_specs(&args.specs)?;
        let read = |option, text, file| {
            let variable = environment(&secret::variable(option)).filter(|text| !text.is_empty());
            Sources { option, text, file, environment: variable.as_deref() }.read()
        };
        let chap = read("chap", args.chap.as_ref(), args.chap_file.as_deref())?;
        let mutual =
            read("mutual-chap", args.mutual_chap.as_ref(), args.mutual_chap_file.as_deref())?;
        match (&chap, &mutual) {
            (None, Some(_)) => Err(PlanError::MutualAlone),
            (Some(one), Some(other)) if one.secret == other.secret => Err(PlanError::SameSecret),
            _ => Ok(Plan { chap, mutual }),
        }
    }
}

/// Port 0 takes a free port each time, so it may repeat.
fn check_portals(portals: &[SocketAddr]) -> Result<(), PlanError> {
    let twice = first_repeated(portals.iter().filter(|portal| portal.port() != 0));
    twice.map_or(Ok(()), |portal| Err(PlanError::PortalTwice(*portal)))
}

/// Each disk has its own file, and its own serial number if one is given.
fn check_specs(specs: &[Spec]) -> Result<(), PlanError> {
    if specs.len() > LUNS_MAX {
        return Err(PlanError::TooMany(specs.len()));
    }
    if let Some(path) = first_repeated(specs.iter().filter_map(Spec::path)) {
        return Err(PlanError::PathTwice(Path::to_owned(path)));
    }
    first_repeated(specs.iter().filter_map(|spec| spec.serial.as_ref()))
        .map_or(Ok(()), |serial| Err(PlanError::SerialTwice(serial.clone())))
}

/// The first of `items` that was there before.
fn first_repeated<T: PartialEq>(items: impl Iterator<Item = T>) -> Option<T> {
    let mut seen = Vec::new();
    for item in items {
        if seen.contains(&item) {
            return Some(item);
        }
        seen.push(item);
    }
    None
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
