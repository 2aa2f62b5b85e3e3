//! A store between whose answers something happens, as it does to one that others use too and that can fail.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;

use super::*;
use crate::store::{Outcome, Pending, Range, StoreError};

pub(super) type Work = Box<dyn FnOnce() + Send>;

/// What happens to one commit.
pub(super) enum Act {
    /// Somebody does this right before it.
    After(Work),
    /// It is made and then this is done, but its answer is lost.
    Unheard(Work),
    /// It is not made, and nobody says so.
    Lost,
    /// The same, but it is made when it is [delivered](Meddled::deliver).
    Late,
}

pub(super) struct Meddled {
    store: Arc<dyn Store>,
    acts: Mutex<VecDeque<Act>>,
    late: Mutex<Vec<Transaction>>,
    is_deaf: AtomicBool,
    asked: Mutex<Vec<Selection>>,
}

impl Meddled {
    /// A store to which nothing happens yet, before this one.
    pub(super) fn with(store: &Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            store: store.clone(),
            acts: Mutex::default(),
            late: Mutex::default(),
            is_deaf: AtomicBool::new(false),
            asked: Mutex::default(),
        })
    }

    pub(super) fn membership(self: &Arc<Self>) -> Membership {
        Membership::new(self.clone())
    }

    /// This happens to the next commit to which nothing happens yet.
    pub(super) fn plan(&self, act: Act) {
        self.acts.lock().unwrap().push_back(act);
    }

    /// It neither reads nor says what it has made.
    pub(super) fn deafen(&self, is_deaf: bool) {
        self.is_deaf.store(is_deaf, Ordering::SeqCst);
    }

    /// What was read since this was asked last.
    pub(super) fn asked(&self) -> Vec<Selection> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// What was late comes now: whether any of it was made.
    pub(super) fn deliver(&self) -> bool {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        assert!(!late.is_empty(), "nothing was late");
        let mut made = late.into_iter().map(|transaction| wait(self.store.commit(transaction)));
        made.any(|outcome| outcome.expect("it is taken").succeeded)
    }
}

fn lost() -> StoreError {
    StoreError::failed("the answer was lost")
}

impl Store for Meddled {
    fn range(&self, selection: Selection) -> Pending<'_, Range> {
        self.asked.lock().unwrap().push(selection.clone());
        if self.is_deaf.load(Ordering::SeqCst) {
            return async { Err(lost()) }.boxed();
        }
        self.store.range(selection)
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome> {
        let act = self.acts.lock().unwrap().pop_front();
        match act {
            None => self.store.commit(transaction),
            Some(Act::After(work)) => async move {
                work();
                self.store.commit(transaction).await
            }
            .boxed(),
            Some(Act::Unheard(work)) => async move {
                let outcome = self.store.commit(transaction).await;
                work();
                outcome.and(Err(lost()))
            }
            .boxed(),
            Some(Act::Lost) => async { Err(lost()) }.boxed(),
            Some(Act::Late) => {
                self.late.lock().unwrap().push(transaction);
                async { Err(lost()) }.boxed()
            }
        }
    }

    fn watch(&self, selection: Selection, from: Revision) -> Watch {
        self.store.watch(selection, from)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, ()> {
        self.store.compact(revision)
    }

    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId> {
        self.store.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration> {
        self.store.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.store.revoke(lease)
    }
}
