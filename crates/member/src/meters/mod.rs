//! What each disk of a member does: requests, bytes, times and the queue, counted in a device that stands
//! between the array and the disk, so that neither knows of it.
//!
//! A request costs a handful of atomic additions, and no look at a clock but that of the turn: one that is answered
//! in the turn in which it came takes no time. The same place tells whether a piece of work has changes under way
//! ([`Scope`]).

mod device;
mod meter;
mod scope;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use block::BlockDevice;

use device::Metered;
pub(crate) use meter::Counted;
use meter::Meter;
pub(crate) use scope::Scope;

/// The meters of the disks of a member, by the names that its array has for them. One that is taken out and
/// comes back goes on with the same meter, and so does what is put in its place under the same name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meters(Rc<RefCell<BTreeMap<String, Arc<Meter>>>>);

impl Meters {
    /// Puts a disk under the meter of its name.
    pub(crate) fn meter(&self, name: &str, disk: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
        let meter = Arc::clone(self.0.borrow_mut().entry(name.to_owned()).or_default());
        Arc::new(Metered::new(disk, meter))
    }

    /// What was counted under a name.
    pub(crate) fn counted(&self, name: &str) -> Option<Counted> {
        self.0.borrow().get(name).map(|meter| meter.counted())
    }

    /// Forgets the meters of names that are not used any more.
    pub(crate) fn keep_only(&self, is_used: impl Fn(&str) -> bool) {
        self.0.borrow_mut().retain(|name, _| is_used(name));
    }
}
