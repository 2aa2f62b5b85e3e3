//! How the home of a volume reaches slices of other members: it asks them for an opening, as members ask each other.

use std::fmt::{self, Formatter};
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use group::membership::SliceId;
use group::ownership::MemberId;
use group::spread::Openings;
use member::slices::{AskError, Opening};
use member::{Begun, OpeningAsked, SliceOpeners};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::remote;
use crate::problem::Problem;
use crate::server::app::App;

/// Asks on the thread of the interface, for cores of the member. It keeps neither alive.
pub(in crate::server) struct Openers {
    app: Weak<App>,
    asks_on: Handle,
}

impl Openers {
    /// Asks on this runtime.
    pub(in crate::server) fn here(app: &Arc<App>) -> Self {
        Self { app: Arc::downgrade(app), asks_on: Handle::current() }
    }
}

impl fmt::Debug for Openers {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_struct("Openers").finish_non_exhaustive()
    }
}

/// Ends a question that nobody waits for any more.
struct Asked(AbortHandle);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Openers {
    /// Asks there, and gives what was answered here.
    fn ask<T: Send + 'static, Asking>(
        &self,
        ask: impl FnOnce(Arc<App>) -> Asking + Send + 'static,
    ) -> BoxFuture<'static, Result<T, AskError>>
    where
        Asking: Future<Output = Result<T, Problem>> + Send,
    {
        let app = self.app.clone();
        let (answer, coming) = oneshot::channel();
        let asking = self.asks_on.spawn(async move {
            let Some(app) = app.upgrade() else { return };
            // Whoever waited may have gone.
            drop(answer.send(ask(app).await));
        });
        let asked = Asked(asking.abort_handle());
        async move {
            let _asked = asked;
            match coming.await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err("this member is stopping".into()),
            }
        }
        .boxed()
    }
}

impl SliceOpeners for Openers {
    fn begin(
        &self,
        to: MemberId,
        slice: &SliceId,
        openings: Openings,
    ) -> BoxFuture<'static, Result<Begun, AskError>> {
        let slice = slice.clone();
        self.ask(move |app| async move { remote::begin(&app, to, (&slice, openings)).await })
    }

    fn open(
        &self,
        to: MemberId,
        slice: &SliceId,
        asked: OpeningAsked,
    ) -> BoxFuture<'static, Result<Opening, AskError>> {
        let slice = slice.clone();
        self.ask(move |app| async move { remote::open(&app, to, (&slice, asked)).await })
    }
}
