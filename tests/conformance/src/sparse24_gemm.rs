//! Products with 2:4 weights: against the f64 oracle, and bit for bit against the same variant on the dense weights.

use crate::grouped_gemm::{Product, variants, with};
use crate::{Outcome, operation};
use moebius_ops::grouped_gemm::sparse24::{Packed, decoded, largest, pack};
use moebius_ops::grouped_gemm::{Problem, Source, Stored, WeightLayout};
use moebius_ops::{Element, GroupedGemm, HostTensor};
use moebius_shaders::ProductHow;
use moebius_shaders::grouped_gemm::Variant;
use moebius_tests::target::Target;
use moebius_tests::tolerance::rel_l2;

/// A product with 2:4 weights, and the same product with all values, 0 among them.
struct Sparse {
    dense: Product,
    packed: Packed,
}

impl Sparse {
    /// Keeps the larger half of random weights.
    fn random(problem: Problem) -> Self {
        let mut dense = Product::random(problem);
        let [_, width] = problem.weight_rows();
        let mask = largest(&dense.weights).unwrap();
        let packed = pack(&dense.weights, &mask, width).unwrap();
        dense.weights = decoded(&packed.kept, &packed.places, width);
        Self { dense, packed }
    }

    /// The description of the product, or of the gradient of its rows, of which `dense` has the problem.
    fn operation(&self) -> (GroupedGemm, Vec<HostTensor>) {
        let problem = Problem {
            stored: Stored::Sparse24,
            ..self.dense.problem
        };
        let (x, sorted) = (HostTensor::of_f32(&self.dense.x), &self.dense.sorted);
        let kept = HostTensor::of_f32(&self.packed.kept);
        let weights = [kept, self.packed.places.clone().into()];
        let offsets = (!problem.dense).then(|| sorted.offsets.clone().into());
        let bias = self.dense.bias.as_deref().map(HostTensor::of_f32);
        match problem.layout {
            WeightLayout::OutIn => {
                let operands = [x].into_iter().chain(weights).chain(offsets).chain(bias);
                (GroupedGemm::Linear(problem), operands.collect())
            }
            WeightLayout::InOut => {
                let forward = Problem {
                    n: problem.k,
                    k: problem.n,
                    layout: WeightLayout::OutIn,
                    ..problem
                };
                // The gradient of the rows reads none of them.
                let rows = vec![0.0; forward.input_rows() * forward.k];
                let rows = HostTensor::of_f32(&rows);
                let operands = [x, rows].into_iter().chain(weights).chain(offsets);
                let backward = GroupedGemm::LinearBackward {
                    problem: forward,
                    rows: true,
                    w: false,
                    bias: false,
                };
                (backward, operands.collect())
            }
        }
    }

    /// Compares these variants with the oracle and, on a device of CubeCL, with the dense weights.
    fn check(&self, target: &Target, variants: &[Variant]) -> Outcome {
        let (described, operands) = self.operation();
        let tolerance = rel_l2(self.dense.problem.element);
        // Without kernels there are no variants.
        let variants = match target.client() {
            Some(_) => variants,
            None => &variants[..1],
        };
        Outcome::of(variants.iter().map(|variant| {
            let how = ProductHow {
                variant: Some(*variant),
                ..ProductHow::default()
            };
            let outcome = operation::check_by(target, described, &how, &operands, |_| tolerance);
            if let (Some(client), Outcome::Ran) = (target.client(), &outcome) {
                let got = operation::run_by(target, &described, &how, &operands);
                let got = got.unwrap().remove(0);
                let got = got.floats()[..self.dense.used()]
                    .iter()
                    .map(|value| *value as f32);
                let want = self
                    .dense
                    .run(&client, target.capability(), *variant)
                    .unwrap();
                let want = want.into_iter().map(f32::to_bits).take(self.dense.used());
                let same = want.eq(got.map(f32::to_bits));
                assert!(
                    same,
                    "{variant:?} of {described:?}: other bits than those of the dense weights"
                );
            }
            outcome
        }))
    }
}

fn sorted(slots: usize, n: usize, k: usize) -> Problem {
    let problem = Problem::new(slots, 3, 1, n, k).unwrap();
    with(problem, |p| p.rows = Source::Sorted)
}

fn in_out(problem: Problem) -> Problem {
    with(problem, |p| p.layout = WeightLayout::InOut)
}

/// A dense product with a bias.
fn biased(m: usize, n: usize, k: usize) -> Problem {
    with(Problem::dense(m, n, k).unwrap(), |p| p.bias = true)
}

/// The gradient of the m rows of a dense product with n columns and k inner columns.
fn back(m: usize, n: usize, k: usize) -> Problem {
    in_out(Problem::dense(m, k, n).unwrap())
}

/// Checks sizes around groups, words of places, registers and tiles.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let sizes = [
        (1, 1, 4),
        (5, 63, 28),
        (9, 64, 32),
        (3, 65, 36),
        (70, 200, 392),
    ];
    let both = |(m, n, k)| [biased(m, n, k), back(m, n, k)];
    let uneven = [sorted(150, 70, 64), in_out(sorted(150, 64, 70))];
    let all = sizes.into_iter().flat_map(both).chain(uneven);
    let check = |problem| Sparse::random(problem).check(target, variants(target));
    Outcome::of(all.map(check))
}

pub(crate) fn halves(target: &Target, element: Element) -> Outcome {
    let problems = [biased(70, 70, 132), sorted(70, 70, 132), back(70, 70, 132)];
    Outcome::of(problems.map(|problem| {
        let problem = with(problem, |p| p.element = element);
        Sparse::random(problem).check(target, variants(target))
    }))
}

/// Checks matrix instructions, which load groups of two or four at a time.
pub(crate) fn matrices(target: &Target, element: Element) -> Outcome {
    let sizes = [(65, 68, 40), (129, 24, 136)];
    by(target, element, Variant::TensorCore, sizes)
}

/// Checks the pipelines, whose chunks of kept weights are those of two chunks of dense weights.
pub(crate) fn pipelines(target: &Target, element: Element) -> Outcome {
    let sizes = [(65, 72, 48), (300, 272, 144)];
    by(target, element, Variant::Pipelined, sizes)
}

/// Checks products of these rows, columns and inner columns, and the gradients of their rows.
fn by(
    target: &Target,
    element: Element,
    variant: Variant,
    sizes: [(usize, usize, usize); 2],
) -> Outcome {
    if target.client().is_none() {
        return Outcome::Unsupported("no kernels".to_owned());
    }
    let each = |(m, n, k)| [biased(m, n, k), sorted(m, n, k), back(m, n, k)];
    Outcome::of(sizes.into_iter().flat_map(each).map(|problem| {
        let problem = with(problem, |p| p.element = element);
        Sparse::random(problem).check(target, &[variant])
    }))
}
