//! The asking side: a small client that waits for its answers.

mod destinations;
mod door_trust;
mod error;
mod events;
mod group;
mod happened;
mod http;
mod moves;
mod paths;
mod printed;
mod reservations;
mod slices;
mod trust;
mod way;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use crate::headers::{ALL_OTHERS, HERE};
use crate::problem::Code;
use crate::types::{
    Access, Account, AccountChange, Array, ArrayChange, ArrayWork, ChapUsers, Clone as NewClone,
    Configuration, ConfigurationChange, Connection, CreatedToken, Disk, DiskFailure,
    DiskReplacement, Entry, Extent, Figures, HostRecord, Interface, Job, JobKind, Login,
    NewAccount, NewDisk, NewPolicy, NewSchedule, NewSecret, NewSnapshots, NewToken, NewVolume,
    Policy, Run, Schedule, ScheduleChange, Snapshot, SnapshotChange, Token, Volume, VolumeChange,
};

pub(crate) use door_trust::door_client_config;
pub use error::{ClientError, SILENCE};
pub use group::Despite;
pub use happened::{Since, WhichEvents};
pub use http::is_taken;
use http::{Reply, Sent};
pub(crate) use paths::encoded;
use paths::{path, with_query};
use printed::printed;
#[cfg(test)]
pub(crate) use trust::client_config;
pub use trust::{Fingerprint, FingerprintError, Trust};
use way::Way;
pub use way::{Remote, ServerUrl, UrlError};

/// Hears how work goes on.
pub type Progress<'a> = &'a mut dyn FnMut(&[Job]);

/// The way to a running member. Each call is a connection of its own; what was asked for goes on without it.
///
/// In a group a call means all of it, whichever member is asked, unless it is [`on`](Self::on) one.
#[derive(Debug)]
pub struct Client {
    way: Arc<Way>,
    /// The member that all calls are for.
    on: Option<String>,
    heard: Mutex<Heard>,
}

/// What was heard of the members of a group besides answers.
#[derive(Debug, Default)]
struct Heard {
    answered_by: Option<String>,
    missing: BTreeSet<String>,
}

/// How often a list is begun.
const LIST_ATTEMPTS: usize = 5;

type Result<T> = std::result::Result<T, ClientError>;

impl Client {
    /// To the member that answers at `socket`.
    #[must_use]
    pub fn new(socket: PathBuf) -> Self {
        Self::by(Arc::new(Way::Socket(socket)))
    }

    /// To a member over TLS.
    ///
    /// # Errors
    /// There is nothing to check its certificate by, or the token cannot be one.
    pub fn remote(remote: Remote) -> Result<Self> {
        Ok(Self::by(Arc::new(Way::remote(remote)?)))
    }

    fn by(way: Arc<Way>) -> Self {
        Self { way, on: None, heard: Mutex::default() }
    }

    /// The same for one member of the group alone, which the one that is asked sends all calls on to: the one of this
    /// name, or again for the group. `@here` is the one that is asked.
    #[must_use]
    pub fn on(&self, member: Option<String>) -> Self {
        Self { on: member, ..Self::by(self.way.clone()) }
    }

    /// The member that the last call was answered by, where that is in a group: who waits for what it has begun asks
    /// [`on`](Self::on) it.
    #[must_use]
    pub fn answered_by(&self) -> Option<String> {
        self.heard().answered_by.clone()
    }

    /// Whether it is asked at a socket of this machine: all calls are answered by one member, also when that leaves
    /// its group.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(*self.way, Way::Socket(_))
    }

    /// The members of which nothing was in the last list, as they were away or did not answer.
    #[must_use]
    pub fn members_missing(&self) -> Vec<String> {
        self.heard().missing.iter().cloned().collect()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        // Each change is one assignment, or a name more.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All volumes, those in the recycle bin too.
    ///
    /// # Errors
    /// As of all calls: the problem that the member told, or why it cannot be heard.
    pub fn volumes(&self) -> Result<Vec<Volume>> {
        self.list("/v1/volumes")
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        self.get(&path(["volumes", name]))
    }

    /// Makes a volume.
    pub fn create_volume(&self, new: &NewVolume) -> Result<Volume> {
        self.send(Method::POST, "/v1/volumes", new)
    }

    /// Changes a volume in one thing.
    pub fn change_volume(&self, name: &str, change: &VolumeChange) -> Result<Volume> {
        self.send(Method::PATCH, &path(["volumes", name]), change)
    }

    /// Puts a volume into the recycle bin.
    pub fn delete_volume(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["volumes", name]))).map(drop)
    }

    /// Takes a volume out of the recycle bin.
    pub fn undelete_volume(&self, name: &str) -> Result<Volume> {
        self.post(&path(["volumes", name, "undelete"]))
    }

    /// Gives up a volume in the recycle bin for good.
    pub fn purge_volume(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::POST, &path(["volumes", name, "purge"]))).map(drop)
    }

    /// Who may use a volume.
    pub fn access(&self, volume: &str) -> Result<Access> {
        self.get(&path(["volumes", volume, "access"]))
    }

    /// Lets hosts use a volume.
    pub fn add_access(&self, volume: &str, entry: &Entry) -> Result<Access> {
        self.send(Method::POST, &path(["volumes", volume, "access"]), entry)
    }

    /// Takes an entry off the access list of a volume.
    pub fn remove_access(&self, volume: &str, number: u32) -> Result<Access> {
        self.delete(&path(["volumes", volume, "access", &number.to_string()]))
    }

    /// Takes the access list of a volume away.
    pub fn clear_access(&self, volume: &str) -> Result<Access> {
        self.delete(&path(["volumes", volume, "access"]))
    }

    /// All snapshot schedules.
    pub fn schedules(&self) -> Result<Vec<Schedule>> {
        self.list("/v1/schedules")
    }

    /// One snapshot schedule.
    pub fn schedule(&self, name: &str) -> Result<Schedule> {
        self.get(&path(["schedules", name]))
    }

    /// Makes a snapshot schedule.
    pub fn create_schedule(&self, new: &NewSchedule) -> Result<Schedule> {
        self.send(Method::POST, "/v1/schedules", new)
    }

    /// Changes a snapshot schedule.
    pub fn change_schedule(&self, name: &str, change: &ScheduleChange) -> Result<Schedule> {
        self.send(Method::PATCH, &path(["schedules", name]), change)
    }

    /// Deletes a snapshot schedule; its snapshots stay.
    pub fn delete_schedule(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["schedules", name]))).map(drop)
    }

    /// All policies.
    pub fn policies(&self) -> Result<Vec<Policy>> {
        self.list("/v1/policies")
    }

    /// One policy.
    pub fn policy(&self, name: &str) -> Result<Policy> {
        self.get(&path(["policies", name]))
    }

    /// Makes a policy, which lets nobody in at first.
    pub fn create_policy(&self, name: &str) -> Result<Policy> {
        self.send(Method::POST, "/v1/policies", &NewPolicy { name: name.to_owned() })
    }

    /// Adds hosts to a policy.
    pub fn add_to_policy(&self, name: &str, record: &HostRecord) -> Result<Policy> {
        self.send(Method::POST, &path(["policies", name, "records"]), record)
    }

    /// Takes hosts off a policy.
    pub fn remove_from_policy(&self, name: &str, number: u32) -> Result<Policy> {
        self.delete(&path(["policies", name, "records", &number.to_string()]))
    }

    /// Deletes a policy that no volume names.
    pub fn delete_policy(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["policies", name]))).map(drop)
    }

    /// CHAP users, without their secrets.
    pub fn chap_users(&self) -> Result<ChapUsers> {
        self.walk("/v1/chap", |all: &mut ChapUsers, more| {
            all.users.extend(more.users);
            all.mutual = more.mutual;
        })
    }

    /// Adds a CHAP user.
    pub fn add_chap_user(&self, login: &Login) -> Result<()> {
        self.give(Method::POST, "/v1/chap", login)
    }

    /// Gives a CHAP user another secret.
    pub fn set_chap_secret(&self, user: &str, new: &NewSecret) -> Result<()> {
        self.give(Method::PUT, &path(["chap", user]), new)
    }

    /// Deletes a CHAP user that no record names.
    pub fn delete_chap_user(&self, user: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["chap", user]))).map(drop)
    }

    /// Sets what volumes with an access list prove.
    pub fn set_chap_mutual(&self, login: &Login) -> Result<()> {
        self.give(Method::PUT, "/v1/chap-mutual", login)
    }

    /// Has them prove nothing any more.
    pub fn clear_chap_mutual(&self) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, "/v1/chap-mutual")).map(drop)
    }

    /// All accounts.
    pub fn accounts(&self) -> Result<Vec<Account>> {
        self.list("/v1/accounts")
    }

    /// Adds an account.
    pub fn add_account(&self, new: &NewAccount) -> Result<Account> {
        self.send(Method::POST, "/v1/accounts", new)
    }

    /// Changes an account.
    pub fn change_account(&self, name: &str, change: &AccountChange) -> Result<Account> {
        self.send(Method::PATCH, &path(["accounts", name]), change)
    }

    /// Removes an account.
    pub fn remove_account(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["accounts", name]))).map(drop)
    }

    /// All tokens, without what they are.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        self.list("/v1/tokens")
    }

    /// Makes a token, and says what it is this once.
    pub fn create_token(&self, new: &NewToken) -> Result<CreatedToken> {
        self.send(Method::POST, "/v1/tokens", new)
    }

    /// Revokes a token.
    pub fn revoke_token(&self, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["tokens", name]))).map(drop)
    }

    /// All that operators have set, and its tag.
    pub fn configuration(&self) -> Result<(Configuration, String)> {
        let reply = self.call(&Sent::new(Method::GET, "/v1/configuration"))?;
        let tag = reply.tag.clone().ok_or_else(|| self.strange("it told no tag"))?;
        Ok((self.read(&reply.body)?, tag))
    }

    /// Changes what is set, if it has this tag.
    pub fn change_configuration(&self, change: &ConfigurationChange, tag: String) -> Result<()> {
        let sent = Sent::new(Method::PATCH, "/v1/configuration");
        let body = Some(serde_json::to_vec(change)?);
        self.call(&Sent { body, tag: Some(tag), ..sent }).map(drop)
    }

    /// Where the member is managed from afar.
    pub fn interface(&self) -> Result<Interface> {
        self.get("/v1/interface")
    }

    /// What differs in a volume; `None` is before everything for `from`, and now for `to`.
    pub fn changes(
        &self,
        volume: &str,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Vec<Extent>> {
        let words = [("from", from), ("to", to)];
        self.list(&with_query(&path(["volumes", volume, "changes"]), &words))
    }

    /// Snapshots of one volume or of all; `space` counts what each holds.
    pub fn snapshots(&self, volume: Option<&str>, space: bool) -> Result<Vec<Snapshot>> {
        let words = [("volume", volume), ("space", space.then_some("true"))];
        self.list(&with_query("/v1/snapshots", &words))
    }

    /// Takes snapshots of one moment.
    pub fn create_snapshots(&self, new: &NewSnapshots) -> Result<Vec<Snapshot>> {
        self.send(Method::POST, "/v1/snapshots", new)
    }

    /// Serves a snapshot, or stops to.
    pub fn change_snapshot(
        &self,
        volume: &str,
        name: &str,
        change: &SnapshotChange,
    ) -> Result<Snapshot> {
        self.send(Method::PATCH, &path(["snapshots", volume, name]), change)
    }

    /// Deletes a snapshot.
    pub fn delete_snapshot(&self, volume: &str, name: &str) -> Result<()> {
        self.call(&Sent::new(Method::DELETE, &path(["snapshots", volume, name]))).map(drop)
    }

    /// Gives a volume the contents of a snapshot.
    pub fn roll_back(&self, volume: &str, name: &str) -> Result<()> {
        let path = path(["snapshots", volume, name, "rollback"]);
        self.call(&Sent::new(Method::POST, &path)).map(drop)
    }

    /// Makes a volume of a snapshot.
    pub fn clone_snapshot(&self, volume: &str, name: &str, to: &str) -> Result<Volume> {
        let clone = NewClone { to: to.to_owned() };
        self.send(Method::POST, &path(["snapshots", volume, name, "clone"]), &clone)
    }

    /// All disks.
    pub fn disks(&self) -> Result<Vec<Disk>> {
        self.list("/v1/disks")
    }

    /// The disk that a word stands for: its number, its whole name, or the last part of that.
    pub fn disk(&self, word: &str) -> Result<Disk> {
        let found: Vec<Disk> = self.list(&with_query("/v1/disks", &[("disk", Some(word))]))?;
        let found = found.into_iter().next();
        found.ok_or_else(|| self.strange("it told of no disk"))
    }

    /// Takes in a disk; then all disks.
    pub fn add_disk(&self, new: &NewDisk) -> Result<Vec<Disk>> {
        self.send(Method::POST, "/v1/disks", new)
    }

    /// Puts a new disk in the place of one; then all disks.
    pub fn replace_disk(&self, word: &str, by: &str) -> Result<Vec<Disk>> {
        let by = DiskReplacement { by: by.to_owned() };
        self.send(Method::POST, &self.of_disk(word, "replace")?, &by)
    }

    /// Treats a disk as failed; then all disks.
    pub fn fail_disk(&self, word: &str, accept_loss: bool) -> Result<Vec<Disk>> {
        let failure = DiskFailure { accept_loss };
        self.send(Method::POST, &self.of_disk(word, "fail")?, &failure)
    }

    /// Moves the data of a disk elsewhere and lets it go; then all disks.
    pub fn retire_disk(&self, word: &str) -> Result<Vec<Disk>> {
        self.post(&self.of_disk(word, "retire")?)
    }

    /// Lets a disk that is retiring stay; then all disks.
    pub fn cancel_retire(&self, word: &str) -> Result<Vec<Disk>> {
        self.post(&self.of_disk(word, "cancel-retire")?)
    }

    /// Forgives the errors of a disk; then all disks.
    pub fn clear_disk(&self, word: &str) -> Result<Vec<Disk>> {
        self.post(&self.of_disk(word, "clear")?)
    }

    /// What can be done to a disk. A word may be a path, which no path can hold: the number can.
    fn of_disk(&self, word: &str, what: &str) -> Result<String> {
        Ok(path(["disks", &self.disk(word)?.id.to_string(), what]))
    }

    /// The array.
    pub fn array(&self) -> Result<Array> {
        self.get("/v1/array")
    }

    /// Changes what is set for the whole array.
    pub fn change_array(&self, change: &ArrayChange) -> Result<Array> {
        self.send(Method::PATCH, "/v1/array", change)
    }

    /// Has long work done, tells `begun` of the run, and waits for its end.
    pub fn run(
        &self,
        work: ArrayWork,
        begun: impl FnOnce(&Run),
        progress: Progress<'_>,
    ) -> Result<Run> {
        let run: Run = self.post(&path(["array", work.word()]))?;
        begun(&run);
        self.end_of_run(&run.id, progress)
    }

    /// Waits for the end of a run.
    pub fn end_of_run(&self, id: &str, progress: Progress<'_>) -> Result<Run> {
        let ended = self.follow(&path(["runs", id, "stream"]), progress)?;
        self.read(ended.as_bytes())
    }

    /// The last runs, oldest first.
    pub fn runs(&self) -> Result<Vec<Run>> {
        self.get("/v1/runs")
    }

    /// Asks for the end of a run, which comes by and by.
    pub fn cancel_run(&self, id: &str) -> Result<Run> {
        self.post(&path(["runs", id, "cancel"]))
    }

    /// What runs in the background.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        self.list("/v1/jobs")
    }

    /// Waits until there are no jobs of these kinds any more.
    pub fn wait_for(&self, kinds: &[JobKind], progress: Progress<'_>) -> Result<()> {
        let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
        let path = format!("/v1/jobs/stream?kinds={}", words.join(","));
        self.follow(&path, progress).map(drop)
    }

    /// Who is connected.
    pub fn connections(&self) -> Result<Vec<Connection>> {
        self.list("/v1/connections")
    }

    /// What hosts have had done.
    pub fn figures(&self) -> Result<Figures> {
        self.get("/v1/figures")
    }

    /// All pages of a list.
    fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>> {
        self.walk(path, |all: &mut Vec<T>, more| all.extend(more))
    }

    /// All pages, which `join` puts together. A list that changes too much meanwhile is begun again.
    fn walk<P: DeserializeOwned>(&self, path: &str, join: impl Fn(&mut P, P)) -> Result<P> {
        let is_gone = |error: &ClientError| matches!(error, ClientError::Problem(problem) if problem.code == Code::PageGone);
        for _ in 1..LIST_ATTEMPTS {
            match self.pages(path, &join) {
                Err(error) if is_gone(&error) => {}
                outcome => return outcome,
            }
        }
        self.pages(path, &join)
    }

    fn pages<P: DeserializeOwned>(&self, path: &str, join: &impl Fn(&mut P, P)) -> Result<P> {
        self.heard().missing.clear();
        let first = self.call(&Sent::new(Method::GET, path))?;
        let (mut all, mut next) = (self.read(&first.body)?, first.next);
        while let Some(path) = next {
            let reply = self.call(&Sent::new(Method::GET, &path))?;
            join(&mut all, self.read(&reply.body)?);
            next = reply.next;
        }
        Ok(all)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.read(&self.call(&Sent::new(Method::GET, path))?.body)
    }

    fn post<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.read(&self.call(&Sent::new(Method::POST, path))?.body)
    }

    fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.read(&self.call(&Sent::new(Method::DELETE, path))?.body)
    }

    fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T> {
        let sent = Sent { body: Some(serde_json::to_vec(body)?), ..Sent::new(method, path) };
        self.read(&self.call(&sent)?.body)
    }

    /// The same of what is answered with nothing.
    fn give(&self, method: Method, path: &str, body: &impl Serialize) -> Result<()> {
        let sent = Sent { body: Some(serde_json::to_vec(body)?), ..Sent::new(method, path) };
        self.call(&sent).map(drop)
    }

    fn call(&self, sent: &Sent) -> Result<Reply> {
        let reply = http::call(&self.way, &self.addressed(sent))?;
        let mut heard = self.heard();
        heard.answered_by.clone_from(&reply.member);
        heard.missing.extend(reply.missing.iter().cloned());
        drop(heard);
        Ok(reply)
    }

    /// A request for the member that all are for.
    fn addressed(&self, sent: &Sent) -> Sent {
        Sent { member: self.on.clone(), ..sent.clone() }
    }

    /// Follows work to its end, and gives what the last event holds.
    fn follow(&self, path: &str, progress: Progress<'_>) -> Result<String> {
        let mut hear = |name: &str, data: &str| {
            if name == "jobs" {
                progress(&printed::<Vec<_>>(data.as_bytes())?);
            }
            // Others are of a later version.
            Ok(true)
        };
        let sent = self.addressed(&Sent::new(Method::GET, path));
        events::follow(&self.way, &sent, &mut hear)
    }

    fn read<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T> {
        printed(body).map_err(|error| self.strange(&error.to_string()))
    }

    fn strange(&self, what: &str) -> ClientError {
        ClientError::strange(&self.way, what)
    }
}
