//! Gradients of the experts' weights and biases: every variant that the device can run, against the f64 oracle.

use crate::Outcome;
use crate::grouped_gemm::{compare, random_keys, segments, with, with_bindings};
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::grouped_gemm::weight_gradient::{Problem, reference};
use moebius_ops::grouped_gemm::{Problem as Product, Source, bias_gradient as bias};
use moebius_ops::permute::{self, Sorted};
use moebius_shaders::grouped_gemm::weight_gradient::{Operands, launch, plan};
use moebius_shaders::grouped_gemm::{Choice, Segments, Variant, bias_gradient};
use moebius_tests::data::Rng;
use moebius_tests::elements::{exact, rounded, upload};
use moebius_tests::target::{Target, download_f32, nans, upload_f32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// The offsets and order of a sort that the gradient of `product` reads, unless it is dense; no gradient reads the tiles.
fn sort_of(product: &Product, client: &Client, sorted: &Sorted) -> Option<Segments> {
    (!product.dense).then(|| segments(client, sorted, &[0]))
}

/// Random rows; sorted rows without a slot are NaN.
fn rows_of(
    rng: &mut Rng,
    sorted: &Sorted,
    source: Source,
    [rows, columns]: [usize; 2],
    element: Element,
) -> Vec<f32> {
    let mut values = rounded(rng.vec(rows * columns, 1.0), element);
    if let (Source::Sorted, Some(used)) = (source, sorted.offsets.last()) {
        values[*used as usize * columns..].fill(f32::NAN);
    }
    values
}

/// A weight gradient with its data, rounded to the element type.
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
        let sorted = permute::reference(keys, problem.product.experts);
        let mut operand = |source, columns| {
            let shape = [problem.rows(source), columns];
            rows_of(&mut rng, &sorted, source, shape, problem.product.element)
        };
        Self {
            a: operand(problem.a, m),
            b: operand(problem.b, n),
            sorted,
            problem,
        }
    }

    /// Draws random data, and a random expert for every slot.
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
        let p = &self.problem.product;
        let plan = plan(self.problem, device, Choice::of(variant));
        let plan = plan.map_err(|error| error.to_string())?;
        let len = p.experts * p.n * p.k;
        let operands = Operands {
            a: upload(client, &self.a, p.element),
            b: upload(client, &self.b, p.element),
            segments: sort_of(p, client, &self.sorted),
            out: nans(client, len),
        };
        launch(client, &plan, operands.clone());
        Ok(download_f32(client, operands.out, len))
    }

    /// Compares every variant for this kind of device with the oracle.
    fn check(&self, target: &Target) -> Outcome {
        self.check_on(target, target.capability(), &variants(target))
    }

    /// Compares these variants with the oracle, planned for a device with this capability.
    fn check_on(&self, target: &Target, device: &Capability, variants: &[Variant]) -> Outcome {
        let client = target.client().unwrap();
        let (a, b) = (exact(&self.a), exact(&self.b));
        let want = reference(&self.problem, &self.sorted, &a, &b);
        // Sums are f32 and stored as f32, whatever the operands' type.
        let tolerance = rel_l2(Element::F32);
        compare(&self.problem, variants, &want, tolerance, |variant| {
            self.run(&client, device, variant)
        })
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

/// Checks numbers of rows around 16, of a's columns around 4, 6, 8 and 64, and of b's columns around 4, 16, 32 and 64.
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

/// Checks dense products, whose rows aren't sorted, around the same edges.
pub(crate) fn dense_of(target: &Target, element: Element) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (15, 7, 17),
        (17, 8, 32),
        (65, 64, 65),
        (513, 20, 48),
    ];
    Outcome::of(sizes.into_iter().flat_map(|(rows, m, n)| {
        let product = |m, n| with(Product::dense(rows, m, n).unwrap(), |p| p.element = element);
        let keys = vec![0; rows];
        [
            Gradient::new(Problem::of(&product(m, n)), &keys).check(target),
            check_bias(target, bias::Problem::of(&product(n, 1)), &keys),
        ]
    }))
}

/// Checks more rows than the `cpu` variant packs at once, and one row more or less than that.
pub(crate) fn row_blocks(target: &Target) -> Outcome {
    Outcome::of([511, 512, 513, 1023, 1024, 1025, 2100].map(|rows| {
        let keys: Vec<u32> = (0..rows + 3).map(|s| u32::from(s >= rows)).collect();
        Gradient::new(problem(keys.len(), 2, 10, 40), &keys).check(target)
    }))
}

/// Checks one expert with all rows, experts without rows, and slots without an expert.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let some: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let bounded = with(problem(150, 5, 20, 36).product, |p| p.row_bound = 100);
    Outcome::of([
        Gradient::new(problem(100, 8, 24, 16), &[6; 100]).check(target),
        Gradient::new(problem(100, 1, 24, 16), &[1; 100]).check(target),
        Gradient::new(problem(150, 5, 24, 33), &some).check(target),
        Gradient::new(Problem::of(&bounded), &some).check(target),
    ])
}

/// Checks token rows in either operand and in both.
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

/// Checks rows and columns around fragments of 8 and 16 and tiles of 64.
pub(crate) fn matrices(target: &Target, element: Element) -> Outcome {
    let sizes = [
        (1, 3, 4, 4),
        (7, 3, 12, 20),
        (64, 3, 64, 64),
        (65, 3, 68, 36),
        (200, 3, 132, 72),
    ];
    check_by(target, element, Variant::TensorCore, &sizes)
}

/// Checks columns and rows around the pipelines' tiles and stages, by as many experts as each tile takes.
pub(crate) fn pipelines(target: &Target, element: Element) -> Outcome {
    let sizes = [
        (1, 3, 8, 8),
        (200, 3, 136, 72),
        (70, 128, 72, 8),
        (130, 128, 40, 136),
    ];
    check_by(target, element, Variant::Pipelined, &sizes)
}

/// Checks `variant` with these numbers of slots, experts and columns, with one matrix, and with rows by token.
fn check_by(
    target: &Target,
    element: Element,
    variant: Variant,
    sizes: &[(usize, usize, usize, usize)],
) -> Outcome {
    let check = |problem: Problem| {
        let product = with(problem.product, |p| p.element = element);
        let gradient = Gradient::random(Problem { product, ..problem });
        gradient.check_on(target, target.capability(), &[variant])
    };
    let dense = Problem::of(&Product::dense(70, 24, 32).unwrap());
    let gathered = Problem {
        a: Source::Tokens,
        b: Source::Sorted,
        ..Problem::of(&Product::new(90, 4, 3, 24, 32).unwrap())
    };
    let sizes = sizes
        .iter()
        .map(|&(slots, experts, m, n)| problem(slots, experts, m, n));
    Outcome::of(sizes.chain([dense, gathered]).map(check))
}

pub(crate) fn variants_agree_bit_for_bit(target: &Target) {
    let client = target.client().unwrap();
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
}

/// Checks a device whose bindings hold the gradients of only one or two experts.
pub(crate) fn gradients_in_slabs(target: &Target) {
    let (client, device) = (target.client().unwrap(), target.capability());
    let gradient = Gradient::random(problem(60, 5, 64, 32));
    for variant in variants(target) {
        let whole = gradient.run(&client, device, variant).unwrap();
        for experts in [1, 2] {
            let small = with_bindings(device, (64 * 32 * 4 * experts).max(60 * 64 * 4));
            let slabs = plan(gradient.problem, &small, Choice::default())
                .unwrap()
                .slabs;
            assert!(slabs.len() > 1, "{slabs:?}");
            let split = gradient.run(&client, &small, variant).unwrap();
            assert!(split == whole, "split gradients give other results");
        }
    }
}

/// Checks every GPU variant, planned within WebGPU's default limits.
pub(crate) fn webgpu_default_limits(target: &Target) -> Outcome {
    if target.capability().cpu_cores.is_some() {
        return Outcome::Unsupported("not a GPU runtime".into());
    }
    let gradient = Gradient::random(problem(130, 4, 70, 50));
    gradient.check_on(target, &Capability::webgpu_default(), &variants(target))
}

/// Compares a bias gradient of random rows with the oracle.
fn check_bias(target: &Target, problem: bias::Problem, keys: &[u32]) -> Outcome {
    let client = target.client().unwrap();
    let plan = match bias_gradient::plan(problem, target.capability()) {
        Ok(plan) => plan,
        Err(error) => return Outcome::Unsupported(error.to_string()),
    };
    let p = &problem.product;
    let mut rng = Rng::new(p.n as u64);
    let sorted = permute::reference(keys, p.experts);
    let shape = [problem.input_rows(), p.n];
    let rows = rows_of(&mut rng, &sorted, problem.rows, shape, p.element);
    let weights = problem.weighted.then(|| rng.vec(p.slots, 1.0));
    let weights = weights.as_deref();
    let len = p.experts * p.n;
    let operands = bias_gradient::Operands {
        rows: upload(&client, &rows, p.element),
        segments: sort_of(p, &client, &sorted),
        weights: weights.map(|weights| upload_f32(&client, weights)),
        out: nans(&client, len),
    };
    bias_gradient::launch(&client, &plan, operands.clone());
    let got = download_f32(&client, operands.out, len);
    let want = bias::reference(&problem, &sorted, &exact(&rows), weights);
    let what = format!("{problem:?}");
    assert_close(&what, &got, &want, rel_l2(Element::F32));
    Outcome::Ran
}

fn bias_problem(slots: usize, experts: usize, n: usize) -> bias::Problem {
    bias::Problem::of(&Product::new(slots, experts, 1, n, 1).unwrap())
}

pub(crate) fn bias_sorted(target: &Target) -> Outcome {
    let sizes = [(1, 1, 1), (70, 3, 33), (200, 7, 64), (64, 5, 130)];
    Outcome::of(sizes.map(|(slots, experts, n)| {
        let keys = random_keys(slots, experts);
        check_bias(target, bias_problem(slots, experts, n), &keys)
    }))
}

/// Checks token rows, each multiplied by the weights of its slots.
pub(crate) fn bias_weighted(target: &Target) -> Outcome {
    let product = Product::new(90, 4, 3, 40, 1).unwrap();
    Outcome::of([Source::Tokens, Source::Sorted].map(|rows| {
        let problem = bias::Problem {
            product,
            rows,
            weighted: true,
        };
        check_bias(target, problem, &random_keys(90, 4))
    }))
}

pub(crate) fn bias_uneven_experts(target: &Target) -> Outcome {
    let some: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let bounded = with(bias_problem(150, 5, 20).product, |p| p.row_bound = 100);
    Outcome::of([
        check_bias(target, bias_problem(100, 8, 24), &[6; 100]),
        check_bias(target, bias_problem(100, 1, 24), &[1; 100]),
        check_bias(target, bias::Problem::of(&bounded), &some),
    ])
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    let typed = |product| with(product, |p| p.element = element);
    let gradients = [(64, 64), (33, 35), (48, 31)].map(|(m, n)| {
        let product = typed(Product::new(80, 3, 2, m, n).unwrap());
        let problem = Problem {
            a: Source::Tokens,
            ..Problem::of(&product)
        };
        Gradient::random(problem).check(target)
    });
    let biases = [(64, true), (33, false)].map(|(n, weighted)| {
        let problem = bias::Problem {
            weighted,
            ..bias::Problem::of(&typed(bias_problem(70, 3, n).product))
        };
        check_bias(target, problem, &random_keys(70, 3))
    });
    let all = gradients.into_iter().chain(biases);
    Outcome::of(all.chain([dense_of(target, element)]))
}
