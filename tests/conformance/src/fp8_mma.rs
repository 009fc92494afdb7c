//! Products of codes by FP8 matrix instructions against the f64 oracle, on real or emulated cards that have the instructions
//! (`MOEBIUS_TEST_DEVICES=cuda`, a build with CubeCL's CUDA C++ compiler).

use crate::fp8_gemm::{FORMATS, block};
use crate::{Outcome, operation};
use moebius_ops::fp8::{Fp8Format, pack};
use moebius_ops::fp8_mma;
use moebius_ops::grouped_gemm::{Problem, Source, Stored, fp8};
use moebius_ops::permute::{self, Sorted};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_ops::{GroupedGemm, HostTensor};
use moebius_tests::data::Rng;
use moebius_tests::target::Target;

/// Largest relative L2 error. Products are exact and promoted sums are f32, but an instruction may drop all but 13 bits below
/// its largest term, as Hopper's do: 2.5e-4 in a simulation.
const TOLERANCE: f64 = 1e-3;

/// A product with its data.
struct Product {
    problem: fp8_mma::Problem,
    sorted: Sorted,
    /// The codes of x, row by row.
    x: Vec<u8>,
    x_scales: Vec<f32>,
    w: Vec<u8>,
    w_scales: Vec<f32>,
    bias: Option<Vec<f32>>,
}

impl Product {
    /// Draws random finite codes and scales, and random experts; some slots have none.
    fn random(product: Problem, x: Fp8Scheme, w: Fp8Scheme) -> Self {
        let product = Problem {
            stored: Stored::Fp8(w),
            ..product
        };
        let problem = fp8_mma::Problem::new(product, x).unwrap();
        let mut rng = Rng::new((product.n * 7 + product.k) as u64);
        let codes = |rng: &mut Rng, len: usize, format: Fp8Format| -> Vec<u8> {
            let mut code = || rng.below(256) as u8;
            let mut finite = || (code() & 0x80) | (code() & 0x7F).min(format.max_code());
            (0..len).map(|_| finite()).collect()
        };
        let scales = |rng: &mut Rng, len: usize| -> Vec<f32> {
            (0..len).map(|_| (1.5 + rng.unit()) / 256.0).collect()
        };
        let key = |rng: &mut Rng| {
            if product.dense {
                0
            } else {
                rng.below(product.experts + 1) as u32
            }
        };
        let [down, across] = problem.x_scale_shape();
        let keys: Vec<u32> = (0..product.slots).map(|_| key(&mut rng)).collect();
        Self {
            sorted: permute::reference(&keys, product.experts),
            x: codes(&mut rng, product.input_rows() * product.k, x.format),
            x_scales: scales(&mut rng, down * across),
            w: codes(&mut rng, product.experts * product.n * product.k, w.format),
            w_scales: scales(&mut rng, fp8::scale_words(&product)),
            bias: product
                .bias
                .then(|| rng.vec(product.experts * product.n, 2.0)),
            problem,
        }
    }

    fn operands(&self) -> Vec<HostTensor> {
        let product = &self.problem.product;
        let words = |codes: &[u8]| codes.chunks(product.k).flat_map(pack).collect::<Vec<u32>>();
        let mut operands = vec![
            HostTensor::Words(words(&self.x)),
            HostTensor::of_f32(&self.x_scales),
            HostTensor::Words(fp8::to_panels(product, &words(&self.w))),
            HostTensor::of_f32(&self.w_scales),
        ];
        if !product.dense {
            operands.push(self.sorted.order.clone().into());
            operands.push(self.sorted.offsets.clone().into());
        }
        operands.extend(self.bias.as_deref().map(HostTensor::of_f32));
        operands
    }

    fn check(&self, target: &Target, tolerance: f64) -> Outcome {
        let codes = GroupedGemm::Fp8Codes(self.problem);
        operation::check(target, codes, &self.operands(), |_| tolerance)
    }
}

fn of(format: Fp8Format, granularity: Granularity) -> Fp8Scheme {
    Fp8Scheme {
        format,
        granularity,
    }
}

/// Pairs of granularities, of x and of W.
const GRANULARITIES: [[Granularity; 2]; 6] = [
    [Granularity::Row, Granularity::Row],
    [Granularity::Tensor, Granularity::Tensor],
    [block(1, 128), block(128, 128)],
    [block(1, 128), Granularity::Row],
    [Granularity::Row, block(3, 32)],
    [block(2, 64), block(64, 96)],
];

/// Checks every pair of formats and every kind of scale, in sizes around words, instructions, tiles and panels.
pub(crate) fn values(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (5, 63, 31),
        (17, 64, 128),
        (65, 65, 130),
        (130, 200, 391),
    ];
    let mut outcomes = Vec::new();
    for formats in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        for [x, w] in GRANULARITIES {
            for (m, n, k) in sizes {
                let (x, w) = (of(FORMATS[formats[0]], x), of(FORMATS[formats[1]], w));
                let product = Problem::dense(m, n, k).unwrap();
                outcomes.push(Product::random(product, x, w).check(target, TOLERANCE));
            }
        }
    }
    let row = |format| of(format, Granularity::Row);
    let sorted = Problem {
        rows: Source::Sorted,
        bias: true,
        ..Problem::new(300, 3, 2, 130, 161).unwrap()
    };
    let mixed = Product::random(sorted, row(Fp8Format::E5M2), row(Fp8Format::E4M3));
    outcomes.push(mixed.check(target, TOLERANCE));
    Outcome::of(outcomes)
}

/// Checks token rows and sorted rows, experts without rows and slots without an expert.
pub(crate) fn experts(target: &Target) -> Outcome {
    let mut outcomes = Vec::new();
    for [x, w] in GRANULARITIES {
        for rows in [Source::Tokens, Source::Sorted] {
            for (slots, experts, n, k) in [(6, 9, 40, 36), (300, 3, 130, 161)] {
                let product = Problem {
                    rows,
                    bias: rows == Source::Sorted,
                    ..Problem::new(slots, experts, 2, n, k).unwrap()
                };
                let (x, w) = (of(Fp8Format::E4M3, x), of(Fp8Format::E4M3, w));
                outcomes.push(Product::random(product, x, w).check(target, TOLERANCE));
            }
        }
    }
    Outcome::of(outcomes)
}

/// Checks products of −2, −1, 0, 1 and 2: these are exact however few bits of a sum an instruction keeps, so a word in the
/// wrong register shows.
pub(crate) fn small_integers_are_exact(target: &Target) -> Outcome {
    let row = of(Fp8Format::E4M3, Granularity::Row);
    let problem = Problem::dense(70, 130, 391).unwrap();
    let mut product = Product::random(problem, row, row);
    let integers = [0xC0, 0xB8, 0x00, 0x38, 0x40];
    let mut rng = Rng::new(1);
    for code in product.x.iter_mut().chain(&mut product.w) {
        *code = integers[rng.below(5)];
    }
    product.x_scales.fill(1.0);
    product.w_scales.fill(0.5);
    product.check(target, 0.0)
}

/// Checks every code times 1, NaN and infinities included, with zeros as the other terms.
pub(crate) fn every_code(target: &Target) -> Outcome {
    Outcome::of(
        [(Fp8Format::E4M3, 0x38), (Fp8Format::E5M2, 0x3C)].map(|(format, one)| {
            let row = of(format, Granularity::Row);
            let mut product = Product::random(Problem::dense(2, 256, 1).unwrap(), row, row);
            product.x.fill(one);
            product.w = (0..=255).collect();
            product.x_scales.fill(1.0);
            product.w_scales.fill(1.0);
            product.check(target, 0.0)
        }),
    )
}
