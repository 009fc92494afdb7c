//! What the format says beyond plain forward passes in f32, with values worked out by hand.

use burn::tensor::{DType, Device};
use safetensors::tensor::TensorView as Saved;
use safetensors::{Dtype, serialize};

use super::*;

/// A tensor of a case.
pub(super) struct Given {
    name: &'static str,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

pub(super) fn floats(name: &'static str, shape: &[usize], values: &[f32]) -> Given {
    Given {
        name,
        dtype: Dtype::F32,
        shape: shape.to_vec(),
        bytes: values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    }
}

fn words(name: &'static str, shape: &[usize], values: &[i32]) -> Given {
    Given {
        name,
        dtype: Dtype::I32,
        shape: shape.to_vec(),
        bytes: values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
    }
}

fn bytes(name: &'static str, shape: &[usize], values: &[u8]) -> Given {
    Given {
        name,
        dtype: Dtype::U8,
        shape: shape.to_vec(),
        bytes: values.to_vec(),
    }
}

/// A case with these inputs. Its one output stands for all: what is computed is looked at, not judged.
fn case(op: &str, params: &str, given: Vec<Given>) -> CaseFile {
    let tol = r#"{"y":{"exact":true}}"#;
    let metadata =
        [("op", op), ("params", params), ("tol", tol)].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let given: Vec<Given> = given
        .into_iter()
        .chain([floats("out.y", &[1], &[0.0])])
        .collect();
    let views = given.iter().map(|one| {
        let saved = Saved::new(one.dtype, one.shape.clone(), &one.bytes);
        (one.name, saved.expect("sizes agree"))
    });
    let file = serialize(views, Some(metadata.into())).expect("serializes");
    CaseFile::parse(file).expect("a sound file")
}

pub(super) fn computed(op: &str, params: &str, given: Vec<Given>) -> Vec<Produced> {
    let case = case(op, params, given);
    pollster::block_on(run(&case, &Device::flex())).expect("computes")
}

/// The error of a case, which must be the file's.
pub(super) fn refusal(op: &str, params: &str, given: Vec<Given>) -> String {
    let case = case(op, params, given);
    let error = pollster::block_on(run(&case, &Device::flex())).expect_err("refused");
    assert!(error.is_file(), "{error}");
    error.to_string()
}

/// Asserts the values of an output, up to rounding in f32.
pub(super) fn assert_near(produced: &[Produced], name: &str, want: &[f32]) {
    let found = produced.iter().find(|one| one.name == name);
    let got = match found.map(|one| &one.values) {
        Some(Values::Float(values)) => values.clone(),
        Some(Values::Int(values)) => values.iter().map(|value| *value as f32).collect(),
        None => panic!("{name} is not computed"),
    };
    let near =
        |(got, want): (&f32, &f32)| got == want || (got - want).abs() <= 2e-6 * want.abs().max(0.1);
    let all = got.len() == want.len() && got.iter().zip(want).all(near);
    assert!(all, "{name}: {got:?} for {want:?}");
}

/// The inputs of a layer that sends one token of one element to experts relu(x) · w.
fn layer(w: &[f32]) -> Vec<Given> {
    let experts = w.len();
    vec![
        floats("in.x", &[1, 1], &[1.0]),
        floats("in.router", &[experts, 1], &vec![0.0; experts]),
        floats("in.w_in", &[experts, 1, 1], &vec![1.0; experts]),
        floats("in.w_out", &[experts, 1, 1], w),
    ]
}

pub(super) fn with(mut given: Vec<Given>, more: Given) -> Vec<Given> {
    given.push(more);
    given
}

const TWO: &str = r#""top_k":2,"activation":"relu","renormalize":true,"gated":false"#;
const ONE: &str = r#""top_k":1,"activation":"relu","renormalize":false,"gated":false"#;

#[test]
fn a_bias_of_the_router_changes_choice_and_weights() {
    let bias = || floats("in.router_bias", &[2], &[0.0, 3_f32.ln()]);
    let produced = computed(
        "moe_layer",
        &format!("{{{TWO}}}"),
        with(layer(&[1.0, 2.0]), bias()),
    );
    assert_near(&produced, "indices", &[1.0, 0.0]);
    assert_near(&produced, "weights", &[0.75, 0.25]);
    assert_near(&produced, "y", &[1.75]);
    // dy/db = p0 · p1 · (w0 − w1) and its opposite.
    let given = with(layer(&[1.0, 2.0]), bias());
    let given = with(given, floats("in.dy", &[1, 1], &[1.0]));
    let produced = computed("moe_layer_backward", &format!("{{{TWO}}}"), given);
    assert_near(&produced, "d_router_bias", &[-0.1875, 0.1875]);
    assert_near(&produced, "d_router", &[-0.1875, 0.1875]);
}

#[test]
fn a_bias_of_the_selection_changes_the_choice_alone() {
    let params = format!(r#"{{{ONE},"score":"sigmoid"}}"#);
    let bias = || floats("in.selection_bias", &[2], &[0.0, 1.0]);
    let produced = computed("moe_layer", &params, with(layer(&[1.0, 3.0]), bias()));
    assert_near(&produced, "indices", &[1.0]);
    assert_near(&produced, "y", &[1.5]);
    let both = with(layer(&[1.0, 3.0]), bias());
    let both = with(both, floats("in.router_bias", &[2], &[0.0, 0.0]));
    let said = "input selection_bias: expected a router without bias, dropout and noise";
    assert_eq!(refusal("moe_layer", &params, both), said);
}

#[test]
fn masks_groups_and_scales_reach_the_layer() {
    let mask = bytes("in.expert_mask", &[2], &[0, 1]);
    let produced = computed(
        "moe_layer",
        &format!("{{{ONE}}}"),
        with(layer(&[1.0, 2.0]), mask),
    );
    assert_near(&produced, "indices", &[1.0]);
    assert_near(&produced, "y", &[2.0]);
    // The second group's two scores, 0.88 each, sum to more than 0.95 and 0.
    let bias = floats("in.router_bias", &[4], &[3.0, -9.0, 2.0, 2.0]);
    let params = r#"{"top_k":1,"activation":"relu","renormalize":true,"gated":false,"score":"sigmoid",
        "groups":{"count":2,"chosen":1},"scale":2.5}"#;
    let produced = computed(
        "moe_layer",
        params,
        with(layer(&[1.0, 2.0, 3.0, 4.0]), bias),
    );
    assert_near(&produced, "indices", &[2.0]);
    assert_near(&produced, "y", &[7.5]);
    let long = bytes("in.expert_mask", &[3], &[0, 1, 1]);
    let answer = refusal(
        "moe_layer",
        &format!("{{{ONE}}}"),
        with(layer(&[1.0, 2.0]), long),
    );
    assert_eq!(
        answer,
        "input expert_mask: expected shape [E] = [2], got [3]"
    );
}

#[test]
fn dropout_is_off_outside_of_training() {
    let off = r#""expert_dropout":0.5,"activation_dropout":0.5,"router_dropout":0.5,"router_noise_std":2.0"#;
    let produced = computed("moe_layer", &format!("{{{TWO},{off}}}"), layer(&[1.0, 2.0]));
    assert_near(&produced, "y", &[1.5]);
    let given = with(layer(&[1.0, 2.0]), floats("in.dy", &[1, 1], &[1.0]));
    let answer = refusal("moe_layer_backward", &format!("{{{TWO},{off}}}"), given);
    let said = "parameter expert_dropout: expected 0 in a backward pass, got 0.5";
    assert_eq!(answer, said);
}

#[test]
fn gradients_of_a_route_follow_from_all_that_it_gives() {
    let params = r#"{"kind":"topk","top_k":1,"renormalize":false}"#;
    let given = || {
        let d_weights = floats("in.d_weights", &[1, 1], &[1.0]);
        vec![floats("in.logits", &[1, 2], &[0.0, 0.0]), d_weights]
    };
    let produced = computed("route_backward", params, given());
    assert_near(&produced, "d_logits", &[0.25, -0.25]);
    let more = with(given(), floats("in.d_logsumexp", &[1], &[2.0]));
    let produced = computed("route_backward", params, more);
    assert_near(&produced, "d_logits", &[1.25, 0.75]);
    let more = with(given(), floats("in.d_probs", &[1, 2], &[1.0, 0.0]));
    let produced = computed("route_backward", params, more);
    assert_near(&produced, "d_logits", &[0.5, -0.5]);
    let wide = vec![
        floats("in.logits", &[1, 2], &[0.0, 0.0]),
        floats("in.d_weights", &[1, 2], &[1.0, 1.0]),
    ];
    let said = "input d_weights: expected shape [T,K] = [1, 1], got [1, 2]";
    assert_eq!(refusal("route_backward", params, wide), said);
}

#[test]
fn gradients_of_the_losses_are_those_of_the_formulas() {
    let logits = floats("in.logits", &[1, 2], &[0.0, 0.0]);
    let produced = computed("balance_losses_backward", r#"{"top_k":1}"#, vec![logits]);
    let ln2 = std::f32::consts::LN_2;
    assert_near(&produced, "d_logits_switch", &[0.5, -0.5]);
    assert_near(&produced, "d_logits_gshard", &[0.5, -0.5]);
    assert_near(&produced, "d_logits_entropy", &[0.0, 0.0]);
    assert_near(&produced, "d_logits_z", &[ln2, ln2]);
}

/// q and k of zeros, and one value for each key.
fn equal_scores(values: &[f32]) -> Vec<Given> {
    let keys = values.len();
    vec![
        floats("in.q", &[1, 1, 1, 1], &[0.0]),
        floats("in.k", &[1, 1, keys, 1], &vec![0.0; keys]),
        floats("in.v", &[1, 1, keys, 1], values),
    ]
}

#[test]
fn a_sink_takes_its_share_of_the_attention() {
    let given = || with(equal_scores(&[1.0, 3.0]), floats("in.sinks", &[1], &[0.0]));
    let produced = computed("attention", "{}", given());
    assert_near(&produced, "o", &[4.0 / 3.0]);
    assert_near(&produced, "lse", &[3_f32.ln()]);
    let given = with(given(), floats("in.do", &[1, 1, 1, 1], &[1.0]));
    let produced = computed("attention_backward", "{}", given);
    assert_near(&produced, "dv", &[1.0 / 3.0; 2]);
    assert_near(&produced, "dsinks", &[-4.0 / 9.0]);
}

#[test]
fn keys_have_documents_of_their_own() {
    let given = with(
        equal_scores(&[1.0, 100.0, 3.0]),
        words("in.document_ids", &[1, 1], &[5]),
    );
    let given = with(given, words("in.key_document_ids", &[1, 3], &[5, 7, 5]));
    let produced = computed("attention", r#"{"document":true}"#, given);
    assert_near(&produced, "o", &[2.0]);
}

#[test]
fn a_dropout_of_0_drops_nothing() {
    let params = r#"{"dropout":0.0,"dropout_seed":7}"#;
    let produced = computed("attention", params, equal_scores(&[1.0, 3.0]));
    assert_near(&produced, "o", &[2.0]);
    let seed = refusal("attention", r#"{"dropout_seed":7}"#, equal_scores(&[1.0]));
    assert_eq!(seed, "parameter dropout_seed has no effect without dropout");
    let whole = refusal("attention", r#"{"dropout":1.0}"#, equal_scores(&[1.0]));
    assert!(
        whole.contains("dropout: expected at least 0 and less than 1"),
        "{whole}"
    );
}

/// One sequence of three tokens in one head, with equal scores.
fn tokens(values: [f32; 3]) -> Vec<Given> {
    let rows: Vec<f32> = values.iter().flat_map(|value| [*value; 8]).collect();
    vec![
        floats("in.q", &[1, 1, 3, 8], &[0.0; 24]),
        floats("in.k", &[1, 1, 3, 8], &[0.0; 24]),
        floats("in.v", &[1, 1, 3, 8], &rows),
    ]
}

#[test]
fn a_cache_attends_over_what_it_has_at_each_step() {
    let (ln2, ln3) = (2_f32.ln(), 3_f32.ln());
    for (format, paged) in [
        ("f32", true),
        ("f32", false),
        ("f16", true),
        ("bf16", true),
        ("e4m3", true),
    ] {
        let params = format!(
            r#"{{"steps":[[2],[0],[1]],"format":"{format}","paged":{paged},"causal":true}}"#
        );
        let produced = computed("kv_cache", &params, tokens([1.0, 3.0, 8.0]));
        let o = [[1.0; 8], [2.0; 8], [4.0; 8]].concat();
        assert_near(&produced, "o", &o);
        assert_near(&produced, "lse", &[0.0, ln2, ln3]);
    }
    // Without a rule, the first token sees the second, too; the third is never appended.
    let produced = computed(
        "kv_cache",
        r#"{"steps":[[2]],"format":"f32"}"#,
        tokens([1.0, 3.0, 8.0]),
    );
    assert_near(&produced, "o", &[[2.0; 8], [2.0; 8], [0.0; 8]].concat());
    assert_near(&produced, "lse", &[ln2, ln2, f32::NEG_INFINITY]);
    for (steps, format, said) in [
        (
            "[[4]]",
            "f32",
            "parameter steps: expected at most 3 tokens of a sequence, got 4",
        ),
        (
            "[[1],[1,1]]",
            "f32",
            "parameter steps: expected 1 numbers in step 1, got 2",
        ),
        (
            "[[1]]",
            "f8",
            "parameter format: expected one of f32, f16, bf16, e4m3, got `f8`",
        ),
    ] {
        let params = format!(r#"{{"steps":{steps},"format":"{format}"}}"#);
        assert_eq!(refusal("kv_cache", &params, tokens([0.0; 3])), said);
    }
}

/// A product with the weight 1.
fn product(x: Given) -> Vec<Given> {
    vec![
        x,
        bytes("in.weight_codes", &[1, 1], &[0x38]),
        floats("in.weight_scale", &[1, 1], &[1.0]),
    ]
}

#[test]
fn weights_have_mx_scales() {
    let given = |across: usize| {
        vec![
            floats("in.x", &[1, 32], &[1.0; 32]),
            bytes("in.weight_codes", &[1, 32], &[0x38; 32]),
            bytes("in.weight_scale", &[1, across], &vec![128; across]),
        ]
    };
    for activations in ["none", "dynamic_mx"] {
        let params = format!(r#"{{"format":"e4m3","activations":"{activations}"}}"#);
        let produced = computed("fp8_linear", &params, given(1));
        assert_near(&produced, "y", &[64.0]);
    }
    let answer = refusal(
        "fp8_linear",
        r#"{"format":"e4m3","activations":"none"}"#,
        given(2),
    );
    assert!(
        answer.starts_with("input weight_scale: expected shape"),
        "{answer}"
    );
}

#[test]
fn scales_of_activations_are_fixed_or_follow() {
    let fixed = r#"{"format":"e4m3","activations":"static"}"#;
    let given = with(
        product(floats("in.x", &[2, 1], &[3.0, 1000.0])),
        floats("in.activation_scale", &[1], &[1.0]),
    );
    assert_near(&computed("fp8_linear", fixed, given), "y", &[3.0, 448.0]);
    let answer = refusal(
        "fp8_linear",
        fixed,
        product(floats("in.x", &[1, 1], &[3.0])),
    );
    assert_eq!(answer, "input activation_scale is missing");
    let delayed = r#"{"format":"e4m3","activations":"delayed","history":2}"#;
    let batches = floats("in.x", &[3, 1, 1], &[448.0, 1000.0, 1000.0]);
    let produced = computed("fp8_linear", delayed, product(batches));
    assert_near(&produced, "y", &[448.0, 448.0, 1000.0]);
    let shape = produced.iter().map(|one| one.shape.clone());
    assert_eq!(shape.collect::<Vec<_>>(), [[3, 1, 1]]);
    for (params, said) in [
        (
            delayed.replace(",\"history\":2", ""),
            "parameter history is missing, which delayed activations need",
        ),
        (
            delayed.replace("delayed", "none"),
            "parameter history has no effect without delayed activations",
        ),
    ] {
        let x = floats("in.x", &[1, 1, 1], &[1.0]);
        assert_eq!(refusal("fp8_linear", &params, product(x)), said);
    }
}

#[test]
fn a_matrix_is_quantised_by_given_scales() {
    let params =
        |granularity: &str| format!(r#"{{"format":"e4m3","granularity":"{granularity}"}}"#);
    let x = || floats("in.x", &[1, 2], &[3.0, 1000.0]);
    let by_row = vec![x(), floats("in.scale", &[1, 1], &[1.0])];
    let by_mx = vec![x(), bytes("in.scale", &[1, 1], &[127])];
    for (granularity, given) in [("row", by_row), ("mx", by_mx)] {
        let produced = computed("fp8_quantize", &params(granularity), given);
        assert_near(
            &produced,
            "codes",
            &[f32::from(0x44_u8), f32::from(0x7E_u8)],
        );
        assert_near(&produced, "scale", &[1.0]);
        assert_near(&produced, "dequantized", &[3.0, 448.0]);
    }
}

#[test]
fn inputs_are_rounded_to_the_dtype_of_the_computation() {
    for (compute, dtype, bits) in [("f16", DType::F16, 12), ("bf16", DType::BF16, 9)] {
        // A quarter of a unit in the last place.
        let value = 1.0 + (-f32::from(bits as i16)).exp2();
        let params = format!(r#"{{"compute":"{compute}"}}"#);
        let case = case("attention", &params, equal_scores(&[value]));
        assert_eq!(case.dtype(), dtype);
        let produced = pollster::block_on(run(&case, &Device::flex())).expect("computes");
        assert_near(&produced, "o", &[1.0]);
    }
    let unknown = refusal("attention", r#"{"compute":"f8"}"#, equal_scores(&[1.0]));
    assert!(unknown.contains("unknown variant `f8`"), "{unknown}");
    assert_eq!(
        case("attention", "{}", equal_scores(&[1.0])).dtype(),
        DType::F32
    );
}
