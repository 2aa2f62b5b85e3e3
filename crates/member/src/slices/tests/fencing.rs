//! What was sent through an opening is over before the next one is answered, and before the slice is gone.

use block::testing::{Fault, Operation, Rule};
use ring::OneshotReceiver;

use super::*;

/// Begins something on this core; its result.
fn begin<T: Send + 'static>(work: impl Future<Output = T> + 'static) -> OneshotReceiver<T> {
    let (done, result) = ring::oneshot();
    ring::spawn(async move { done.send(work.await) });
    result
}

async fn has_come<T>(result: &mut OneshotReceiver<T>) -> bool {
    ring::timeout(LOOK, std::future::poll_fn(|cx| result.poll_unpin(cx).map(drop))).await.is_some()
}

#[test]
fn an_opening_waits_for_what_was_sent_through_the_one_before() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let first = holder.served().open(&slice, HOME, 1).await.unwrap();
        let disk = Rc::new(attach(&first).await.unwrap());
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let writer = disk.clone();
        let _old =
            begin(async move { writer.write(0, data(&block(0, 1)), WriteFlags::DURABLE).await });
        until("the write is at the device", || faults.held() == 1).await;
        let slices = holder.served();
        let mut second = begin(async move { slices.open(&slice, HOME, 2).await });
        assert!(!has_come(&mut second).await, "the old write can still land");
        faults.release();
        let second = second.await.unwrap().unwrap();
        let disk = attach(&second).await.unwrap();
        write(&disk, 0, 2).await;
        assert_eq!(faults.held(), 0);
        assert!(read(&*device, 0).await == block(0, 2));
    });
}

/// The slice itself is closed then, and no other is hurt.
#[test]
fn a_slice_whose_disk_hangs_is_not_opened() {
    let holder = Holder::with_limit(Duration::from_millis(300));
    let (faults, device) = faulty();
    let (slice, well) = (holder.hold(HOME, &device), holder.hold(HOME, &ram()));
    on_core(async move {
        let slices = holder.served();
        let first = slices.open(&slice, HOME, 1).await.unwrap();
        let disk = Rc::new(attach(&first).await.unwrap());
        let other = attach(&slices.open(&well, HOME, 1).await.unwrap()).await.unwrap();
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let writer = disk.clone();
        let _old =
            begin(async move { writer.write(0, data(&block(0, 1)), WriteFlags::DURABLE).await });
        until("the write is at the device", || faults.held() == 1).await;
        for _ in 0..2 {
            let refused = slices.open(&slice, HOME, 2).await;
            let Err(error @ OpenError::Busy(_)) = refused else {
                panic!("it is open: {refused:?}")
            };
            assert!(error.to_string().contains("still work"), "{error}");
            assert!(attach(&first).await.is_err(), "the earlier opening has ended");
            write(&other, 0, 3).await;
        }
        assert_eq!(slices.list().iter().filter(|(_, is_open)| *is_open).count(), 1);
        faults.release();
        let opening = loop {
            match slices.open(&slice, HOME, 2).await {
                Ok(opening) => break opening,
                Err(error) => assert!(matches!(error, OpenError::Busy(_)), "{error}"),
            }
            ring::sleep(Duration::from_millis(1)).await;
        };
        let disk = attach(&opening).await.unwrap();
        write(&disk, 0, 2).await;
        assert!(read(&*device, 0).await == block(0, 2));
    });
}

/// A write hangs at the device when its session is ended by another opening. It is repeated, answered, and written over;
/// then its first copy must not come.
#[test]
fn a_repeated_write_is_not_overtaken_by_its_first_copy() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let link = link(&holder, &slice, options());
        write(&*link, 0, 1).await;
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let writer = link.clone();
        let mut held =
            begin(async move { writer.write(0, data(&block(0, 2)), WriteFlags::DURABLE).await });
        until("the write is at the device", || faults.held() == 1).await;
        // Somebody of the home who does not know that it has it open.
        let slices = holder.served();
        let stray = begin(async move { slices.open(&slice, HOME, LIFE).await });
        let has_come = has_come(&mut held).await;
        if !has_come {
            faults.release();
            held.await.unwrap().unwrap();
        }
        write(&*link, 0, 3).await;
        faults.release();
        drop(stray.await);
        ring::sleep(LOOK).await;
        assert!(read(&*device, 0).await == block(0, 3), "an older write came last");
        assert!(!has_come, "it was repeated while its first copy could still land");
    });
}

#[test]
fn a_slice_is_withdrawn_when_nothing_is_under_way() {
    let holder = Holder::start();
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    holder.slices.lock().unwrap().clear();
    on_core(async move {
        let slices = holder.served();
        let opening = slices.open(&slice, HOME, 1).await.unwrap();
        let disk = Rc::new(attach(&opening).await.unwrap());
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let writer = disk.clone();
        let _old =
            begin(async move { writer.write(0, data(&block(0, 1)), WriteFlags::DURABLE).await });
        until("the write is at the device", || faults.held() == 1).await;
        let (gone, withdrawn) = (slices.clone(), slice.clone());
        let mut gone = begin(async move { gone.withdraw(&withdrawn).await });
        assert!(!has_come(&mut gone).await, "the write can still land");
        faults.release();
        gone.await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&device), 1, "nobody else has the device");
        assert!(slices.list().is_empty());
        assert!(matches!(slices.open(&slice, HOME, 1).await, Err(OpenError::Unknown(_))));
        assert!(attach(&opening).await.is_err());
        slices.withdraw(&slice).await.unwrap();
    });
}

#[test]
fn a_slice_that_cannot_be_withdrawn_yet_is_withdrawn_later() {
    let holder = Holder::with_limit(Duration::from_millis(200));
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let slices = holder.served();
        let disk = Rc::new(attach(&slices.open(&slice, HOME, 1).await.unwrap()).await.unwrap());
        faults.inject(Rule::always(Operation::Write, Fault::Hang).times(1));
        let writer = disk.clone();
        let _old =
            begin(async move { writer.write(0, data(&block(0, 1)), WriteFlags::DURABLE).await });
        until("the write is at the device", || faults.held() == 1).await;
        for _ in 0..2 {
            assert!(matches!(slices.withdraw(&slice).await, Err(WithdrawError::Busy(_))));
            assert!(matches!(slices.open(&slice, HOME, 1).await, Err(OpenError::Unknown(_))));
        }
        faults.release();
        while let Err(error) = slices.withdraw(&slice).await {
            assert!(matches!(error, WithdrawError::Busy(_)), "{error}");
            ring::sleep(Duration::from_millis(1)).await;
        }
        assert!(slices.list().is_empty());
    });
}

/// Nothing is under way but the last flush: whoever gives the space of the slice back does so under it.
#[test]
fn a_slice_is_not_withdrawn_while_its_disk_is_flushed() {
    let holder = Holder::with_limit(Duration::from_millis(200));
    let (faults, device) = faulty();
    let slice = holder.hold(HOME, &device);
    holder.slices.lock().unwrap().clear();
    on_core(async move {
        let slices = holder.served();
        let disk = attach(&slices.open(&slice, HOME, 1).await.unwrap()).await.unwrap();
        write(&disk, 0, 1).await;
        faults.inject(Rule::always(Operation::Flush, Fault::Hang));
        let busy = async || {
            assert!(matches!(slices.withdraw(&slice).await, Err(WithdrawError::Busy(_))));
        };
        busy().await;
        // The target has given the flush up by then.
        while slices.is_at_work(&slice) {
            ring::sleep(Duration::from_millis(50)).await;
        }
        busy().await;
        assert_eq!(slices.list().len(), 1, "whoever asks sees that it is there");
        faults.heal();
        faults.release();
        slices.withdraw(&slice).await.unwrap();
        drop(disk);
        assert!(slices.list().is_empty());
        assert_eq!(Arc::strong_count(&device), 1, "nobody else has the device");
    });
}

/// Of two withdrawals the later one comes to its turn when another slice has that name.
#[test]
fn a_slice_that_is_inserted_again_is_another_one() {
    let holder = Holder::start();
    let device = ram();
    let slice = holder.hold(HOME, &device);
    on_core(async move {
        let slices = holder.served();
        let late = slices.withdrawal(&slice).expect("it is there");
        slices.withdraw(&slice).await.unwrap();
        assert!(slices.insert(slice.clone(), super::slice(HOME, &device)));
        let disk = attach(&slices.open(&slice, HOME, 1).await.unwrap()).await.unwrap();
        late.await.unwrap();
        assert_eq!(slices.list(), [(slice.clone(), true)]);
        write(&disk, 0, 1).await;
        slices.withdraw(&slice).await.unwrap();
        assert_eq!(holder.sessions(), 0, "who has it open can be ended");
    });
}
