//! Products with FP8 weights, against the f64 oracle on the decoded weights, and bit for bit against the same variant on the
//! decoded weights in f32.

use crate::grouped_gemm::{Product, gated_by, variants, with};
use crate::{Outcome, operation};
use moebius_ops::fp8::{Fp8Format, pack};
use moebius_ops::grouped_gemm::{Activation, Problem, Source, Stored, WeightLayout, fp8};
use moebius_ops::scaling::{E8M0_ONE, Fp8Scheme, Granularity};
use moebius_ops::{Element, GroupedGemm, HostTensor};
use moebius_shaders::ProductHow;
use moebius_shaders::grouped_gemm::Variant;
use moebius_tests::data::Rng;
use moebius_tests::target::Target;
use moebius_tests::tolerance::rel_l2;

pub(crate) const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];

pub(crate) const fn block(rows: usize, columns: usize) -> Granularity {
    Granularity::Block { rows, columns }
}

const GRANULARITIES: [Granularity; 6] = [
    Granularity::Tensor,
    Granularity::Row,
    block(128, 128),
    block(1, 128),
    block(3, 12),
    Granularity::Mx,
];

/// Dense sizes around words, registers, panels and blocks.
const SIZES: [(usize, usize, usize); 5] = [
    (1, 1, 1),
    (5, 63, 31),
    (9, 64, 128),
    (3, 65, 130),
    (70, 200, 391),
];

pub(crate) fn with_codes(problem: Problem, format: Fp8Format, granularity: Granularity) -> Problem {
    let weights = Fp8Scheme {
        format,
        granularity,
    };
    Problem {
        stored: Stored::Fp8(weights),
        ..problem
    }
}

/// Asks for this variant; a plan without it is refused.
fn by(variant: Variant) -> ProductHow {
    ProductHow {
        variant: Some(variant),
        ..ProductHow::default()
    }
}

/// A product with FP8 codes as weights, and the same product with the decoded weights.
pub(crate) struct Coded {
    problem: Problem,
    decoded: Product,
    panels: Vec<u32>,
    scales: Vec<u32>,
}

impl Coded {
    /// Replaces a product's weights by these codes and scales.
    fn of(mut product: Product, words: &[u32], scales: Vec<u32>) -> Self {
        let problem = product.problem;
        let panels = fp8::to_panels(&problem, words);
        product.weights = fp8::decoded(&problem, &panels, &scales);
        product.problem.stored = Stored::Values;
        Self {
            problem,
            decoded: product,
            panels,
            scales,
        }
    }

    /// Draws random finite codes, with scales that keep a product of length k near 1.
    fn new(product: Product) -> Self {
        let problem = product.problem;
        let Some(Fp8Scheme {
            format,
            granularity,
        }) = problem.stored.fp8()
        else {
            unreachable!("a product with codes");
        };
        let mut rng = Rng::new((problem.n * 7 + problem.k) as u64);
        let [rows, columns] = problem.weight_rows();
        let rows = problem.experts * rows;
        let code = |code: usize| (code as u8 & 0x80) | (code as u8 & 0x7F).min(format.max_code());
        let mut codes = || -> Vec<u8> { (0..columns).map(|_| code(rng.below(256))).collect() };
        let words: Vec<u32> = (0..rows).flat_map(|_| pack(&codes())).collect();
        let bound = (3.0 / problem.k as f32).sqrt() / format.max();
        let count = fp8::scale_words(&problem);
        let scales: Vec<u32> = match granularity {
            Granularity::Mx => {
                let exponent = bound.log2() as i32 + i32::from(E8M0_ONE);
                let byte = |rng: &mut Rng| (exponent + rng.below(5) as i32 - 2) as u32;
                let word = |rng: &mut Rng| (0..4).fold(0, |word, _| word << 8 | byte(rng));
                (0..count).map(|_| word(&mut rng)).collect()
            }
            _ => {
                let scales = rng.vec(count, 0.5).into_iter();
                scales.map(|s| ((1.0 + s) * bound).to_bits()).collect()
            }
        };
        Self::of(product, &words, scales)
    }

    /// Draws random codes, and a random expert for every slot.
    pub(crate) fn random(problem: Problem) -> Self {
        Self::new(Product::random(problem))
    }

    fn operation(&self) -> GroupedGemm {
        described(self.problem)
    }

    fn operands(&self) -> Vec<HostTensor> {
        let product = &self.decoded;
        let scales = match self.problem.stored.fp8().map(|codes| codes.granularity) {
            Some(Granularity::Mx) => HostTensor::Words(self.scales.clone()),
            _ => {
                let scales = self.scales.iter().map(|bits| f32::from_bits(*bits));
                HostTensor::of_f32(&scales.collect::<Vec<_>>())
            }
        };
        let mut operands = vec![
            HostTensor::of_f32(&product.x),
            self.panels.clone().into(),
            scales,
        ];
        if !self.problem.dense {
            operands.push(product.sorted.order.clone().into());
            operands.push(product.sorted.offsets.clone().into());
        }
        operands.extend(product.bias.as_deref().map(HostTensor::of_f32));
        operands
    }

    /// The bits of the output rows that have a slot.
    pub(crate) fn bits(&self, target: &Target, how: ProductHow) -> Vec<u32> {
        let got = operation::run_by(target, &self.operation(), &how, &self.operands());
        let HostTensor::Floats(got) = got.unwrap().remove(0) else {
            panic!("words");
        };
        let used = got[..self.decoded.used()].iter();
        used.map(|value| (*value as f32).to_bits()).collect()
    }

    /// Compares these variants with the oracle.
    fn check_by(&self, target: &Target, variants: &[Variant], tolerance: f64) -> Outcome {
        let operands = self.operands();
        Outcome::of(variants.iter().map(|variant| {
            let how = by(*variant);
            operation::check_by(target, self.operation(), &how, &operands, |_| tolerance)
        }))
    }

    /// Compares every variant with the oracle and with the decoded weights.
    fn check(&self, target: &Target) -> Outcome {
        let element = self.problem.element;
        let outcome = self.check_by(target, variants(target), rel_l2(element));
        // The comparison bit for bit needs f32: 16-bit types would round the decoded weights.
        if element != Element::F32 {
            return outcome;
        }
        let client = target.client().unwrap();
        for variant in variants(target) {
            let want = self.decoded.run(&client, target.capability(), *variant);
            let want = want.unwrap().into_iter().take(self.decoded.used());
            let same = want.map(f32::to_bits).eq(self.bits(target, by(*variant)));
            assert!(same, "{variant:?}: codes and decoded weights differ");
        }
        outcome
    }
}

/// The product with codes, or the gradient of the rows of which it is the product.
pub(crate) fn described(problem: Problem) -> GroupedGemm {
    match problem.layout {
        WeightLayout::OutIn => GroupedGemm::CodedLinear(problem),
        WeightLayout::InOut => GroupedGemm::CodedLinearBackward {
            problem: Problem {
                n: problem.k,
                k: problem.n,
                layout: WeightLayout::OutIn,
                ..problem
            },
            x: true,
            bias: false,
        },
    }
}

/// The gradient of the m rows of a dense product with n columns and k inner columns.
pub(crate) fn back((m, n, k): (usize, usize, usize)) -> Problem {
    with(Problem::dense(m, k, n).unwrap(), |p| {
        p.layout = WeightLayout::InOut;
    })
}

/// The gradient of the rows of experts with 70 columns and 64 inner columns, and the rows' experts, of which some have none.
pub(crate) fn back_of_experts() -> (Problem, Vec<u32>) {
    let uneven = Problem::new(150, 5, 1, 64, 70).unwrap();
    let uneven = with(uneven, |p| {
        (p.rows, p.layout) = (Source::Sorted, WeightLayout::InOut);
    });
    let keys = (0..150).map(|s| if s % 9 == 0 { 5 } else { s % 2 * 3 });
    (uneven, keys.collect())
}

/// Checks the products for the gradients of rows, which read the panels of the forward across.
pub(crate) fn in_out(target: &Target) -> Outcome {
    let (uneven, keys) = back_of_experts();
    let e4m3 = GRANULARITIES.map(|granularity| (Fp8Format::E4M3, granularity));
    let schemes = e4m3
        .into_iter()
        .chain([(Fp8Format::E5M2, Granularity::Row)]);
    let mut outcomes = Vec::new();
    for (format, granularity) in schemes {
        let coded = |problem| with_codes(problem, format, granularity);
        for size in SIZES {
            outcomes.push(Coded::random(coded(back(size))).check(target));
        }
        let sorted = Product::new(coded(uneven), &keys);
        outcomes.push(Coded::new(sorted).check(target));
    }
    Outcome::of(outcomes)
}

/// Checks every format and kind of scale, in sizes around words, registers, panels and blocks.
pub(crate) fn scales(target: &Target) -> Outcome {
    let dense = |(m, n, k)| Problem::dense(m, n, k).unwrap();
    let mut outcomes = Vec::new();
    for format in FORMATS {
        for granularity in GRANULARITIES {
            for size in SIZES {
                let problem = with_codes(dense(size), format, granularity);
                outcomes.push(Coded::random(problem).check(target));
            }
        }
    }
    let biased = with(dense((9, 64, 128)), |p| p.bias = true);
    let biased = with_codes(biased, Fp8Format::E5M2, Granularity::Tensor);
    outcomes.push(Coded::random(biased).check(target));
    Outcome::of(outcomes)
}

/// Checks every format and kind of scale with matrix instructions, whose operands are codes times scales in the element type.
pub(crate) fn matrices(target: &Target, element: Element) -> Outcome {
    let sizes = [(1, 1, 4), (5, 63, 36), (70, 200, 392)];
    check_by(target, element, Variant::TensorCore, &sizes)
}

/// Checks codes through the pipelines.
pub(crate) fn pipelines(target: &Target, element: Element) -> Outcome {
    check_by(target, element, Variant::Pipelined, &[(70, 200, 392)])
}

/// Checks `variant` with every format and granularity in dense products of these sizes, and with gated experts.
fn check_by(
    target: &Target,
    element: Element,
    variant: Variant,
    sizes: &[(usize, usize, usize)],
) -> Outcome {
    let typed = |problem| with(problem, |p| p.element = element);
    let check =
        |problem: Problem| Coded::random(problem).check_by(target, &[variant], rel_l2(element));
    let mut outcomes = Vec::new();
    for format in FORMATS {
        for granularity in GRANULARITIES {
            for &(m, n, k) in sizes {
                let dense = typed(Problem::dense(m, n, k).unwrap());
                outcomes.push(check(with_codes(dense, format, granularity)));
            }
        }
    }
    let shared = typed(Problem::new(90, 4, 3, 24, 32).unwrap());
    let gated = gated_by(Activation::Silu, shared);
    outcomes.push(check(with_codes(gated, Fp8Format::E4M3, Granularity::Row)));
    let turned = typed(back((70, 392, 200)));
    outcomes.push(check(with_codes(turned, Fp8Format::E4M3, block(128, 128))));
    Outcome::of(outcomes)
}

/// Checks few rows, many rows, and that a row's result doesn't depend on the others.
pub(crate) fn rows(target: &Target) -> Outcome {
    let coded = |m| {
        let dense = Problem::dense(m, 100, 68).unwrap();
        Coded::random(with_codes(dense, Fp8Format::E4M3, block(128, 128)))
    };
    let all = coded(40);
    for variant in variants(target) {
        let want = all.bits(target, by(*variant));
        for m in [1, 2, 4, 5, 8, 9, 17] {
            let mut some = coded(m);
            some.decoded.x = all.decoded.x[..m * 68].to_vec();
            let got = some.bits(target, by(*variant));
            assert_eq!(got, want[..m * 100], "{variant:?}: {m} rows");
        }
    }
    Outcome::of([1, 2, 3, 4, 5, 8, 9, 63, 65].map(|m| coded(m).check(target)))
}

/// Checks uneven experts, gates, activations, biases, token rows and sorted rows.
pub(crate) fn experts(target: &Target) -> Outcome {
    let sparse = |slots, n, k| Problem::new(slots, 5, 1, n, k).unwrap();
    let keys: Vec<u32> = (0..150)
        .map(|s| if s % 9 == 0 { 5 } else { s % 2 * 3 })
        .collect();
    let mut outcomes = Vec::new();
    for granularity in GRANULARITIES {
        let gated = gated_by(Activation::Silu, sparse(90, 48, 36));
        let gated = with(gated, |p| p.bias = granularity != Granularity::Row);
        let odd = gated_by(Activation::Gelu, sparse(33, 37, 130));
        let sorted = with(sparse(150, 70, 64), |p| p.rows = Source::Sorted);
        let sorted = with(sorted, |p| p.bias = granularity != Granularity::Mx);
        let shared = Problem::new(90, 4, 3, 24, 32).unwrap();
        let coded = |problem| with_codes(problem, Fp8Format::E4M3, granularity);
        for product in [
            Product::random(coded(gated)),
            Product::random(coded(odd)),
            Product::new(coded(sorted), &keys),
            Product::random(coded(shared)),
        ] {
            outcomes.push(Coded::new(product).check(target));
        }
    }
    Outcome::of(outcomes)
}

/// Checks every code, NaN and infinities included: a column of one code times 1 is the code's value.
pub(crate) fn every_code(target: &Target) -> Outcome {
    let words: Vec<u32> = (0..256).collect();
    let runs = FORMATS.into_iter().flat_map(|format| {
        [1, 20].map(|rows| {
            let dense = Problem::dense(rows, 256, 1).unwrap();
            let mut product = Product::random(with_codes(dense, format, Granularity::Row));
            product.x.fill(1.0);
            let coded = Coded::of(product, &words, vec![1.0f32.to_bits(); 256]);
            coded.check_by(target, variants(target), 0.0)
        })
    });
    Outcome::of(runs)
}

/// Checks the E8M0 scales from 2⁻¹²⁶ to 2¹²⁷, and NaN.
pub(crate) fn e8m0_scales(target: &Target) -> Outcome {
    let dense = Problem::dense(1, 255, 32).unwrap();
    let mut product = Product::random(with_codes(dense, Fp8Format::E4M3, Granularity::Mx));
    product.x.fill(1.0);
    // The first code of each row is 1, and the others are 0.
    let mut codes = [0; 32];
    codes[0] = 0x38;
    let words: Vec<u32> = (0..255).flat_map(|_| pack(&codes)).collect();
    // 2⁻¹²⁷ is left out: it is subnormal, and devices may flush it.
    let coded = Coded::of(product, &words, (1..=255).collect());
    coded.check_by(target, variants(target), 0.0)
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    let dense = with(Problem::dense(21, 70, 132).unwrap(), |p| {
        p.element = element
    });
    let shared = with(Problem::new(60, 3, 2, 40, 64).unwrap(), |p| {
        p.element = element
    });
    let gated = gated_by(Activation::Silu, shared);
    let large = block(128, 128);
    let turned = with(back((21, 70, 132)), |p| p.element = element);
    let products = [
        (dense, large),
        (gated, large),
        (gated, Granularity::Row),
        (turned, large),
    ];
    Outcome::of(products.map(|(problem, granularity)| {
        let coded = with_codes(problem, Fp8Format::E4M3, granularity);
        Coded::random(coded).check(target)
    }))
}
