//! Disks that are as slow as real ones: the service time of a class of drives, in real time or that of a
//! simulation, over any other device.
//!
//! The model is pure: commands go in with the time, answers come out with theirs, and nothing in it
//! sleeps or reads a clock. [`ModelDisk`] waits for what the model says, and
//! keeps the data on the device below. Each row of docs/disks.md comes from the pure model.

mod class;
mod disk;
mod flash;
mod platter;
mod spinning;
#[cfg(test)]
mod tests;
mod time;

pub use class::DriveClass;
pub use disk::ModelDisk;
pub use time::Time;

pub(crate) use class::{Flash, Parameters, Spinning};

/// Time since the drive was switched on.
pub(crate) type Nanos = u64;
/// What a command is known by until it is answered.
pub(crate) type Ticket = u64;

/// What a drive is asked for; `at` and `len` in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) kind: Kind,
    pub(crate) at: u64,
    pub(crate) len: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// `durable`: it ends only where a loss of power cannot reach it.
    Write {
        durable: bool,
    },
    /// What was written before is safe from a loss of power.
    Flush,
    /// The range holds nothing any more.
    Trim,
}

/// One drive, as a state machine over time. Time never goes back from call to call.
#[derive(Debug)]
pub(crate) struct Drive(Machine);

#[derive(Debug)]
enum Machine {
    Spinning(Box<spinning::Drive>),
    Flash(Box<flash::Drive>),
}

impl Drive {
    pub(crate) fn new(class: DriveClass, size_bytes: u64) -> Self {
        Self(match class.parameters() {
            Parameters::Spinning(p) => {
                Machine::Spinning(Box::new(spinning::Drive::new(p, size_bytes)))
            }
            Parameters::Flash(p) => Machine::Flash(Box::new(flash::Drive::new(p))),
        })
    }

    /// Takes a command. Call [`advance`](Self::advance) up to `now` before.
    pub(crate) fn submit(&mut self, now: Nanos, ticket: Ticket, command: Command) {
        match &mut self.0 {
            Machine::Spinning(drive) => drive.submit(now, ticket, command),
            Machine::Flash(drive) => drive.submit(now, ticket, command),
        }
    }

    /// When to call [`advance`](Self::advance) next; `None`: not before another command.
    pub(crate) fn next(&self) -> Option<Nanos> {
        match &self.0 {
            Machine::Spinning(drive) => drive.next(),
            Machine::Flash(drive) => drive.next(),
        }
    }

    /// Lets time pass up to `now`; the commands that end meanwhile go to `done`, in order.
    pub(crate) fn advance(&mut self, now: Nanos, done: &mut Vec<Ticket>) {
        match &mut self.0 {
            Machine::Spinning(drive) => drive.advance(now, done),
            Machine::Flash(drive) => drive.advance(now, done),
        }
    }
}
