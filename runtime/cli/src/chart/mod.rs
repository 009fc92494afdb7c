//! `bench chart`: draws speed over tokens from results that were measured before; and the charts of certificates. An SVG with lines over
//! a logarithmic axis upwards, and a logarithmic or an even one to the right, in the colours of a light or a dark page.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use crate::args::BenchChartArgs;
use crate::error::CliError;
use crate::results::{Part, ResultError, RunOf, Stored, plain};
use crate::screen::{Outcome, Screen};

/// Name of the workload's entry on the horizontal axis.
const TOKENS: &str = "tokens";

/// Width of the picture in pixels; the next constants are the edges of its plot.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 736.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 376.0;
/// Height of an entry of the legend, in pixels.
const ENTRY: f64 = 20.0;
/// The place of the legend's first entry, in pixels from the top.
const LEGEND: f64 = 440.0;

/// Largest number of characters of a title that fits the page without squeezing.
const LONG_TITLE: usize = 84;

/// Colours of lines on a light page and on a dark one, distinct to colour-blind eyes as well (after Okabe and Ito).
const COLORS: [[&str; 2]; 7] = [
    ["#0072b2", "#56b4e9"],
    ["#d55e00", "#ff8c42"],
    ["#00795a", "#2fd0a0"],
    ["#a8497f", "#e79cc4"],
    ["#8a6d00", "#f0e442"],
    ["#444444", "#bbbbbb"],
    ["#5b3fa0", "#b39ddb"],
];
/// Dash patterns of lines: the first for the first seven lines, one of each colour, the next for the next seven, and so
/// on.
const DASHES: [&str; 4] = ["none", "7 4", "2 3", "9 3 2 3"];

/// Style of text and lines, with the colours of a light page.
const STYLE: &str = "\
svg{--page:#ffffff;--ink:#1f2328;--grid:#d0d7de}\
text{fill:var(--ink);font:13px system-ui,sans-serif}\
.title{font-size:14px;font-weight:600}\
.page{fill:var(--page)}.grid{stroke:var(--grid)}.axis{stroke:var(--ink)}\
.line{fill:none;stroke-width:2}";
/// Colours of a dark page, in place of those in [`STYLE`].
const DARK: &str = "svg{--page:#0d1117;--ink:#e6edf3;--grid:#30363d}";

/// Runs `moebius bench chart`.
pub(crate) fn run(args: &BenchChartArgs, screen: &mut Screen) -> Result<Outcome, CliError> {
    let mut all = Vec::new();
    for file in &args.files {
        all.extend(Stored::read(file)?);
    }
    let chart = chart(&all)?;
    let (out, lines) = (args.out.display().to_string(), chart.series.len());
    fs::write(&args.out, chart.svg()).map_err(CliError::write(&out))?;
    screen.line(&format!("{out}: {lines} lines of {} results", all.len()))?;
    screen.object(&json!({ "out": out, "lines": lines, "results": all.len() }))?;
    Ok(Outcome::Good)
}

/// The chart of some results, which may differ only in tokens, devices and instruction sets.
fn chart(all: &[Stored]) -> Result<Chart, ResultError> {
    let Some(first) = all.first() else {
        let (path, got) = ("no file".to_owned(), "no result".to_owned());
        return Err(ResultError::Foreign { path, got });
    };
    let mut points: BTreeMap<String, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for stored in all {
        if let Some([what, expected, got]) = first.run.difference(&stored.run, &[TOKENS]) {
            return Err(ResultError::Differs {
                path: stored.path.clone(),
                what,
                expected,
                got,
            });
        }
        let tokens = stored.run.workload.get(TOKENS).and_then(Value::as_u64);
        let Some(tokens) = tokens.filter(|tokens| *tokens > 0) else {
            let (path, got) = (stored.path.clone(), "a `run` without tokens".to_owned());
            return Err(ResultError::Foreign { path, got });
        };
        for figure in stored.figures.iter().filter(|of| of.of != Part::Stage) {
            let line = format!("{} · {}", figure.name, place(&stored.run, figure.of));
            let rates = points.entry(line).or_default().entry(tokens).or_default();
            rates.push(tokens as f64 / figure.ms * 1e3);
        }
    }
    let series = points.into_iter().map(|(name, points)| Series {
        name,
        points: points.into_iter().map(middle).collect(),
    });
    Ok(Chart {
        title: title(&first.run),
        names: [TOKENS, "tokens per second"],
        even: false,
        series: series.collect(),
    })
}

/// Name of the device that a line was measured on; a peer doesn't run on our device.
fn place(run: &RunOf, part: Part) -> String {
    let set = run.simd.map(|set| format!(", {set}")).unwrap_or_default();
    match part {
        Part::Peer => format!("beside {}{set}", run.device),
        _ => format!("{}{set}", run.device),
    }
}

/// A point of a line; repeated measurements give their median.
fn middle((tokens, mut rates): (u64, Vec<f64>)) -> (f64, f64) {
    rates.sort_by(f64::total_cmp);
    (tokens as f64, rates[rates.len() / 2])
}

/// Title of a chart: the workload without its tokens.
fn title(run: &RunOf) -> String {
    let name = run.workload.get("name").map_or(String::new(), plain);
    let entries = run.workload.iter();
    let entries = entries.filter(|(key, value)| {
        ![TOKENS, "name"].contains(&key.as_str()) && !value.is_null() && **value != json!(false)
    });
    let texts = entries.map(|(key, value)| match value {
        Value::Bool(_) => key.replace('_', " "),
        _ => format!("{} {}", key.replace('_', " "), plain(value)),
    });
    let texts: Vec<String> = std::iter::once(name).chain(texts).collect();
    texts.join(" · ")
}

/// Content of a chart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What the axis to the right counts, and what the axis upwards does.
    pub(crate) names: [&'static str; 2],
    /// Whether the axis to the right is even instead of logarithmic.
    pub(crate) even: bool,
    pub(crate) series: Vec<Series>,
}

/// A line, with its entry in the legend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// Points (right, up) from left to right, positive on logarithmic axes.
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis, which maps values to pixels.
#[derive(Clone, Copy)]
struct Axis {
    even: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis from the smallest of `values` to the largest; a single value lies in the middle.
    fn around(values: impl Iterator<Item = f64>, even: bool, [from, to]: [f64; 2]) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let (low, high) = match (low < high, even) {
            (true, _) => (low, high),
            (false, true) => (low - 1.0, low + 1.0),
            (false, false) => (low / 2.0, low * 2.0),
        };
        let of = |value: f64| if even { value } else { value.ln() };
        Self {
            even,
            low: of(low),
            high: of(high),
            from,
            to,
        }
    }

    fn at(self, value: f64) -> f64 {
        let value = if self.even { value } else { value.ln() };
        let share = (value - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    /// Values of a logarithmic axis with a grid line: 1, 2 and 5 times each power of ten, or only the powers if there are more than four.
    fn ticks(self) -> Vec<f64> {
        let slack = 1e-9;
        let powers = |of: f64| ((of + slack) / std::f64::consts::LN_10).floor() as i32;
        let of = |steps: &[f64]| -> Vec<f64> {
            let powers = powers(self.low)..=powers(self.high);
            let all = powers.flat_map(|power| steps.iter().map(move |s| s * 10_f64.powi(power)));
            all.filter(|v| (self.low - slack..=self.high + slack).contains(&v.ln()))
                .collect()
        };
        let [tens, all] = [of(&[1.0]), of(&[1.0, 2.0, 5.0])];
        if tens.len() > 4 { tens } else { all }
    }
}

impl Chart {
    /// The text of the SVG file.
    pub(crate) fn svg(&self) -> String {
        let height = LEGEND + ENTRY * self.series.len() as f64 + 12.0;
        let size = format!(r#"width="{WIDTH}" height="{height}""#);
        let title = escaped(&self.title);
        let [wide, high] = self.names.map(escaped);
        let (middle, center) = ((TOP + BOTTOM) / 2.0, (LEFT + RIGHT) / 2.0);
        // A long title is squeezed into the width of the page.
        let fitted = match self.title.chars().count() {
            count if count > LONG_TITLE => {
                let room = RIGHT - 18.0;
                format!(r#" textLength="{room}" lengthAdjust="spacingAndGlyphs""#)
            }
            _ => String::new(),
        };
        let [light, dark] = [0, 1].map(|page| self.colors(page));
        let mut out = vec![
            format!(
                r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {size} role="img">"#
            ),
            // Its own first element names a picture; an identifier would be another's, too, in a page with two charts.
            format!("<title>{high} over {wide}: {title}</title>"),
            format!(
                "<style>{STYLE}{light}@media (prefers-color-scheme: dark){{{DARK}{dark}}}</style>"
            ),
            format!(r#"<rect class="page" {size}/>"#),
            format!(r#"<text class="title" x="18" y="28"{fitted}>{title}</text>"#),
        ];
        let axes = self.axes();
        self.grid(axes, &mut out);
        out.push(format!(
            r#"<text x="{center}" y="418" text-anchor="middle">{wide}</text>"#
        ));
        let turned = format!(r#"transform="rotate(-90 18 {middle})""#);
        out.push(format!(
            r#"<text x="18" y="{middle}" text-anchor="middle" {turned}>{high}</text>"#
        ));
        for (index, series) in self.series.iter().enumerate() {
            series.line(index, axes, &mut out);
        }
        out.push("</svg>\n".to_owned());
        out.join("\n")
    }

    /// CSS rules for the colours of the lines on a light (0) or dark (1) page.
    fn colors(&self, page: usize) -> String {
        let used = COLORS.iter().take(self.series.len()).enumerate();
        let rules = used.map(|(index, colors)| {
            let color = colors[page];
            format!(".c{index}{{stroke:{color}}}.m{index}{{fill:{color}}}")
        });
        rules.collect()
    }

    fn axes(&self) -> [Axis; 2] {
        let points = || self.series.iter().flat_map(|series| &series.points);
        [
            Axis::around(
                points().map(|(x, _)| *x),
                self.even,
                [LEFT + 14.0, RIGHT - 14.0],
            ),
            Axis::around(
                points().map(|(_, y)| *y),
                false,
                [BOTTOM - 14.0, TOP + 14.0],
            ),
        ]
    }

    /// Grid lines and numbers of both axes; the numbers below are those of points.
    fn grid(&self, [across, up]: [Axis; 2], out: &mut Vec<String>) {
        for value in up.ticks() {
            let (y, end, text) = (up.at(value), LEFT - 8.0, short(value));
            let line =
                format!(r#"<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/>"#);
            let below = y + 4.0;
            out.push(format!(
                r#"{line}<text x="{end}" y="{below:.1}" text-anchor="end">{text}</text>"#
            ));
        }
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut measured: Vec<f64> = points.map(|(x, _)| *x).collect();
        measured.sort_by(f64::total_cmp);
        measured.dedup();
        let mut free = f64::NEG_INFINITY;
        for value in measured {
            let (x, y, text) = (across.at(value), BOTTOM + 18.0, short(value));
            out.push(format!(
                r#"<line class="grid" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{BOTTOM}"/>"#
            ));
            // A number that would touch the previous one is left out.
            if x >= free {
                free = x + 9.0 * (text.len() + 1) as f64;
                out.push(format!(
                    r#"<text x="{x:.1}" y="{y}" text-anchor="middle">{text}</text>"#
                ));
            }
        }
        out.push(format!(
            r#"<path class="axis" fill="none" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>"#
        ));
    }
}

impl Series {
    /// Draws line `index`, its points, and its entry in the legend.
    fn line(&self, index: usize, [across, up]: [Axis; 2], out: &mut Vec<String>) {
        let color = index % COLORS.len();
        let dash = DASHES[index / COLORS.len() % DASHES.len()];
        let stroke = format!(r#"class="line c{color}" stroke-dasharray="{dash}""#);
        let places = self.points.iter();
        let places = places.map(|(x, y)| (across.at(*x), up.at(*y)));
        let places: Vec<(f64, f64)> = places.collect();
        let path = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let path = path.collect::<Vec<_>>().join(" ");
        out.push(format!(r#"<polyline {stroke} points="{path}"/>"#));
        out.extend(places.iter().map(|place| mark(index, *place)));
        let y = LEGEND + ENTRY * index as f64;
        let (end, middle, text, below) = (LEFT + 30.0, LEFT + 15.0, LEFT + 40.0, y + 4.0);
        let name = escaped(&self.name);
        out.extend([
            format!(r#"<line {stroke} x1="{LEFT}" x2="{end}" y1="{y}" y2="{y}"/>"#),
            mark(index, (middle, y)),
            format!(r#"<text x="{text}" y="{below}">{name}</text>"#),
        ]);
    }
}

/// The mark of line `index` at (x, y). Neighbouring lines have marks of different shapes, for readers who can't tell the colours
/// apart.
fn mark(index: usize, (x, y): (f64, f64)) -> String {
    let color = index % COLORS.len();
    let path = match index % 4 {
        0 => return format!(r#"<circle class="m{color}" cx="{x:.1}" cy="{y:.1}" r="4"/>"#),
        1 => "m-4 -4h8v8h-8z",
        2 => "m0 -5l5 9h-10z",
        _ => "m0 -5l5 5l-5 5l-5 -5z",
    };
    format!(r#"<path class="m{color}" d="M{x:.1} {y:.1}{path}"/>"#)
}

/// A number with at most two decimals, and a letter for thousands, millions or billions; a small one as a power of ten.
fn short(value: f64) -> String {
    if value > 0.0 && value < 0.01 {
        return format!("{value:.0e}");
    }
    let (scaled, letter) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e4 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = format!("{scaled:.2}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{letter}")
}

/// The text with all characters escaped that XML doesn't allow in text or attributes.
pub(crate) fn escaped(text: &str) -> String {
    // XML has no way to write most control characters, so each becomes a space.
    let text = text.replace(char::is_control, " ").replace('&', "&amp;");
    let text = text.replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
#[path = "svg_tests.rs"]
mod svg_tests;
#[cfg(test)]
mod tests;
