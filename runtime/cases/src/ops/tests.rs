//! Invalid cases are refused before the device is used.

use burn::tensor::Device;
use safetensors::tensor::TensorView as Saved;
use safetensors::{Dtype, serialize};

use super::*;
use crate::error::Error;
use crate::verdict::{Verdict, judge};

const EXACT: &str = r#"{"indices":{"exact":true}}"#;

/// A case of zero-filled tensors.
fn case(op: &str, params: &str, tol: &str, tensors: &[(&str, Dtype, &[usize])]) -> CaseFile {
    let metadata =
        [("op", op), ("params", params), ("tol", tol)].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let zeros = vec![0; 1 << 16];
    let views = tensors.iter().map(|&(name, dtype, shape)| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        let saved = Saved::new(dtype, shape.to_vec(), &zeros[..bytes]);
        (name, saved.expect("sizes agree"))
    });
    let bytes = serialize(views, Some(metadata.into())).expect("serializes");
    CaseFile::parse(bytes).expect("a sound file")
}

fn compute(case: &CaseFile) -> Result<Vec<Produced>, OpError> {
    pollster::block_on(run(case, &Device::flex()))
}

/// The error of the operation; the device is never opened, because the check comes first.
fn refusal(op: &str, params: &str, tensors: &[(&str, Dtype, &[usize])]) -> String {
    let out = ("out.indices", Dtype::I32, &[1, 1][..]);
    let tensors: Vec<_> = tensors.iter().copied().chain([out]).collect();
    match compute(&case(op, params, EXACT, &tensors)) {
        Err(e) => {
            assert!(e.is_file(), "{e}");
            e.to_string()
        }
        Ok(_) => panic!("{op} {params} was accepted"),
    }
}

const ROUTE: &str =
    r#"{"kind":"topk","top_k":2,"score":"softmax","renormalize":true,"softmax_after_topk":false}"#;
const LAYER: &str = r#"{"top_k":1,"activation":"relu","renormalize":true,"gated":false}"#;

#[test]
fn other_operations_and_routers_are_named() {
    let hash = r#"{"kind":"hash","seed":1}"#;
    for (op, params, named) in [
        ("convolution", "{}", "`convolution`"),
        ("route", hash, "`route` of kind `hash`"),
    ] {
        let said = format!("op {named} is not supported by this version");
        assert_eq!(refusal(op, params, &[]), said);
    }
}

#[test]
fn what_the_device_does_is_not_the_files_fault() {
    let lost = elements::<f32>("y", Err("the device is gone"));
    let error = lost.expect_err("nothing was read");
    let said = "cannot read y back from the device: the device is gone";
    assert_eq!(error.to_string(), said);
    let none = OpError::NoGradient("d_x");
    for error in [error, none] {
        assert!(!error.is_file() && !Error::from(error).is_file());
    }
}

#[test]
fn outputs_nobody_computes_are_the_files_fault() {
    let tensors = [
        ("in.logits", Dtype::F32, &[1, 4][..]),
        ("out.indices", Dtype::F32, &[1, 2]),
    ];
    let unknown = [tensors[0], ("out.y", Dtype::F32, &[1, 2])];
    let kind = "output `indices`: expected I64, I32, U8 or BOOL, the file has F32";
    let stranger = "output `y` is not produced by op `route`";
    for (tensors, tol, said) in [
        (tensors, EXACT, kind),
        (unknown, r#"{"y":{"exact":true}}"#, stranger),
    ] {
        let case = case("route", ROUTE, tol, &tensors);
        let verdict = pollster::block_on(judge(&case, &Device::flex()));
        let error = verdict.expect_err("no verdict");
        assert!(error.is_file());
        assert_eq!(error.to_string(), said);
    }
}

#[test]
fn quantisers_are_checked_first() {
    let x = ("in.x", Dtype::F32, &[3, 4][..]);
    let params = |granularity: &str, margin: i32| {
        format!(r#"{{"format":"e4m3","granularity":"{granularity}","margin":{margin}}}"#)
    };
    let refused = |params: &str| refusal("fp8_quantize", params, &[x]);
    assert_eq!(
        refused(&params("column", 0)),
        "op fp8_quantize with granularity `column` is not supported by this version"
    );
    assert!(refused(&params("row", 65)).contains("margin of a scale: expected -64 to 64, got 65"));
    let answer = refused(&params("row", 0).replace("e4m3", "e3m4"));
    assert!(answer.contains("unknown variant `e3m4`"), "{answer}");
    let flat = ("in.x", Dtype::F32, &[12][..]);
    let answer = refusal("fp8_quantize", &params("mx", 0), &[flat]);
    assert_eq!(answer, "input x: expected shape [R,C], got [12]");
}

#[test]
fn parameters_are_all_there_and_all_known() {
    let logits = ("in.logits", Dtype::F32, &[3, 4][..]);
    for (from, to, said) in [
        ("2,", r#"2,"noise":1,"#, "unknown field `noise`"),
        (r#""top_k":2,"#, "", "missing field `top_k`"),
        ("2,", r#"2,"top_k":2,"#, "duplicate field `top_k`"),
        ("2,", "-2,", "invalid value"),
        ("softmax\",", "mish\",", "unknown variant `mish`"),
        ("2,", "0,", "top_k: expected 1 to 4, got 0"),
        ("2,", "5,", "top_k: expected 1 to 4, got 5"),
        ("2,", "18446744073709551615,", "top_k: expected 1 to 4"),
    ] {
        let answer = refusal("route", &ROUTE.replacen(from, to, 1), &[logits]);
        assert!(answer.contains(said), "{answer}");
    }
    let dangling = LAYER.replace("\"gated\"", "\"min_capacity\":4,\"gated\"");
    let answer = refusal("moe_layer", &dangling, &sound());
    let said = "parameter min_capacity has no effect without capacity_factor";
    assert_eq!(answer, said);
}

#[test]
fn options_of_a_route_are_whole_and_sound() {
    let logits = ("in.logits", Dtype::F32, &[3, 4][..]);
    let with = |more: &str| ROUTE.replacen('{', &format!("{{{more},"), 1);
    let best = r#""groups":{"count":2,"chosen":1,"best":3}"#;
    for (params, said) in [
        (with(r#""groups":{"count":2}"#), "missing field `chosen`"),
        (with(best), "best keys of a group: expected 1 or 2, got 3"),
        (with(r#""groups":{"count":3,"chosen":1}"#), "groups"),
        (with(r#""scale":"2""#), "invalid type"),
        (r#"{"kind":"topk"}"#.to_owned(), "missing field `top_k`"),
    ] {
        let answer = refusal("route", &params, &[logits]);
        assert!(answer.contains(said), "{answer}");
    }
}

#[test]
fn a_route_without_options_is_softmax_renormalised() {
    let tensors = [
        ("in.logits", Dtype::F32, &[1, 4][..]),
        ("out.weights", Dtype::F32, &[1, 2]),
    ];
    let tol = r#"{"weights":{"rel_l2":0}}"#;
    let case = case("route", r#"{"kind":"topk","top_k":2}"#, tol, &tensors);
    let produced = compute(&case).expect("computes");
    assert_eq!(values(&produced, "weights"), [0.5, 0.5]);
}

#[test]
fn inputs_are_all_there_and_all_read() {
    let logits = ("in.logits", Dtype::F32, &[3, 4][..]);
    assert_eq!(refusal("route", ROUTE, &[]), "input logits is missing");
    let answer = refusal("route", ROUTE, &[logits, ("in.bias", Dtype::F32, &[4])]);
    assert_eq!(answer, "input `bias` is not read by op `route`");
    let answer = refusal("route", ROUTE, &[("in.logits", Dtype::I32, &[3, 4])]);
    let said = "tensor `in.logits`: expected F64, F32, F16 or BF16, got I32";
    assert_eq!(answer, said);
    let answer = refusal("moe_layer", &LAYER.replace("false", "true"), &sound());
    assert_eq!(answer, "input w_gate is missing");
}

/// The inputs of a layer with consistent shapes.
fn sound() -> [(&'static str, Dtype, &'static [usize]); 4] {
    layer(&[2, 3], &[4, 3], &[4, 5, 3], &[4, 3, 5])
}

fn layer<'a>(
    x: &'a [usize],
    router: &'a [usize],
    w_in: &'a [usize],
    w_out: &'a [usize],
) -> [(&'static str, Dtype, &'a [usize]); 4] {
    let f32 = Dtype::F32;
    [
        ("in.x", f32, x),
        ("in.router", f32, router),
        ("in.w_in", f32, w_in),
        ("in.w_out", f32, w_out),
    ]
}

#[test]
fn extents_agree() {
    let logits = |shape| ("in.logits", Dtype::F32, shape);
    let mask = ("in.expert_mask", Dtype::U8, &[5][..]);
    for (tensors, said) in [
        (
            vec![logits(&[3, 4][..]), mask],
            "input expert_mask: expected shape [E] = [4], got [5]",
        ),
        (
            vec![logits(&[3])],
            "input logits: expected shape [T,E], got [3]",
        ),
        (
            vec![logits(&[3, 0])],
            "input logits: expected shape [T,E] without a zero extent, got [3, 0]",
        ),
    ] {
        assert_eq!(refusal("route", ROUTE, &tensors), said);
    }
    let sound = (&[2, 3][..], &[4, 3][..], &[4, 5, 3][..], &[4, 3, 5][..]);
    for (x, router, w_in, w_out, name) in [
        (&[2, 3, 1][..], sound.1, sound.2, sound.3, "x"),
        (&[2, 9], sound.1, sound.2, sound.3, "router"),
        (sound.0, &[9, 3], sound.2, sound.3, "w_in"),
        (sound.0, sound.1, &[4, 5, 9], sound.3, "w_in"),
        (sound.0, sound.1, &[4, 0, 3], &[4, 3, 0], "w_in"),
        (sound.0, sound.1, sound.2, &[4, 5, 3], "w_out"),
        (&[2, 0], &[4, 0], &[4, 5, 0], &[4, 0, 5], "w_in"),
        (sound.0, &[0, 3], &[0, 5, 3], &[0, 3, 5], "w_in"),
    ] {
        let answer = refusal("moe_layer", LAYER, &layer(x, router, w_in, w_out));
        let begin = format!("input {name}: expected shape");
        assert!(answer.starts_with(&begin), "{answer}");
    }
}

#[test]
fn losses_need_logits_of_some_tokens() {
    let logits = |shape| [("in.logits", Dtype::F32, shape)];
    let refused = |params, tensors: &[_]| refusal("balance_losses", params, tensors);
    let sound = r#"{"top_k":2}"#;
    assert_eq!(refused(sound, &[]), "input logits is missing");
    let [none, many, other] = [
        r#"{"top_k":0}"#,
        r#"{"top_k":5}"#,
        r#"{"top_k":2,"groups":2}"#,
    ];
    let rank = "input logits: expected shape [T,E], got [3]";
    let range = "parameter top_k: expected 1 to 4, got";
    for (params, shape, said) in [
        (sound, &[3][..], rank),
        (sound, &[0, 4], "without a zero extent, got [0, 4]"),
        (sound, &[3, 0], "without a zero extent, got [3, 0]"),
        (none, &[3, 4], &format!("{range} 0")),
        (many, &[3, 4], &format!("{range} 5")),
        ("{}", &[3, 4], "missing field `top_k`"),
        (other, &[3, 4], "unknown field `groups`"),
    ] {
        let answer = refused(params, &logits(shape));
        assert!(answer.contains(said), "{answer}");
    }
    let mask = ("in.expert_mask", Dtype::U8, &[4][..]);
    let answer = refused(sound, &[logits(&[3, 4])[0], mask]);
    let said = "input `expert_mask` is not read by op `balance_losses`";
    assert_eq!(answer, said);
}

#[test]
fn a_backward_pass_needs_the_layer_and_its_output_gradient() {
    let refused = |params: &str, dy: Option<&[usize]>, left_out: &str| {
        let dy = dy.map(|shape| ("in.dy", Dtype::F32, shape));
        let inputs = sound().into_iter().filter(|(name, _, _)| *name != left_out);
        let inputs: Vec<_> = inputs.chain(dy).collect();
        refusal("moe_layer_backward", params, &inputs)
    };
    let dy = Some(&[2, 3][..]);
    let unknown = LAYER.replace("\"gated\"", "\"noise\":1,\"gated\"");
    let [many, gated] = [("1", "5"), ("false", "true")].map(|(from, to)| LAYER.replace(from, to));
    let shape = "input dy: expected shape [T,H] = [2, 3], got [2, 4]";
    for (params, dy, left_out, said) in [
        (LAYER, None, "", "input dy is missing"),
        (LAYER, dy, "in.w_out", "input w_out is missing"),
        (LAYER, Some(&[2, 4][..]), "", shape),
        (&unknown, dy, "", "unknown field `noise`"),
        (&many, dy, "", "parameter top_k: expected 1 to 4, got 5"),
        (&gated, dy, "", "input w_gate is missing"),
    ] {
        let answer = refused(params, dy, left_out);
        assert!(answer.contains(said), "{answer}");
    }
}

fn values(produced: &[Produced], name: &str) -> Vec<f32> {
    match produced.iter().find(|p| p.name == name).map(|p| &p.values) {
        Some(Values::Float(values)) => values.clone(),
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn equal_logits_lose_what_the_formulas_say() {
    let tensors = [
        ("in.logits", Dtype::F32, &[6, 8][..]),
        ("out.z", Dtype::F32, &[1]),
    ];
    let tol = r#"{"z":{"rel_l2":1e-6}}"#;
    let case = case("balance_losses", r#"{"top_k":2}"#, tol, &tensors);
    let produced = compute(&case).expect("computes");
    // Equal scores select experts 0 and 1; (ln 8)² = 4.3240771.
    for (name, want) in [
        ("switch", &[1.0][..]),
        ("gshard", &[1.0]),
        ("entropy", &[0.0]),
        ("z", &[4.324_077]),
        ("utilization", &[0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ] {
        let got = values(&produced, name);
        let near = got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6);
        assert!(near && got.len() == want.len(), "{name}: {got:?}");
    }
}

#[test]
fn gradients_have_the_shapes_of_their_inputs_for_any_number_of_tokens() {
    for tokens in [0, 1, 3] {
        let (x, bias) = ([tokens, 3], ("in.b_out", Dtype::F32, &[4, 3][..]));
        let more = [
            ("in.dy", Dtype::F32, &x[..]),
            bias,
            ("out.d_x", Dtype::F32, &x),
        ];
        let of_layer = layer(&x, &[4, 3], &[4, 5, 3], &[4, 3, 5]);
        let tensors: Vec<_> = of_layer.into_iter().chain(more).collect();
        let tol = r#"{"d_x":{"exact":true}}"#;
        let case = case("moe_layer_backward", LAYER, tol, &tensors);
        let produced = compute(&case).expect("computes");
        let shapes: Vec<_> = produced.iter().map(|p| (p.name, &p.shape[..])).collect();
        let expected = [
            ("d_x", &x[..]),
            ("d_router", &[4, 3]),
            ("d_w_in", &[4, 5, 3]),
            ("d_w_out", &[4, 3, 5]),
            ("d_b_out", &[4, 3]),
        ];
        assert_eq!(shapes, expected);
    }
}

#[test]
fn the_smallest_layer_computes() {
    let out = [
        ("out.y", Dtype::F32, &[1, 1][..]),
        ("out.dropped_slots", Dtype::I32, &[1]),
    ];
    let of_layer = layer(&[1, 1], &[1, 1], &[1, 1, 1], &[1, 1, 1]);
    let tensors: Vec<_> = of_layer.into_iter().chain(out).collect();
    let tol = r#"{"y":{"rel_l2":1e-6},"dropped_slots":{"exact":true}}"#;
    let case = case("moe_layer", LAYER, tol, &tensors);
    let reports = pollster::block_on(judge(&case, &Device::flex())).expect("has a verdict");
    let passed = reports.iter().all(|r| r.verdict == Verdict::Pass);
    assert!(passed, "{reports:?}");
}
