//! A link as the home of a volume uses it, while the member that holds the slice comes and goes.

use std::cell::Cell;

use block::testing::{Fault, Operation, Rule, check_device};
use block::{BlockError, Compared, IoFuture};
use target::{Access, Config, FileStore, Limits, Server, TargetSpec, UnitSpec};

use super::*;

/// Compares the first block with one version, and writes another one.
fn swap(disk: &dyn BlockDevice, from: u64, to: u64) -> IoFuture<Compared> {
    disk.compare_and_write(0, data(&block(0, from)), data(&block(0, to)), WriteFlags::DURABLE)
}

/// A home that serves this volume to hosts.
fn home(volume: &Arc<dyn BlockDevice>) -> Server {
    let state = tempfile::tempdir().expect("a temporary directory can be made").keep();
    let unit = UnitSpec {
        device: volume.clone(),
        referrals: None,
        serial: "VOLUME".to_owned(),
        write_cache: false,
        read_only: false,
        name: "a volume".to_owned(),
    };
    let iqn = name("volume").as_str().to_owned();
    Server::start(Config {
        targets: vec![TargetSpec { iqn, alias: None, units: vec![unit], access: None }],
        portals: vec![([127, 0, 0, 1], 0).into()],
        access: Access::everyone(),
        cores: 1,
        core: core(),
        congestion: None,
        store: Arc::new(FileStore::new(state).expect("it is there")),
        limits: Limits::default(),
        port_group: 1,
        discovery: None,
        redirect: None,
        listener: None,
    })
    .expect("a home starts")
}

async fn host(home: &Server) -> Disk {
    let address = TargetAddress::new(portal_address(home.portals()[0]), name("volume"));
    let options = DiskOptions::new(SessionOptions::new(name("host")));
    Disk::attach(&[address], options).await.expect("it is served")
}

#[test]
fn conforms() {
    for (block_bytes, blocks) in [(4096, 1024), (512, 4096)] {
        let holder = Holder::start();
        let disk: Arc<dyn BlockDevice> = Arc::new(RamDisk::new(block_bytes, blocks).unwrap());
        let slice = holder.hold(HOME, &disk);
        on_core(async move {
            let options = LinkOptions { geometry: disk.geometry(), ..options() };
            let asks = Asks { holder: holder.clone(), slice, home: HOME, life: LIFE };
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

/// The opening is there yet: the session comes back to it by itself.
#[test]
fn a_connection_that_breaks_needs_no_opening() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    *holder.proxy.lock().unwrap() = Some(Proxy::to(holder.address()));
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        holder.is_mute.store(true, Ordering::SeqCst);
        for version in 2..5 {
            // It is done, and its answer is lost.
            faults.inject(Rule::always(Operation::Write, Fault::HoldAnswer).times(1));
            let written = link.write(0, data(&block(0, version)), WriteFlags::DURABLE);
            until("the write is at the device", || faults.held() == 1).await;
            holder.proxy.lock().unwrap().as_ref().unwrap().cut();
            faults.release();
            written.await.unwrap();
            assert!(read(&*link, 0).await == block(0, version));
        }
        assert_eq!(holder.asked(), 1);
    });
}

/// Its effect is there, and its answer is lost with the member. Here nobody knows whether it is its own: each host writes what
/// it likes.
#[test]
fn a_comparison_that_is_repeated_and_finds_what_it_was_to_write_is_in_doubt() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        faults.inject(Rule::always(Operation::ReadModifyWrite, Fault::HoldAnswer).times(1));
        let swap = swap(&*link, 1, 2);
        until("it is at the device", || faults.held() == 1).await;
        let port = holder.fall_silent();
        holder.come(port);
        assert_eq!(swap.await, Err(BlockError::InDoubt));
        assert!(read(&*device, 0).await == block(0, 2));
        faults.release();
    });
}

/// Two hosts take one lock by the same bytes. The one that comes second has not got it, whatever happens on the way.
#[test]
fn of_two_hosts_that_compare_and_write_the_same_one_has_written() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    *holder.proxy.lock().unwrap() = Some(Proxy::to(holder.address()));
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        assert_eq!(swap(&*link, 1, 2).await, Ok(Compared::Equal));
        faults.inject(Rule::always(Operation::ReadModifyWrite, Fault::HoldAnswer).times(1));
        let second = swap(&*link, 1, 2);
        until("it is at the device", || faults.held() == 1).await;
        holder.proxy.lock().unwrap().as_ref().unwrap().cut();
        faults.release();
        assert_eq!(second.await, Err(BlockError::InDoubt));
        // What is not cut is answered as ever.
        let third = swap(&*link, 1, 2).await;
        assert!(matches!(third, Ok(Compared::Miscompare { .. })), "{third:?}");
    });
}

/// The home tells the host that its comparison may have been done. So the host, which knows that nobody else writes what it
/// does, looks whether it was.
#[test]
fn a_host_whose_comparison_is_given_up_learns_that_it_was_done() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let patience = Duration::from_secs(1);
        let asks = Asks { holder: holder.clone(), slice, home: HOME, life: LIFE };
        let options = LinkOptions { patience, ..options() };
        let link = SliceLink::start(&ring::remote(ring::core_id()), Arc::new(asks), options);
        let volume: Arc<dyn BlockDevice> = Arc::new(link);
        write(&*volume, 0, 1).await;
        let home = home(&volume);
        let host = host(&home).await;
        faults.inject(Rule::always(Operation::ReadModifyWrite, Fault::HoldAnswer).times(1));
        let swap = swap(&host, 1, 2);
        until("it is at the device", || faults.held() == 1).await;
        let port = holder.fall_silent();
        // The home has given it up, and says so of what comes anew.
        let refused = loop {
            if let Ok(refused) = volume.read(0, BLOCK).into_ready() {
                break refused;
            }
            ring::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(refused.map(drop), Err(BlockError::Unreachable));
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

/// It was waited for, and then its disk hangs: nobody hears of an end before there is one.
#[test]
fn a_request_that_came_before_the_slice_ends_with_it() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    let port = holder.go();
    on_core(async move {
        let patience = Duration::from_secs(3);
        let begun = ring::now();
        let link = link(&holder, &slice, LinkOptions { patience, ..options() });
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let held = link.write(0, data(&block(0, 2)), WriteFlags::DURABLE);
        let (done, mut ended) = ring::oneshot();
        ring::spawn(async move { done.send(held.await) });
        ring::sleep(patience / 4).await;
        holder.come(port);
        until("it is under way", || faults.held() == 1).await;
        ring::sleep(begun + patience * 13 / 12 - ring::now()).await;
        assert!((&mut ended).now_or_never().is_none(), "it is not over");
        faults.release();
        assert_eq!(ended.await, Some(Ok(())));
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
        ring::sleep(2 * LOOK).await;
        assert_eq!(holder.asked(), 1);
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
        assert_eq!(both.await, Err(BlockError::InDoubt));
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
        let asks = Asks { holder: holder.clone(), slice, home: HOME, life: LIFE };
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
