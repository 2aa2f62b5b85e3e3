//! What can be asked of a running member about where its events go on to, and what it answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use group::destinations::{Choice, Destination, DestinationChange, Way};
use group::secrets::Secret;

/// About destinations of events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the fields say what they are")]
pub enum DestinationRequest {
    /// → [`DestinationShown`]s.
    List,
    /// → [`DestinationShown`].
    Show { name: String },
    /// → [`DestinationShown`].
    Add { name: String, choice: Choice, way: Way<Secret> },
    /// → [`DestinationShown`].
    Set { name: String, change: DestinationChange<Secret> },
    /// Nothing goes there any more.
    Delete { name: String },
}

/// A destination, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationShown {
    /// Its name.
    pub name: String,
    /// A number that no other one has.
    pub id: u64,
    /// Which events go there.
    pub choice: Choice,
    /// How; a secret is there or not.
    pub way: Way<()>,
    /// Its secrets can be opened. Otherwise they must be given again, as the key that they were encrypted with is
    /// not here.
    pub is_usable: bool,
    /// When it was changed last, in the numbers of the store.
    pub changed: u64,
}

/// Destinations with their secrets, by name.
pub type Destinations = BTreeMap<String, Destination<Secret>>;

/// Where events go on to, as it was known last, for any thread. It stays while settings cannot be read and when the
/// member stops: those are events, too.
#[derive(Debug, Clone, Default)]
pub struct CurrentDestinations(Arc<Mutex<Current>>);

#[derive(Default)]
struct Current {
    destinations: Arc<Destinations>,
    /// The numbers of all that are set, also of those whose secrets cannot be opened now.
    set: Option<BTreeSet<u64>>,
    /// Who is told when they are others.
    listeners: Vec<Box<dyn Fn() + Send>>,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current")
            .field("destinations", &self.destinations.len())
            .finish_non_exhaustive()
    }
}

impl CurrentDestinations {
    fn held(&self) -> MutexGuard<'_, Current> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is at this moment.
    #[must_use]
    pub fn now(&self) -> Arc<Destinations> {
        self.held().destinations.clone()
    }

    /// The numbers of all that are set, whether or not they can be used now; `None` until the settings were read once.
    #[must_use]
    pub fn set(&self) -> Option<BTreeSet<u64>> {
        self.held().set.clone()
    }

    /// From now on it is these, of all that are `set`.
    pub fn replace(&self, destinations: Destinations, set: BTreeSet<u64>) {
        let current = &mut *self.held();
        current.destinations = Arc::new(destinations);
        current.set = Some(set);
        current.listeners.iter().for_each(|tell| tell());
    }

    /// Calls `tell` whenever they have been replaced, on the thread that did so: it must wait for nothing.
    pub fn on_change(&self, tell: impl Fn() + Send + 'static) {
        self.held().listeners.push(Box::new(tell));
    }
}
