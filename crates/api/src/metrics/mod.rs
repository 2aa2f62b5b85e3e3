//! Figures for Prometheus, by its conventions: base units, `_total` for what only grows.
//!
//! What there is stands in one table ([`table::METRICS`]), from which both the text and docs/metrics.md
//! are made. Each label has few values: volumes up to [`VOLUMES_MAX`], disks, and words.

mod table;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::types::{Array, Connection, Disk, Figures as Done, Job, Latency, Volume};

use table::Source;

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// Volumes that have figures of their own: the first ones, if there are more.
pub const VOLUMES_MAX: usize = 4096;

/// Volumes that have histograms: the first ones, too.
pub const HISTOGRAMS_MAX: usize = 512;

/// What there is to tell at a moment.
#[derive(Debug, Clone)]
pub struct Figures {
    /// The array.
    pub array: Array,
    /// Its disks.
    pub disks: Vec<Disk>,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// What runs in the background.
    pub jobs: Vec<Job>,
    /// Who is connected.
    pub connections: Vec<Connection>,
    /// What hosts have had done.
    pub done: Done,
    /// Where events go on to, and how that does.
    pub destinations: Vec<crate::types::Destination>,
    /// When the interface was started, which is when the member was.
    pub started_unix_seconds: f64,
}

impl Figures {
    /// All of them as text.
    ///
    /// # Panics
    /// Never: a string takes all that is written to it.
    #[must_use]
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).expect("a string takes what is written");
        text
    }

    /// Upper bounds in seconds, and the commands between them.
    fn classes(&self, latency: &Latency) -> Vec<(f64, u64)> {
        let bounds = self.done.latency_bounds_us.iter().map(|bound| *bound as f64 / 1e6);
        bounds.chain([f64::INFINITY]).zip(latency.counts.iter().copied()).collect()
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in table::METRICS {
            let mut encoder =
                encoder.encode_descriptor(metric.name, metric.help, None, metric.of.kind())?;
            let labelled = |values: Vec<String>| -> Vec<(&str, String)> {
                assert_eq!(values.len(), metric.labels.len(), "each label has a value");
                metric.labels.iter().copied().zip(values).collect()
            };
            match metric.of {
                Source::Gauge(of) => {
                    for (values, number) in of(self) {
                        encoder.encode_family(&labelled(values))?.encode_gauge(&number)?;
                    }
                }
                Source::Counter(of) => {
                    for (values, number) in of(self) {
                        encoder
                            .encode_family(&labelled(values))?
                            .encode_counter::<NoLabelSet, f64, u64>(&number, None)?;
                    }
                }
                Source::Histogram(of) => {
                    for (values, latency) in of(self) {
                        let (sum, count) = (latency.sum_us as f64 / 1e6, latency.count());
                        let classes = self.classes(latency);
                        encoder
                            .encode_family(&labelled(values))?
                            .encode_histogram::<NoLabelSet>(sum, count, &classes, None)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The names under which Prometheus stores all that there is, in the order of the table.
#[must_use]
pub fn series() -> Vec<String> {
    let names = |metric: &table::Metric| -> Vec<String> {
        let ends: &[&str] = match metric.of.kind() {
            MetricType::Counter => &["_total"],
            MetricType::Histogram => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        ends.iter().map(|end| format!("{}{end}", metric.name)).collect()
    };
    table::METRICS.iter().flat_map(names).collect()
}

/// The table of docs/metrics.md.
#[must_use]
pub fn table_markdown() -> String {
    let mut text = "| metric | type | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for metric in table::METRICS {
        let (kind, end) = match metric.of.kind() {
            MetricType::Counter => ("counter", "_total"),
            MetricType::Histogram => ("histogram", ""),
            _ => ("gauge", ""),
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let row = format!(
            "| `{}{end}` | {kind} | {} | {}. |\n",
            metric.name,
            labels.join(", "),
            metric.help
        );
        text.push_str(&row);
    }
    text
}
