//! Lines for the journal of systemd: each begins with its priority, as `<4>` (sd-daemon(3)).

use rustix::fs::fstat;
use std::{env, fmt, io};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Where systemd says which stream the journal reads: the device and the inode.
const VARIABLE: &str = "JOURNAL_STREAM";

/// Whether the journal reads what is logged.
pub(super) fn is_reading() -> bool {
    let Ok(stat) = fstat(io::stderr()) else { return false };
    env::var(VARIABLE).is_ok_and(|text| text == format!("{}:{}", stat.st_dev, stat.st_ino))
}

/// Lines with their priority and without their time, which the journal knows.
pub(super) struct Prioritized;

impl<S, N> FormatEvent<S, N> for Prioritized
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        write!(writer, "<{}>", priority(*metadata.level(), metadata.target()))?;
        let plain: Format<Full, ()> = Format::default().without_time();
        plain.format_event(context, writer, event)
    }
}

/// As syslog numbers them (RFC 5424 §6.2.1).
fn priority(level: Level, target: &str) -> u8 {
    match level {
        Level::ERROR if target == member::events::CRITICAL => 2,
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};
    use tracing_subscriber::layer::SubscriberExt;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_line_begins_with_its_priority() {
        let lines = Lines::default();
        let to = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(move || to.clone())
            .event_format(Prioritized);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::error!(target: member::events::CRITICAL, "data is lost");
            tracing::error!("it does not work");
            tracing::warn!("look at it");
            tracing::info!("it is well");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let begins: Vec<&str> = text.lines().map(|line| &line[..3]).collect();
        assert_eq!(begins, ["<2>", "<3>", "<4>", "<6>"], "{text}");
    }
}
