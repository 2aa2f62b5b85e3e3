//! Entity tags: whether a thing is still as somebody read it (RFC 9110 8.8.3, 13.1.1).
//!
//! A tag stands for what can be set and for what a thing is, not for its figures: those change by
//! themselves, and a change would never be let in.

use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::IF_MATCH;
use axum::http::request::Parts;
use group::accounts::AccountError;
use group::settings::SettingsError;
use member::{
    AccessRequest, AccountRequest, ArrayRequest, ChapRequest, ConfigurationRequest,
    DestinationRequest, DiskRequest, PolicyRequest, Request, ScheduleRequest, SnapshotRequest,
    TokenRequest, VolumeRequest,
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::app::App;
use crate::problem::{Code, Problem};
use crate::types::{
    Access, Account, Array, ChapUser, ChapUsers, Configuration, Destination, Disk, List, Policy,
    Schedule, Snapshot, Token, Volume, VolumeState,
};

/// Things of one family are changed one after the other where somebody says what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// Volumes, their snapshots, and who may use them.
    Volumes,
    /// Disks.
    Disks,
    /// What is set for the whole array.
    Settings,
    /// Policies and CHAP users.
    Hosts,
    /// Accounts and tokens.
    Logins,
    /// Snapshot schedules.
    Schedules,
    /// Destinations of events.
    Destinations,
}

impl Family {
    /// All of them, in the order of their numbers: who needs several takes them in this order.
    pub(super) const ALL: [Self; 7] = [
        Self::Volumes,
        Self::Disks,
        Self::Settings,
        Self::Hosts,
        Self::Logins,
        Self::Schedules,
        Self::Destinations,
    ];
}

/// A thing that has a tag.
#[derive(Debug, Clone)]
pub(super) enum Kept {
    /// A volume by its name.
    Volume(String),
    /// A snapshot by its volume and its name.
    Snapshot(String, String),
    /// Who may use a volume, by its name.
    Access(String),
    /// A policy by its name.
    Policy(String),
    /// A snapshot schedule by its name.
    Schedule(String),
    /// A destination of events by its name.
    Destination(String),
    /// All CHAP users, and what volumes prove.
    ChapUsers,
    /// A CHAP user by its name.
    ChapUser(String),
    /// A disk by its number or its name.
    Disk(String),
    /// All disks: one that is taken in has no tag yet.
    Disks,
    /// An account by its name.
    Account(String),
    /// A token by its name.
    Token(String),
    /// The array.
    Array,
    /// All that operators have set.
    Configuration,
}

impl Kept {
    /// The families that it is a part of, in the order of [`Family::ALL`].
    pub(super) fn families(&self) -> &'static [Family] {
        match self {
            Self::Volume(_) | Self::Snapshot(..) | Self::Access(_) => &[Family::Volumes],
            Self::Policy(_) | Self::ChapUsers | Self::ChapUser(_) => &[Family::Hosts],
            Self::Schedule(_) => &[Family::Schedules],
            Self::Destination(_) => &[Family::Destinations],
            Self::Disk(_) | Self::Disks => &[Family::Disks],
            Self::Account(_) | Self::Token(_) => &[Family::Logins],
            Self::Array => &[Family::Settings],
            Self::Configuration => &Family::ALL,
        }
    }

    /// What its tag is now.
    pub(super) async fn tag(&self, app: &App) -> Result<String, Problem> {
        match self {
            Self::Volume(name) => {
                let request = VolumeRequest::Show { name: name.clone() };
                Ok(app.ask::<Volume>(Request::Volume(request)).await?.tag())
            }
            Self::Snapshot(volume, name) => Ok(find_snapshot(app, volume, name).await?.tag()),
            Self::Access(volume) => {
                let request = AccessRequest::List { volume: volume.clone() };
                Ok(app.ask::<Access>(Request::Access(request)).await?.tag())
            }
            Self::Policy(name) => {
                let request = PolicyRequest::Show { name: name.clone() };
                Ok(app.ask::<Policy>(Request::Policy(request)).await?.tag())
            }
            Self::Schedule(name) => {
                let request = ScheduleRequest::Show { name: name.clone() };
                Ok(app.ask::<Schedule>(Request::Schedule(request)).await?.tag())
            }
            Self::Destination(name) => {
                let request = DestinationRequest::Show { name: name.clone() };
                Ok(app.ask::<Destination>(Request::Destination(request)).await?.tag())
            }
            Self::ChapUsers => {
                Ok(app.ask::<ChapUsers>(Request::Chap(ChapRequest::List)).await?.tag())
            }
            Self::ChapUser(user) => Ok(find_user(app, user).await?.tag()),
            Self::Disk(word) => {
                let request = DiskRequest::Show { disk: word.clone() };
                Ok(app.ask::<Disk>(Request::Disk(request)).await?.tag())
            }
            Self::Disks => {
                let disks: List<Disk> = app.ask(Request::Disk(DiskRequest::List)).await?;
                Ok(hash_of_value(&disks.0.iter().map(Tagged::tag).collect::<Vec<_>>()))
            }
            Self::Account(name) => Ok(find_account(app, name).await?.tag()),
            Self::Token(name) => Ok(find_token(app, name).await?.tag()),
            Self::Configuration => {
                let request = Request::Configuration(ConfigurationRequest::Show);
                Ok(app.ask::<Configuration>(request).await?.tag())
            }
            Self::Array => Ok(app.ask::<Array>(Request::Array(ArrayRequest::Show)).await?.tag()),
        }
    }
}

/// A member shows the snapshots of a volume, not one of them.
pub(super) async fn find_snapshot(
    app: &App,
    volume: &str,
    name: &str,
) -> Result<Snapshot, Problem> {
    let list = SnapshotRequest::List { volume: Some(volume.to_owned()) };
    let List(all) = app.ask::<List<Snapshot>>(Request::Snapshot(list)).await?;
    all.into_iter().find(|snapshot| snapshot.name == name).ok_or_else(|| {
        let (volume, name) = (volume.to_owned(), name.to_owned());
        app.problem(&member::RequestError::NoSuchSnapshot { volume, name })
    })
}

/// A member shows all its accounts, not one of them.
pub(super) async fn find_account(app: &App, name: &str) -> Result<Account, Problem> {
    let request = Request::Account(AccountRequest::List);
    let List(all) = app.ask::<List<Account>>(request).await?;
    let found = all.into_iter().find(|account| account.name == name);
    found.ok_or_else(|| no_such(Code::NoSuchAccount, &AccountError::NoSuchAccount(name.to_owned())))
}

/// The same of tokens.
pub(super) async fn find_token(app: &App, name: &str) -> Result<Token, Problem> {
    let List(all) = app.ask::<List<Token>>(Request::Token(TokenRequest::List)).await?;
    let found = all.into_iter().find(|token| token.name == name);
    found.ok_or_else(|| no_such(Code::NoSuchToken, &AccountError::NoSuchToken(name.to_owned())))
}

/// The same of CHAP users.
pub(super) async fn find_user(app: &App, user: &str) -> Result<ChapUser, Problem> {
    let all: ChapUsers = app.ask(Request::Chap(ChapRequest::List)).await?;
    let found = all.users.into_iter().find(|known| known.user == user);
    found.ok_or_else(|| no_such(Code::NoSuchUser, &SettingsError::NoSuchUser(user.to_owned())))
}

fn no_such(code: Code, error: &dyn std::error::Error) -> Problem {
    Problem::new(code, error.to_string())
}

/// What has a tag.
pub(super) trait Tagged {
    /// Without its quotes.
    fn tag(&self) -> String;
}

impl Tagged for Volume {
    fn tag(&self) -> String {
        let is_closed = self.state == VolumeState::Offline;
        let is_deleted = self.state == VolumeState::Deleted;
        let what = (self.id, &self.name, self.size_bytes, self.raid, self.thick);
        hash_of_value(&(
            what,
            self.block_bytes,
            self.cache,
            self.read_ahead_bytes,
            self.cached,
            self.shared,
            is_closed,
            is_deleted,
        ))
    }
}

impl Tagged for Access {
    fn tag(&self) -> String {
        hash_of_value(self)
    }
}

impl Tagged for Policy {
    fn tag(&self) -> String {
        hash_of_value(self)
    }
}

impl Tagged for Schedule {
    fn tag(&self) -> String {
        let what = (&self.name, self.created_unix_seconds, &self.volumes);
        hash_of_value(&(what, &self.when, self.keep, self.paused))
    }
}

impl Tagged for Destination {
    fn tag(&self) -> String {
        hash_of_value(&(&self.name, self.id, self.changed))
    }
}

impl Tagged for ChapUser {
    fn tag(&self) -> String {
        hash_of_value(&(&self.user, self.changed))
    }
}

impl Tagged for ChapUsers {
    fn tag(&self) -> String {
        let all = self.users.iter().map(|user| (&user.user, user.changed));
        let mutual = self.mutual.as_ref().map(|mutual| (&mutual.user, mutual.changed));
        hash_of_value(&(all.collect::<Vec<_>>(), mutual))
    }
}

impl Tagged for Account {
    fn tag(&self) -> String {
        hash_of_value(&(&self.name, self.changed))
    }
}

impl Tagged for Token {
    /// Nothing of it is ever changed; that it is used is none of its tag.
    fn tag(&self) -> String {
        hash_of_value(&(&self.name, self.made))
    }
}

impl Tagged for Snapshot {
    fn tag(&self) -> String {
        let what = (self.id, &self.volume, &self.name);
        hash_of_value(&(what, self.online, self.access, self.view_id, self.deleting))
    }
}

impl Tagged for Disk {
    fn tag(&self) -> String {
        hash_of_value(&(self.id, &self.name, self.role, self.state))
    }
}

impl Tagged for Configuration {
    fn tag(&self) -> String {
        let volumes: Vec<_> = self.volumes.iter().map(Tagged::tag).collect();
        let schedules: Vec<_> = self.schedules.iter().map(Tagged::tag).collect();
        let who = (&self.access, &self.policies, &self.chap, &self.accounts);
        let all = self.destinations.iter();
        let destinations: Vec<_> = all.map(|one| (&one.name, one.id, one.changed)).collect();
        hash_of_value(&(volumes, schedules, who, destinations))
    }
}

impl Tagged for Array {
    fn tag(&self) -> String {
        let set = (self.rebuild_share_percent, self.scrub_days, &self.warn_percents);
        hash_of_value(&(&self.id, self.raid, set))
    }
}

/// A tag as a header has it.
pub(super) fn header(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).expect("a hash is hexadecimal")
}

/// What a request wants a thing to be: `If-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tag {
    /// There, whatever it is.
    Any,
    /// As one of these says.
    OneOf(Vec<String>),
}

impl Tag {
    /// Strong comparison: weak tags are like none.
    fn parse(text: &str) -> Self {
        if text.trim() == "*" {
            return Self::Any;
        }
        let words = text.split(',').map(str::trim);
        let bare = words.filter_map(|word| word.strip_prefix('"')?.strip_suffix('"'));
        Self::OneOf(bare.map(str::to_owned).collect())
    }

    /// Refuses what is not so.
    pub(super) fn check(&self, now: &str) -> Result<(), Problem> {
        match self {
            Self::OneOf(tags) if tags.iter().all(|tag| tag != now) => Err(Problem::new(
                Code::Changed,
                "it is not any more as you read it: read it again, then say what is to change",
            )),
            _ => Ok(()),
        }
    }
}

/// `If-Match` of a request, if it has one.
#[derive(Debug)]
pub(super) struct Wanted(pub(super) Option<Tag>);

impl<S: Sync> FromRequestParts<S> for Wanted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut tags = parts.headers.get_all(IF_MATCH).iter();
        let Some(first) = tags.next() else { return Ok(Self(None)) };
        let text = first.to_str().ok().filter(|_| tags.next().is_none());
        let text = text.ok_or_else(|| {
            Problem::new(Code::BadRequest, "If-Match does not read: send it once, as ETag gave it")
        })?;
        Ok(Self(Some(Tag::parse(text))))
    }
}

/// A short hash of what a thing is made of.
pub(super) fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)[..12].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same of anything that can be written out.
pub(super) fn hash_of_value(value: &impl Serialize) -> String {
    hash_of(&serde_json::to_vec(value).expect("plain values can be written out"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_strong_tag_that_is_the_same_lets_a_change_in() {
        assert!(Tag::parse("*").check("a").is_ok());
        assert!(Tag::parse("\"a\"").check("a").is_ok());
        assert!(Tag::parse("\"b\" , \"a\"").check("a").is_ok());
        for other in ["\"b\"", "W/\"a\"", "a", "", "\"a"] {
            let problem = Tag::parse(other).check("a").unwrap_err();
            assert_eq!(problem.code, Code::Changed, "{other}");
        }
    }
}
