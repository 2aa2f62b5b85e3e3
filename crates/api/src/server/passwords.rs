//! The work of hashing passwords: few at once, on two threads that do nothing else. What is freed on a thread
//! stays with it, so each thread more would hold the memory of its hashes for good.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread;

use group::accounts::{PasswordError, PasswordHash};
use tokio::sync::{Semaphore, oneshot};
use zeroize::Zeroizing;

use crate::place::Place;
use crate::problem::{Code, Problem};

/// Hashes under way at once: each takes 19 MiB and a processor.
const AT_ONCE: usize = 2;

/// Of these, those of strangers: whose password was right lately does not wait behind them.
const STRANGERS_AT_ONCE: usize = AT_ONCE - 1;

/// Logins that wait for that, of strangers and of others, and of these from one place.
const WAITING_MAX: usize = 16;
const WAITING_OF_PLACE_MAX: usize = 8;

/// Of these, those of one account, from wherever: who has one keeps nobody else from logging in.
const WAITING_OF_ACCOUNT_MAX: usize = 2;

/// What a login of an account hears that has as many under way.
pub(super) const OF_ACCOUNT: &str =
    "too many logins of this account are under way: try again in a moment, or log in with a token";

/// Hashes passwords.
#[derive(Debug)]
pub(super) struct Passwords {
    places: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    workers: Workers,
    /// Logins that wait or are at work, by who they are.
    waiting: Mutex<Waiting>,
    /// What is held against the password of an account that is not there.
    nobody: OnceLock<PasswordHash>,
}

impl Default for Passwords {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let strangers = Arc::new(Semaphore::new(STRANGERS_AT_ONCE));
        let workers = Workers::default();
        Self { places, strangers, workers, waiting: Mutex::default(), nobody: OnceLock::new() }
    }
}

/// Where a login comes from, and whether its account is known there.
type Whose = (Place, bool);

/// How many wait.
#[derive(Debug, Default)]
struct Waiting {
    of: HashMap<Whose, usize>,
    /// The same by the account that was named, whether there is such a one or not, and whether it is known there.
    accounts: HashMap<(String, bool), usize>,
}

impl Waiting {
    /// One has gone.
    fn leave(&mut self, whose: Whose, account: &(String, bool)) {
        if let Some(count) = self.of.get_mut(&whose) {
            *count -= 1;
        }
        self.of.retain(|_, count| *count > 0);
        if let Some(count) = self.accounts.get_mut(account) {
            *count -= 1;
        }
        self.accounts.retain(|_, count| *count > 0);
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
struct Waits<'a> {
    passwords: &'a Passwords,
    whose: Whose,
    account: (String, bool),
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.passwords.waiting().leave(self.whose, &self.account);
    }
}

impl Passwords {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
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
        whose: Whose,
        name: &str,
        account: Option<PasswordHash>,
        password: Zeroizing<String>,
        is_heard: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        let is_there = account.is_some();
        let against = account.or_else(|| self.nobody.get().cloned());
        let Some(against) = against else { return Err(failed()) };
        let _waits = self.wait(whose, name)?;
        let stranger = match whose {
            (_, true) => None,
            (_, false) => Some(self.strangers.clone().acquire_owned().await.map_err(|_| failed())?),
        };
        let permit = self.places.clone().acquire_owned().await.map_err(|_| failed())?;
        is_heard()?;
        let held = self.workers.run(move || {
            let is_right = against.is_of(&password);
            // Not before it is done, whoever has stopped to wait for it.
            drop((permit, stranger));
            is_right
        });
        Ok(held.await.ok_or_else(failed)? && is_there)
    }

    fn wait(&self, whose: Whose, name: &str) -> Result<Waits<'_>, Problem> {
        let mut waiting = self.waiting();
        let of_place = waiting.of.get(&whose).copied().unwrap_or(0);
        let alike = waiting.of.iter().filter(|((_, is_known), _)| *is_known == whose.1);
        let alike: usize = alike.map(|(_, count)| count).sum();
        // Whoever guesses is in nobody's way who is known.
        let account = (name.to_owned(), whose.1);
        let of_account = waiting.accounts.get(&account).copied().unwrap_or(0);
        if of_account >= WAITING_OF_ACCOUNT_MAX {
            return Err(Problem::new(Code::TooBusy, OF_ACCOUNT));
        }
        if alike >= WAITING_MAX || of_place >= WAITING_OF_PLACE_MAX {
            let sentence = "too many logins with a password are under way: try again in a moment, or log \
                            in with a token";
            return Err(Problem::new(Code::TooBusy, sentence));
        }
        *waiting.of.entry(whose).or_default() += 1;
        *waiting.accounts.entry(account.clone()).or_default() += 1;
        Ok(Waits { passwords: self, whose, account })
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
            let account = account.cloned();
            let is_right =
                passwords.is_right((place, false), "al", account, password(text), || Ok(())).await;
            is_right.map_err(|problem| problem.code)
        };
        assert_eq!(ask(None, "correct horse").await, Err(Code::Failed), "nothing is prepared");
        passwords.prepare().unwrap();
        assert_eq!(ask(Some(&hash), "correct horse").await, Ok(true));
        assert_eq!(ask(Some(&hash), "wrong horse").await, Ok(false));
        assert_eq!(ask(None, "correct horse").await, Ok(false));
        let late = || Err(Problem::new(Code::TooManyTries, "wait"));
        let late = passwords
            .is_right((place, true), "al", Some(hash), password("correct horse"), late)
            .await;
        assert_eq!(late.unwrap_err().code, Code::TooManyTries, "asked again when its turn comes");
        let short = passwords.hash("short".to_owned()).await.unwrap_err();
        assert_eq!((short.code, short.detail.contains("12 to 255")), (Code::Invalid, true));
        assert!(passwords.waiting().of.is_empty());
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

    #[tokio::test]
    async fn strangers_however_many_leave_a_seat_to_who_is_known() {
        let passwords = Arc::new(Passwords::default());
        passwords.prepare().unwrap();
        let hash = passwords.hash("correct horse".to_owned()).await.unwrap();
        let place = |last| Place::from(IpAddr::from([192, 0, 2, last]));
        // One that never ends, and those behind it.
        let held = passwords.strangers.clone().acquire_owned().await.unwrap();
        let _at_work = passwords.places.clone().acquire_owned().await.unwrap();
        let strangers = (0..WAITING_MAX as u8).map(|last| {
            let (passwords, guess) = (passwords.clone(), password("guess guess guess"));
            tokio::spawn(async move {
                let name = format!("guess-{last}");
                passwords
                    .is_right((place(last), false), &name, None, guess, || Ok(()))
                    .await
                    .is_ok()
            })
        });
        let strangers: Vec<_> = strangers.collect();
        while passwords.waiting().of.len() < WAITING_MAX {
            tokio::task::yield_now().await;
        }
        let right = password("correct horse");
        let known = passwords.is_right((place(99), true), "al", Some(hash), right, || Ok(()));
        let known = tokio::time::timeout(std::time::Duration::from_secs(20), known).await;
        assert_eq!(known.expect("it waits for nobody").map_err(|problem| problem.code), Ok(true));
        drop(held);
        for stranger in strangers {
            assert!(stranger.await.unwrap(), "they have their turn, too");
        }
    }

    #[test]
    fn few_wait_and_of_one_place_fewer() {
        let passwords = Passwords::default();
        let place = |last| (Place::from(IpAddr::from([192, 0, 2, last])), false);
        let mut waits: Vec<_> = (0..WAITING_OF_PLACE_MAX)
            .map(|n| passwords.wait(place(1), &n.to_string()).ok().unwrap())
            .collect();
        assert!(passwords.wait(place(1), "c").is_err());
        waits.extend(
            (0..WAITING_OF_PLACE_MAX)
                .map(|n| passwords.wait(place(2), &format!("b{n}")).ok().unwrap()),
        );
        assert!(passwords.wait(place(3), "c").is_err(), "all are waiting");
        assert!(passwords.wait((place(1).0, true), "c").is_ok(), "strangers are in nobody's way");
        waits.pop();
        assert!(passwords.wait(place(3), "c").is_ok());
    }

    #[test]
    fn the_logins_of_one_account_leave_room_for_those_of_others_wherever_they_come_from() {
        let passwords = Passwords::default();
        let place = |last| (Place::from(IpAddr::from([192, 0, 2, last])), true);
        let own = WAITING_OF_ACCOUNT_MAX as u8;
        let mut waits: Vec<_> =
            (0..own).map(|last| passwords.wait(place(last), "ro").ok().unwrap()).collect();
        let refused = passwords.wait(place(9), "ro").map(|_| ()).unwrap_err();
        assert!(refused.code == Code::TooBusy && refused.detail.contains("of this account"));
        assert!(passwords.wait(place(0), "ada").is_ok());
        assert!(passwords.wait((place(9).0, false), "ro").is_ok(), "a place of its own");
        waits.pop();
        assert!(passwords.wait(place(9), "ro").is_ok());
        waits.clear();
        assert!(passwords.waiting().accounts.is_empty());
    }
}
