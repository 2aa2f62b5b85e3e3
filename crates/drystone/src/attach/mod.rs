//! `drystone attach`: from a URL, or a directory of them, to local disks, until it is told to stop.

mod config;
mod control;
pub(crate) mod detach;
mod host;
mod keeper;
mod line;
pub(crate) mod list;
mod local;
mod pauses;
pub(crate) mod plan;
mod process;
mod ready;
mod report;
mod table;
mod udev;
mod volume;

pub(crate) use process::run;
