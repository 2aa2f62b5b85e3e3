//! What the member is asked about its group.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use group::address::GroupAddress;
use group::connections::ConnectionLimit;
use group::membership::{Applicant, JoinToken, ListedVolume, Roll};
use group::ownership::MemberId;
use group::pki::Ticket;
use zeroize::Zeroizing;

use super::connections::connections_of;
use super::joined::{Joined, client_urls};
use super::{GroupError, InGroup, Standing, address, seats, unix_seconds};
use crate::group_request::{
    Admission, GroupConnections, GroupRequest, GroupShown, GroupState, JoinTicket, KeptTicket,
    MemberShown, MemberState, SecretWord, VolumeOfMember,
};
use crate::reply::Answer;

impl InGroup {
    /// Carries a request out.
    ///
    /// # Errors
    /// Why it is refused or failed.
    pub(crate) async fn answer(
        self: &Rc<Self>,
        request: GroupRequest,
    ) -> Result<Answer, GroupError> {
        match request {
            GroupRequest::Show => Ok(Answer::Group(self.shown())),
            GroupRequest::Create { name, member, listen, address } => {
                self.create_with(&name, member, (listen, address)).await?;
                Ok(Answer::Group(self.shown()))
            }
            GroupRequest::Rename { name } => {
                let joined = self.joined()?;
                joined.membership().rename(&name).await?;
                self.refresh(&joined).await;
                Ok(Answer::Group(self.shown()))
            }
            GroupRequest::SetAddress { address } => {
                self.set_address(address).await?;
                Ok(Answer::Group(self.shown()))
            }
            GroupRequest::SetConnections { limit } => {
                self.limit_connections(limit).await?;
                Ok(Answer::Group(self.shown()))
            }
            GroupRequest::Delete => self.delete().await.map(|()| Answer::Done),
            GroupRequest::CreateTicket { lifetime } => {
                self.ticket(lifetime).await.map(Answer::JoinTicket)
            }
            GroupRequest::Tickets => self.tickets().await.map(Answer::JoinTickets),
            GroupRequest::RevokeTicket { id } => {
                let joined = self.joined()?;
                joined.membership().revoke_token(&id).await?;
                self.refresh(&joined).await;
                Ok(Answer::Done)
            }
            GroupRequest::Prepare { member, listen } => {
                self.applicant(member, listen).await.map(Answer::Applicant)
            }
            GroupRequest::Admit { id, secret, applicant } => {
                let admission = self.admit(&id, &secret, applicant).await?;
                Ok(Answer::Admission(Box::new(admission)))
            }
            GroupRequest::Join { applicant, admission, replace_settings } => {
                let mark = self.mark_to_join(replace_settings).await;
                self.join(applicant, *admission, mark).await?;
                self.sharing.until_tried().await;
                Ok(Answer::Group(self.shown()))
            }
            GroupRequest::Share { replace } => {
                self.share(replace).await?;
                Ok(Answer::Group(self.shown()))
            }
            GroupRequest::Members => Ok(Answer::Members(self.members()?)),
            GroupRequest::Remove { member, despite_moves, .. } => {
                self.remove(&member, despite_moves).await.map(|()| Answer::Done)
            }
            GroupRequest::Volumes => Ok(Answer::GroupVolumes(self.volumes()?)),
            GroupRequest::Pools => self.pools(),
            GroupRequest::ShowPool { name } => self.pool(&name),
            GroupRequest::CreatePool { name } => self.create_pool(&name).await,
            GroupRequest::DeletePool { name } => self.delete_pool(&name).await,
            GroupRequest::MergePool { from, into } => self.merge_pool(&from, &into).await,
            GroupRequest::SetPoolConnections { name, limit } => {
                self.set_pool_limit(&name, limit).await
            }
            GroupRequest::MoveMember { member, pool } => self.move_member(&member, &pool).await,
        }
    }

    async fn remove(&self, member: &str, despite_moves: bool) -> Result<(), GroupError> {
        let joined = self.joined()?;
        if !despite_moves {
            seats::until_no_moves(&joined, member).await?;
        }
        seats::remove_member(&joined, member).await?;
        self.refresh(&joined).await;
        Ok(())
    }

    /// Makes a group, which has this address from the beginning on, if any.
    async fn create_with(
        self: &Rc<Self>,
        name: &str,
        member: Option<String>,
        (listen, address): (SocketAddr, Option<GroupAddress>),
    ) -> Result<(), GroupError> {
        if let Some(address) = address {
            let member = member.as_deref().unwrap_or("this one");
            address::check_first(address, listen.ip(), member).await?;
        }
        self.create(name, member, listen).await?;
        self.sharing.until_tried().await;
        match address {
            Some(_) => self.set_address(address).await,
            None => Ok(()),
        }
    }

    /// Has who looks next see a change that was just made.
    pub(super) async fn refresh(&self, joined: &Joined) {
        // The watch brings it too.
        match joined.read_roll().await {
            Ok(roll) => {
                let name = roll.about.map(|about| about.name);
                let named = joined.change_file(|file| {
                    file.group_name = name.unwrap_or_else(|| file.group_name.clone());
                });
                if let Err(error) = named.await {
                    tracing::warn!("{error}");
                }
            }
            Err(error) => tracing::debug!("the change is shown when it is heard of: {error}"),
        }
    }

    async fn ticket(&self, lifetime: Duration) -> Result<JoinTicket, GroupError> {
        let joined = self.joined()?;
        let (id, secret, token) =
            joined.membership().create_token(lifetime, unix_seconds()).await?;
        let ticket = Ticket {
            authority_sha256: joined.authority().sha256(),
            id,
            secret: Zeroizing::new(secret.as_str().to_owned()),
        };
        Ok(JoinTicket { ticket, expires_unix_seconds: token.expires_unix_seconds })
    }

    async fn tickets(&self) -> Result<Vec<KeptTicket>, GroupError> {
        let roll = self.joined()?.read_roll().await?;
        let kept = |(id, token): (String, JoinToken)| KeptTicket {
            id,
            created_unix_seconds: token.created_unix_seconds,
            expires_unix_seconds: token.expires_unix_seconds,
        };
        Ok(roll.tokens.into_iter().map(kept).collect())
    }

    /// Lets a server in that has come to the door of members.
    async fn admit(
        &self,
        id: &str,
        secret: &SecretWord,
        mut applicant: Applicant,
    ) -> Result<Admission, GroupError> {
        let joined = self.joined()?;
        let membership = joined.membership();
        // A stranger has no certificate made: that costs more than a look.
        membership.judge(id, &secret.0, &applicant, unix_seconds()).await?;
        applicant.address = applicant.address.to_canonical();
        let issued = joined.authority().issue(&applicant.name, applicant.address)?;
        applicant.certificate_sha256 = issued.sha256;
        let (member, roll) = membership.admit(id, &secret.0, applicant, unix_seconds()).await?;
        let further_endpoints = client_urls(&roll);
        let group_name = roll.about.map_or_else(|| joined.group_name(), |about| about.name);
        let (file, keys) = (joined.file(), joined.keys());
        Ok(Admission {
            group: file.group.to_string(),
            group_name,
            member,
            authority: keys.authority.clone(),
            authority_key: SecretWord(keys.authority_key.clone()),
            certificate: issued.certificate_pem,
            key: SecretWord(issued.key_pem),
            endpoints: file.endpoints.clone(),
            further_endpoints,
        })
    }

    /// The group as this member knows it.
    fn shown(&self) -> GroupShown {
        let joined = match &*self.standing.borrow() {
            Standing::Alone => return GroupShown::None,
            Standing::Broken(why) => return GroupShown::Broken(why.clone()),
            Standing::In(joined) => joined.clone(),
        };
        let file = joined.file().clone();
        let store_fault = match joined.is_leaving() {
            true => Some(GroupError::Leaving.to_string()),
            false => joined.fault(),
        };
        // Itself at least, before anything was heard.
        let count = joined.with_roll(|roll| roll.members.len()).unwrap_or(1);
        let names = |of: &BTreeSet<MemberId>| {
            let named = |roll: &Roll| {
                let known = of.iter().filter_map(|id| roll.members.get(id));
                known.map(|record| record.name.clone()).collect::<Vec<_>>()
            };
            joined.with_roll(named).unwrap_or_default()
        };
        let away = joined.with_roll(|roll| {
            let is_away = |id: &&MemberId| {
                let has_begun = roll.members.get(*id).is_some_and(|it| it.incarnation != 0);
                has_begun && !roll.is_present(**id) && **id != file.member
            };
            roll.members.keys().filter(is_away).copied().collect::<BTreeSet<_>>()
        });
        let (address, address_member) = address_in(&joined, store_fault.is_none());
        // Who is away is not known while nothing is heard.
        let away = if store_fault.is_none() { away.unwrap_or_default() } else { BTreeSet::new() };
        GroupShown::In(Box::new(GroupState {
            id: file.group.to_string(),
            door: file.door(),
            name: file.group_name,
            here: file.name,
            members: count,
            away: names(&away),
            connections: self.connections_in(&joined),
            address,
            address_member,
            address_fault: address.and_then(|_| fault_of_address(&joined)),
            store_fault,
            store_part_fault: joined.part().fault(),
            store: names(&voters(&joined)),
            shares: self.shares(),
            settings_differ: self.settings_differ(),
            settings_fault: self.settings_fault(),
        }))
    }

    /// How many connections hosts have to all members, as far as that is known.
    fn connections_in(&self, joined: &Joined) -> Option<GroupConnections> {
        let roll = self.roll_here(joined).ok()?;
        let all: Vec<MemberId> = roll.members.keys().copied().collect();
        let (limits, me) = (&roll.limits, joined.me());
        let now = connections_of(&roll, &all, limits.group, me);
        Some(GroupConnections { now, pool_limit: limits.pool.map(ConnectionLimit::get) })
    }

    fn members(&self) -> Result<Vec<MemberShown>, GroupError> {
        let joined = self.joined()?;
        let roll = self.roll_here(&joined)?;
        let (me, is_known, voters) = (joined.me(), joined.fault().is_none(), voters(&joined));
        let shown = roll.members.iter().map(|(id, record)| {
            let inventory = roll.inventories.get(id);
            MemberShown {
                number: *id,
                name: record.name.clone(),
                state: state_of(*id, &roll, (me, is_known)),
                is_here: *id == me,
                door: record.door(),
                volumes: inventory.map_or(0, |it| it.volumes.len()),
                portals: inventory.map(|it| it.portals.clone()).unwrap_or_default(),
                version: record.version.clone(),
                joined_unix_seconds: record.joined_unix_seconds,
                store: voters.contains(id),
                pool: roll.pool_of(*id).to_owned(),
                free_bytes: inventory.map_or(0, |it| it.free_bytes),
                capacity_bytes: inventory.map_or(0, |it| it.capacity_bytes),
                // What it has said of itself is some seconds old.
                shares: (*id == me).then(|| self.shares()).or(inventory.map(|it| it.shares)),
            }
        });
        Ok(shown.collect())
    }

    fn volumes(&self) -> Result<Vec<VolumeOfMember>, GroupError> {
        let joined = self.joined()?;
        let roll = self.roll_here(&joined)?;
        let (me, is_known) = (joined.me(), joined.fault().is_none());
        let mut all = Vec::new();
        for (id, record) in &roll.members {
            let Some(inventory) = roll.inventories.get(id) else { continue };
            let state = state_of(*id, &roll, (me, is_known));
            let of_member = |volume: &ListedVolume| VolumeOfMember {
                member: record.name.clone(),
                state,
                volume: volume.clone(),
            };
            all.extend(inventory.volumes.iter().map(of_member));
        }
        Ok(all)
    }
}

/// The address of the group, and the name of the member that has it, as far as that is known now.
fn address_in(joined: &Joined, is_known: bool) -> (Option<GroupAddress>, Option<String>) {
    let found = joined.with_roll(|roll| {
        let is_held = is_known && !joined.floating().left_to_holder().is_zero();
        let holder = roll.holder.filter(|_| is_held && roll.address.is_some());
        let holder = holder.and_then(|holder| roll.members.get(&holder.member?));
        (roll.address, holder.map(|record| record.name.clone()))
    });
    found.unwrap_or_default()
}

/// Why the address of the group is of no use, or not at this member.
fn fault_of_address(joined: &Joined) -> Option<String> {
    let portal = joined.with_roll(|roll| roll.portal_at_address().map(str::to_owned)).flatten();
    let of_other = portal.map(|member| {
        format!("the member '{member}' has it as a portal of its own: let it have another one")
    });
    of_other.or_else(|| joined.floating().fault())
}

/// How a member is, as `me` sees it.
pub(super) fn state_of(id: MemberId, roll: &Roll, (me, is_known): (MemberId, bool)) -> MemberState {
    let has_begun = roll.members.get(&id).is_some_and(|record| record.incarnation != 0);
    match (id == me, is_known) {
        (true, _) => MemberState::Present,
        (false, false) => MemberState::Unknown,
        (false, true) if roll.is_present(id) => MemberState::Present,
        (false, true) if has_begun => MemberState::Away,
        (false, true) => MemberState::Joining,
    }
}

/// Who runs the store.
fn voters(joined: &Joined) -> BTreeSet<MemberId> {
    let seats = joined.seats().into_iter();
    seats.filter(|seat| !seat.is_learner).filter_map(|seat| seat.member).collect()
}
