//! What is asked about the group that the member is in, and what the group is told of its volumes.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use array::api::{VolumeInfo, VolumeState};
use group::membership::{Inventory, ListedVolume};
use ring::wait::first;

use super::{Member, RequestError};
use crate::group_request::GroupRequest;
use crate::membership::{local_addresses, reachable};
use crate::reply::Answer;

/// Between two looks at what is served here, and at what others serve, however fast it changes.
const PAUSE: Duration = Duration::from_secs(1);

/// Between two looks while nothing is known to have changed: each walks all volumes and snapshots.
const REST_PAUSE: Duration = Duration::from_secs(30);

/// Between two looks at the addresses of this host.
const ADDRESSES_PAUSE: Duration = Duration::from_secs(60);

impl Member {
    pub(super) async fn group(&self, request: GroupRequest) -> Result<Answer, RequestError> {
        Ok(self.membership.answer(request).await?)
    }

    /// Takes part in the group, if the member is in one.
    pub(crate) fn start_in_group(&self) {
        self.membership.start();
    }

    /// What hosts find here, for the others. Volumes in the recycle bin are no targets.
    fn inventory(&self, address: IpAddr, local: &[IpAddr]) -> Inventory {
        let names = self.serving.names();
        let mut snapshots = self.array.all_snapshots();
        let mut inventory = Inventory {
            portals: reachable(&self.serving.targets().portals(), address, local),
            ..Inventory::default()
        };
        let is_target = |volume: &VolumeInfo| volume.state != VolumeState::Deleted;
        for volume in self.volumes().into_iter().filter(is_target) {
            let own = snapshots.remove(&volume.id).unwrap_or_default();
            let online = own.into_iter().filter(|snapshot| snapshot.online);
            inventory.snapshots.extend(online.map(|it| names.snapshot(&volume.name, &it.name)));
            let iqn = names.volume(&volume.name);
            let is_up = matches!(volume.state, VolumeState::Online | VolumeState::Degraded);
            inventory.volumes.push(ListedVolume {
                is_online: is_up && self.serving.refusal(&iqn).is_none(),
                name: volume.name,
                iqn,
                size_bytes: volume.size_bytes,
            });
        }
        inventory
    }

    /// Waits until there may be something else to tell. It costs nothing while the member is in no group.
    async fn until_changed(&self, mark: u64, settles: u64) {
        let heard = self.membership.heard_after(mark);
        if self.membership.address().is_none() {
            return heard.await;
        }
        let changed = first(heard, self.serving.settled_after(settles));
        ring::timeout(REST_PAUSE.saturating_sub(PAUSE), changed).await;
    }
}

/// Tells the group what is served here, and hosts where they find what others serve, until the member stops.
pub(crate) async fn run(member: Rc<Member>) {
    let mut mark = 0;
    let mut local: Option<(Vec<IpAddr>, Instant)> = None;
    while !member.is_stopping() && !member.membership.is_ending() {
        let settles = member.serving.settles();
        if let Some(map) = member.membership.elsewhere(&mut mark) {
            member.serving.set_elsewhere(map);
        }
        if let Some(address) = member.membership.address() {
            if local.as_ref().is_none_or(|(_, since)| since.elapsed() >= ADDRESSES_PAUSE) {
                local = Some((ring::blocking(local_addresses).await, Instant::now()));
            }
            let addresses = local.as_ref().map_or(&[][..], |(all, _)| all.as_slice());
            member.membership.set_own(member.inventory(address, addresses));
        }
        ring::sleep(PAUSE).await;
        member.until_changed(mark, settles).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;

    /// What is served is looked at when it has changed, and not while nothing has.
    #[test]
    fn a_change_of_what_is_served_is_heard_of_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let rig = Rig::start(dir.path(), &dir.path().join("data"));
        let (before, after, in_no_group) = rig.with(async |member| {
            let soon = Duration::from_millis(300);
            let settles = member.serving.settles();
            let settled = || member.serving.settled_after(settles);
            let before = ring::timeout(soon, settled()).await;
            let asleep = ring::timeout(soon, member.until_changed(0, settles)).await;
            member.settle().await;
            let after = ring::timeout(soon, settled()).await;
            // A member in no group has nobody to tell.
            let still = ring::timeout(soon, member.until_changed(0, settles)).await;
            (before, after, (asleep, still))
        });
        assert_eq!((before, after), (None, Some(())));
        assert_eq!(in_no_group, (None, None));
        rig.stop();
    }
}
