//! `drystone lab compare`.

use anyhow::Context;
use lab::report::{Comparison, Report, Verdict, compare, differences, troubles};
use serde::Serialize;

use crate::cli::lab::CompareArgs;
use crate::print::table::Column::{Number, Text};
use crate::print::table::table;
use crate::{Failure, print};

/// What is printed as JSON.
#[derive(Debug, Serialize)]
struct Shown {
    comparisons: Vec<Comparison>,
    /// Steps that only one of the runs has.
    alone: Vec<String>,
    /// How workloads and targets differ.
    differences: Vec<String>,
    /// Failed I/Os, wrong data, stalls and early ends of either side.
    troubles: Vec<String>,
}

/// Puts two runs side by side.
pub(super) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let a = Report::load(&args.a).context("the first run")?;
    let b = Report::load(&args.b).context("the second run")?;
    let (comparisons, alone) = compare(&a, &b);
    if comparisons.is_empty() {
        return Err(Failure::Run(anyhow::anyhow!("the two runs have no step of the same name")));
    }
    let (differences, troubles) = (differences(&a, &b), troubles(&a, &b));
    let shown = Shown { comparisons, alone, differences, troubles };
    Ok(if args.json { print::json(&shown) } else { print::out(&text(&shown)) }?)
}

fn text(shown: &Shown) -> String {
    let rows = shown.comparisons.iter().map(|one| {
        let verdict = match one.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "WORSE",
            Verdict::Noise => "within the noise",
            Verdict::TooShort => "too few intervals to tell",
        };
        let noise = match one.verdict {
            Verdict::TooShort => "-".to_owned(),
            _ => format!("{:.1} %", one.noise * 100.0),
        };
        [
            one.step.clone(),
            one.metric.name().to_owned(),
            format!("{:.1}", one.a),
            format!("{:.1}", one.b),
            format!("{:+.1} %", one.change * 100.0),
            noise,
            verdict.to_owned(),
        ]
    });
    let columns = [
        Text("STEP"),
        Text("WHAT"),
        Number("A"),
        Number("B"),
        Number("CHANGE"),
        Number("NOISE"),
        Text("VERDICT"),
    ];
    let mut text = table(columns, rows);
    for line in &shown.alone {
        text.push_str(&format!("{line}\n"));
    }
    let more = [
        ("The two runs did not do the same:", &shown.differences),
        ("Not all went well:", &shown.troubles),
    ];
    for (heading, lines) in more.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        text.push_str(&format!("\n{heading}\n"));
        lines.iter().for_each(|line| text.push_str(&format!("  {line}\n")));
    }
    text
}
