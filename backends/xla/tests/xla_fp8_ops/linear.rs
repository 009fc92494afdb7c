//! Products with FP8 weights.

use crate::codec::{FORMATS, decode, pack_rows};
use crate::plugin::{Host, call, run};
use crate::routed::{Sorted, assert_close, poisoned, wave};
use moebius_ops::fp8::Fp8Format as Format;
use moebius_ops::grouped_gemm::fp8::to_panels;
use moebius_ops::grouped_gemm::{Activation, Fp8Weights, Problem, Source};
use moebius_ops::scaling::{Granularity, e8m0_value};
use moebius_ops::{Element, GroupedGemm};
use moebius_xla::ElementType;
use moebius_xla::stablehlo::{Builder, DotDims, TensorType};

const GRANULARITIES: [Granularity; 4] = [
    Granularity::Tensor,
    Granularity::Row,
    Granularity::Block {
        rows: 16,
        columns: 8,
    },
    Granularity::Mx,
];

fn dense(rows: usize, [n, k]: [usize; 2], granularity: Granularity, format: Format) -> Problem {
    Problem {
        bias: true,
        fp8: Some(Fp8Weights {
            format,
            granularity,
        }),
        ..Problem::dense(rows, n, k).unwrap()
    }
}

/// Weights as operands, and as f64s \[E, columns, k\].
struct Weights {
    panels: Host,
    scales: Host,
    bias: Host,
    values: Vec<f64>,
    biases: Vec<f32>,
    columns: usize,
}

impl Weights {
    fn new(p: &Problem) -> Self {
        let (parts, codes_of) = (p.parts(), p.fp8.unwrap());
        let (columns, inner, panels) = (parts * p.n, p.k.div_ceil(4), p.n.div_ceil(64));
        let rows = p.experts * columns;
        // Finite codes of all sizes, with subnormals and both zeros.
        let code = |i: usize| (i * 37 % 0x70) as u8 | if i.is_multiple_of(3) { 0x80 } else { 0 };
        let codes: Vec<u8> = (0..rows * p.k).map(code).collect();
        let packed = to_panels(p, &pack_rows(&codes, p.k));
        let granularity = codes_of.granularity;
        let [r, c] = granularity.block(columns, p.k);
        let [down, across] = granularity.blocks(columns, p.k);
        let bytes: Vec<u8> = (0..p.experts * down * across)
            .map(|i| 110 + (i % 9) as u8)
            .collect();
        let mx = granularity == Granularity::Mx;
        let scale = |i: usize| {
            if mx {
                e8m0_value(bytes[i])
            } else {
                0.001 * (1.0 + (i % 13) as f32)
            }
        };
        let values = (0..rows * p.k).map(|i| {
            let (row, column) = (i / p.k, i % p.k);
            let block = (row / columns * down + row % columns / r) * across + column / c;
            decode(codes[i], codes_of.format) * f64::from(scale(block))
        });
        let scales: Vec<f32> = (0..bytes.len()).map(scale).collect();
        let biases = wave(p.experts * columns, 0.5);
        Self {
            values: values.collect(),
            panels: Host::ints(&[p.experts * parts * panels, inner, 64], &packed),
            scales: if mx {
                Host::ints(
                    &[p.experts, down, across.div_ceil(4)],
                    &pack_rows(&bytes, across),
                )
            } else {
                Host::f32s(&[p.experts, down, across], &scales)
            },
            bias: Host::f32s(&[p.experts, columns], &biases),
            biases,
            columns,
        }
    }

    /// x · Wᵀ + b of expert `e` for one row.
    fn product(&self, e: usize, x: &[f32]) -> Vec<f64> {
        let k = x.len();
        let row = |column: usize| {
            let at = e * self.columns + column;
            let weights = &self.values[at * k..][..k];
            let products = weights.iter().zip(x).map(|(w, x)| w * f64::from(*x));
            products.sum::<f64>() + f64::from(self.biases[at])
        };
        (0..self.columns).map(row).collect()
    }
}

#[test]
fn the_product_of_codes_is_that_of_decoded_weights() {
    let sizes = [(1, [70, 33]), (5, [64, 64]), (40, [130, 96]), (3, [1, 7])];
    for (at, granularity) in GRANULARITIES.into_iter().enumerate() {
        for (nth, format) in FORMATS.into_iter().enumerate() {
            for (rows, [n, k]) in [sizes[(at + nth) % 4], sizes[(at + nth + 2) % 4]] {
                let p = dense(rows, [n, k], granularity, format);
                let weights = Weights::new(&p);
                let x = wave(rows * k, 0.2);
                let tensor = Host::f32s(&[rows, k], &x);
                let inputs = [
                    tensor.clone(),
                    weights.panels.clone(),
                    weights.scales.clone(),
                    weights.bias.clone(),
                ];
                let got = call(GroupedGemm::Fp8Linear(p), &inputs)[0].floats();
                let want: Vec<f64> = x.chunks(k).flat_map(|x| weights.product(0, x)).collect();
                // Codes reach 2^15 times a scale in E5M2.
                let largest = want.iter().fold(1.0f64, |a, x| a.max(x.abs()));
                assert_close(&got, &want, 1e-6 * largest, &format!("{p:?}"));

                let b = Builder::new();
                let f32s = |shape: [usize; 2]| TensorType::new(shape, ElementType::F32);
                let types = [f32s([rows, k]), f32s([n, k]), f32s([1, n])];
                let [x, w, bias] = types.map(|ty| b.argument(ty));
                let y = b.dot(x, w, &DotDims::matmul_transposed(0), ElementType::F32);
                let bias = b.broadcast(bias, &[rows, n], &[0, 1]);
                let y = b.add(y, bias);
                let decoded: Vec<f32> = weights.values.iter().map(|w| *w as f32).collect();
                let inputs = [tensor, Host::f32s(&[n, k], &decoded), weights.bias];
                // XLA reads codes while it multiplies where it can, and then sums in another order.
                let same = run(&b.finish(&[y]), &inputs)[0].floats();
                let same: Vec<f64> = same.into_iter().map(f64::from).collect();
                assert_close(&got, &same, 1e-6 * largest, &format!("{p:?}"));
            }
        }
    }
}

#[test]
fn sixteen_bits_times_codes() {
    for granularity in GRANULARITIES {
        for (element, bits) in [(ElementType::F16, 11), (ElementType::BF16, 8)] {
            let p = Problem {
                element: match element {
                    ElementType::F16 => Element::F16,
                    _ => Element::Bf16,
                },
                ..dense(9, [70, 36], granularity, Format::E4M3)
            };
            let weights = Weights::new(&p);
            let wide = |bits: u16| match element {
                ElementType::F16 => half::f16::from_bits(bits).to_f32(),
                _ => half::bf16::from_bits(bits).to_f32(),
            };
            let narrow = |x: f32| match element {
                ElementType::F16 => half::f16::from_f32(x).to_bits(),
                _ => half::bf16::from_f32(x).to_bits(),
            };
            let x: Vec<u16> = wave(9 * 36, 0.2).into_iter().map(narrow).collect();
            let inputs = [
                Host::halves(element, &x).reshaped(&[9, 36]),
                weights.panels.clone(),
                weights.scales.clone(),
                weights.bias.clone(),
            ];
            let got = call(GroupedGemm::Fp8Linear(p), &inputs);
            assert_eq!(got[0].ty.element, element);
            let got: Vec<f32> = got[0].halves_of().map(wide).collect();
            let x: Vec<f32> = x.into_iter().map(wide).collect();
            let want: Vec<f64> = x.chunks(36).flat_map(|x| weights.product(0, x)).collect();
            // Half a unit in the last place, and a sum's error next to nothing.
            let tolerance = 1.05 * f64::from(-bits).exp2();
            assert_close(&got, &want, tolerance, &format!("{p:?}"));
        }
    }
}

/// Also where a product of so few rows is cut along the inner columns.
#[test]
fn a_row_does_not_see_the_others() {
    for rows in [2, 7, 64] {
        let p = dense(rows, [33, 4096], Granularity::Row, Format::E4M3);
        let weights = Weights::new(&p);
        let of = |x: &[f32]| {
            let inputs = [
                Host::f32s(&[rows, 4096], x),
                weights.panels.clone(),
                weights.scales.clone(),
                weights.bias.clone(),
            ];
            call(GroupedGemm::Fp8Linear(p), &inputs)[0].floats()
        };
        let x = wave(rows * 4096, 0.2);
        let mut other = wave(rows * 4096, 2.2);
        other[4096..2 * 4096].copy_from_slice(&x[4096..2 * 4096]);
        assert_eq!(of(&x)[33..66], of(&other)[33..66]);
    }
}

/// `p` of the slots of a routing.
fn routed(p: Problem, slots: usize, [experts, top_k]: [usize; 2], rows: Source) -> Problem {
    Problem {
        rows,
        row_bound: p.row_bound,
        bias: p.bias,
        fp8: p.fp8,
        ..Problem::new(slots, experts, top_k, p.n, p.k).unwrap()
    }
}

#[test]
fn experts_have_weights_of_their_own() {
    let sorted = Sorted::sample(13, 4, 2);
    for granularity in GRANULARITIES {
        for (source, gated) in [(Source::Tokens, true), (Source::Sorted, false)] {
            let (bound, [n, k]) = (sorted.rows() + 1, [70, 33]);
            let p = dense(bound, [n, k], granularity, Format::E4M3);
            let p = Problem {
                activation: gated.then_some(Activation::Silu),
                gated,
                ..routed(p, 26, [4, 2], source)
            };
            let weights = Weights::new(&p);
            let (rows, x) = match source {
                Source::Tokens => (13, wave(13 * k, 0.2)),
                Source::Sorted => (bound, poisoned(wave(bound * k, 0.2), k, sorted.rows())),
            };
            let inputs = [
                Host::f32s(&[rows, k], &x),
                weights.panels.clone(),
                weights.scales.clone(),
                sorted.order(),
                sorted.offsets(),
                weights.bias.clone(),
            ];
            let mut want = vec![0.0; bound * n];
            for row in 0..sorted.rows() {
                let from = match source {
                    Source::Tokens => sorted.token(row),
                    Source::Sorted => row,
                };
                let expert = sorted.expert(row).expect("the row has an expert");
                let y = weights.product(expert, &x[from * k..][..k]);
                for column in 0..n {
                    want[row * n + column] = if gated {
                        Activation::Silu.reference(y[column]) * y[n + column]
                    } else {
                        y[column]
                    };
                }
            }
            let got = call(GroupedGemm::Fp8Linear(p), &inputs)[0].floats();
            assert_close(&got, &want, 1e-5, &format!("{p:?}"));
        }
    }
}

#[test]
fn no_routing_is_a_product() {
    let nowhere = Sorted::new(&[3; 6], 3, 2);
    let p = dense(6, [5, 9], Granularity::Row, Format::E5M2);
    let p = routed(p, 6, [3, 2], Source::Tokens);
    let weights = Weights::new(&p);
    let inputs = [
        Host::f32s(&[3, 9], &wave(27, 0.2)),
        weights.panels.clone(),
        weights.scales.clone(),
        nowhere.order(),
        nowhere.offsets(),
        weights.bias.clone(),
    ];
    assert_eq!(
        call(GroupedGemm::Fp8Linear(p), &inputs)[0].floats(),
        [0.0; 30]
    );
}

/// All rows are the same token, which one expert gets: at every place of a block, and alone.
#[test]
fn a_row_does_not_depend_on_where_it_lies() {
    for (granularity, source) in GRANULARITIES
        .into_iter()
        .flat_map(|granularity| [Source::Tokens, Source::Sorted].map(|s| (granularity, s)))
    {
        for element in [ElementType::F32, ElementType::BF16] {
            let (n, k) = (70, 300);
            let result = |tokens: usize| {
                let p = dense(tokens, [n, k], granularity, Format::E4M3);
                let p = Problem {
                    element: match element {
                        ElementType::BF16 => Element::Bf16,
                        _ => Element::F32,
                    },
                    ..routed(p, tokens, [3, 1], source)
                };
                let weights = Weights::new(&p);
                let sorted = Sorted::new(&vec![1; tokens], 3, 1);
                let values = wave(k, 0.2);
                let x = match element {
                    ElementType::BF16 => {
                        let bits = values.iter().map(|x| (x.to_bits() >> 16) as u16);
                        let bits: Vec<u16> = bits.collect();
                        Host::halves(element, &bits.repeat(tokens)).reshaped(&[tokens, k])
                    }
                    _ => Host::f32s(&[tokens, k], &values.repeat(tokens)),
                };
                let inputs = [
                    x,
                    weights.panels,
                    weights.scales,
                    sorted.order(),
                    sorted.offsets(),
                    weights.bias,
                ];
                call(GroupedGemm::Fp8Linear(p), &inputs).remove(0).bytes
            };
            let (alone, many) = (result(1), result(300));
            for (row, bytes) in many.chunks(alone.len()).enumerate() {
                let what = format!("{granularity:?}, {source:?}, {element}, row {row}");
                assert!(bytes == alone, "{what}");
            }
        }
    }
}
