//! What the first core knows and other threads go by: they look at it, and wait for nobody.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Heard = Box<dyn Fn() + Send>;

/// Something as it is now, for any thread; `None` where there is none. Clones are the same.
pub struct Current<T>(Arc<Mutex<Now<T>>>);

struct Now<T> {
    value: Option<Arc<T>>,
    heard: Option<Heard>,
}

impl<T> Clone for Current<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Current<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Now { value: None, heard: None })))
    }
}

impl<T: Debug> Debug for Current<T> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Current").field(&self.now()).finish()
    }
}

impl<T> Current<T> {
    fn held(&self) -> MutexGuard<'_, Now<T>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it is at this moment.
    #[must_use]
    pub fn now(&self) -> Option<Arc<T>> {
        self.held().value.clone()
    }

    /// From now on it is this one.
    pub fn replace(&self, value: Option<T>) {
        let value = value.map(Arc::new);
        let mut now = self.held();
        let before = std::mem::replace(&mut now.value, value);
        if let Some(heard) = &now.heard {
            heard();
        }
        drop(now);
        // What may be large is freed while nobody waits for it.
        drop(before);
    }

    /// `heard` is called with each change from now on, in the place of who heard of it before. It is called under a lock,
    /// and must neither wait nor ask.
    pub fn on_change(&self, heard: impl Fn() + Send + 'static) {
        self.held().heard = Some(Box::new(heard));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn each_change_is_heard_of_and_seen_by_all_clones() {
        let current = Current::default();
        let (other, heard) = (current.clone(), Arc::new(AtomicU32::new(0)));
        assert_eq!(current.now(), None);
        current.replace(Some(1));
        let counted = heard.clone();
        other.on_change(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!((other.now().as_deref(), heard.load(Ordering::Relaxed)), (Some(&1), 0));
        let before = current.now();
        current.replace(Some(2));
        current.replace(None);
        assert_eq!((other.now(), heard.load(Ordering::Relaxed)), (None, 2));
        assert_eq!(before.as_deref(), Some(&1), "who has looked keeps what was seen");
    }
}
