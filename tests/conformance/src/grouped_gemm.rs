//! Every variant of the grouped GEMM that the device can run, against the f64 oracle.

use crate::Outcome;
use cubecl::client::Client;
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::grouped_gemm::{Activation, Problem, Source, WeightLayout, reference};
use moebius_ops::permute::{self, Sorted};
use moebius_shaders::Tiles;
use moebius_shaders::grouped_gemm::{Choice, Operands, Segments, Variant, launch, plan};
use moebius_tests::data::Rng;
use moebius_tests::elements::{download, exact, rounded, unwritten, upload};
use moebius_tests::target::{Target, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};
use std::fmt::Debug;

/// A product with its data, rounded to the element type.
pub(crate) struct Product {
    pub(crate) problem: Problem,
    pub(crate) sorted: Sorted,
    pub(crate) x: Vec<f32>,
    pub(crate) weights: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
}

impl Product {
    pub(crate) fn new(problem: Problem, keys: &[u32]) -> Self {
        let mut rng = Rng::new((problem.n * 31 + problem.k) as u64);
        let mut values = |len: usize, bound: f32| rounded(rng.vec(len, bound), problem.element);
        let columns = problem.n * problem.parts();
        let bound = (3.0 / problem.k as f32).sqrt();
        Self {
            sorted: permute::reference(keys, problem.experts),
            x: values(problem.input_rows() * problem.k, 1.0),
            weights: values(problem.experts * columns * problem.k, bound),
            bias: problem.bias.then(|| values(problem.experts * columns, 0.5)),
            problem,
        }
    }

    /// Draws random data, and a random expert for every slot.
    pub(crate) fn random(problem: Problem) -> Self {
        Self::new(problem, &random_keys(problem.slots, problem.experts))
    }

    /// The number of values in output rows that have a slot.
    pub(crate) fn used(&self) -> usize {
        self.sorted.offsets[self.problem.experts] as usize * self.problem.n
    }

    /// Runs `variant`; output rows without a slot come back as NaN and are set to 0 for the comparison.
    pub(crate) fn run(
        &self,
        client: &Client,
        device: &Capability,
        variant: Variant,
    ) -> Result<Vec<f32>, String> {
        let p = &self.problem;
        let plan = plan(*p, device, Choice::of(variant)).map_err(|error| error.to_string())?;
        let tiles = Tiles {
            rows: plan.tile_rows(),
            most: plan.max_tiles(),
        };
        let tiles = tiles.of(&self.sorted.offsets);
        let len = p.row_bound * p.n;
        let operands = Operands {
            x: upload(client, &self.x, p.element),
            segments: (!p.dense).then(|| segments(client, &self.sorted, &tiles)),
            weights: upload(client, &self.weights, p.element),
            scales_or_places: None,
            bias: self
                .bias
                .as_ref()
                .map(|bias| upload(client, bias, p.element)),
            out: unwritten(client, len, p.element),
        };
        launch(client, &plan, operands.clone());
        let mut got = download(client, operands.out, len, p.element);
        let unused = &mut got[self.used()..];
        let left = unused.iter().all(|value| value.is_nan());
        assert!(left, "{p:?}: a row without an expert was written");
        unused.fill(0.0);
        Ok(got)
    }

    /// Compares every variant for this kind of device with the oracle.
    fn check(&self, target: &Target) -> Outcome {
        self.check_by(target, variants(target))
    }

    /// Compares these variants with the oracle.
    fn check_by(&self, target: &Target, variants: &[Variant]) -> Outcome {
        self.check_on(target, target.capability(), variants)
    }

    /// Compares these variants with the oracle, planned for a device with this capability.
    fn check_on(&self, target: &Target, device: &Capability, variants: &[Variant]) -> Outcome {
        let client = target.client().unwrap();
        let p = &self.problem;
        let (x, bias) = (exact(&self.x), self.bias.as_deref());
        let want = reference(p, &self.sorted, &x, &self.weights, bias);
        compare(p, variants, &want, rel_l2(p.element), |variant| {
            self.run(&client, device, variant)
        })
    }
}

/// Runs these variants of a problem and compares each with the oracle.
pub(crate) fn compare(
    problem: &impl Debug,
    variants: &[Variant],
    want: &[f64],
    tolerance: f64,
    run: impl Fn(Variant) -> Result<Vec<f32>, String>,
) -> Outcome {
    for &variant in variants {
        match run(variant) {
            Ok(got) => assert_close(&format!("{variant:?} {problem:?}"), &got, want, tolerance),
            Err(error) => return Outcome::Unsupported(error),
        }
    }
    Outcome::Ran
}

/// Random experts, one per slot.
pub(crate) fn random_keys(slots: usize, experts: usize) -> Vec<u32> {
    let mut rng = Rng::new(slots as u64);
    (0..slots).map(|_| rng.below(experts) as u32).collect()
}

/// The offsets, order and tiles of a sort, as a product reads them.
pub(crate) fn segments(client: &Client, sorted: &Sorted, tiles: &[u32]) -> Segments {
    let upload = |words: &[u32]| upload_u32(client, words);
    Segments {
        order: upload(&sorted.order),
        offsets: upload(&sorted.offsets),
        tiles: upload(tiles),
    }
}

/// The variants of the forward product that this kind of device runs.
pub(crate) fn variants(target: &Target) -> &'static [Variant] {
    match target.capability().cpu_cores {
        Some(_) => &[Variant::Cpu, Variant::Naive],
        None => &[Variant::Unit, Variant::Gemv, Variant::Naive],
    }
}

fn problem(slots: usize, experts: usize, n: usize, k: usize) -> Problem {
    Problem::new(slots, experts, 1, n, k).unwrap()
}

/// Changes fields of a problem.
pub(crate) fn with(mut problem: Problem, change: impl FnOnce(&mut Problem)) -> Problem {
    change(&mut problem);
    problem
}

/// Adds a gate to the problem.
pub(crate) fn gated_by(activation: Activation, problem: Problem) -> Problem {
    Problem {
        gated: true,
        activation: Some(activation),
        ..problem
    }
}

/// Checks numbers of rows around 4, 6 and 64, of columns around 16, 32 and 64, and of inner elements around 4 and 16.
pub(crate) fn tile_edges(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (3, 15, 3),
        (4, 16, 4),
        (5, 17, 5),
        (6, 31, 15),
        (7, 32, 16),
        (63, 33, 17),
        (64, 63, 64),
        (65, 64, 100),
        (129, 65, 31),
        (200, 128, 256),
    ];
    Outcome::of(sizes.into_iter().flat_map(|(slots, n, k)| {
        [
            Product::new(problem(slots, 1, n, k), &vec![0; slots]).check(target),
            Product::random(problem(slots, 3, n, k)).check(target),
        ]
    }))
}

pub(crate) fn gated(target: &Target) -> Outcome {
    let (silu, clamped) = (Activation::Silu, Activation::Clamped);
    let sizes = [
        (5, 7, 9, silu),
        (130, 48, 32, silu),
        (70, 100, 64, silu),
        (70, 100, 64, clamped),
    ];
    Outcome::of(sizes.map(|(slots, n, k, activation)| {
        let gated = gated_by(activation, problem(slots, 4, n, k));
        Product::random(with(gated, |p| p.bias = slots == 70)).check(target)
    }))
}

pub(crate) fn activations(target: &Target) -> Outcome {
    Outcome::of(Activation::ALL.map(|activation| {
        let plain = problem(40, 2, 40, 24);
        Product::random(with(plain, |p| p.activation = Some(activation))).check(target)
    }))
}

pub(crate) fn bias(target: &Target) -> Outcome {
    Outcome::of([None, Some(Activation::Gelu)].map(|activation| {
        let biased = with(problem(33, 5, 20, 12), |p| p.bias = true);
        Product::random(with(biased, |p| p.activation = activation)).check(target)
    }))
}

/// Checks sorted rows and token rows.
pub(crate) fn sorted_rows(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let sorted = with(problem(150, 5, 24, 16), |p| {
        p.rows = Source::Sorted;
        p.bias = true;
    });
    Outcome::of([
        Product::new(sorted, &keys).check(target),
        Product::random(with(sorted, |p| p.top_k = 3)).check(target),
        // A token's row is shared by its slots.
        Product::random(Problem::new(90, 4, 3, 24, 32).unwrap()).check(target),
    ])
}

/// Checks buffers with exactly as many sorted rows as slots with an expert, beside slots without one.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..260)
        .map(|s| if s % 2 == 0 { 7 } else { s % 6 })
        .collect();
    let all = Problem::new(260, 7, 2, 40, 36).unwrap();
    Outcome::of([Source::Tokens, Source::Sorted].map(|rows| {
        let bounded = with(all, |p| p.row_bound = 130);
        let bounded = with(bounded, |p| p.rows = rows);
        Product::new(bounded, &keys).check(target)
    }))
}

/// Checks weights \[k, n\], as the gradient of x reads them, around the edges of tiles and registers.
pub(crate) fn in_out_weights(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (5, 17, 5),
        (7, 32, 16),
        (64, 63, 64),
        (65, 64, 100),
        (129, 80, 31),
        (200, 128, 256),
    ];
    Outcome::of(sizes.into_iter().flat_map(|(slots, n, k)| {
        let transposed = with(problem(slots, 3, n, k), |p| p.layout = WeightLayout::InOut);
        [Source::Tokens, Source::Sorted]
            .map(|rows| Product::random(with(transposed, |p| p.rows = rows)).check(target))
    }))
}

/// Checks one expert with all rows, experts without rows, and slots without an expert.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    Outcome::of([
        Product::new(problem(100, 8, 24, 16), &[6; 100]).check(target),
        Product::new(problem(150, 5, 24, 16), &keys).check(target),
    ])
}

/// Checks every GPU variant, planned within WebGPU's default limits.
pub(crate) fn webgpu_default_limits(target: &Target) -> Outcome {
    if target.capability().cpu_cores.is_some() {
        return Outcome::Unsupported("not a GPU runtime".into());
    }
    let gated = gated_by(Activation::Silu, problem(130, 4, 70, 50));
    let product = Product::random(with(gated, |p| p.bias = true));
    product.check_on(target, &Capability::webgpu_default(), variants(target))
}

pub(crate) fn variants_agree_bit_for_bit(target: &Target) {
    let client = target.client().unwrap();
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let product = Product::random(with(problem(150, 3, 70, 200), |p| p.layout = layout));
        let run = |variant| product.run(&client, target.capability(), variant);
        let naive = run(Variant::Naive);
        for variant in variants(target) {
            let got = run(*variant);
            assert!(got.is_ok() && got == naive, "{variant:?} and naive differ");
        }
    }
}

/// The device's capability with bindings of at most `bytes` bytes.
pub(crate) fn with_bindings(device: &Capability, bytes: u64) -> Capability {
    let mut small = device.clone();
    small.limits.max_binding_bytes = bytes;
    small.limits.binding_alignment = small.limits.binding_alignment.max(4);
    small
}

/// Checks a device whose bindings hold the weights of only one or two experts.
pub(crate) fn weights_in_slabs(target: &Target) {
    let product = Product::random(with(problem(120, 5, 64, 32), |p| p.bias = true));
    let (client, device) = (target.client().unwrap(), target.capability());
    let variant = variants(target)[0];
    let whole = product.run(&client, device, variant).unwrap();
    for experts in [1, 2] {
        let small = with_bindings(device, (64 * 32 * 4 * experts).max(120 * 64 * 4));
        let plan = plan(product.problem, &small, Choice::default()).unwrap();
        assert!(plan.slabs.len() > 1, "{plan:?}");
        let split = product.run(&client, &small, variant).unwrap();
        assert!(split == whole, "split weights give other results");
    }
    let tiny = with_bindings(device, 64 * 32 * 4 - 1);
    let few = with(product.problem, |p| {
        p.slots = 4;
        p.row_bound = 4;
    });
    let error = plan(few, &tiny, Choice::default()).unwrap_err().to_string();
    assert!(error.contains("weights of one expert"), "{error}");
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    let of = |slots, n, k| with(problem(slots, 3, n, k), |p| p.element = element);
    let sorted = with(of(70, 64, 36), |p| p.rows = Source::Sorted);
    let transposed = with(sorted, |p| p.layout = WeightLayout::InOut);
    let dense = with(Problem::dense(70, 24, 32).unwrap(), |p| p.element = element);
    let problems = [
        with(dense, |p| p.bias = true),
        with(dense, |p| p.layout = WeightLayout::InOut),
        sorted,
        with(of(100, 33, 35), |p| p.bias = true),
        gated_by(Activation::Silu, of(70, 64, 64)),
        transposed,
        with(transposed, |p| p.n = 63),
    ];
    Outcome::of(problems.map(|problem| Product::random(problem).check(target)))
}

/// Checks rows and columns around fragments of 8 and 16 and tiles of 64, with every operation on the sums (bias, activation, gate).
pub(crate) fn matrices(target: &Target, element: Element) -> Outcome {
    let typed = |problem| with(problem, |p| p.element = element);
    let of = |slots, n, k| typed(problem(slots, 3, n, k));
    let sorted = of(70, 64, 36);
    let gated = gated_by(Activation::Silu, of(130, 48, 32));
    let in_out = |problem| with(problem, |p| p.layout = WeightLayout::InOut);
    let problems = [
        of(1, 1, 4),
        of(7, 31, 12),
        of(64, 64, 64),
        of(65, 65, 20),
        of(200, 130, 256),
        with(of(33, 20, 12), |p| {
            p.bias = true;
            p.activation = Some(Activation::Gelu);
        }),
        with(sorted, |p| p.activation = Some(Activation::Relu)),
        gated,
        with(gated, |p| p.bias = true),
        with(sorted, |p| p.rows = Source::Sorted),
        in_out(sorted),
        in_out(of(129, 68, 100)),
        typed(Problem::new(90, 4, 3, 24, 32).unwrap()),
        typed(Problem::dense(70, 24, 32).unwrap()),
    ];
    let by_matrices = |product: Product| product.check_by(target, &[Variant::TensorCore]);
    let one_expert = Product::new(of(100, 24, 16), &[2; 100]);
    let all = problems.into_iter().map(Product::random);
    Outcome::of(all.chain([one_expert]).map(by_matrices))
}

/// Checks each tile of the pipelines, which follow from the numbers of experts and of rows, around tiles and stages.
pub(crate) fn pipelines(target: &Target, element: Element) -> Outcome {
    let typed = |problem| with(problem, |p| p.element = element);
    let of = |slots, experts, n, k| typed(problem(slots, experts, n, k));
    let in_out = |problem| with(problem, |p| p.layout = WeightLayout::InOut);
    let gated = gated_by(Activation::Silu, of(130, 4, 48, 72));
    let problems = [
        of(1, 3, 8, 8),
        of(300, 3, 264, 40),
        of(127, 3, 128, 160),
        with(of(129, 3, 72, 320), |p| p.bias = true),
        gated,
        with(gated_by(Activation::Gelu, of(260, 3, 136, 24)), |p| {
            p.bias = true
        }),
        with(of(70, 3, 64, 48), |p| p.activation = Some(Activation::Relu)),
        with(of(70, 3, 64, 48), |p| p.rows = Source::Sorted),
        in_out(of(390, 3, 72, 200)),
        in_out(with(of(200, 3, 16, 24), |p| p.rows = Source::Sorted)),
        typed(Problem::new(390, 4, 3, 48, 96).unwrap()),
        typed(Problem::dense(300, 272, 64).unwrap()),
    ];
    // An expert's share of the rows, experts and columns for the three larger tiles; experts have from half to twice their share.
    let larger = [(70, 128, 8), (70, 64, 256), (40, 128, 8)].map(|(rows, experts, n)| {
        let keys = random_keys(rows * experts, experts);
        let sorted = of(rows * experts, experts, n, 72);
        [sorted, in_out(sorted)].map(|problem| Product::new(problem, &keys))
    });
    let by_copies = |product: Product| product.check_by(target, &[Variant::Pipelined]);
    let all = problems.into_iter().map(Product::random);
    Outcome::of(all.chain(larger.into_iter().flatten()).map(by_copies))
}
