//! Events that repeat themselves: one bad disk must not fill the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long an event that was told is counted only.
const PAUSE: Duration = Duration::from_secs(60);

/// What was told lately.
#[derive(Debug, Default)]
pub(super) struct Folded {
    /// When each was told, and how often it came since.
    told: BTreeMap<String, (Instant, u64)>,
}

impl Folded {
    /// An event; what is to be told of it now, if anything.
    pub(super) fn take(&mut self, text: String, now: Instant) -> Option<String> {
        if let Some((_, more)) = self.told.get_mut(&text) {
            *more += 1;
            return None;
        }
        self.told.insert(text.clone(), (now, 0));
        Some(text)
    }

    /// What came again while it was counted only, and is to be told now.
    pub(super) fn due(&mut self, now: Instant) -> Vec<String> {
        let mut texts = Vec::new();
        self.told.retain(|text, (told, more)| {
            if now.duration_since(*told) < PAUSE {
                return true;
            }
            let again = *more > 0;
            if again {
                let times = if *more == 1 { "once more" } else { &format!("{more} more times") };
                texts.push(format!("{text} ({times})"));
                (*told, *more) = (now, 0);
            }
            again
        });
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_counted_and_told_once_a_minute() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut folded = Folded::default();
        let told: Vec<String> =
            (0..30_000).filter_map(|n| folded.take("rot".into(), at(n / 1000))).collect();
        assert_eq!(told, ["rot"]);
        assert_eq!(folded.take("other".into(), at(30)).as_deref(), Some("other"));
        assert_eq!(folded.due(at(59)), Vec::<String>::new());
        assert_eq!(folded.due(at(60)), ["rot (29999 more times)"]);
        assert_eq!(folded.take("rot".into(), at(61)), None);
        assert_eq!(folded.due(at(120)), ["rot (once more)"]);
        assert_eq!(folded.due(at(180)), Vec::<String>::new(), "it is over");
        assert_eq!(folded.take("rot".into(), at(181)).as_deref(), Some("rot"));
    }
}
