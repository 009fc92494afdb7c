//! Products of codes by FP8 matrix instructions, against the f64 oracle: on cards that have the instructions, in
//! software or not (`MOEBIUS_TEST_DEVICES=cuda`, a build with CubeCL's CUDA C++ compiler).

use crate::Outcome;
use cubecl::client::Client;
use moebius_ops::fp8::{Fp8Format, pack};
use moebius_ops::grouped_gemm::{Problem, Source, fp8};
use moebius_ops::scaling::{Fp8Scheme, Granularity};
use moebius_shaders::fp8_mma::{self, Operands, Plan, TILE_ROWS};
use moebius_shaders::grouped_gemm::Segments;
use moebius_shaders::permute::{self, TILE_WORDS};
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_f32, nans, poisoned, upload_f32, upload_u32};
use moebius_tests::tolerance::assert_close;

const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];

/// Largest relative L2 error. Products are exact and promoted sums f32, but an instruction may keep
/// no more than 13 bits below the largest of its terms, as Hopper's do: by 2.5e-4 in a simulation.
const TOLERANCE: f64 = 1e-3;

const fn block(rows: usize, columns: usize) -> Granularity {
    Granularity::Block { rows, columns }
}

/// One product with its data.
struct Product {
    problem: moebius_ops::fp8_mma::Problem,
    keys: Vec<u32>,
    /// Codes, row by row.
    x: Vec<u8>,
    x_scales: Vec<f32>,
    w: Vec<u8>,
    w_scales: Vec<f32>,
    bias: Vec<f32>,
}

impl Product {
    /// Random finite codes and scales, and random experts, some slots with none.
    fn random(product: Problem, x: Fp8Scheme, w: Fp8Scheme) -> Self {
        let product = Problem {
            fp8: Some(w),
            ..product
        };
        let problem = moebius_ops::fp8_mma::Problem::new(product, x).unwrap();
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
        Self {
            keys: (0..product.slots).map(|_| key(&mut rng)).collect(),
            x: codes(&mut rng, product.input_rows() * product.k, x.format),
            x_scales: scales(&mut rng, down * across),
            w: codes(&mut rng, product.experts * product.n * product.k, w.format),
            w_scales: scales(&mut rng, fp8::scale_words(&product)),
            bias: if product.bias {
                rng.vec(product.experts * product.n, 2.0)
            } else {
                Vec::new()
            },
            problem,
        }
    }

    fn words(&self, codes: &[u8]) -> Vec<u32> {
        codes
            .chunks(self.problem.product.k)
            .flat_map(pack)
            .collect()
    }

    fn panels(&self) -> Vec<u32> {
        fp8::to_panels(&self.problem.product, &self.words(&self.w))
    }

    /// The sort of the slots; none for a dense product.
    fn segments(&self, client: &Client, target: &Target, plan: &Plan) -> Option<Segments> {
        let p = &plan.problem.product;
        if p.dense {
            return None;
        }
        let sort = moebius_ops::permute::Problem::new(p.slots, p.experts, TILE_ROWS).unwrap();
        let buffers = permute::SortBuffers {
            keys: upload_u32(client, &self.keys),
            counts: poisoned(client, moebius_shaders::permute::counts(&sort)),
            offsets: poisoned(client, p.experts + 1),
            dropped: poisoned(client, 1),
            order: poisoned(client, p.slots),
            positions: poisoned(client, p.slots),
            tiles: poisoned(client, TILE_WORDS * sort.max_tiles()),
        };
        let sort = permute::plan(sort, target.capability()).unwrap();
        permute::launch(client, &sort, &buffers);
        Some(Segments {
            order: buffers.order,
            offsets: buffers.offsets,
            tiles: buffers.tiles,
        })
    }

    /// Rows no slot is sorted to are checked to be untouched, and 0.
    fn run(&self, target: &Target) -> Result<Vec<f32>, String> {
        let device = target.capability();
        let plan = fp8_mma::plan(self.problem, device, true).map_err(|e| e.to_string())?;
        let client = target.client().ok_or("no kernels")?;
        let p = &self.problem.product;
        let len = p.row_bound * p.n;
        let out = nans(&client, len);
        let operands = Operands {
            x: upload_u32(&client, &self.words(&self.x)),
            x_scales: upload_f32(&client, &self.x_scales),
            segments: self.segments(&client, target, &plan),
            weights: upload_u32(&client, &self.panels()),
            w_scales: upload_f32(&client, &self.w_scales),
            bias: p.bias.then(|| upload_f32(&client, &self.bias)),
            out: out.clone(),
        };
        fp8_mma::launch(&client, &plan, operands);
        let mut got = download_f32(&client, out, len);
        let used = self.keys.iter().filter(|key| (**key as usize) < p.experts);
        let unused = &mut got[used.count() * p.n..];
        assert!(unused.iter().all(|v| v.is_nan()), "a row without expert");
        unused.fill(0.0);
        Ok(got)
    }

    fn reference(&self) -> Vec<f64> {
        let sorted = moebius_ops::permute::reference(&self.keys, self.problem.product.experts);
        let x = (&self.words(&self.x)[..], &self.x_scales[..]);
        let w = (&self.panels()[..], &self.w_scales[..]);
        moebius_ops::fp8_mma::reference(&self.problem, &sorted, x, w, &self.bias)
    }

    fn check(&self, target: &Target) -> Outcome {
        match self.run(target) {
            Err(error) => Outcome::Unsupported(error),
            Ok(got) => {
                let what = format!("{:?}", self.problem);
                assert_close(&what, &got, &self.reference(), TOLERANCE);
                Outcome::Ran
            }
        }
    }
}

fn of(format: Fp8Format, granularity: Granularity) -> Fp8Scheme {
    Fp8Scheme {
        format,
        granularity,
    }
}

/// Scales of x and of W.
const GRANULARITIES: [[Granularity; 2]; 6] = [
    [Granularity::Row, Granularity::Row],
    [Granularity::Tensor, Granularity::Tensor],
    [block(1, 128), block(128, 128)],
    [block(1, 128), Granularity::Row],
    [Granularity::Row, block(3, 32)],
    [block(2, 64), block(64, 96)],
];

/// Every pair of formats and kind of scale, in sizes around words, instructions, tiles and panels.
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
                outcomes.push(Product::random(product, x, w).check(target));
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
    outcomes.push(mixed.check(target));
    Outcome::of(outcomes)
}

/// Token rows and sorted rows, experts without any and slots without one.
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
                outcomes.push(Product::random(product, x, w).check(target));
            }
        }
    }
    Outcome::of(outcomes)
}

/// −2, −1, 0, 1 and 2: whatever an instruction keeps of a sum, these are exact, so a word in the
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
    match product.run(target) {
        Err(error) => Outcome::Unsupported(error),
        Ok(got) => {
            let got: Vec<f64> = got.into_iter().map(f64::from).collect();
            assert_eq!(got, product.reference());
            Outcome::Ran
        }
    }
}

/// Every code times 1, NaN and infinities among them, and beside zeros.
pub(crate) fn every_code(target: &Target) -> Outcome {
    let mut outcomes = Vec::new();
    for format in FORMATS {
        let one = match format {
            Fp8Format::E4M3 => 0x38,
            Fp8Format::E5M2 => 0x3C,
        };
        let row = of(format, Granularity::Row);
        let mut product = Product::random(Problem::dense(2, 256, 1).unwrap(), row, row);
        product.x.fill(one);
        product.w = (0..=255).collect();
        product.x_scales.fill(1.0);
        product.w_scales.fill(1.0);
        let got = match product.run(target) {
            Ok(got) => got,
            Err(error) => {
                outcomes.push(Outcome::Unsupported(error));
                continue;
            }
        };
        for (i, (got, want)) in got.iter().zip(product.reference()).enumerate() {
            let got = f64::from(*got);
            let same = got == want || got.is_nan() && want.is_nan();
            assert!(same, "{format:?} code {:#x}: {got}, not {want}", i % 256);
        }
        outcomes.push(Outcome::Ran);
    }
    Outcome::of(outcomes)
}
