//! The store in an etcd cluster, over its API v3.
//!
//! The group's keys lie under a namespace of their own, so that others may use the cluster too; then their changes
//! make revisions as well, of which watches here have nothing to say. A cluster is what the operator gives, or one
//! that members look after; it has to be started with `--max-txn-ops=4096` for transactions of the size that
//! [`Transaction`] may have.
//!
//! Requests run on a thread of their own, with a runtime of its own: whoever asks may be on any thread.

mod convert;
mod members;
mod refusal;
mod runtime;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Certificate, Client, ConnectOptions, Identity, KvClient, TlsOptions};
use futures_util::FutureExt;
use tokio::sync::{Mutex as AsyncMutex, OnceCell};
use zeroize::Zeroizing;

use self::convert::Namespace;
pub use self::members::{EtcdMember, EtcdMemberError};
use self::runtime::Runtime;
use super::error::StoreError;
use super::types::{
    LeaseId, Outcome, Range, Revision, Selection, Transaction, check_selection, lease_seconds,
};
use super::{Pending, Store, Watch};

/// How long a request may take, an election of etcd included: one that is cut off from the others answers after seven
/// seconds that it cannot.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long one member of the cluster may take to answer what can be asked of another as well.
const ATTEMPT_TIME: Duration = Duration::from_secs(3);

const CONNECT_TIME: Duration = Duration::from_secs(2);

/// etcd ends connections that ask more often than every five seconds whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// What one answer may have: a watch that was away is told a thousand revisions at once.
const ANSWER_BYTES_MAX: usize = 1 << 30;

/// How a client proves who it is, and knows who answers. Files as PEM.
#[derive(Debug, Clone)]
pub struct EtcdTls {
    /// Who signed the certificates of the cluster.
    pub authority: Vec<u8>,
    /// The certificate of this client, and its key; `None` for a cluster that asks for none.
    pub identity: Option<(Vec<u8>, Zeroizing<Vec<u8>>)>,
}

/// Which cluster, and as whom.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// Where its members listen for clients: `http://HOST:PORT`, or `https://HOST:PORT` with [`Self::tls`].
    pub endpoints: Vec<String>,
    /// What the keys of the group begin with in this cluster; not a part of what the store says of them.
    pub namespace: Vec<u8>,
    /// For `https` only.
    pub tls: Option<EtcdTls>,
    /// A user of the cluster and its password, if it has users.
    pub user: Option<(String, Zeroizing<String>)>,
}

impl EtcdOptions {
    /// What the client wants to know to connect.
    fn connect(&self) -> ConnectOptions {
        let mut connect = ConnectOptions::new()
            .with_connect_timeout(CONNECT_TIME)
            .with_keep_alive(PING_INTERVAL, ATTEMPT_TIME)
            // It takes pings on connections without a request for an attack.
            .with_keep_alive_while_idle(false)
            // A member that is cut off says so, instead of a watch that hears nothing.
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if let Some((name, password)) = &self.user {
            connect = connect.with_user(name, password.as_str());
        }
        if let Some(tls) = &self.tls {
            let mut options =
                TlsOptions::new().ca_certificate(Certificate::from_pem(&tls.authority));
            if let Some((certificate, key)) = &tls.identity {
                options = options.identity(Identity::from_pem(certificate, key));
            }
            connect = connect.with_tls(options);
        }
        connect
    }
}

/// Connections to the members of the cluster that are known, made when they are asked for.
#[derive(Default)]
struct Connections {
    endpoints: Vec<String>,
    /// To whichever of them answers.
    client: OnceCell<Client>,
    /// To the one of them that answered last when one alone had to be asked.
    single: AsyncMutex<Option<Client>>,
}

impl Connections {
    fn new(endpoints: Vec<String>) -> Self {
        Self { endpoints, ..Self::default() }
    }
}

/// What requests share.
struct Cluster {
    options: EtcdOptions,
    namespace: Namespace,
    /// Replaced as a whole when the members of the cluster are others.
    connections: Mutex<Arc<Connections>>,
}

/// A store in an etcd cluster.
#[derive(Debug)]
pub struct Etcd {
    runtime: Runtime,
    cluster: Arc<Cluster>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the user's password.
        out.debug_struct("Cluster").field("endpoints", &self.connections().endpoints).finish()
    }
}

impl Etcd {
    /// The store of a cluster, which need not be there yet: requests say if it is not.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if no thread can be started.
    pub fn new(options: EtcdOptions) -> Result<Self, StoreError> {
        let namespace = Namespace::new(options.namespace.clone());
        let connections = Mutex::new(Arc::new(Connections::new(options.endpoints.clone())));
        let cluster = Cluster { options, namespace, connections };
        Ok(Self { runtime: Runtime::start()?, cluster: Arc::new(cluster) })
    }

    /// Where requests go from now on: the members of the cluster are others than before. Requests that are under way
    /// end where they are, and watches go on where they are for as long as that answers. An empty list changes
    /// nothing, and so does the same one in another order.
    pub fn set_endpoints(&self, endpoints: Vec<String>) {
        let sorted = |endpoints: &[String]| {
            let mut sorted = endpoints.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let mut connections = self.cluster.held();
        if !endpoints.is_empty() && sorted(&endpoints) != sorted(&connections.endpoints) {
            *connections = Arc::new(Connections::new(endpoints));
        }
    }

    /// Runs a request to its end on the store's thread, also if nobody waits for it any more.
    fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Pending<'_, T> {
        let limited = async {
            match tokio::time::timeout(REQUEST_TIME, work).await {
                Ok(answer) => answer,
                Err(_) => Err(refusal::silent(REQUEST_TIME)),
            }
        };
        let running = self.runtime.spawn(limited);
        async { running.await.unwrap_or_else(|error| Err(StoreError::failed(error))) }.boxed()
    }
}

/// Asks again for what changes nothing, until [`REQUEST_TIME`] is over: one member of the cluster may be gone.
async fn ask_until_answered<T, F: Future<Output = Result<T, StoreError>> + Send>(
    ask: impl Fn() -> F,
) -> Result<T, StoreError> {
    const PAUSE: Duration = Duration::from_millis(100);
    let end = tokio::time::Instant::now() + REQUEST_TIME - PAUSE;
    loop {
        let failed = match tokio::time::timeout(ATTEMPT_TIME, ask()).await {
            Ok(Err(error @ StoreError::Failed(_))) => error,
            Ok(answer) => return answer,
            Err(_) => refusal::silent(ATTEMPT_TIME),
        };
        if tokio::time::Instant::now() + PAUSE >= end {
            return Err(failed);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Asks again for what may be asked once only, as long as nobody was asked: some members of the cluster may be away,
/// and each request goes to any of them.
async fn ask_once<T, F: Future<Output = Result<T, etcd_client::Error>> + Send>(
    ask: impl Fn() -> F,
) -> Result<T, etcd_client::Error> {
    const PAUSE: Duration = Duration::from_millis(50);
    let end = tokio::time::Instant::now() + ATTEMPT_TIME;
    loop {
        match ask().await {
            Err(error) if refusal::is_unsent(&error) && tokio::time::Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            asked => return asked,
        }
    }
}

impl Cluster {
    fn held(&self) -> MutexGuard<'_, Arc<Connections>> {
        // Each change is one assignment.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connections(&self) -> Arc<Connections> {
        self.held().clone()
    }

    /// A client of these members of the cluster, of whom any may answer.
    async fn connect(&self, endpoints: &[String]) -> Result<Client, StoreError> {
        let client = Client::connect::<String, _>(endpoints, Some(self.options.connect())).await;
        client.map_err(|error| refusal::of(&error))
    }

    async fn client(&self) -> Result<Client, StoreError> {
        let connections = self.connections();
        let connect = || self.connect(&connections.endpoints);
        Ok(connections.client.get_or_try_init(connect).await?.clone())
    }

    async fn keys(&self) -> Result<KvClient, StoreError> {
        let keys = self.client().await?.kv_client();
        Ok(keys.max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    async fn range(&self, selection: &Selection) -> Result<Range, StoreError> {
        let (key, options) = self.namespace.get(selection);
        let answer = self.keys().await?.get(key, Some(options)).await;
        let mut answer = answer.map_err(|error| refusal::of(&error))?;
        let revision = convert::revision(answer.header())?;
        let kvs = answer.take_kvs().into_iter().map(|kv| self.namespace.kv(kv));
        Ok(Range { revision, kvs: kvs.collect::<Result<_, _>>()? })
    }

    /// Whether the history from this revision on is whole.
    async fn is_kept_from(&self, revision: Revision) -> Result<(), StoreError> {
        let before = revision.saturating_sub(1).max(1);
        let (key, options) = self.namespace.get(&Selection::prefix(""));
        let options = options.with_revision(convert::number(before)?).with_count_only();
        match self.keys().await?.get(key, Some(options)).await {
            Ok(_) => Ok(()),
            Err(error) if refusal::is_future(&error) => Ok(()),
            Err(error) if refusal::is_compacted(&error) => {
                Err(StoreError::Compacted { compacted: revision })
            }
            Err(error) => Err(refusal::of(&error)),
        }
    }

    async fn commit(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        let request = self.namespace.transaction(transaction)?;
        let keys = self.keys().await?;
        let ask = || {
            let (mut keys, request) = (keys.clone(), request.clone());
            async move { keys.txn(request).await }
        };
        let answer = ask_once(ask).await;
        let answer = answer.map_err(|error| refusal::of_commit(&error, transaction))?;
        self.namespace.outcome(&answer)
    }

    async fn compact(&self, revision: Revision) -> Result<(), StoreError> {
        let answer = self.keys().await?.compact(convert::number(revision)?, None).await;
        let Err(error) = answer else { return Ok(()) };
        if refusal::is_compacted(&error) {
            return Err(StoreError::Compacted { compacted: revision });
        }
        if refusal::is_future(&error) {
            let present = self.range(&Selection::prefix("")).await?.revision;
            return Err(StoreError::Future { asked: revision, present });
        }
        Err(refusal::of(&error))
    }

    async fn grant(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        let seconds = convert::number(lease_seconds(ttl)?)?;
        let client = self.client().await?;
        let ask = || {
            let mut client = client.clone();
            async move { client.lease_grant(seconds, None).await }
        };
        let answer = ask_once(ask).await;
        let granted = answer.map_err(|error| refusal::of(&error))?;
        Ok(convert::lease_id(granted.id()))
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<Duration, StoreError> {
        let number = convert::lease_number(lease);
        let mut leases = self.client().await?.lease_client();
        // The client begins by asking once, and does not say the time that it was told.
        match leases.keep_alive(number).await {
            Ok(_) => {}
            Err(etcd_client::Error::LeaseKeepAliveError(_)) => {
                return Err(StoreError::NoLease(lease));
            }
            Err(error) => return Err(refusal::of(&error)),
        }
        let known = leases.time_to_live(number, None).await;
        let known = known.map_err(|error| refusal::of(&error))?;
        match u64::try_from(known.granted_ttl()) {
            Ok(seconds) if seconds > 0 && known.ttl() > 0 => Ok(Duration::from_secs(seconds)),
            _ => Err(StoreError::NoLease(lease)),
        }
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        match self.client().await?.lease_revoke(convert::lease_number(lease)).await {
            Ok(_) => Ok(()),
            Err(error) if refusal::is_no_lease(&error) => Err(StoreError::NoLease(lease)),
            Err(error) => Err(refusal::of(&error)),
        }
    }
}

impl Store for Etcd {
    fn range(&self, selection: Selection) -> Pending<'_, Range> {
        let cluster = self.cluster.clone();
        self.run(async move {
            check_selection(&selection)?;
            ask_until_answered(|| cluster.range(&selection)).await
        })
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Outcome> {
        let cluster = self.cluster.clone();
        self.run(async move {
            transaction.check()?;
            cluster.commit(&transaction).await
        })
    }

    fn watch(&self, selection: Selection, from: Revision) -> Watch {
        watch::watch(&self.runtime, &self.cluster, selection, from)
    }

    fn compact(&self, revision: Revision) -> Pending<'_, ()> {
        let cluster = self.cluster.clone();
        self.run(async move { cluster.compact(revision).await })
    }

    fn grant(&self, ttl: Duration) -> Pending<'_, LeaseId> {
        let cluster = self.cluster.clone();
        self.run(async move { cluster.grant(ttl).await })
    }

    fn keep_alive(&self, lease: LeaseId) -> Pending<'_, Duration> {
        let cluster = self.cluster.clone();
        self.run(async move { ask_until_answered(|| cluster.keep_alive(lease)).await })
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        let cluster = self.cluster.clone();
        self.run(async move { cluster.revoke(lease).await })
    }
}
