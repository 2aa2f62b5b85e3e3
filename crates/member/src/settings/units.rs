//! What units of targets keep, in the configuration store on the array: so it comes along with the disks.
//!
//! ```text
//!  a core: save ──▶ member's core: wait for the store ──▶ one transaction for all that wait ──▶ answer
//!          load ──▶ memory, which has what the store has
//! ```
//!
//! Units are made on a core, and no core may wait for the store, whose device is served by one: so all records
//! are in memory from when the store is opened. While it cannot be read no record is known, and no unit is served.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use group::settings::{UnitKey, UnitRecord, Units};
use ring::OneshotSender;
use target::{Place, Record, UnitStore};

use crate::mutants::{self, Mutant};

/// Bytes of all records together: the rest of the store is for who may use what.
const BYTES_MAX: usize = 4 << 20;

/// A record of no more bytes is kept besides: a host that fills the rest keeps nobody from reserving. That is some
/// twenty hosts with names of usual length.
const OWN_BYTES: usize = 2 << 10;

/// What to do about a record that cannot be used.
const REMEDY: &str = "take a snapshot of the volume and make a clone of that to start without it";

/// A record that is to be saved.
#[derive(Debug)]
pub(crate) struct UnitSave {
    pub(crate) key: UnitKey,
    pub(crate) image: Option<Vec<u8>>,
    pub(crate) answer: OneshotSender<io::Result<()>>,
}

/// What is known of a record: its image, that there is none, or why it cannot be read.
pub(crate) type Known = Result<Option<Vec<u8>>, String>;

type Saver = Box<dyn Fn(UnitSave) + Send + Sync>;

/// The records of all units of a member, as its server asks for them from any core.
pub struct ArrayUnits {
    /// Why none is known, while that is so.
    known: Mutex<Result<BTreeMap<UnitKey, Known>, String>>,
    /// The way to the member's core.
    saver: OnceLock<Saver>,
}

impl Default for ArrayUnits {
    /// Those of a store that is not open yet.
    fn default() -> Self {
        let known = Mutex::new(Err("the array is not open yet".to_owned()));
        Self { known, saver: OnceLock::new() }
    }
}

impl Debug for ArrayUnits {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("ArrayUnits").finish_non_exhaustive()
    }
}

impl ArrayUnits {
    fn known(&self) -> MutexGuard<'_, Result<BTreeMap<UnitKey, Known>, String>> {
        // Each change of the map is one call.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Saves go this way from now on; to be called once.
    pub(crate) fn save_by(&self, saver: impl Fn(UnitSave) + Send + Sync + 'static) {
        let is_first = self.saver.set(Box::new(saver)).is_ok();
        debug_assert!(is_first, "a server has one member");
    }

    /// What the store has, or why that is not known.
    pub(crate) fn replace(&self, known: Result<BTreeMap<UnitKey, Known>, String>) {
        *self.known() = known;
    }

    pub(crate) fn are_known(&self) -> bool {
        self.known().is_ok()
    }

    /// Whether the store says anything of this record.
    pub(crate) fn knows(&self, key: &UnitKey) -> bool {
        self.known().as_ref().is_ok_and(|known| known.contains_key(key))
    }

    /// What is kept of the unit of this serial number.
    pub(crate) fn of_unit(&self, serial: &str) -> io::Result<Units> {
        let known = self.known();
        let known = known.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        let own = known.iter().filter(|(key, _)| key.serial == serial);
        let read = own.map(|(key, known)| match known {
            Ok(image) => Ok((key.clone(), image.clone())),
            Err(why) => Err(io::Error::other(why.clone())),
        });
        read.collect()
    }

    /// Whether the store says anything at all.
    pub(crate) fn are_none(&self) -> bool {
        self.known().as_ref().is_ok_and(BTreeMap::is_empty)
    }

    /// This counts from now on.
    pub(crate) fn set(&self, key: UnitKey, known_now: Known) {
        if let Ok(known) = self.known().as_mut() {
            known.insert(key, known_now);
        }
    }

    /// Nothing is known of units with these serial numbers any more.
    pub(crate) fn forget(&self, serials: &[String]) {
        if let Ok(known) = self.known().as_mut() {
            known.retain(|key, _| !serials.contains(&key.serial));
        }
    }

    /// The serial numbers of which something is kept, but for these.
    pub(crate) fn serials_but(&self, owners: &BTreeSet<String>) -> Vec<String> {
        let known = self.known();
        let serials = known.iter().flat_map(BTreeMap::keys).map(|key| &key.serial);
        let others: BTreeSet<_> = serials.filter(|serial| !owners.contains(*serial)).collect();
        others.into_iter().cloned().collect()
    }

    /// How much is taken of the room that units share, in percent, and the serial numbers of those that hold more than
    /// they always may.
    pub(crate) fn shared_room(&self) -> (usize, BTreeSet<String>) {
        let known = self.known();
        let len = |known: &Known| known.as_ref().ok().and_then(Option::as_ref).map_or(0, Vec::len);
        let sizes: Vec<_> = known.iter().flatten().map(|(key, known)| (key, len(known))).collect();
        let percent = sizes.iter().map(|(_, bytes)| bytes).sum::<usize>() * 100 / BYTES_MAX;
        let large = sizes.into_iter().filter(|(_, bytes)| *bytes > OWN_BYTES);
        (percent, large.map(|(key, _)| key.serial.clone()).collect())
    }

    /// Whether there is room for a record beside those that are stored with it. One that does not grow always has
    /// some, as what must be unregistered or fenced off is, however much there is; so has a [small](OWN_BYTES) one.
    pub(crate) fn has_room(&self, key: &UnitKey, image: Option<&[u8]>, with: &Units) -> bool {
        let known = self.known();
        let len = |image: &Option<Vec<u8>>| image.as_ref().map_or(0, Vec::len);
        let stored = known.iter().flatten().filter(|(key, _)| !with.contains_key(*key));
        let stored = stored.map(|(key, known)| (key, known.as_ref().map_or(0, len)));
        let sizes = stored.chain(with.iter().map(|(key, image)| (key, len(image))));
        let (mut own, mut others) = (0, 0);
        for (other, bytes) in sizes {
            *(if other == key { &mut own } else { &mut others }) += bytes;
        }
        let bytes = image.map_or(0, <[u8]>::len);
        let is_small = bytes <= OWN_BYTES && !mutants::is(Mutant::NoOwnRoom);
        bytes <= own || is_small || others + bytes <= BYTES_MAX
    }
}

fn key_of(serial: &str, record: Record) -> UnitKey {
    let record = match record {
        Record::Reservations => UnitRecord::Reservations,
        Record::Sanitize => UnitRecord::Sanitize,
    };
    UnitKey { serial: serial.to_owned(), record }
}

impl UnitStore for ArrayUnits {
    fn load(&self, serial: &str, record: Record) -> io::Result<Option<Vec<u8>>> {
        let known = self.known();
        let known = known.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        match known.get(&key_of(serial, record)) {
            None => Ok(None),
            Some(Ok(image)) => Ok(image.clone()),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
        }
    }

    fn save<'a>(
        &'a self,
        serial: &str,
        record: Record,
        image: Option<Vec<u8>>,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + 'a>> {
        let (answer, done) = ring::oneshot();
        let gone = || io::Error::other("the member is stopping");
        match self.saver.get() {
            // What is not taken drops `answer`.
            Some(saver) => saver(UnitSave { key: key_of(serial, record), image, answer }),
            None => drop(answer),
        }
        Box::pin(async move { done.await.unwrap_or_else(|| Err(gone())) })
    }

    fn place(&self, serial: &str, record: Record) -> Place {
        let place = key_of(serial, record).place();
        Place { what: format!("the configuration store of the array ({place})"), remedy: REMEDY }
    }
}
