//! The work of hashing passwords: few at once, on two threads that do nothing else. What is freed on a thread
//! stays with it, so each thread more would hold the memory of its hashes for good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;

use group::accounts::{PasswordError, PasswordHash};
use tokio::sync::{Semaphore, oneshot};
use zeroize::Zeroizing;

use super::throttle::Place;
use crate::problem::{Code, Problem};

/// Hashes under way at once: each takes 19 MiB and a processor.
const AT_ONCE: usize = 2;

/// Logins that wait for that, and of these from one place.
const WAITING_MAX: usize = 16;
const WAITING_OF_PLACE_MAX: usize = 8;

/// Hashes passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    places: Arc<Semaphore>,
    workers: Workers,
    /// Logins that wait or are at work, by where they come from.
    waiting: Mutex<HashMap<Place, usize>>,
    /// What is held against the password of an account that is not there.
    nobody: OnceLock<PasswordHash>,
}

impl Default for Passwords {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let workers = Workers::default();
        Self { places, workers, waiting: Mutex::default(), nobody: OnceLock::new() }
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads that hash, which begin with the first work and end when this is dropped.
#[derive(Debug, Default)]
struct Workers(Mutex<Option<mpsc::Sender<Job>>>);

impl Workers {
    /// Has something done; `None` where no thread can do it.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (done, outcome) = oneshot::channel();
        // Who waited may have gone.
        let job: Job = Box::new(move || drop(done.send(work())));
        self.sender()?.send(job).ok()?;
        outcome.await.ok()
    }

    fn sender(&self) -> Option<mpsc::Sender<Job>> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.is_none() {
            let (sender, receiver) = mpsc::channel();
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..AT_ONCE {
                let receiver = receiver.clone();
                let thread = thread::Builder::new().name("passwords".to_owned());
                let work = move || {
                    super::stand_back();
                    while next(&receiver).map(|job| job()).is_some() {}
                };
                thread.spawn(work).ok()?;
            }
            *jobs = Some(sender);
        }
        jobs.clone()
    }
}

/// The next job, taken by one thread at a time.
fn next(jobs: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// A login that waits.
struct Waits<'a>(&'a Passwords, Place);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        if let Some(count) = waiting.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.1);
            }
        }
    }
}

impl Passwords {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Place, usize>> {
        // Each change is one call.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes what takes long the first time, so that no login takes longer than another.
    pub(super) fn prepare(&self) -> Result<(), PasswordError> {
        if self.nobody.get().is_none() {
            drop(self.nobody.set(PasswordHash::of_nobody()?));
        }
        Ok(())
    }

    /// Hashes a password that is to be kept. Who may set one has waited for its turn only.
    pub(super) async fn hash(&self, password: String) -> Result<PasswordHash, Problem> {
        let password = Zeroizing::new(password);
        let hashed = self.at_work(move || PasswordHash::of(&password)).await?;
        hashed.map_err(|error| {
            let code = match error {
                PasswordError::Length(_) | PasswordError::Control => Code::Invalid,
                PasswordError::Failed(_) => Code::Failed,
            };
            Problem::new(code, error.to_string())
        })
    }

    /// Whether this is the password of an account; of one that is not there (`None`) it is found out that it
    /// is not, which takes as long. `is_heard` is asked when its turn has come.
    pub(super) async fn is_right(
        &self,
        place: Place,
        account: Option<PasswordHash>,
        password: Zeroizing<String>,
        is_heard: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        let is_there = account.is_some();
        let against = account.or_else(|| self.nobody.get().cloned());
        let Some(against) = against else { return Err(failed()) };
        let _waits = self.wait(place)?;
        let permit = self.places.clone().acquire_owned().await.map_err(|_| failed())?;
        is_heard()?;
        let held = self.workers.run(move || {
            let is_right = against.is_of(&password);
            // Not before it is done, whoever has stopped to wait for it.
            drop(permit);
            is_right
        });
        Ok(held.await.ok_or_else(failed)? && is_there)
    }

    fn wait(&self, place: Place) -> Result<Waits<'_>, Problem> {
        let mut waiting = self.waiting();
        let of_place = waiting.get(&place).copied().unwrap_or(0);
        if waiting.values().sum::<usize>() >= WAITING_MAX || of_place >= WAITING_OF_PLACE_MAX {
            let sentence = "too many logins with a password are under way: try again in a moment, or log \
                            in with a token";
            return Err(Problem::new(Code::TooBusy, sentence));
        }
        *waiting.entry(place).or_default() += 1;
        Ok(Waits(self, place))
    }

    async fn at_work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = self.places.clone().acquire_owned().await.map_err(|_| failed())?;
        let done = self.workers.run(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.ok_or_else(failed)
    }
}

fn failed() -> Problem {
    Problem::new(Code::Failed, "the password could not be checked: try again")
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn password(text: &str) -> Zeroizing<String> {
        Zeroizing::new(text.to_owned())
    }

    #[tokio::test]
    async fn a_password_is_held_against_its_account_or_nobodys() {
        let passwords = Passwords::default();
        let place = Place::from(IpAddr::from([192, 0, 2, 1]));
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        let ask = async |account: Option<&PasswordHash>, text: &str| {
            let is_right =
                passwords.is_right(place, account.cloned(), password(text), || Ok(())).await;
            is_right.map_err(|problem| problem.code)
        };
        assert_eq!(ask(None, "correct horse").await, Err(Code::Failed), "nothing is prepared");
        passwords.prepare().unwrap();
        assert_eq!(ask(Some(&hash), "correct horse").await, Ok(true));
        assert_eq!(ask(Some(&hash), "wrong horse").await, Ok(false));
        assert_eq!(ask(None, "correct horse").await, Ok(false));
        let late = || Err(Problem::new(Code::TooManyTries, "wait"));
        let late = passwords.is_right(place, Some(hash), password("correct horse"), late).await;
        assert_eq!(late.unwrap_err().code, Code::TooManyTries, "asked again when its turn comes");
        let short = passwords.hash("short".to_owned()).await.unwrap_err();
        assert_eq!((short.code, short.detail.contains("12 to 255")), (Code::Invalid, true));
        assert!(passwords.waiting().is_empty());
    }

    #[tokio::test]
    async fn all_work_is_done_on_two_threads_which_end_with_it() {
        let passwords = Arc::new(Passwords::default());
        let work = (0..32).map(|_| {
            let passwords = passwords.clone();
            let sleeps = || {
                thread::sleep(std::time::Duration::from_millis(5));
                (thread::current().id(), thread::current().name().map(str::to_owned))
            };
            tokio::spawn(async move { passwords.at_work(sleeps).await.unwrap() })
        });
        let mut threads = Vec::new();
        for done in work.collect::<Vec<_>>() {
            threads.push(done.await.unwrap());
        }
        assert!(threads.iter().all(|(_, name)| name.as_deref() == Some("passwords")));
        threads.sort_by_key(|(id, _)| format!("{id:?}"));
        threads.dedup();
        assert_eq!(threads.len(), AT_ONCE);
    }

    #[test]
    fn few_wait_and_of_one_place_fewer() {
        let passwords = Passwords::default();
        let place = |last| Place::from(IpAddr::from([192, 0, 2, last]));
        let mut waits: Vec<_> =
            (0..WAITING_OF_PLACE_MAX).map(|_| passwords.wait(place(1)).ok().unwrap()).collect();
        assert!(passwords.wait(place(1)).is_err());
        waits.extend((0..WAITING_OF_PLACE_MAX).map(|_| passwords.wait(place(2)).ok().unwrap()));
        assert!(passwords.wait(place(3)).is_err(), "all are waiting");
        waits.pop();
        assert!(passwords.wait(place(3)).is_ok());
    }
}
