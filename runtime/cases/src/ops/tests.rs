//! Cases that ask for something wrong are refused before the device sees them.

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
        (
            name,
            Saved::new(dtype, shape.to_vec(), &zeros[..bytes]).expect("sizes agree"),
        )
    });
    let bytes = serialize(views, Some(metadata.into())).expect("serializes");
    CaseFile::parse(bytes).expect("a sound file")
}

fn compute(case: &CaseFile) -> Result<Vec<Produced>, OpError> {
    pollster::block_on(run(case, &Device::flex()))
}

/// What the operation answers; the device is never opened, because nothing may reach it.
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
    assert_eq!(
        refusal("convolution", "{}", &[]),
        "op `convolution` is not supported by this version"
    );
    let answer = refusal("route", r#"{"kind":"hash","seed":1}"#, &[]);
    assert_eq!(
        answer,
        "op `route` of kind `hash` is not supported by this version"
    );
}

#[test]
fn what_the_device_does_is_not_the_files_fault() {
    let lost = elements::<f32>("y", Err("the device is gone"));
    let error = lost.expect_err("nothing was read");
    assert_eq!(
        error.to_string(),
        "cannot read y back from the device: the device is gone"
    );
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
    let verdict = |tensors: &[_], tol| {
        let case = case("route", ROUTE, tol, tensors);
        pollster::block_on(judge(&case, &Device::flex())).expect_err("no verdict")
    };
    let error = verdict(&tensors, EXACT);
    assert!(error.is_file());
    assert_eq!(
        error.to_string(),
        "output `indices`: expected I64, I32, U8 or BOOL, the file has F32"
    );
    let unknown = [tensors[0], ("out.y", Dtype::F32, &[1, 2])];
    let error = verdict(&unknown, r#"{"y":{"exact":true}}"#);
    assert!(error.is_file());
    assert_eq!(
        error.to_string(),
        "output `y` is not produced by op `route`"
    );
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
        (
            "\"top_k\":2",
            "\"top_k\":2,\"noise\":1",
            "unknown field `noise`",
        ),
        ("\"top_k\":2,", "", "missing field `top_k`"),
        (
            "\"top_k\":2",
            "\"top_k\":2,\"top_k\":2",
            "duplicate field `top_k`",
        ),
        ("\"top_k\":2", "\"top_k\":-2", "invalid value"),
        ("softmax\",", "mish\",", "unknown variant `mish`"),
        (
            "\"top_k\":2",
            "\"top_k\":0",
            "top_k: expected 1 to 4, got 0",
        ),
        (
            "\"top_k\":2",
            "\"top_k\":5",
            "top_k: expected 1 to 4, got 5",
        ),
        (
            "\"top_k\":2",
            "\"top_k\":18446744073709551615",
            "top_k: expected 1 to 4",
        ),
    ] {
        let answer = refusal("route", &ROUTE.replacen(from, to, 1), &[logits]);
        assert!(answer.contains(said), "{answer}");
    }
    let dangling = LAYER.replace("\"gated\"", "\"min_capacity\":4,\"gated\"");
    let answer = refusal(
        "moe_layer",
        &dangling,
        &layer(&[2, 3], &[4, 3], &[4, 5, 3], &[4, 3, 5]),
    );
    assert_eq!(
        answer,
        "parameter min_capacity has no effect without capacity_factor"
    );
}

#[test]
fn options_of_a_route_are_whole_and_sound() {
    let logits = ("in.logits", Dtype::F32, &[3, 4][..]);
    for (more, said) in [
        (r#""groups":{"count":2}"#, "missing field `chosen`"),
        (
            r#""groups":{"count":2,"chosen":1,"best":3}"#,
            "unknown field `best`",
        ),
        (r#""groups":{"count":3,"chosen":1}"#, "groups"),
        (r#""scale":"2""#, "invalid type"),
    ] {
        let answer = refusal(
            "route",
            &ROUTE.replacen('{', &format!("{{{more},"), 1),
            &[logits],
        );
        assert!(answer.contains(said), "{answer}");
    }
    let answer = refusal("route", r#"{"kind":"topk"}"#, &[logits]);
    assert!(answer.contains("missing field `top_k`"), "{answer}");
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
    assert_eq!(
        answer,
        "tensor `in.logits`: expected F64, F32, F16 or BF16, got I32"
    );
    let answer = refusal(
        "moe_layer",
        &LAYER.replace("false", "true"),
        &layer(&[2, 3], &[4, 3], &[4, 5, 3], &[4, 3, 5]),
    );
    assert_eq!(answer, "input w_gate is missing");
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
    let mask = |len| {
        [
            ("in.logits", Dtype::F32, &[3, 4][..]),
            ("in.expert_mask", Dtype::U8, len),
        ]
    };
    let answer = refusal("route", ROUTE, &mask(&[5]));
    assert_eq!(
        answer,
        "input expert_mask: expected shape [E] = [4], got [5]"
    );
    let answer = refusal("route", ROUTE, &[("in.logits", Dtype::F32, &[3])]);
    assert_eq!(answer, "input logits: expected shape [T,E], got [3]");
    let answer = refusal("route", ROUTE, &[("in.logits", Dtype::F32, &[3, 0])]);
    assert_eq!(
        answer,
        "input logits: expected shape [T,E] without a zero extent, got [3, 0]"
    );
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
        assert!(
            answer.starts_with(&format!("input {name}: expected shape")),
            "{answer}"
        );
    }
}

#[test]
fn losses_need_logits_of_some_tokens() {
    let logits = |shape| [("in.logits", Dtype::F32, shape)];
    let refused = |params, tensors: &[_]| refusal("balance_losses", params, tensors);
    let sound = r#"{"top_k":2}"#;
    assert_eq!(refused(sound, &[]), "input logits is missing");
    for (params, shape, said) in [
        (
            sound,
            &[3][..],
            "input logits: expected shape [T,E], got [3]",
        ),
        (sound, &[0, 4], "without a zero extent, got [0, 4]"),
        (sound, &[3, 0], "without a zero extent, got [3, 0]"),
        (
            r#"{"top_k":0}"#,
            &[3, 4],
            "parameter top_k: expected 1 to 4, got 0",
        ),
        (
            r#"{"top_k":5}"#,
            &[3, 4],
            "parameter top_k: expected 1 to 4, got 5",
        ),
        ("{}", &[3, 4], "missing field `top_k`"),
        (
            r#"{"top_k":2,"groups":2}"#,
            &[3, 4],
            "unknown field `groups`",
        ),
    ] {
        let answer = refused(params, &logits(shape));
        assert!(answer.contains(said), "{answer}");
    }
    let mask = ("in.expert_mask", Dtype::U8, &[4][..]);
    let answer = refused(sound, &[logits(&[3, 4])[0], mask]);
    assert_eq!(
        answer,
        "input `expert_mask` is not read by op `balance_losses`"
    );
}

#[test]
fn a_backward_pass_needs_the_layer_and_its_output_gradient() {
    let sound = layer(&[2, 3], &[4, 3], &[4, 5, 3], &[4, 3, 5]);
    let refused = |params: &str, dy: Option<&[usize]>, left_out: &str| {
        let dy = dy.map(|shape| ("in.dy", Dtype::F32, shape));
        let inputs = sound.into_iter().filter(|(name, _, _)| *name != left_out);
        let inputs: Vec<_> = inputs.chain(dy).collect();
        refusal("moe_layer_backward", params, &inputs)
    };
    let dy = Some(&[2, 3][..]);
    let unknown = LAYER.replace("\"gated\"", "\"noise\":1,\"gated\"");
    for (answer, said) in [
        (refused(LAYER, None, ""), "input dy is missing"),
        (refused(LAYER, dy, "in.w_out"), "input w_out is missing"),
        (
            refused(LAYER, Some(&[2, 4]), ""),
            "input dy: expected shape [T,H] = [2, 3], got [2, 4]",
        ),
        (refused(&unknown, dy, ""), "unknown field `noise`"),
        (
            refused(&LAYER.replace("1", "5"), dy, ""),
            "parameter top_k: expected 1 to 4, got 5",
        ),
        (
            refused(&LAYER.replace("false", "true"), dy, ""),
            "input w_gate is missing",
        ),
    ] {
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
    // Ties go to experts 0 and 1; (ln 8)² = 4.3240771.
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
        let tensors: Vec<_> = layer(&x, &[4, 3], &[4, 5, 3], &[4, 3, 5])
            .into_iter()
            .chain(more)
            .collect();
        let tol = r#"{"d_x":{"exact":true}}"#;
        let case = case("moe_layer_backward", LAYER, tol, &tensors);
        let produced = compute(&case).expect("computes");
        let shapes: Vec<_> = produced.iter().map(|p| (p.name, &p.shape[..])).collect();
        assert_eq!(
            shapes,
            [
                ("d_x", &x[..]),
                ("d_router", &[4, 3]),
                ("d_w_in", &[4, 5, 3]),
                ("d_w_out", &[4, 3, 5]),
                ("d_b_out", &[4, 3]),
            ]
        );
    }
}

#[test]
fn the_smallest_layer_computes() {
    let out = [
        ("out.y", Dtype::F32, &[1, 1][..]),
        ("out.dropped_slots", Dtype::I32, &[1]),
    ];
    let tensors: Vec<_> = layer(&[1, 1], &[1, 1], &[1, 1, 1], &[1, 1, 1])
        .into_iter()
        .chain(out)
        .collect();
    let tol = r#"{"y":{"rel_l2":1e-6},"dropped_slots":{"exact":true}}"#;
    let case = case("moe_layer", LAYER, tol, &tensors);
    let reports = pollster::block_on(judge(&case, &Device::flex())).expect("has a verdict");
    assert!(
        reports.iter().all(|r| r.verdict == Verdict::Pass),
        "{reports:?}"
    );
}
