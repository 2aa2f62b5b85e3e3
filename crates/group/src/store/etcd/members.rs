//! The members of the etcd cluster itself: who they are, and how one comes and goes.
//!
//! A new one begins as a learner, which has no vote and does not answer requests, until it has heard of all that there
//! is. etcd changes its members one at a time, and only while that costs nobody the majority.

use std::collections::BTreeSet;
use std::time::Duration;

use etcd_client::{Client, Member, MemberAddOptions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use super::{ATTEMPT_TIME, Cluster, Connections, Etcd, refusal};
use crate::store::{Pending, Selection, StoreError};

/// How long a member of the cluster may take to say that it is there, when something is to rely on that.
const ALIVE_TIME: Duration = Duration::from_secs(1);

/// A member of the etcd cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdMember {
    /// The number that etcd has given it.
    pub id: u64,
    /// What it calls itself; empty until it was there for the first time.
    pub name: String,
    /// Where the others reach it.
    pub peer_urls: Vec<String>,
    /// Where it answers requests; none until it was there for the first time.
    pub client_urls: Vec<String>,
    /// It has no vote yet.
    pub is_learner: bool,
}

impl EtcdMember {
    fn of(member: &Member) -> Self {
        Self {
            id: member.id(),
            name: member.name().to_owned(),
            peer_urls: member.peer_urls().to_vec(),
            client_urls: member.client_urls().to_vec(),
            is_learner: member.is_learner(),
        }
    }

    /// It has been there.
    #[must_use]
    pub const fn is_started(&self) -> bool {
        !self.name.is_empty()
    }
}

/// Why the members of the cluster are not changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EtcdMemberError {
    /// It passes: the learner is still being told what there is.
    #[error(
        "the new member of etcd has not caught up with the others yet: it gets its vote when it has"
    )]
    NotReady,
    /// It passes, when those that are away are back.
    #[error(
        "etcd does not change its members now: all of them must be there, and have been for some seconds, and the change before must be done"
    )]
    Unhealthy,
    /// The cluster does not answer, or refuses for another reason. It is not known whether the change was made.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EtcdMemberError {
    fn of(error: &etcd_client::Error) -> Self {
        if refusal::is_behind(error) {
            Self::NotReady
        } else if refusal::is_unhealthy(error) {
            Self::Unhealthy
        } else {
            Self::Store(refusal::of(error))
        }
    }
}

impl Etcd {
    /// The members of the cluster after all changes that were made before this was asked.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if no majority of them answers.
    pub fn members(&self) -> Pending<'_, Vec<EtcdMember>> {
        let cluster = self.cluster.clone();
        self.run(async move { cluster.members().await })
    }

    /// Which of these have a vote, answer now, and follow a leader. Each is asked itself: that it was there once says
    /// nothing of now. Those that are silent take a second each.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if too many of them are silent for an answer in time.
    pub fn answering(&self, members: &[EtcdMember]) -> Pending<'_, BTreeSet<u64>> {
        let (cluster, members) = (self.cluster.clone(), members.to_vec());
        self.run(async move { Ok(cluster.answering(&members).await) })
    }

    /// Adds a learner that will be reached at `peer_url`, and gives its number; one that is there already is left as
    /// it is.
    ///
    /// # Errors
    /// [`EtcdMemberError::Unhealthy`] where a member is away, or another learner is there.
    pub async fn add_learner(&self, peer_url: String) -> Result<u64, EtcdMemberError> {
        let cluster = self.cluster.clone();
        self.run(async move { Ok(cluster.add_learner(&peer_url).await) }).await?
    }

    /// Gives a learner its vote; one that has it keeps it.
    ///
    /// # Errors
    /// [`EtcdMemberError::NotReady`] while it has not caught up with the others.
    pub async fn promote(&self, id: u64) -> Result<(), EtcdMemberError> {
        let cluster = self.cluster.clone();
        self.run(async move { Ok(cluster.promote(id).await) }).await?
    }

    /// Removes a member of the cluster, whose etcd ends by itself then; one that is not there is no error.
    ///
    /// # Errors
    /// [`EtcdMemberError::Unhealthy`] where the others would be no majority.
    pub async fn remove(&self, id: u64) -> Result<(), EtcdMemberError> {
        let cluster = self.cluster.clone();
        self.run(async move { Ok(cluster.remove(id).await) }).await?
    }
}

impl Cluster {
    /// Asks the one that answered before, and all of those that are known at once when it does not: some of them may be
    /// gone, or run no etcd at all.
    async fn members(&self) -> Result<Vec<EtcdMember>, StoreError> {
        let connections: &Connections = &self.connections();
        let mut single = connections.single.lock().await;
        if let Some(client) = single.as_ref()
            && let Ok(members) = self.told_by(client).await
        {
            return Ok(members);
        }
        *single = None;
        let asked = connections.endpoints.iter().cloned().map(|endpoint| async move {
            let client = self.connect(&[endpoint]).await?;
            let members = self.told_by(&client).await?;
            Ok::<_, StoreError>((client, members))
        });
        let mut asked: FuturesUnordered<_> = asked.collect();
        let mut last = StoreError::failed("no member of etcd is known");
        while let Some(answer) = asked.next().await {
            match answer {
                Ok((client, members)) => {
                    *single = Some(client);
                    return Ok(members);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The members as one of them knows them. What was decided before, it has heard of when it answers what a majority
    /// must agree to; the list itself, it gives as it has it (etcd 3.4, `MemberList`).
    async fn told_by(&self, client: &Client) -> Result<Vec<EtcdMember>, StoreError> {
        let (key, options) = self.namespace.get(&Selection::key("members"));
        let ask = async {
            let mut client = client.clone();
            client.get(key, Some(options.with_count_only())).await?;
            client.member_list().await
        };
        match timeout(ATTEMPT_TIME, ask).await {
            Ok(Ok(answer)) => Ok(answer.members().iter().map(EtcdMember::of).collect()),
            Ok(Err(error)) => Err(refusal::of(&error)),
            Err(_) => Err(refusal::silent(ATTEMPT_TIME)),
        }
    }

    async fn answering(&self, members: &[EtcdMember]) -> BTreeSet<u64> {
        let mut answering = BTreeSet::new();
        for voter in members.iter().filter(|member| member.is_started() && !member.is_learner) {
            if self.is_alive(voter).await {
                answering.insert(voter.id);
            }
        }
        answering
    }

    /// Whether this one answers, and is with the others: one that is cut off from them follows no leader.
    async fn is_alive(&self, member: &EtcdMember) -> bool {
        let ask = async {
            let mut client = self.connect(&member.client_urls).await?;
            client.status().await.map_err(|error| refusal::of(&error))
        };
        matches!(timeout(ALIVE_TIME, ask).await, Ok(Ok(status)) if status.leader() != 0)
    }

    async fn add_learner(&self, peer_url: &str) -> Result<u64, EtcdMemberError> {
        let mut etcd = self.client().await?.cluster_client();
        let learner = MemberAddOptions::new().with_is_learner();
        match etcd.member_add(vec![peer_url.to_owned()], Some(learner)).await {
            Ok(answer) => {
                let id = answer.member().map(Member::id);
                Ok(id.ok_or_else(|| StoreError::failed("etcd has left out whom it has added"))?)
            }
            Err(error) => {
                if refusal::is_member_there(&error)
                    && let Some(id) = self.id_at(peer_url).await?
                {
                    return Ok(id);
                }
                Err(EtcdMemberError::of(&error))
            }
        }
    }

    async fn id_at(&self, peer_url: &str) -> Result<Option<u64>, StoreError> {
        let members = self.members().await?;
        let is_there = |member: &&EtcdMember| member.peer_urls.iter().any(|url| url == peer_url);
        Ok(members.iter().find(is_there).map(|member| member.id))
    }

    async fn promote(&self, id: u64) -> Result<(), EtcdMemberError> {
        match self.client().await?.cluster_client().member_promote(id).await {
            Ok(_) => Ok(()),
            Err(error) if refusal::is_voter(&error) => Ok(()),
            Err(error) => Err(EtcdMemberError::of(&error)),
        }
    }

    async fn remove(&self, id: u64) -> Result<(), EtcdMemberError> {
        // Where that does not go, or takes too long, the others elect a leader when this one is gone.
        let _ = timeout(ATTEMPT_TIME, self.let_another_lead(id)).await;
        match self.client().await?.cluster_client().member_remove(id).await {
            Ok(_) => Ok(()),
            Err(error) if refusal::is_no_member(&error) => Ok(()),
            Err(error) => Err(EtcdMemberError::of(&error)),
        }
    }

    /// If this member leads, another one that is there leads from now on: so nobody has to wait for an election, which
    /// takes up to two election times.
    async fn let_another_lead(&self, id: u64) -> Result<(), StoreError> {
        let status = self.client().await?.status().await;
        if status.map_err(|error| refusal::of(&error))?.leader() != id {
            return Ok(());
        }
        let members = self.members().await?;
        let Some(leader) = members.iter().find(|member| member.id == id) else { return Ok(()) };
        let mut at_leader = self.connect(&leader.client_urls).await?;
        let others = members.iter().filter(|member| member.id != id);
        for other in others.filter(|member| member.is_started() && !member.is_learner) {
            if self.is_alive(other).await && at_leader.move_leader(other.id).await.is_ok() {
                return Ok(());
            }
        }
        Ok(())
    }
}
