//! Bars for long work, with a rate and an estimate; where stderr is no terminal there are none.

use api::types::Job;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;

/// How a bar looks.
const TEMPLATE: &str = "{msg:30} [{bar:30}] {percent:>3} %  {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";

/// One bar for each job.
pub(super) struct Bars {
    all: MultiProgress,
    bars: BTreeMap<String, ProgressBar>,
    style: ProgressStyle,
}

impl Bars {
    pub(super) fn new() -> Bars {
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template reads");
        let style = style.progress_chars("=> ");
        Bars { all: MultiProgress::new(), bars: BTreeMap::new(), style }
    }

    /// What runs now.
    pub(super) fn show(&mut self, jobs: &[Job]) {
        let running: Vec<String> = jobs.iter().map(name).collect();
        self.bars.retain(|name, bar| {
            let runs = running.contains(name);
            if !runs {
                bar.finish_and_clear();
            }
            runs
        });
        for (job, name) in jobs.iter().zip(running) {
            let bar = self.bars.entry(name.clone()).or_insert_with(|| {
                let bar = ProgressBar::new(job.total_bytes).with_message(name);
                self.all.add(bar.with_style(self.style.clone()))
            });
            bar.set_length(job.total_bytes);
            bar.set_position(job.done_bytes);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.bars.values().for_each(ProgressBar::finish_and_clear);
    }
}

fn name(job: &Job) -> String {
    format!("{} {}", job.kind.word(), job.subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::types::JobKind;

    #[test]
    fn bars_come_and_go_with_their_jobs() {
        let job = |kind, done_bytes| Job {
            kind,
            subject: "a".into(),
            done_bytes,
            total_bytes: 100,
            rate_bytes: 0,
            member: None,
        };
        let mut bars = Bars::new();
        bars.show(&[job(JobKind::Rebuild, 1), job(JobKind::Scrub, 2)]);
        bars.show(&[job(JobKind::Scrub, 60)]);
        assert_eq!(bars.bars.keys().collect::<Vec<_>>(), ["scrub a"]);
        assert_eq!(bars.bars["scrub a"].position(), 60);
        bars.show(&[]);
        assert!(bars.bars.is_empty());
    }
}
