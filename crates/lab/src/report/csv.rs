//! `flatfile.csv`: one line for each interval, and one for each step as a whole.

use super::Report;
use crate::measure::{Figures, StepFigures};

const HEADING: &str = "step,interval,at_s,seconds,asked_iops,iops,mb_per_s,mean_us,p50_us,p90_us,p99_us,\
p999_us,max_us,read_iops,read_mb_per_s,read_mean_us,read_p99_us,write_iops,write_mb_per_s,write_mean_us,\
write_p99_us,queue_depth,errors,wrong_blocks,lab_cpu_us_per_io,target_cpu_us_per_io,retries\n";

/// What every such file begins with, of this and earlier versions.
pub(super) const MARK: &str = "step,interval,at_s,";

/// All lines.
pub(super) fn flatfile(report: &Report) -> String {
    let mut text = HEADING.to_owned();
    for step in &report.steps {
        for (index, interval) in step.intervals.iter().enumerate() {
            let times = [(index + 1).to_string(), number(interval.at_s), number(interval.seconds)];
            let parts = [&interval.total, &interval.read, &interval.write];
            let last = [interval.queue_depth.to_string(), interval.errors.to_string()];
            line(&mut text, step, &times, parts, &last);
        }
        let times = ["all".to_owned(), number(step.seconds), number(step.seconds)];
        let target = step.target_cpu_us_per_io.map(number).unwrap_or_default();
        let last = [
            number(step.mean_queue_depth),
            step.error_count.to_string(),
            step.validation.mismatch_count.to_string(),
            number(step.lab_cpu_us_per_io),
            target,
            step.retries.to_string(),
        ];
        line(&mut text, step, &times, [&step.total, &step.read, &step.write], &last);
    }
    text
}

fn line(
    text: &mut String,
    step: &StepFigures,
    times: &[String],
    [total, read, write]: [&Figures; 3],
    last: &[String],
) {
    let mut fields = vec![quoted(&step.name)];
    fields.extend_from_slice(times);
    fields.push(step.asked_iops.map(number).unwrap_or_default());
    let latencies = [total.p50_us, total.p90_us, total.p99_us, total.p999_us, total.max_us];
    let apart = |part: &Figures| [part.iops, part.mb_per_s, part.mean_us, part.p99_us];
    let numbers = [total.iops, total.mb_per_s, total.mean_us]
        .into_iter()
        .chain(latencies)
        .chain(apart(read))
        .chain(apart(write));
    fields.extend(numbers.map(number));
    fields.extend_from_slice(last);
    let columns = HEADING.split(',').count();
    fields.resize(columns, String::new());
    text.push_str(&fields.join(","));
    text.push('\n');
}

fn number(value: f64) -> String {
    format!("{value:.3}")
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
