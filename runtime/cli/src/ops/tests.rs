//! Cases that ask for something wrong are refused before the device sees them.

use burn::tensor::Device;
use safetensors::tensor::TensorView as Saved;
use safetensors::{Dtype, serialize};

use super::*;
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
    CaseFile::parse(bytes.leak()).expect("a sound file")
}

/// What the operation answers; the device is never opened, because nothing may reach it.
fn refusal(op: &str, params: &str, tensors: &[(&str, Dtype, &[usize])]) -> String {
    let out = ("out.indices", Dtype::I32, &[1, 1][..]);
    let tensors: Vec<_> = tensors.iter().copied().chain([out]).collect();
    match run(&case(op, params, EXACT, &tensors), &Device::flex()) {
        Err(e) => e.to_string(),
        Ok(_) => panic!("{op} {params} was accepted"),
    }
}

const ROUTE: &str =
    r#"{"kind":"topk","top_k":2,"score":"softmax","renormalize":true,"softmax_after_topk":false}"#;
const LAYER: &str = r#"{"top_k":1,"activation":"relu","renormalize":true,"gated":false}"#;

#[test]
fn other_operations_and_routers_are_named() {
    assert_eq!(
        refusal("attention", "{}", &[]),
        "op `attention` is not supported by this version"
    );
    let answer = refusal("route", r#"{"kind":"hash","seed":1}"#, &[]);
    assert_eq!(
        answer,
        "op `route` of kind `hash` is not supported by this version"
    );
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
#[cfg(feature = "flex")]
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
    let produced = run(&case, &Device::flex()).expect("computes");
    let reports = judge(&case, &produced).expect("compares");
    assert!(
        reports.iter().all(|r| r.verdict == Verdict::Pass),
        "{reports:?}"
    );
}
