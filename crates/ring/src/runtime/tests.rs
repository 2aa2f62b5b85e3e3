use std::future::{pending, poll_fn};
use std::io::Write;
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;

use super::*;
use crate::wait::Bell;
use crate::{Listener, blocking, oneshot};

/// Processor time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    // SAFETY: the structure is numbers, for which zeroes are valid.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills exactly this structure.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn on_core<T: 'static>(main: impl Future<Output = T> + 'static) -> T {
    block_on(&CoreConfig::default(), main).unwrap()
}

#[test]
fn an_idle_core_costs_nothing() {
    on_core(async {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), 4).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        for _ in 0..100 {
            spawn(async { sleep(Duration::from_secs(30)).await });
        }
        spawn(async move {
            let _peer = peer;
            let _ = stream.recv().await;
        });
        spawn(async move {
            let _ = listener.accept().await;
        });
        sleep(Duration::from_millis(5)).await;
        // What a busy machine costs is charged to whoever it interrupts. A core that works all the time does so each time.
        let mut least = Duration::MAX;
        for _ in 0..10 {
            let before = thread_cpu();
            sleep(Duration::from_millis(100)).await;
            least = least.min(thread_cpu() - before);
        }
        assert!(least < Duration::from_millis(1), "100 ms idle took {least:?}");
    });
}

#[test]
fn timers_fire_in_order_and_cancel() {
    on_core(async {
        let order = Rc::new(RefCell::new(Vec::new()));
        for ms in [30_u64, 10, 20] {
            let order = order.clone();
            spawn(async move {
                sleep(Duration::from_millis(ms)).await;
                order.borrow_mut().push(ms);
            });
        }
        let start = Instant::now();
        assert!(timeout(Duration::from_millis(5), pending::<()>()).await.is_none());
        assert!(start.elapsed() >= Duration::from_millis(5));
        assert_eq!(timeout(Duration::from_secs(9), async { 7 }).await, Some(7));
        sleep_until(start + Duration::from_millis(40)).await;
        assert_eq!(*order.borrow(), [10, 20, 30]);
        assert!(Core::current().timers.next_deadline().is_none(), "dropped timers are gone");
    });
}

#[test]
fn long_timers_share_their_wake_ups() {
    on_core(async {
        let mut deadlines = std::collections::BTreeSet::new();
        for i in 0..1000 {
            let mut sleep = std::pin::pin!(sleep(Duration::from_millis(5_000 + i)));
            poll_fn(|cx| {
                assert!(sleep.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            deadlines.extend(Core::current().timers.next_deadline());
        }
        assert!(deadlines.len() <= 6, "{} wake-ups for one second of timers", deadlines.len());
    });
}

#[test]
fn turn_end_comes_after_everything_that_is_ready() {
    on_core(async {
        let log = Rc::new(RefCell::new(Vec::new()));
        let chain = Rc::new(Bell::default());
        let (log1, log2, chain2) = (log.clone(), log.clone(), chain.clone());
        spawn(async move {
            turn_end().await;
            log1.borrow_mut().push("end");
            turn_end().await;
            log1.borrow_mut().push("next end");
        });
        spawn(async move {
            chain2.rung().await;
            log2.borrow_mut().push("woken");
        });
        spawn({
            let log = log.clone();
            async move {
                log.borrow_mut().push("first");
                chain.ring();
            }
        });
        sleep(Duration::from_millis(2)).await;
        assert_eq!(*log.borrow(), ["first", "woken", "end", "next end"]);
    });
}

#[test]
fn tasks_that_wake_each_other_for_ever_do_not_stop_the_clock() {
    on_core(async {
        for _ in 0..3 {
            spawn(poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::Pending
            }));
        }
        sleep(Duration::from_millis(5)).await;
    });
}

#[test]
fn wakers_work_from_other_threads_and_after_their_task() {
    let kept = on_core(async {
        let waker: Waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let done = Arc::new(AtomicUsize::new(0));
        for i in 0..10 {
            let done = done.clone();
            let (sender, receiver) = oneshot();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(i % 3));
                sender.send(i);
            });
            spawn(async move {
                assert_eq!(receiver.await, Some(i));
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        while done.load(Ordering::Relaxed) < 10 {
            sleep(Duration::from_millis(1)).await;
        }
        let (sender, receiver) = oneshot::<u8>();
        drop(sender);
        assert_eq!(receiver.await, None);
        waker
    });
    kept.wake_by_ref(); // its core is gone: nothing happens
    on_core(async move { kept.wake() });
}

#[test]
fn cores_run_closures_of_others_in_order_and_report_their_end() {
    static LOG: Mutex<Vec<(usize, u32)>> = Mutex::new(Vec::new());
    let cores = launch(2, &CoreConfig { pin: true, ..CoreConfig::default() }, |id| async move {
        assert_eq!(core_id(), id);
        if id == CoreId::from(0) {
            let (sender, receiver) = oneshot();
            for i in 0..100 {
                remote(CoreId::from(1)).run(move || {
                    LOG.lock().unwrap().push((core_id().into(), i));
                });
            }
            let back = remote(CoreId::from(0));
            remote(CoreId::from(1)).run(move || {
                spawn(async move {
                    sleep(Duration::from_millis(1)).await;
                    back.run(move || sender.send(core_id()));
                });
            });
            assert_eq!(receiver.await, Some(CoreId::from(0)));
            remote(CoreId::from(1)).run(|| STOP.with(|stop| stop.ring()));
        } else {
            STOP.with(Rc::clone).rung().await;
        }
    })
    .unwrap();
    thread_local! { static STOP: Rc<Bell> = Rc::new(Bell::default()); }
    let one = cores.remote(CoreId::from(1));
    assert_eq!(cores.remotes().len(), 2);
    cores.join().unwrap();
    assert_eq!(*LOG.lock().unwrap(), (0..100).map(|i| (1, i)).collect::<Vec<_>>());
    assert!(!one.run(|| unreachable!()), "the core has ended");
}

#[test]
fn a_panic_on_one_core_is_reported_at_once() {
    let cores = launch(2, &CoreConfig::default(), |id| async move {
        if id == CoreId::from(1) {
            sleep(Duration::from_millis(1)).await;
            panic!("the reason is {}", 42);
        }
        sleep(Duration::from_secs(3600)).await;
    })
    .unwrap();
    let error = cores.join().unwrap_err();
    assert_eq!((error.core, error.message.as_str()), (CoreId::from(1), "the reason is 42"));
}

#[test]
fn signals_style_stop_from_a_plain_thread() {
    let cores = launch(1, &CoreConfig::default(), |_| async {
        let (sender, receiver) = oneshot::<()>();
        INBOX.with(|inbox| inbox.replace(Some(sender)));
        receiver.await;
    })
    .unwrap();
    thread_local! { static INBOX: RefCell<Option<crate::OneshotSender<()>>> = const { RefCell::new(None) }; }
    let core = cores.remote(CoreId::from(0));
    thread::sleep(Duration::from_millis(5));
    assert!(core.run(|| INBOX.with(|inbox| inbox.take().unwrap().send(()))));
    cores.join().unwrap();
}

#[test]
fn a_core_ends_with_operations_and_tasks_of_all_kinds_under_way() {
    struct Dropped(Rc<Cell<u32>>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
            spawn(async {}); // a destructor may spawn
        }
    }
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    let kept_stream = on_core(async move {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), 4).unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        assert!(timeout(Duration::from_millis(1), stream.recv()).await.is_none());
        for _ in 0..10 {
            let guard = Dropped(counted.clone());
            spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            });
        }
        sleep(Duration::from_millis(1)).await;
        peer.write_all(b"late").unwrap();
        stream
    });
    assert_eq!(count.get(), 10);
    drop(kept_stream);
}

#[test]
#[should_panic(expected = "a task's own words")]
fn a_panic_of_a_task_reaches_the_caller() {
    on_core(async {
        spawn(async { panic!("a task's own words") });
        pending::<()>().await;
    });
}

#[test]
#[should_panic(expected = "outside of ring::block_on")]
fn outside_of_a_core_it_says_so() {
    spawn(async {});
}

#[test]
fn more_operations_than_the_submission_queue_holds() {
    on_core(async {
        let file = crate::File::open("/dev/null".as_ref(), crate::OpenOptions::default());
        assert!(file.is_err(), "a character device is no disk");
        let done = Rc::new(Cell::new(0));
        for _ in 0..5_000 {
            let done = done.clone();
            spawn(async move {
                let path = std::env::current_exe().unwrap();
                let file = crate::File::open(&path, crate::OpenOptions::default()).unwrap();
                let buf = crate::Buf::alloc(4).unwrap();
                let (buf, n) = file.read_at(buf, 0..4, 0).await;
                assert_eq!((n.unwrap(), &buf[..]), (4, &b"\x7fELF"[..]));
                done.set(done.get() + 1);
            });
        }
        while done.get() < 5_000 {
            sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn blocking_calls_run_elsewhere_and_pass_panics_on() {
    on_core(async {
        let here = thread::current().id();
        assert_ne!(blocking(|| thread::current().id()).await, here);
    });
    let caught =
        std::panic::catch_unwind(|| on_core(async { blocking(|| panic!("inside")).await }));
    assert!(caught.is_err());
    assert_eq!(on_core(async { blocking(|| 5).await }), 5, "the helpers go on");
}

#[test]
fn what_other_threads_may_use_is_send() {
    fn shared<T: Send + Sync>() {}
    shared::<crate::File>();
    shared::<crate::Region>();
    shared::<Remote>();
    shared::<CoreConfig>();
}
