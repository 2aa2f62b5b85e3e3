//! What this process attaches, for those who ask, and the way to each of its keepers.

use crate::attach::control::Answers;
use crate::attach::keeper::Event;
use crate::attach::report::{Identity, Listed, Sample, State};
use crate::attach::volume::Volume;
use anyhow::{Context, anyhow};
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the cores may take to tell of their paths.
const REPORT_TIME: Duration = Duration::from_secs(5);

/// All attachments, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table(Arc<Mutex<BTreeMap<String, Row>>>);

/// One attachment, from its first attempt to its end.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) listed: Listed,
    /// The disk, while there is one.
    pub(crate) volume: Weak<Volume>,
    /// Its keeper; one whose file does not read has none.
    pub(crate) orders: Option<Sender<Event>>,
}

impl Row {
    /// One that is about to be tried.
    pub(crate) fn new(name: &str, orders: Sender<Event>) -> Row {
        Row { orders: Some(orders), ..Row::of(name, State::Attaching, String::new()) }
    }

    /// One that cannot even be tried.
    pub(crate) fn refused(name: &str, trouble: String) -> Row {
        Row::of(name, State::Refused, trouble)
    }

    fn of(name: &str, state: State, trouble: String) -> Row {
        let name = name.to_owned();
        let identity = Identity { pid: std::process::id(), name, ..Identity::default() };
        Row { listed: Listed { identity, state, trouble }, volume: Weak::new(), orders: None }
    }
}

impl Table {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists one more.
    pub(crate) fn insert(&self, row: Row) {
        self.rows().insert(row.listed.identity.name.clone(), row);
    }

    /// Changes what is said of `name`; one that is not listed stays so.
    pub(crate) fn update(&self, name: &str, change: impl FnOnce(&mut Row)) {
        if let Some(row) = self.rows().get_mut(name) {
            change(row);
        }
    }

    /// Takes `name` off the list.
    pub(crate) fn remove(&self, name: &str) {
        self.rows().remove(name);
    }

    /// Takes those off the list that are refused.
    pub(crate) fn forget_refused(&self) {
        self.rows().retain(|_, row| row.listed.state != State::Refused);
    }

    /// The disks that can be used, by name.
    pub(crate) fn volumes(&self) -> Vec<(String, Arc<Volume>)> {
        let rows = self.rows();
        let volume = |(name, row): (&String, &Row)| Some((name.clone(), row.volume.upgrade()?));
        rows.iter().filter_map(volume).collect()
    }
}

impl Answers for Table {
    fn list(&self) -> Vec<Listed> {
        self.rows().values().map(|row| row.listed.clone()).collect()
    }

    /// All cores are asked at once, so that one that hangs costs its own sample alone.
    fn samples(&self) -> HashMap<String, Sample> {
        let end = Instant::now() + REPORT_TIME;
        let asked = self.volumes().into_iter().map(|(name, volume)| {
            let paths = volume.ask_paths();
            (name, volume, paths)
        });
        let asked: Vec<_> = asked.collect();
        let answered = asked.into_iter().filter_map(|(name, volume, paths)| {
            let paths = paths.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
            Some((name, volume.sample(paths)))
        });
        answered.collect()
    }

    fn detach(&self, name: &str) -> anyhow::Result<()> {
        let gone = "it is being detached";
        let orders = match self.rows().get(name) {
            None => return Err(anyhow!(gone)),
            Some(row) => row.orders.clone(),
        };
        let orders = orders.context("it is not attached, and not tried: its file does not read")?;
        let (sender, answer) = mpsc::channel();
        // Whoever asked may have given up.
        let asker = Box::new(move |result: Result<(), _>| drop(sender.send(result)));
        orders.send(Event::Detach(asker)).ok().context(gone)?;
        // A keeper that is on its way out for another reason answers nobody.
        Ok(answer.recv().map_err(|_| anyhow!(gone))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::keeper::NotDetached;

    #[test]
    fn what_is_listed_can_be_asked_to_go() {
        let table = Table::default();
        let (orders, received) = mpsc::channel();
        table.insert(Row::new("a", orders));
        table.insert(Row::refused("b", "no key".to_owned()));
        let states: Vec<_> = table.list().iter().map(|listed| listed.state).collect();
        assert_eq!(states, [State::Attaching, State::Refused]);
        let keeper = std::thread::spawn(move || {
            let Ok(Event::Detach(asker)) = received.recv() else { panic!("it is told to go") };
            asker(Err(NotDetached::InUse("it is in use".to_owned())));
        });
        let said = table.detach("a").unwrap_err().to_string();
        assert_eq!(said, "it cannot be detached: it is in use");
        keeper.join().unwrap();
        // Its keeper has ended.
        assert_eq!(format!("{:#}", table.detach("a").unwrap_err()), "it is being detached");
        // Or ends, and does not get round to the question.
        let (orders, received) = mpsc::channel();
        table.insert(Row::new("a", orders));
        let keeper = std::thread::spawn(move || drop(received.recv().unwrap()));
        assert_eq!(format!("{:#}", table.detach("a").unwrap_err()), "it is being detached");
        keeper.join().unwrap();
        assert!(table.detach("b").unwrap_err().to_string().contains("does not read"));
        table.forget_refused();
        table.remove("a");
        assert!(table.list().is_empty() && table.samples().is_empty());
    }
}
