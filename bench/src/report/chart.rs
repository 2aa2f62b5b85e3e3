//! Bar charts: one panel per row of work, one bar per target, each panel with its own scale.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::markdown::rows;
use crate::suite::{Results, Run};

/// One chart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    /// Its file.
    pub(super) file: &'static str,
    /// Its heading.
    pub(super) title: &'static str,
    /// What the bars show.
    of: fn(&Run) -> f64,
    digits: usize,
}

/// All charts.
pub(super) const FIGURES: [Figure; 2] = [
    Figure {
        file: "cpu.svg",
        title: "CPU of the target per I/O, in microseconds (short is good)",
        of: |run| run.target_cpu_us_per_io,
        digits: 2,
    },
    Figure {
        file: "iops.svg",
        title: "I/Os per second (long is good)",
        of: |run| run.iops,
        digits: 0,
    },
];

const WIDTH: i32 = 900;
const HEADING_HEIGHT: i32 = 44;
const TITLE_HEIGHT: i32 = 26;
const BAR_HEIGHT: i32 = 16;
const BAR_GAP: i32 = 4;
const PANEL_GAP: i32 = 14;
const LABEL_X: i32 = 20;
const BAR_X: i32 = 130;
/// Longest bar; the value stands to the right of it.
const BAR_WIDTH: f64 = 640.0;

/// Readable side by side for those who see no red or no green (after Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(120, 120, 120),
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
];

struct Panel<'a> {
    title: &'a str,
    /// Index of the target, its name, its value.
    bars: Vec<(usize, &'a str, f64)>,
}

fn panels<'a>(results: &'a Results, figure: &Figure) -> Vec<Panel<'a>> {
    rows(results)
        .into_iter()
        .map(|(key, title)| {
            let bars = results
                .targets
                .iter()
                .enumerate()
                .filter_map(|(index, target)| {
                    let cell = results
                        .cells
                        .iter()
                        .find(|cell| cell.row == key && cell.target == target.name)?;
                    Some((index, target.name.as_str(), (figure.of)(&cell.median()?)))
                })
                .collect();
            Panel { title, bars }
        })
        .filter(|panel: &Panel<'_>| !panel.bars.is_empty())
        .collect()
}

/// The chart as SVG.
///
/// # Errors
/// The drawing library's own.
pub(super) fn draw(results: &Results, figure: &Figure) -> Result<String> {
    let panels = panels(results, figure);
    let heights = panels
        .iter()
        .map(|panel| TITLE_HEIGHT + panel.bars.len() as i32 * (BAR_HEIGHT + BAR_GAP) + PANEL_GAP);
    let height = HEADING_HEIGHT + heights.sum::<i32>();
    let mut svg = String::new();
    {
        let size = (WIDTH.unsigned_abs(), height.unsigned_abs());
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw_on(&area, figure, &panels).map_err(|error| anyhow!("{}: {error}", figure.file))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_on(
    area: &Area<'_>,
    figure: &Figure,
    panels: &[Panel<'_>],
) -> Result<(), Box<dyn std::error::Error>> {
    area.fill(&WHITE)?;
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK);
    area.draw_text(figure.title, &text(18), (LABEL_X, 12))?;
    let mut y = HEADING_HEIGHT;
    for panel in panels {
        area.draw_text(panel.title, &text(14), (LABEL_X, y))?;
        y += TITLE_HEIGHT;
        let longest = panel.bars.iter().map(|bar| bar.2).fold(f64::MIN_POSITIVE, f64::max);
        for (index, name, value) in &panel.bars {
            let end = BAR_X + (value / longest * BAR_WIDTH) as i32;
            let colour = COLOURS[index % COLOURS.len()];
            area.draw_text(name, &text(12), (LABEL_X, y + 2))?;
            area.draw(&Rectangle::new([(BAR_X, y), (end, y + BAR_HEIGHT)], colour.filled()))?;
            let value = format!("{value:.*}", figure.digits);
            area.draw_text(&value, &text(12), (end + 6, y + 2))?;
            y += BAR_HEIGHT + BAR_GAP;
        }
        y += PANEL_GAP;
    }
    area.present()?;
    Ok(())
}
