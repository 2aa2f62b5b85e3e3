//! What is asked before a volume begins to move, and once more before hosts lose it.

use std::collections::BTreeMap;

use array::api::{SnapshotInfo, VolumeInfo, VolumeState};
use group::membership::{DEFAULT_POOL, MembershipError, Roll, Wanted, folded, place};
use group::ownership::MemberId;

use super::super::{Member, MoveError, RequestError};
use super::copying::is_of_move;
use crate::mutants::{self, Mutant};
use crate::request::{Request, SnapshotRequest, VolumeRequest};
use crate::schedule_request::{NewSchedule, ScheduleChange, ScheduleRequest};
use crate::set_request::SetRequest;

/// Snapshots of a volume that moves, at most: it has room for two more then, which the move takes.
const SNAPSHOTS_MAX: usize = 4094;

/// What a destination has that cannot be there twice.
fn has_name(roll: &Roll, member: MemberId, name: &str) -> bool {
    let Some(inventory) = roll.inventories.get(&member) else { return false };
    let volumes = inventory.volumes.iter().map(|volume| &volume.name);
    let mut names = volumes.chain(&inventory.deleted);
    names.any(|other| folded(other) == folded(name))
}

impl Member {
    /// Refuses to move a volume that must stay, by what is known of it here.
    pub(super) fn check_movable(&self, volume: &VolumeInfo) -> Result<(), RequestError> {
        let name = || volume.name.clone();
        match volume.state {
            VolumeState::Deleted => return Err(RequestError::InRecycleBin(name())),
            VolumeState::Lost => return Err(RequestError::Move(MoveError::Lost(name()))),
            VolumeState::Online | VolumeState::Degraded | VolumeState::Offline => {}
        }
        if !mutants::is(Mutant::MoveUndecided) {
            self.check_decided_of(&volume.name)?;
        }
        // While these cannot be read it is not known who may use it.
        let state = self.settings.state()?;
        if self.settings.is_half_made(volume.id) {
            return Err(RequestError::Move(MoveError::HalfMade(name())));
        }
        for (schedule, found) in &state.schedules {
            if found.plan.volumes.iter().any(|scheduled| scheduled.id == volume.id) {
                let schedule = schedule.clone();
                return Err(RequestError::Move(MoveError::Scheduled { name: name(), schedule }));
            }
        }
        let is_used = |snapshot: &SnapshotInfo| snapshot.online || snapshot.view_id.is_some();
        let snapshots = self.array.snapshots(&volume.name)?;
        if snapshots.iter().filter(|it| !is_of_move(&it.name)).count() > SNAPSHOTS_MAX {
            return Err(MoveError::TooManySnapshots { name: name(), max: SNAPSHOTS_MAX }.into());
        }
        if let Some(used) = snapshots.into_iter().find(is_used) {
            return Err(RequestError::Move(MoveError::SnapshotServed {
                name: name(),
                snapshot: used.name,
            }));
        }
        self.check_no_sanitize(volume)
    }

    /// Refuses one that a host erases: what is left of its data is not to be brought elsewhere.
    pub(super) fn check_no_sanitize(&self, volume: &VolumeInfo) -> Result<(), RequestError> {
        let serial = self.serving.names().volume_serial(volume);
        let unknown =
            |source| RequestError::SanitizeUnknown { volume: volume.name.clone(), source };
        if self.serving.targets().is_unsanitized(&serial).map_err(unknown)? {
            return Err(RequestError::Move(MoveError::Sanitized(volume.name.clone())));
        }
        Ok(())
    }

    /// Refuses where policies and users are not those of the group: they would let in others at the destination.
    pub(super) fn check_shares(&self, volume: &VolumeInfo) -> Result<(), RequestError> {
        if self.membership.shares() {
            return Ok(());
        }
        let member = self.member_name(self.membership.me()?);
        Err(RequestError::Move(MoveError::KeepsOwn { name: volume.name.clone(), member }))
    }

    /// The member that a volume is to move to, and its name.
    pub(super) fn destination_of_move(
        &self,
        volume: &VolumeInfo,
        (to, pool): (Option<&str>, Option<&str>),
    ) -> Result<(MemberId, String), RequestError> {
        let (me, roll) = (self.membership.me()?, self.membership.roll_now()?);
        let name = || volume.name.clone();
        let member_name =
            |id: MemberId| roll.members.get(&id).map_or(String::new(), |it| it.name.clone());
        self.check_shares(volume)?;
        let to = match to {
            Some(word) => {
                let missing = || MembershipError::NoSuchMember(word.to_owned());
                roll.find(word).ok_or_else(|| RequestError::Group(missing().into()))?.0
            }
            None => chosen(&roll, me, volume, pool)?,
        };
        if to == me {
            return Err(RequestError::Move(MoveError::Here(name())));
        }
        let member = member_name(to);
        if !roll.is_present(to) {
            return Err(RequestError::Move(MoveError::Away { name: name(), member }));
        }
        if !roll.inventories.get(&to).is_some_and(|inventory| inventory.shares) {
            return Err(RequestError::Move(MoveError::KeepsOwn { name: name(), member }));
        }
        let iqn = self.serving.names().volume(volume.id, &volume.name);
        let has = self.serving.targets().connections_taken_of(&iqn) as u64;
        if let Some((pool, limit, left)) = roll.room_for_hosts(me, to)
            && has > left
        {
            let pool = pool.to_owned();
            return Err(MoveError::PoolFull { name: name(), pool, limit, left, has }.into());
        }
        if has_name(&roll, to, &volume.name) {
            return Err(RequestError::Move(MoveError::NameThere { name: name(), member }));
        }
        Ok((to, member))
    }

    /// Refuses what a move that copies could not follow: names, and snapshots that were sent.
    pub(in crate::running) fn check_unmoved(&self, request: &Request) -> Result<(), RequestError> {
        if let Request::Snapshot(SnapshotRequest::Create { name: Some(name), .. }) = request
            && is_of_move(name)
        {
            return Err(RequestError::Move(MoveError::NameOfMove(name.clone())));
        }
        if let Request::Set(SetRequest::Prepare { plan }) = request
            && is_of_move(&plan.name)
        {
            return Err(RequestError::Move(MoveError::NameOfMove(plan.name.clone())));
        }
        let moving: BTreeMap<String, String> = self.moving.under_way();
        if moving.is_empty() {
            return Ok(());
        }
        for name in disturbing(request) {
            if let Some(to) = moving.get(name) {
                let (name, to) = (name.to_owned(), to.clone());
                return Err(RequestError::Move(MoveError::MovesAlready { name, to }));
            }
        }
        Ok(())
    }
}

/// The volumes that a request changes so that a move could not go on.
fn disturbing(request: &Request) -> Vec<&str> {
    match request {
        Request::Volume(VolumeRequest::Rename { name, .. } | VolumeRequest::Delete { name }) => {
            vec![name]
        }
        Request::Snapshot(
            SnapshotRequest::Rollback { volume, .. }
            | SnapshotRequest::Delete { volume, .. }
            | SnapshotRequest::SetOnline { volume, online: true, .. }
            | SnapshotRequest::SetWritable { volume, .. },
        ) => vec![volume],
        Request::Schedule(
            ScheduleRequest::Create(NewSchedule { volumes, .. })
            | ScheduleRequest::Set { change: ScheduleChange { volumes: Some(volumes), .. }, .. },
        ) => volumes.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The member with most room of the pool, other than the one that has the volume.
fn chosen(
    roll: &Roll,
    me: MemberId,
    volume: &VolumeInfo,
    pool: Option<&str>,
) -> Result<MemberId, RequestError> {
    let pool = pool.unwrap_or_else(|| roll.pool_of(me)).to_owned();
    let mut others = roll.clone();
    others.members.remove(&me);
    others.present.remove(&me);
    for pool in others.pools.values_mut() {
        pool.members.remove(&me);
    }
    if pool == DEFAULT_POOL || others.pools.contains_key(&pool) {
        let is_empty = others.members_of_pool(&pool).is_none_or(|members| members.is_empty());
        if is_empty {
            return Err(RequestError::Move(MoveError::Alone { name: volume.name.clone(), pool }));
        }
    }
    // It has no settings in common with the group, or a volume of the name: another one may have room.
    let fits = |member: &MemberId| {
        let shares = others.inventories.get(member).is_some_and(|inventory| inventory.shares);
        shares && !has_name(&others, *member, &volume.name)
    };
    let unfit: Vec<MemberId> = others.members.keys().copied().filter(|it| !fits(it)).collect();
    let mut fitting = others.clone();
    for member in unfit {
        fitting.present.remove(&member);
    }
    let wanted =
        Wanted { size_bytes: volume.size_bytes, thick: volume.thick, pool: Some(&pool), asked: me };
    // Of those that do not fit, one is named by what is asked of it afterwards.
    let found = place(&fitting, &wanted).or_else(|_| place(&others, &wanted));
    found.map_err(|why| RequestError::Move(MoveError::Nowhere { name: volume.name.clone(), why }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_move_cannot_follow_is_known_by_the_volume() {
        let name = || "vm".to_owned();
        let rename = VolumeRequest::Rename { name: name(), to: "other".to_owned() };
        assert_eq!(disturbing(&Request::Volume(rename)), ["vm"]);
        let resize = VolumeRequest::Resize { name: name(), size_bytes: 1, shrink: true };
        assert!(disturbing(&Request::Volume(resize)).is_empty(), "a move follows that");
        let online = |online| {
            let (volume, name) = (name(), "s".to_owned());
            Request::Snapshot(SnapshotRequest::SetOnline { volume, name, online })
        };
        assert_eq!(disturbing(&online(true)), ["vm"]);
        assert!(disturbing(&online(false)).is_empty());
    }
}
