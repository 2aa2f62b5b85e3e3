//! `report.html` as a browser shows it: every number of the tables and charts is there, has its place in
//! the picture, and bars and lines are as long and as high as their values.
//!
//! chromium renders the page without a window, and a script of this test, put into a copy of it, tells what
//! it shows and where.

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::measure::{
    Figures, IntervalFigures, IoError, PathFigures, Stall, StepFigures, Validation, VolumeFigures,
};
use lab::report::{Ending, Finding, Report, ResultsDirectory};
use lab::workload::vdbench;
use serde::Deserialize;

/// Replaces the page by what it showed.
const SCRIPT: &str = r#"<script>
const place = element => {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return { left, right, top, bottom };
};
const shown = element => ({ text: (element.innerText ?? element.textContent).trim(), place: place(element) });
const found = {
  text: document.body.innerText,
  width: document.documentElement.scrollWidth,
  tables: [...document.querySelectorAll("table")].map(table => ({
    place: place(table),
    rows: [...table.rows].map(row => [...row.cells].map(shown)),
  })),
  charts: [...document.querySelectorAll("svg")].map(svg => ({
    place: place(svg),
    texts: [...svg.querySelectorAll("text")].map(shown),
    bars: [...svg.querySelectorAll("rect")].map(place),
    lines: [...svg.querySelectorAll("polyline")].map(line => {
      const matrix = line.getScreenCTM();
      return [...line.points].map(point => { const { x, y } = point.matrixTransform(matrix); return [x, y]; });
    }),
  })),
};
const json = document.createElement("pre");
json.id = "found";
json.textContent = JSON.stringify(found);
document.body.replaceChildren(json);
</script>"#;

#[derive(Debug, Clone, Copy, Deserialize)]
struct Place {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Place {
    fn width(self) -> f64 {
        self.right - self.left
    }

    fn middle(self) -> f64 {
        f64::midpoint(self.top, self.bottom)
    }

    fn is_in(self, other: Self) -> bool {
        self.left >= other.left - 1.0
            && self.right <= other.right + 1.0
            && self.top >= other.top - 1.0
            && self.bottom <= other.bottom + 1.0
    }

    fn overlaps(self, other: Self) -> bool {
        // Boxes of letters have air around them.
        let deep = |a: f64, b: f64| a - b > 2.0;
        deep(self.right.min(other.right), self.left.max(other.left))
            && deep(self.bottom.min(other.bottom), self.top.max(other.top) + 1.0)
    }
}

#[derive(Debug, Deserialize)]
struct Shown {
    text: String,
    place: Place,
}

#[derive(Debug, Deserialize)]
struct Chart {
    place: Place,
    texts: Vec<Shown>,
    bars: Vec<Place>,
    lines: Vec<Vec<(f64, f64)>>,
}

#[derive(Debug, Deserialize)]
struct Table {
    place: Place,
    rows: Vec<Vec<Shown>>,
}

#[derive(Debug, Deserialize)]
struct Page {
    text: String,
    width: f64,
    tables: Vec<Table>,
    charts: Vec<Chart>,
}

/// Renders the page of `directory`. A picture of it goes to the path in DRYSTONE_REPORT_PICTURE, if set.
fn render(directory: &Path) -> Page {
    let page = fs::read_to_string(directory.join("report.html")).expect("the page is there");
    let probe = directory.join("probe.html");
    fs::write(&probe, page.replace("</body>", &format!("{SCRIPT}</body>"))).expect("works");
    let chromium = |path: &Path, more: &[&str]| {
        let profile = format!("--user-data-dir={}", directory.join("profile").display());
        let output = Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-extensions", "--window-size=1200,3200", &profile])
            .args(more)
            .arg(format!("file://{}", path.display()))
            .output()
            .expect("chromium is there: scripts/setup.sh test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("a page is text")
    };
    if let Some(picture) = std::env::var_os("DRYSTONE_REPORT_PICTURE") {
        let option = format!("--screenshot={}", picture.display());
        chromium(&directory.join("report.html"), &[&option]);
    }
    let dom = chromium(&probe, &["--virtual-time-budget=10000", "--dump-dom"]);
    let json = dom.split_once("<pre id=\"found\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (json, _) = json.unwrap_or_else(|| panic!("the script has not run: {dom}"));
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&json).expect("the script prints this")
}

fn figures(iops: f64, us: f64) -> Figures {
    Figures {
        ios: (iops * 3.0) as u64,
        iops,
        mb_per_s: iops * 0.008_192,
        mean_us: us,
        p50_us: us * 0.9,
        p90_us: us * 2.0,
        p99_us: us * 3.0,
        p999_us: us * 7.0,
        max_us: us * 31.0,
    }
}

fn step(name: &str, read: f64, write: f64) -> StepFigures {
    let interval = |second: u32| {
        let part = f64::from(second) / 3.0;
        IntervalFigures {
            at_s: f64::from(second),
            seconds: 1.0,
            read: figures(read * part, 110.0 * part),
            write: figures(write * part, 220.0),
            total: figures((read + write) * part, 140.0 * part),
            errors: 0,
            queue_depth: 8,
            path_iops: vec![700.0 * part, 400.0],
        }
    };
    let volume = |name: &str, share: f64| VolumeFigures {
        name: name.to_owned(),
        read: figures(read * share, 111.0),
        write: figures(write * share, 222.0),
        total: figures((read + write) * share, 133.0 / share),
    };
    let path = |host: &str, iops: f64, retries: u64| PathFigures {
        volume: "vol".to_owned(),
        path: format!("iscsi://{host}:3260/iqn.2026-11.com.example:vol/0"),
        state: "active".to_owned(),
        iops,
        mb_per_s: iops * 0.008,
        latency_us: iops / 3.0,
        losses: retries / 2,
        retries,
    };
    StepFigures {
        name: name.to_owned(),
        what: "oltp: 8 KiB, 67 % read, random, 2 volumes".to_owned(),
        started_unix_s: 1_795_262_400,
        seconds: 3.0,
        asked_iops: Some(5000.0),
        read: figures(read, 110.0),
        write: figures(write, 220.0),
        total: figures(read + write, 146.0),
        mean_queue_depth: 7.9,
        lab_cpu_us_per_io: 3.4,
        target_cpu_us_per_io: Some(5.6),
        volumes: vec![volume("first", 0.75), volume("second", 0.25)],
        paths: vec![path("198.18.0.2", 700.0, 9), path("198.18.1.2", 400.0, 4)],
        intervals: (1..=3).map(interval).collect(),
        retries: 13,
        sessions: None,
        error_count: 1,
        errors: vec![IoError {
            at_s: 1.25,
            volume: "first".to_owned(),
            operation: "write".to_owned(),
            at_bytes: 8192,
            len_bytes: 8192,
            error: "no path to the disk has worked within the time limit".to_owned(),
        }],
        stalls: vec![Stall {
            at_s: 0.5,
            volume: "second".to_owned(),
            seconds: 0.75,
            frozen_s: 0.25,
        }],
        longest_pause_s: 0.75,
        longest_pause_frozen_s: 0.0,
        freezes: Vec::new(),
        target_faults: Vec::new(),
        validation: Validation { is_on: true, compared_bytes: 98_304, ..Validation::default() },
        was_stopped: false,
    }
}

fn report() -> Report {
    let script = vdbench::parse("sd=s,lun=x\nwd=w,sd=s\nrd=a,wd=w\n").expect("it reads");
    let what = "two paths against one, with the policy service-time";
    Report {
        ending: Ending::Complete,
        findings: vec![Finding {
            what: what.to_owned(),
            paper: "1.30 to 1.40".to_owned(),
            ours: "1.25 & more".to_owned(),
            met: Some(false),
        }],
        steps: vec![
            step("oltp xfersize=8k threads=8", 2010.0, 990.0),
            step("oltp xfersize=8k threads=16", 4050.0, 1950.0),
            step("a very long name of a step that no chart has room for threads=32", 123.0, 61.0),
        ],
        ..Report::new("paths <1 & 2>", &script, vec!["first on iscsi://a".to_owned()])
    }
}

fn cells(figures: &Figures) -> Vec<String> {
    let Figures { iops, mb_per_s, mean_us, p50_us, p90_us, p99_us, p999_us, max_us, .. } = *figures;
    let rest = [mean_us, p50_us, p90_us, p99_us, p999_us, max_us].map(|us| format!("{us:.0}"));
    [&[format!("{iops:.0}"), format!("{mb_per_s:.2}")][..], &rest].concat()
}

/// Some table has a row of just these cells, and all of them can be seen without scrolling.
#[track_caller]
fn has_row(page: &Page, expected: &[String]) {
    let is_it = |row: &Vec<Shown>| row.iter().map(|cell| &cell.text).eq(expected);
    let found = page.tables.iter().find_map(|table| {
        let row = table.rows.iter().find(|row| is_it(row))?;
        Some((table, row))
    });
    let (table, row) = found.unwrap_or_else(|| panic!("no row {expected:?}: {}", page.text));
    for cell in row {
        // The corner above the names of rows is empty.
        let is_seen = cell.place.width() > 1.0 && cell.place.is_in(table.place);
        assert!(is_seen, "{cell:?} is cut off by {:?}", table.place);
    }
}

fn chart<'a>(charts: &mut impl Iterator<Item = &'a Chart>, title: &str) -> &'a Chart {
    let chart = charts.next().expect("there is one more chart");
    assert_eq!(chart.texts[0].text, title);
    chart
}

/// The numbers at the left of a chart, from its foot up, with their heights.
fn scale(chart: &Chart) -> Vec<(f64, f64)> {
    // Those below the foot stand a little further to the right.
    let left = chart.place.left + chart.place.width() * 0.084;
    let is_number = |shown: &&Shown| shown.place.right < left;
    let of = |shown: &Shown| (number(&shown.text), shown.place.middle());
    chart.texts.iter().filter(is_number).map(of).collect()
}

/// As it is read: 1.5k is 1500.
fn number(text: &str) -> f64 {
    let (digits, factor) = match text.strip_suffix(['k', 'M', 'G']) {
        Some(digits) if text.ends_with('k') => (digits, 1e3),
        Some(digits) if text.ends_with('M') => (digits, 1e6),
        Some(digits) => (digits, 1e9),
        None => (text, 1.0),
    };
    digits.parse::<f64>().unwrap_or_else(|_| panic!("'{text}' is no number")) * factor
}

/// Whoever looks from a line to the numbers at the left reads these values.
#[track_caller]
fn reads(chart: &Chart, lines: &[Vec<f64>]) {
    let scale = scale(chart);
    let (first, last) = (scale[0], scale[scale.len() - 1]);
    assert!(scale.len() >= 3 && last.0 > first.0 && last.1 < first.1, "{scale:?}");
    assert_eq!(chart.lines.len(), lines.len());
    for (line, expected) in chart.lines.iter().zip(lines) {
        let per_pixel = (last.0 - first.0) / (first.1 - last.1);
        let found: Vec<f64> =
            line.iter().map(|(_, y)| first.0 + (first.1 - y) * per_pixel).collect();
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            // Two pixels: the middle of a number is not quite at its line.
            assert!((found - expected).abs() <= per_pixel * 2.0, "{found} for {expected}");
        }
    }
}

/// All that is written in a chart is in its picture, and nothing lies over anything else.
fn is_legible(chart: &Chart) {
    for (index, one) in chart.texts.iter().enumerate() {
        assert!(
            one.place.width() > 1.0 && one.place.is_in(chart.place),
            "{one:?} in {:?}",
            chart.place
        );
        for other in &chart.texts[index + 1..] {
            assert!(!one.place.overlaps(other.place), "{one:?} lies over {other:?}");
        }
    }
}

fn intervals(step: &StepFigures, of: impl Fn(&IntervalFigures) -> f64) -> Vec<f64> {
    step.intervals.iter().map(of).collect()
}

#[test]
fn a_browser_shows_every_number_in_its_place() {
    let directory = tempfile::tempdir().expect("works");
    let report = report();
    ResultsDirectory::take(directory.path()).expect("works").save(&report).expect("works");
    let page = render(directory.path());
    for text in [
        "paths <1 & 2>",
        "No wrong data in 295kB compared. 3 I/Os failed. 3 stalls; the longest time in which a volume finished nothing was 0.750 s.",
        "first on iscsi://a",
        "measured for 3.0 s",
        "7.9 I/Os under way on average. Asked for 5000 IOPS, got 6000.",
        "1.250 s: write first, bytes 8192 to 16384: no path to the disk",
        "0.500 s: second finished nothing for 0.750 s",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    assert!(page.width <= 1200.0, "it is {} wide", page.width);
    let finding = &report.findings[0];
    has_row(
        &page,
        &[&finding.what, &finding.paper, &finding.ours, "MISSED"].map(|text| text.to_string()),
    );
    for step in &report.steps {
        tables_show(&page, step);
    }
    let mut charts = page.charts.iter();
    overview_shows(&mut charts, &report.steps);
    for step in &report.steps {
        let iops = chart(&mut charts, "I/Os per second (shaded: stalls), IOPS");
        reads(iops, &[intervals(step, |one| one.read.iops), intervals(step, |one| one.write.iops)]);
        let latency = chart(&mut charts, "Latency, microseconds");
        reads(
            latency,
            &[intervals(step, |one| one.total.p50_us), intervals(step, |one| one.total.p99_us)],
        );
        let paths = chart(&mut charts, "Each path, commands per second");
        reads(paths, &[0, 1].map(|path| intervals(step, |one| one.path_iops[path])));
        for (chart, names) in [
            (iops, ["read", "write"]),
            (latency, ["p50", "p99"]),
            (paths, ["198.18.0.2:3260", "198.18.1.2:3260"]),
        ] {
            for name in names.iter().chain(&["seconds", "0", "1", "2", "3"]) {
                assert!(chart.texts.iter().any(|shown| shown.text == *name), "{name}: {chart:?}");
            }
        }
    }
    assert!(charts.next().is_none());
    page.charts.iter().for_each(is_legible);
}

/// A line of the overview, and the tables of the step's own part.
fn tables_show(page: &Page, step: &StepFigures) {
    let total = cells(&step.total);
    let mut line = vec![step.name.clone()];
    line.extend([0, 1, 2, 3, 5, 7].map(|index: usize| total[index].clone()));
    line.extend(["1", "13", "0", "1", "3.4", "5.6"].map(str::to_owned));
    has_row(page, &line);
    for (name, figures) in [("read", &step.read), ("write", &step.write), ("both", &step.total)] {
        has_row(page, &[vec![name.to_owned()], cells(figures)].concat());
    }
    for volume in &step.volumes {
        has_row(page, &[vec![volume.name.clone()], cells(&volume.total)].concat());
    }
    for path in &step.paths {
        let (iops, mb_per_s) = (format!("{:.0}", path.iops), format!("{:.2}", path.mb_per_s));
        let counts =
            [format!("{:.0}", path.latency_us), path.losses.to_string(), path.retries.to_string()];
        let words = [&path.path, &path.volume, &path.state, &iops, &mb_per_s].map(String::clone);
        has_row(page, &[&words[..], &counts].concat());
    }
}

/// Bars are as long as their values, which stand behind them.
fn overview_shows<'a>(charts: &mut impl Iterator<Item = &'a Chart>, steps: &[StepFigures]) {
    let iops = chart(charts, "I/Os per second (long is good), IOPS");
    bars_show(
        iops,
        &steps.iter().flat_map(|step| [step.read.iops, step.write.iops]).collect::<Vec<_>>(),
    );
    let latency = chart(charts, "Latency (short is good), microseconds");
    bars_show(
        latency,
        &steps.iter().flat_map(|step| [step.total.mean_us, step.total.p99_us]).collect::<Vec<_>>(),
    );
    for (chart, legend) in [(iops, ["read", "write"]), (latency, ["mean", "p99"])] {
        for name in
            legend.iter().chain(&["oltp xfersize=8k threads=8", "oltp xfersize=8k threads=16"])
        {
            assert!(chart.texts.iter().any(|shown| shown.text == *name), "{name}: {chart:?}");
        }
        assert!(chart.texts.iter().any(|shown| shown.text.ends_with("has room for threads=32")));
    }
}

fn bars_show(chart: &Chart, values: &[f64]) {
    // The two small squares of the legend come last.
    let bars = &chart.bars[..values.len()];
    assert_eq!(chart.bars.len(), values.len() + 2);
    let longest = bars.iter().map(|bar| bar.width()).fold(0.0, f64::max);
    let most = values.iter().copied().fold(0.0, f64::max);
    for (bar, value) in bars.iter().zip(values) {
        let expected = value / most * longest;
        assert!((bar.width() - expected).abs() <= 1.0, "{} for {expected}", bar.width());
        let behind = chart.texts.iter().find(|shown| {
            (shown.place.middle() - bar.middle()).abs() < 6.0 && shown.place.left > bar.right
        });
        let read = number(&behind.expect("its value stands behind it").text);
        assert!((read - value).abs() <= value * 0.01, "{read} for {value}");
    }
}
