//! What a workload is, whatever language it was written in.
//!
//! A [`Script`] is a list of storage and of [`Step`]s, which run one after the other. [`vdbench`]
//! and [`fio`] make one. Pure: text in, values out.

pub mod fio;
mod size;
mod units;
pub mod vdbench;

use std::time::Duration;

use serde::Serialize;

pub use size::Sizes;
pub(crate) use size::{IO_BYTES_MAX, common};
pub(crate) use units::bytes;

/// All that a parameter file or a command line says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Script {
    /// What is worked on, in the order in which it was defined.
    pub storage: Vec<Storage>,
    /// What is run, in order.
    pub steps: Vec<Step>,
    /// Words that are taken and have no effect here, with what is done instead.
    pub notes: Vec<String>,
}

/// A disk, or a part of one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Storage {
    /// Its name in the script.
    pub name: String,
    /// What the script says it is; targets of the command line go before it.
    pub lun: Option<String>,
    /// How much of it is used; all of it if nothing is said.
    pub size_bytes: Option<u64>,
    /// The part of that which is used.
    pub range: Option<Range>,
    /// Where reads and writes "hit", from the start of the range.
    pub hit_bytes: u64,
    /// I/Os under way at once.
    pub threads: u32,
    /// How the disk is opened.
    pub open: OpenFlags,
}

/// How storage is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct OpenFlags {
    /// Files and block devices past the page cache.
    pub direct: bool,
    /// Each write is durable when it completes.
    pub durable: bool,
}

/// A part of something.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Range {
    /// From and to, in percent. A `to` above 100 goes on from the start.
    Percent(f64, f64),
    /// From and to, in bytes.
    Bytes(u64, u64),
}

/// One kind of I/O on some of the storage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flow {
    /// The workload's name.
    pub name: String,
    /// Indices of the storage that it works on.
    pub storage: Vec<usize>,
    /// How large its I/Os are.
    pub sizes: Sizes,
    /// How many in a hundred read.
    pub read_percent: u32,
    /// How many in a hundred go to a random place; the others follow the one before.
    pub seek_percent: u32,
    /// How many in a hundred reads go to the small area of the storage that caches hold.
    pub read_hit_percent: u32,
    /// The same of writes.
    pub write_hit_percent: u32,
    /// Its share of all I/Os, in percent. Without one it shares what is left with its like.
    pub skew_percent: Option<f64>,
    /// The part of the storage that it works on; goes before that of the storage.
    pub range: Option<Range>,
    /// Random places are nearer to the start of the range than to its end.
    pub is_hot_band: bool,
    /// Writes are durable when they complete, whatever the storage says.
    pub durable: bool,
}

/// How many I/Os a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rate {
    /// As many as there can be.
    Max,
    /// So many, over all flows of the step.
    Iops(f64),
    /// So many percent of what the last step with [`Rate::Max`] reached.
    PercentOfMax(f64),
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// A name that tells it from all others of the script.
    pub name: String,
    /// What is done at the same time.
    pub flows: Vec<Flow>,
    /// How fast.
    pub rate: Rate,
    /// I/Os under way at once on each storage; `None` leaves it to the storage.
    pub threads: Option<u32>,
    /// Only the first so many of the storage take part: each stands for a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Sessions over all targets; `None` leaves it to how they are opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Independent streams on each storage, each with that many threads and a place of its own for
    /// sequential work.
    pub streams: u32,
    /// How long it is measured.
    pub elapsed: Duration,
    /// How long it runs before.
    pub warmup: Duration,
    /// How often figures are noted.
    pub interval: Duration,
    /// Ends when each stream has moved so much, if that is earlier.
    pub bytes_max: Option<u64>,
    /// Ends when each stream has moved so many times what its range of a disk holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passes: Option<u32>,
}

impl Step {
    /// What the step does with as many clients as it says.
    #[must_use]
    pub fn of_its_clients(&self) -> Self {
        let mut step = self.clone();
        if let Some(clients) = self.clients {
            let takes_part = |index: &usize| *index < clients as usize;
            step.flows.iter_mut().for_each(|flow| flow.storage.retain(takes_part));
            step.flows.retain(|flow| !flow.storage.is_empty());
        }
        step
    }
}

impl Script {
    /// Whether any step writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.steps.iter().flat_map(|step| &step.flows).any(|flow| flow.read_percent < 100)
    }
}
