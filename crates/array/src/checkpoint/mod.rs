//! The checkpoint: the state of the array as of one position of the journal.

pub mod marks;
pub mod slots;
