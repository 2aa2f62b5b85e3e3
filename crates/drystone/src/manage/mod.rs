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
pub(crate) mod moving;
pub(crate) mod notify;
mod password;
pub(crate) mod pools;
mod progress;
mod reservations;
pub(crate) mod run;
pub(crate) mod san;
pub(crate) mod schedule;
mod server;
mod slices;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod top;
mod transits;
pub(crate) mod volume;
mod wipe;

use crate::advice::advised;
use crate::cli::manage::MemberArgs;
use crate::print;
use anyhow::{anyhow, bail};
use api::client::{ALL_OTHERS, Client, ClientError, HERE, Progress};
use api::types::JobKind;
use progress::Bars;
use serde::Serialize;
use std::io::{self, Write};

/// A member to ask, and how to print what it says.
#[derive(Debug)]
struct Desk {
    client: Client,
    /// The member of the group that is meant, where one was named.
    on_member: Option<String>,
    json: bool,
}

impl Desk {
    fn new(args: &MemberArgs) -> anyhow::Result<Desk> {
        Self::on(args, args.on_member.clone())
    }

    /// For what this member is to do.
    fn on(args: &MemberArgs, on_member: Option<String>) -> anyhow::Result<Desk> {
        let client = server::client(args)?.on(on_member.clone());
        if let Some(name) = &on_member {
            check_is_carried(&client, name)?;
        }
        Ok(Desk { client, on_member, json: args.json })
    }

    /// For what is about one member: the one that was named, or else the one that is asked. Lists are of that one alone.
    fn of_one_member(self) -> Desk {
        let one = self.on_member.clone().unwrap_or_else(|| HERE.to_owned());
        Desk { client: self.client.on(Some(one)), ..self }
    }

    /// For the member that answers now, with all that is asked from here on: by the next call another one may have the
    /// address of the group.
    fn of_who_answers(self) -> anyhow::Result<Desk> {
        self.ask(Client::interface)?;
        let there = self.client.answered_by();
        // One that is in no group has no name to be asked by.
        Ok(match there {
            None => self,
            Some(_) => Desk { client: self.client.on(there), ..self },
        })
    }

    /// Asks for a list of what all members have, and says on stderr whose is not in it.
    fn ask_all<T>(
        &self,
        call: impl FnOnce(&Client) -> Result<Vec<T>, ClientError>,
    ) -> anyhow::Result<Vec<T>> {
        let all = self.ask(call)?;
        let missing = self.client.members_missing();
        if !missing.is_empty() {
            // The list is right as far as it goes, whoever hears of this.
            let _ = writeln!(io::stderr(), "drystone: {}", not_listed(&missing));
        }
        Ok(all)
    }

    /// The member that has carried out what was asked last: what goes on because of that is heard of there.
    fn where_it_was_done(&self) -> Desk {
        let there = self.client.answered_by();
        let (client, on_member) = (self.client.on(there.clone()), there);
        Desk { client, on_member, json: self.json }
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

/// Refuses to ask a member for another one that knows nothing of that, as those of earlier builds: it would do itself what
/// is meant for the other.
fn check_is_carried(client: &Client, name: &str) -> anyhow::Result<()> {
    // It says itself that there is no such member, that it is away, or that it is in no group.
    client.group().map_err(advised)?;
    let answered = client.answered_by();
    if !answered.is_some_and(|by| by.eq_ignore_ascii_case(name)) {
        bail!(
            "the member that is asked is of an earlier version and cannot have '{name}' do it: ask that one itself, with \
             --server or on its own machine"
        );
    }
    Ok(())
}

/// What is said of members whose things are not in a list.
fn not_listed(members: &[String]) -> String {
    if members.iter().any(|name| name == ALL_OTHERS) {
        return "this member has heard nothing of its group since it was started: only what it has itself is listed"
            .to_owned();
    }
    let names: Vec<String> = members.iter().map(|name| format!("'{name}'")).collect();
    let (noun, verb, whose) = match members.len() {
        1 => ("member", "does", "it has"),
        _ => ("members", "do", "they have"),
    };
    format!(
        "{noun} {} {verb} not answer, and what {whose} is not in this list: see 'drystone member list' and 'drystone group \
         volumes'",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::thread::{self, JoinHandle};

    /// Answers so many requests as these members, one after the other; then what member each was to be done by.
    fn answers_as(socket: &Path, members: &'static [Option<&str>]) -> JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(socket).expect("a socket");
        thread::spawn(move || {
            let answered = members.iter().map(|member| {
                let (mut stream, _) = listener.accept().expect("somebody asks");
                let head = BufReader::new(&stream).lines().map(|line| line.expect("a line"));
                let head: Vec<String> = head.take_while(|line| !line.is_empty()).collect();
                let body = "{\"addresses\": [], \"certificate_sha256\": null}";
                let by = member.map_or_else(String::new, |by| format!("drystone-member: {by}\r\n"));
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 200 OK\r\n{by}content-length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).expect("it is taken");
                let meant = head.iter().find_map(|line| line.strip_prefix("drystone-member: "));
                meant.unwrap_or_default().to_owned()
            });
            answered.collect()
        })
    }

    /// `top` at the address of a group mixed what two members had done when that went from one to the other.
    #[test]
    fn who_answers_first_is_asked_from_then_on() {
        for (members, meant) in [
            (&[Some("left"), Some("left"), Some("left")], ["@here", "left", "left"]),
            (&[None, None, None], ["@here", "@here", "@here"]),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let socket = dir.path().join("control.sock");
            let answering = answers_as(&socket, members);
            let desk = Desk { client: Client::new(socket), on_member: None, json: false };
            let desk = desk.of_one_member().of_who_answers().expect("it answers");
            for _ in 0..2 {
                desk.ask(Client::interface).expect("it answers");
            }
            assert_eq!(answering.join().expect("it ends"), meant);
        }
    }

    #[test]
    fn who_is_not_in_a_list_is_named() {
        let said = not_listed(&["right".to_owned()]);
        assert!(
            said.starts_with("member 'right' does not answer, and what it has is not"),
            "{said}"
        );
        let said = not_listed(&["b".to_owned(), "c".to_owned()]);
        assert!(
            said.starts_with("members 'b', 'c' do not answer, and what they have is"),
            "{said}"
        );
        let said = not_listed(&[ALL_OTHERS.to_owned()]);
        assert!(said.ends_with("only what it has itself is listed"), "{said}");
    }
}
