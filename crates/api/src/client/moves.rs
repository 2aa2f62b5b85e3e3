//! What is asked about volumes that move to another member.

use axum::http::Method;

use super::{Client, Result, path};
use crate::types::{Run, Settlement, Transit, VolumeMove};

impl Client {
    /// Begins to move a volume to a member, or to the one with most room of a pool, or of the pool that its own is in.
    /// The run is one of the member that the volume was on, which has [answered](Self::answered_by): it is followed and
    /// cancelled [`on`](Self::on) that one.
    pub fn move_volume(&self, name: &str, to: Option<&str>, pool: Option<&str>) -> Result<Run> {
        let to = VolumeMove { to: to.map(str::to_owned), pool: pool.map(str::to_owned) };
        self.send(Method::POST, &path(["volumes", name, "move"]), &to)
    }

    /// The volumes that members have stored as moving, at either side, and how each stands.
    pub fn transits(&self) -> Result<Vec<Transit>> {
        self.list("/v1/transits")
    }

    /// Decides about a move that no group decides about any more: the member that this is asked [`on`](Self::on) keeps
    /// what it has of the volume, or deletes it for good.
    pub fn settle_transit(&self, id: &str, keep: bool) -> Result<()> {
        self.give(Method::POST, &path(["transits", id, "settle"]), &Settlement { keep })
    }
}
