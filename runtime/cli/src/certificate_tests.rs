use super::*;
use moebius_model::computation::Flip;
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

/// A device that computed a model of one layer, whose router differs if `apart`.
pub(crate) fn tested(device: &str, apart: bool) -> Tested {
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
    let found = Found::Model {
        parts: parts.collect(),
        parting: apart.then_some(place),
        greedy: apart.then_some(Greedy {
            position: 3,
            expected: 5,
            got: 6,
            margin: None,
        }),
    };
    Tested {
        device: device.to_owned(),
        adapter: Some("a <card> | b".to_owned()),
        driver: None,
        machine: Machine {
            system: "linux x86_64".to_owned(),
            processors: 2,
        },
        seconds: Some(0.5),
        memory_bytes: Some(1024),
        verdict: found.verdict(),
        found,
    }
}

pub(crate) fn certificate(devices: Vec<Tested>) -> Certificate {
    let subject = Subject::Model {
        name: "tiny".to_owned(),
        family: "olmoe".to_owned(),
        hash: "ab".to_owned(),
        tokens: vec![1, 2, 3],
    };
    let limits = Limits {
        distance: 0.25,
        tie: 0.5,
    };
    Certificate::new(subject, limits, devices)
}

/// One of the bundled cases, on a device that has all right and on one that can't be opened.
fn of_cases() -> Certificate {
    let found = |found: Found| Tested {
        verdict: found.verdict(),
        adapter: None,
        memory_bytes: None,
        found,
        ..tested("flex", false)
    };
    let cases = Found::Cases {
        passed: 2,
        failed: 0,
        errors: 0,
        problem: None,
    };
    let devices = vec![found(cases), found(Found::Error("no driver".to_owned()))];
    let subject = Subject::Cases {
        hash: "cd".to_owned(),
    };
    Certificate::new(subject, Limits::default(), devices)
}

fn text(certificate: &Certificate) -> Vec<u8> {
    serde_json::to_vec(certificate).unwrap()
}

#[test]
fn verdicts_follow_from_what_was_found() {
    assert_eq!(tested("flex", false).verdict, Verdict::Same);
    assert_eq!(tested("flex", true).verdict, Verdict::Apart);
    let mut undecided = tested("flex", false).found;
    if let Found::Model { parts, .. } = &mut undecided {
        parts[4].distance.judged = 0;
    }
    assert_eq!(undecided.verdict(), Verdict::Undecided);
    let cases = |failed, errors| Found::Cases {
        passed: 1,
        failed,
        errors,
        problem: None,
    };
    let of = [(0, 0), (1, 0), (1, 1)].map(|(failed, errors)| cases(failed, errors).verdict());
    assert_eq!(of, [Verdict::Same, Verdict::Apart, Verdict::Failed]);
}

#[test]
fn certificates_of_one_model_are_united() {
    let here = certificate(vec![tested("flex", false)]);
    let there = certificate(vec![tested("cuda:0", true)]);
    let read = Certificate::parse("b.json", &text(&there)).unwrap();
    assert_eq!(read, there);
    let all = here.with(read, "b.json").unwrap();
    let bits = all.devices.iter().map(|tested| match &tested.found {
        Found::Model { parts, .. } => parts.iter().map(|part| part.bits_of_first).collect(),
        _ => Vec::new(),
    });
    let bits: Vec<Vec<bool>> = bits.collect();
    assert_eq!(bits, [[true; 5], [true, true, false, false, false]]);
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
        if let Subject::Model { hash, .. } = &mut other.subject {
            *hash = "ff".to_owned();
        }
    });
    assert_eq!(said, "b.json: expected the hash ab, got ff");
    let said = refused(|other| {
        if let Subject::Model { tokens, .. } = &mut other.subject {
            tokens.pop();
        }
    });
    assert!(said.contains("the tokens [1, 2, 3]"), "{said}");
    let said = refused(|other| other.program.version = "0".to_owned());
    assert!(said.contains("the program's version"), "{said}");
    let said = refused(|other| other.subject = of_cases().subject);
    assert!(said.contains("got the bundled cases"), "{said}");

    let mut value = serde_json::to_value(&here).unwrap();
    value["version"] = 2.into();
    let parse = |value: &Value| Certificate::parse("b.json", value.to_string().as_bytes());
    let error = parse(&value).unwrap_err();
    assert_eq!(error.to_string(), "b.json: expected version 1, got 2");
    value["version"] = 1.into();
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

#[test]
fn certificates_follow_the_committed_schema() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/certificate.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let of_model = certificate(vec![tested("flex", false), tested("cpu", true)]);
    for certificate in [of_cases(), of_model] {
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
