use super::*;
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// The name of an element; fails unless all its attributes are well-formed.
fn name(element: &BytesStart) -> String {
    for attribute in element.attributes() {
        attribute.expect("an attribute");
    }
    element.name().as_ref().to_owned()
}

/// Element names and all text of an SVG; fails unless the whole file is XML.
fn parsed(svg: &str) -> (Vec<String>, String) {
    let mut reader = Reader::from_str(svg);
    let (mut names, mut text, mut depth) = (Vec::new(), String::new(), 0_i32);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Start(element) => {
                depth += 1;
                names.push(name(&element));
            }
            Event::Empty(element) => names.push(name(&element)),
            Event::End(_) => depth -= 1,
            Event::Text(part) => text.push_str(&part),
            Event::GeneralRef(entity) => {
                text.push_str(&format!("&{};", &*entity));
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0, "{svg}");
    (names, text)
}

fn chart(lines: usize) -> Chart {
    let series = (0..lines).map(|line| Series {
        name: format!("a<b> & \"c\" {line}"),
        points: vec![(1.0, 10.0 + line as f64), (8.0, 90.0), (512.0, 4e5)],
    });
    Chart {
        title: "x < y & 'z'\u{1}".to_owned(),
        names: ["tokens", "tokens per second"],
        even: false,
        series: series.collect(),
    }
}

#[test]
fn a_chart_is_well_formed_whatever_its_names_are() {
    for lines in [1, 2, 9, 30] {
        let (names, text) = parsed(&chart(lines).svg());
        let count = |of: &str| names.iter().filter(|name| *name == of).count();
        assert_eq!((count("svg"), count("title"), count("style")), (1, 1, 1));
        assert_eq!(count("polyline"), lines);
        assert!(text.contains("a&lt;b&gt; &amp; &quot;c&quot; 0"), "{text}");
        assert!(text.contains("tokens per second") && text.contains("512"));
    }
}

#[test]
fn a_long_title_is_fitted_to_the_page() {
    let fitted = |length: usize| {
        let title = "x".repeat(length);
        let svg = Chart { title, ..chart(1) }.svg();
        parsed(&svg);
        svg.contains("textLength")
    };
    assert_eq!([fitted(LONG_TITLE), fitted(LONG_TITLE + 1)], [false, true]);
}

#[test]
fn the_page_may_be_light_or_dark() {
    let svg = chart(2).svg();
    let (light, dark) = svg.split_once("prefers-color-scheme: dark").expect("both");
    for (colors, of) in [(light, 0), (dark, 1)] {
        assert!(COLORS[..2].iter().all(|line| colors.contains(line[of])));
    }
    assert!(svg.contains(".c1{stroke:#d55e00}") && !svg.contains(".c2{"));
}

#[test]
fn all_points_lie_inside_of_the_axes() {
    for points in [
        vec![(1.0, 5.0)],
        vec![(1.0, 5.0), (4.0, 5.0)],
        vec![(3.0, 1e-3), (1e6, 1e9)],
    ] {
        let series = vec![Series {
            name: "a".to_owned(),
            points: points.clone(),
        }];
        for even in [false, true] {
            let series = series.clone();
            let chart = Chart {
                series,
                even,
                ..chart(0)
            };
            let [across, up] = chart.axes();
            for (x, y) in &points {
                let (x, y) = (across.at(*x), up.at(*y));
                assert!(
                    (LEFT..=RIGHT).contains(&x) && (TOP..=BOTTOM).contains(&y),
                    "{x} {y}"
                );
            }
        }
    }
}

#[test]
fn ticks_are_round_and_few() {
    let axis = |low: f64, high: f64| Axis::around([low, high].into_iter(), false, [0.0, 1.0]);
    assert_eq!(axis(10.0, 210.0).ticks(), [10.0, 20.0, 50.0, 100.0, 200.0]);
    assert_eq!(axis(1.0, 1e6).ticks().len(), 7);
    assert_eq!(
        [short(512.0), short(4096.0), short(25_000.0)],
        ["512", "4096", "25k"]
    );
    assert_eq!(
        [short(1.5e6), short(0.5), short(2e-7)],
        ["1.5M", "0.5", "2e-7"]
    );
}
