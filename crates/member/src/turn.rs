//! One change at a time.

use ring::Notify;
use std::cell::Cell;

/// A lock whose holder may wait, for tasks of one core.
#[derive(Debug, Default)]
pub struct Turn {
    taken: Cell<bool>,
    left: Notify,
}

impl Turn {
    /// Waits for the turn, which ends with the guard.
    pub async fn take(&self) -> Guard<'_> {
        while self.taken.replace(true) {
            self.left.notified().await;
        }
        Guard(self)
    }
}

/// The turn of a task.
#[derive(Debug)]
pub struct Guard<'a>(&'a Turn);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        self.0.left.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    #[test]
    fn changes_do_not_overlap() {
        ring::block_on(&ring::CoreConfig::default(), async {
            let turn = Rc::new(Turn::default());
            let seen = Rc::new(RefCell::new(Vec::new()));
            for n in 0..4 {
                let (turn, seen) = (turn.clone(), seen.clone());
                ring::spawn(async move {
                    let _guard = turn.take().await;
                    seen.borrow_mut().push(n);
                    ring::sleep(Duration::from_millis(1)).await;
                    seen.borrow_mut().push(n);
                });
            }
            while seen.borrow().len() < 8 {
                ring::sleep(Duration::from_millis(1)).await;
            }
            assert!(seen.borrow().chunks(2).all(|pair| pair[0] == pair[1]), "{seen:?}");
        })
        .unwrap();
    }
}
