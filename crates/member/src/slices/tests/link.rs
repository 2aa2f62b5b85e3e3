//! A link as the home of a volume uses it, while the member that holds the slice comes and goes.

use std::cell::Cell;

use block::testing::{Fault, Operation, Rule, check_device};
use block::{BlockError, Compared};

use super::*;

#[test]
fn conforms() {
    for (block_bytes, blocks) in [(4096, 1024), (512, 4096)] {
        let holder = Holder::start();
        let disk: Arc<dyn BlockDevice> = Arc::new(RamDisk::new(block_bytes, blocks).unwrap());
        let slice = holder.hold(HOME, &disk);
        on_core(async move {
            let options = LinkOptions { geometry: disk.geometry(), ..options() };
            let asks = Asks { holder: holder.clone(), slice, home: HOME };
            let link = SliceLink::start(&ring::remote(ring::core_id()), Arc::new(asks), options);
            check_device(Arc::new(link), 1).await;
            assert_eq!(holder.asked(), 1);
        });
    }
}

#[test]
fn requests_go_on_over_restarts_of_the_member() {
    let holder = Holder::start();
    let device = ram();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let link = link(&holder, &slice, options());
        let (ends, rounds) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let last = Rc::new(Cell::new(0));
        {
            let (link, ends, rounds, last) =
                (link.clone(), ends.clone(), rounds.clone(), last.clone());
            ring::spawn(async move {
                let mut version = 0;
                while !ends.get() {
                    version += 1;
                    let at = version % 4 * BLOCK as u64;
                    write(&*link, at, version).await;
                    assert!(read(&*link, at).await == block(at, version));
                    last.set(version);
                }
                rounds.set(version);
            });
        }
        for (is_same_port, is_silent) in
            [(true, false), (false, false), (true, true), (true, false)]
        {
            let begun = last.get();
            until("writes go on", || last.get() > begun + 8).await;
            let port = if is_silent { holder.fall_silent() } else { holder.go() };
            // One is in doubt.
            ring::sleep(Duration::from_millis(20)).await;
            holder.come(if is_same_port { port } else { 0 });
        }
        let begun = last.get();
        until("writes go on", || last.get() > begun + 8).await;
        ends.set(true);
        until("the writer ends", || rounds.get() > 0).await;
        for version in rounds.get() - 3..=rounds.get() {
            let at = version % 4 * BLOCK as u64;
            assert!(read(&*device, at).await == block(at, version), "version {version}");
        }
        assert_eq!(link.trouble(), None);
    });
}

/// They come in the order in which they were begun, whatever they meet on their way.
#[test]
fn of_writes_to_the_same_blocks_the_later_one_wins() {
    let holder = Holder::start();
    let device = ram();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        for round in 1..=3_u64 {
            let port = holder.go();
            let begin = |n| link.write(0, data(&block(0, round * 100 + n)), WriteFlags::DURABLE);
            let writes: Vec<_> = (0..8).map(begin).collect();
            holder.come(port);
            for write in writes {
                write.await.unwrap();
            }
            assert!(read(&*device, 0).await == block(0, round * 100 + 7));
        }
    });
}

/// Its effect is there, and its answer is lost with the member.
#[test]
fn a_comparison_that_is_repeated_finds_its_own_effect() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        faults.inject(Rule::always(Operation::ReadModifyWrite, Fault::HoldAnswer).times(1));
        let (old, new) = (data(&block(0, 1)), data(&block(0, 2)));
        let swap = link.compare_and_write(0, old, new, WriteFlags::DURABLE);
        until("it is at the device", || faults.held() == 1).await;
        let port = holder.fall_silent();
        holder.come(port);
        assert_eq!(swap.await, Ok(Compared::Equal));
        assert!(read(&*device, 0).await == block(0, 2));
        faults.release();
    });
}

#[test]
fn a_slice_that_is_away_for_long_is_told_of_and_comes_back() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let patience = Duration::from_millis(800);
        let link = link(&holder, &slice, LinkOptions { patience, ..options() });
        write(&*link, 0, 1).await;
        let port = holder.go();
        let begun = ring::now();
        assert_eq!(link.read(0, BLOCK).await.map(drop), Err(BlockError::Unreachable));
        assert!(ring::now() - begun >= patience, "it is waited for");
        until("it is known to be away", || {
            link.trouble().is_some_and(|(time, _)| time >= patience)
        })
        .await;
        let (_, why) = link.trouble().unwrap();
        assert_eq!(why, "the member is away");
        // Within the call: nobody waits for what is known.
        let refused = link.read(0, BLOCK).into_ready();
        assert!(matches!(refused, Ok(Err(BlockError::Unreachable))), "{refused:?}");
        holder.come(port);
        until("it works again", || link.trouble().is_none()).await;
        assert!(read(&*link, 0).await == block(0, 1));
        write(&*link, 0, 2).await;
    });
}

#[test]
fn a_slice_that_was_never_reached_is_told_of_and_comes() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    let port = holder.go();
    on_core(async move {
        let patience = Duration::from_millis(500);
        let link = link(&holder, &slice, LinkOptions { patience, ..options() });
        assert_eq!(link.flush().await, Err(BlockError::Unreachable));
        assert!(link.flush().into_ready().is_ok(), "nobody waits for what is known");
        holder.come(port);
        until("it works", || link.trouble().is_none()).await;
        write(&*link, 0, 2).await;
    });
}

/// It is not asked for again and again, either: that would end what another one has open.
#[test]
fn a_slice_of_another_size_is_not_used() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let patience = Duration::from_millis(500);
        let geometry = Geometry { blocks: BLOCKS + 1, ..geometry() };
        let link = link(&holder, &slice, LinkOptions { patience, geometry, ..options() });
        assert_eq!(link.read(0, BLOCK).await.map(drop), Err(BlockError::Unreachable));
        let (_, why) = link.trouble().unwrap();
        let wanted =
            "the slice has 512 blocks of 4096 bytes, and should have 513 of 4096 bytes or more";
        assert_eq!(why, wanted);
    });
}

#[test]
fn a_slice_whose_disk_hangs_hurts_no_other() {
    let holder = Holder::with_limit(Duration::from_millis(200));
    let (faults, device) = faulty();
    let (hangs, well) = (holder.hold(HOME, &device), holder.hold(HOME, &ram()));
    on_core(async move {
        let patience = Duration::from_secs(1);
        let hanging = link(&holder, &hangs, LinkOptions { patience, ..options() });
        let other = link(&holder, &well, options());
        write(&*hanging, 0, 1).await;
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let held = hanging.write(0, data(&block(0, 2)), WriteFlags::DURABLE);
        until("the write is at the device", || faults.held() == 1).await;
        let begun = ring::now();
        let both = async {
            for version in 1..200 {
                write(&*other, 0, version).await;
            }
            held.await
        };
        assert_eq!(both.await, Err(BlockError::Unreachable));
        assert!(ring::now() - begun < Duration::from_secs(10));
        write(&*other, 0, 300).await;
        faults.release();
        until("it works again", || hanging.trouble().is_none()).await;
        write(&*hanging, 0, 3).await;
        assert!(read(&*device, 0).await == block(0, 3));
    });
}

#[test]
fn a_link_that_is_dropped_ends_its_session_and_asks_no_more() {
    let holder = Holder::start();
    let slice = holder.hold(HOME, &ram());
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        assert_eq!((holder.sessions(), holder.asked()), (1, 1));
        drop(link);
        until("its session ends", || holder.sessions() == 0).await;
        holder.served().open(&slice, HOME, 2).await.unwrap();
        ring::sleep(LOOK).await;
        assert_eq!(holder.asked(), 1);
    });
}

/// A link is used on all cores.
#[test]
fn requests_come_from_other_cores() {
    let holder = Holder::start();
    let device = ram();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let asks = Asks { holder: holder.clone(), slice, home: HOME };
        let link = SliceLink::start(&ring::remote(ring::core_id()), Arc::new(asks), options());
        let link: Arc<dyn BlockDevice> = Arc::new(link);
        let (done, written) = ring::oneshot();
        let used = link.clone();
        std::thread::spawn(move || {
            let test = async move {
                write(&*used, 0, 5).await;
                done.send(read(&*used, 0).await == block(0, 5));
            };
            ring::block_on(&core(), test).unwrap();
        });
        assert_eq!(written.await, Some(true));
        assert!(read(&*device, 0).await == block(0, 5));
    });
}
