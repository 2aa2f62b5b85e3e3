//! Figures for Prometheus, by its conventions: base units, `_total` for what only grows.
//!
//! What there is stands in one table ([`table::METRICS`]), from which both the text and docs/metrics.md
//! are made. Each label has few values: volumes up to [`VOLUMES_MAX`], disks, and words.

mod table;
mod totals;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::types::{Array, Connection, Disk, Job, Volume};

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;
pub use totals::Totals;

/// Volumes that have figures of their own: the first ones, if there are more.
pub const VOLUMES_MAX: usize = 4096;

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
    /// What has gone over connections to each volume.
    pub totals: Totals,
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
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in table::METRICS {
            let kind = if metric.is_counter { MetricType::Counter } else { MetricType::Gauge };
            let mut encoder = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for (values, number) in (metric.of)(self) {
                let labels: Vec<(&str, String)> =
                    metric.labels.iter().copied().zip(values).collect();
                assert_eq!(labels.len(), metric.labels.len(), "each label has a value");
                let mut one = encoder.encode_family(&labels)?;
                match metric.is_counter {
                    true => one.encode_counter::<NoLabelSet, f64, u64>(&number, None)?,
                    false => one.encode_gauge(&number)?,
                }
            }
        }
        Ok(())
    }
}

/// The table of docs/metrics.md.
#[must_use]
pub fn table_markdown() -> String {
    let mut text = "| metric | type | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for metric in table::METRICS {
        let (kind, end) = if metric.is_counter { ("counter", "_total") } else { ("gauge", "") };
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
