//! The commands that ask a running member.

pub(crate) mod access;
pub(crate) mod array;
pub(crate) mod audit;
pub(crate) mod chap;
mod confirm;
pub(crate) mod connections;
pub(crate) mod disk;
pub(crate) mod events;
pub(crate) mod group;
pub(crate) mod interface;
pub(crate) mod logins;
pub(crate) mod members;
pub(crate) mod notify;
mod password;
mod progress;
mod reservations;
pub(crate) mod run;
pub(crate) mod san;
pub(crate) mod schedule;
mod server;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod volume;
mod wipe;

use crate::advice::advised;
use crate::cli::manage::MemberArgs;
use crate::print;
use anyhow::anyhow;
use api::client::{Client, ClientError, Progress};
use api::types::JobKind;
use progress::Bars;
use serde::Serialize;

/// A member to ask, and how to print what it says.
#[derive(Debug)]
struct Desk {
    client: Client,
    json: bool,
}

impl Desk {
    fn new(args: &MemberArgs) -> anyhow::Result<Desk> {
        Ok(Desk { client: server::client(args)?, json: args.json })
    }

    fn ask<T>(&self, call: impl FnOnce(&Client) -> Result<T, ClientError>) -> anyhow::Result<T> {
        call(&self.client).map_err(advised)
    }

    /// Asks for long work, with bars that show how it goes on.
    fn follow<T>(
        &self,
        call: impl FnOnce(&Client, Progress<'_>) -> Result<T, ClientError>,
    ) -> anyhow::Result<T> {
        let mut bars = Bars::new();
        call(&self.client, &mut |jobs| bars.show(jobs)).map_err(advised)
    }

    /// Waits until there is no work of these kinds any more.
    fn wait_for(&self, kinds: &[JobKind]) -> anyhow::Result<()> {
        self.follow(|member, progress| member.wait_for(kinds, progress))
    }

    /// The same after something was `done`, which stays so whatever becomes of the member.
    fn wait_after(&self, done: &str, kinds: &[JobKind]) -> anyhow::Result<()> {
        self.wait_for(kinds).map_err(|error| {
            anyhow!(
                "{done}, and what that needs goes on in the background, also after a restart; but {error:#}"
            )
        })
    }

    /// Prints a thing, or what `text` makes of it for people.
    fn show<T: Serialize>(
        &self,
        thing: &T,
        text: impl FnOnce(&T) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        if self.json { print::json(thing) } else { print::out(&text(thing)?) }
    }

    /// Says that something without an answer is done.
    fn done(&self, sentence: &str) -> anyhow::Result<()> {
        let done = serde_json::json!({ "done": true });
        self.show(&done, |_| Ok(format!("{sentence}\n")))
    }
}
