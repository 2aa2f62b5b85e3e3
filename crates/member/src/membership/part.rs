//! The part of the store that this member runs: its etcd. Starting and stopping take a while, and block.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use group::cluster::{self, Begin, Server, ServerConfig, ServerState};
use ring::wait::Turn;

use super::GroupError;
use super::files::{GroupDir, MembershipFile};
use super::health::{Health, News};

/// Invariant: at most one etcd runs, and none is started once the end has begun, whoever stops waiting when: what is
/// begun with it goes on to its end.
pub(super) struct Part {
    dir: GroupDir,
    server: RefCell<Option<Server>>,
    /// Who has it starts or stops it.
    turn: Turn,
    is_over: Cell<bool>,
    /// Why it is not started, where it is to run.
    refusal: RefCell<Option<String>>,
    health: RefCell<Health>,
}

impl Part {
    pub(super) fn new(dir: &GroupDir) -> Self {
        let (server, turn) = (RefCell::default(), Turn::default());
        let (is_over, refusal, health) = (Cell::default(), RefCell::default(), RefCell::default());
        Self { dir: dir.clone(), server, turn, is_over, refusal, health }
    }

    /// How it does; `None` where none was started.
    pub(super) fn state(&self) -> Option<ServerState> {
        self.server.borrow().as_ref().map(Server::state)
    }

    /// Why it is not started where it is to run, or that there is no such reason.
    pub(super) fn note_refusal(&self, refusal: Option<String>) {
        self.refusal.replace(refusal);
    }

    /// Looks whether it does its work, and says what is new about that.
    pub(super) fn look(&self, now: Instant) -> Option<News> {
        let fault = match self.state() {
            Some(state) => state.fault(),
            None => self.refusal.borrow().clone(),
        };
        self.health.borrow_mut().look(fault, now)
    }

    /// Why it does not do its work, for so long that somebody was told.
    pub(super) fn fault(&self) -> Option<String> {
        self.health.borrow().fault()
    }

    /// Whether there is anything that it goes on with.
    pub(super) async fn has_data(&self) -> bool {
        let dir = self.dir.etcd();
        ring::blocking(move || cluster::has_data(&dir)).await
    }

    /// Starts it, unless it runs.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) async fn start(
        self: &Rc<Self>,
        file: &MembershipFile,
        begin: Begin,
    ) -> Result<(), GroupError> {
        let config = self.config(file, begin);
        let started = self.in_turn(async move |part: &Self| part.start_now(config).await);
        started.await.unwrap_or(Err(GroupError::Stopping))
    }

    /// Does something with it when nobody else does, and to its end whoever waits for that. `None` where the core ends
    /// before.
    async fn in_turn<T: Send + 'static>(
        self: &Rc<Self>,
        work: impl AsyncFnOnce(&Self) -> T + 'static,
    ) -> Option<T> {
        let part = self.clone();
        let (done, result) = ring::oneshot();
        ring::spawn(async move {
            let _turn = part.turn.take().await;
            done.send(work(&part).await);
        });
        result.await
    }

    async fn start_now(&self, config: ServerConfig) -> Result<(), GroupError> {
        if self.is_over.get() {
            return Err(GroupError::Stopping);
        }
        if self.server.borrow().is_some() {
            return Ok(());
        }
        let server = ring::blocking(move || Server::start(config)).await?;
        let before = self.server.replace(Some(server));
        debug_assert!(before.is_none(), "who starts it has the turn");
        Ok(())
    }

    /// Stops it, if it runs. Its data stay.
    pub(super) async fn stop(self: &Rc<Self>) {
        self.in_turn(async |part: &Self| part.stop_now().await).await;
    }

    async fn stop_now(&self) {
        let server = self.server.take();
        if let Some(server) = server {
            ring::blocking(move || server.stop()).await;
        }
    }

    /// The same, for good.
    pub(super) async fn end(self: &Rc<Self>) {
        self.is_over.set(true);
        self.stop().await;
    }

    /// Stops it and deletes its data: its seat is gone.
    ///
    /// # Errors
    /// They cannot be deleted.
    pub(super) async fn forget(self: &Rc<Self>) -> Result<(), GroupError> {
        let forgotten = self.in_turn(async |part: &Self| part.forget_now().await);
        forgotten.await.unwrap_or(Err(GroupError::Stopping))
    }

    async fn forget_now(&self) -> Result<(), GroupError> {
        self.stop_now().await;
        let dir = self.dir.etcd();
        let path = dir.clone();
        let forgotten = ring::blocking(move || cluster::forget(&dir)).await;
        forgotten.map_err(|source| GroupError::Files { path, source })
    }

    fn config(&self, file: &MembershipFile, begin: Begin) -> ServerConfig {
        ServerConfig {
            dir: self.dir.etcd(),
            member: file.member,
            group: file.group.clone(),
            address: file.address,
            client_port: file.port + 1,
            peer_port: file.port + 2,
            certificate: self.dir.certificate(),
            key: self.dir.key(),
            authority: self.dir.authority(),
            begin,
        }
    }

    /// Where it keeps its data.
    pub(super) fn place(&self) -> PathBuf {
        self.dir.etcd()
    }
}
