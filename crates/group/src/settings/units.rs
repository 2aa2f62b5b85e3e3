//! What units of targets keep that no loss of power may end: their persistent reservations, and a SANITIZE that
//! has not ended well.
//!
//! Under `units/`, the word of the record, `/` and the serial number of the unit lies:
//!
//! ```text
//!  byte 0      1
//!       +------+-------------------------+
//!       | 0    | nothing                 |  it is known that nothing is kept, whatever an older file says
//!       | 1    | the image, as the unit  |
//!       |      | made it                 |
//!       +------+-------------------------+
//! ```
//!
//! They are no settings of an operator: a change of these neither reads them nor waits for them.

use std::collections::BTreeMap;

use super::{Settings, SettingsError};
use crate::store::{Op, Selection, Transaction};

const UNITS: &str = "units/";
const NOTHING: u8 = 0;
const IMAGE: u8 = 1;

/// Bytes of one transaction of records, well below what a store takes: it is written beside what is there.
const TRANSACTION_BYTES_MAX: usize = 256 << 10;

/// Records of one transaction.
const RECORDS_AT_ONCE: usize = 1000;

/// What is kept of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnitRecord {
    /// The image of its persistent reservations (APTPL).
    Reservations,
    /// A SANITIZE that has not ended well.
    Sanitize,
}

impl UnitRecord {
    const ALL: [Self; 2] = [Self::Reservations, Self::Sanitize];

    const fn word(self) -> &'static str {
        match self {
            Self::Reservations => "reservations",
            Self::Sanitize => "sanitize",
        }
    }
}

/// Which record of which unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitKey {
    /// The serial number of the unit.
    pub serial: String,
    /// What of it.
    pub record: UnitRecord,
}

impl UnitKey {
    /// Where it lies in the store.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{UNITS}{}/{}", self.record.word(), self.serial)
    }

    fn of(place: &[u8]) -> Option<Self> {
        let rest = str::from_utf8(place).ok()?.strip_prefix(UNITS)?;
        let (word, serial) = rest.split_once('/')?;
        let record = UnitRecord::ALL.into_iter().find(|record| record.word() == word)?;
        Some(Self { serial: serial.to_owned(), record })
    }
}

/// The record is in a format that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it was stored by a later version of drystone: use the version that wrote it, or a later one"
)]
pub struct LaterUnit;

/// Records, with `None` where it is known that nothing is kept.
pub type Units = BTreeMap<UnitKey, Option<Vec<u8>>>;

impl Settings {
    /// All records of units. Those that this version does not understand say so.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn units(
        &self,
    ) -> Result<BTreeMap<UnitKey, Result<Option<Vec<u8>>, LaterUnit>>, SettingsError> {
        let range = self.store.range(Selection::prefix(UNITS)).await?;
        let kept = |kv: &crate::store::KeyValue| Some((UnitKey::of(&kv.key)?, decode(&kv.value)));
        Ok(range.kvs.iter().filter_map(kept).collect())
    }

    /// Puts these in place of what was kept. When this has ended well no loss of power undoes it; after an
    /// error each has its old value or its new one.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn save_units(&self, units: &Units) -> Result<(), SettingsError> {
        let (mut ops, mut bytes) = (Vec::new(), 0);
        for (key, image) in units {
            let value = encode(image.as_deref());
            let is_full = bytes + value.len() > TRANSACTION_BYTES_MAX;
            if !ops.is_empty() && (is_full || ops.len() == RECORDS_AT_ONCE) {
                self.put_units(std::mem::take(&mut ops)).await?;
                bytes = 0;
            }
            bytes += value.len();
            ops.push(Op::put(key.place(), value));
        }
        if ops.is_empty() { Ok(()) } else { self.put_units(ops).await }
    }

    /// Forgets all of units that are no more: their serial numbers are not used again.
    ///
    /// # Errors
    /// The store does not do it.
    pub async fn forget_units(&self, serials: &[String]) -> Result<(), SettingsError> {
        let keys = serials.iter().flat_map(|serial| {
            UnitRecord::ALL.map(|record| UnitKey { serial: serial.clone(), record }.place())
        });
        let deletes: Vec<Op> = keys.map(|key| Op::Delete(Selection::key(key))).collect();
        for ops in deletes.chunks(RECORDS_AT_ONCE) {
            self.put_units(ops.to_vec()).await?;
        }
        Ok(())
    }

    async fn put_units(&self, ops: Vec<Op>) -> Result<(), SettingsError> {
        self.store.commit(Transaction::always(ops)).await?;
        Ok(())
    }
}

/// What is to be written so that these are kept.
pub(super) fn puts(units: &Units) -> impl Iterator<Item = Op> {
    units.iter().map(|(key, image)| Op::put(key.place(), encode(image.as_deref())))
}

fn encode(image: Option<&[u8]>) -> Vec<u8> {
    match image {
        None => vec![NOTHING],
        Some(image) => [&[IMAGE], image].concat(),
    }
}

fn decode(value: &[u8]) -> Result<Option<Vec<u8>>, LaterUnit> {
    match value {
        [NOTHING] => Ok(None),
        [IMAGE, image @ ..] => Ok(Some(image.to_vec())),
        _ => Err(LaterUnit),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::secrets::{KeySource, Vault};
    use crate::store::suite::wait;
    use crate::store::{Embedded, Options, Place, Store};

    fn key(serial: &str, record: UnitRecord) -> UnitKey {
        UnitKey { serial: serial.to_owned(), record }
    }

    fn settings() -> (Settings, Arc<dyn Store>) {
        let clock = Arc::new(|| Duration::ZERO);
        let store = Embedded::open(Place::Memory, clock, Options::default()).expect("it opens");
        let store: Arc<dyn Store> = Arc::new(store);
        let vault = Vault::without_key(KeySource::File("/nowhere".into()));
        (Settings::new(store.clone(), vault), store)
    }

    #[test]
    fn what_is_saved_is_read_and_is_no_setting() {
        let (settings, _) = settings();
        let mut units = Units::new();
        for record in UnitRecord::ALL {
            units.insert(key("a/b", record), Some(vec![record as u8; 200]));
            units.insert(key("c", record), None);
        }
        // More than one transaction takes.
        for number in 0..30 {
            let serial = format!("large-{number}");
            units.insert(key(&serial, UnitRecord::Reservations), Some(vec![number; 100 << 10]));
        }
        wait(settings.save_units(&units)).unwrap();
        let read = |settings: &Settings| -> Units {
            let read = wait(settings.units()).unwrap().into_iter();
            read.map(|(key, image)| (key, image.unwrap())).collect()
        };
        assert!(read(&settings) == units);
        assert!(wait(settings.read()).unwrap().is_empty(), "nothing was set");
        wait(settings.save_units(&Units::new())).unwrap();

        let gone = ["a/b".to_owned(), "never-there".to_owned()];
        wait(settings.forget_units(&gone)).unwrap();
        units.retain(|key, _| key.serial != "a/b");
        assert!(read(&settings) == units);
    }

    #[test]
    fn a_later_format_is_told_and_leaves_others_alone() {
        let (settings, store) = settings();
        let (one, other) = (key("a", UnitRecord::Reservations), key("b", UnitRecord::Sanitize));
        wait(settings.save_units(&Units::from([(other.clone(), Some(b"x".to_vec()))]))).unwrap();
        wait(store.commit(Transaction::always(vec![Op::put(one.place(), [2, 0])]))).unwrap();
        let read = wait(settings.units()).unwrap();
        assert_eq!(read[&one], Err(LaterUnit));
        assert_eq!(read[&other], Ok(Some(b"x".to_vec())));
    }
}
