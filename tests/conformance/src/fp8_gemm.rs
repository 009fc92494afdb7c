//! Products with FP8 weights: against the f64 oracle on the decoded weights, and bit for bit against
//! the same variant on the decoded weights in f32.

use crate::Outcome;
use crate::grouped_gemm::{Product, variants};
use moebius_ops::Element;
use moebius_ops::fp8::{Fp8Format, pack};
use moebius_ops::grouped_gemm::{Activation, Problem, Source, fp8};
use moebius_ops::scaling::{E8M0_ONE, Fp8Scheme, Granularity};
use moebius_shaders::grouped_gemm::Variant;
use moebius_tests::data::Rng;
use moebius_tests::target::Target;

const FORMATS: [Fp8Format; 2] = [Fp8Format::E4M3, Fp8Format::E5M2];

const fn block(rows: usize, columns: usize) -> Granularity {
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

pub(crate) fn with_codes(problem: Problem, format: Fp8Format, granularity: Granularity) -> Problem {
    let weights = Fp8Scheme {
        format,
        granularity,
    };
    Problem {
        fp8: Some(weights),
        ..problem
    }
}

/// Random finite codes, with scales that keep a product of k of them near 1.
pub(crate) fn coded(mut product: Product) -> Product {
    let problem = product.problem;
    let Some(Fp8Scheme {
        format,
        granularity,
    }) = problem.fp8
    else {
        unreachable!("a product with codes");
    };
    let mut rng = Rng::new((problem.n * 7 + problem.k) as u64);
    let rows = problem.experts * problem.parts() * problem.n;
    let mut codes = || -> Vec<u8> {
        let code = |code: usize| (code as u8 & 0x80) | (code as u8 & 0x7F).min(format.max_code());
        (0..problem.k).map(|_| code(rng.below(256))).collect()
    };
    let words: Vec<u32> = (0..rows).flat_map(|_| pack(&codes())).collect();
    let bound = (3.0 / problem.k as f32).sqrt() / format.max();
    let scales: Vec<u32> = match granularity {
        Granularity::Mx => {
            let exponent = bound.log2() as i32 + i32::from(E8M0_ONE);
            let byte = |rng: &mut Rng| (exponent + rng.below(5) as i32 - 2) as u32;
            let word = |rng: &mut Rng| (0..4).fold(0, |word, _| word << 8 | byte(rng));
            (0..fp8::scale_words(&problem))
                .map(|_| word(&mut rng))
                .collect()
        }
        _ => {
            let scales = rng.vec(fp8::scale_words(&problem), 0.5);
            scales
                .iter()
                .map(|s| ((1.0 + s) * bound).to_bits())
                .collect()
        }
    };
    let panels = fp8::to_panels(&problem, &words);
    product.weights = fp8::decoded(&problem, &panels, &scales);
    product.codes = Some([panels, scales]);
    product
}

/// Against the oracle, and against the decoded weights.
fn check(product: Product, target: &Target) -> Outcome {
    let mut product = coded(product);
    let outcome = product.check(target);
    let (Some(client), Outcome::Ran) = (target.client(), &outcome) else {
        return outcome;
    };
    let run = |product: &Product| {
        variants(target)
            .iter()
            .map(|variant| product.run(&client, target.capability(), *variant).unwrap())
            .collect::<Vec<_>>()
    };
    let got = run(&product);
    // Weights of 16-bit types would be rounded.
    if product.problem.element == Element::F32 {
        product.codes = None;
        product.problem.fp8 = None;
        for (variant, (got, want)) in variants(target).iter().zip(got.iter().zip(run(&product))) {
            let same = got
                .iter()
                .zip(&want)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{variant:?}: codes and decoded weights differ");
        }
    }
    outcome
}

/// Every format and kind of scale, in sizes around words, registers, panels and blocks.
pub(crate) fn scales(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 1),
        (5, 63, 31),
        (9, 64, 128),
        (3, 65, 130),
        (70, 200, 391),
    ];
    let dense = |(m, n, k)| Problem::dense(m, n, k).unwrap();
    let mut outcomes = Vec::new();
    for format in FORMATS {
        for granularity in GRANULARITIES {
            for size in sizes {
                let problem = with_codes(dense(size), format, granularity);
                outcomes.push(check(Product::random(problem), target));
            }
        }
    }
    let biased = Problem {
        bias: true,
        ..dense((9, 64, 128))
    };
    let biased = with_codes(biased, Fp8Format::E5M2, Granularity::Tensor);
    outcomes.push(check(Product::random(biased), target));
    Outcome::of(outcomes)
}

/// Every format and kind of scale by matrix instructions, which take codes times their scales in the element type.
fn matrices(target: &Target, element: Element) -> Outcome {
    let mut outcomes = Vec::new();
    for format in FORMATS {
        for granularity in GRANULARITIES {
            for (m, n, k) in [(1, 1, 4), (5, 63, 36), (70, 200, 392)] {
                let dense = Problem {
                    element,
                    ..Problem::dense(m, n, k).unwrap()
                };
                let product = coded(Product::random(with_codes(dense, format, granularity)));
                outcomes.push(product.check_by(target, &[Variant::TensorCore]));
            }
        }
    }
    let gated = Problem {
        element,
        gated: true,
        activation: Some(Activation::Silu),
        ..Problem::new(90, 4, 3, 24, 32).unwrap()
    };
    let gated = with_codes(gated, Fp8Format::E4M3, Granularity::Row);
    let gated = coded(Product::random(gated));
    outcomes.push(gated.check_by(target, &[Variant::TensorCore]));
    Outcome::of(outcomes)
}

pub(crate) fn matrices_f16(target: &Target) -> Outcome {
    matrices(target, Element::F16)
}

pub(crate) fn matrices_bf16(target: &Target) -> Outcome {
    matrices(target, Element::Bf16)
}

/// Few rows, many rows, and the same row among others.
pub(crate) fn rows(target: &Target) -> Outcome {
    let coded = |m| {
        let problem = with_codes(
            Problem::dense(m, 100, 68).unwrap(),
            Fp8Format::E4M3,
            block(128, 128),
        );
        coded(Product::random(problem))
    };
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let all = coded(40);
    for variant in variants(target) {
        let run = |product: &Product| product.run(&client, target.capability(), *variant).unwrap();
        let want = run(&all);
        for m in [1, 2, 4, 5, 8, 9, 17] {
            let mut some = coded(m);
            some.x = all.x[..m * 68].to_vec();
            assert_eq!(run(&some), want[..m * 100], "{variant:?}: {m} rows");
        }
    }
    Outcome::of([1, 2, 3, 4, 5, 8, 9, 63, 65].map(|m| coded(m).check(target)))
}

/// Experts with uneven rows; gates, activations, biases; tokens and sorted rows.
pub(crate) fn experts(target: &Target) -> Outcome {
    let sparse = |slots, n, k| Problem::new(slots, 5, 1, n, k).unwrap();
    let keys: Vec<u32> = (0..150)
        .map(|s| if s % 9 == 0 { 5 } else { s % 2 * 3 })
        .collect();
    let mut outcomes = Vec::new();
    for granularity in GRANULARITIES {
        let gated = Problem {
            gated: true,
            bias: granularity != Granularity::Row,
            activation: Some(Activation::Silu),
            ..sparse(90, 48, 36)
        };
        let odd = Problem {
            gated: true,
            activation: Some(Activation::Gelu),
            ..sparse(33, 37, 130)
        };
        let sorted = Problem {
            rows: Source::Sorted,
            bias: granularity != Granularity::Mx,
            ..sparse(150, 70, 64)
        };
        let coded = |problem| with_codes(problem, Fp8Format::E4M3, granularity);
        outcomes.push(check(Product::random(coded(gated)), target));
        outcomes.push(check(Product::random(coded(odd)), target));
        outcomes.push(check(Product::new(coded(sorted), &keys), target));
        let shared = Problem::new(90, 4, 3, 24, 32).unwrap();
        outcomes.push(check(Product::random(coded(shared)), target));
    }
    Outcome::of(outcomes)
}

/// Every code, NaN and infinities among them: a column of one code times 1 is its value.
pub(crate) fn every_code(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    for format in FORMATS {
        let problem = with_codes(Problem::dense(1, 256, 1).unwrap(), format, Granularity::Row);
        let words: Vec<u32> = (0..256).collect();
        let panels = fp8::to_panels(&problem, &words);
        let scales = vec![1.0f32.to_bits(); 256];
        let weights = fp8::decoded(&problem, &panels, &scales);
        for rows in [1, 20] {
            let problem = Problem {
                slots: rows,
                row_bound: rows,
                ..problem
            };
            let mut product = Product::random(problem);
            product.x.fill(1.0);
            product.codes = Some([panels.clone(), scales.clone()]);
            for variant in variants(target) {
                let got = product.run(&client, target.capability(), *variant).unwrap();
                for (got, (code, want)) in got.iter().zip(weights.iter().enumerate().cycle()) {
                    let same = got == want || got.is_nan() && want.is_nan();
                    assert!(
                        same,
                        "{variant:?} {format:?} code {code:#x}: {got}, not {want}"
                    );
                }
            }
        }
    }
    Outcome::Ran
}

/// Scales the format allows and arithmetic rarely meets.
pub(crate) fn e8m0_scales(target: &Target) -> Outcome {
    let Some(client) = target.client() else {
        return Outcome::Unsupported("no kernels".into());
    };
    let problem = with_codes(
        Problem::dense(1, 255, 32).unwrap(),
        Fp8Format::E4M3,
        Granularity::Mx,
    );
    let mut codes = [0; 32];
    codes[0] = 0x38;
    let words: Vec<u32> = (0..255).flat_map(|_| pack(&codes)).collect();
    let panels = fp8::to_panels(&problem, &words);
    // 2⁻¹²⁷ is left out: devices may flush it.
    let scales: Vec<u32> = (1..=255).collect();
    let mut product = Product::random(problem);
    product.x = vec![1.0; 32];
    product.weights = fp8::decoded(&problem, &panels, &scales);
    product.codes = Some([panels, scales]);
    for variant in variants(target) {
        let got = product.run(&client, target.capability(), *variant).unwrap();
        for (byte, got) in (1..255).zip(&got) {
            assert_eq!(*got, f32::from_bits(byte << 23), "{variant:?}: byte {byte}");
        }
        assert!(got[254].is_nan(), "{variant:?}: a NaN scale");
    }
    Outcome::Ran
}

fn half(element: Element, target: &Target) -> Outcome {
    let dense = Problem {
        element,
        ..Problem::dense(21, 70, 132).unwrap()
    };
    let gated = Problem {
        element,
        gated: true,
        activation: Some(Activation::Silu),
        ..Problem::new(60, 3, 2, 40, 64).unwrap()
    };
    let large = block(128, 128);
    let products = [(dense, large), (gated, large), (gated, Granularity::Row)];
    Outcome::of(products.map(|(problem, granularity)| {
        let coded = with_codes(problem, Fp8Format::E4M3, granularity);
        check(Product::random(coded), target)
    }))
}

pub(crate) fn f16(target: &Target) -> Outcome {
    half(Element::F16, target)
}

pub(crate) fn bf16(target: &Target) -> Outcome {
    half(Element::Bf16, target)
}
