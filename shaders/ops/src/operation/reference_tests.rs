use super::*;
use crate::element::Element;
use crate::operation::gradient::tests::operations;
use crate::operation::{Gradient, GroupedGemm, KvCache, Permute, Quantize, Scalar};
use crate::{fp8, grouped_gemm, kv_cache, permute, quantize, routing, scaling};
use std::collections::BTreeMap;

type Named = BTreeMap<&'static str, HostTensor>;

/// Pseudo-random numbers that f32 holds exactly, also after adding a step of [`STEP`].
struct Numbers(u32);

const STEP: f64 = 1.0 / 128.0;

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0 >> 16
    }

    fn floats(&mut self, len: usize) -> Vec<f64> {
        let float = |number: u32| (f64::from(number % 257) - 128.0) * STEP;
        (0..len).map(|_| float(self.next())).collect()
    }

    fn tensor(&mut self, info: &TensorInfo) -> HostTensor {
        let len = info.shape.iter().product();
        match info.scalar {
            Scalar::Float(_) => self.floats(len).into(),
            // Documents and masks: most pairs see each other, and every row sees at least one.
            Scalar::Word => (0..len)
                .map(|at| u32::from(at % 5 != 3))
                .collect::<Vec<_>>()
                .into(),
        }
    }
}

/// The sort of twelve slots to four experts; one slot goes nowhere.
fn sort() -> Named {
    let sorted = permute::reference(&[2, 0, 3, 0, 2, 1, 4, 0, 3, 3, 1, 2], 4);
    [
        ("order", sorted.order),
        ("offsets", sorted.offsets),
        ("positions", sorted.positions),
    ]
    .map(|(name, words)| (name, words.into()))
    .into()
}

fn run(operation: &Operation, tensors: &Named) -> Named {
    let signature = operation.signature();
    let operands = signature
        .operands
        .iter()
        .map(|info| tensors[info.name].clone());
    let results = operation.reference(&operands.collect::<Vec<_>>()).unwrap();
    let names = signature.results.iter().map(|info| info.name);
    names.zip(results).collect()
}

fn floats(tensor: &HostTensor) -> &[f64] {
    let HostTensor::Floats(values) = tensor else {
        panic!("words: {tensor:?}");
    };
    values
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The oracle of each gradient matches differences of the forward's oracle along one direction of all operands.
#[test]
fn a_gradient_is_the_derivative_of_its_forward() {
    for (operation, _) in operations() {
        let signature = operation.signature();
        let mut numbers = Numbers(7);
        let mut tensors = sort();
        for info in &signature.operands {
            let tensor = numbers.tensor(info);
            tensors.entry(info.name).or_insert(tensor);
        }
        let results = run(&operation, &tensors);
        for result in operation.differentiable() {
            let Some(Gradient::By {
                operation: of,
                names,
            }) = operation.gradient(result, |_| true)
            else {
                panic!("no gradient of {result}");
            };
            let weights = numbers.floats(results[result].len());
            let called = |name: &'static str| {
                let other = names.iter().find(|(its, _)| *its == name);
                other.map_or(name, |(_, forward)| *forward)
            };
            let read = |info: &TensorInfo| {
                let name = called(info.name);
                let tensor = match name.strip_prefix('d') {
                    Some(of) if of == *result => weights.clone().into(),
                    _ => tensors.get(name).unwrap_or_else(|| &results[name]).clone(),
                };
                (info.name, tensor)
            };
            let gradients = run(&of, &of.signature().operands.iter().map(read).collect());
            let (mut ahead, mut behind) = (tensors.clone(), tensors.clone());
            let mut expected = 0.0;
            for (name, gradient) in &gradients {
                let name = called(name).strip_prefix('d').unwrap();
                let direction = numbers.floats(gradient.len());
                expected += dot(floats(gradient), &direction);
                let moved = |by: f64| {
                    let pairs = floats(&tensors[name]).iter().zip(&direction);
                    pairs.map(|(x, d)| x + by * d).collect::<Vec<_>>()
                };
                ahead.insert(name, moved(STEP).into());
                behind.insert(name, moved(-STEP).into());
            }
            let value = |at: &Named| dot(floats(&run(&operation, at)[result]), &weights);
            let got = (value(&ahead) - value(&behind)) / (2.0 * STEP);
            let close = (got - expected).abs() <= 2e-3 * (1.0 + expected.abs());
            assert!(
                close,
                "{} of {result}: {expected}, by differences {got}",
                signature.name
            );
        }
    }
}

#[test]
fn operands_of_another_kind_or_length_are_refused() {
    let problem = grouped_gemm::Problem::dense(2, 1, 2).unwrap();
    let operation = Operation::from(GroupedGemm::Linear(problem));
    let [x, w] = [
        HostTensor::of_f32(&[1.0, 2.0, 3.0, 4.0]),
        HostTensor::of_f32(&[10.0, 1.0]),
    ];
    let y = operation.reference(&[x.clone(), w.clone()]).unwrap();
    assert_eq!(y, [HostTensor::Floats(vec![12.0, 34.0])]);
    let error = |operands: &[HostTensor]| operation.reference(operands).unwrap_err().to_string();
    assert_eq!(
        error(std::slice::from_ref(&x)),
        "operands: expected 2, got 1"
    );
    assert_eq!(error(&[w.clone(), w]), "rows: expected 4, got 2");
    let words = HostTensor::Words(vec![0; 2]);
    assert_eq!(error(&[x, words]), "W: expected floats, got words");
}

/// Indices that point outside a tensor are refused, because kernels would follow them.
#[test]
fn words_that_lead_out_of_a_tensor_are_refused() {
    let choice = routing::Problem::new(2, 2, 1).unwrap();
    let rows = permute::RowsProblem::new(&choice, 2, 1, Element::F32).unwrap();
    let gather = |order: [u32; 2], offsets: [u32; 3]| {
        let x = HostTensor::of_f32(&[7.0, 8.0]);
        let operands = [x, order.to_vec().into(), offsets.to_vec().into()];
        let rows = Operation::from(Permute::Gather(rows)).reference(&operands);
        rows.map(drop).map_err(|error| error.to_string())
    };
    let refused = |expected: &str| Err(expected.to_owned());
    assert_eq!(gather([1, 0], [0, 1, 2]), Ok(()));
    assert_eq!(
        gather([1, 2], [0, 1, 2]),
        refused("order: expected slots, got 2")
    );
    for offsets in [[1, 1, 2], [0, 2, 1], [0, 1, 3]] {
        let expected = "offsets: expected from 0 ascending to at most 2";
        assert_eq!(
            gather([1, 0], offsets),
            refused(&format!("{expected}, got {offsets:?}"))
        );
    }
    let combine = |positions: [u32; 2]| {
        let (problem, weighted) = (rows, false);
        let operands = [HostTensor::of_f32(&[7.0, 8.0]), positions.to_vec().into()];
        let y = Operation::from(Permute::Combine { problem, weighted }).reference(&operands);
        y.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(combine([permute::NOWHERE, 1]), Ok(()));
    let expected = "positions: expected sorted rows, or none, got 2";
    assert_eq!(combine([0, 2]), refused(expected));
}

#[test]
fn tokens_past_a_cache_are_refused() {
    let (pages, format) = ([2, kv_cache::BLOCK], kv_cache::CacheFormat::F32);
    let append = kv_cache::Append {
        layout: kv_cache::Layout::new(pages, 1, [8, 8], format).unwrap(),
        batch: 1,
        tokens: 3,
        table: 2,
        element: Element::F32,
    };
    let appended = |span: [u32; 2]| {
        let values = HostTensor::of_f32(&[1.0; 24]);
        let pool = vec![0; 2 * append.layout.page_words()];
        let words = [pool, vec![0, 1], span.to_vec()].map(HostTensor::from);
        let operands = [[values.clone(), values].as_slice(), &words].concat();
        let pool = Operation::from(KvCache::Append(append)).reference(&operands);
        pool.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(appended([29, 32]), Ok(()));
    let expected = "spans: expected within 32 tokens, the end at most 3 after the start";
    for (span, got) in [([30, 33], "30..33"), ([1, 5], "1..5")] {
        assert_eq!(appended(span), Err(format!("{expected}, got {got}")));
    }
}

/// Products accept the results of a sort, and decoding inverts encoding.
#[test]
fn operations_follow_each_other() {
    let choice = routing::Problem::new(2, 2, 1).unwrap();
    let problem = permute::sorting::Problem::new(&choice, None, false).unwrap();
    let sort = Operation::from(Permute::Sort {
        problem,
        mask: false,
    });
    let weights = HostTensor::of_f32(&[0.5, 2.0]);
    let sorted = sort.reference(&[weights, vec![1, 0].into()]).unwrap();
    let [order, offsets, ..] = &sorted[..] else {
        panic!("{sorted:?}");
    };
    let rows = permute::RowsProblem::new(&choice, 2, 1, Element::F32).unwrap();
    let gather = Operation::from(Permute::Gather(rows));
    let x = HostTensor::of_f32(&[7.0, 8.0]);
    let moved = gather
        .reference(&[x, order.clone(), offsets.clone()])
        .unwrap();
    assert_eq!(moved, [HostTensor::Floats(vec![8.0, 7.0])]);
    let (tensor, format) = (scaling::Granularity::Tensor, fp8::Fp8Format::E4M3);
    let matrix = quantize::Problem::new([1, 1, 4], Element::F32, tensor, format).unwrap();
    let x = HostTensor::of_f32(&[448.0, -1.0, 0.5, 2.0]);
    let codes = Operation::from(Quantize::Quantize(matrix)).reference(std::slice::from_ref(&x));
    let decoded = Operation::from(Quantize::Dequantize(matrix)).reference(&codes.unwrap());
    assert_eq!(decoded.unwrap(), [x]);
}
