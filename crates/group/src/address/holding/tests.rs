//! A member's hold, moment by moment, and a group of members, kernels and a store in a time of their own.

use super::*;

const START: Moment = Moment(1_000_000);

fn at(ms: u64) -> Moment {
    START.after_ms(ms)
}

fn seconds(count: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(count)
}

/// Held since the start.
fn held() -> Holding {
    let mut holding = Holding::default();
    holding.tried(START, true);
    holding
}

#[test]
fn who_has_not_the_key_has_no_lifetime_to_give() {
    let mut holding = Holding::default();
    assert_eq!(holding.lifetime_seconds(START), None);
    holding.tried(START, false);
    assert!(!holding.is_held() && holding.lifetime_seconds(START).is_none());
    holding.kept(START);
    assert_eq!(holding.lifetime_seconds(START), None, "what was written is another one's");
    holding.tried(START, true);
    assert_eq!(holding.lifetime_seconds(START), seconds(5));
    holding.lost();
    assert_eq!(holding.lifetime_seconds(START), None);
}

#[test]
fn an_address_is_gone_before_others_may_take_it() {
    let holding = held();
    let term_ms = ms(TERM);
    for after in (0..2 * term_ms).step_by(10) {
        let Some(lifetime) = holding.lifetime_seconds(at(after)) else { continue };
        let gone = after + u64::from(lifetime.get()) * 1000 + ms(LATENESS);
        assert!(gone <= term_ms - term_ms / 16, "put after {after} ms it is there for {gone} ms");
    }
    assert_eq!(holding.lifetime_seconds(at(4_200)), seconds(1));
    assert_eq!(holding.lifetime_seconds(at(4_300)), None, "less than a second cannot be said");
}

#[test]
fn a_writing_counts_from_when_it_was_asked_for() {
    let mut holding = held();
    assert_eq!(holding.renewal_in(START), RENEWAL);
    assert_eq!(holding.renewal_in(at(1_500)), Duration::from_millis(500));
    assert_eq!(holding.renewal_in(at(9_000)), Duration::ZERO);
    holding.kept(at(2_000));
    assert_eq!(holding.lifetime_seconds(at(2_200)), seconds(5), "the answer took 200 ms");
    assert_eq!(holding.lifetime_seconds(at(6_300)), None);
    // An answer that comes after a later one changes nothing.
    holding.kept(at(1_000));
    assert_eq!(holding.lifetime_seconds(at(2_200)), seconds(5));
}

#[test]
fn who_was_stopped_between_reckoning_and_putting_takes_it_away_again() {
    let holding = held();
    let lifetime = holding.lifetime_seconds(at(100)).unwrap();
    assert!(holding.ends_in_time(lifetime, at(300)));
    assert!(!holding.ends_in_time(lifetime, at(5_000)), "it was stopped for five seconds");
    assert!(!Holding::default().ends_in_time(lifetime, at(100)));
}

#[test]
fn a_key_is_left_alone_for_a_term_after_it_was_seen() {
    let mut sighting = Sighting::default();
    assert_eq!(sighting.left(START), Duration::ZERO, "it is not there");
    sighting.see(Some(7), START);
    assert_eq!(sighting.left(START), TERM);
    sighting.see(Some(7), at(5_000));
    assert_eq!(sighting.left(at(5_000)), Duration::from_secs(3), "that was seen before");
    sighting.see(Some(9), at(6_000));
    assert_eq!(sighting.left(at(6_000)), TERM, "it was written once more");
    assert_eq!(sighting.left(at(14_000)), Duration::ZERO);
    sighting.see(Some(11), at(15_000));
    sighting.see(None, at(15_100));
    assert_eq!(sighting.left(at(15_100)), Duration::ZERO, "it was left to others");
}

// ---- a group in a time of its own ---------------------------------------------------------------

/// One step of the model.
const STEP_MS: u64 = 50;

/// What is under way to the store, and back.
#[derive(Debug, Clone, Copy)]
struct Request {
    asked: u64,
    /// When the store does it.
    done: u64,
    /// When the answer comes.
    answered: u64,
    /// No answer comes.
    is_lost: bool,
    what: What,
    /// What the store has said, once it has done it.
    said: bool,
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// Take the key as it was written in that revision.
    Take(Option<Revision>),
    Keep,
    Leave,
}

/// A member, what it has asked of the store, and its kernel.
#[derive(Debug, Default)]
struct Server {
    holding: Holding,
    sighting: Sighting,
    /// Which revision of the key it has heard of.
    heard: Option<Revision>,
    /// It does nothing until then: it hangs, or is stopped.
    stopped_until: u64,
    request: Option<Request>,
    /// Until when its kernel leaves the address on the interface.
    on_until: Option<u64>,
}

/// Whose the key is, and in which revision it was written.
#[derive(Debug, Default)]
struct Key {
    holder: Option<(usize, Revision)>,
    revision: Revision,
}

impl Key {
    fn carry_out(&mut self, me: usize, what: What) -> bool {
        let written = self.holder.map(|(_, revision)| revision);
        let is_mine = self.holder.is_some_and(|(holder, _)| holder == me);
        let is_done = match what {
            What::Take(found) => written == found || mutants::is(Mutant::AddressTwice),
            What::Keep | What::Leave => is_mine,
        };
        if is_done {
            self.revision += 1;
            self.holder = match what {
                What::Leave => None,
                What::Take(_) | What::Keep => Some((me, self.revision)),
            };
        }
        is_done
    }
}

fn chance(random: &mut fastrand::Rng, one_in: u32) -> bool {
    random.u32(..one_in) == 0
}

impl Server {
    /// Its kernel and the network, which are there whatever the member does.
    fn pass(&mut self, me: usize, now: u64, key: &mut Key) {
        if self.on_until.is_some_and(|until| until <= now) {
            self.on_until = None;
        }
        if let Some(request) = &mut self.request
            && request.done <= now
            && request.done + STEP_MS > now
        {
            request.said = key.carry_out(me, request.what);
        }
    }

    fn act(&mut self, now: u64, key: &Key, random: &mut fastrand::Rng) {
        if self.stopped_until > now {
            return;
        }
        if !chance(random, 4) {
            // What others write comes late.
            self.heard = key.holder.map(|(_, revision)| revision);
        }
        self.sighting.see(self.heard, at(now));
        if let Some(request) = self.request {
            if request.answered > now {
                return;
            }
            self.request = None;
            self.hear(request, now, random);
        }
        let what = match self.holding.is_held() {
            true if chance(random, 2_000) => {
                self.on_until = None;
                self.holding.lost();
                What::Leave
            }
            true if self.holding.renewal_in(at(now)).is_zero() => What::Keep,
            // Its clock may be faster than all others.
            false if self.sighting.left(at(now + random.u64(..ms(TERM) / 16))).is_zero() => {
                What::Take(self.heard)
            }
            _ => return,
        };
        let most = if chance(random, 10) { 9_000 } else { 300 };
        let answered = now + STEP_MS + random.u64(..most);
        let done = random.u64(now..answered) / STEP_MS * STEP_MS + STEP_MS;
        let (answered, is_lost) = (answered.max(done), chance(random, 20));
        self.request = Some(Request { asked: now, done, answered, is_lost, what, said: false });
    }

    fn hear(&mut self, request: Request, now: u64, random: &mut fastrand::Rng) {
        let Request { asked, is_lost, what, said, .. } = request;
        match what {
            _ if is_lost => {}
            What::Take(_) => self.holding.tried(at(asked), said),
            What::Keep if said => self.holding.kept(at(asked)),
            What::Keep => {
                self.holding.lost();
                self.on_until = None;
            }
            What::Leave => {}
        }
        if let Some(lifetime) = self.holding.lifetime_seconds(at(now)) {
            let late = random.u64(..=ms(LATENESS));
            self.on_until = Some(now + u64::from(lifetime.get()) * 1000 + late);
        }
    }
}

/// Runs three members for half an hour: how long one of them had the address, in steps.
fn run(seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut servers = [(); 3].map(|()| Server::default());
    let (mut key, mut had) = (Key::default(), 0);
    for now in (0..30 * 60 * 1000).step_by(STEP_MS as usize) {
        for (me, server) in servers.iter_mut().enumerate() {
            server.pass(me, now, &mut key);
            if chance(&mut random, 1_000) {
                server.stopped_until = now + random.u64(..30_000);
            }
            server.act(now, &key, &mut random);
        }
        let having = servers.iter().filter(|server| server.on_until.is_some()).count();
        assert!(having <= 1, "seed {seed}, after {now} ms: {servers:?}, {key:?}");
        had += having as u64;
    }
    had
}

#[test]
fn an_address_is_never_at_two_members() {
    for seed in 0..40 {
        let had = run(seed);
        assert!(had > 30 * 60 * 1000 / STEP_MS / 2, "seed {seed}: it was nowhere for too long");
    }
}
