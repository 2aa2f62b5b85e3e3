//! What operators have set, and what hosts rely on, kept on the array itself: so it comes along with the disks.
//!
//! It lies in a store ([`group::store`]) on a small hidden volume ([`hidden`]), which is made with the first volume or
//! setting ([`making`]). The store works on a thread of its own ([`thread`]), and what it said last is kept here as
//! targets need it.

mod device;
mod earlier;
mod error;
pub(crate) mod hidden;
mod hosts;
mod identity;
mod intents;
mod key;
mod making;
mod moves;
mod of_group;
mod opened;
mod room;
mod saving;
mod sets;
mod showing;
mod spread;
mod thread;
mod units;
mod withheld;

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use array::Array;
use group::access::{Object, Record};
use group::accounts::Logins;
use group::secrets::KeySource;
use group::settings::{Concerned, Given, Known, NotThere, Rule, Settings, SettingsError, State};
use group::spread as spread_name;
use group::store::StoreError;
use ring::wait::{Bell, Turn};
use target::Access;

use crate::data::unit_files::UnitFiles;
use crate::destination_request::{CurrentDestinations, Destinations};
use crate::events::{Event, EventLog, Kind};
use crate::login_request::CurrentLogins;
use device::VolumeBytes;
pub use error::KeptError;
use hosts::access_of;
pub use hosts::{Hosts, Unlisted};
use key::KeyWatch;
pub(crate) use of_group::GroupSettings;
use of_group::Whose;
use opened::{OpenError, Start, make_key_ready, open_store};
pub use spread::DamagedRecord;
use thread::StoreThread;

pub use units::ArrayUnits;
pub(crate) use units::UnitSave;
pub(crate) use withheld::Withheld;

/// The key of secrets, in the data directory of the member.
pub(crate) const KEY_FILE: &str = "store.key";

/// How the settings are.
#[derive(Debug)]
enum Kept {
    /// Nothing was ever set.
    Nothing,
    /// A volume of the operator has the name of theirs.
    NameTaken,
    /// They are there.
    Open(StoreThread),
    /// They are there and cannot be read.
    Broken(String),
    /// The member stops.
    Closed,
}

/// The settings of a member.
#[derive(Debug)]
pub(crate) struct MemberSettings {
    array: Array,
    /// The data directory.
    data: PathBuf,
    start: Start,
    /// Who has this changes what is stored. Nobody who has it waits for hosts or for their tasks.
    turn: Turn,
    kept: RefCell<Arc<Kept>>,
    state: RefCell<Arc<State>>,
    /// That is what is stored: not between the moment at which they can be read again and that at which they are.
    is_read: Cell<bool>,
    known: RefCell<Known>,
    /// Volumes whose targets were not given their rules since these changed.
    concerned: RefCell<Concerned>,
    units: Arc<ArrayUnits>,
    /// Where earlier versions kept the records of units.
    files: UnitFiles,
    is_taking_over: Cell<bool>,
    /// What earlier versions kept cannot be read, so that no unit is known whatever the store says.
    owes_files: Cell<bool>,
    /// The number of the portal group that an earlier version drew.
    earlier_number: Cell<Option<NonZeroU16>>,
    /// Invariant: while there are any, somebody waits for the turn to save them.
    waiting: RefCell<Vec<UnitSave>>,
    events: EventLog,
    key: KeyWatch,
    /// The key of secrets is there, or it was tried to make it.
    is_key_ready: Cell<bool>,
    /// It was told that they cannot be read, and not yet that they can be again.
    is_fault_told: Cell<bool>,
    /// How often they were read, or could not be.
    changes: Cell<u64>,
    changed: Bell,
    /// What the threads beside the core ask.
    published: Published,
    /// Whose settings are changed of those that members of a group have in common.
    whose: RefCell<Whose>,
    /// How often those were changed as the member's own.
    own_changes: Cell<u64>,
    /// Rings when they were, and when it follows a group.
    own_changed: Bell,
    /// What of the group's does not read here, as far as that was told.
    told_unreadable: RefCell<BTreeSet<String>>,
}

/// What of the settings other threads than the core's read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Published {
    /// Who manages the member from afar.
    pub(crate) logins: CurrentLogins,
    /// Where events go on to.
    pub(crate) destinations: CurrentDestinations,
}

impl MemberSettings {
    /// Opens what the array has. Whatever is wrong is told by the log: without its settings a member
    /// serves, and lets nobody in that they might keep out; with `gives_up` they are thrown away then.
    pub(crate) async fn open(
        array: Array,
        data: &Path,
        (gives_up, given): (bool, Given),
        (published, units): (Published, Arc<ArrayUnits>),
        events: EventLog,
    ) -> Self {
        let credentials = env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let key = KeySource::find(credentials.as_deref(), data.join(KEY_FILE));
        let files = UnitFiles::new(data, serials_begin(&array.info().id));
        let settings = Self {
            array,
            data: data.to_owned(),
            start: Start { key, given, kept: None },
            turn: Turn::default(),
            kept: RefCell::new(Arc::new(Kept::Nothing)),
            state: RefCell::default(),
            is_read: Cell::new(true),
            known: RefCell::default(),
            concerned: RefCell::default(),
            units,
            files,
            is_taking_over: Cell::default(),
            owes_files: Cell::default(),
            earlier_number: Cell::default(),
            waiting: RefCell::default(),
            published,
            events,
            key: KeyWatch::default(),
            is_key_ready: Cell::default(),
            is_fault_told: Cell::default(),
            changes: Cell::default(),
            changed: Bell::default(),
            whose: RefCell::default(),
            own_changes: Cell::default(),
            own_changed: Bell::default(),
            told_unreadable: RefCell::default(),
        };
        let kept = settings.look().await;
        drop(settings.turn_to(kept));
        // What is wrong is told.
        drop(settings.refresh().await);
        if gives_up {
            settings.give_up_unreadable().await;
        }
        settings.take_over_files().await;
        settings.make_late().await;
        settings
    }

    fn tell(&self, kind: Kind, text: &dyn std::fmt::Display) {
        self.events.tell(Event::of_member(kind, text.to_string()));
    }

    /// Tells that they cannot be read, once until they can be again.
    fn tell_fault(&self, why: &str) {
        if !self.is_fault_told.replace(true) {
            let fault = KeptError::NotAvailable(why.to_owned());
            self.tell(Kind::SettingsUnavailable, &fault);
        }
    }

    /// Throws settings away that cannot be read, for good.
    async fn give_up_unreadable(&self) {
        let Some(why) = self.fault() else { return };
        // First what only they say: cut off in between, it is done again.
        let given_up = match self.show_what_moves().await {
            Ok(()) => hidden::give_up(&self.array).await,
            Err(error) => Err(error.to_string()),
        };
        match given_up {
            Ok(()) => {
                self.tell(
                    Kind::SettingsGivenUp,
                    &format!("{why}: they are given up, as was asked"),
                );
                drop(self.turn_to(Kept::Nothing));
                self.published.logins.replace(Some(Logins::default()));
                self.published.destinations.replace(Destinations::new(), BTreeSet::new());
                self.units.replace(Ok(BTreeMap::new()));
                self.is_fault_told.set(false);
            }
            Err(error) => self
                .tell(Kind::SettingsNotGivenUp, &format!("the settings are not given up: {error}")),
        }
    }

    /// How a store is opened by now.
    fn start(&self) -> Start {
        Start { kept: self.key.kept(), ..self.start.clone() }
    }

    /// What the array has.
    async fn look(&self) -> Kept {
        let Some(volume) = hidden::find(&self.array) else { return Kept::Nothing };
        let device = match self.array.device(hidden::NAME) {
            Ok(device) => device,
            // Its disks are lost, or it is in the recycle bin: what it says is not known.
            Err(error) => return Kept::Broken(error.to_string()),
        };
        let core = ring::remote(ring::core_id());
        let bytes = VolumeBytes::new(core, device);
        let is_fresh = match hidden::is_fresh(&self.array, &volume).await {
            Ok(is_fresh) => is_fresh,
            Err(error) => return Kept::Broken(error.to_string()),
        };
        let start = self.start();
        let opened = StoreThread::start(move || open_store(bytes, is_fresh, start)).await;
        match opened {
            Ok(Ok(thread)) => Kept::Open(thread),
            Ok(Err(OpenError::Foreign)) => Kept::NameTaken,
            Ok(Err(error)) => Kept::Broken(error.to_string()),
            Err(error) => Kept::Broken(error.to_string()),
        }
    }

    /// Why no host is let in, if that is so for all volumes.
    pub(crate) fn fault(&self) -> Option<String> {
        match &**self.kept.borrow() {
            Kept::Broken(why) => Some(KeptError::NotAvailable(why.clone()).to_string()),
            _ => None,
        }
    }

    /// Whether no volume of an operator may have this name.
    pub(crate) fn reserves(&self, name: &str) -> bool {
        hidden::is_hidden_name(name)
            || spread_name::is_hidden_name(name)
            || name == hidden::NAME && !matches!(**self.kept.borrow(), Kept::NameTaken)
    }

    /// Reads what there is, for [`Self::access`].
    async fn refresh(&self) -> Result<(), KeptError> {
        let kept = self.kept.borrow().clone();
        let thread = match &*kept {
            Kept::Open(thread) => thread,
            Kept::Nothing | Kept::NameTaken => {
                self.published.logins.replace(Some(Logins::default()));
                if self.wants_units() {
                    self.units.replace(Ok(BTreeMap::new()));
                }
                return Ok(());
            }
            Kept::Broken(why) => {
                self.published.logins.replace(None);
                self.tell_fault(why);
                return Ok(());
            }
            Kept::Closed => return Ok(()),
        };
        let wants_units = self.wants_units();
        let begins = !self.is_key_ready.replace(true);
        let read = thread.run(async move |settings: &mut Settings| {
            let state = settings.read().await?;
            if let Some(error) = state.unreadable_identity() {
                return Err(SettingsError::Unreadable(error.to_string()));
            }
            let known = state.secrets(settings.vault());
            // Not where the key of others may be put back yet.
            if begins && known.missing.is_empty() {
                make_key_ready(settings);
            }
            let key = (key::trouble(settings.vault(), &known), key::kept(settings.vault(), &known));
            let units = if wants_units { Some(settings.units().await?) } else { None };
            Ok::<_, SettingsError>((state, known, key, units))
        });
        let read = read.await.unwrap_or_else(|| Err(gone()));
        drop(kept);
        match read {
            Ok((state, known, (trouble, kept), units)) => {
                self.take(state, known);
                self.take_key(trouble, kept);
                if let Some(units) = units {
                    self.take_units(units);
                }
                Ok(())
            }
            Err(error) => {
                let why = error.to_string();
                self.leave(Kept::Broken(why.clone())).await;
                self.tell_fault(&why);
                Err(KeptError::NotAvailable(why))
            }
        }
    }

    /// Whether what units keep is to be read from the store: it has not been, and nothing else is missing.
    fn wants_units(&self) -> bool {
        !self.units.are_known() && !self.owes_files.get()
    }

    /// Takes over what was read, and tells what of it cannot be used.
    fn take(&self, state: Arc<State>, known: Known) {
        let concerned = {
            let (state_before, known_before) = (self.state.borrow(), self.known.borrow());
            state.concerned_since(&known, (&state_before, &known_before))
        };
        self.concerned.borrow_mut().add(concerned);
        let before = self.known.replace(known);
        let known = self.known.borrow();
        for missing in known.missing.iter().filter(|error| !before.missing.contains(error)) {
            self.tell(Kind::SettingsIncomplete, missing);
        }
        let before = self.start.given.shared_with(&before);
        for shared in self.shared_secrets().iter().filter(|text| !before.contains(text)) {
            self.tell(Kind::SecretShared, shared);
        }
        for error in state.unreadable.values() {
            self.tell(Kind::SettingsIncomplete, error);
        }
        self.published.logins.replace(Some(state.logins.clone()));
        let set = state.destinations.values().map(|destination| destination.id).collect();
        self.published.destinations.replace(known.destinations.clone(), set);
        self.state.replace(state);
        self.is_read.set(true);
        self.note_change();
    }

    fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.ring();
    }

    /// How often they may have changed: what follows from them is as it was as long as this is.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Waits until they may have changed more often than that.
    pub(crate) async fn changed_after(&self, changes: u64) {
        self.changed.until(|| self.changes.get() > changes).await;
    }

    /// They are `kept` so from now on; returns how they were. Nobody is let in while they cannot be read.
    fn turn_to(&self, kept: Kept) -> Arc<Kept> {
        let lets_nobody_in = |kept: &Kept| matches!(kept, Kept::Broken(_) | Kept::Closed);
        let concerns_all = lets_nobody_in(&kept) || lets_nobody_in(&self.kept.borrow());
        if concerns_all {
            self.concerned.replace(Concerned::All);
        }
        match &kept {
            Kept::Broken(why) => {
                self.is_read.set(false);
                self.units.replace(Err(KeptError::NotAvailable(why.clone()).to_string()));
            }
            Kept::Closed => self.units.replace(Err(KeptError::Stopping.to_string())),
            // One that comes to be has what there was without it: nothing that is stored.
            Kept::Nothing | Kept::NameTaken => self.is_read.set(true),
            Kept::Open(_) => {}
        }
        let before = self.kept.replace(Arc::new(kept));
        self.note_change();
        before
    }

    /// The volumes whose hosts may be others than when this was asked last: whoever asks gives their targets
    /// the rules that hold now.
    pub(crate) fn take_concerned(&self) -> Concerned {
        self.concerned.take()
    }

    /// Closes the store, if it is open, and is `kept` from now on. Only what is closed is opened again:
    /// a volume has one store at a time.
    async fn leave(&self, kept: Kept) {
        self.published.logins.replace(None);
        let kept = self.turn_to(kept);
        // Changes come one after the other, so nobody else holds it.
        if let Some(Kept::Open(thread)) = Arc::into_inner(kept) {
            thread.end().await;
        }
    }

    /// All settings as they were read last.
    pub(crate) fn state(&self) -> Result<Arc<State>, KeptError> {
        match &**self.kept.borrow() {
            Kept::Broken(why) => Err(KeptError::NotAvailable(why.clone())),
            Kept::Closed => Err(KeptError::Stopping),
            Kept::Open(_) if !self.is_read.get() => {
                Err(KeptError::NotAvailable("they are not read yet".to_owned()))
            }
            Kept::Nothing | Kept::NameTaken | Kept::Open(_) => Ok(self.state.borrow().clone()),
        }
    }

    /// What the access list of a volume names that is not there.
    pub(crate) fn not_there(&self, volume: u32) -> NotThere {
        self.state.borrow().not_there(volume)
    }

    /// Secrets as they were opened last.
    pub(crate) fn known(&self) -> Ref<'_, Known> {
        self.known.borrow()
    }

    /// Which stored secrets are those of the start for the other direction of CHAP.
    pub(crate) fn shared_secrets(&self) -> Vec<String> {
        self.start.given.shared_with(&self.known.borrow())
    }

    /// Tries again what could not be read, as after disks have come back. Says whether it can be now.
    pub(crate) async fn recover(&self) -> bool {
        let _turn = self.turn.take().await;
        if self.owes_files.get() && self.fault().is_none() {
            return self.read_files_again().await;
        }
        self.reopen().await
    }

    /// Whether [`recover`](Self::recover) is to be called now and then, as something may read that did not.
    pub(crate) fn is_to_recover(&self) -> bool {
        self.owes_files.get() || self.fault().is_some()
    }

    /// Whether targets have other rules than they should, or none are known: [`recover`](Self::recover) and
    /// [`take_concerned`](Self::take_concerned) are to be called soon, although no operator has changed anything.
    pub(crate) fn is_unsettled(&self) -> bool {
        *self.concerned.borrow() != Concerned::default()
    }

    /// As [`recover`](Self::recover), for who has the turn.
    async fn reopen(&self) -> bool {
        if !matches!(**self.kept.borrow(), Kept::Broken(_)) {
            return false;
        }
        let kept = self.look().await;
        drop(self.turn_to(kept));
        let is_back =
            self.refresh().await.is_ok() && !matches!(**self.kept.borrow(), Kept::Broken(_));
        if is_back {
            self.take_over_files().await;
        }
        if is_back && self.is_fault_told.replace(false) {
            let text = "the settings on the array are available again";
            self.tell(Kind::SettingsAvailable, &text);
        }
        is_back
    }

    /// Who may use a volume, or its snapshots; `None` where the rule of the server holds.
    pub(crate) fn access(&self, volume: u32, object: Object) -> Option<Access> {
        let is_unknown = matches!(**self.kept.borrow(), Kept::Broken(_) | Kept::Closed);
        if is_unknown || self.is_half_made(volume) {
            return Some(Access::nobody());
        }
        match self.state.borrow().rule(volume) {
            Rule::General => None,
            Rule::Records { records, shared } => {
                Some(access_of(&records, object, shared, &self.known.borrow()))
            }
        }
    }

    /// Whom these records let in, were they on a list.
    pub(crate) fn access_by(&self, records: &[Record], object: Object) -> Access {
        access_of(records, object, false, &self.known.borrow())
    }

    /// How full the room is that units share: see [`ArrayUnits::shared_room`].
    pub(crate) fn shared_room(&self) -> (usize, BTreeSet<String>) {
        self.units.shared_room()
    }

    /// Which hosts may use a volume, where those without a list are for `unlisted`.
    pub(crate) fn hosts(&self, volume: u32, unlisted: Unlisted) -> Hosts {
        if self.fault().is_some() || self.is_half_made(volume) {
            return Hosts::Nobody;
        }
        match self.state.borrow().rule(volume) {
            Rule::General => unlisted.into(),
            Rule::Records { records, .. } if records.is_empty() => Hosts::Nobody,
            Rule::Records { .. } => Hosts::Listed,
        }
    }

    /// Changes something, and makes the volume for it if it is the first that is set.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Clone + Send + 'static,
    ) -> Result<T, KeptError> {
        let _turn = self.turn.take().await;
        self.change_now(work).await
    }

    /// The same, for who has the turn.
    async fn change_now<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<T, SettingsError> + Clone + Send + 'static,
    ) -> Result<T, KeptError> {
        self.look_again().await;
        if matches!(**self.kept.borrow(), Kept::Nothing) {
            let (answer, sets_nothing) = self.try_out(work.clone()).await?;
            if sets_nothing {
                return Ok(answer);
            }
            self.make().await?;
        }
        let answer = self.on_store(work).await?;
        self.refresh().await?;
        Ok(answer)
    }

    /// Has something stored, and makes the volume for it if it is the first. For who has the turn.
    async fn keep(
        &self,
        work: impl AsyncFnOnce(&mut Settings) -> Result<(), SettingsError> + Send + 'static,
    ) -> Result<(), KeptError> {
        self.look_again().await;
        if matches!(**self.kept.borrow(), Kept::Nothing) {
            self.make().await?;
        }
        self.on_store(work).await
    }

    /// A volume of somebody else that had the name of theirs may have been renamed.
    async fn look_again(&self) {
        if matches!(**self.kept.borrow(), Kept::NameTaken) {
            let kept = self.look().await;
            if matches!(kept, Kept::Open(_)) {
                self.is_read.set(false);
                self.units.replace(Err("they are not read yet".to_owned()));
            }
            let is_open = matches!(kept, Kept::Open(_));
            drop(self.turn_to(kept));
            if is_open && self.refresh().await.is_ok() {
                Box::pin(self.take_over_files()).await;
            }
        }
    }

    /// Closes the store. Nothing can be set any more.
    pub(crate) async fn close(&self) {
        let _turn = self.turn.take().await;
        self.leave(Kept::Closed).await;
    }
}

/// How the serial numbers of all units of an array begin.
fn serials_begin(array_id: &str) -> String {
    format!("{}-", crate::names::in_serials(array_id))
}

fn gone() -> SettingsError {
    StoreError::from(std::io::Error::other("its thread is gone")).into()
}

#[cfg(test)]
mod tests;
