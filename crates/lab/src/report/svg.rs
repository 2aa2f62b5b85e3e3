//! Charts as SVG, with nothing that they need from elsewhere.

use std::fmt::Write;

/// Readable side by side for those who see no red or no green (after Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 40.0;

/// A line of a chart.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// Places and values, the places rising.
    pub(super) points: Vec<(f64, f64)>,
}

/// Values over time, or over what was varied.
#[derive(Debug)]
pub(super) struct LineChart<'a> {
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    /// What the places are: `seconds`.
    pub(super) across: &'a str,
    pub(super) series: Vec<Series>,
    /// Times that are shaded, with what they are.
    pub(super) shaded: Vec<(f64, f64)>,
}

impl LineChart<'_> {
    /// The chart; nothing without at least two points.
    pub(super) fn draw(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let last = points().map(|point| point.0).fold(0.0, f64::max);
        if self.series.iter().all(|series| series.points.len() < 2) || last <= 0.0 {
            return String::new();
        }
        let top = points().map(|point| point.1).fold(0.0, f64::max);
        let scale = Scale::up_to(top);
        let x = |at: f64| LEFT + at / last * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - value / scale.top * (HEIGHT - TOP - BOTTOM);
        let mut svg = open(self.title, self.unit);
        for (from, to) in &self.shaded {
            let (from, to) = (x(from.max(0.0)), x(to.min(last)));
            if to > from {
                let width = (to - from).max(1.0);
                let height = HEIGHT - TOP - BOTTOM;
                let _ = write!(
                    svg,
                    r##"<rect x="{from:.1}" y="{TOP}" width="{width:.1}" height="{height}" fill="#f3d9d9"/>"##
                );
            }
        }
        grid(&mut svg, &scale, &y);
        for tick in Scale::up_to(last).ticks().into_iter().filter(|tick| *tick <= last * 1.001) {
            let (x, y) = (x(tick), HEIGHT - BOTTOM + 16.0);
            let _ = write!(
                svg,
                r#"<text x="{x:.1}" y="{y}" text-anchor="middle">{}</text>"#,
                label(tick)
            );
        }
        let _ = write!(
            svg,
            r#"<text x="{}" y="{}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            HEIGHT - 6.0,
            escape(self.across)
        );
        for (index, series) in self.series.iter().enumerate() {
            let place = |(at, value): &(f64, f64)| format!("{:.1},{:.1}", x(*at), y(*value));
            let places: Vec<String> = series.points.iter().map(place).collect();
            let colour = COLOURS[index % COLOURS.len()];
            let _ = write!(
                svg,
                r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="1.8"/>"#,
                places.join(" ")
            );
        }
        legend(&mut svg, self.series.iter().map(|series| series.name.as_str()));
        svg.push_str("</svg>");
        svg
    }
}

/// Values of things that are compared.
#[derive(Debug)]
pub(super) struct BarChart<'a> {
    pub(super) title: &'a str,
    pub(super) unit: &'a str,
    /// What the bars of a group stand for.
    pub(super) names: Vec<&'a str>,
    /// Groups with their bars.
    pub(super) groups: Vec<(String, Vec<f64>)>,
}

impl BarChart<'_> {
    /// Horizontal bars, so that long names have room.
    pub(super) fn draw(&self) -> String {
        const BAR: f64 = 15.0;
        const GAP: f64 = 9.0;
        const NAMES: f64 = 250.0;
        const VALUES: f64 = 90.0;
        let bars: usize = self.names.len();
        let height = TOP + self.groups.len() as f64 * (bars as f64 * BAR + GAP) + 10.0;
        let top = self.groups.iter().flat_map(|group| &group.1).copied().fold(0.0, f64::max);
        let top = if top > 0.0 { top } else { 1.0 };
        let mut svg = open_sized(self.title, self.unit, height);
        let mut y = TOP + 4.0;
        for (name, values) in &self.groups {
            let middle = y + bars as f64 * BAR / 2.0 + 4.0;
            let name = escape(&shorten(name));
            let _ = write!(
                svg,
                r#"<text x="{}" y="{middle:.1}" text-anchor="end">{name}</text>"#,
                NAMES - 8.0
            );
            for (index, value) in values.iter().enumerate() {
                if *value == 0.0 {
                    y += BAR;
                    continue;
                }
                let width = value / top * (WIDTH - NAMES - VALUES);
                let colour = COLOURS[index % COLOURS.len()];
                let (text_x, text_y) = (NAMES + width + 5.0, y + BAR - 4.0);
                let _ = write!(
                    svg,
                    r#"<rect x="{NAMES}" y="{y:.1}" width="{width:.1}" height="{}" fill="{colour}"/><text x="{text_x:.1}" y="{text_y:.1}">{}</text>"#,
                    BAR - 2.0,
                    label(*value)
                );
                y += BAR;
            }
            y += GAP;
        }
        if bars > 1 {
            legend(&mut svg, self.names.iter().copied());
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Round numbers along an axis.
struct Scale {
    top: f64,
    step: f64,
}

impl Scale {
    fn up_to(value: f64) -> Self {
        let value = if value > 0.0 { value } else { 1.0 };
        let raw = value / 5.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= raw * 0.999).unwrap_or(power * 10.0);
        Self { top: (value / step).ceil() * step, step }
    }

    fn ticks(&self) -> Vec<f64> {
        let count = (self.top / self.step).round() as u32;
        (0..=count).map(|n| f64::from(n) * self.step).collect()
    }
}

fn open(title: &str, unit: &str) -> String {
    open_sized(title, unit, HEIGHT)
}

fn open_sized(title: &str, unit: &str, height: f64) -> String {
    let title = escape(title);
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}"><text x="{LEFT}" y="16" class="t">{title}, {}</text>"#,
        escape(unit)
    )
}

fn grid(svg: &mut String, scale: &Scale, y: &dyn Fn(f64) -> f64) {
    for tick in scale.ticks() {
        let (y, end) = (y(tick), WIDTH - RIGHT);
        let _ = write!(
            svg,
            r##"<line x1="{LEFT}" x2="{end}" y1="{y:.1}" y2="{y:.1}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{}</text>"##,
            LEFT - 6.0,
            y + 4.0,
            label(tick)
        );
    }
}

fn legend<'a>(svg: &mut String, names: impl Iterator<Item = &'a str>) {
    const PER_LETTER: f64 = 6.6;
    let mut x = LEFT;
    for (index, name) in names.enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let _ = write!(
            svg,
            r#"<rect x="{x:.1}" y="25" width="10" height="10" fill="{colour}"/><text x="{:.1}" y="34">{}</text>"#,
            x + 14.0,
            escape(name)
        );
        x += 34.0 + name.chars().count() as f64 * PER_LETTER;
    }
}

/// A number in few letters: 12, 1.5k, 230M.
pub(super) fn label(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

fn shorten(name: &str) -> String {
    const LETTERS: usize = 38;
    let count = name.chars().count();
    if count <= LETTERS {
        return name.to_owned();
    }
    // The end of a name tells it from its neighbours.
    format!("...{}", name.chars().skip(count - LETTERS + 3).collect::<String>())
}

/// Text inside XML.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers_up_to_the_largest() {
        for (value, top, count) in [
            (97.0, 100.0, 6),
            (1.0, 1.0, 6),
            (12_345.0, 12_500.0, 6),
            (0.0, 1.0, 6),
            (430.0, 500.0, 6),
        ] {
            let scale = Scale::up_to(value);
            assert!((scale.top - top).abs() < 1e-6, "{} for {value}", scale.top);
            assert_eq!(scale.ticks().len(), count, "{:?}", scale.ticks());
        }
    }

    #[test]
    fn labels_are_short() {
        let cases = [
            (0.0, "0"),
            (0.25, "0.25"),
            (12.0, "12"),
            (9999.0, "9999"),
            (12_345.0, "12.3k"),
            (1e6, "1M"),
        ];
        for (value, expected) in cases {
            assert_eq!(label(value), expected);
        }
    }

    #[test]
    fn names_cannot_break_out_of_the_picture() {
        let chart = BarChart {
            title: "<a>",
            unit: "x",
            names: vec!["n"],
            groups: vec![("<b>&".into(), vec![1.0])],
        };
        let svg = chart.draw();
        assert!(
            svg.contains("&lt;a&gt;") && svg.contains("&lt;b&gt;&amp;") && !svg.contains("<b>")
        );
    }
}
