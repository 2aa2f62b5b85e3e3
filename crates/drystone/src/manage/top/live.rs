//! The terminal: looks at the member each interval, hears keys, and draws.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::rates::Rates;
use super::sample::Sample;
use super::screen::draw;
use super::state::{Next, State};
use crate::cli::top::TopArgs;
use crate::manage::Desk;
use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGTERM};

/// How soon after a signal it ends.
const SIGNAL_PAUSE: Duration = Duration::from_millis(200);

/// How soon after an answer it is shown.
const ANSWER_PAUSE: Duration = Duration::from_millis(20);

/// After how long it is told that an answer is waited for.
const SLOW: Duration = Duration::from_secs(2);

/// Shows what the member is busy with until the operator has seen enough.
///
/// # Errors
/// The member does not answer at the start, or the terminal cannot be used.
pub(super) fn run(args: &TopArgs, desk: Desk) -> anyhow::Result<()> {
    let first = Sample::take(&desk)?;
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, is_ended.clone())
            .context("cannot watch for signals")?;
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let (ask, answers) = begin_looking(desk).context("cannot look at the member")?;
    let mut looker = Looker {
        ask,
        answers,
        asked: None,
        rates: Rates::between(&first, &first),
        due: first.at + args.interval,
        before: first,
        interval: args.interval,
        trouble: None,
    };
    let shown = show(&mut terminal, &mut looker, &mut State::new(args), &is_ended);
    ratatui::try_restore().context("cannot leave the terminal as it was")?;
    shown.context("cannot use the terminal")
}

/// Looks when it is asked to, on a thread of its own: a member that does not answer keeps no key from being
/// heard. The thread is left when this is done.
fn begin_looking(desk: Desk) -> io::Result<(Sender<()>, Receiver<anyhow::Result<Sample>>)> {
    let (ask, asked) = channel();
    let (answer, answers) = channel();
    thread::Builder::new().name("looks".to_owned()).spawn(move || {
        for () in asked {
            if answer.send(Sample::take(&desk)).is_err() {
                return;
            }
        }
    })?;
    Ok((ask, answers))
}

/// Looks at the member again and again.
struct Looker {
    ask: Sender<()>,
    answers: Receiver<anyhow::Result<Sample>>,
    /// Since when an answer is waited for.
    asked: Option<Instant>,
    before: Sample,
    rates: Rates,
    /// When the next look is due.
    due: Instant,
    interval: Duration,
    /// Why the last look failed.
    trouble: Option<String>,
}

impl Looker {
    /// Looks, if it is time, and takes what has come of it; whether there is anything new. A member that does
    /// not answer, as while it is started anew, is asked again.
    fn look(&mut self) -> bool {
        let now = Instant::now();
        match self.answers.try_recv() {
            Ok(Ok(sample)) => {
                self.rates = Rates::between(&self.before, &sample);
                (self.before, self.trouble, self.asked) = (sample, None, None);
                return true;
            }
            Ok(Err(error)) => {
                (self.trouble, self.asked) = (Some(format!("{error:#}")), None);
                return true;
            }
            Err(_) => {}
        }
        match self.asked {
            // It is on its way, or the thread is gone.
            Some(since) if now - since >= SLOW && self.trouble.is_none() => {
                self.trouble = Some("the member is slow to answer: q ends this".to_owned());
                true
            }
            None if now >= self.due && self.ask.send(()).is_ok() => {
                (self.asked, self.due) = (Some(now), now + self.interval);
                false
            }
            _ => false,
        }
    }

    /// How soon there may be something new.
    fn pause(&self) -> Duration {
        match self.asked {
            Some(_) => ANSWER_PAUSE,
            None => self.due.saturating_duration_since(Instant::now()).min(SIGNAL_PAUSE),
        }
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    looker: &mut Looker,
    state: &mut State,
    is_ended: &AtomicBool,
) -> io::Result<()> {
    let mut is_drawn = false;
    while !is_ended.load(Ordering::Relaxed) {
        let has_news = !state.is_paused && looker.look();
        if has_news || !is_drawn {
            terminal.draw(|frame| draw(frame, &looker.rates, state, looker.trouble.as_deref()))?;
        }
        is_drawn = true;
        let wait = if state.is_paused { SIGNAL_PAUSE } else { looker.pause() };
        match heard_within(wait)? {
            Heard::Gone => return Ok(()),
            Heard::Nothing => continue,
            Heard::Something => {}
        }
        is_drawn = false;
        if let Event::Key(key) = event::read()?
            && key.kind == KeyEventKind::Press
            && state.press(key) == Next::Quit
        {
            return Ok(());
        }
    }
    Ok(())
}

enum Heard {
    Nothing,
    Something,
    /// There is no terminal any more.
    Gone,
}

/// Waits for a key or another size. A terminal that is gone is told apart before it is read: that would never end.
fn heard_within(wait: Duration) -> io::Result<Heard> {
    let stdin = io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match rustix::event::poll(&mut keys, Some(&wait)) {
        // A signal, maybe that of another size.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    if keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Ok(Heard::Gone);
    }
    Ok(if event::poll(Duration::ZERO)? { Heard::Something } else { Heard::Nothing })
}
