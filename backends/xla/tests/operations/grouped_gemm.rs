//! Tests of one product per expert and its gradients, and of products with FP8 weights.

use crate::casts::FORMATS;
use crate::experts::{dealt, sorted};
use crate::run::{self, Host, element, f32s, floats, i32s, noise, of_largest, run, words};
use moebius_ops::GroupedGemm;
use moebius_ops::blocks::BlockFormat;
use moebius_ops::fp8::{Fp8Format, pack};
use moebius_ops::grouped_gemm::fp8::to_panels;
use moebius_ops::grouped_gemm::{Activation, Problem, Source, Stored, sparse24};
use moebius_ops::permute::Sorted;
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_pjrt::ElementType::{self, BF16, F16, F32};
use std::slice;

fn problem(rows: usize, bias: bool) -> Problem {
    Problem {
        rows: Source::Sorted,
        bias,
        ..Problem::new(rows, 5, 1, 12, 20).unwrap()
    }
}

fn offsets(loads: &[usize]) -> Vec<i32> {
    let sums = (0..=loads.len()).map(|e| loads[..e].iter().sum::<usize>() as i32);
    sums.collect()
}

/// Rows of which the tail, which no expert owns, is NaN.
fn rows(element: ElementType, count: usize, width: usize, used: usize, seed: u64) -> Host {
    let mut values = noise(count * width, seed);
    values[used * width..].fill(f32::NAN);
    floats(element, &[count, width], &values)
}

fn check(p: Problem, of: ElementType, loads: &[usize], tolerance: f64) {
    let p = Problem {
        element: element(of),
        ..p
    };
    let used = loads.iter().sum();
    let (r, e, n, k) = (p.row_bound, p.experts, p.n, p.k);
    let x = rows(of, r, k, used, 1);
    let dy = rows(of, r, n, used, 2);
    let w = floats(of, &[e, n, k], &noise(e * n * k, 3));
    let bias = floats(of, &[e, n], &noise(e * n, 4));
    let ends = (!p.dense).then(|| i32s(&[e + 1], &offsets(loads)));
    let inputs = [x.clone(), w.clone()].into_iter().chain(ends.clone());
    let inputs: Vec<Host> = inputs.chain(p.bias.then_some(bias)).collect();
    run::check(GroupedGemm::Linear(p), &inputs, |_| tolerance);
    let call = |rows, w, bias| GroupedGemm::LinearBackward {
        problem: p,
        rows,
        w,
        bias,
    };
    let inputs: Vec<Host> = [dy, x, w].into_iter().chain(ends).collect();
    let got = run::check(call(true, true, true), &inputs, |_| tolerance);
    assert!(got.iter().all(|gradient| gradient.ty.element == of));
    assert_eq!(run(call(false, true, false), &inputs), got[1..2]);
    let both = run(call(true, false, true), &inputs);
    assert_eq!(both, [got[0].clone(), got[2].clone()]);
}

#[test]
fn every_load_around_the_edges_of_blocks() {
    for bias in [false, true] {
        for loads in [
            [95, 96, 97, 0, 1],
            [143, 144, 145, 0, 1],
            [0, 0, 600, 0, 0],
            [0; 5],
            [1, 0, 0, 288, 287],
        ] {
            check(problem(600, bias), F32, &loads, 2e-5);
        }
    }
    for rows in [0, 1, 95, 143, 289] {
        let dense = Problem {
            bias: true,
            ..Problem::dense(rows, 12, 20).unwrap()
        };
        check(dense, F32, &[rows], 2e-5);
    }
    check(problem(1, true), F32, &[0, 0, 0, 1, 0], 2e-5);
    check(problem(0, true), F32, &[0; 5], 2e-5);
}

#[test]
fn half_precision() {
    for (element, tolerance) in [(F16, 4e-3), (BF16, 2e-2)] {
        check(problem(90, true), element, &[30, 0, 7, 33, 5], tolerance);
    }
}

/// Rows of 20 weights have five groups in a word of places, rows of 36 a second word.
#[test]
fn what_is_kept_of_sparse_weights_is_completed() {
    for (of, k, tolerance) in [(F32, 20, 2e-5), (F32, 36, 2e-5), (BF16, 20, 2e-2)] {
        let loads = [10, 0, 7, 33, 5];
        let p = Problem {
            element: element(of),
            stored: Stored::Sparse24,
            k,
            ..problem(60, true)
        };
        let x = rows(of, 60, k, 55, 1);
        let dy = rows(of, 60, 12, 55, 2);
        let w = floats(of, &[60, k], &noise(60 * k, 3)).to_floats();
        let packed = sparse24::pack(&w, &sparse24::largest(&w).unwrap(), k).unwrap();
        let kept = floats(of, &[5, 12, k / 2], &packed.kept);
        let places = words(&[5, 12, k.div_ceil(32)], &packed.places);
        let ends = i32s(&[6], &offsets(&loads));
        let bias = floats(of, &[5, 12], &noise(60, 4));
        let w = [kept, places, ends];
        let inputs = [slice::from_ref(&x), w.as_slice(), &[bias]].concat();
        run::check(GroupedGemm::Linear(p), &inputs, |_| tolerance);
        let backward = GroupedGemm::LinearBackward {
            problem: p,
            rows: true,
            w: false,
            bias: true,
        };
        let inputs = [&[dy, x], w.as_slice()].concat();
        run::check(backward, &inputs, |_| tolerance);
    }
}

const GRANULARITIES: [Granularity; 4] = [
    Granularity::Tensor,
    Granularity::Row,
    Granularity::Block {
        rows: 16,
        columns: 8,
    },
    Granularity::Mx,
];

pub(crate) fn dense(
    rows: usize,
    [n, k]: [usize; 2],
    granularity: Granularity,
    format: Fp8Format,
) -> Problem {
    Problem {
        bias: true,
        stored: Stored::Fp8(Fp8Scheme {
            format,
            granularity,
        }),
        ..Problem::dense(rows, n, k).unwrap()
    }
}

/// The problem `p` for the slots of a routing.
pub(crate) fn routed(
    p: Problem,
    slots: usize,
    [experts, top_k]: [usize; 2],
    rows: Source,
) -> Problem {
    Problem {
        rows,
        row_bound: p.row_bound,
        bias: p.bias,
        stored: p.stored,
        ..Problem::new(slots, experts, top_k, p.n, p.k).unwrap()
    }
}

/// Packs each row's bytes, four to a word.
fn packed(bytes: &[u8], row: usize) -> Vec<u32> {
    bytes.chunks(row).flat_map(pack).collect()
}

/// The operands of a product: x, codes, scales, the sort if there is one, and biases.
pub(crate) fn inputs(p: &Problem, x: Host, sort: Option<&Sorted>) -> Vec<Host> {
    let columns = p.parts() * p.n;
    // Finite codes of all sizes, with subnormals and both zeros.
    let code = |i: usize| (i * 37 % 0x70) as u8 | if i.is_multiple_of(3) { 0x80 } else { 0 };
    let codes: Vec<u8> = (0..p.experts * columns * p.k).map(code).collect();
    let panels = [
        p.experts * p.parts() * p.n.div_ceil(64),
        p.k.div_ceil(4),
        64,
    ];
    let codes = words(&panels, &to_panels(p, &packed(&codes, p.k)));
    let granularity = p.stored.fp8().unwrap().granularity;
    let [down, across] = granularity.blocks(columns, p.k);
    let blocks = 0..p.experts * down * across;
    let scales = if granularity == Granularity::Mx {
        let bytes: Vec<u8> = blocks.map(|i| 110 + (i % 9) as u8).collect();
        let shape = [p.experts, down, across.div_ceil(4)];
        words(&shape, &packed(&bytes, across))
    } else {
        let scales = blocks.map(|i| 0.001 * (1.0 + (i % 13) as f32));
        f32s(&[p.experts, down, across], &scales.collect::<Vec<_>>())
    };
    let bias = floats(
        x.ty.element,
        &[p.experts, columns],
        &noise(p.experts * columns, 5),
    );
    let sort = sort.into_iter().flat_map(|sort| {
        let (order, offsets) = (&sort.order, &sort.offsets);
        [
            words(&[order.len()], order),
            words(&[offsets.len()], offsets),
        ]
    });
    let first = [x, codes, scales].into_iter();
    first.chain(sort).chain([bias]).collect()
}

#[test]
fn products_are_those_of_decoded_weights() {
    let sizes = [(1, [70, 33]), (5, [64, 64]), (40, [130, 96]), (3, [1, 7])];
    for (at, granularity) in GRANULARITIES.into_iter().enumerate() {
        for (nth, format) in FORMATS.into_iter().enumerate() {
            for (rows, [n, k]) in [sizes[(at + nth) % 4], sizes[(at + nth + 2) % 4]] {
                let p = dense(rows, [n, k], granularity, format);
                let x = f32s(&[rows, k], &noise(rows * k, 2));
                let product = GroupedGemm::CodedLinear(p);
                run::check(product, &inputs(&p, x, None), of_largest(1e-6));
            }
        }
    }
}

#[test]
fn sixteen_bits_times_codes() {
    for granularity in GRANULARITIES {
        for (of, bits) in [(F16, 11), (BF16, 8)] {
            let p = Problem {
                element: element(of),
                ..dense(9, [70, 36], granularity, Fp8Format::E4M3)
            };
            let x = floats(of, &[9, 36], &noise(9 * 36, 2));
            // A unit in the last place; the error of the sum is negligible.
            let tolerance = 2.1 * f64::from(-bits).exp2();
            let got = run::check(GroupedGemm::CodedLinear(p), &inputs(&p, x, None), |_| {
                tolerance
            });
            assert_eq!(got[0].ty.element, of);
        }
    }
}

/// This holds even where a product of so few rows is split along the inner columns.
#[test]
fn a_row_does_not_see_the_others() {
    for rows in [2, 7, 64] {
        let p = dense(rows, [33, 4096], Granularity::Row, Fp8Format::E4M3);
        let of = |x: &[f32]| {
            let x = f32s(&[rows, 4096], x);
            run(GroupedGemm::CodedLinear(p), &inputs(&p, x, None))[0].to_floats()
        };
        let (x, mut other) = (noise(rows * 4096, 2), noise(rows * 4096, 9));
        other[4096..2 * 4096].copy_from_slice(&x[4096..2 * 4096]);
        assert_eq!(of(&x)[33..66], of(&other)[33..66]);
    }
}

#[test]
fn experts_have_weights_of_their_own() {
    let (keys, used, k) = (dealt(26, &[9, 0, 7, 5]), 21, 33);
    for granularity in GRANULARITIES {
        for (source, gated) in [(Source::Tokens, true), (Source::Sorted, false)] {
            let bound = used + 1;
            let p = dense(bound, [70, k], granularity, Fp8Format::E4M3);
            let p = Problem {
                activation: gated.then_some(Activation::Silu),
                gated,
                ..routed(p, 26, [4, 2], source)
            };
            let rows = match source {
                Source::Tokens => 13,
                Source::Sorted => bound,
            };
            let mut x = noise(rows * k, 2);
            if source == Source::Sorted {
                x[used * k..].fill(f32::NAN);
            }
            let inputs = inputs(&p, f32s(&[rows, k], &x), Some(&sorted(&keys, 4)));
            run::check(GroupedGemm::CodedLinear(p), &inputs, |_| 1e-5);
        }
    }
}

/// The operands of the gradients of a product: those of [`inputs`], with dy in place of x, and without biases.
pub(crate) fn gradient_inputs(p: &Problem, dy: Host, sort: Option<&Sorted>) -> Vec<Host> {
    let mut inputs = inputs(p, dy, sort);
    inputs.pop();
    inputs
}

#[test]
fn gradients_go_through_codes() {
    let (keys, used, bound) = (dealt(26, &[9, 0, 7, 5]), 21, 24);
    for granularity in GRANULARITIES {
        for (of, format, tolerance) in [
            (F32, Fp8Format::E4M3, 1e-5),
            (F32, Fp8Format::E5M2, 1e-5),
            (BF16, Fp8Format::E4M3, 2e-2),
        ] {
            let p = Problem {
                element: element(of),
                ..dense(bound, [70, 33], granularity, format)
            };
            let mut values = noise(bound * 70, 2);
            let all = gradient_inputs(&p, floats(of, &[bound, 70], &values), None);
            let of_experts = Problem {
                element: p.element,
                ..routed(p, 26, [4, 1], Source::Sorted)
            };
            values[used * 70..].fill(f32::NAN);
            let dy = floats(of, &[bound, 70], &values);
            let some = gradient_inputs(&of_experts, dy, Some(&sorted(&keys, 4)));
            for (problem, inputs) in [(p, all), (of_experts, some)] {
                let backward = |x, bias| GroupedGemm::CodedLinearBackward { problem, x, bias };
                let got = run::check(backward(true, true), &inputs, of_largest(tolerance));
                assert!(got.iter().all(|gradient| gradient.ty.element == of));
                assert_eq!(run(backward(true, false), &inputs), got[..1]);
                run::check(backward(false, true), &inputs, of_largest(tolerance));
            }
        }
    }
}

#[test]
fn rows_without_an_expert_are_zeros() {
    let p = dense(6, [5, 9], Granularity::Row, Fp8Format::E5M2);
    let p = routed(p, 6, [3, 2], Source::Tokens);
    let inputs = inputs(&p, f32s(&[3, 9], &noise(27, 2)), Some(&sorted(&[3; 6], 3)));
    let y = run(GroupedGemm::CodedLinear(p), &inputs)[0].to_floats();
    assert_eq!(y, [0.0; 30]);
}

/// All rows are the same token, which one expert gets: every place of a block gives the bits of the token alone.
#[test]
fn a_row_does_not_depend_on_where_it_lies() {
    for (granularity, source) in GRANULARITIES
        .into_iter()
        .flat_map(|granularity| [Source::Tokens, Source::Sorted].map(|s| (granularity, s)))
    {
        for of in [F32, BF16] {
            let (n, k) = (70, 300);
            let result = |tokens: usize| {
                let p = dense(tokens, [n, k], granularity, Fp8Format::E4M3);
                let p = Problem {
                    element: element(of),
                    ..routed(p, tokens, [3, 1], source)
                };
                let x = floats(of, &[tokens, k], &noise(k, 2).repeat(tokens));
                let inputs = inputs(&p, x, Some(&sorted(&vec![1; tokens], 3)));
                run(GroupedGemm::CodedLinear(p), &inputs).remove(0).bytes
            };
            let (alone, many) = (result(1), result(300));
            for (row, bytes) in many.chunks(alone.len()).enumerate() {
                let what = format!("{granularity:?}, {source:?}, {of}, row {row}");
                assert!(bytes == alone, "{what}");
            }
        }
    }
}

/// The operands of a product with weights in blocks: x, words, the sort if there is one, and biases if the problem has them.
pub(crate) fn inputs_in_blocks(
    p: &Problem,
    format: BlockFormat,
    sort: Option<&Sorted>,
) -> Vec<Host> {
    let columns = p.parts() * p.n;
    // Bytes up to 0x3F, so that scales in F16 are numbers.
    let byte = |i: usize| (i * 41 % 64) as u8;
    let bytes = p.experts * columns * format.row_bytes(p.k);
    let mut bytes: Vec<u8> = (0..bytes).map(byte).collect();
    for (row, bytes) in bytes.chunks_mut(format.row_bytes(p.k)).enumerate() {
        if format.head() > 0 {
            // Scales of rows of about 1/16, of both signs; the scale after them is a neighbour of its product.
            bytes[3] = [0x3D, 0xBD][row % 2];
            bytes[4] |= 0x80;
        }
    }
    let packed = format.to_words(&bytes, p.k).unwrap();
    let shape = [p.experts, columns, format.row_words(p.k)];
    let x = f32s(&[p.input_rows(), p.k], &noise(p.input_rows() * p.k, 2));
    let mut inputs = vec![x, words(&shape, &packed)];
    if let Some(sort) = sort {
        inputs.push(words(&[sort.order.len()], &sort.order));
        inputs.push(words(&[sort.offsets.len()], &sort.offsets));
    }
    let bias = || f32s(&[p.experts, columns], &noise(p.experts * columns, 5));
    inputs.extend(p.bias.then(bias));
    inputs
}

/// Products of all formats, dense ones and of gated experts, are those of what the blocks decode to. So are gradients.
#[test]
fn blocks_of_codes_are_decoded_in_the_graph() {
    for format in BlockFormat::ALL {
        let k = 2 * format.layout().values;
        let dense = Problem {
            stored: Stored::Blocks(format),
            ..Problem::dense(6, 5, k).unwrap()
        };
        let experts = Problem {
            gated: true,
            activation: Some(Activation::Silu),
            bias: true,
            ..routed(dense, 6, [3, 2], Source::Tokens)
        };
        let plain = routed(dense, 6, [3, 1], Source::Sorted);
        for p in [dense, experts, plain] {
            let sort = (!p.dense).then(|| sorted(&[0, 2, 2, 0, 3, 2], 3));
            let mut inputs = inputs_in_blocks(&p, format, sort.as_ref());
            run::check(GroupedGemm::CodedLinear(p), &inputs, of_largest(1e-5));
            if p.is_plain() {
                inputs[0] = f32s(&[p.row_bound, p.n], &noise(p.row_bound * p.n, 3));
                let backward = GroupedGemm::CodedLinearBackward {
                    problem: p,
                    x: true,
                    bias: true,
                };
                run::check(backward, &inputs, of_largest(1e-5));
            }
        }
    }
}
