//! A disk without a path: what its commands are told, and which of them.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use block::BlockError;
use iscsi::discovery::PortalAddress;
use iscsi::text::IscsiName;
use ring::CoreConfig;
use ring::wait::both;
use scsi::param::read_capacity16;
use scsi::unit::MediumInfo;

use super::super::cdb::{self, Blocks};
use super::super::facts::{Answers, Capacity};
use super::*;
use crate::paths::RouterOptions;

const LIMIT: Duration = Duration::from_millis(50);

/// A disk of which no path is there yet.
fn unreachable_disk() -> Rc<Core> {
    let medium = MediumInfo::new(512, 1 << 20);
    let capacity = Capacity::parse_16(&read_capacity16(&medium));
    let facts = Facts::new(&Answers { capacity, ..Answers::default() }).expect("it is a disk");
    let name = |name| IscsiName::parse(name).expect("it is a name");
    let portal = PortalAddress { host: "127.0.0.1".to_owned(), port: 3260, group_tag: None };
    let address = TargetAddress::new(portal, name("iqn.2026-11.dev.drystone:target"));
    let session = SessionOptions::new(name("iqn.2026-11.dev.drystone:host"));
    let options = DiskOptions::new(session);
    let router = Router::new(RouterOptions { limit: LIMIT, ..RouterOptions::default() });
    Core::new(address, facts, &options, Vec::new(), router)
}

/// On a block of its own; as one that changes it, if it `changes` something.
fn command(lba: u64, changes: bool) -> Command {
    let blocks = Blocks { lba, count: 1 };
    let at = lba * 512;
    let reads = Command::asking(cdb::read(blocks), Transfer::In(512), at);
    let changed = changes.then(|| at..at + 512);
    Command { changes: changed, ..reads }
}

/// Runs two commands whose time is up at once; who hears of it first gives a third one, before the other has heard of it:
/// that has the other's number. Which of them ended in which order, and how long the third one took.
async fn run_three(changes: bool) -> (Vec<&'static str>, Duration) {
    let core = unreachable_disk();
    let ended = RefCell::new(Vec::new());
    let run = async |name, lba| {
        let result = core.run(command(lba, changes)).await;
        assert_eq!(result.map(drop), Err(BlockError::Unreachable), "{name}");
        ended.borrow_mut().push(name);
    };
    let first_and_third = async {
        run("first", 0).await;
        let since = ring::now();
        run("third", 2).await;
        ring::now().saturating_duration_since(since)
    };
    let (took, ()) = both(first_and_third, run("second", 1)).await;
    core.close();
    (ended.take(), took)
}

/// It neither takes the other's failure, nor has the other one wait for its own.
#[test]
fn a_command_with_the_number_of_one_that_has_failed_has_its_own_end() {
    for changes in [false, true] {
        let (ended, took) =
            ring::block_on(&CoreConfig::default(), run_three(changes)).expect("a core can be made");
        assert_eq!(ended, ["first", "second", "third"], "changes: {changes}");
        assert!(took >= LIMIT, "it failed after {took:?}; changes: {changes}");
    }
}
