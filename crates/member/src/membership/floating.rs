//! What a member has to do with the address of its group, as it stands.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use group::address::{GroupAddress, Holding, Sighting};
use group::membership::{AddressHold, Roll};

use crate::group_request::AddressProof;
use crate::network::{Placed, boot_time};

/// Invariant: a hold is known as long as the key may be of it, and it is not left to its time.
#[derive(Debug, Default)]
pub(super) struct Floating {
    pub(super) holding: Cell<Holding>,
    /// By which it has the key, or may have it.
    pub(super) hold: Cell<Option<AddressHold>>,
    /// When the key was written last, whoever has it.
    sighting: Cell<Sighting>,
    /// The address at which hosts that come are heard here.
    ready: Cell<Option<GroupAddress>>,
    /// Where it was put.
    pub(super) placed: Placed,
    /// What is on an interface, as it was told of.
    pub(super) on: Cell<Option<GroupAddress>>,
    /// What the kernel was asked to put there, until it has answered.
    pub(super) coming: Cell<Option<GroupAddress>>,
    /// How often neighbours are still to be told that it is here.
    pub(super) announcements: Cell<u32>,
    /// Of which address it was looked whether its host could have it.
    pub(super) looked_at: Cell<Option<GroupAddress>>,
    /// The address that its host could not have, and until when it does not try to take that.
    pub(super) unable: Cell<Option<(GroupAddress, Instant)>>,
    /// Why its host cannot have it.
    pub(super) fault: RefCell<Option<String>>,
    /// What is proved there to whoever manages the group, and for which address that was made.
    pub(super) proof: RefCell<Option<(IpAddr, AddressProof)>>,
    /// Why nobody listens there.
    pub(super) listen_fault: RefCell<Option<String>>,
}

impl Floating {
    /// Why the address does not come to this member, or is of no use there.
    pub(super) fn fault(&self) -> Option<String> {
        self.fault.borrow().clone().or_else(|| self.listen_fault.borrow().clone())
    }

    /// What is on an interface, or may be.
    pub(super) fn there(&self) -> Option<GroupAddress> {
        self.on.get().or_else(|| self.coming.get())
    }

    /// Whether this member has put this address on an interface, or may have.
    pub(super) fn is_on(&self, ip: IpAddr) -> bool {
        self.there().is_some_and(|on| on.ip() == ip)
    }

    /// The group is this, as far as is known now.
    pub(super) fn see(&self, roll: &Roll) {
        let mut sighting = self.sighting.get();
        sighting.see(roll.holder.map(|holder| holder.revision), boot_time());
        self.sighting.set(sighting);
    }

    /// How long the address is still left to who has it; nothing, where nobody has.
    pub(super) fn left_to_holder(&self) -> Duration {
        self.sighting.get().left(boot_time())
    }

    /// Hosts that come to this address are heard here from now on. Says whether they were not, or at another one.
    pub(super) fn set_ready(&self, address: Option<GroupAddress>) -> bool {
        self.ready.replace(address) != address
    }

    /// Whether hosts are heard that come to this address.
    pub(super) fn is_ready(&self, address: GroupAddress) -> bool {
        self.ready.get() == Some(address)
    }

    /// For how much longer it does not try to take this address.
    pub(super) fn unable_for(&self, address: GroupAddress) -> Option<Duration> {
        let (unable, until) = self.unable.get()?;
        until.checked_duration_since(Instant::now()).filter(|_| unable == address)
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Holding)) {
        let mut holding = self.holding.get();
        change(&mut holding);
        self.holding.set(holding);
    }

    pub(super) fn is_held(&self) -> bool {
        self.holding.get().is_held()
    }
}
