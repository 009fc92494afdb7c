//! Operations with the same bits on every device: each device's are those of Flex, whose code shares nothing with the kernels but constants,
//! and all are near the f64 oracle.

use crate::{Outcome, operation};
use moebius_device::Runtime;
use moebius_ops::attention::{self, Rule, Rules, Sizes};
use moebius_ops::exact::{Activate, Combine, Function, Norm, Product, Rotate};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::kv_cache::{Attend, CacheFormat, Layout};
use moebius_ops::routing::{Problem, Score};
use moebius_ops::{Element, Exact, HostTensor, Operation, TensorInfo};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;
use moebius_tests::tolerance::rel_l2;

/// The bits of a tensor's numbers, which are f32 in f64.
fn bits(tensor: &HostTensor) -> Vec<u64> {
    match tensor {
        HostTensor::Floats(values) => values.iter().map(|value| value.to_bits()).collect(),
        HostTensor::Words(words) => words.iter().map(|word| u64::from(*word)).collect(),
    }
}

/// The results on Flex.
fn on_flex(operation: &Exact, operands: &[HostTensor]) -> Vec<HostTensor> {
    let flex = moebius::open(&moebius::Device::Flex).unwrap();
    moebius::operation::run(operation, operands, &flex, &()).unwrap()
}

/// Checks that the device has the bits of Flex; returns these results.
fn same_bits(
    target: &Target,
    operation: &Exact,
    operands: &[HostTensor],
) -> Result<Vec<HostTensor>, Outcome> {
    let got = operation::run(target, operation, operands).map_err(Outcome::Unsupported)?;
    let want = on_flex(operation, operands);
    let signature = Operation::from(*operation).signature();
    let pairs = got.iter().zip(&want);
    for (info, (got, want)) in signature.results.iter().zip(pairs) {
        let pairs = bits(got).into_iter().zip(bits(want)).enumerate();
        for (at, (one, other)) in pairs {
            let what = format!("{}[{at}] of {operation:?} on {}", info.name, target.name);
            let [one, other] = [one, other].map(f64::from_bits);
            assert!(
                one.to_bits() == other.to_bits(),
                "{what}: {one:e}, and {other:e} on Flex"
            );
        }
        assert_eq!(got.len(), want.len());
    }
    Ok(want)
}

/// Checks bits, and the distance to the oracle.
fn check(target: &Target, operation: Exact, operands: &[HostTensor]) -> Outcome {
    match same_bits(target, &operation, operands) {
        Ok(_) => operation::check(target, operation, operands, |_| rel_l2(Element::F32)),
        Err(refused) => refused,
    }
}

/// Operands drawn by `draw`, which may leave some to this: numbers in ±1.
fn drawn(operation: Exact, draw: impl Fn(&TensorInfo) -> Option<HostTensor>) -> Vec<HostTensor> {
    let signature = Operation::from(operation).signature();
    let mut rng = Rng::new(11);
    let mut operand = |info: &TensorInfo| {
        let len = info.shape.iter().product();
        draw(info).unwrap_or_else(|| HostTensor::of_f32(&rng.vec(len, 1.0)))
    };
    signature.operands.iter().map(&mut operand).collect()
}

/// Numbers of a function's domain: uniform ones, or with uniform exponents and any sign that the function takes.
fn domain(function: Function, count: usize) -> Vec<f32> {
    let mut rng = Rng::new(function as u64 + 1);
    let mut values: Vec<f32> = match function {
        Function::Exp => (0..count).map(|_| 60.0 * rng.unit() + 25.0).collect(),
        Function::Sigmoid => rng.vec(count, 30.0),
        Function::Tanh | Function::Erf => rng.vec(count, 6.0),
        Function::Ln | Function::Reciprocal | Function::ReciprocalRoot => {
            let number = |_| (49.0 * rng.unit()).exp2();
            (0..count).map(number).collect()
        }
    };
    match function {
        Function::Reciprocal => {
            for value in values.iter_mut().step_by(2) {
                *value = -*value;
            }
        }
        // Small arguments, which take other branches.
        Function::Tanh | Function::Erf | Function::Sigmoid => {
            for value in values.iter_mut().step_by(3) {
                *value *= 1e-3;
            }
        }
        _ => {}
    }
    values
}

/// The largest error of a function in units of the last place, as its documentation says.
fn units(function: Function) -> f64 {
    match function {
        Function::Exp | Function::Ln => 1.0,
        Function::Reciprocal | Function::ReciprocalRoot => 2.0,
        Function::Sigmoid | Function::Tanh | Function::Erf => 3.0,
    }
}

/// Checks every function for many numbers: its bits, and its distance to f64 in units of the last place.
pub(crate) fn functions(target: &Target) -> Outcome {
    let quick = matches!(
        target.capability().runtime,
        Runtime::Cpu | Runtime::Wgpu | Runtime::Flex
    );
    let count = if quick { 1 << 20 } else { 1 << 15 };
    Outcome::of(Function::ALL.map(|function| {
        let values = domain(function, count);
        let map = Exact::Map {
            function,
            elements: count,
        };
        let found = match same_bits(target, &map, &[HostTensor::of_f32(&values)]) {
            Ok(found) => found,
            Err(refused) => return refused,
        };
        for (x, got) in values.iter().zip(found[0].floats()) {
            let want = function.reference(f64::from(*x));
            let unit = f64::from((want as f32).next_up()) - f64::from(want as f32);
            let off = (got - want).abs() / unit.abs();
            // Results below 2⁻⁵⁰ are cut.
            let cut = want.abs() < 1e-15 && *got == 0.0;
            assert!(
                off <= units(function) || cut,
                "{function} of {x:e}: {got:e} for {want:e}, {off} units away"
            );
        }
        Outcome::Ran
    }))
}

/// Checks numbers that don't count, zeros of both signs, and the ends of domains.
pub(crate) fn small_numbers(target: &Target) -> Outcome {
    let smallest = f32::from_bits(moebius_ops::exact::SMALLEST);
    let values = [
        0.0,
        -0.0,
        f32::from_bits(1),
        -f32::MIN_POSITIVE,
        smallest.next_down(),
        smallest,
        -smallest,
        -smallest.next_down(),
        1e-30,
        87.9,
        -79.9,
    ];
    let x = HostTensor::of_f32(&values);
    let elements = values.len();
    let functions = [
        Function::Exp,
        Function::Sigmoid,
        Function::Tanh,
        Function::Erf,
    ];
    let maps = functions.map(|function| Exact::Map { function, elements });
    let norm = Exact::Norm(Norm {
        rows: 1,
        width: elements,
        epsilon: 1e-6,
    });
    let product = Exact::Product(Product::dense(elements, elements, 1));
    let all = maps.map(|map| (map, vec![x.clone()])).into_iter();
    let all = all.chain([norm, product].map(|of| (of, vec![x.clone(), x.clone()])));
    Outcome::of(all.map(|(of, operands)| {
        let same = same_bits(target, &of, &operands);
        same.map_or_else(|refused| refused, |_| Outcome::Ran)
    }))
}

/// Checks products of one matrix and of chosen ones, with rows that have no expert.
pub(crate) fn products(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1, 1),
        (3, 1, 5, 7),
        (10, 2, 33, 64),
        (130, 2, 17, 129),
    ];
    let forms = [(false, false), (false, true), (true, false), (true, true)];
    let all = sizes
        .into_iter()
        .flat_map(|sizes| forms.map(|form| (sizes, form)));
    Outcome::of(all.map(|((tokens, top_k, n, k), (chosen, bias))| {
        let share = if chosen { top_k } else { 1 };
        let product = Product {
            rows: tokens * share,
            share,
            experts: if chosen { 4 } else { 1 },
            chosen,
            bias,
            ..Product::dense(tokens, n, k)
        };
        let mut rng = Rng::new((tokens + n) as u64);
        let indices: Vec<u32> = (0..product.rows).map(|_| rng.below(5) as u32).collect();
        let draw =
            |info: &TensorInfo| (info.name == "indices").then(|| HostTensor::from(indices.clone()));
        let operation = Exact::Product(product);
        check(target, operation, &drawn(operation, draw))
    }))
}

/// Checks every activation, gated and not, also far from 0.
pub(crate) fn activations(target: &Target) -> Outcome {
    let all = Activation::ALL
        .into_iter()
        .flat_map(|of| [(of, false), (of, true)]);
    Outcome::of(all.map(|(activation, gated)| {
        let activate = Activate {
            rows: 37,
            inter: 24,
            gated,
            activation,
        };
        let operation = Exact::Activate(activate);
        let values = Rng::new(3).vec(37 * activate.columns(), 9.0);
        check(target, operation, &[HostTensor::of_f32(&values)])
    }))
}

/// Checks norms, sums of rows and rotations.
pub(crate) fn rows(target: &Target) -> Outcome {
    let norms = [(1, 1), (5, 8), (70, 129)].map(|(rows, width)| {
        let epsilon = 1e-5;
        Exact::Norm(Norm {
            rows,
            width,
            epsilon,
        })
    });
    let sums = [(false, false), (false, true), (true, false), (true, true)];
    let sums = sums.map(|(weighted, based)| {
        Exact::Combine(Combine {
            tokens: 19,
            top_k: 3,
            width: 10,
            weighted,
            based,
            scale: 0.75,
        })
    });
    let turns = [(0, false, true), (2, false, false), (1, true, true)];
    let turns = turns.map(|(at, interleaved, shared)| {
        Exact::Rotate(Rotate {
            batch: 2,
            tokens: 5,
            heads: 3,
            width: 12,
            half: 4,
            at,
            interleaved,
            shared,
        })
    });
    let all = norms.into_iter().chain(sums).chain(turns);
    Outcome::of(all.map(|operation| check(target, operation, &drawn(operation, |_| None))))
}

/// Checks choices by both scores, with ties, and with a bias of the selection.
pub(crate) fn choices(target: &Target) -> Outcome {
    let forms = [(Score::Softmax, true), (Score::Softmax, false)];
    let forms = forms
        .into_iter()
        .chain([(Score::Sigmoid, true), (Score::Sigmoid, false)]);
    let all = forms.flat_map(|form| [(form, false), (form, true)]);
    Outcome::of(all.map(|((score, renormalize), bias)| {
        let problem = Problem::new(67, 8, 3).unwrap();
        let problem = problem.with_score(score, renormalize);
        let problem = problem.with_scale(1.5).unwrap();
        let operation = Exact::Route { problem, bias };
        // Steps of a quarter give ties; the bias breaks them far from any rounding.
        let mut rng = Rng::new(21);
        let logits: Vec<f32> = (0..67 * 8)
            .map(|_| rng.below(24) as f32 / 4.0 - 3.0)
            .collect();
        let draw = |info: &TensorInfo| match info.name {
            "logits" => Some(HostTensor::of_f32(&logits)),
            "bias" => Some(HostTensor::of_f32(&[
                0.0, 2.0, -1.0, 0.5, 4.0, -3.0, 6.0, 8.0,
            ])),
            _ => None,
        };
        check(target, operation, &drawn(operation, draw))
    }))
}

/// Checks attention over pages in any order, of sequences of several lengths, under each rule, with sinks.
pub(crate) fn attention(target: &Target) -> Outcome {
    let forms: [(&[Rule], bool); 4] = [
        (&[Rule::Causal], false),
        (&[Rule::Window(5)], false),
        (&[Rule::Softcap(2.0), Rule::Causal], false),
        (&[Rule::Causal], true),
    ];
    Outcome::of(forms.map(|(rules, sinks)| {
        let sizes = Sizes {
            batch: 3,
            heads: 4,
            kv_heads: 2,
            queries: 7,
            keys: 48,
            head_dim: 16,
            value_dim: 8,
        };
        let layout = Layout::new([10, 16], 2, [16, 8], CacheFormat::F32).unwrap();
        let rules = Rules::new(rules.iter().copied()).unwrap();
        let problem = attention::Problem::new(sizes).unwrap().with_sinks(sinks);
        let problem = problem.with_rules(rules).unwrap();
        let operation = Exact::Attend(Attend::new(problem, layout, 3).unwrap());
        let words = Rng::new(8).vec(layout.words(), 1.5);
        let words: Vec<u32> = words.iter().map(|value| value.to_bits()).collect();
        let draw = |info: &TensorInfo| {
            let words = match info.name {
                "pool" => words.clone(),
                "table" => vec![4, 9, 2, 7, 1, 0, 3, 8, 5],
                // The third sequence has fewer new tokens than there are queries.
                "spans" => vec![0, 7, 30, 37, 13, 16],
                _ => return None,
            };
            Some(HostTensor::from(words))
        };
        check(target, operation, &drawn(operation, draw))
    }))
}
