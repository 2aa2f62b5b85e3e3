//! A word that is given once, such as that something is to end: whoever has work of its own looks whether it was given,
//! and whoever waits for something else waits for it as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether it was given, for all that have it.
#[derive(Debug, Default)]
pub(super) struct Signal {
    is_given: Arc<AtomicBool>,
    rings: Notify,
}

impl Signal {
    /// Gives it, from any thread. It is not taken back.
    pub(super) fn give(&self) {
        self.is_given.store(true, Ordering::Release);
        self.rings.notify_waiters();
    }

    /// Whether it was given.
    pub(super) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Acquire)
    }

    /// The same for one that waits for nothing, and looks now and then.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        self.is_given.clone()
    }

    /// Ends when it is given, at once if it was before.
    pub(super) async fn given(&self) {
        // From before the look on: what is given between the two is heard.
        let rings = self.rings.notified();
        if !self.is_given() {
            rings.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn all_that_wait_hear_of_it_whenever_they_came() {
        let signal = Arc::new(Signal::default());
        let flag = signal.flag();
        let early = [(); 3].map(|()| {
            let signal = signal.clone();
            tokio::spawn(async move { signal.given().await })
        });
        tokio::task::yield_now().await;
        let wait = timeout(Duration::from_millis(20), signal.given()).await;
        assert!(wait.is_err() && !signal.is_given(), "nobody has given it yet");
        let giver = signal.clone();
        thread::spawn(move || giver.give()).join().unwrap();
        for waiter in early {
            timeout(Duration::from_secs(20), waiter).await.expect("it hears of it").unwrap();
        }
        timeout(Duration::from_secs(20), signal.given()).await.expect("it was given before");
        assert!(signal.is_given() && flag.load(Ordering::Relaxed));
    }
}
