//! What schedules need of the member that they run in. A test has one of its own.

use std::time::Duration;

use group::schedules::{Own, Schedule, Step};

use crate::events::Event;

/// A snapshot of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Its number.
    pub(crate) id: u32,
    /// Its name.
    pub(crate) name: String,
}

/// What became of a snapshot that was to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deleted {
    /// It is not there any more.
    Gone,
    /// It must stay, for this reason.
    InUse(&'static str),
}

/// The member, its array, its settings and its clock.
pub(crate) trait World {
    /// Held while nobody else takes snapshots or changes schedules.
    type Alone;

    /// The clock on the wall, in seconds since 1970 (UTC). It may jump.
    fn now_unix_seconds(&self) -> u64;

    /// The end has begun.
    fn is_stopping(&self) -> bool;

    /// Ends after this time, or earlier when schedules have changed.
    async fn rest(&self, at_most: Option<Duration>);

    /// Waits until nobody else takes snapshots or changes schedules, and keeps others from it.
    async fn alone(&self) -> Self::Alone;

    /// The names of all schedules; `None` while settings cannot be read.
    fn names(&self) -> Option<Vec<String>>;

    /// A schedule as it is stored.
    fn schedule(&self, name: &str) -> Option<Schedule>;

    /// Stores a step. When this has ended well, no end of the process undoes it.
    async fn step(&self, name: &str, step: Step) -> Result<(), String>;

    /// The name of a volume of which snapshots can be taken now.
    fn volume(&self, id: u32) -> Option<String>;

    /// The snapshots of a volume that are not being deleted; `None` while they cannot be told.
    fn snapshots(&self, volume: u32) -> Option<Vec<Seen>>;

    /// Takes snapshots of all these volumes at one moment, or none.
    async fn take(&self, volumes: &[u32], name: &str) -> Result<Vec<Own>, String>;

    /// Deletes a snapshot, unless it is in use.
    async fn delete(&self, own: Own) -> Result<Deleted, String>;

    /// Tells operators.
    fn tell(&self, event: Event);
}
