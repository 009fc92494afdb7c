//! Gradients of the experts' weights and biases: every variant a device can run, against the f64 oracle.

use crate::Outcome;
use crate::grouped_gemm::{rounded, upload};
use cubecl::client::Client;
use cubecl::prelude::*;
use moebius_device::Capability;
use moebius_ops::grouped_gemm::Problem as Product;
use moebius_ops::grouped_gemm::Source;
use moebius_ops::grouped_gemm::weight_gradient::{Problem, reference};
use moebius_ops::{Element, permute};
use moebius_shaders::grouped_gemm::weight_gradient::{Operands, launch, plan};
use moebius_shaders::grouped_gemm::{Choice, Segments, Variant, bias_gradient};
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_f32, nans, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// A sort of slots, on the host and as buffers; rows that go nowhere are never read.
struct Sorted {
    host: permute::Sorted,
    rows: usize,
}

impl Sorted {
    fn new(keys: &[u32], experts: usize) -> Self {
        let host = permute::reference(keys, experts);
        Self {
            rows: host.offsets[experts] as usize,
            host,
        }
    }

    /// What a gradient that isn't dense reads; no gradient reads the tiles.
    fn segments(&self, client: &Client, dense: bool) -> Option<Segments> {
        let upload = |words: &[u32]| upload_u32(client, words);
        (!dense).then(|| Segments {
            order: upload(&self.host.order),
            offsets: upload(&self.host.offsets),
            tiles: upload(&[0]),
        })
    }

    /// Random rows of `columns`; sorted rows no slot is sorted to are NaN.
    fn operand(
        &self,
        rng: &mut Rng,
        rows: usize,
        columns: usize,
        of: (Source, Element),
    ) -> Vec<f32> {
        let (source, element) = of;
        let values = rng.vec(rows * columns, 1.0).into_iter();
        let mut values: Vec<f32> = values.map(|value| rounded(value, element)).collect();
        if source == Source::Sorted {
            values[self.rows * columns..].fill(f32::NAN);
        }
        values
    }
}

fn random_keys(slots: usize, experts: usize) -> Vec<u32> {
    let mut rng = Rng::new(slots as u64);
    (0..slots).map(|_| rng.below(experts) as u32).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

/// One weight gradient with its data, rounded to the element type.
struct Gradient {
    problem: Problem,
    sorted: Sorted,
    a: Vec<f32>,
    b: Vec<f32>,
}

impl Gradient {
    fn new(problem: Problem, keys: &[u32]) -> Self {
        let [m, n] = problem.columns();
        let mut rng = Rng::new((m * 31 + n) as u64);
        let sorted = Sorted::new(keys, problem.product.experts);
        let mut operand = |source, columns| {
            let of = (source, problem.product.element);
            sorted.operand(&mut rng, problem.rows(source), columns, of)
        };
        Self {
            a: operand(problem.a, m),
            b: operand(problem.b, n),
            sorted,
            problem,
        }
    }

    /// Random experts for every slot.
    fn random(problem: Problem) -> Self {
        let Product { slots, experts, .. } = problem.product;
        Self::new(problem, &random_keys(slots, experts))
    }

    fn run(
        &self,
        client: &Client,
        device: &Capability,
        variant: Variant,
    ) -> Result<Vec<f32>, String> {
        let choice = Choice {
            variant: Some(variant),
            allow_unproven: false,
        };
        let p = &self.problem.product;
        let plan = plan(self.problem, device, choice).map_err(|error| error.to_string())?;
        let len = p.experts * p.n * p.k;
        let operands = Operands {
            a: upload(client, &self.a, p.element),
            b: upload(client, &self.b, p.element),
            segments: self.sorted.segments(client, p.dense),
            out: nans(client, len),
        };
        launch(client, &plan, operands.clone());
        Ok(download_f32(client, operands.out, len))
    }

    fn want(&self) -> Vec<f64> {
        reference(
            &self.problem,
            &self.sorted.host,
            &wide(&self.a),
            &wide(&self.b),
        )
    }

    /// Runs every variant for this sort of device and compares.
    fn check(&self, target: &Target) -> Outcome {
        self.check_by(target, &variants(target))
    }

    fn check_by(&self, target: &Target, variants: &[Variant]) -> Outcome {
        let Some(client) = target.client() else {
            return Outcome::Unsupported("no kernels".into());
        };
        let want = self.want();
        for &variant in variants {
            match self.run(&client, target.capability(), variant) {
                // Sums are f32 and stored as such whatever the operands are.
                Ok(got) => {
                    let what = format!("{variant:?} {:?}", self.problem);
                    assert_close(&what, &got, &want, rel_l2(Element::F32));
                }
                Err(error) => return Outcome::Unsupported(error),
            }
        }
        Outcome::Ran
    }
}

fn variants(target: &Target) -> [Variant; 2] {
    match target.capability().cpu_cores {
        Some(_) => [Variant::Cpu, Variant::Naive],
        None => [Variant::Unit, Variant::Naive],
    }
}

fn problem(slots: usize, experts: usize, m: usize, n: usize) -> Problem {
    Problem::of(&Product::new(slots, experts, 1, m, n).unwrap())
}

/// Rows around 16, columns of a around 4, 6, 8 and 64, columns of b around 4, 16, 32 and 64.
pub(crate) fn tile_edges(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (3, 5, 15),
        (4, 6, 16),
        (15, 7, 17),
        (16, 8, 31),
        (17, 9, 32),
        (33, 12, 33),
        (63, 63, 48),
        (64, 64, 64),
        (65, 65, 65),
        (100, 130, 96),
    ];
    Outcome::of(sizes.into_iter().flat_map(|(slots, m, n)| {
        [
            Gradient::new(problem(slots, 1, m, n), &vec![0; slots]).check(target),
            Gradient::random(problem(slots, 3, m, n)).check(target),
        ]
    }))
}

/// The rows of an ordinary product, which no sort has seen, around the same edges.
fn dense_of(target: &Target, element: Element) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (15, 7, 17),
        (17, 8, 32),
        (65, 64, 65),
        (513, 20, 48),
    ];
    Outcome::of(sizes.into_iter().flat_map(|(rows, m, n)| {
        let product = |m, n| Product {
            element,
            ..Product::dense(rows, m, n).unwrap()
        };
        let weights = Problem::of(&product(m, n));
        let bias = moebius_ops::grouped_gemm::bias_gradient::Problem::of(&product(n, 1));
        let keys = vec![0; rows];
        [
            Gradient::new(weights, &keys).check(target),
            check_bias(target, bias, &keys),
        ]
    }))
}

pub(crate) fn dense(target: &Target) -> Outcome {
    dense_of(target, Element::F32)
}

/// More rows than the `cpu` variant packs at once, and one row more or less than that.
pub(crate) fn row_blocks(target: &Target) -> Outcome {
    Outcome::of([511, 512, 513, 1023, 1024, 1025, 2100].map(|rows| {
        let keys: Vec<u32> = (0..rows + 3).map(|s| u32::from(s >= rows)).collect();
        Gradient::new(problem(keys.len(), 2, 10, 40), &keys).check(target)
    }))
}

/// One expert takes all, some none, and some slots go nowhere.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let some: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let bounded = Problem::of(&Product {
        row_bound: 100,
        ..problem(150, 5, 20, 36).product
    });
    Outcome::of([
        Gradient::new(problem(100, 8, 24, 16), &[6; 100]).check(target),
        Gradient::new(problem(100, 1, 24, 16), &[1; 100]).check(target),
        Gradient::new(problem(150, 5, 24, 33), &some).check(target),
        Gradient::new(bounded, &some).check(target),
    ])
}

/// Either operand, or both, by token.
pub(crate) fn gather(target: &Target) -> Outcome {
    let sources = [
        (Source::Tokens, Source::Sorted),
        (Source::Sorted, Source::Tokens),
        (Source::Tokens, Source::Tokens),
    ];
    Outcome::of(sources.map(|(a, b)| {
        let problem = Problem::of(&Product::new(90, 4, 3, 24, 32).unwrap());
        Gradient::random(Problem { a, b, ..problem }).check(target)
    }))
}

/// Rows and columns around fragments of 8 and 16 and tiles of 64.
fn matrices(target: &Target, element: Element) -> Outcome {
    let sizes = [
        (1, 4, 4),
        (7, 12, 20),
        (64, 64, 64),
        (65, 68, 36),
        (200, 132, 72),
    ];
    let by_matrices = |problem: Problem| {
        let product = Product {
            element,
            ..problem.product
        };
        let gradient = Gradient::random(Problem { product, ..problem });
        gradient.check_by(target, &[Variant::TensorCore])
    };
    let dense = Problem::of(&Product::dense(70, 24, 32).unwrap());
    let gathered = Problem {
        a: Source::Tokens,
        b: Source::Sorted,
        ..Problem::of(&Product::new(90, 4, 3, 24, 32).unwrap())
    };
    let sizes = sizes.map(|(slots, m, n)| problem(slots, 3, m, n));
    Outcome::of(sizes.into_iter().chain([dense, gathered]).map(by_matrices))
}

pub(crate) fn matrices_f16(target: &Target) -> Outcome {
    matrices(target, Element::F16)
}

pub(crate) fn matrices_bf16(target: &Target) -> Outcome {
    matrices(target, Element::Bf16)
}

pub(crate) fn variants_agree_bit_for_bit(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for (m, n) in [(70, 200), (36, 61)] {
        let gradient = Gradient::random(problem(1300, 2, m, n));
        let [got, naive] = variants(target).map(|variant| {
            let got = gradient.run(&client, target.capability(), variant);
            got.unwrap()
                .into_iter()
                .map(f32::to_bits)
                .collect::<Vec<_>>()
        });
        assert!(got == naive, "{:?} and naive differ", variants(target)[0]);
    }
    Outcome::Ran
}

/// A device whose bindings hold the gradients of one or two experts only.
pub(crate) fn gradients_in_slabs(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let gradient = Gradient::random(problem(60, 5, 64, 32));
    for variant in variants(target) {
        let whole = gradient.run(&client, target.capability(), variant).unwrap();
        for experts in [1, 2] {
            let mut small = target.capability().clone();
            small.limits.max_binding_bytes = (64 * 32 * 4 * experts).max(60 * 64 * 4);
            small.limits.binding_alignment = small.limits.binding_alignment.max(4);
            let slabs = plan(gradient.problem, &small, Choice::default())
                .unwrap()
                .slabs;
            assert!(slabs.len() > 1, "{slabs:?}");
            let split = gradient.run(&client, &small, variant).unwrap();
            assert!(split == whole, "split gradients give other results");
        }
    }
    Outcome::Ran
}

/// Every variant a GPU takes, planned for WebGPU's default limits and nothing beyond them.
pub(crate) fn webgpu_default_limits(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    if target.capability().cpu_cores.is_some() {
        return Outcome::Unsupported("not a GPU runtime".into());
    }
    let gradient = Gradient::random(problem(130, 4, 70, 50));
    for variant in variants(target) {
        let got = gradient.run(&client, &Capability::webgpu_default(), variant);
        let what = format!("{variant:?}");
        assert_close(&what, &got.unwrap(), &gradient.want(), rel_l2(Element::F32));
    }
    Outcome::Ran
}

/// Runs a bias gradient of random rows and compares.
fn check_bias(
    target: &Target,
    problem: moebius_ops::grouped_gemm::bias_gradient::Problem,
    keys: &[u32],
) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let plan = match bias_gradient::plan(problem, target.capability()) {
        Ok(plan) => plan,
        Err(error) => return Outcome::Unsupported(error.to_string()),
    };
    let p = &problem.product;
    let mut rng = Rng::new(p.n as u64);
    let sorted = Sorted::new(keys, p.experts);
    let of = (problem.rows, p.element);
    let rows = sorted.operand(&mut rng, problem.input_rows(), p.n, of);
    let weights = problem.weighted.then(|| rng.vec(p.slots, 1.0));
    let len = p.experts * p.n;
    let out = nans(&client, len);
    let operands = bias_gradient::Operands {
        rows: upload(&client, &rows, p.element),
        segments: sorted.segments(&client, p.dense),
        weights: weights
            .as_ref()
            .map(|weights| client.create_from_slice(f32::as_bytes(weights))),
        out: out.clone(),
    };
    bias_gradient::launch(&client, &plan, operands);
    let got = download_f32(&client, out, len);
    let want = moebius_ops::grouped_gemm::bias_gradient::reference(
        &problem,
        &sorted.host,
        &wide(&rows),
        weights.as_deref(),
    );
    let what = format!("{problem:?}");
    assert_close(&what, &got, &want, rel_l2(Element::F32));
    Outcome::Ran
}

fn bias_problem(
    slots: usize,
    experts: usize,
    n: usize,
) -> moebius_ops::grouped_gemm::bias_gradient::Problem {
    moebius_ops::grouped_gemm::bias_gradient::Problem::of(
        &Product::new(slots, experts, 1, n, 1).unwrap(),
    )
}

pub(crate) fn bias_sorted(target: &Target) -> Outcome {
    let sizes = [(1, 1, 1), (70, 3, 33), (200, 7, 64), (64, 5, 130)];
    Outcome::of(sizes.map(|(slots, experts, n)| {
        let keys = random_keys(slots, experts);
        check_bias(target, bias_problem(slots, experts, n), &keys)
    }))
}

/// Token rows, each multiplied by the weights of its slots.
pub(crate) fn bias_weighted(target: &Target) -> Outcome {
    Outcome::of([Source::Tokens, Source::Sorted].map(|rows| {
        let problem = moebius_ops::grouped_gemm::bias_gradient::Problem {
            rows,
            weighted: true,
            ..moebius_ops::grouped_gemm::bias_gradient::Problem::of(
                &Product::new(90, 4, 3, 40, 1).unwrap(),
            )
        };
        check_bias(target, problem, &random_keys(90, 4))
    }))
}

pub(crate) fn bias_uneven_experts(target: &Target) -> Outcome {
    let some: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let bounded = moebius_ops::grouped_gemm::bias_gradient::Problem::of(&Product {
        row_bound: 100,
        ..bias_problem(150, 5, 20).product
    });
    Outcome::of([
        check_bias(target, bias_problem(100, 8, 24), &[6; 100]),
        check_bias(target, bias_problem(100, 1, 24), &[1; 100]),
        check_bias(target, bounded, &some),
    ])
}

fn halves(target: &Target, element: Element) -> Outcome {
    let columns = [(64, 64), (33, 35), (48, 31)];
    let gradients = columns.map(|(m, n)| {
        let product = Product {
            element,
            ..Product::new(80, 3, 2, m, n).unwrap()
        };
        let problem = Problem {
            a: Source::Tokens,
            ..Problem::of(&product)
        };
        Gradient::random(problem).check(target)
    });
    let biases = [(64, true), (33, false)].map(|(n, weighted)| {
        let product = Product {
            element,
            ..bias_problem(70, 3, n).product
        };
        let problem = moebius_ops::grouped_gemm::bias_gradient::Problem {
            weighted,
            ..moebius_ops::grouped_gemm::bias_gradient::Problem::of(&product)
        };
        check_bias(target, problem, &random_keys(70, 3))
    });
    let all = gradients.into_iter().chain(biases);
    Outcome::of(all.chain([dense_of(target, element)]))
}

pub(crate) fn f16(target: &Target) -> Outcome {
    halves(target, Element::F16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    halves(target, Element::Bf16)
}
