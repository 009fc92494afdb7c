//! Products with FP8 weights.

use crate::codec::{FORMATS, decode, pack_rows};
use crate::plugin::{Host, call, run};
use crate::routed::{Sorted, assert_close, poisoned, wave};
use moebius_xla::ElementType;
use moebius_xla::custom::Call;
use moebius_xla::custom::experts::Activation;
use moebius_xla::custom::fp8::Format;
use moebius_xla::custom::fp8_linear::{Fp8Linear, Routing, Source};
use moebius_xla::custom::quantize::Granularity;
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

fn dense(rows: usize, [n, k]: [usize; 2], granularity: Granularity, format: Format) -> Fp8Linear {
    Fp8Linear {
        rows,
        experts: 1,
        n,
        k,
        format,
        granularity,
        bias: true,
        activation: None,
        gated: false,
        routing: None,
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
    fn new(p: &Fp8Linear) -> Self {
        let parts = if p.gated { 2 } else { 1 };
        let (columns, inner, panels) = (parts * p.n, p.k.div_ceil(4), p.n.div_ceil(64));
        let rows = p.experts * columns;
        // Finite codes of all sizes, with subnormals and both zeros.
        let code = |i: usize| (i * 37 % 0x70) as u8 | if i.is_multiple_of(3) { 0x80 } else { 0 };
        let codes: Vec<u8> = (0..rows * p.k).map(code).collect();
        let words = pack_rows(&codes, p.k);
        let mut packed = vec![0; p.experts * parts * panels * inner * 64];
        for (i, word) in words.into_iter().enumerate() {
            let (row, at) = (i / inner, i % inner);
            let (matrix, column) = (row / p.n, row % p.n);
            let panel = matrix * panels + column / 64;
            packed[(panel * inner + at) * 64 + column % 64] = word;
        }
        let [r, c] = p.granularity.block(columns, p.k);
        let [down, across] = p.granularity.blocks(columns, p.k);
        let bytes: Vec<u8> = (0..p.experts * down * across)
            .map(|i| 110 + (i % 9) as u8)
            .collect();
        let mx = p.granularity == Granularity::Mx;
        let scale = |i: usize| match mx {
            true => (f32::from(bytes[i]) - 127.0).exp2(),
            false => 0.001 * (1.0 + (i % 13) as f32),
        };
        let values = (0..rows * p.k).map(|i| {
            let (row, column) = (i / p.k, i % p.k);
            let block = (row / columns * down + row % columns / r) * across + column / c;
            decode(codes[i], p.format) * f64::from(scale(block))
        });
        let scales: Vec<f32> = (0..bytes.len()).map(scale).collect();
        let biases = wave(p.experts * columns, 0.5);
        Self {
            values: values.collect(),
            panels: Host::ints(&[p.experts * parts * panels, inner, 64], &packed),
            scales: match mx {
                true => Host::ints(
                    &[p.experts, down, across.div_ceil(4)],
                    &pack_rows(&bytes, across),
                ),
                false => Host::f32s(&[p.experts, down, across], &scales),
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
                let got = call(&Call::Fp8Linear(p), &inputs)[0].floats();
                let want: Vec<f64> = x.chunks(k).flat_map(|x| weights.product(0, x)).collect();
                // Codes reach 2^15 times a scale in E5M2.
                let largest = want.iter().fold(1.0f64, |a, x| a.max(x.abs()));
                assert_close(&got, &want, 1e-6 * largest, &format!("{p:?}"));

                let mut b = Builder::new();
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
            let p = dense(9, [70, 36], granularity, Format::E4M3);
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
            let got = call(&Call::Fp8Linear(p), &inputs);
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
            call(&Call::Fp8Linear(p), &inputs)[0].floats()
        };
        let x = wave(rows * 4096, 0.2);
        let mut other = wave(rows * 4096, 2.2);
        other[4096..2 * 4096].copy_from_slice(&x[4096..2 * 4096]);
        assert_eq!(of(&x)[33..66], of(&other)[33..66]);
    }
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

#[test]
fn experts_have_weights_of_their_own() {
    let sorted = Sorted::sample(13, 4, 2);
    for granularity in GRANULARITIES {
        for (source, gated) in [(Source::Tokens, true), (Source::Sorted, false)] {
            let (bound, [n, k]) = (sorted.rows() + 1, [70, 33]);
            let p = Fp8Linear {
                experts: 4,
                activation: gated.then_some(Activation::Silu),
                gated,
                routing: Some(Routing {
                    tokens: 13,
                    top_k: 2,
                    source,
                }),
                ..dense(bound, [n, k], granularity, Format::E4M3)
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
                    want[row * n + column] = match gated {
                        true => silu(y[column]) * y[n + column],
                        false => y[column],
                    };
                }
            }
            let got = call(&Call::Fp8Linear(p), &inputs)[0].floats();
            assert_close(&got, &want, 1e-5, &format!("{p:?}"));
        }
    }
}

#[test]
fn no_routing_is_a_product() {
    let nowhere = Sorted::new(&[3; 6], 3, 2);
    let p = Fp8Linear {
        experts: 3,
        routing: Some(Routing {
            tokens: 3,
            top_k: 2,
            source: Source::Tokens,
        }),
        ..dense(6, [5, 9], Granularity::Row, Format::E5M2)
    };
    let weights = Weights::new(&p);
    let inputs = [
        Host::f32s(&[3, 9], &wave(27, 0.2)),
        weights.panels.clone(),
        weights.scales.clone(),
        nowhere.order(),
        nowhere.offsets(),
        weights.bias.clone(),
    ];
    assert_eq!(call(&Call::Fp8Linear(p), &inputs)[0].floats(), [0.0; 30]);
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
                let p = Fp8Linear {
                    experts: 3,
                    routing: Some(Routing {
                        tokens,
                        top_k: 1,
                        source,
                    }),
                    ..dense(tokens, [n, k], granularity, Format::E4M3)
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
                call(&Call::Fp8Linear(p), &inputs).remove(0).bytes
            };
            let (alone, many) = (result(1), result(300));
            for (row, bytes) in many.chunks(alone.len()).enumerate() {
                let what = format!("{granularity:?}, {source:?}, {element}, row {row}");
                assert!(bytes == alone, "{what}");
            }
        }
    }
}
