//! Who is logged in where: shared by all cores, touched at login and at the end of a session only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use iscsi::params::SessionParams;
use iscsi::pdu::Isid;
use ring::{CoreId, OneshotReceiver, OneshotSender};

/// What names a session: the target and one initiator port (RFC 7143 §4.4.1; the portal group is
/// always ours).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) target: Arc<str>,
    pub(crate) initiator: Arc<str>,
    pub(crate) isid: Isid,
}

/// Where a session lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Residence {
    pub(crate) tsih: u16,
    pub(crate) core: CoreId,
    /// What was negotiated: it holds for further connections too.
    pub(crate) params: SessionParams,
    /// The connections it has.
    pub(crate) cids: Vec<u16>,
}

#[derive(Debug, Default)]
struct Tables {
    by_key: HashMap<SessionKey, Residence>,
    by_tsih: HashMap<u16, SessionKey>,
    last_tsih: u16,
    /// Logins that wait for the session before them to end: the newest of each key.
    waiting: HashMap<SessionKey, (u64, OneshotSender<()>)>,
    last_waiting: u64,
}

/// All sessions of the server, discovery sessions excepted.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<Tables>);

impl Registry {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().expect("nothing panics while it holds the registry")
    }

    /// A TSIH that no session has; `None` when all 65,535 are taken.
    pub(crate) fn new_tsih(&self) -> Option<u16> {
        let mut tables = self.tables();
        for _ in 0..u16::MAX {
            tables.last_tsih = tables.last_tsih.wrapping_add(1).max(1);
            let tsih = tables.last_tsih;
            if !tables.by_tsih.contains_key(&tsih) {
                return Some(tsih);
            }
        }
        None
    }

    /// A login waits for the session of this key to end; one that did so before gives way.
    pub(crate) fn wait(&self, key: &SessionKey) -> Wait<'_> {
        let (replace, replaced) = ring::oneshot();
        let mut tables = self.tables();
        tables.last_waiting += 1;
        let number = tables.last_waiting;
        let before = tables.waiting.insert(key.clone(), (number, replace));
        drop(tables);
        if let Some((_, before)) = before {
            before.send(());
        }
        Wait { registry: self, key: key.clone(), number, replaced }
    }

    pub(crate) fn find(&self, key: &SessionKey) -> Option<Residence> {
        self.tables().by_key.get(key).cloned()
    }

    /// Enters a session, unless another one with this key came first.
    pub(crate) fn insert(&self, key: &SessionKey, residence: Residence) -> bool {
        let mut tables = self.tables();
        if tables.by_key.contains_key(key) || tables.by_tsih.contains_key(&residence.tsih) {
            return false;
        }
        tables.by_tsih.insert(residence.tsih, key.clone());
        tables.by_key.insert(key.clone(), residence);
        true
    }

    /// Notes which connections a session has now.
    pub(crate) fn set_connections(&self, key: &SessionKey, tsih: u16, cids: Vec<u16>) {
        if let Some(residence) = self.tables().by_key.get_mut(key)
            && residence.tsih == tsih
        {
            residence.cids = cids;
        }
    }

    pub(crate) fn remove(&self, key: &SessionKey, tsih: u16) {
        let mut tables = self.tables();
        if tables.by_key.get(key).is_some_and(|residence| residence.tsih == tsih) {
            tables.by_key.remove(key);
            tables.by_tsih.remove(&tsih);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.tables().by_key.len()
    }

    /// Sessions of one target.
    pub(crate) fn count(&self, target: &str) -> usize {
        self.tables().by_key.keys().filter(|key| *key.target == *target).count()
    }
}

/// A login that waits for the session before it.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    registry: &'a Registry,
    key: SessionKey,
    number: u64,
    /// A newer login of the same key has come.
    pub(crate) replaced: OneshotReceiver<()>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut tables = self.registry.tables();
        if tables.waiting.get(&self.key).is_some_and(|(number, _)| *number == self.number) {
            tables.waiting.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> SessionKey {
        SessionKey { target: "t".into(), initiator: name.into(), isid: [0; 6] }
    }

    #[test]
    fn a_key_and_a_tsih_belong_to_one_session() {
        let registry = Registry::default();
        let residence = |core: u16| Residence {
            tsih: registry.new_tsih().unwrap(),
            core: CoreId::from(core),
            params: SessionParams::default(),
            cids: vec![0],
        };
        let (first, second) = (residence(0), residence(1));
        assert_ne!(first.tsih, second.tsih);
        assert!(registry.insert(&key("a"), first.clone()));
        assert!(!registry.insert(&key("a"), second.clone()), "the key is taken");
        assert!(!registry.insert(&key("b"), first.clone()), "the TSIH is taken");
        let elsewhere = SessionKey { target: "u".into(), ..key("a") };
        assert!(registry.insert(&elsewhere, second.clone()), "another target, another session");
        assert_eq!((registry.len(), registry.count("t"), registry.count("v")), (2, 1, 0));
        registry.remove(&elsewhere, second.tsih);
        registry.set_connections(&key("a"), second.tsih, vec![7]);
        registry.remove(&key("a"), second.tsih);
        assert_eq!(
            registry.find(&key("a")),
            Some(first.clone()),
            "only its own session removes it"
        );
        registry.remove(&key("a"), first.tsih);
        assert_eq!(registry.find(&key("a")), None);
        assert_eq!(registry.len(), 0);
    }
}
