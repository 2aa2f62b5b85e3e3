//! The terminal: looks at the member each interval, hears keys, and draws.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Shows what the member is busy with until the operator has seen enough.
///
/// # Errors
/// The member does not answer at the start, or the terminal cannot be used.
pub(super) fn run(args: &TopArgs, desk: &Desk) -> anyhow::Result<()> {
    let first = Sample::take(desk)?;
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, is_ended.clone())
            .context("cannot watch for signals")?;
    }
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let mut looker = Looker {
        desk,
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

/// Looks at the member again and again.
struct Looker<'a> {
    desk: &'a Desk,
    before: Sample,
    rates: Rates,
    /// When the next look is due.
    due: Instant,
    interval: Duration,
    /// Why the last look failed.
    trouble: Option<String>,
}

impl Looker<'_> {
    /// Looks, if it is time; whether it was. A member that does not answer, as while it is started anew, is
    /// asked again.
    fn look(&mut self) -> bool {
        let begun = Instant::now();
        if begun < self.due {
            return false;
        }
        match Sample::take(self.desk) {
            Ok(now) => {
                self.rates = Rates::between(&self.before, &now);
                (self.before, self.trouble) = (now, None);
            }
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
        self.due = begun + self.interval;
        true
    }
}

fn show(
    terminal: &mut DefaultTerminal,
    looker: &mut Looker<'_>,
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
        let wait = looker.due.saturating_duration_since(Instant::now());
        let wait = if state.is_paused { SIGNAL_PAUSE } else { wait.min(SIGNAL_PAUSE) };
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
