//! The work of hashing passwords: few at once, on threads that wait for nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use group::accounts::{PasswordError, PasswordHash};
use tokio::sync::Semaphore;
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
    /// Logins that wait or are at work, by where they come from.
    waiting: Mutex<HashMap<Place, usize>>,
    /// What is held against the password of an account that is not there.
    nobody: OnceLock<PasswordHash>,
}

impl Default for Passwords {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Self { places, waiting: Mutex::default(), nobody: OnceLock::new() }
    }
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
        let held = tokio::task::spawn_blocking(move || {
            let is_right = against.is_of(&password);
            // Not before it is done, whoever has stopped to wait for it.
            drop(permit);
            is_right
        });
        let is_right = held.await.map_err(|_| failed())?;
        Ok(is_right && is_there)
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
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(|_| failed())
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
