//! How much room settings may take: what takes rights away needs room, too, and always has it.
//!
//! The embedded store writes beside what is there, keeps a history, and gives a key with a value of more than half a page
//! a power of two for itself. It grows by doubling, so that it has hardly more than a half of its device for certain. When
//! that is full it takes no change at all, not even one that deletes. Of the 16 MiB that a device of 32 MiB has so for
//! certain, settings may have six: units keep up to eight, and two are for the history and for what is written beside.

use super::{SettingsError, State};
use crate::store::{Op, Selection};

/// What all settings may take, as [`State::taken_bytes`] counts.
pub const SETTINGS_BYTES_MAX: u64 = 6 << 20;

/// What the settings that members of a group share may take in its store: each member has them all beside its own,
/// which are what is set for its volumes.
pub const GROUP_BYTES_MAX: u64 = 3 << 20;

/// A key and a value of more lie in pages of their own.
const SHARES_PAGE_BYTES: u64 = 2 << 10;

/// What the store keeps with each key, and more.
const BESIDE_BYTES: u64 = 64;

/// A setting that grows by no more is not larger: another word, as `false` for `true`, and when a token was used, must
/// not fail for room.
const WORD_BYTES: u64 = 32;

/// What such words may take together above the most.
const WORDS_BYTES_MAX: u64 = 256 << 10;

/// What a key with a value takes of the device, at worst: a page of small ones may be half empty.
fn taken_by(len_bytes: u64) -> u64 {
    match len_bytes + BESIDE_BYTES {
        len if len <= SHARES_PAGE_BYTES => 2 * len,
        len => len.next_power_of_two(),
    }
}

impl State {
    /// What all settings take of [`SETTINGS_BYTES_MAX`].
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        self.sizes.values().copied().map(taken_by).sum()
    }

    /// Refuses what makes the settings larger than they may be; never what does not make them larger.
    pub(super) fn check_room(&self, ops: &[Op], bytes_max: u64) -> Result<(), SettingsError> {
        let mut room = Room::of(self, bytes_max);
        for op in ops {
            match op {
                Op::Put { key, value, .. } => room.take(key, Some(value)),
                Op::Delete(Selection::Key(key)) => room.take(key, None),
                Op::Delete(Selection::Prefix(_)) | Op::Range(_) => {}
            }
        }
        room.check()
    }
}

/// What the settings take while a change is put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room<'a> {
    state: &'a State,
    bytes_max: u64,
    before_bytes: u64,
    after_bytes: u64,
    is_larger: bool,
}

impl<'a> Room<'a> {
    /// Before any of the change.
    pub(super) fn of(state: &'a State, bytes_max: u64) -> Self {
        let taken_bytes = state.taken_bytes();
        let (before_bytes, after_bytes) = (taken_bytes, taken_bytes);
        Self { state, bytes_max, before_bytes, after_bytes, is_larger: false }
    }

    /// Whether a setting takes more with this value than it does, by more than a word.
    pub(super) fn grows(&self, key: &[u8], value: Option<&[u8]>) -> bool {
        let old = self.state.sizes.get(key).copied();
        size(key, value) > old.map(|old| old + WORD_BYTES)
    }

    /// With another step of the change, each of another key.
    pub(super) fn take(&mut self, key: &[u8], value: Option<&[u8]>) {
        let old = self.state.sizes.get(key).copied();
        self.is_larger |= self.grows(key, value);
        let (goes, comes) = (old.map_or(0, taken_by), size(key, value).map_or(0, taken_by));
        self.after_bytes = self.after_bytes - goes + comes;
    }

    /// Refuses the change as it is by now.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let Self { bytes_max, before_bytes, after_bytes, .. } = *self;
        let words_max = if self.is_larger { 0 } else { WORDS_BYTES_MAX };
        if after_bytes <= before_bytes.max(bytes_max.saturating_add(words_max)) {
            return Ok(());
        }
        let (taken_bytes, wanted_bytes) = (before_bytes, after_bytes - before_bytes);
        Err(SettingsError::Full { taken_bytes, bytes_max, wanted_bytes })
    }
}

/// What a key takes with a value; `None` for one that goes.
fn size(key: &[u8], value: Option<&[u8]>) -> Option<u64> {
    value.map(|value| (key.len() + value.len()) as u64)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::bytes::testing::{Disk, Unsynced};
    use crate::secrets::{KeySource, Vault};
    use crate::settings::{Settings, UnitKey, UnitRecord};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place, Store};

    fn open(disk: &Disk, dir: &Path) -> Settings {
        let clock = Arc::new(|| Duration::ZERO);
        let place = Place::Device(disk.shared());
        let store = Embedded::open(place, clock, Options::on_small_device()).expect("it opens");
        let store: Arc<dyn Store> = Arc::new(store);
        let vault = Vault::open(KeySource::File(dir.join("key"))).expect("a key, or none yet");
        Settings::new(store, vault)
    }

    fn save(settings: &Settings, serial: &str, len: usize) {
        let key = UnitKey { serial: serial.to_owned(), record: UnitRecord::Reservations };
        wait(settings.save_units(&[(key, Some(vec![1; len]))].into())).expect("it is saved");
    }

    fn of(number: usize, len: usize) -> Op {
        Op::put(format!("policies/{number:06}"), vec![3; len])
    }

    fn put(settings: &Settings, number: usize, len: usize) -> Result<(), SettingsError> {
        wait(settings.change(|_| Ok((vec![of(number, len)], ()))))
    }

    fn delete(settings: &Settings, number: usize) {
        let op = || Op::Delete(Selection::key(format!("policies/{number:06}")));
        wait(settings.change(|_| Ok((vec![op()], ())))).expect("what deletes has room");
    }

    /// Fills a device with what units keep, all of one size, and with settings of another, so many in one change.
    /// Says how many settings there are.
    fn fill(disk: &Disk, dir: &Path, (unit, len, at_once): (usize, usize, usize)) -> usize {
        let settings = open(disk, dir);
        for number in 0..(4 << 20) / unit {
            save(&settings, &format!("large-{number}"), unit);
        }
        let mut count = 0;
        let refused = loop {
            let ops = || (count..count + at_once).map(|number| of(number, len)).collect();
            match wait(settings.change(|_| Ok((ops(), ())))) {
                Ok(()) => count += at_once,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, SettingsError::Full { .. }), "{unit} {len} {count}: {refused}");
        count
    }

    /// The sizes are the worst for redb, which rounds up to powers of two, and usual ones.
    #[test]
    fn full_settings_take_all_that_makes_them_smaller_whatever_units_keep() {
        let sizes =
            [(70_000, 66_000, 1), (123 << 10, 58_000, 1), (70_000, 33_000, 1), (70_000, 200, 100)];
        for sizes in sizes {
            let (_, len, _) = sizes;
            let dir = tempfile::tempdir().unwrap();
            let mut disk = Disk::new(32 << 20);
            let count = fill(&disk, dir.path(), sizes);
            for round in 0..3 {
                // The power is lost, and what was not synced with it.
                disk = Disk::with(disk.cut(disk.steps(), Unsynced::Lost));
                let settings = open(&disk, dir.path());
                for number in 0..200 {
                    save(&settings, &format!("small-{number}"), 2000);
                }
                for number in 3..20 {
                    put(&settings, number, len).expect("what is no larger has room");
                }
                delete(&settings, round);
                let larger = put(&settings, count, 300_000);
                assert!(matches!(larger, Err(SettingsError::Full { .. })), "{sizes:?} {larger:?}");
            }
        }
    }

    #[test]
    fn another_word_has_room_where_another_setting_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = open(&Disk::new(8 << 20), dir.path());
        put(&settings, 1, 100).unwrap();
        settings.limit(wait(settings.read()).unwrap().taken_bytes());
        put(&settings, 1, 132).expect("one grows by a word");
        let refused = [put(&settings, 1, 165), put(&settings, 2, 1)].map(Result::unwrap_err);
        let wanted =
            "there is no room for more settings: they take 0.0 MiB of 0.0 MiB, and this takes ";
        assert!(refused.iter().all(|why| why.to_string().starts_with(wanted)), "{refused:?}");
        put(&settings, 1, 10).expect("what is smaller has room");
        put(&settings, 1, 100).expect("and makes some");
    }
}
