//! What is asked of a volume while it moves: another move, a snapshot, another size.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::busy::{Bed, NAMES, VOLUME, WORKER, await_snapshots, roomy_sites, write_all, write_cdb};
use crate::common::member::Member;
use crate::host::Host;
use crate::ledger::{BLOCK_BYTES, Ledger};
use crate::load::verify;
use crate::sites::{PATIENCE, asked, wait_for};

/// The last block of the volume once it has grown to 128 MiB.
const LAST_BLOCK: usize = (128 << 20) / BLOCK_BYTES - 1;
const GROWN: Range<usize> = LAST_BLOCK..LAST_BLOCK + 1;

#[test]
fn of_two_that_move_a_volume_at_the_same_instant_one_does() {
    let sites = roomy_sites();
    let mut bed = Bed::make(&sites);
    let Bed { members, busy, now, .. } = &mut bed;
    let (members, busy) = (&*members, &*busy);
    busy.beside(now, || {
        let outcomes = thread::scope(|scope| {
            // Each for itself.
            let asking = [1, 2].map(|to: usize| {
                let line = ["volume", "move", VOLUME, "--to", NAMES[to]];
                scope.spawn(move || members[to].home.ask(&line))
            });
            asking.map(|one| one.join().expect("it ends"))
        });
        let winner = match &outcomes {
            [(0, ..), (1, ..)] => 1,
            [(1, ..), (0, ..)] => 2,
            _ => panic!("one of both: {outcomes:?}"),
        };
        // On a busy machine it may be another refusal than that it is being moved.
        let (_, out, said) = &outcomes[2 - winner];
        assert!(out.is_empty() && !said.is_empty(), "{out}{said}");
        assert_eq!(busy.await_owner(members), winner);
        busy.await_work();
        assert!(busy.ended() > 0, "its sessions were ended");
    });
    bed.check();
}

/// A move whose destination was stopped for longer may fail: it is given up when that one is away, as members are that
/// nothing was heard of for 10 s, and they say that they are there every other second.
const STOPPED: Duration = Duration::from_secs(6);

/// How often a machine that is busy with other things may take longer than that, or the move be at its end before.
const ATTEMPTS: usize = 8;

#[test]
fn a_snapshot_that_is_taken_and_a_size_that_is_set_while_a_volume_moves_arrive_with_it() {
    let done = (0..ATTEMPTS).any(|_| match arrive_with_it() {
        Ok(()) => true,
        Err(why) => {
            eprintln!("once more: {why}");
            false
        }
    });
    assert!(done, "none of {ATTEMPTS} moves was under way when its volume was changed");
}

/// The destination is stopped meanwhile: so none of it comes too late. Says why that was not shown: whatever is wrong with
/// a move that was stopped in time fails the test.
fn arrive_with_it() -> Result<(), String> {
    let sites = roomy_sites();
    let mut bed = Bed::make(&sites);
    let Bed { members, busy, now, .. } = &mut bed;
    let (members, busy) = (&*members, &*busy);
    let (a, b) = (&members[0], &members[1]);
    let iqn = a.iqn(VOLUME);
    // It stays until hosts lose the volume.
    let mut host = Host::log_in(a.portal(), &iqn, WORKER, &[0]).expect("it is served");
    // As the snapshot holds it.
    let mut at_s2 = now.clone();
    let begun = a.json(&["volume", "move", VOLUME, "--to", "b", "--no-wait"]);
    let run = begun["id"].as_str().expect("a run has a name");
    b.signal(Signal::STOP);
    let stopped = Instant::now();
    let changed = change(a, &mut host, now);
    drop(host);
    let took = stopped.elapsed();
    if let Err(why) = &changed {
        // As long as it is stopped: behind that the move may come to its end.
        assert!(took > STOPPED || is_at_its_end(a, run), "in {took:?}: {why}");
    }
    b.signal(Signal::CONT);
    changed?;
    if let Some(why) = problem_of(a, run) {
        assert!(took > STOPPED, "in {took:?}: {why}");
        return Err(format!("its destination was stopped for {took:?}: {why}"));
    }
    assert_eq!(busy.await_owner(members), 1);

    let shown = b.json(&["volume", "show", VOLUME]);
    assert_eq!(shown["size_bytes"], 128 << 20, "{shown}");
    await_snapshots(b, &["s1", "s2"]);
    let list = b.json(&["snapshot", "list", VOLUME]);
    let sizes = [&list[0]["size_bytes"], &list[1]["size_bytes"]];
    assert_eq!(sizes, [96 << 20, 96 << 20], "as it was then: {list}");
    let mut host = Host::log_in(b.portal(), &iqn, WORKER, &[0]).expect("it is served");
    verify(&mut host, 0, now).expect("all is there that was acknowledged");
    let mut cdb = write_cdb(&GROWN);
    cdb[0] = 0x88;
    let answer = host.run(0, &cdb, BLOCK_BYTES as u32, &[]).expect("an answer");
    assert!(answer.is_good() && answer.data == [7; BLOCK_BYTES], "also behind its old end");
    drop(host);
    let shown = b.json(&["snapshot", "online", VOLUME, "s2"]);
    let of_s2 = shown["iqn"].as_str().expect("it has a target");
    let mut old = Host::log_in(b.portal(), of_s2, WORKER, &[0]).expect("it is served");
    verify(&mut old, 0, &mut at_s2).expect("the snapshot is what it was");
    drop(old);
    b.run(&["snapshot", "offline", VOLUME, "s2"]);
    b.run(&["snapshot", "delete", VOLUME, "s2", "--yes"]);
    bed.check();
    Ok(())
}

/// Takes a snapshot of the volume, sets another size and writes behind both; says where the move was too fast for that.
fn change(member: &Member<'_>, host: &mut Host, now: &mut Ledger) -> Result<(), String> {
    for line in [["snapshot", "create", VOLUME, "s2"], ["volume", "resize", VOLUME, "128M"]] {
        match member.home.ask(&line) {
            (0, ..) => {}
            (_, _, said) => return Err(format!("{line:?}: {said}")),
        }
    }
    // What hosts write behind the snapshot is the volume's alone.
    let written = write_all(host, now, &[0..8, 4096..4104]).map_err(|error| error.to_string())?;
    assert_eq!(written, 2);
    let answer = host.run(0, &write_cdb(&GROWN), 0, &[7; BLOCK_BYTES]);
    let mut answer = answer.map_err(|error| error.to_string())?;
    if answer.is_to_repeat() {
        // It is told of the new size first.
        let again = host.run(0, &write_cdb(&GROWN), 0, &[7; BLOCK_BYTES]);
        answer = again.map_err(|error| error.to_string())?;
    }
    assert!(answer.is_good(), "{answer:?}");
    Ok(())
}

/// Whether a move from this member is at its end, or hosts have lost its volume already, of which it has stored that it leaves.
#[track_caller]
fn is_at_its_end(member: &Member<'_>, id: &str) -> bool {
    let parts = asked(member, &["volume", "transits", "--on", "a"]).expect("it answers");
    let list = asked(member, &["run", "list", "--on", "a"]).expect("it answers");
    let mut runs = list.as_array().into_iter().flatten();
    let run = runs.find(|run| run["id"] == id).expect("it is kept");
    run["state"] != "running" || parts != serde_json::json!([])
}

/// Waits for the end of a run of this member; says how it is where it has not done what it was asked for.
#[track_caller]
fn problem_of(member: &Member<'_>, id: &str) -> Option<String> {
    wait_for("the move ends", PATIENCE, || {
        let list = asked(member, &["run", "list"])?;
        let mut runs = list.as_array().into_iter().flatten();
        let run = runs.find(|run| run["id"] == id).ok_or_else(|| list.to_string())?;
        if run["state"] == "running" {
            return Err(run.to_string());
        }
        Ok((run["state"] != "done").then(|| run.to_string()))
    })
}
