//! Tests of the texts of representative programs, which are to be read when they change, and of the table made from the
//! list of operations.

use super::harness::{Case, bless, blesses, case, covered};
use burn::tensor::activation as act;
use burn::tensor::module;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{DType, Distribution, IndexingUpdateOp, Tensor};
use moebius_xla::lower::{Leaf, graph, leaves};
use std::fmt::Write;
use std::path::Path;

fn blocks() -> Vec<Case> {
    vec![
        case("linear_gelu", |io| {
            let (x, w, bias) = (io.float([2, 4]), io.float([4, 8]), io.float([8]));
            io.out(act::gelu(x.matmul(w).add(bias.unsqueeze())));
        }),
        case("layer_norm", |io| {
            let (x, gamma, beta) = (io.float([2, 8]), io.float([8]), io.float([8]));
            io.out(module::layer_norm(x, gamma, Some(beta), 1e-5));
        }),
        case("cross_entropy", |io| {
            let (logits, targets) = (io.float([4, 7]), io.int([4], 0, 7));
            let losses = act::log_softmax(logits, 1).gather(1, targets.unsqueeze_dim(1));
            io.out(losses.mean().neg());
        }),
        case("embedding", |io| {
            let (w, at) = (io.float([7, 4]), io.int([2, 3], 0, 7));
            io.out(module::embedding(w, at));
        }),
        case("attention_block", |io| {
            let x = io.float([1, 3, 4]);
            let heads = |x: Tensor<3>| x.reshape([1, 3, 2, 2]).swap_dims(1, 2);
            let [q, k, v] =
                [(); 3].map(|()| heads(module::linear(x.clone(), io.float([4, 4]), None)));
            let y = module::attention(q, k, v, None, None, Default::default());
            let y = module::linear(y.swap_dims(1, 2).reshape([1, 3, 4]), io.float([4, 4]), None);
            io.out(x.add(y));
        }),
    ]
}

fn operations() -> Vec<Case> {
    vec![
        case("gather_scatter", |io| {
            let (x, at, y) = (io.float([3, 4]), io.int([3, 2], 0, 4), io.float([3, 2]));
            io.out(x.clone().gather(1, at.clone()));
            io.out(x.scatter(1, at, y, IndexingUpdateOp::Add));
        }),
        case("sort_topk", |io| {
            let x = io.float([2, 5]);
            io.out(x.clone().sort(1));
            let (values, at) = x.topk_with_indices(2, 1);
            io.out(values);
            io.out_int(at);
        }),
        case("conv", |io| {
            let (x, w, bias) = (
                io.float([1, 2, 5, 5]),
                io.float([3, 2, 3, 3]),
                io.float([3]),
            );
            let options = ConvOptions::new([2, 2], [1, 1], [1, 1], 1);
            io.out(module::conv2d(x, w, Some(bias), options));
        }),
        case("random", |io| {
            let options = (&io.device.clone(), io.dtype());
            io.out(Tensor::<1>::random(
                [4],
                Distribution::Uniform(-1.0, 1.0),
                options,
            ));
            io.out(Tensor::<1>::random(
                [4],
                Distribution::Normal(0.0, 1.0),
                options,
            ));
        }),
    ]
}

#[test]
fn programs_are_the_golden_ones() {
    let programs: Vec<Case> = blocks().into_iter().chain(operations()).collect();
    for program in &programs {
        let lowered = graph(&program.capture(DType::F32)).unwrap();
        bless(
            &format!("tests/golden/{}.mlir", program.name),
            &lowered.program.text,
        );
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if programs.iter().any(|program| program.name == name) {
            continue;
        }
        assert!(blesses(), "{} belongs to no program", path.display());
        std::fs::remove_file(path).unwrap();
    }
}

/// A program contains neither the values of weights nor the names of tensors.
#[test]
fn a_program_is_the_same_for_other_weights() {
    let program = |weight: f32| {
        let case = case("weights", move |io| {
            let w = Tensor::<2>::full([4, 4], 1.0, &io.device).mul_scalar(3.0);
            let there = Tensor::<2>::from_data([[weight, 2.0, 3.0, 4.0]], &io.device);
            let x = io.float([2, 4]);
            io.out(x.matmul(w).add(there));
        });
        let lowered = graph(&case.capture(DType::F32)).unwrap();
        assert_eq!(lowered.constants.len(), 1);
        assert_eq!(lowered.program.inputs.len(), 2);
        lowered.program.text
    };
    assert_eq!(program(1.0), program(5.0));
}

/// The operations that ordinary tensors don't record; they have tests of their own.
const BY_HAND: [&str; 6] = [
    "Float::IsNan",
    "Float::IsInf",
    "NumericFloat::Powi",
    "NumericInt::SumDims",
    "NumericInt::IntRandom",
    "Float::Random",
];

#[test]
fn every_lowered_operation_has_a_case() {
    let covered = covered(&super::all_cases());
    let tested = |leaf: &Leaf| covered.contains_key(leaf) || BY_HAND.contains(&&*leaf.to_string());
    let missing: Vec<String> = leaves()
        .into_iter()
        .filter(|leaf| leaf.lowered && !leaf.name.is_empty() && !tested(leaf))
        .map(|leaf| leaf.to_string())
        .collect();
    assert!(missing.is_empty(), "no case has {}", missing.join(", "));
}

#[test]
fn the_table_lists_every_operation() {
    let leaves = leaves();
    let lowered = leaves.iter().filter(|leaf| leaf.lowered).count();
    let mut text = format!(
        "# Operations\n\n\
         Burn's operations (burn-ir 0.22) and which of them have a lowering to StableHLO: {lowered} of {}. \
         `MOEBIUS_BLESS=1 cargo test\n--workspace --features cpu,xla --test xla_lowering` writes this table.\n\n\
         CTC losses are recorded as other operations, which are lowered. An operation without a lowering is an error \
         that names it, before anything runs.\n",
        leaves.len()
    );
    let mut group = "";
    for leaf in &leaves {
        if leaf.group != group {
            group = leaf.group;
            let _ = write!(text, "\n## {group}\n\n| operation | lowered |\n|---|---|\n");
        }
        let name = if leaf.name.is_empty() {
            group
        } else {
            leaf.name
        };
        let _ = writeln!(
            text,
            "| {name} | {} |",
            if leaf.lowered { "yes" } else { "no" }
        );
    }
    bless("OPERATIONS.md", &text);
}
