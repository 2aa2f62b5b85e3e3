//! A store of units in memory, whose saves take as long as a test wants, and end as it wants.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use ring::OneshotSender;
use target::{Place, Record, UnitStore};

type Key = (String, Record);

#[derive(Debug, Default)]
struct Inner {
    records: Mutex<BTreeMap<Key, Vec<u8>>>,
    is_holding: AtomicBool,
    held: Mutex<Vec<OneshotSender<bool>>>,
    saves: AtomicUsize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct HeldStore(Arc<Inner>);

impl HeldStore {
    /// Saves that begin from now on wait.
    pub(crate) fn hold(&self) {
        self.0.is_holding.store(true, Ordering::SeqCst);
    }

    /// Those that wait.
    pub(crate) fn held(&self) -> usize {
        self.0.held.lock().unwrap().len()
    }

    /// Ends those that wait, well or not, and holds no more.
    pub(crate) fn release(&self, well: bool) {
        self.0.is_holding.store(false, Ordering::SeqCst);
        self.end(well);
    }

    /// Ends those that wait; later ones wait again.
    pub(crate) fn end(&self, well: bool) {
        self.0.held.lock().unwrap().drain(..).for_each(|save| save.send(well));
    }

    /// How many saves have begun.
    pub(crate) fn saves(&self) -> usize {
        self.0.saves.load(Ordering::SeqCst)
    }

    pub(crate) fn image(&self, serial: &str, record: Record) -> Option<Vec<u8>> {
        self.0.records.lock().unwrap().get(&(serial.to_owned(), record)).cloned()
    }
}

impl UnitStore for HeldStore {
    fn load(&self, serial: &str, record: Record) -> io::Result<Option<Vec<u8>>> {
        Ok(self.image(serial, record))
    }

    fn save<'a>(
        &'a self,
        serial: &str,
        record: Record,
        image: Option<Vec<u8>>,
    ) -> LocalBoxFuture<'a, io::Result<()>> {
        let key = (serial.to_owned(), record);
        self.0.saves.fetch_add(1, Ordering::SeqCst);
        let wait = self.0.is_holding.load(Ordering::SeqCst).then(|| {
            let (end, ended) = ring::oneshot();
            self.0.held.lock().unwrap().push(end);
            ended
        });
        async move {
            if let Some(ended) = wait
                && ended.await != Some(true)
            {
                return Err(io::Error::other("as the test wants it"));
            }
            let mut records = self.0.records.lock().unwrap();
            match image {
                Some(image) => _ = records.insert(key, image),
                None => _ = records.remove(&key),
            }
            Ok(())
        }
        .boxed_local()
    }

    fn place(&self, serial: &str, record: Record) -> Place {
        Place { what: format!("memory/{serial}/{record:?}"), remedy: "try again" }
    }
}
