//! What counts when a step ends: work that runs out, and I/Os that wait.

use super::*;

/// 50 I/Os of 10 ms, one after the other, take half a second; the clock of the step looks much less often.
#[test]
fn rates_are_those_of_the_time_in_which_there_was_work() {
    let took = Duration::from_millis(10);
    let disk = Arc::new(TimedDisk::new(ram(1 << 20), took));
    let script = job("--rw=read --bs=4k --size=200k --iodepth=1");
    let step = run_on(script, vec![disk.clone()], options()).remove(0);
    let worked = disk.took().iter().sum::<Duration>().as_secs_f64();
    assert_eq!(step.total.ios, 50);
    // A busy machine may take the thread away between two I/Os.
    assert_near(step.seconds, worked, 0.1, "seconds");
    assert_near(step.total.iops, 50.0 / worked, 0.1, "IOPS");
    assert_near(step.mean_queue_depth, 1.0, 0.1, "depth");
    let parts: f64 = step.intervals.iter().map(|interval| interval.seconds).sum();
    assert_near(parts, step.seconds, 0.001, "the intervals");
}

/// Ten I/Os at 50 a second are work for 200 ms, although the last one ends after 180.
#[test]
fn at_a_rate_the_last_io_has_its_turn() {
    let script = job("--rw=read --bs=4k --size=40k --iodepth=2 --rate_iops=50");
    let step = run_on(script, vec![ram(1 << 20)], options()).remove(0);
    assert_eq!(step.total.ios, 10);
    assert_near(step.total.iops, 50.0, 0.02, "IOPS");
}

/// The disk stands still from 0.6 s to 1.3 s, and the step ends after 1 s. The 400 I/Os that were due until
/// then wait between 0.3 and 0.7 s, sent or not.
#[test]
fn a_stall_at_the_end_is_in_the_latencies() {
    let disk = Arc::new(TimedDisk::new(ram(1 << 20), Duration::ZERO));
    disk.pause_at(600, Duration::from_millis(700));
    let script =
        parameters("sd=s,lun=x,threads=4\nwd=w,sd=s,rdpct=50\nrd=r,wd=w,iorate=1000,elapsed=1\n");
    let step = run_on(script, vec![disk], options()).remove(0);
    assert_near(step.total.max_us, 700_000.0, 0.1, "max");
    assert_near(step.total.p90_us, 600_000.0, 0.1, "p90");
    for (figures, what) in [(&step.read, "reads"), (&step.write, "writes")] {
        assert_near(figures.p90_us, 600_000.0, 0.15, what);
    }
    assert_near(step.volumes[0].total.max_us, 700_000.0, 0.1, "max of the volume");
    assert_near(step.total.iops, 600.0, 0.05, "IOPS are of what ended in time");
    assert_eq!(step.error_count, 0);
}

#[test]
fn without_a_rate_what_is_under_way_at_the_end_counts_too() {
    let disk = Arc::new(TimedDisk::new(ram(1 << 20), Duration::from_millis(1)));
    disk.pause_at(50, Duration::from_millis(600));
    let script = parameters("sd=s,lun=x,threads=1\nwd=w,sd=s\nrd=r,wd=w,elapsed=0.4\n");
    let step = run_on(script, vec![disk], options()).remove(0);
    assert_near(step.total.max_us, 600_000.0, 0.1, "max");
}

/// A disk that answers at once, and a run that is stopped between two looks of the clock: nothing was late.
#[test]
fn a_run_that_is_stopped_has_no_latencies_of_its_own() {
    let script = parameters("sd=s,lun=x,threads=4\nwd=w,sd=s\nrd=r,wd=w,iorate=1000,elapsed=9\n");
    let options = options();
    let stop = options.stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(110));
        stop.store(true, Ordering::Relaxed);
    });
    let step = run_on(script, vec![ram(1 << 20)], options).remove(0);
    assert!(step.was_stopped && step.seconds < 1.0, "{} s", step.seconds);
    assert!(step.total.ios > 80, "{} I/Os", step.total.ios);
    assert!(step.total.p90_us < 12_000.0, "p90 {} us", step.total.p90_us);
}

/// What never comes back has waited for as long as it was waited for, and each is an error.
#[test]
fn what_never_comes_back_counts_with_the_time_it_was_waited_for() {
    let disk = FaultyDisk::new(ram(1 << 20));
    disk.inject(Rule::always(Operation::Read, Fault::Hang));
    let script = parameters("sd=s,lun=x,threads=4\nwd=w,sd=s\nrd=r,wd=w,iorate=100,elapsed=0.5\n");
    let options = RunOptions { drain_max: Duration::from_millis(500), ..options() };
    let step = run_on(script, vec![Arc::new(disk)], options).remove(0);
    assert_eq!((step.error_count, step.errors.len()), (4, 4), "{:?}", step.errors);
    assert_eq!(step.errors[3].operation, "read");
    assert_eq!(step.errors[3].error, "it did not come back within 0.5 s after the step");
    assert_eq!(step.total.ios, 0);
    // 50 were due, the first a second before it was given up, the last half a second.
    assert_near(step.total.max_us, 1_000_000.0, 0.1, "max");
    assert_near(step.total.p50_us, 750_000.0, 0.1, "p50");
}

/// The second of two I/Os waits for the block that the first one has: it is due as well.
#[test]
fn what_waits_for_a_block_that_never_comes_free_counts() {
    let disk = FaultyDisk::new(ram(4096));
    disk.inject(Rule::always(Operation::Write, Fault::Hang));
    let script =
        parameters("sd=s,lun=x,threads=2\nwd=w,sd=s,rdpct=0\nrd=r,wd=w,iorate=4,elapsed=0.5\n");
    let options = RunOptions { drain_max: Duration::from_millis(500), ..options() };
    let step = run_on(script, vec![Arc::new(disk)], options).remove(0);
    assert_eq!(step.error_count, 1, "the one that was sent: {:?}", step.errors);
    assert_near(step.total.max_us, 1_000_000.0, 0.1, "max");
    assert_near(step.total.p50_us, 750_000.0, 0.1, "p50");
}

#[test]
fn what_waits_is_told_while_it_waits() {
    let disk = FaultyDisk::new(ram(1 << 20));
    disk.inject(Rule::always(Operation::Read, Fault::Hang).times(1));
    let script = parameters("sd=s,lun=x,threads=2\nwd=w,sd=s\nrd=r,wd=w,elapsed=1,interval=0.2\n");
    let (stall, drain_max) = (Duration::from_millis(500), Duration::from_millis(1500));
    let options = RunOptions { stall, drain_max, ..options() };
    let told = Rc::new(RefCell::new(Vec::new()));
    let noted = told.clone();
    let work = async move {
        let bench = Bench::new(vec![volume("s", Arc::new(disk))], &script, options).unwrap();
        let listener: Listener = Rc::new(move |event| {
            if let Event::Waiting { ios, volume, longest } = event {
                noted.borrow_mut().push((*ios, (*volume).to_owned(), longest.as_secs_f64()));
            }
        });
        run(&bench, &script, &[], &listener).await.unwrap();
    };
    ring::block_on(&CoreConfig::default(), work).unwrap();
    let told = told.borrow();
    assert!(told.len() >= 4, "in the step and after it: {told:?}");
    assert!(told.iter().all(|(ios, volume, _)| (*ios, volume.as_str()) == (1, "s")), "{told:?}");
    assert!(told.first().unwrap().2 < 1.0 && told.last().unwrap().2 > 1.9, "{told:?}");
}

/// One seek and then on from there: of 100 I/Os with 20 seeks, 80 follow the one before.
#[test]
fn after_a_random_place_it_goes_on_from_there() {
    let seeks = [
        (parameters("sd=s,lun=x,threads=1\nwd=w,sd=s,seekpct=20\nrd=r,wd=w,elapsed=0.3\n"), 0.8),
        (job("--rw=randread --bs=4k --percentage_random=50 --runtime=0.3 --time_based"), 0.5),
    ];
    for (script, expected) in seeks {
        let disk = Arc::new(TimedDisk::new(ram(16 << 20), Duration::ZERO));
        run_on(script, vec![disk.clone()], options());
        let places = disk.places();
        assert!(places.len() > 2000, "{} I/Os", places.len());
        let follows = places.windows(2).filter(|pair| pair[1] == pair[0] + 4096).count();
        let part = follows as f64 / (places.len() - 1) as f64;
        assert!((part - expected).abs() < 0.04, "{part} for {expected}");
    }
}
