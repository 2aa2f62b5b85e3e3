//! Figures for Prometheus, by its conventions: base units, `_total` for what only grows.
//!
//! What there is stands in one table ([`table::METRICS`]), from which both the text and docs/metrics.md
//! are made. Each label has few values: volumes up to [`VOLUMES_MAX`], sessions up to [`SESSIONS_MAX`], disks, and words.

mod samples;
mod sessions;
mod table;

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::types::{Array, Connection, Disk, Figures as Done, Job, Latency, Volume};

use table::{Detail, Source};

pub use sessions::SESSIONS_MAX;

pub use prometheus_client::encoding::prometheus_text::CONTENT_TYPE;

/// Volumes that have figures of their own: the first ones, if there are more.
pub const VOLUMES_MAX: usize = 4096;

/// Volumes that have histograms: the first ones, too.
pub const HISTOGRAMS_MAX: usize = 512;

/// The upper bounds of the classes of sessions in microseconds: of those that volumes have, so many are left out that all
/// sessions together take no more room than volumes do.
const SESSION_BOUNDS_US: [u64; 6] = [250, 1000, 5000, 25_000, 100_000, 500_000];

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

    /// The same in the classes of [`SESSION_BOUNDS_US`].
    fn few_classes(&self, latency: &Latency) -> Vec<(f64, u64)> {
        let bounds = self.done.latency_bounds_us.iter().copied().map(Some).chain([None]);
        let (mut classes, mut count) = (Vec::new(), 0);
        for (bound_us, here) in bounds.zip(&latency.counts) {
            count += here;
            let bound = match bound_us {
                Some(us) if SESSION_BOUNDS_US.contains(&us) => us as f64 / 1e6,
                Some(_) => continue,
                None => f64::INFINITY,
            };
            classes.push((bound, std::mem::take(&mut count)));
        }
        classes
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
                Source::Histogram(of, detail) => {
                    for (values, latency) in of(self) {
                        let (sum, count) = (latency.sum_us as f64 / 1e6, latency.count());
                        let classes = match detail {
                            Detail::All => self.classes(latency),
                            Detail::Few => self.few_classes(latency),
                        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{SessionWork, Work};
    use serde_json::json;

    /// A session whose commands took the first, the fourth and no class at all.
    fn connection(volume: &str, host: &str, isid: &str) -> Connection {
        let json = json!({
            "volume": volume, "iqn": "iqn.x:vm", "host": host, "address": "10.0.0.7:40000",
            "portal": "10.0.0.1:3260", "isid": isid, "session": 1, "connection": 1, "seconds": 9,
            "chap_user": null, "header_digest": false, "data_digest": false, "commands": 1,
            "read_bytes": 0, "written_bytes": 0, "waiting": 3,
        });
        let counts = [5, 0, 0, 2].into_iter().chain([0; 10]).chain([1]).collect();
        let latency = Latency { counts, sum_us: 2_500_000 };
        let reads = Work { latency, bytes: 4096, ..Work::default() };
        let connection: Connection = serde_json::from_value(json).expect("a connection");
        Connection { session_work: SessionWork { reads, ..SessionWork::default() }, ..connection }
    }

    fn text(connections: Vec<Connection>) -> String {
        let array = json!({
            "id": "", "raid": "raid5", "size_bytes": 1, "used_bytes": 0, "free_bytes": 1,
            "spare_bytes": 0, "chunk_bytes": 1, "disks": 3, "disks_online": 3, "journal_bytes": 0,
            "journal_used_bytes": 0, "checkpoint": 1, "generation": 1, "scrubbed_unix_seconds": 1,
            "rebuild_share_percent": 50, "scrub_days": 7, "warn_percents": [], "warnings": [],
            "free_by_level": [], "promised_bytes": 0, "stalls": [],
        });
        let bounds: Vec<u64> =
            member::LATENCY_BOUNDS.iter().map(|bound| bound.as_micros() as u64).collect();
        let done = json!({
            "volumes": [], "portals": [], "cores": [], "disks": [], "sets": [], "cache_bytes": 0,
            "cache_bytes_max": 0, "latency_bounds_us": bounds,
        });
        let figures = Figures {
            array: serde_json::from_value(array).expect("an array"),
            disks: Vec::new(),
            volumes: Vec::new(),
            jobs: Vec::new(),
            connections,
            done: serde_json::from_value(done).expect("figures"),
            destinations: Vec::new(),
            started_unix_seconds: 1.0,
        };
        figures.text()
    }

    /// The lines of a metric, without its name.
    fn lines<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        text.lines().filter_map(|line| line.strip_prefix(name)).collect()
    }

    #[test]
    fn a_session_has_few_classes_that_hold_all_of_its_commands() {
        let text = text(vec![connection("vm", "iqn.x:h", "00023d000001")]);
        let labels =
            r#"volume="vm",initiator="iqn.x:h",isid="00023d000001",portal="10.0.0.1:3260""#;
        let reads = format!("{{{labels},direction=\"read\"");
        let buckets = lines(&text, "drystone_session_latency_seconds_bucket");
        let of_reads =
            buckets.iter().filter_map(|line| line.strip_prefix(&reads)?.strip_prefix(','));
        let wanted = ["0.00025", "0.001", "0.005", "0.025", "0.1", "0.5"].map(|le| {
            let count = if le == "0.00025" { 5 } else { 7 };
            format!("le=\"{le}\"}} {count}")
        });
        let wanted: Vec<String> = wanted.into_iter().chain(["le=\"+Inf\"} 8".to_owned()]).collect();
        assert_eq!(of_reads.collect::<Vec<_>>(), wanted);
        assert!(
            text.contains(&format!("drystone_session_latency_seconds_sum{reads}}} 2.5")),
            "{text}"
        );
        assert!(text.contains(&format!("drystone_session_latency_seconds_count{reads}}} 8")));
        assert!(text.contains(&format!("drystone_session_bytes_total{reads}}} 4096.0")));
        assert!(text.contains(&format!("drystone_session_commands_waiting{{{labels}}} 3.0")));
        assert!(text.contains("drystone_sessions 1.0\n"));
        assert!(text.contains("drystone_sessions_without_figures 0.0\n"));
    }

    /// Hosts choose their names, and whoever reads metrics believes what stands in them.
    #[test]
    fn a_name_that_a_host_chose_adds_no_line_and_no_label() {
        let evil = "iqn.x\"} 1\ndrystone_array_disks_online 0\n# \\";
        let plain = text(Vec::new());
        let text = text(vec![connection("vm", evil, "1")]);
        let known: Vec<&str> = plain.lines().collect();
        for line in text.lines().filter(|line| !known.contains(line)) {
            // The memory of the process is another one each time.
            let is_known = ["drystone_session", "process_resident"];
            assert!(is_known.iter().any(|start| line.starts_with(start)), "{line}");
        }
        let wanted = r#"{volume="vm",initiator="iqn.x\"} 1\ndrystone_array_disks_online 0\n# \\",isid="1",portal="10.0.0.1:3260"} 3.0"#;
        assert_eq!(lines(&text, "drystone_session_commands_waiting"), [wanted]);
    }

    #[test]
    fn no_series_is_told_twice() {
        let one = connection("vm", "iqn.x:h", "1");
        let other = Connection { session: 2, ..one.clone() };
        let text = text(vec![one.clone(), other, connection("vm", "iqn.x:h", "2"), one]);
        let mut series: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.rsplit_once(' ')?.0))
            .collect();
        let count = series.len();
        series.sort_unstable();
        series.dedup();
        assert_eq!(series.len(), count, "{text}");
        assert_eq!(lines(&text, "drystone_session_commands_waiting").len(), 2);
    }
}
