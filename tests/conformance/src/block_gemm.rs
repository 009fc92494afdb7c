//! Products with weights in blocks of codes: against the f64 oracle, bit for bit against the same variant on the decoded weights, and on
//! blocks that another program has written and decoded.

use crate::fp8_gemm::{back, back_of_experts, described};
use crate::grouped_gemm::{Product, gated_by, variants, with};
use crate::tensors::case_file;
use crate::{Outcome, operation};
use half::{bf16, f16};
use moebius_device::Runtime;
use moebius_ops::blocks::{BlockFormat, Levels, Scales};
use moebius_ops::grouped_gemm::{Activation, Problem, Source, Stored};
use moebius_ops::{Element, HostTensor};
use moebius_shaders::ProductHow;
use moebius_shaders::grouped_gemm::Variant;
use moebius_tests::data::Rng;
use moebius_tests::target::Target;
use moebius_tests::tolerance::{assert_close, rel_l2};
use moebius_weights::gguf::GgmlType;

/// A product with weights in blocks, and the same product with the decoded weights.
struct Blocks {
    problem: Problem,
    decoded: Product,
    words: Vec<u32>,
}

impl Blocks {
    /// Replaces a product's weights by these blocks.
    fn of(mut decoded: Product, format: BlockFormat, bytes: &[u8]) -> Self {
        let problem = Problem {
            stored: Stored::Blocks(format),
            ..decoded.problem
        };
        let [_, columns] = problem.weight_rows();
        let words = format.to_words(bytes, columns).unwrap();
        decoded.weights = format.decoded(&words, columns);
        Self {
            problem,
            decoded,
            words,
        }
    }

    /// Draws random blocks.
    fn random(problem: Problem, format: BlockFormat) -> Self {
        Self::new(Product::random(problem), format)
    }

    /// Replaces a product's weights by random blocks.
    fn new(product: Product, format: BlockFormat) -> Self {
        let [rows, columns] = product.problem.weight_rows();
        let bytes = random_blocks(format, [product.problem.experts * rows, columns]);
        Self::of(product, format, &bytes)
    }

    fn operands(&self) -> Vec<HostTensor> {
        let product = &self.decoded;
        let mut operands = vec![HostTensor::of_f32(&product.x), self.words.clone().into()];
        if !self.problem.dense {
            operands.push(product.sorted.order.clone().into());
            operands.push(product.sorted.offsets.clone().into());
        }
        operands.extend(product.bias.as_deref().map(HostTensor::of_f32));
        operands
    }

    /// The output rows that have a slot.
    fn run(&self, target: &Target, variant: Variant) -> Vec<f32> {
        let described = described(self.problem);
        let got = operation::run_by(target, &described, &by(variant), &self.operands());
        let got = got.unwrap().remove(0);
        let used = &got.floats()[..self.decoded.used()];
        used.iter().map(|value| *value as f32).collect()
    }

    /// Compares these variants with the oracle and, without matrix instructions in f32 on a device of CubeCL, with the decoded weights.
    fn check(&self, target: &Target, variants: &[Variant]) -> Outcome {
        let (element, operands) = (self.problem.element, self.operands());
        // Without kernels there are no variants.
        let variants = match target.client() {
            Some(_) => variants,
            None => &variants[..1],
        };
        Outcome::of(variants.iter().map(|&variant| {
            let described = described(self.problem);
            let tolerance = |_: &str| rel_l2(element);
            let outcome =
                operation::check_by(target, described, &by(variant), &operands, tolerance);
            if let (Some(client), Outcome::Ran, Element::F32) = (target.client(), &outcome, element)
            {
                let want = self.decoded.run(&client, target.capability(), variant);
                let want = want.unwrap().into_iter().take(self.decoded.used());
                let got = self.run(target, variant).into_iter().map(f32::to_bits);
                assert!(
                    got.eq(want.map(f32::to_bits)),
                    "{variant:?} of {described:?}: other bits than those of the decoded weights"
                );
            }
            outcome
        }))
    }
}

/// Asks for this variant; a plan without it is refused.
fn by(variant: Variant) -> ProductHow {
    ProductHow {
        variant: Some(variant),
        ..ProductHow::default()
    }
}

/// Random codes of a matrix \[rows, k\], with scales that keep a product of length k near 1.
pub(crate) fn random_blocks(format: BlockFormat, [rows, k]: [usize; 2]) -> Vec<u8> {
    let mut rng = Rng::new((rows * 7 + k) as u64);
    let count = rows * format.row_bytes(k);
    let mut bytes: Vec<u8> = (0..count).map(|_| rng.below(256) as u8).collect();
    let (layout, bound) = (format.layout(), (3.0 / k as f32).sqrt());
    for row in bytes.chunks_mut(format.row_bytes(k)) {
        let (head, blocks) = row.split_at_mut(4 * format.head());
        if !head.is_empty() {
            // With both signs, which say where neighbours of products lie.
            let sign = [1.0, -1.0][rng.below(2)];
            let scale = sign * bound / 8.0 * (1.0 + rng.vec(1, 0.5)[0]);
            head.copy_from_slice(&scale.to_le_bytes());
        }
        for block in blocks.chunks_mut(layout.bytes) {
            if layout.levels.are_numbers() {
                put_numbers(block, layout.levels, bound, &mut rng);
            } else {
                put_scales(block, layout.scales, bound, &mut rng);
            }
        }
    }
    bytes
}

/// Writes a block of random numbers of 16 bits up to `bound`, of both signs.
fn put_numbers(block: &mut [u8], levels: Levels, bound: f32, rng: &mut Rng) {
    let values = rng.vec(block.len() / 2, bound);
    for (pair, value) in block.as_chunks_mut().0.iter_mut().zip(values) {
        *pair = match levels {
            Levels::F16 => f16::from_f32(value).to_le_bytes(),
            _ => bf16::from_f32(value).to_le_bytes(),
        };
    }
}

/// The columns of a row of so many blocks; numbers of 16 bits have more of their small ones.
fn columns(format: BlockFormat, blocks: usize) -> usize {
    let layout = format.layout();
    let more = if layout.levels.are_numbers() { 5 } else { 1 };
    more * blocks * layout.values
}

/// Writes random scales of a block whose values are then of the size `bound`, and a minimum.
fn put_scales(block: &mut [u8], scales: Scales, bound: f32, rng: &mut Rng) {
    let mut half = |at: usize, over: f32| {
        let scale = bound / over * (1.0 + rng.vec(1, 0.5)[0]);
        block[at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    };
    match scales {
        Scales::None => {}
        Scales::Half { least } => {
            half(0, 64.0);
            if least {
                half(2, -2.0);
            }
        }
        Scales::Exponent => {
            let exponent = 128 + (bound / 8.0).log2() as i32 + rng.below(3) as i32;
            block[0] = exponent as u8;
        }
        Scales::SixBits => {
            half(0, 600.0);
            half(2, 60.0);
        }
        Scales::EightBits { all, .. } => half(all, 2000.0),
        Scales::Upper => {
            let scale = bound / 16.0 * (1.0 + rng.vec(1, 0.5)[0]);
            let [_, low, middle, upper] = scale.to_le_bytes();
            // The zero is random, too.
            block[0] = block[0] & 15 | low & 0xF0;
            block[1..3].copy_from_slice(&[middle, upper]);
        }
        Scales::Fp8 => {
            // From a half to almost 2, or without an implicit bit, or a neighbour of such a product.
            for scale in &mut block[..2] {
                let code = match rng.below(8) {
                    0 => 1 + rng.below(7),
                    _ => 0x30 + rng.below(16),
                };
                *scale = *scale & 0x80 | code as u8;
            }
        }
    }
}

/// Checks every format, in sizes around rows, registers, tiles and blocks; that of Q8_0 with a bias.
pub(crate) fn formats(target: &Target) -> Outcome {
    let all = BlockFormat::ALL.into_iter().flat_map(|format| {
        let sizes = [(1, 5, 1), (5, 63, 1), (9, 64, 2), (3, 65, 3), (70, 130, 2)];
        sizes.map(|(m, n, blocks)| {
            let problem = Problem::dense(m, n, columns(format, blocks)).unwrap();
            let bias = format == BlockFormat::Q8_0;
            Blocks::random(with(problem, |p| p.bias = bias), format)
        })
    });
    Outcome::of(all.map(|blocks| blocks.check(target, variants(target))))
}

/// Checks gates, activations, biases, token rows and sorted rows, with experts that have no row.
pub(crate) fn experts(target: &Target) -> Outcome {
    let gated = gated_by(Activation::Silu, Problem::new(90, 4, 3, 24, 256).unwrap());
    let odd = gated_by(Activation::Silu, Problem::new(33, 5, 1, 37, 96).unwrap());
    let sorted = with(Problem::new(150, 5, 1, 70, 512).unwrap(), |p| {
        (p.rows, p.bias) = (Source::Sorted, true);
    });
    let products = [
        (gated, BlockFormat::Q4K),
        (gated, BlockFormat::Mxfp4),
        (odd, BlockFormat::Nvfp4),
        (odd, BlockFormat::Bf16),
        (sorted, BlockFormat::Q6K),
    ];
    Outcome::of(products.map(|(problem, format)| {
        let blocks = Blocks::random(problem, format);
        blocks.check(target, variants(target))
    }))
}

/// Checks the products for the gradients of rows, which read the blocks of the forward across, in every format.
pub(crate) fn in_out(target: &Target) -> Outcome {
    let mut outcomes = Vec::new();
    for format in BlockFormat::ALL {
        for (m, n, blocks) in [(1, 1, 1), (9, 64, 3), (70, 130, 2)] {
            let problem = back((m, n, columns(format, blocks)));
            outcomes.push(Blocks::random(problem, format).check(target, variants(target)));
        }
    }
    let (uneven, keys) = back_of_experts();
    let experts = [
        (BlockFormat::Q8_0, 64),
        (BlockFormat::Mxfp4, 64),
        (BlockFormat::Q4K, 256),
    ];
    for (format, n) in experts {
        let problem = with(uneven, |p| p.n = n);
        let blocks = Blocks::new(Product::new(problem, &keys), format);
        outcomes.push(blocks.check(target, variants(target)));
    }
    Outcome::of(outcomes)
}

/// Checks that a row's result doesn't depend on the others, from one row to more than a tile.
pub(crate) fn rows(target: &Target) -> Outcome {
    let of = |m| Blocks::random(Problem::dense(m, 100, 64).unwrap(), BlockFormat::Q5_1);
    let all = of(70);
    let ordered = target.capability().runtime != Runtime::Xla;
    for variant in variants(target).iter().filter(|_| ordered) {
        let want = all.run(target, *variant);
        for m in [1, 2, 4, 5, 8, 9, 17] {
            let mut some = of(m);
            some.decoded.x = all.decoded.x[..m * 64].to_vec();
            let got = some.run(target, *variant);
            assert_eq!(got, want[..m * 100], "{variant:?}: {m} rows");
        }
    }
    of(70).check(target, variants(target))
}

/// Checks blocks of the Python package `gguf`: their product with the unit matrix is what that package decodes them to.
pub(crate) fn of_another_program(target: &Target) -> Outcome {
    let file = case_file("gguf/blocks.safetensors");
    let exact = target.capability().runtime != Runtime::Xla;
    let all = BlockFormat::ALL.into_iter();
    for format in all.filter(|format| GgmlType::of_blocks(*format).is_some()) {
        let name = format.name().to_uppercase();
        let want = file.read_f32(&format!("{name}.values")).unwrap();
        let k = format.layout().values;
        let n = want.len() / k;
        let mut bytes = vec![0; n * format.layout().bytes];
        let read = file.read_part(&format!("{name}.bytes"), 0, &mut bytes);
        read.unwrap();
        let mut product = Product::random(Problem::dense(k, n, k).unwrap());
        for (at, x) in product.x.iter_mut().enumerate() {
            *x = f32::from(u8::from(at % k == at / k));
        }
        let blocks = Blocks::of(product, format, &bytes);
        let turned = (0..k * n).map(|at| f64::from(want[at % n * k + at / n]));
        let turned: Vec<f64> = turned.collect();
        let tolerance = if exact { 0.0 } else { 1e-6 };
        let all = variants(target);
        let all = if target.client().is_some() {
            all
        } else {
            &all[..1]
        };
        for variant in all {
            assert_close(&name, &blocks.run(target, *variant), &turned, tolerance);
        }
    }
    Outcome::Ran
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    by_variants(target, element, variants(target), [(21, 70), (60, 40)])
}

/// Checks matrix instructions, whose operands are decoded weights in the element type.
pub(crate) fn matrices(target: &Target, element: Element) -> Outcome {
    let sizes = [(65, 70), (129, 24)];
    with_kernels(target, element, Variant::TensorCore, sizes)
}

/// Checks the pipelines, whose chunks are eight values.
pub(crate) fn pipelines(target: &Target, element: Element) -> Outcome {
    let sizes = [(65, 72), (300, 136)];
    with_kernels(target, element, Variant::Pipelined, sizes)
}

fn with_kernels(
    target: &Target,
    element: Element,
    variant: Variant,
    sizes: [(usize, usize); 2],
) -> Outcome {
    if target.client().is_none() {
        return Outcome::Unsupported("no kernels".to_owned());
    }
    by_variants(target, element, &[variant], sizes)
}

/// Checks dense products with a bias and gated experts of these rows and columns, and a gradient of as many rows.
fn by_variants(
    target: &Target,
    element: Element,
    variants: &[Variant],
    sizes: [(usize, usize); 2],
) -> Outcome {
    Outcome::of(sizes.into_iter().flat_map(|(m, n)| {
        let dense = with(Problem::dense(m, n, 96).unwrap(), |p| p.bias = true);
        let experts = gated_by(Activation::Silu, Problem::new(m, 3, 1, n, 256).unwrap());
        let all = [
            (dense, BlockFormat::Q8_0),
            (experts, BlockFormat::Q4K),
            (back((m, 96, 256)), BlockFormat::Q8_0),
        ];
        all.map(|(problem, format)| {
            let problem = with(problem, |p| p.element = element);
            Blocks::random(problem, format).check(target, variants)
        })
    }))
}
