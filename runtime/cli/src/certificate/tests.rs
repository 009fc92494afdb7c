use super::*;
use moebius_model::computation::{Cost, Distance, Flip, Part};
use serde_json::json;
use std::path::Path;

/// A distance of a part, with one flip where it is a router.
fn distance(layer: Option<usize>, part: Part, far: Option<f64>) -> Distance {
    let flip = Flip {
        token: 7,
        lost: vec![1],
        gained: vec![2],
        margin: Some(0.5),
        tie: false,
    };
    Distance {
        layer,
        part,
        judged: 9,
        relative_l2: far,
        ulps: far.map(|far| 8.0 * far),
        flips: if part == Part::Router {
            vec![flip]
        } else {
            Vec::new()
        },
    }
}

/// What is found of a model of one layer, whose router differs if `apart`.
fn of_model(apart: bool) -> Found {
    let far = if apart { None } else { Some(0.25) };
    let place = Place {
        layer: Some(0),
        part: Part::Router,
    };
    let parts = [
        distance(None, Part::Embedding, Some(0.0)),
        distance(Some(0), Part::Attention, Some(0.125)),
        distance(Some(0), Part::Router, far),
        distance(Some(0), Part::Experts, far),
        distance(None, Part::Head, far),
    ];
    let parts = parts.into_iter().map(|distance| Measured {
        hash: format!("{:?}", distance.relative_l2),
        bits_of_first: true,
        distance,
    });
    let cost = |layer: Option<usize>| Cost {
        layer,
        seconds: 0.002,
        memory_bytes: layer.map(|_| 2048),
    };
    Found::Model {
        oracle: Oracle::Reference,
        parts: parts.collect(),
        costs: Some([None, Some(0), None].map(cost).to_vec()),
        untimed: None,
        parting: apart.then_some(place),
        greedy: apart.then_some(Greedy {
            position: 3,
            expected: 5,
            got: 6,
            margin: None,
        }),
    }
}

/// A device with what it found.
pub(crate) fn device(name: &str, found: Vec<(Section, Found)>) -> Tested {
    let parts = found.into_iter().map(|(part, found)| Done {
        part,
        seconds: Some(0.5),
        memory_bytes: Some(1024),
        verdict: found.verdict(),
        found,
    });
    let tested = Tested {
        device: name.to_owned(),
        adapter: Some("a <card> | b".to_owned()),
        driver: None,
        machine: machine(),
        emulated: false,
        verdict: Verdict::Failed,
        error: None,
        parts: parts.collect(),
    };
    tested.judged()
}

fn machine() -> Machine {
    Machine {
        system: "linux x86_64".to_owned(),
        processors: 2,
    }
}

/// A device that computed a model of one layer, whose router differs if `apart`.
pub(crate) fn tested(name: &str, apart: bool) -> Tested {
    device(name, vec![(Section::Model, of_model(apart))])
}

/// A certificate of the part of a model, and of others that devices have.
pub(crate) fn certificate(devices: Vec<Tested>) -> Certificate {
    let model = OfModel {
        name: "tiny".to_owned(),
        family: "olmoe".to_owned(),
        exact: false,
        hash: "ab".to_owned(),
        tokens: vec![1, 2, 3],
    };
    let subject = Subject {
        model: Some(model),
        ..Subject::default()
    };
    let limits = Limits {
        distance: 0.25,
        tie: 0.5,
    };
    Certificate::new(subject, limits, Vec::new(), devices)
}

/// What is found of a training whose last token of three has other bits than an engine if `apart`.
pub(crate) fn of_training(apart: bool) -> Found {
    let unlike = Unlike {
        position: 3,
        token: 7,
        training: Some(-2.5),
        engine: None,
    };
    Found::Training {
        limit: 0.0,
        readings: vec![Reading {
            prompt: 1,
            tokens: 3,
            equal: if apart { 2 } else { 3 },
            first: apart.then_some(unlike),
            largest: (!apart).then_some(0.0),
        }],
    }
}

/// Results of three cases of one family.
fn cases(passed: usize, failed: usize, errors: usize) -> Found {
    let furthest = Furthest {
        case: "route_groups".to_owned(),
        output: "weights".to_owned(),
        relative_l2: (failed == 0).then_some(1e-7),
    };
    let wrong = Wrong {
        family: "route".to_owned(),
        dtype: "f32".to_owned(),
        case: "route_groups".to_owned(),
        problem: "weights fail".to_owned(),
    };
    Found::Cases {
        families: vec![Family {
            family: "route".to_owned(),
            dtype: "f32".to_owned(),
            passed,
            failed,
            errors,
            furthest: (passed + failed > 0).then_some(furthest),
        }],
        lacking: 2,
        wrong: vec![wrong; failed + errors],
    }
}

/// Results of demos, one for each way to end.
fn demos() -> Found {
    let ends: [fn(String) -> Shown; 4] = [Shown::Holds, Shown::Fails, Shown::Refused, Shown::Error];
    let demos = ends.map(|end| Demo {
        demo: "moe_layer".to_owned(),
        seconds: 0.25,
        result: end("why".to_owned()),
    });
    Found::Demos(Vec::from(demos))
}

/// Results of benchmarks: a right one, a wrong one, one that was refused and one that failed.
fn benchmarks() -> Found {
    let timed = |verified: bool| Timed {
        benchmark: "moe".to_owned(),
        sizes: "256 tokens".to_owned(),
        variant: "unit".to_owned(),
        verified,
        error: verified.then_some(1e-7),
        median_ms: verified.then_some(1.5),
        rate: verified.then(|| Rate {
            value: 2.5,
            unit: "GFLOP/s".to_owned(),
        }),
    };
    let reason = Reason {
        benchmark: "decode".to_owned(),
        reason: "no memory".to_owned(),
    };
    Found::Bench {
        results: vec![timed(true), timed(false)],
        refused: vec![reason.clone()],
        failed: vec![reason],
    }
}

/// A certificate with all parts but a model, of a device that has some right, one that can't be opened, and one that isn't there.
pub(crate) fn of_programs() -> Certificate {
    let found = vec![
        (Section::Cases, cases(2, 1, 0)),
        (Section::Demos, demos()),
        (Section::Bench, benchmarks()),
    ];
    let mut shut = device("rocm:0", Vec::new());
    (shut.error, shut.adapter) = (Some("no driver".to_owned()), None);
    let broken = Found::Error("lost".to_owned());
    let mut devices = vec![
        device("flex", found),
        shut.judged(),
        device("cpu", vec![(Section::Cases, broken)]),
    ];
    devices[2].parts[0].seconds = None;
    let subject = Subject {
        model: None,
        training: false,
        cases: Some(OfCases {
            name: "the bundled cases".to_owned(),
            files: 5,
            hash: "cd".to_owned(),
        }),
        demos: vec!["moe_layer".to_owned()],
        benchmarks: vec!["moe".to_owned(), "decode".to_owned()],
    };
    let absent = Absent {
        device: "cuda".to_owned(),
        machine: machine(),
        reason: "no driver".to_owned(),
    };
    Certificate::new(subject, Limits::default(), vec![absent], devices)
}

fn text(certificate: &Certificate) -> Vec<u8> {
    serde_json::to_vec(certificate).unwrap()
}

#[test]
fn verdicts_follow_from_what_was_found() {
    assert_eq!(tested("flex", false).verdict, Verdict::Same);
    assert_eq!(tested("flex", true).verdict, Verdict::Apart);
    let mut undecided = of_model(false);
    if let Found::Model { parts, .. } = &mut undecided {
        parts[4].distance.judged = 0;
    }
    assert_eq!(undecided.verdict(), Verdict::Undecided);
    let of = [(1, 0, 0), (1, 1, 0), (1, 1, 1), (0, 0, 0)];
    let of = of.map(|(passed, failed, errors)| cases(passed, failed, errors).verdict());
    let expected = [
        Verdict::Same,
        Verdict::Apart,
        Verdict::Failed,
        Verdict::Undecided,
    ];
    assert_eq!(of, expected);
    let of = [false, true].map(|apart| of_training(apart).verdict());
    assert_eq!(of, [Verdict::Same, Verdict::Apart]);
    assert_eq!(demos().verdict(), Verdict::Failed);
    assert_eq!(benchmarks().verdict(), Verdict::Failed);
    // The worst part is the device's.
    let parts = vec![
        (Section::Model, undecided),
        (Section::Cases, cases(1, 1, 0)),
    ];
    assert_eq!(device("flex", parts).verdict, Verdict::Apart);
    assert_eq!(device("flex", Vec::new()).verdict, Verdict::Failed);
    let verdicts = of_programs().devices.into_iter().map(|of| of.verdict);
    assert_eq!(verdicts.collect::<Vec<_>>(), [Verdict::Failed; 3]);
}

#[test]
fn certificates_of_one_model_are_united() {
    let here = certificate(vec![tested("flex", false)]);
    let there = certificate(vec![tested("cuda:0", true)]);
    let read = Certificate::parse("b.json", &text(&there)).unwrap();
    assert_eq!(read, there);
    let all = here.with(read, "b.json").unwrap();
    let bits = all.devices.iter().map(|tested| {
        let (parts, ..) = tested.model().unwrap();
        parts.iter().map(|part| part.bits_of_first).collect()
    });
    let bits: Vec<Vec<bool>> = bits.collect();
    assert_eq!(bits, [[true; 5], [true, true, false, false, false]]);
    let costs = all.devices.iter().map(|of| of.costs().map(<[Cost]>::len));
    assert_eq!(costs.collect::<Vec<_>>(), [Some(3), Some(3)]);
}

#[test]
fn layers_without_a_time_are_a_gap_and_no_verdict() {
    let mut found = of_model(false);
    if let Found::Model { costs, untimed, .. } = &mut found {
        (*costs, *untimed) = (None, Some("no memory".to_owned()));
    }
    let all = certificate(vec![device("cuda:0", vec![(Section::Model, found)])]);
    assert_eq!(all.devices[0].verdict, Verdict::Same);
    let said = "cuda:0: no layer has a time, since timing them failed: no memory";
    assert!(all.gaps.iter().any(|gap| gap == said), "{:?}", all.gaps);
    let (schema, value) = (schema(), serde_json::to_value(&all).unwrap());
    assert_eq!(fits(&schema, &schema, &value), Ok(()));
    assert_eq!(Certificate::parse("a.json", &text(&all)).unwrap(), all);
}

/// A certificate of one device that computed an exact model, whose head has these bits.
pub(crate) fn of_exact(name: &str, bits: &str) -> Certificate {
    let mut certificate = certificate(vec![tested(name, false)]);
    certificate.subject.model.as_mut().unwrap().exact = true;
    if let Found::Model { parts, .. } = &mut certificate.devices[0].parts[0].found {
        parts[4].hash = bits.to_owned();
    }
    certificate.compared()
}

#[test]
fn other_bits_of_an_exact_model_are_another_answer() {
    let [here, like, other] = ["a", "a", "b"].map(|bits| of_exact("flex", bits));
    let verdicts = |of: &Certificate| -> Vec<Verdict> {
        let devices = of.devices.iter();
        let parts = devices.clone().map(|of| of.parts[0].verdict);
        assert!(parts.eq(devices.clone().map(|of| of.verdict)));
        devices.map(|of| of.verdict).collect()
    };
    let all = here.clone().with(like, "b.json").unwrap();
    assert_eq!(verdicts(&all), [Verdict::Same, Verdict::Same]);
    let exactly = |gap: &String| gap.starts_with("model: one text, computed exactly");
    assert!(all.gaps.iter().any(exactly), "{:?}", all.gaps);
    let apart = here.with(other.clone(), "b.json").unwrap();
    assert_eq!(verdicts(&apart), [Verdict::Same, Verdict::Apart]);
    // The first of the certificates counts, whatever was told before.
    let turned = other.with(apart, "b.json").unwrap();
    let expected = [Verdict::Same, Verdict::Apart, Verdict::Same];
    assert_eq!(verdicts(&turned), expected);
}

#[test]
fn certificates_of_other_parts_complete_each_other() {
    let mut here = certificate(vec![tested("flex", false)]);
    let there = of_programs();
    here.subject.cases = there.subject.cases.clone();
    here.limits = there.limits;
    let all = here.clone().with(there.clone(), "b.json").unwrap();
    let sections = all.subject.sections();
    let expected = [
        Section::Model,
        Section::Cases,
        Section::Demos,
        Section::Bench,
    ];
    assert_eq!(sections, expected);
    assert_eq!((all.devices.len(), all.absent.len()), (4, 1));
    let without = |gaps: &[String]| gaps.iter().any(|gap| gap.starts_with("bench: nothing"));
    assert!(without(&here.gaps) && !without(&all.gaps));
    let lacking = "flex: cases in a type that the device lacks did not run";
    assert!(all.gaps.iter().any(|gap| gap == lacking), "{:?}", all.gaps);
    let mut other = there;
    other.subject.cases.as_mut().unwrap().hash = "ef".to_owned();
    let error = here.with(other, "b.json").unwrap_err().to_string();
    let said = "b.json: expected the hash of cases cd, got ef";
    assert_eq!(error, said);
}

/// A certificate as the demo page writes one, of the same model as [`certificate`] has.
fn of_a_page() -> Value {
    let distance = json!({
        "layer": null, "part": "head", "judged": 3, "relative_l2": 2e-7, "ulps": 3, "flips": []
    });
    let model = json!({
        "oracle": "committed",
        "parts": [{ "distance": distance, "hash": "Some(0.25)", "bits_of_first": true }],
        "parting": null,
        "greedy": null,
        "costs": null,
    });
    let families = json!([{
        "family": "route", "dtype": "f32", "passed": 1, "failed": 0, "errors": 0,
        "furthest": { "case": "route_groups", "output": "weights", "relative_l2": 0 },
    }]);
    let cases = json!({ "families": families, "lacking": 1, "wrong": [] });
    let certificate = certificate(Vec::new());
    json!({
        "format": FORMAT,
        "version": VERSION,
        "program": certificate.program,
        "subject": {
            "model": certificate.subject.model,
            "training": false,
            "cases": { "name": "the bundled cases", "files": 2, "hash": "cd" },
            "demos": [],
            "benchmarks": [],
        },
        "limits": certificate.limits,
        "gaps": ["of the page"],
        "absent": [],
        "devices": [{
            "device": "webgpu",
            "adapter": "apple metal-3 (GPU)",
            "driver": "Mozilla/5.0",
            "machine": { "system": "MacIntel, in a browser", "processors": 8 },
            "emulated": false,
            "verdict": "same",
            "error": null,
            "parts": [
                { "part": "model", "seconds": 1, "memory_bytes": 4096, "verdict": "same", "found": { "model": model } },
                { "part": "cases", "seconds": 2.5, "memory_bytes": null, "verdict": "same", "found": { "cases": cases } },
            ],
        }],
    })
}

#[test]
fn a_pages_certificate_is_united_with_the_commands() {
    let page = of_a_page();
    assert_eq!(fits(&schema(), &schema(), &page), Ok(()));
    let page = Certificate::parse("page.json", page.to_string().as_bytes()).unwrap();
    let here = certificate(vec![tested("flex", false)]);
    let all = here.with(page, "page.json").unwrap();
    let names = all.devices.iter().map(|of| of.device.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["flex", "webgpu"]);
    let said = "webgpu: compared by the page with the reference's values";
    assert!(
        all.gaps.iter().any(|gap| gap.starts_with(said)),
        "{:?}",
        all.gaps
    );
    assert!(all.gaps.iter().all(|gap| gap != "of the page"));
}

#[test]
fn hashes_are_those_that_browsers_compute() {
    let mut hash = Hash::new();
    hash.add(b"abc");
    // FIPS 180-2, appendix B.1.
    let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(hash.digits(), known);
}

#[test]
fn other_models_versions_and_files_are_refused() {
    let here = certificate(vec![tested("flex", false)]);
    let refused = |change: fn(&mut Certificate)| {
        let mut other = here.clone();
        change(&mut other);
        let error = here.clone().with(other, "b.json").unwrap_err();
        assert!(matches!(error, CertificateError::Differs { .. }), "{error}");
        error.to_string()
    };
    let said = refused(|other| {
        other.subject.model.as_mut().unwrap().hash = "ff".to_owned();
    });
    assert_eq!(said, "b.json: expected the hash ab, got ff");
    let said = refused(|other| other.subject.model.as_mut().unwrap().exact = true);
    let kinds = "b.json: expected results of a model, got an exact model";
    assert_eq!(said, kinds);
    let said = refused(|other| {
        other.subject.model.as_mut().unwrap().tokens.pop();
    });
    assert!(said.contains("the tokens [1, 2, 3]"), "{said}");
    let said = refused(|other| other.program.version = "0".to_owned());
    assert!(said.contains("the program's version"), "{said}");
    let said = refused(|other| other.subject = of_programs().subject);
    let parts = "expected one of the parts model, got cases, demos, bench";
    assert!(said.ends_with(parts), "{said}");

    let mut value = serde_json::to_value(&here).unwrap();
    value["version"] = 1.into();
    let parse = |value: &Value| Certificate::parse("b.json", value.to_string().as_bytes());
    let error = parse(&value).unwrap_err();
    assert_eq!(error.to_string(), "b.json: expected version 4, got 1");
    value["version"] = VERSION.into();
    value["more"] = true.into();
    for bytes in [value.to_string(), "{}".to_owned(), "x".to_owned()] {
        let error = Certificate::parse("b.json", bytes.as_bytes()).unwrap_err();
        assert!(
            matches!(error, CertificateError::Foreign { .. }),
            "{bytes}: {error}"
        );
    }
}

/// Whether a value is as a schema says; the keywords are those of the committed schema, and another one fails.
fn fits(schema: &Value, root: &Value, value: &Value) -> Result<(), String> {
    let off = |what: &str| Err(format!("{what} of {schema}: {value}"));
    for (keyword, of) in schema.as_object().unwrap() {
        let right = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let at = of.as_str().unwrap().strip_prefix('#').unwrap();
                return fits(root.pointer(at).unwrap(), root, value);
            }
            "const" => value == of,
            "enum" => of.as_array().unwrap().contains(value),
            "minimum" => value.as_f64() >= of.as_f64(),
            "oneOf" => {
                let all = of.as_array().unwrap().iter();
                all.filter(|one| fits(one, root, value).is_ok()).count() == 1
            }
            "type" => match of.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64(),
                "number" => value.is_number(),
                "null" => value.is_null(),
                other => return off(other),
            },
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|item| fits(of, root, item))?;
                true
            }
            "required" => {
                let names = of.as_array().unwrap().iter();
                let mut names = names.map(|name| name.as_str().unwrap());
                names.all(|name| value.get(name).is_some())
            }
            "additionalProperties" => {
                assert_eq!(of, false);
                let mut names = value.as_object().into_iter().flat_map(|of| of.keys());
                names.all(|name| schema["properties"].get(name).is_some())
            }
            "properties" => {
                for (name, of) in of.as_object().unwrap() {
                    let entry = value.get(name);
                    entry.map_or(Ok(()), |entry| fits(of, root, entry))?;
                }
                true
            }
            other => return off(other),
        };
        if !right {
            return off(keyword);
        }
    }
    Ok(())
}

/// The committed schema.
fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/certificate.schema.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn certificates_follow_the_committed_schema() {
    let schema = schema();
    let mut of_model = certificate(vec![tested("flex", false), tested("cpu", true)]);
    of_model.subject.cases = of_programs().subject.cases;
    of_model.subject.training = true;
    let found = vec![(Section::Training, of_training(true))];
    of_model.devices.push(device("cuda:0", found));
    for certificate in [of_programs(), of_model] {
        let value = serde_json::to_value(&certificate).unwrap();
        assert_eq!(fits(&schema, &schema, &value), Ok(()));
        let read = Certificate::parse("a.json", &text(&certificate)).unwrap();
        assert_eq!(read, certificate);
        // The schema has no entry that isn't written, and none is left out.
        for name in value.as_object().unwrap().keys() {
            let mut less = value.clone();
            less.as_object_mut().unwrap().remove(name);
            assert!(fits(&schema, &schema, &less).is_err(), "{name}");
        }
        let mut more = value.clone();
        more["devices"][0]["more"] = true.into();
        assert!(fits(&schema, &schema, &more).is_err());
    }
}
