//! Names of volumes: each is claimed by one member of the group, before that makes a volume of it.
//!
//! | key | what | written by |
//! |---|---|---|
//! | `names/` and a name as [`folded`] | who has it, and how it is written there ([`NameClaim`]) | who claims it |
//!
//! They lie beside the group and are no part of the [`Roll`](super::Roll): there may be thousands, of which a member
//! has to know its own. No guard is compared, as each claim stands for itself; a transaction compares what it found:
//!
//! ```text
//!            claim: nobody has it, and who claims it is a member
//!   (free) ──────────────────────────────────────────────────────▶ claimed ─╮ claim: by the same member, which may
//!      ▲                                                           │  ▲  ▲  │ write it in another way
//!      │              release: by that member, so written          │  │  ╰──╯
//!      ╰───────────────────────────────────────────────────────────╯  ╰── claim: who had it is no member any more
//! ```
//!
//! A claim does not end with its member, which may be gone for good: whoever wants the name takes it over. Numbers of
//! members are given once, so who is no member will be none again. Claims end with the group. How a claim passes from
//! one member to another, with its volume, is in `handing.rs`.
//!
//! Each claim is written, also one of a name that the member has already: what it has asked to be released before, and
//! what comes late to the store, finds another revision and leaves it.
//!
//! A claim that was made and not answered has no volume. It harms nobody for long: the member claims what it has and
//! releases the rest each time when it has found the store again.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::change::{FAILURES_MAX, TRIES};
use super::roll::{NAMES, member_key};
use super::{MemberRecord, Membership, MembershipError, MoveId};
use crate::mutants::{self, Mutant};
use crate::ownership::MemberId;
use crate::record::{Setting, SettingError};
use crate::store::{
    Answer, Compare, Op, Order, Outcome, Property, Revision, Selection, StoreError, Transaction,
};

/// The longest name of a volume, as arrays have it.
pub(super) const VOLUME_NAME_BYTES_MAX: usize = 63;

/// Names of one transaction, far below what the store takes.
pub(super) const NAMES_AT_ONCE_MAX: usize = 100;

/// What folded names begin with: the names of a group are read in so many pages.
const FIRST_CHARACTERS: &str = "-.0123456789abcdefghijklmnopqrstuvwxyz";

/// A name as it is compared: those that fold to the same are one. As in the names of targets (RFC 7143 §4.2.7.2), where
/// letters are small and `_` and `:` cannot stand.
#[must_use]
pub fn folded(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', ':'], "-")
}

/// Who has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NameClaim {
    /// Whose volume it is.
    pub(super) member: MemberId,
    /// As that member writes it.
    pub(super) name: String,
    /// The move that has brought it there, for as long as that member has it: the source may look late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) moved: Option<MoveId>,
    /// The last moves whose destinations have had the volume of this name, the newest last: written by each of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) adopted: Vec<MoveId>,
}

impl Setting for NameClaim {
    const WHAT: &'static str = "who has the name of a volume";
}

/// A claim as it lies in the store.
struct Claimed {
    key: Vec<u8>,
    revision: Revision,
    claim: Result<NameClaim, SettingError>,
}

/// Claims by their keys, and when they were written.
type Claims = BTreeMap<Vec<u8>, (NameClaim, Revision)>;

/// Who claims names.
#[derive(Clone, Copy)]
struct Claimant {
    member: MemberId,
    /// For volumes that are to be made, and not for those that are there.
    is_anew: bool,
}

/// What was found of the names that somebody claims.
#[derive(Default)]
struct Found {
    claims: Claims,
    /// Those of them that are no members any more.
    gone: BTreeSet<MemberId>,
}

/// What is to be written so that all names are claimed.
#[derive(Default)]
struct Plan {
    compares: Vec<Compare>,
    puts: Vec<Op>,
    /// Names that the member did not have.
    new: BTreeSet<String>,
}

pub(super) fn name_key(name: &str) -> String {
    format!("{NAMES}{}", folded(name))
}

/// Whether a volume can have the name, as arrays judge it.
fn is_volume_name(name: &str) -> bool {
    let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    (1..=VOLUME_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(belongs)
}

impl Membership {
    /// Claims names for volumes that a member has or is about to make, and says which of them it had not claimed
    /// before: these are to be released if the volumes are not made. One may be left out if the store failed while it
    /// was claimed, as it could be of a volume that is there. Up to a hundred names are claimed all or not at all; of
    /// more than that, what was claimed is released when one is refused.
    ///
    /// What the member has already stays its own, in the way in which it is written now, and is written anew: no
    /// release that was asked for before takes it away. What somebody has who is no
    /// member of the group any more is taken over.
    ///
    /// # Errors
    /// [`MembershipError::VolumeNameTaken`], [`MembershipError::VolumeName`], or as [`enter`](Self::enter). After
    /// [`MembershipError::Store`] names may be claimed of which there is no volume.
    pub async fn claim_names(
        &self,
        member: MemberId,
        names: &[String],
    ) -> Result<Vec<String>, MembershipError> {
        self.claim_all(Claimant { member, is_anew: false }, names).await
    }

    /// The same for volumes that are to be made: what a claim says of how a volume of that name has come, and where it
    /// was, says nothing of these, and does not stay.
    ///
    /// # Errors
    /// As [`claim_names`](Self::claim_names).
    pub async fn claim_names_anew(
        &self,
        member: MemberId,
        names: &[String],
    ) -> Result<Vec<String>, MembershipError> {
        self.claim_all(Claimant { member, is_anew: true }, names).await
    }

    async fn claim_all(
        &self,
        who: Claimant,
        names: &[String],
    ) -> Result<Vec<String>, MembershipError> {
        if let Some(wrong) = names.iter().find(|name| !is_volume_name(name)) {
            return Err(MembershipError::VolumeName(wrong.clone()));
        }
        // Names that are one are claimed once: no member has volumes of both.
        let wanted: BTreeMap<String, &String> =
            names.iter().map(|name| (name_key(name), name)).collect();
        let wanted: Vec<(String, &String)> = wanted.into_iter().collect();
        let mut claimed = Vec::new();
        for some in wanted.chunks(NAMES_AT_ONCE_MAX) {
            match self.claim_some(who, some).await {
                Ok(new) => claimed.extend(new),
                Err(error) => {
                    // A store that does not answer is not asked for more. What is not released has no volume, as
                    // the head of this file says.
                    if !matches!(error, MembershipError::Store(_)) {
                        drop(self.release_names(who.member, &claimed).await);
                    }
                    return Err(error);
                }
            }
        }
        Ok(claimed)
    }

    /// Claims names in one transaction, and says which are new.
    async fn claim_some(
        &self,
        who: Claimant,
        wanted: &[(String, &String)],
    ) -> Result<BTreeSet<String>, MembershipError> {
        let (mut found, member) = (Found::default(), who.member);
        let mut failures = 0;
        for _ in 0..TRIES {
            self.judge_claims(member, &mut found).await?;
            let Plan { compares, puts, new } = plan(who, wanted, &found);
            debug_assert_eq!(puts.len(), wanted.len(), "each is written");
            match self.store.commit(transaction(member, wanted, compares, puts)).await {
                Ok(outcome) if outcome.succeeded => return Ok(new),
                Ok(outcome) => match claims_beside(member, outcome)? {
                    Some(claims) => found.claims = claims,
                    None => return Err(self.why_missing().await),
                },
                // The same once more: where the first was made, it finds its claims.
                Err(StoreError::Failed(_)) if failures < FAILURES_MAX => failures += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Err(MembershipError::Contended)
    }

    /// Refuses names that another member has, and notes who of those that have one is none.
    async fn judge_claims(
        &self,
        member: MemberId,
        found: &mut Found,
    ) -> Result<(), MembershipError> {
        found.gone.clear();
        let claims = found.claims.values().map(|(claim, _)| claim);
        let others: Vec<&NameClaim> = claims.filter(|claim| claim.member != member).collect();
        for claim in others {
            if found.gone.contains(&claim.member) {
                continue;
            }
            let record = self.record_of(claim.member).await?;
            let record = record.map(|record| record.name);
            match record.or_else(|| mutants::is(Mutant::NameForever).then(String::new)) {
                Some(member_name) => {
                    let name = claim.name.clone();
                    return Err(MembershipError::VolumeNameTaken { name, member_name });
                }
                None => found.gone.insert(claim.member),
            };
        }
        Ok(())
    }

    /// Whether this is a member, as the store says now.
    ///
    /// # Errors
    /// The store cannot be read, or what it says.
    pub async fn is_member(&self, member: MemberId) -> Result<bool, MembershipError> {
        Ok(self.record_of(member).await?.is_some())
    }

    /// What is known of a member, if it is one.
    pub(super) async fn record_of(
        &self,
        member: MemberId,
    ) -> Result<Option<MemberRecord>, MembershipError> {
        let found = self.store.range(Selection::key(member_key(member))).await?;
        Ok(found.kvs.first().map(|kv| MemberRecord::decode(&kv.value)).transpose()?)
    }

    /// Gives names up that a member has claimed, as far as it has, and written so: one that it has claimed in another
    /// way meanwhile stays.
    ///
    /// # Errors
    /// The store does not do it, or others change the same names all the time.
    pub async fn release_names(
        &self,
        member: MemberId,
        names: &[String],
    ) -> Result<(), MembershipError> {
        let given: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let keys = names.iter().filter(|name| is_volume_name(name)).map(|name| name_key(name));
        let keys: Vec<String> = keys.collect::<BTreeSet<_>>().into_iter().collect();
        for some in keys.chunks(NAMES_AT_ONCE_MAX) {
            self.release_some(member, some, &given).await?;
        }
        Ok(())
    }

    async fn release_some(
        &self,
        member: MemberId,
        keys: &[String],
        given: &BTreeSet<&str>,
    ) -> Result<(), MembershipError> {
        let look = || -> Vec<Op> {
            keys.iter().map(|key| Op::Range(Selection::key(key.as_str()))).collect()
        };
        let is_given = |claimed: &Claimed| {
            claimed.claim.as_ref().is_ok_and(|claim| {
                let is_own = claim.member == member || mutants::is(Mutant::NameOfOthers);
                is_own && given.contains(claim.name.as_str())
            })
        };
        let mut outcome = self.store.commit(Transaction::always(look())).await?;
        for _ in 0..TRIES {
            let own: Vec<Claimed> = claims_of(outcome).filter(is_given).collect();
            if own.is_empty() {
                return Ok(());
            }
            let same = |it: &Claimed| Compare::unchanged(it.key.as_slice(), it.revision);
            let delete = |it: &Claimed| Op::Delete(Selection::key(it.key.as_slice()));
            let compares = own.iter().map(same).collect();
            let then = own.iter().map(delete).collect();
            let release = Transaction { compares, then, otherwise: look() };
            outcome = self.store.commit(release).await?;
            if outcome.succeeded {
                return Ok(());
            }
        }
        Err(MembershipError::Contended)
    }

    /// All names that a member has claimed, as it writes them. It reads those of all members, a page for each character
    /// that names begin with: for the start of a member, and not for more.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn claimed_by(&self, member: MemberId) -> Result<Vec<String>, MembershipError> {
        let mut names = Vec::new();
        for first in FIRST_CHARACTERS.chars() {
            let page = self.store.range(Selection::prefix(format!("{NAMES}{first}"))).await?;
            // What a later version wrote is not this member's, which would have written it.
            let claims = page.kvs.iter().filter_map(|kv| NameClaim::decode(&kv.value).ok());
            names.extend(claims.filter(|claim| claim.member == member).map(|claim| claim.name));
        }
        Ok(names)
    }
}

/// What is to be written, as things were found: nobody has what was not found.
fn plan(who: Claimant, wanted: &[(String, &String)], found: &Found) -> Plan {
    let member = who.member;
    let is_anew = who.is_anew && !mutants::is(Mutant::KeepMarks);
    let mut plan = Plan::default();
    for (key, name) in wanted {
        let there = found.claims.get(key.as_bytes());
        let revision = there.map_or(0, |(_, revision)| *revision);
        plan.compares.push(Compare::unchanged(key.as_str(), revision));
        let own = there.map(|(claim, _)| claim).filter(|claim| claim.member == member);
        if own.is_none() {
            plan.new.insert((*name).clone());
        }
        // One that was given with a volume, and not adopted yet, is no other volume's, whatever is refused behind this.
        let is_due = |claim: &NameClaim| {
            claim.moved.as_ref().is_some_and(|id| !claim.adopted.iter().any(|it| it == id))
        };
        let kept = own.filter(|claim| !is_anew || is_due(claim));
        let (moved, adopted) =
            kept.map(|claim| (claim.moved.clone(), claim.adopted.clone())).unwrap_or_default();
        let claim = NameClaim { member, name: (*name).clone(), moved, adopted };
        plan.puts.push(Op::put(key.as_str(), claim.encode()));
    }
    debug_assert!(plan.new.len() <= plan.puts.len(), "what is new is written");
    plan.compares.extend(found.gone.iter().map(|gone| Compare::absent(member_key(*gone))));
    plan
}

/// This is one of the members.
pub(super) fn is_member(member: MemberId) -> Compare {
    let (key, order) = (member_key(member).into(), Order::Greater);
    Compare { key, order, property: Property::Create(0) }
}

/// What is planned if all is as it was found; else what there is now is read, in the same moment.
fn transaction(
    member: MemberId,
    wanted: &[(String, &String)],
    found: Vec<Compare>,
    then: Vec<Op>,
) -> Transaction {
    let mut compares = if mutants::is(Mutant::NameTwice) { Vec::new() } else { found };
    compares.push(is_member(member));
    let keys = wanted.iter().map(|(key, _)| key.as_str());
    let look = keys.map(|key| Op::Range(Selection::key(key)));
    let me = Op::Range(Selection::key(member_key(member)));
    Transaction { compares, then, otherwise: look.chain([me]).collect() }
}

/// The claims that a transaction has found beside the record of who claims; `None` if that is no member.
fn claims_beside(member: MemberId, outcome: Outcome) -> Result<Option<Claims>, MembershipError> {
    let own = member_key(member).into_bytes();
    let (mut claims, mut is_member) = (Claims::new(), false);
    for found in claims_of(outcome) {
        if found.key == own {
            is_member = true;
        } else {
            claims.insert(found.key, (found.claim?, found.revision));
        }
    }
    Ok(is_member.then_some(claims))
}

/// What a transaction has found, each as a claim if it reads as one.
fn claims_of(outcome: Outcome) -> impl Iterator<Item = Claimed> {
    let found = outcome.answers.into_iter().flat_map(|answer| match answer {
        Answer::Found(kvs) => kvs,
        Answer::Put | Answer::Deleted(_) => Vec::new(),
    });
    found.map(|kv| Claimed {
        claim: NameClaim::decode(&kv.value),
        key: kv.key,
        revision: kv.mod_revision,
    })
}
