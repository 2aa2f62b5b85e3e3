//! One look at a member.

use std::time::Instant;

use crate::manage::Desk;
use api::types::{Connection, Disk, Figures};

/// What a member said at a moment.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) figures: Figures,
    pub(super) connections: Vec<Connection>,
    pub(super) disks: Vec<Disk>,
}

impl Sample {
    /// Asks a member.
    ///
    /// # Errors
    /// What is to be told of a member that does not answer.
    pub(super) fn take(desk: &Desk) -> anyhow::Result<Self> {
        let figures = desk.ask(|member| member.figures())?;
        let at = Instant::now();
        let connections = desk.ask(|member| member.connections())?;
        let disks = desk.ask(|member| member.disks())?;
        Ok(Self { at, figures, connections, disks })
    }

    /// The time between two looks, which is never zero.
    pub(super) fn seconds_since(&self, before: &Self) -> f64 {
        (self.at - before.at).as_secs_f64().max(1e-3)
    }
}
