//! A certificate as Markdown, and as a page that needs nothing else.

use moebius_model::computation::{Cost, Distance, Flip, Greedy};

use super::{charts, training};
use crate::certificate::{
    Certificate, Demo, Done, Family, Found, Furthest, Measured, Place, Rate, Reason, Section,
    Shown, Tested, Timed, Verdict, Wrong,
};
use crate::chart::escaped;
use crate::devices::bytes;

/// Headings of [`rows`].
pub(super) const HEADINGS: &str =
    "device | adapter | machine | part | seconds | memory | furthest | bits of the first | answer";
/// Headings of [`part`].
pub(super) const PARTS: &str = "part | distance | ulps | judged | flips";

/// Headings of [`costs`].
const COSTS: &str = "part | time | memory after it";

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
    reference preferred its own. Times of layers are of other passes than the one that is compared: they wait for the device behind the embedding, \
    each layer and the head, which keeps a device from compiling operations of two layers together and takes time of its own. After a pass for the \
    compilation of kernels each is the median of three; memory is what live buffers take then, weights included, where an allocator tells.";

/// The certificate's verdict in a line.
pub(super) fn verdict(certificate: &Certificate) -> String {
    let devices = &certificate.devices;
    let with = |verdict: Verdict| devices.iter().filter(move |of| of.verdict == verdict);
    let others: Vec<String> = [Verdict::Failed, Verdict::Apart, Verdict::Undecided]
        .into_iter()
        .flat_map(with)
        .map(|tested| format!("{}: {}", tested.name(), faults(tested)))
        .collect();
    // A card in software never counts as a device.
    let [real, emulated] = [false, true].map(|emulated| {
        let same = with(Verdict::Same).filter(|of| of.emulated == emulated);
        let all = devices.iter().filter(|of| of.emulated == emulated);
        (same.count(), all.count())
    });
    let exact = certificate.subject.is_exact();
    let parts = certificate.subject.sections().into_iter();
    let right: Vec<&str> = parts.map(|part| right(part, exact)).collect();
    let (same, all) = real;
    let right = format!("{} on {same} of {all} devices", right.join(", "));
    let right = match emulated {
        (_, 0) => right,
        (same, all) => format!("{right}, and on {same} of {all} cards in software"),
    };
    if others.is_empty() {
        right
    } else {
        format!("{}; {right}", others.join("; "))
    }
}

/// What is said of a part where all is right, the model being computed exactly or not.
fn right(part: Section, exact: bool) -> &'static str {
    match part {
        Section::Model if exact => "the same bits",
        Section::Model => "the same answer",
        Section::Training => "training equals inference",
        Section::Cases => "all cases right",
        Section::Demos => "all demos hold",
        Section::Bench => "all benchmarks verified",
    }
}

/// What is wrong with a device: its error, or its parts that aren't right.
fn faults(tested: &Tested) -> String {
    if let Some(error) = &tested.error {
        return format!("failed: {error}");
    }
    let wrong = tested.parts.iter();
    let wrong = wrong.filter(|done| done.verdict != Verdict::Same);
    let said = wrong.map(|done| format!("{}: {}", done.part.name(), answer(done)));
    said.collect::<Vec<_>>().join("; ")
}

/// A device's rows of the table, one for each part, with the verdicts; [`HEADINGS`] names the cells.
pub(super) fn rows(tested: &Tested) -> Vec<([String; 9], Verdict)> {
    let none = || "–".to_owned();
    let machine = &tested.machine;
    let row = |part: String, [seconds, memory, furthest, bits, answer]: [String; 5]| {
        [
            tested.name(),
            tested.adapter.clone().unwrap_or_else(none),
            format!("{}, {} processors", machine.system, machine.processors),
            part,
            seconds,
            memory,
            furthest,
            bits,
            answer,
        ]
    };
    if let Some(error) = &tested.error {
        let answer = format!("failed: {error}");
        let cells = row(none(), [none(), none(), none(), none(), answer]);
        return vec![(cells, tested.verdict)];
    }
    let rows = tested.parts.iter().map(|done| {
        let seconds = done.seconds.map_or_else(none, |of| format!("{of:.2}"));
        let memory = done.memory_bytes.map_or_else(none, bytes);
        let (furthest, bits) = match &done.found {
            Found::Model { parts, .. } => {
                let equal = parts.iter().filter(|part| part.bits_of_first).count();
                (furthest(parts), format!("{equal} of {} parts", parts.len()))
            }
            Found::Training { readings, .. } => (training::furthest(readings), none()),
            Found::Cases { families, .. } => (furthest_case(families), none()),
            Found::Demos(_) | Found::Bench { .. } | Found::Error(_) => (none(), none()),
        };
        let found = [seconds, memory, furthest, bits, answer(done)];
        (row(done.part.name().to_owned(), found), done.verdict)
    });
    rows.collect()
}

/// The largest distance of all cases, with its family and type.
fn furthest_case(families: &[Family]) -> String {
    let each = families.iter().filter_map(|of| {
        let furthest = of.furthest.as_ref()?;
        Some((of, furthest))
    });
    let far = |(_, of): &(&Family, &Furthest)| of.relative_l2.unwrap_or(f64::INFINITY);
    let most = each.max_by(|a, b| far(a).total_cmp(&far(b)));
    most.map_or_else(String::new, |(of, furthest)| {
        let Family { family, dtype, .. } = of;
        let case = &furthest.case;
        format!(
            "{} ({family} in {dtype}: {case})",
            figure(furthest.relative_l2)
        )
    })
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

/// What a device found of a part, in words.
fn answer(done: &Done) -> String {
    match &done.found {
        Found::Error(error) => format!("failed: {error}"),
        Found::Training { limit, readings } => training::answer(*limit, readings),
        Found::Cases {
            families, wrong, ..
        } => answer_of_cases(families, wrong),
        Found::Demos(demos) => answer_of_demos(demos),
        Found::Bench {
            results,
            refused,
            failed,
        } => answer_of_benchmarks(results, refused, failed),
        Found::Model {
            parts,
            parting,
            greedy,
            ..
        } => answer_of_model(done.verdict, parts, *parting, greedy.as_ref()),
    }
}

fn answer_of_cases(families: &[Family], wrong: &[Wrong]) -> String {
    let passed: usize = families.iter().map(|of| of.passed).sum();
    let Some(first) = wrong.first() else {
        return format!("{passed} cases pass");
    };
    let all = passed + wrong.len();
    let Wrong {
        family,
        dtype,
        case,
        problem,
    } = first;
    format!(
        "{} of {all} cases don't pass, the first is {family} in {dtype}: {case}: {problem}",
        wrong.len()
    )
}

fn answer_of_demos(demos: &[Demo]) -> String {
    let held = demos
        .iter()
        .filter(|of| matches!(of.result, Shown::Holds(_)));
    let held = format!("{} of {} demos hold", held.count(), demos.len());
    let first = demos.iter().find_map(|of| match &of.result {
        Shown::Holds(_) => None,
        Shown::Fails(why) => Some(format!("{} does not hold: {why}", of.demo)),
        Shown::Refused(why) => Some(format!("{} is refused: {why}", of.demo)),
        Shown::Error(why) => Some(format!("{} failed: {why}", of.demo)),
    });
    first.map_or(held.clone(), |first| format!("{held}; {first}"))
}

fn answer_of_benchmarks(results: &[Timed], refused: &[Reason], failed: &[Reason]) -> String {
    let verified = results.iter().filter(|of| of.verified).count();
    let mut said = format!("{verified} of {} results verified", results.len());
    if let Some(wrong) = results.iter().find(|of| !of.verified) {
        said += &format!("; {} is wrong ({})", wrong.benchmark, wrong.variant);
    }
    for (what, reasons) in [("failed", failed), ("is refused", refused)] {
        if let Some(Reason { benchmark, reason }) = reasons.first() {
            said += &format!("; {benchmark} {what}: {reason}");
        }
    }
    said
}

fn answer_of_model(
    verdict: Verdict,
    parts: &[Measured],
    parting: Option<Place>,
    greedy: Option<&Greedy>,
) -> String {
    let first = parting.and_then(|Place { layer, part }| {
        let mut parts = parts.iter().map(|part| &part.distance);
        parts.find(|of| (of.layer, of.part) == (layer, part))
    });
    let judged = parts.last().map_or(0, |head| head.distance.judged);
    let mut said = match first {
        Some(first) => format!("differs from {} on", first.place()),
        // All is within the limits, and an exact model's bits aren't those of the first device.
        None if verdict == Verdict::Apart => {
            let other = parts.iter().find(|part| !part.bits_of_first);
            let place = other.map_or_else(String::new, |part| part.distance.place());
            format!("bits differ from {place} on")
        }
        None if judged == 0 => "undecided: ties of routers from the first token on".to_owned(),
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

/// A part's row of a table; [`PARTS`] names the cells.
pub(super) fn part(distance: &Distance) -> [String; 5] {
    [
        distance.place(),
        figure(distance.relative_l2),
        distance
            .ulps
            .map_or_else(|| "–".to_owned(), |ulps| format!("{ulps:.1}")),
        distance.judged.to_string(),
        flips(&distance.flips),
    ]
}

/// Tokens that go to other experts, in words.
pub(super) fn flips(flips: &[Flip]) -> String {
    let said = flips.iter().map(|flip| {
        let tie = if flip.tie { ", a tie" } else { "" };
        let (token, margin) = (flip.token, figure(flip.margin));
        let (lost, gained) = (&flip.lost, &flip.gained);
        format!("token {token}: {gained:?} for {lost:?} by {margin}{tie}")
    });
    said.collect::<Vec<_>>().join("; ")
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
    let subject = &certificate.subject;
    let mut facts = Vec::new();
    if let Some(of) = &subject.model {
        let limits = certificate.limits;
        facts.push(fact("model", format!("{} ({})", of.name, of.family)));
        let bits = if of.exact { "exact" } else { "of each device" };
        facts.push(fact("bits", bits.to_owned()));
        facts.push(fact("description and values, SHA-256", of.hash.clone()));
        facts.push(fact("tokens", of.tokens.len().to_string()));
        facts.push(fact(
            "largest distance, and margin of a tie",
            format!("{}, {}", limits.distance, limits.tie),
        ));
    }
    if let Some(of) = &subject.cases {
        facts.push(fact("cases", format!("{}, {} files", of.name, of.files)));
        facts.push(fact("their names and bytes, SHA-256", of.hash.clone()));
    }
    for (name, of) in [
        ("demos", &subject.demos),
        ("benchmarks", &subject.benchmarks),
    ] {
        if !of.is_empty() {
            facts.push(fact(name, of.join(", ")));
        }
    }
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

/// The table of devices, and for each part that a device computed, a name and its table.
fn grids(certificate: &Certificate) -> (Grid, Vec<(String, Grid)>) {
    let devices = certificate.devices.iter();
    let rows_of = |tested| rows(tested).into_iter().map(|(cells, _)| Vec::from(cells));
    let summary = Grid {
        headings: HEADINGS,
        rows: devices.clone().flat_map(rows_of).collect(),
    };
    let parts = devices.flat_map(|tested| {
        tested.parts.iter().flat_map(move |done| {
            let name = format!("{}, {}", tested.name(), done.part.name());
            let waiting = format!("{name}, waiting for each layer");
            let costs = done.found.costs().map(|of| (waiting, costs(of)));
            let found = details(&done.found).map(|grid| (name, grid));
            found.into_iter().chain(costs)
        })
    });
    let parts = parts.collect();
    (summary, parts)
}

/// The table of what the embedding, each layer and the head take.
fn costs(of: &[Cost]) -> Grid {
    let row = |(at, cost): (usize, &Cost)| {
        let place = match cost.layer {
            Some(layer) => format!("layer {layer}"),
            None if at == 0 => "embedding".to_owned(),
            None => "head".to_owned(),
        };
        let time = format!("{:.3} ms", 1e3 * cost.seconds);
        let memory = cost.memory_bytes.map_or_else(|| "–".to_owned(), bytes);
        vec![place, time, memory]
    };
    Grid {
        headings: COSTS,
        rows: of.iter().enumerate().map(row).collect(),
    }
}

/// The table of what a device found in one part; `None` where it found nothing.
fn details(found: &Found) -> Option<Grid> {
    let (headings, rows) = match found {
        Found::Error(_) => return None,
        Found::Model { parts, .. } => {
            let rows = parts.iter().map(|of| Vec::from(part(&of.distance)));
            (PARTS, rows.collect())
        }
        Found::Training { readings, .. } => (
            training::READINGS,
            readings.iter().map(training::row).collect(),
        ),
        Found::Cases { families, .. } => (
            "family | type | passed | failed | errors | furthest | case and output",
            families.iter().map(family).collect(),
        ),
        Found::Demos(demos) => ("demo | seconds | result", demos.iter().map(demo).collect()),
        Found::Bench { results, .. } => (
            "benchmark | sizes | variant | verified | median | rate",
            results.iter().map(benchmark).collect(),
        ),
    };
    Some(Grid { headings, rows })
}

/// The row of a family of cases.
fn family(of: &Family) -> Vec<String> {
    let (far, place) = match &of.furthest {
        Some(furthest) => (
            figure(furthest.relative_l2),
            format!("{}, {}", furthest.case, furthest.output),
        ),
        None => ("–".to_owned(), String::new()),
    };
    let counts = [of.passed, of.failed, of.errors].map(|count| count.to_string());
    let [passed, failed, errors] = counts;
    let (family, dtype) = (of.family.clone(), of.dtype.clone());
    vec![family, dtype, passed, failed, errors, far, place]
}

/// The row of a demo.
fn demo(of: &Demo) -> Vec<String> {
    let (how, why) = match &of.result {
        Shown::Holds(why) => ("holds", why),
        Shown::Fails(why) => ("does not hold", why),
        Shown::Refused(why) => ("is refused", why),
        Shown::Error(why) => ("failed", why),
    };
    let seconds = format!("{:.2}", of.seconds);
    vec![of.demo.clone(), seconds, format!("{how}: {why}")]
}

/// The row of a result of a benchmark.
fn benchmark(of: &Timed) -> Vec<String> {
    let verdict = if of.verified {
        format!("to {}", figure(of.error))
    } else {
        format!("wrong, off by {}", figure(of.error))
    };
    let median = of.median_ms.map(|ms| format!("{ms:.3} ms"));
    let rate = of.rate.as_ref();
    let rate = rate.map(|Rate { value, unit }| format!("{value:.2} {unit}"));
    let (name, sizes, variant) = (of.benchmark.clone(), of.sizes.clone(), of.variant.clone());
    let [median, rate] = [median, rate].map(Option::unwrap_or_default);
    vec![name, sizes, variant, verdict, median, rate]
}

/// What the certificate says nothing about, in sentences: devices that machines lack, and gaps.
pub(super) fn outside(certificate: &Certificate) -> impl Iterator<Item = String> {
    let absent = certificate.absent.iter().map(|of| {
        let (device, system, reason) = (&of.device, &of.machine.system, &of.reason);
        format!("absent: {device} ({system}): {reason}")
    });
    absent.chain(certificate.gaps.iter().cloned())
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
    if certificate.subject.model.is_some() {
        out += &format!("\n{LEGEND}\n");
    }
    out += "\n## Known gaps\n\n";
    for said in outside(certificate) {
        out += &format!("- {}\n", plain(&said));
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
    out += &charts::distances(certificate);
    out += &charts::times(certificate);
    for (device, grid) in &parts {
        let device = escaped(device);
        out += &format!("<details>\n<summary>{device}</summary>\n");
        grid.html(&mut out);
        out += "</details>\n";
    }
    if certificate.subject.model.is_some() {
        out += &format!("<p>{}</p>\n", escaped(LEGEND));
    }
    out += "<h2>Known gaps</h2>\n<ul>\n";
    for said in outside(certificate) {
        out += &format!("<li>{}</li>\n", escaped(&said));
    }
    out += "</ul>\n";
    out += "</body>\n</html>\n";
    out
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
