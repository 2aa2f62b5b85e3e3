//! What is asked of a volume while it moves: another move, a snapshot, another size.

use std::thread;

use rustix::process::Signal;

use crate::busy::{Bed, NAMES, VOLUME, WORKER, await_snapshots, roomy_sites, write_all, write_cdb};
use crate::common::member::Member;
use crate::host::Host;
use crate::ledger::BLOCK_BYTES;
use crate::load::verify;
use crate::moving::slowly;
use crate::sites::{PATIENCE, asked, wait_for};

/// The last block of the volume once it has grown to 128 MiB.
const LAST_BLOCK: usize = (128 << 20) / BLOCK_BYTES - 1;

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
                scope.spawn(move || slowly(&members[to], &line))
            });
            asking.map(|one| one.join().expect("it ends"))
        });
        let winner = match &outcomes {
            [(0, ..), (1, ..)] => 1,
            [(1, ..), (0, ..)] => 2,
            _ => panic!("one of both: {outcomes:?}"),
        };
        let (_, out, said) = &outcomes[2 - winner];
        let wanted = format!("'{VOLUME}' is being moved to '{}'", NAMES[winner]);
        assert!(out.is_empty() && said.contains(&wanted), "{out}{said}");
        assert_eq!(busy.await_owner(members), winner);
        busy.await_work();
        assert!(busy.ended() > 0, "its sessions were ended");
    });
    bed.check();
}

/// The destination is stopped meanwhile: so none of it comes too late.
#[test]
fn a_snapshot_that_is_taken_and_a_size_that_is_set_while_a_volume_moves_arrive_with_it() {
    let sites = roomy_sites();
    let mut bed = Bed::make(&sites);
    let Bed { members, busy, now, .. } = &mut bed;
    let (members, busy) = (&*members, &*busy);
    let (a, b) = (&members[0], &members[1]);
    let iqn = a.iqn(VOLUME);
    let begun = a.json(&["volume", "move", VOLUME, "--to", "b", "--no-wait"]);
    b.signal(Signal::STOP);
    a.run(&["snapshot", "create", VOLUME, "s2"]);
    let mut at_s2 = now.clone();
    a.run(&["volume", "resize", VOLUME, "128M"]);
    // What hosts write behind the snapshot is the volume's alone.
    let mut host = Host::log_in(a.portal(), &iqn, WORKER, &[0]).expect("it is served");
    let written = write_all(&mut host, now, &[0..8, 4096..4104]).expect("it is served");
    assert_eq!(written, 2);
    let grown = LAST_BLOCK..LAST_BLOCK + 1;
    let answer = host.run(0, &write_cdb(&grown), 0, &[7; BLOCK_BYTES]).expect("an answer");
    assert!(answer.is_good(), "{answer:?}");
    drop(host);
    b.signal(Signal::CONT);
    await_done(a, begun["id"].as_str().expect("a run has a name"));
    assert_eq!(busy.await_owner(members), 1);

    let shown = b.json(&["volume", "show", VOLUME]);
    assert_eq!(shown["size_bytes"], 128 << 20, "{shown}");
    await_snapshots(b, &["s1", "s2"]);
    let list = b.json(&["snapshot", "list", VOLUME]);
    let sizes = [&list[0]["size_bytes"], &list[1]["size_bytes"]];
    assert_eq!(sizes, [96 << 20, 96 << 20], "as it was then: {list}");
    let mut host = Host::log_in(b.portal(), &iqn, WORKER, &[0]).expect("it is served");
    verify(&mut host, 0, now).expect("all is there that was acknowledged");
    let mut cdb = write_cdb(&grown);
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
}

/// Waits until a run of this member has done what it was asked for.
#[track_caller]
fn await_done(member: &Member<'_>, id: &str) {
    wait_for("the move ends", PATIENCE, || {
        let list = asked(member, &["run", "list"])?;
        let mut runs = list.as_array().into_iter().flatten();
        let run = runs.find(|run| run["id"] == id).ok_or_else(|| list.to_string())?;
        if run["state"] == "running" {
            return Err(run.to_string());
        }
        assert_eq!(run["state"], "done", "{run}");
        Ok(())
    });
}
