//! The home's own slice of a volume: a hidden volume of its array.

use array::api::{VolumeSpec, VolumeState};
use group::membership::SpreadId;
use group::spread::{Order, hidden_name, is_hidden_name};

use super::super::{Member, RequestError, SpreadRefusal};

impl Member {
    /// Does with the own slice what all slices are asked for. What is so already is done.
    pub(super) async fn own_slice(&self, id: &SpreadId, order: Order) -> Result<(), RequestError> {
        let name = hidden_name(id);
        let found = self.array.volume(&name).ok();
        match order {
            Order::Make { size_bytes } => match found {
                Some(_) => self.grow_slice_volume(&name, size_bytes).await,
                None => self.make_own_slice(id, size_bytes).await,
            },
            Order::Grow { to_bytes } => self.grow_slice_volume(&name, to_bytes).await,
            Order::Go => self.delete_slice_volume(&name).await,
        }
    }

    async fn make_own_slice(&self, id: &SpreadId, size_bytes: u64) -> Result<(), RequestError> {
        let plan = self.spreads.plans.borrow().get(id).cloned();
        // What is made in a life before this one goes.
        let plan = plan.ok_or(SpreadRefusal::NoSuch)?;
        let spec = VolumeSpec { name: hidden_name(id), size_bytes, ..plan.spec };
        // Whether it is online says whether hosts are served, as with any volume, once they may see it.
        match plan.online {
            true => self.array.create_volume(spec).await?,
            false => self.array.create_volume_offline(spec).await?,
        };
        Ok(())
    }

    /// Makes the volume of a slice as large as this, if it is smaller.
    pub(super) async fn grow_slice_volume(
        &self,
        name: &str,
        to_bytes: u64,
    ) -> Result<(), RequestError> {
        debug_assert!(is_hidden_name(name), "only a slice is changed unasked");
        if self.array.volume(name)?.size_bytes < to_bytes {
            self.array.resize_volume(name, to_bytes).await?;
        }
        Ok(())
    }

    /// Deletes the volume of a slice for good, with what is set for it. Nobody may use it any more.
    pub(super) async fn delete_slice_volume(&self, name: &str) -> Result<(), RequestError> {
        debug_assert!(is_hidden_name(name), "only a slice is deleted unasked");
        let Ok(volume) = self.array.volume(name) else { return Ok(()) };
        if volume.state != VolumeState::Deleted {
            self.array.set_volume_online(name, false).await?;
            self.array.delete_volume(name).await?;
        }
        self.array.purge_volume(name).await?;
        let _turn = self.turn.take().await;
        self.settings.forget_purged().await;
        self.forget_units().await;
        Ok(())
    }
}
