//! A certificate as Markdown, and as a page that needs nothing else.

use moebius_model::computation::Distance;

use crate::certificate::{Certificate, Found, Measured, Place, Subject, Tested, Verdict};
use crate::chart::{Chart, Series, escaped};
use crate::devices::bytes;

/// Headings of [`cells`].
pub(super) const HEADINGS: &str =
    "device | adapter | machine | seconds | memory | furthest | bits of the first | answer";
/// Headings of [`part`].
pub(super) const PARTS: &str = "part | distance | ulps | judged | flips";

/// Style of the page on a light screen and on a dark one.
const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;display:block;overflow-x:auto}\
th,td{border:1px solid #8886;padding:.2rem .6rem;text-align:left}\
svg{max-width:100%;height:auto}";

/// What the tables' words mean, beneath them.
const LEGEND: &str = "Distance: ‖got − want‖ / ‖want‖ of x after the part, or of a router's or the head's logits, want being the reference in f64. \
    Ulps: the largest |got − want| in units of the last place of f32. Judged: the first tokens that are compared; one whose experts are a matter of \
    rounding (a tie) ends them, since all that follows depends on it. Flips: tokens that go to other experts, each with the margin by which the \
    reference preferred its own.";

/// The certificate's verdict in a line.
pub(super) fn verdict(certificate: &Certificate) -> String {
    let devices = &certificate.devices;
    let with = |verdict: Verdict| devices.iter().filter(move |of| of.verdict == verdict);
    let others: Vec<String> = [Verdict::Failed, Verdict::Apart, Verdict::Undecided]
        .into_iter()
        .flat_map(with)
        .map(|tested| format!("{}: {}", tested.device, answer(tested)))
        .collect();
    let same = with(Verdict::Same).count();
    let right = match &certificate.subject {
        Subject::Cases { .. } => "all bundled cases right",
        Subject::Model { .. } => "the same answer",
    };
    let right = format!("{right} on {same} of {} devices", devices.len());
    if others.is_empty() {
        right
    } else {
        format!("{}; {right}", others.join("; "))
    }
}

/// A device's row of the table; [`HEADINGS`] names the cells.
pub(super) fn cells(tested: &Tested) -> [String; 8] {
    let (furthest, bits) = match &tested.found {
        Found::Model { parts, .. } => {
            let equal = parts.iter().filter(|part| part.bits_of_first).count();
            (furthest(parts), format!("{equal} of {} parts", parts.len()))
        }
        Found::Cases { .. } | Found::Error(_) => ("–".to_owned(), "–".to_owned()),
    };
    let machine = &tested.machine;
    [
        tested.device.clone(),
        tested.adapter.clone().unwrap_or_else(|| "–".to_owned()),
        format!("{}, {} processors", machine.system, machine.processors),
        tested
            .seconds
            .map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.2}")),
        tested.memory_bytes.map_or_else(|| "–".to_owned(), bytes),
        furthest,
        bits,
        answer(tested),
    ]
}

/// The largest distance of all parts, and its place.
fn furthest(parts: &[Measured]) -> String {
    let far = |part: &&Measured| part.distance.relative_l2.unwrap_or(f64::INFINITY);
    let most = parts.iter().max_by(|a, b| far(a).total_cmp(&far(b)));
    most.map_or_else(String::new, |part| {
        let distance = &part.distance;
        format!("{} ({})", figure(distance.relative_l2), distance.place())
    })
}

/// A device's answer in words.
fn answer(tested: &Tested) -> String {
    match &tested.found {
        Found::Error(error) => format!("failed: {error}"),
        Found::Cases {
            problem: Some(problem),
            ..
        } => problem.clone(),
        Found::Cases { passed, .. } => format!("{passed} cases pass"),
        Found::Model {
            parts,
            parting,
            greedy,
        } => {
            let first = parting.and_then(|Place { layer, part }| {
                let mut parts = parts.iter().map(|part| &part.distance);
                parts.find(|of| (of.layer, of.part) == (layer, part))
            });
            let judged = parts.last().map_or(0, |head| head.distance.judged);
            let mut said = match first {
                Some(first) => format!("differs from {} on", first.place()),
                None if judged == 0 => {
                    "undecided: ties of routers from the first token on".to_owned()
                }
                None => format!("the same, {judged} tokens judged to the end"),
            };
            if let Some(greedy) = greedy {
                let (position, margin) = (greedy.position, figure(greedy.margin));
                let (expected, got) = (greedy.expected, greedy.got);
                said += &format!(
                    "; after {position} tokens the likeliest is {got}, not {expected}, by {margin}"
                );
            }
            said
        }
    }
}

/// A part's row of a table; [`PARTS`] names the cells.
pub(super) fn part(distance: &Distance) -> [String; 5] {
    let flips = distance.flips.iter().map(|flip| {
        let tie = if flip.tie { ", a tie" } else { "" };
        let (token, margin) = (flip.token, figure(flip.margin));
        let (lost, gained) = (&flip.lost, &flip.gained);
        format!("token {token}: {gained:?} for {lost:?} by {margin}{tie}")
    });
    let flips: Vec<String> = flips.collect();
    [
        distance.place(),
        figure(distance.relative_l2),
        distance
            .ulps
            .map_or_else(|| "–".to_owned(), |ulps| format!("{ulps:.1}")),
        distance.judged.to_string(),
        flips.join("; "),
    ]
}

/// A figure of any size; – for one that isn't finite.
fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if value != 0.0 => format!("{value:.1e}"),
        Some(_) => "0".to_owned(),
        None => "–".to_owned(),
    }
}

/// What a certificate is of, and by which program: names and texts.
fn facts(certificate: &Certificate) -> Vec<[String; 2]> {
    let fact = |name: &str, text: String| [name.to_owned(), text];
    let mut facts = match &certificate.subject {
        Subject::Cases { hash } => vec![fact("bundled cases, BLAKE3", hash.clone())],
        Subject::Model {
            name,
            family,
            hash,
            tokens,
        } => vec![
            fact("model", format!("{name} ({family})")),
            fact("description and values, BLAKE3", hash.clone()),
            fact("tokens", tokens.len().to_string()),
            fact(
                "largest distance, and margin of a tie",
                format!(
                    "{}, {}",
                    certificate.limits.distance, certificate.limits.tie
                ),
            ),
        ],
    };
    let program = &certificate.program;
    facts.push(fact(
        "program",
        format!("moebius {}, kernels {}", program.version, program.kernels),
    ));
    facts
}

/// A table of text: headings, and rows of as many cells.
struct Grid {
    headings: &'static str,
    rows: Vec<Vec<String>>,
}

impl Grid {
    fn markdown(&self, out: &mut String) {
        let columns = self.headings.split(" | ").count();
        let rule = vec!["---"; columns].join("|");
        *out += &format!("| {} |\n|{rule}|\n", self.headings);
        for row in &self.rows {
            let cells = row.iter().map(|cell| plain(cell));
            let cells: Vec<String> = cells.collect();
            *out += &format!("| {} |\n", cells.join(" | "));
        }
    }

    fn html(&self, out: &mut String) {
        let cells = |tag: &str, cells: Vec<String>| -> String {
            let cells = cells.iter().map(|cell| escaped(cell));
            let cells = cells.map(|cell| format!("<{tag}>{cell}</{tag}>"));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let headings = self.headings.split(" | ").map(str::to_owned);
        *out += "<table>\n";
        *out += &cells("th", headings.collect());
        for row in &self.rows {
            *out += &cells("td", row.clone());
        }
        *out += "</table>\n";
    }
}

/// A cell's text in a table of Markdown, where a bar or a line's end would begin another.
fn plain(cell: &str) -> String {
    let line = cell.replace(['\n', '\r'], " ");
    line.replace('\\', "\\\\").replace('|', "\\|")
}

/// The table of devices, and for each device that computed a model, its name and the table of parts.
fn grids(certificate: &Certificate) -> (Grid, Vec<(&str, Grid)>) {
    let devices = certificate.devices.iter();
    let summary = Grid {
        headings: HEADINGS,
        rows: devices.clone().map(|of| Vec::from(cells(of))).collect(),
    };
    let parts = devices.filter_map(|tested| match &tested.found {
        Found::Model { parts, .. } => {
            let rows = parts.iter().map(|of| Vec::from(part(&of.distance)));
            let grid = Grid {
                headings: PARTS,
                rows: rows.collect(),
            };
            Some((tested.device.as_str(), grid))
        }
        Found::Cases { .. } | Found::Error(_) => None,
    });
    (summary, parts.collect())
}

/// The certificate as Markdown.
pub(super) fn markdown(certificate: &Certificate) -> String {
    let (summary, parts) = grids(certificate);
    let mut out = format!("# Certificate\n\n{}\n\n", plain(&verdict(certificate)));
    for [name, text] in facts(certificate) {
        out += &format!("- {name}: {}\n", plain(&text));
    }
    out += "\n";
    summary.markdown(&mut out);
    for (device, grid) in &parts {
        out += &format!("\n## {device}\n\n");
        grid.markdown(&mut out);
    }
    if !parts.is_empty() {
        out += &format!("\n{LEGEND}\n");
    }
    out
}

/// The certificate as a page that loads nothing.
pub(super) fn html(certificate: &Certificate) -> String {
    let (summary, parts) = grids(certificate);
    let said = escaped(&verdict(certificate));
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
        <meta name=\"viewport\" content=\"width=device-width\">\n<title>Certificate</title>\n<style>{STYLE}</style>\n</head>\n\
        <body>\n<h1>Certificate</h1>\n<p><strong>{said}</strong></p>\n<ul>\n"
    );
    for [name, text] in facts(certificate) {
        out += &format!("<li>{}: {}</li>\n", escaped(&name), escaped(&text));
    }
    out += "</ul>\n";
    summary.html(&mut out);
    out += &chart(certificate);
    for (device, grid) in &parts {
        let device = escaped(device);
        out += &format!("<details>\n<summary>{device}, part by part</summary>\n");
        grid.html(&mut out);
        out += "</details>\n";
    }
    if !parts.is_empty() {
        out += &format!("<p>{}</p>\n", escaped(LEGEND));
    }
    out += "</body>\n</html>\n";
    out
}

/// A chart of the distance after each layer, a line for each device; empty where nothing is to be drawn.
fn chart(certificate: &Certificate) -> String {
    let series = certificate.devices.iter().filter_map(|tested| {
        let Found::Model { parts, .. } = &tested.found else {
            return None;
        };
        // The last part of a layer replaces those before it. A distance of 0 has no place on a logarithmic axis.
        let mut points: Vec<(f64, f64)> = Vec::new();
        for Measured { distance, .. } in parts {
            let (Some(layer), Some(far)) = (distance.layer, distance.relative_l2) else {
                continue;
            };
            let layer = layer as f64;
            points.retain(|(earlier, _)| *earlier != layer);
            if far > 0.0 {
                points.push((layer, far));
            }
        }
        let name = match &tested.adapter {
            Some(adapter) => format!("{} ({adapter})", tested.device),
            None => tested.device.clone(),
        };
        (!points.is_empty()).then_some(Series { name, points })
    });
    let series: Vec<Series> = series.collect();
    if series.is_empty() {
        return String::new();
    }
    let chart = Chart {
        title: "distance from the reference after each layer".to_owned(),
        names: ["layer", "relative L2 distance"],
        even: true,
        series,
    };
    chart.svg()
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
