//! The sending side of a connection: replies gather during a turn of the core and leave together.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::mem;
use std::rc::Rc;

use ring::wait::Bell;
use ring::{SendBatch, Stream};

use super::gate::{Charge, Gate};

#[derive(Debug)]
pub(crate) struct Output {
    stream: Rc<Stream>,
    batch: RefCell<SendBatch>,
    /// What leaves the gate when the batch was sent.
    charge: Cell<Charge>,
    queued: Bell,
    broken: Cell<bool>,
}

impl Output {
    pub(crate) fn new(stream: Rc<Stream>) -> Output {
        Output {
            stream,
            batch: RefCell::default(),
            charge: Cell::default(),
            queued: Bell::default(),
            broken: Cell::new(false),
        }
    }

    /// Queues what `push` appends; `charge` leaves the gate once it was sent.
    pub(crate) fn queue(&self, charge: Charge, push: impl FnOnce(&mut SendBatch)) {
        push(&mut self.batch.borrow_mut());
        let mut sum = self.charge.get();
        sum.add(charge);
        self.charge.set(sum);
        self.queued.ring();
    }

    /// Whether the client can no longer be reached.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.get()
    }

    /// Sends what is queued, for as long as the connection lives.
    pub(crate) async fn run(&self, gate: &Gate) -> Infallible {
        let mut spare = SendBatch::new();
        loop {
            self.queued.until(|| self.charge.get() != Charge::default()).await;
            // Whatever else this turn produces goes with it.
            ring::turn_end().await;
            let batch = mem::replace(&mut *self.batch.borrow_mut(), spare);
            let charge = self.charge.take();
            if self.broken.get() {
                spare = batch;
                spare.clear();
            } else {
                let (empty, result) = self.stream.send(batch).await;
                spare = empty;
                if result.is_err() {
                    self.broken.set(true);
                    // The reader learns of it too; a stream that is closed already says so.
                    let _ = self.stream.shutdown();
                }
            }
            gate.leave(charge);
        }
    }
}
