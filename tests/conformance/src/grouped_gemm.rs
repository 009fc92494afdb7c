//! Every variant of the grouped GEMM a device can run, against the f64 oracle.

use crate::Outcome;
use cubecl::client::Client;
use cubecl::prelude::*;
use cubecl::server::Handle;
use half::{bf16, f16};
use moebius_device::Capability;
use moebius_ops::Element;
use moebius_ops::grouped_gemm::{Activation, Problem, Source, WeightLayout, reference};
use moebius_shaders::grouped_gemm::{self, Choice, Operands, Plan, Segments, Variant};
use moebius_shaders::permute;
use moebius_shaders::permute::TILE_WORDS;
use moebius_tests::data::Rng;
use moebius_tests::target::{Target, download_f32, nans, poisoned, upload_f32, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};

/// One product with its data, rounded to the element type.
pub(crate) struct Product {
    pub(crate) problem: Problem,
    sorted: moebius_ops::permute::Sorted,
    pub(crate) x: Vec<f32>,
    /// Those that the codes decode to, if there are any.
    pub(crate) weights: Vec<f32>,
    /// Panels and scales.
    pub(crate) codes: Option<[Vec<u32>; 2]>,
    bias: Option<Vec<f32>>,
}

impl Product {
    pub(crate) fn new(problem: Problem, keys: &[u32]) -> Self {
        let mut rng = Rng::new((problem.n * 31 + problem.k) as u64);
        let round = |values: Vec<f32>| -> Vec<f32> {
            values
                .into_iter()
                .map(|value| rounded(value, problem.element))
                .collect()
        };
        let columns = problem.n * problem.parts();
        let bound = (3.0 / problem.k as f32).sqrt();
        Self {
            sorted: moebius_ops::permute::reference(keys, problem.experts),
            x: round(rng.vec(problem.input_rows() * problem.k, 1.0)),
            weights: round(rng.vec(problem.experts * columns * problem.k, bound)),
            codes: None,
            bias: problem
                .bias
                .then(|| round(rng.vec(problem.experts * columns, 0.5))),
            problem,
        }
    }

    /// Random experts for every slot.
    pub(crate) fn random(problem: Problem) -> Self {
        let mut rng = Rng::new(problem.slots as u64);
        let keys: Vec<u32> = (0..problem.slots)
            .map(|_| rng.below(problem.experts) as u32)
            .collect();
        Self::new(problem, &keys)
    }

    /// Runs `variant`; rows no slot is sorted to come back as NaN and are set to 0 for comparison.
    pub(crate) fn run(
        &self,
        client: &Client,
        device: &Capability,
        variant: Variant,
    ) -> Result<Vec<f32>, String> {
        let choice = Choice {
            variant: Some(variant),
            allow_unproven: false,
        };
        let plan = grouped_gemm::plan(self.problem, device, choice).map_err(|e| e.to_string())?;
        Ok(self.run_planned(client, device, &plan))
    }

    /// Runs a plan of this problem, as [`Self::run`].
    pub(crate) fn run_planned(
        &self,
        client: &Client,
        device: &Capability,
        plan: &Plan,
    ) -> Vec<f32> {
        let p = &self.problem;
        let len = p.row_bound * p.n;
        let out = upload(client, &vec![f32::NAN; len], p.element);
        let [weights, scales] = match &self.codes {
            Some(codes) => codes
                .each_ref()
                .map(|words| Some(upload_u32(client, words))),
            None => [Some(upload(client, &self.weights, p.element)), None],
        };
        let operands = Operands {
            x: upload(client, &self.x, p.element),
            segments: self.segments(client, device, plan),
            weights: weights.unwrap(),
            scales,
            bias: self
                .bias
                .as_ref()
                .map(|bias| upload(client, bias, p.element)),
            out: out.clone(),
        };
        grouped_gemm::launch(client, plan, operands);
        let mut got = download(client, out, len, p.element);
        let rows = self.sorted.offsets[p.experts] as usize;
        for row in rows..p.row_bound {
            let unused = &mut got[row * p.n..][..p.n];
            assert!(
                unused.iter().all(|v| v.is_nan()),
                "row {row} has no expert and was written"
            );
            unused.fill(0.0);
        }
        got
    }

    /// The sort of the slots, run on the device; none for a dense product.
    fn segments(&self, client: &Client, device: &Capability, plan: &Plan) -> Option<Segments> {
        let p = &self.problem;
        if p.dense {
            return None;
        }
        let sort =
            moebius_ops::permute::Problem::new(p.slots, p.experts, plan.tile_rows()).unwrap();
        let keys = self.keys();
        let buffers = permute::SortBuffers {
            keys: upload_u32(client, &keys),
            counts: poisoned(client, moebius_shaders::permute::counts(&sort)),
            offsets: poisoned(client, p.experts + 1),
            dropped: poisoned(client, 1),
            order: poisoned(client, p.slots),
            positions: poisoned(client, p.slots),
            tiles: poisoned(client, TILE_WORDS * sort.max_tiles()),
        };
        permute::launch(client, &permute::plan(sort, device).unwrap(), &buffers);
        Some(Segments {
            order: buffers.order,
            offsets: buffers.offsets,
            tiles: buffers.tiles,
        })
    }

    fn keys(&self) -> Vec<u32> {
        let mut keys = vec![self.problem.experts as u32; self.problem.slots];
        for e in 0..self.problem.experts {
            let rows = self.sorted.offsets[e] as usize..self.sorted.offsets[e + 1] as usize;
            self.sorted.order[rows]
                .iter()
                .for_each(|slot| keys[*slot as usize] = e as u32);
        }
        keys
    }

    /// Runs every variant for this sort of device and compares.
    pub(crate) fn check(&self, target: &Target) -> Outcome {
        self.check_by(target, variants(target))
    }

    /// Runs these variants and compares.
    pub(crate) fn check_by(&self, target: &Target, variants: &[Variant]) -> Outcome {
        let Some(client) = target.client() else {
            return Outcome::Unsupported("no kernels".into());
        };
        let x: Vec<f64> = self.x.iter().map(|x| f64::from(*x)).collect();
        let want = reference(
            &self.problem,
            &self.sorted,
            &x,
            &self.weights,
            self.bias.as_deref(),
        );
        for variant in variants {
            match self.run(&client, target.capability(), *variant) {
                Ok(got) => {
                    let what = format!("{variant:?} {:?}", self.problem);
                    assert_close(&what, &got, &want, rel_l2(self.problem.element));
                }
                Err(error) => return Outcome::Unsupported(error),
            }
        }
        Outcome::Ran
    }
}

/// The variants of the forward product that this sort of device runs.
pub(crate) fn variants(target: &Target) -> &'static [Variant] {
    match target.capability().cpu_cores {
        Some(_) => &[Variant::Cpu, Variant::Naive],
        None => &[Variant::Unit, Variant::Gemv, Variant::Naive],
    }
}

/// `value` as the element type has it.
pub(crate) fn rounded(value: f32, element: Element) -> f32 {
    match element {
        Element::F32 => value,
        Element::F16 => f16::from_f32(value).to_f32(),
        Element::Bf16 => bf16::from_f32(value).to_f32(),
    }
}

/// A buffer of `values` in the element type.
pub(crate) fn upload(client: &Client, values: &[f32], element: Element) -> Handle {
    let halves = |to_bits: fn(f32) -> u16| {
        let mut halves: Vec<u16> = values.iter().map(|v| to_bits(*v)).collect();
        halves.resize(halves.len().next_multiple_of(2), 0);
        client.create_from_slice(u16::as_bytes(&halves))
    };
    match element {
        Element::F32 if values.is_empty() => nans(client, 1),
        Element::F32 => upload_f32(client, values),
        Element::F16 => halves(|v| f16::from_f32(v).to_bits()),
        Element::Bf16 => halves(|v| bf16::from_f32(v).to_bits()),
    }
}

fn download(client: &Client, buffer: Handle, len: usize, element: Element) -> Vec<f32> {
    if element == Element::F32 {
        return download_f32(client, buffer, len);
    }
    let bytes = client.read_one(buffer).unwrap();
    let halves = u16::from_bytes(&bytes)[..len].iter();
    match element {
        Element::F16 => halves.map(|bits| f16::from_bits(*bits).to_f32()).collect(),
        _ => halves.map(|bits| bf16::from_bits(*bits).to_f32()).collect(),
    }
}

fn problem(slots: usize, experts: usize, n: usize, k: usize) -> Problem {
    Problem::new(slots, experts, 1, n, k).unwrap()
}

/// Rows around 4, 6 and 64, columns around 16, 32 and 64, inner sizes around 4 and 16.
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
        let gated = Problem {
            gated: true,
            activation: Some(activation),
            ..problem(slots, 4, n, k)
        };
        Product::random(Problem {
            bias: slots == 70,
            ..gated
        })
        .check(target)
    }))
}

pub(crate) fn activations(target: &Target) -> Outcome {
    Outcome::of(Activation::ALL.map(|activation| {
        let activation = Some(activation);
        Product::random(Problem {
            activation,
            ..problem(40, 2, 40, 24)
        })
        .check(target)
    }))
}

pub(crate) fn bias(target: &Target) -> Outcome {
    Outcome::of([None, Some(Activation::Gelu)].map(|activation| {
        Product::random(Problem {
            bias: true,
            activation,
            ..problem(33, 5, 20, 12)
        })
        .check(target)
    }))
}

/// Sorted rows and token rows.
pub(crate) fn sorted_rows(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    let sorted = Problem {
        rows: Source::Sorted,
        bias: true,
        ..problem(150, 5, 24, 16)
    };
    Outcome::of([
        Product::new(sorted, &keys).check(target),
        Product::random(Problem { top_k: 3, ..sorted }).check(target),
        // Token rows shared by the slots of a token.
        Product::random(Problem::new(90, 4, 3, 24, 32).unwrap()).check(target),
    ])
}

/// Buffers of as many sorted rows as there are, with slots that go nowhere beside them.
pub(crate) fn row_bound(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..260)
        .map(|s| if s % 2 == 0 { 7 } else { s % 6 })
        .collect();
    let bounded = |rows| Problem {
        row_bound: 130,
        rows,
        ..Problem::new(260, 7, 2, 40, 36).unwrap()
    };
    let all = [Source::Tokens, Source::Sorted];
    Outcome::of(all.map(|rows| Product::new(bounded(rows), &keys).check(target)))
}

/// Weights in \[k, n\], as the gradient of x reads them: around the edges of tiles and registers.
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
    let transposed = |rows, (slots, n, k)| Problem {
        layout: WeightLayout::InOut,
        rows,
        ..problem(slots, 3, n, k)
    };
    Outcome::of(sizes.into_iter().flat_map(|size| {
        [Source::Tokens, Source::Sorted]
            .map(|rows| Product::random(transposed(rows, size)).check(target))
    }))
}

/// One expert takes all, the others none, and some slots go nowhere.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..150).map(|s| if s % 3 == 0 { 5 } else { 2 }).collect();
    Outcome::of([
        Product::new(problem(100, 8, 24, 16), &[6; 100]).check(target),
        Product::new(problem(150, 5, 24, 16), &keys).check(target),
    ])
}

/// Every variant a GPU takes, planned for WebGPU's default limits and nothing beyond them.
pub(crate) fn webgpu_default_limits(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    if target.capability().cpu_cores.is_some() {
        return Outcome::Unsupported("not a GPU runtime".into());
    }
    let device = Capability::webgpu_default();
    let gated = Problem {
        gated: true,
        activation: Some(Activation::Silu),
        bias: true,
        ..problem(130, 4, 70, 50)
    };
    let product = Product::random(gated);
    let x: Vec<f64> = product.x.iter().map(|x| f64::from(*x)).collect();
    let want = reference(
        &gated,
        &product.sorted,
        &x,
        &product.weights,
        product.bias.as_deref(),
    );
    for variant in variants(target) {
        let got = product.run(&client, &device, *variant).unwrap();
        assert_close(&format!("{variant:?}"), &got, &want, rel_l2(Element::F32));
    }
    Outcome::Ran
}

pub(crate) fn variants_agree_bit_for_bit(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let product = Product::random(Problem {
            layout,
            ..problem(150, 3, 70, 200)
        });
        let run = |variant| product.run(&client, target.capability(), variant);
        let naive = run(Variant::Naive);
        for variant in variants(target) {
            let got = run(*variant);
            assert!(got.is_ok() && got == naive, "{variant:?} and naive differ");
        }
    }
    Outcome::Ran
}

/// A device whose bindings hold the weights of one or two experts only.
pub(crate) fn weights_in_slabs(target: &Target) -> Outcome {
    let product = Product::random(Problem {
        bias: true,
        ..problem(120, 5, 64, 32)
    });
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let variant = variants(target)[0];
    let whole = product.run(&client, target.capability(), variant).unwrap();
    for experts in [1, 2] {
        let mut small = target.capability().clone();
        small.limits.max_binding_bytes = (64 * 32 * 4 * experts).max(120 * 64 * 4);
        small.limits.binding_alignment = small.limits.binding_alignment.max(4);
        let plan = grouped_gemm::plan(product.problem, &small, Choice::default()).unwrap();
        assert!(plan.slabs.len() > 1, "{plan:?}");
        let split = product.run(&client, &small, variant).unwrap();
        assert!(split == whole, "split weights give other results");
    }
    let mut tiny = target.capability().clone();
    tiny.limits.max_binding_bytes = 64 * 32 * 4 - 1;
    let error = grouped_gemm::plan(
        Problem {
            slots: 4,
            row_bound: 4,
            ..product.problem
        },
        &tiny,
        Choice::default(),
    );
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("weights of one expert")
    );
    Outcome::Ran
}

fn halves(target: &Target, element: Element) -> Outcome {
    let activation = Some(Activation::Silu);
    let gated = Problem {
        element,
        gated: true,
        activation,
        ..problem(70, 3, 64, 64)
    };
    let sorted = Problem {
        element,
        rows: Source::Sorted,
        ..problem(70, 3, 64, 36)
    };
    let transposed = Problem {
        layout: WeightLayout::InOut,
        ..sorted
    };
    Outcome::of([
        Product::random(sorted).check(target),
        Product::random(Problem {
            element,
            bias: true,
            ..problem(100, 3, 33, 35)
        })
        .check(target),
        Product::random(gated).check(target),
        Product::random(transposed).check(target),
        Product::random(Problem {
            n: 63,
            ..transposed
        })
        .check(target),
    ])
}

pub(crate) fn f16(target: &Target) -> Outcome {
    halves(target, Element::F16)
}

/// Rows and columns around fragments of 8 and 16 and tiles of 64, and everything that is done to sums.
fn matrices(target: &Target, element: Element) -> Outcome {
    let of = |slots, n, k| Problem {
        element,
        ..problem(slots, 3, n, k)
    };
    let sorted = of(70, 64, 36);
    let gated = Problem {
        gated: true,
        activation: Some(Activation::Silu),
        ..of(130, 48, 32)
    };
    let problems = [
        of(1, 1, 4),
        of(7, 31, 12),
        of(64, 64, 64),
        of(65, 65, 20),
        of(200, 130, 256),
        Problem {
            bias: true,
            activation: Some(Activation::Gelu),
            ..of(33, 20, 12)
        },
        Problem {
            activation: Some(Activation::Relu),
            ..sorted
        },
        gated,
        Problem {
            bias: true,
            ..gated
        },
        Problem {
            rows: Source::Sorted,
            ..sorted
        },
        Problem {
            layout: WeightLayout::InOut,
            ..sorted
        },
        Problem {
            layout: WeightLayout::InOut,
            ..of(129, 68, 100)
        },
        Problem {
            element,
            ..Problem::new(90, 4, 3, 24, 32).unwrap()
        },
        Problem {
            element,
            ..Problem::dense(70, 24, 32).unwrap()
        },
    ];
    let by_matrices = |product: Product| product.check_by(target, &[Variant::TensorCore]);
    let one_expert = Product::new(of(100, 24, 16), &[2; 100]);
    let all = problems.into_iter().map(Product::random);
    Outcome::of(all.chain([one_expert]).map(by_matrices))
}

pub(crate) fn matrices_f16(target: &Target) -> Outcome {
    matrices(target, Element::F16)
}

pub(crate) fn matrices_bf16(target: &Target) -> Outcome {
    matrices(target, Element::Bf16)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    halves(target, Element::Bf16)
}
