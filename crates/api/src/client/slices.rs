//! Slices of volumes that lie on several members.

use axum::http::Method;

use super::http::Sent;
use super::{Client, Result, path};
use crate::types::{Slice, Volume};

impl Client {
    /// Slices that members have of other homes' volumes, and those that homes wait for as they delete volumes.
    pub fn slices(&self) -> Result<Vec<Slice>> {
        self.list("/v1/slices")
    }

    /// Has the home of a volume make it anew of its slices, of which this is one, or go on `despite_later` homes that other
    /// members have seen.
    pub fn rebuild_volume(&self, id: &str, despite_later: bool) -> Result<Volume> {
        let query = if despite_later { "?despite-later=true" } else { "" };
        self.post(&format!("{}{query}", path(["slices", id, "rebuild"])))
    }

    /// Discards a slice that is left over, or that is awaited in vain.
    pub fn discard_slice(&self, id: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["slices", id]))).map(drop)
    }
}
