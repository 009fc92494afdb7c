use super::*;
use crate::certificate::tests::{certificate, device, of_exact, of_programs, of_training, tested};

#[test]
fn the_verdict_names_device_layer_and_part() {
    let same = certificate(vec![tested("flex", false), tested("cpu", false)]);
    assert_eq!(verdict(&same), "the same answer on 2 of 2 devices");
    let apart = certificate(vec![tested("flex", false), tested("cuda:0", true)]);
    let said = verdict(&apart);
    assert!(
        said.starts_with("cuda:0: model: differs from layer 0, router on; after 3 tokens"),
        "{said}"
    );
    assert!(
        said.ends_with("the same answer on 1 of 2 devices"),
        "{said}"
    );
}

#[test]
fn other_bits_of_an_exact_model_are_named() {
    let here = of_exact("flex", "a");
    let with = |bits: &str| {
        let there = of_exact("cpu", bits);
        here.clone().with(there, "b.json").unwrap()
    };
    assert_eq!(verdict(&with("a")), "the same bits on 2 of 2 devices");
    let apart = with("b");
    let said = "cpu: model: bits differ from head on; the same bits on 1 of 2 devices";
    assert_eq!(verdict(&apart), said);
    let text = markdown(&apart);
    assert!(text.contains("bits: exact"), "{text}");
    assert!(text.contains("| bits differ from head on |"), "{text}");
}

#[test]
fn tables_hold_whatever_names_are() {
    let certificate = certificate(vec![tested("flex", false), tested("cuda:0", true)]);
    let text = markdown(&certificate);
    assert!(text.contains("a <card> \\| b"), "{text}");
    let rows = text.lines().filter(|line| line.starts_with('|'));
    // Two devices, and five parts of each and three times, with a heading and a rule for each table.
    assert_eq!(rows.count(), 2 + 2 + 2 * (2 + 5 + 2 + 3));
    assert!(text.contains("## flex, model, waiting for each layer"));
    let costs =
        "| embedding | 2.000 ms | – |\n| layer 0 | 2.000 ms | 2.0 KiB |\n| head | 2.000 ms | – |";
    assert!(text.contains(costs), "{text}");
    assert!(text.contains("other passes than the one that is compared"));
    assert!(text.contains("token 7: [2] for [1] by 5.0e-1"), "{text}");
    assert!(text.contains("| layer 0, router | – | – | 9 |"), "{text}");

    let page = html(&certificate);
    assert!(page.contains("a &lt;card&gt; | b"), "{page}");
    for (tag, count) in [("table", 5), ("details", 4), ("svg", 2)] {
        for mark in [format!("<{tag}"), format!("</{tag}>")] {
            assert_eq!(page.matches(&mark).count(), count, "{mark}");
        }
    }
    // The name of each chart's namespace is the only address, and nothing is loaded.
    assert_eq!(page.matches("http").count(), 2);
    assert!(!page.contains(" id="), "{page}");
    assert!(!page.contains("<script") && !page.contains("<link") && !page.contains("src="));
}

#[test]
fn the_token_is_named_that_training_finds_less_likely() {
    let of = |apart: bool| {
        let found = vec![(Section::Training, of_training(apart))];
        let mut certificate = certificate(vec![device("flex", found)]);
        certificate.subject.training = true;
        certificate
    };
    let right = "the same answer, training equals inference on";
    assert_eq!(verdict(&of(false)), format!("{right} 1 of 1 devices"));
    let apart = of(true);
    let fault = "2 of 3 log-probabilities have the engine's bits; the first other: token 3, 7: -2.5 in training, none served";
    let said = format!("flex: training: {fault}; {right} 0 of 1 devices");
    assert_eq!(verdict(&apart), said);
    for text in [markdown(&apart), html(&apart)] {
        assert!(text.contains("first that differs"), "{text}");
        assert!(text.contains("token 3, 7: -2.5 in training"), "{text}");
    }
}

#[test]
fn cards_in_software_are_marked_and_never_counted_as_devices() {
    let mut devices = vec![tested("flex", false), tested("cuda:0", false)];
    devices[1].emulated = true;
    let certificate = certificate(devices);
    let said = "the same answer on 1 of 1 devices, and on 1 of 1 cards in software";
    assert_eq!(verdict(&certificate), said);
    for text in [markdown(&certificate), html(&certificate)] {
        assert!(text.contains("cuda:0, emulated"), "{text}");
        assert!(text.contains("emulated: drivers in software"), "{text}");
    }
}

#[test]
fn parts_that_check_themselves_and_gaps_are_told() {
    let certificate = of_programs();
    let said = verdict(&certificate);
    for part in [
        "flex: cases: 1 of 3 cases don't pass, the first is route in f32: route_groups: weights fail",
        "; demos: 1 of 4 demos hold; moe_layer does not hold: why",
        "; bench: 1 of 2 results verified; moe is wrong (unit); decode failed: no memory; decode is refused: no memory",
        "; rocm:0: failed: no driver",
        "; cpu: cases: failed: lost",
        "; all cases right, all demos hold, all benchmarks verified on 0 of 3 devices",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let [text, page] = [markdown(&certificate), html(&certificate)];
    for part in [
        "absent: cuda (linux x86_64): no driver",
        "conformance: the cases of single kernels",
        "does not hold: why",
        "1.500 ms",
        "2.50 GFLOP/s",
        "wrong, off by –",
    ] {
        assert!(text.contains(part), "{part}: {text}");
        assert!(page.contains(part), "{part}: {page}");
    }
    // Three parts of the first device, one of the third, and the second without any.
    let rows = text.lines().filter(|line| line.starts_with('|'));
    assert_eq!(rows.count(), 2 + 5 + (2 + 1) + (2 + 4) + (2 + 2));
    assert!(!text.contains("Ulps:") && !page.contains("<svg"));
}
