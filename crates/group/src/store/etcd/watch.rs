//! A watch of etcd that outlives its connections.
//!
//! It goes on behind the last revision that was passed on, over whichever member of the cluster answers, for as long
//! as somebody listens. It ends by an error only where history is gone; a cluster that is away is waited for, as
//! nobody may take a silent watch for news anyway: what is newest, a read says.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::WatchStream;
use futures_util::StreamExt;
use futures_util::stream;
use tokio::sync::mpsc::{Sender, channel};

use super::runtime::Runtime;
use super::{ANSWER_BYTES_MAX, ATTEMPT_TIME, Cluster, convert, refusal};
use crate::store::types::{Batch, Revision, Selection};
use crate::store::{StoreError, Watch};

/// Revisions that were heard of and not asked for yet. etcd keeps the others.
const AHEAD: usize = 64;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long etcd may take to say up to where history is gone; at that revision itself it says nothing.
const TOLD_TIME: Duration = Duration::from_secs(1);

type Said = Result<Batch, StoreError>;

struct Place {
    cluster: Arc<Cluster>,
    selection: Selection,
    /// The first revision that was not passed on.
    next: Revision,
    listener: Sender<Said>,
}

/// Why a watch is over.
enum End {
    /// Nobody listens.
    Left,
    /// The connection, or the member of the cluster, is gone: it goes on with another.
    Broken,
    /// Whatever has no remedy.
    Failed(StoreError),
}

impl From<etcd_client::Error> for End {
    fn from(_: etcd_client::Error) -> Self {
        Self::Broken
    }
}

/// Begins to watch.
pub(super) fn watch(
    runtime: &Runtime,
    cluster: &Arc<Cluster>,
    selection: Selection,
    from: Revision,
) -> Watch {
    let (listener, said) = channel(AHEAD);
    let place = Place { cluster: cluster.clone(), selection, next: from, listener };
    runtime.spawn(place.follow());
    stream::unfold(said, |mut said| async move { Some((said.recv().await?, said)) }).boxed()
}

impl Place {
    async fn follow(mut self) {
        let mut pause = PAUSE_MIN;
        loop {
            let before = self.next;
            let listener = self.listener.clone();
            let end = tokio::select! {
                end = self.pass_on() => end,
                () = listener.closed() => End::Left,
            };
            match end {
                End::Left => return,
                End::Failed(error) => {
                    // The last word; it does not matter whether somebody hears it.
                    let _ = listener.send(Err(error)).await;
                    return;
                }
                End::Broken if self.next > before => pause = PAUSE_MIN,
                End::Broken => pause = (pause * 2).min(PAUSE_MAX),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Passes on what one connection says, until it ends.
    async fn pass_on(&mut self) -> End {
        let mut stream = match tokio::time::timeout(ATTEMPT_TIME, self.begin()).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(end)) => return end,
            Err(_) => return End::Broken,
        };
        loop {
            if let Err(end) = self.pass_on_one(&mut stream).await {
                return end;
            }
        }
    }

    /// A watch that stands, with a history that is whole from its first revision on.
    async fn begin(&self) -> Result<WatchStream, End> {
        if self.next == 0 {
            return Err(End::Failed(StoreError::Compacted { compacted: 0 }));
        }
        let client = self.cluster.client().await.map_err(|_| End::Broken)?;
        let mut watches = client.watch_client().max_decoding_message_size(ANSWER_BYTES_MAX);
        let from = convert::number(self.next).map_err(End::Failed)?;
        let (key, options) = self.cluster.namespace.watch(&self.selection, from);
        let mut stream = watches.watch(key, Some(options)).await?;
        // At the revision itself that was compacted, etcd would watch, and leave out what was deleted in it.
        match self.cluster.is_kept_from(self.next).await {
            Ok(()) => Ok(stream),
            Err(StoreError::Compacted { .. }) => {
                let told = tokio::time::timeout(TOLD_TIME, compaction(&mut stream)).await;
                let compacted = told.ok().flatten().unwrap_or(self.next);
                Err(End::Failed(StoreError::Compacted { compacted }))
            }
            Err(_) => Err(End::Broken),
        }
    }

    async fn pass_on_one(&mut self, stream: &mut WatchStream) -> Result<(), End> {
        let said = stream.message().await?.ok_or(End::Broken)?;
        if said.compact_revision() > 0 {
            let compacted = said.compact_revision().unsigned_abs();
            return Err(End::Failed(StoreError::Compacted { compacted }));
        }
        if said.canceled() {
            return Err(End::Broken);
        }
        // All that was changed in one revision comes in one answer.
        let mut batches: Vec<Batch> = Vec::new();
        for event in said.events() {
            let (revision, event) = self.cluster.namespace.event(event).map_err(End::Failed)?;
            match batches.last_mut() {
                Some(batch) if batch.revision == revision => batch.events.push(event),
                _ => batches.push(Batch { revision, events: vec![event] }),
            }
        }
        for batch in batches {
            if batch.revision < self.next {
                return Err(End::Failed(refusal::repeats(batch.revision)));
            }
            let next = batch.revision + 1;
            self.listener.send(Ok(batch)).await.map_err(|_| End::Left)?;
            self.next = next;
        }
        Ok(())
    }
}

/// The revision up to which history is gone, as a watch that begins before is told.
async fn compaction(stream: &mut WatchStream) -> Option<Revision> {
    while let Ok(Some(said)) = stream.message().await {
        if said.compact_revision() > 0 {
            return Some(said.compact_revision().unsigned_abs());
        }
    }
    None
}
