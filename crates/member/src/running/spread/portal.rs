//! Where a member serves its slices to the homes of their volumes. It is opened with the first slice, at the address of the
//! member in its group, and closed when the member is another one, or ends.

use std::cell::RefCell;
use std::rc::Rc;

use group::membership::GroupId;
use group::ownership::MemberId;
use group::spread::SliceRecord;
use ring::wait::Turn;

use super::super::{Member, RequestError, SpreadRefusal};
use crate::slices::{FENCE_LIMIT, PortalOptions, Slice, SlicePortal};

/// Threads that serve slices. Each moves some GB/s, and a slice works on one of them.
const CORES: u16 = 1;

/// The portal of a member, if it has one.
#[derive(Debug, Default)]
pub(super) struct Portal {
    open: RefCell<Option<Open>>,
    /// Who has it opens or closes the portal.
    turn: Turn,
}

#[derive(Debug, Clone)]
struct Open {
    portal: Rc<SlicePortal>,
    /// The member that serves there.
    of: (GroupId, MemberId),
}

impl Portal {
    /// What is served, if anything is.
    pub(super) fn slices(&self) -> Option<crate::slices::Slices> {
        self.open.borrow().as_ref().map(|open| open.portal.slices().clone())
    }

    fn is_of(&self, who: Option<&(GroupId, MemberId)>) -> bool {
        let open = self.open.borrow();
        open.as_ref().is_none_or(|open| Some(&open.of) == who)
    }

    /// Ends all sessions there. What they have under way is over then.
    async fn close(&self) {
        let _turn = self.turn.take().await;
        let Some(Open { portal, .. }) = self.open.take() else { return };
        match Rc::try_unwrap(portal) {
            Ok(portal) => {
                let closing = ring::blocking(move || portal.shutdown());
                match ring::timeout(FENCE_LIMIT, closing).await {
                    Some(Ok(())) => {}
                    Some(Err(error)) => tracing::warn!("slices were not closed in order: {error}"),
                    None => tracing::warn!("disks still work on what was asked of slices"),
                }
            }
            // Nobody keeps it beyond a moment; its last user ends it.
            Err(portal) => drop(portal),
        }
    }
}

impl Member {
    /// Serves a slice that is here to the home of its volume; one that is served already stays as it is.
    ///
    /// # Errors
    /// Its volume is not there, or there is no portal.
    pub(super) async fn serve_slice(&self, record: &SliceRecord) -> Result<(), RequestError> {
        let device = self.array.device(&record.volume)?;
        let slices = self.slices_portal().await?.slices().clone();
        let name = format!("slice {} of {}", record.id, record.name);
        slices.insert(record.id.clone(), Slice { home: record.home, name, device });
        Ok(())
    }

    /// The portal of this member as it is now, which is opened if it is not.
    async fn slices_portal(&self) -> Result<Rc<SlicePortal>, SpreadRefusal> {
        let none = |why: &str| SpreadRefusal::NoPortal(why.to_owned());
        if self.is_stopping() || self.membership.is_ending() {
            return Err(none("it is stopping"));
        }
        let who = self.serving.spread().who().ok_or_else(|| none("it is in no group"))?;
        if !self.spreads.portal.is_of(Some(&who)) {
            self.spreads.portal.close().await;
        }
        let _turn = self.spreads.portal.turn.take().await;
        if let Some(open) = &*self.spreads.portal.open.borrow() {
            return Ok(open.portal.clone());
        }
        let address = self.membership.slices_address();
        let address = address.ok_or_else(|| none("it is in no group"))?;
        let options = PortalOptions {
            address,
            prefix: self.serving.names().prefix().to_owned(),
            cores: CORES,
            core: ring::CoreConfig::default(),
            fence_limit: FENCE_LIMIT,
        };
        let started = ring::blocking(move || SlicePortal::start(options)).await;
        let portal = started.map_err(|error| none(&format!("at {address}: {error}")))?;
        tracing::info!("slices of spread volumes are served at {address}");
        let portal = Rc::new(portal);
        self.spreads.portal.open.replace(Some(Open { portal: portal.clone(), of: who }));
        Ok(portal)
    }

    /// Closes the portal of the member that this one was.
    pub(super) async fn close_former_portal(&self) {
        let who = self.serving.spread().who();
        if !self.spreads.portal.is_of(who.as_ref()) {
            self.spreads.portal.close().await;
        }
    }

    /// Serves no slices any more: the member ends.
    pub(crate) async fn end_slices(&self) {
        self.spreads.portal.close().await;
    }
}
