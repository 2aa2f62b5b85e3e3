//! A volume that lies on three members and is one disk, whatever becomes of one of them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{io, thread};

use rustix::process::Signal;
use scsi::SenseKey;
use serde_json::Value;

use crate::busy::{NAMES, log_in_by_way_of, roomy_sites, write_cdb};
use crate::common::member::Member;
use crate::host::{Answer, Host};
use crate::ledger::{BLOCK_BYTES, Ledger};
use crate::sites::{
    PATIENCE, Site, asked, await_alone, await_event, await_volume, group_of, listed, remove,
    run_slowly, wait_for,
};

const VOLUME: &str = "big";
/// Who may use it: what hosts of these tests are called.
const HOST: &str = "iqn.2026-11.dev.drystone:crash-test";
/// Blocks of 4 KiB of a page, and pages of the volume: it has 1 GiB.
const PAGE_BLOCKS: usize = 4096;
const PAGES: usize = 64;
/// Blocks of one write.
const WRITE_BLOCKS: usize = 8;
/// Commands under way.
const DEPTH: usize = 16;

/// A range in each page, and one over the border to the next: of two slices each, as those of neighbours are others'.
fn ranges() -> Vec<Range<usize>> {
    let of_page = |page: usize| {
        let first = page * PAGE_BLOCKS;
        let inside = first + 64..first + 64 + WRITE_BLOCKS;
        let end = first + PAGE_BLOCKS;
        let border = end - WRITE_BLOCKS / 2..(end + WRITE_BLOCKS / 2).min(PAGES * PAGE_BLOCKS);
        [inside, border]
    };
    (0..PAGES).flat_map(of_page).collect()
}

/// Makes the volume, by way of another member. What members have told of their room may be some seconds old.
#[track_caller]
fn make(asked_member: &Member<'_>) -> Value {
    wait_for("it lies on three members", PATIENCE, || {
        let line = ["volume", "create", VOLUME, "1G", "--spread", "3", "--on", "a", "--json"];
        let (code, out, said) = asked_member.home.ask(&line);
        if code != 0 {
            return Err(said);
        }
        let made: Value = serde_json::from_str(&out).expect("it is JSON");
        if made["spread"]["slices"].as_array().is_some_and(|slices| slices.len() == 3) {
            return Ok(made);
        }
        run_slowly(asked_member, &["volume", "offline", VOLUME, "--yes"]);
        run_slowly(asked_member, &["volume", "purge", VOLUME, "--yes"]);
        Err(made.to_string())
    })
}

/// The volume, for the hosts of these tests; its iSCSI name.
#[track_caller]
fn made_for_hosts(members: &[Member<'_>]) -> String {
    make(&members[1]);
    run_slowly(&members[2], &["volume", "access", "add", VOLUME, "--iqn", HOST]);
    for member in members {
        await_volume(member, VOLUME, "a", true);
    }
    members[0].iqn(VOLUME)
}

/// Whether nothing was done, or may be done again: as of pages of a member that is away.
fn is_to_repeat(answer: &Answer) -> bool {
    answer.is_to_repeat() || answer.key() == Some(SenseKey::NotReady)
}

/// Writes all of these until each is acknowledged.
fn write_all(host: &mut Host, ledger: &mut Ledger, ranges: &[Range<usize>]) -> io::Result<()> {
    for ranges in ranges.chunks(DEPTH) {
        let mut under_way = HashMap::new();
        for range in ranges {
            let data = ledger.begin(range.clone());
            let itt = host.start(0, &write_cdb(range), 0, &data)?;
            under_way.insert(itt, (range.clone(), data));
        }
        while !under_way.is_empty() {
            let answer = host.finish()?;
            let (range, data) = under_way.remove(&answer.itt).expect("a write of ours");
            if is_to_repeat(&answer) {
                let itt = host.start(0, &write_cdb(&range), 0, &data)?;
                under_way.insert(itt, (range, data));
                continue;
            }
            assert!(answer.is_good(), "a write failed: {answer:?}");
            ledger.acknowledge(range);
        }
    }
    Ok(())
}

fn read_cdb(blocks: &Range<usize>) -> [u8; 16] {
    let mut cdb = write_cdb(blocks);
    cdb[0] = 0x88;
    cdb
}

fn read(host: &mut Host, blocks: &Range<usize>) -> io::Result<Vec<u8>> {
    loop {
        let bytes = (blocks.len() * BLOCK_BYTES) as u32;
        let answer = host.run(0, &read_cdb(blocks), bytes, &[])?;
        if is_to_repeat(&answer) {
            continue;
        }
        assert!(answer.is_good(), "a read failed: {answer:?}");
        return Ok(answer.data);
    }
}

/// Reads all of these, and judges what they hold.
fn verify(host: &mut Host, ledger: &mut Ledger, ranges: &[Range<usize>]) -> io::Result<()> {
    for range in ranges {
        let data = read(host, range)?;
        for (number, bytes) in range.clone().zip(data.chunks(BLOCK_BYTES)) {
            if let Err(what) = ledger.judge(number, bytes) {
                panic!("{what}");
            }
        }
    }
    Ok(())
}

/// CRC32C (RFC 3720 appendix B.4), bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(u32::MAX, byte)
}

/// A block that ends in its own CRC32C: with that any digest of it is the same number.
fn with_own_crc(number: usize) -> Vec<u8> {
    let mut block = vec![number as u8; BLOCK_BYTES - 4];
    let crc = crc32c(&block);
    block.extend(crc.to_le_bytes());
    block
}

/// Blocks of all pages that are alike, that end in their own digest, and that are zeroes.
fn check_odd_data(host: &mut Host) {
    for page in 0..PAGES {
        let first = page * PAGE_BLOCKS + 256;
        let data =
            [with_own_crc(page), with_own_crc(7), vec![0; BLOCK_BYTES], vec![0xff; BLOCK_BYTES]];
        let (range, data) = (first..first + data.len(), data.concat());
        let answer = host.run(0, &write_cdb(&range), 0, &data).expect("it is served");
        assert!(answer.is_good(), "page {page}: {answer:?}");
        assert!(read(host, &range).expect("it is served") == data, "page {page}");
    }
}

/// Waits until no member has or awaits a part of the volume, and none lists it.
#[track_caller]
fn await_nothing(members: &[Member<'_>]) {
    for member in members {
        wait_for("nothing is left of it", PATIENCE, || {
            let slices = asked(member, &["volume", "slices"])?;
            let all = listed(member)?;
            match slices.as_array().is_some_and(Vec::is_empty) && all.is_empty() {
                true => Ok(()),
                false => Err(format!("{slices} {all:?}")),
            }
        });
    }
}

#[test]
fn a_volume_on_three_members_is_one_disk_for_hosts() {
    let sites = roomy_sites();
    let members = group_of(&sites);
    let iqn = made_for_hosts(&members);
    let [a, b, c] = &members;
    for member in &members {
        let shown = member.json(&["volume", "show", VOLUME]);
        let slices = shown["spread"]["slices"].as_array().expect("they are listed");
        let names: Vec<_> = slices.iter().map(|slice| slice["member"].as_str()).collect();
        assert_eq!((names.len(), names[0]), (3, Some("a")), "{shown}");
        let pages = slices.iter().filter_map(|slice| slice["pages"].as_u64()).sum::<u64>();
        assert_eq!(pages, PAGES as u64, "{shown}");
        assert!(slices.iter().all(|slice| slice["pages"] != 0), "{shown}");
    }
    let text = c.run(&["volume", "show", VOLUME]);
    assert!(text.contains("a (home)"), "{text}");

    let mut ledger = Ledger::new(2 * PAGES * PAGE_BLOCKS);
    // That one has yet to hear of it.
    let mut host = wait_for("hosts are sent there", PATIENCE, || {
        log_in_by_way_of(b.portal(), &iqn, 1).ok_or_else(|| "no login".to_owned())
    });
    write_all(&mut host, &mut ledger, &ranges()).expect("it is served");
    verify(&mut host, &mut ledger, &ranges()).expect("it is served");
    check_odd_data(&mut host);

    run_slowly(c, &["volume", "resize", VOLUME, "2G"]);
    let end = ledger.blocks();
    let behind = [end - WRITE_BLOCKS..end, PAGES * PAGE_BLOCKS..PAGES * PAGE_BLOCKS + WRITE_BLOCKS];
    write_all(&mut host, &mut ledger, &behind).expect("it is served");
    verify(&mut host, &mut ledger, &[&ranges()[..], &behind].concat()).expect("it is served");
    drop(host);

    for (line, part) in [
        (&["volume", "resize", VOLUME, "1G", "--shrink", "--yes"][..], "spread"),
        (&["snapshot", "create", VOLUME, "s1"], "spread"),
        (&["volume", "move", VOLUME, "--to", "b", "--no-wait"], "spread"),
        (&["volume", "delete", VOLUME, "--yes"], "purge"),
        (&["volume", "purge", VOLUME, "--yes"], "online"),
        (&["volume", "create", VOLUME, "1G", "--spread", "2"], "big"),
        (&["member", "remove", "b", "--yes"], "big"),
    ] {
        let said = c.refused(line);
        assert!(said.contains(part), "{line:?}: {said}");
    }
    run_slowly(b, &["volume", "offline", VOLUME, "--yes"]);
    run_slowly(b, &["volume", "purge", VOLUME, "--yes"]);
    await_nothing(&members);
    // Its name and its room are free.
    make(a);
}

#[test]
fn a_member_that_ends_at_once_takes_nothing_along_that_was_acknowledged() {
    let sites = roomy_sites();
    let mut members = Vec::from(group_of(&sites));
    let iqn = made_for_hosts(&members);
    let mut ledger = Ledger::new(PAGES * PAGE_BLOCKS);
    for killed in [1, 2, 0] {
        let mut host = log_in_by_way_of(members[0].portal(), &iqn, 1).expect("it is served");
        verify(&mut host, &mut ledger, &ranges()).expect("it is served");
        let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        let member = members.remove(killed);
        let started = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    // The home takes the session along.
                    if write_all(&mut host, &mut ledger, &ranges()).is_err() {
                        return;
                    }
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
            wait_for("hosts write", PATIENCE, || match rounds.load(Ordering::Relaxed) {
                0 => Err("not yet".to_owned()),
                _ => Ok(()),
            });
            member.crash();
            sites[killed].await_no_etcd();
            let started = Site::start(&sites[killed]);
            is_over.store(true, Ordering::Relaxed);
            started
        });
        members.insert(killed, started);
        wait_for("all there is can be read", PATIENCE, || {
            let mut host = log_in_by_way_of(members[0].portal(), &iqn, 1).ok_or("no login")?;
            verify(&mut host, &mut ledger, &ranges()).map_err(|error| error.to_string())
        });
    }
}

#[test]
fn while_a_member_is_away_its_pages_fail_and_the_others_do_not() {
    let sites = roomy_sites();
    let members = group_of(&sites);
    let iqn = made_for_hosts(&members);
    let [a, b, _] = &members;
    let mut ledger = Ledger::new(PAGES * PAGE_BLOCKS);
    let mut host = log_in_by_way_of(a.portal(), &iqn, 1).expect("it is served");
    write_all(&mut host, &mut ledger, &ranges()).expect("it is served");
    b.signal(Signal::STOP);
    // One of each of the first pages, at once: those of a member that is away wait for it.
    let mut started = HashMap::new();
    for page in 0..DEPTH {
        let range = page * PAGE_BLOCKS + 64..page * PAGE_BLOCKS + 65;
        let itt = host.start(0, &read_cdb(&range), BLOCK_BYTES as u32, &[]).expect("it is served");
        started.insert(itt, page);
    }
    let (mut good, mut failed) = (Vec::new(), Vec::new());
    while !started.is_empty() {
        let answer = host.finish().expect("each is answered in time");
        let page = started.remove(&answer.itt).expect("a read of ours");
        match answer.key() {
            None => good.push(page),
            Some(key) => {
                assert_eq!(key, SenseKey::NotReady, "page {page}: {answer:?}");
                failed.push(page);
            }
        }
    }
    assert!(!failed.is_empty() && good.len() > failed.len(), "{good:?} {failed:?}");
    wait_for("the home says so", PATIENCE, || {
        let (_, out, said) = a.home.ask(&["status"]);
        if out.contains("cannot be reached since") { Ok(()) } else { Err(out + &said) }
    });
    await_event(a, "slice_unreachable");
    b.signal(Signal::CONT);
    let range = failed[0] * PAGE_BLOCKS + 64..failed[0] * PAGE_BLOCKS + 64 + WRITE_BLOCKS;
    wait_for("it is there again", PATIENCE, || {
        let answer = host.run(0, &read_cdb(&range), (range.len() * BLOCK_BYTES) as u32, &[]);
        match answer.expect("the session is there still") {
            answer if answer.is_good() => Ok(()),
            answer => Err(format!("{answer:?}")),
        }
    });
    verify(&mut host, &mut ledger, &ranges()).expect("it is served");
    await_event(a, "slice_reachable");
    drop(host);

    // What is deleted meanwhile goes when the member is back.
    run_slowly(a, &["volume", "offline", VOLUME, "--yes"]);
    b.signal(Signal::STOP);
    run_slowly(a, &["volume", "purge", VOLUME, "--yes"]);
    let awaited = a.json(&["volume", "slices", "--on", "a"]);
    assert!(awaited.to_string().contains("awaited"), "{awaited}");
    b.signal(Signal::CONT);
    await_nothing(&members);
    assert_eq!(NAMES.len(), members.len());
}

/// Waits until this member says of a part of a volume that it is in this state.
#[track_caller]
fn await_state(member: &Member<'_>, state: &str) -> Value {
    wait_for(state, PATIENCE, || {
        let slices = asked(member, &["volume", "slices"])?;
        let found = slices.as_array().and_then(|all| all.iter().find(|one| one["state"] == state));
        found.cloned().ok_or_else(|| slices.to_string())
    })
}

#[test]
fn what_a_removed_member_had_is_left_to_operators() {
    let sites = roomy_sites();
    let [a, b, c] = group_of(&sites);
    make(&a);
    for member in [&a, &c] {
        await_volume(member, VOLUME, "a", true);
    }
    b.crash();
    let said = a.refused(&["member", "remove", "b", "--yes"]);
    assert!(said.contains(VOLUME), "{said}");
    remove(&a, &["b", "--despite-spreads"]);
    run_slowly(&c, &["volume", "offline", VOLUME, "--yes"]);
    run_slowly(&c, &["volume", "purge", VOLUME, "--yes"]);
    let awaited = await_state(&a, "awaited");
    assert_eq!(awaited["is_in_vain"], true, "{awaited}");
    let (code, out, _) = a.home.ask(&["status"]);
    assert!(code == 1 && out.contains("discard-slice"), "{out}");
    let number = awaited["id"].as_str().expect("it has one").to_owned();
    run_slowly(&c, &["volume", "discard-slice", &number[..8], "--yes"]);
    for member in [&a, &c] {
        wait_for("nothing is awaited", PATIENCE, || match asked(member, &["volume", "slices"])? {
            slices if slices.as_array().is_some_and(Vec::is_empty) => Ok(()),
            slices => Err(slices.to_string()),
        });
    }
    // It keeps what it has, and whoever runs it decides.
    sites[1].await_no_etcd();
    let b = sites[1].start();
    await_alone(&b);
    let left = await_state(&b, "left-over");
    assert_eq!(left["volume"], VOLUME, "{left}");
    b.run(&["volume", "discard-slice", &number[..8], "--yes"]);
    assert_eq!(b.json(&["volume", "slices"]), Value::Array(Vec::new()));
    assert_eq!(b.json(&["volume", "list"]), Value::Array(Vec::new()));
}
