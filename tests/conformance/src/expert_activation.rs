//! The activation of an expert's rows, forward and backward, against the f64 oracle.

use crate::Outcome;
use crate::grouped_gemm::random_keys;
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_ops::expert_activation::output_bias as of_bias;
use moebius_ops::expert_activation::{Problem, reference, reference_backward};
use moebius_ops::grouped_gemm::Activation;
use moebius_ops::{Element, permute};
use moebius_shaders::expert_activation::{
    self, BackwardBuffers, ForwardBuffers, GradientBuffers, Plan, output_bias, plan,
};
use moebius_tests::data::Rng;
use moebius_tests::elements::{download, exact, rounded, unwritten, upload};
use moebius_tests::target::{Target, download_f32, nans, upload_f32, upload_u32};
use moebius_tests::tolerance::{assert_close, rel_l2};

const ACTIVATIONS: [Option<Activation>; 7] = [
    None,
    Some(Activation::Relu),
    Some(Activation::Gelu),
    Some(Activation::Silu),
    Some(Activation::Mish),
    Some(Activation::Clamped),
    Some(Activation::GeluTanh),
];

/// Rows with their routing; elements that no oracle reads are NaN.
struct Batch {
    problem: Problem,
    sorted: permute::Sorted,
    weights: Vec<f32>,
    pre: Vec<f32>,
    dhidden: Vec<f32>,
}

impl Batch {
    /// Random rows for slots with these keys; keys of at least `experts` stand for no expert.
    fn new(keys: &[u32], experts: usize, problem: Problem) -> Self {
        let mut rng = Rng::new((keys.len() * 7 + problem.hidden_len()) as u64);
        let sorted = permute::reference(keys, experts);
        let live = sorted.offsets[experts] as usize;
        let mut rows = |len: usize| {
            let mut values = rounded(rng.vec(len, 4.0), problem.element());
            values[live * len / problem.row_bound()..].fill(f32::NAN);
            values
        };
        let (pre, dhidden) = (rows(problem.pre_len()), rows(problem.hidden_len()));
        let mut weights = rng.vec(keys.len(), 1.0);
        weights.iter_mut().step_by(5).for_each(|w| *w = 0.0);
        Self {
            problem,
            sorted,
            weights,
            pre,
            dhidden,
        }
    }

    fn random(slots: usize, experts: usize, problem: Problem) -> Self {
        Self::new(&random_keys(slots, experts), experts, problem)
    }

    /// Runs the three kernels and compares each with the oracle.
    fn check(&self, target: &Target) -> Outcome {
        let client = target.client().unwrap();
        let plan = match plan(self.problem, target.capability()) {
            Ok(plan) => plan,
            Err(error) => return Outcome::Unsupported(error.to_string()),
        };
        let order = upload_u32(&client, &self.sorted.order);
        let offsets = upload_u32(&client, &self.sorted.offsets);
        self.check_forward(&client, &plan, Some(offsets.clone()));
        self.check_backward(&client, &plan, order, &offsets);
        self.check_gradient(&client, &plan, Some(offsets));
        Outcome::Ran
    }

    fn check_forward(&self, client: &Client, plan: &Plan, offsets: Option<Handle>) {
        let (p, element) = (&self.problem, self.problem.element());
        let hidden = unwritten(client, p.hidden_len(), element);
        let buffers = ForwardBuffers {
            pre: upload(client, &self.pre, element),
            offsets,
            hidden: hidden.clone(),
        };
        expert_activation::launch(client, plan, buffers);
        let got = download(client, hidden, p.hidden_len(), element);
        let want = reference(p, &self.sorted, &exact(&self.pre));
        assert_close(&format!("hidden of {p:?}"), &got, &want, rel_l2(element));
    }

    fn check_backward(&self, client: &Client, plan: &Plan, order: Handle, offsets: &Handle) {
        let (p, element) = (&self.problem, self.problem.element());
        let buffers = BackwardBuffers {
            pre: upload(client, &self.pre, element),
            dhidden: upload(client, &self.dhidden, element),
            order,
            offsets: offsets.clone(),
            weights: upload_f32(client, &self.weights),
            dpre: unwritten(client, p.pre_len(), element),
            dweights: nans(client, p.slots()),
        };
        expert_activation::launch_backward(client, plan, buffers.clone());
        let want = reference_backward(
            p,
            &self.sorted,
            &exact(&self.weights),
            &exact(&self.pre),
            &exact(&self.dhidden),
        );
        let close = |what: &str, got: Vec<f32>, want: &[f64], element| {
            assert_close(&format!("{what} of {p:?}"), &got, want, rel_l2(element));
        };
        let dpre = download(client, buffers.dpre, p.pre_len(), element);
        close("dpre", dpre, &want.dpre, element);
        let weighted = download(client, buffers.dhidden, p.hidden_len(), element);
        close("w · hidden", weighted, &want.weighted, element);
        let dweights = download_f32(client, buffers.dweights, p.slots());
        close("dweights", dweights, &want.dweights, Element::F32);
    }

    fn check_gradient(&self, client: &Client, plan: &Plan, offsets: Option<Handle>) {
        let (p, element) = (&self.problem, self.problem.element());
        let buffers = GradientBuffers {
            pre: upload(client, &self.pre, element),
            dhidden: upload(client, &self.dhidden, element),
            offsets,
            dpre: unwritten(client, p.pre_len(), element),
        };
        expert_activation::launch_gradient(client, plan, buffers.clone());
        let got = download(client, buffers.dpre, p.pre_len(), element);
        let want = reference_backward(
            p,
            &self.sorted,
            &vec![1.0; p.slots()],
            &exact(&self.pre),
            &exact(&self.dhidden),
        );
        let what = format!("gradient of {p:?}");
        assert_close(&what, &got, &want.dpre, rel_l2(element));
    }
}

fn silu(slots: usize, experts: usize, inter: usize) -> Problem {
    let problem = Problem::new(slots, experts, inter).unwrap();
    problem.with_activation(Some(Activation::Silu), true)
}

/// Checks numbers of rows around a cube's units, and of columns around a vector's lanes and 64 vectors of four.
pub(crate) fn sizes(target: &Target) -> Outcome {
    let sizes = [1, 3, 16, 63, 64, 65, 252, 255, 256, 260, 1024];
    Outcome::of(sizes.map(|inter| {
        let slots = 1 + inter % 70;
        Batch::random(slots, 3, silu(slots, 3, inter)).check(target)
    }))
}

pub(crate) fn activations(target: &Target) -> Outcome {
    let both = ACTIVATIONS
        .into_iter()
        .flat_map(|of| [(of, false), (of, true)]);
    Outcome::of(both.map(|(activation, gated)| {
        let problem = silu(40, 4, 48).with_activation(activation, gated);
        let mut batch = Batch::random(40, 4, problem);
        if activation == Some(Activation::Clamped) {
            // Values beyond the limits of the clamp.
            batch.pre.iter_mut().for_each(|value| *value *= 4.0);
        }
        batch.check(target)
    }))
}

/// Checks that for inputs of large magnitude the gradient is 0 or dhidden itself, even where intermediate values overflow.
pub(crate) fn far_out(target: &Target) {
    let client = target.client().unwrap();
    let far = [1e18, -1e18, 1e4, -1e4, 90.0, -90.0, 21.0, -21.0];
    for activation in ACTIVATIONS {
        let problem = silu(1, 1, far.len()).with_activation(activation, false);
        let mut batch = Batch::new(&[0], 1, problem);
        batch.pre = far.to_vec();
        let plan = plan(problem, target.capability()).unwrap();
        let offsets = upload_u32(&client, &batch.sorted.offsets);
        batch.check_gradient(&client, &plan, Some(offsets));
    }
}

/// Checks slots without an expert, experts without rows, and fewer rows than slots.
pub(crate) fn uneven_experts(target: &Target) -> Outcome {
    let keys: Vec<u32> = (0..90).map(|s| [6, 2, 9, 4][s % 4]).collect();
    let bounded = |rows: usize| silu(90, 6, 20).with_row_bound(rows).unwrap();
    Outcome::of([
        Batch::new(&[5; 33], 6, silu(33, 6, 20)).check(target),
        Batch::new(&[6; 33], 6, silu(33, 6, 20)).check(target),
        Batch::new(&keys, 6, silu(90, 6, 20)).check(target),
        Batch::new(&keys, 6, bounded(45)).check(target),
        Batch::new(&keys, 6, bounded(61)).check(target),
    ])
}

/// Checks the rows of a dense network, whose kernels read no offsets.
pub(crate) fn dense(target: &Target) {
    let client = target.client().unwrap();
    for (rows, inter) in [(1, 1), (3, 20), (65, 64), (130, 257)] {
        let batch = Batch::new(&vec![0; rows], 1, silu(rows, 1, inter));
        let plan = plan(batch.problem, target.capability()).unwrap();
        batch.check_forward(&client, &plan, None);
        batch.check_gradient(&client, &plan, None);
    }
}

/// Checks more rows than a device allows cubes along x.
pub(crate) fn many_rows(target: &Target) -> Outcome {
    let slots = 66_000;
    Batch::random(slots, 2, silu(slots, 2, 4)).check(target)
}

/// Checks that ⟨dy, b⟩ is added to the existing weight gradient, and that slots without an expert keep theirs.
pub(crate) fn output_bias(target: &Target) -> Outcome {
    let cases = [
        (3, 2, 1),
        (64, 8, 60),
        (65, 300, 257),
        (130, 1, 1024),
        (70, 5, 64),
    ];
    Outcome::of(cases.map(|(tokens, experts, hidden)| {
        check_output_bias(target, [tokens, experts, hidden], Element::F32)
    }))
}

fn check_output_bias(
    target: &Target,
    [tokens, experts, hidden]: [usize; 3],
    element: Element,
) -> Outcome {
    let client = target.client().unwrap();
    let (top_k, slots) = (2, 2 * tokens);
    let mut rng = Rng::new((tokens + hidden) as u64);
    // A third of the experts get no slots, and some slots have no expert.
    let keys: Vec<u32> = (0..slots)
        .map(|_| rng.below(experts + 1) as u32)
        .map(|e| if e % 3 == 1 { e - 1 } else { e })
        .collect();
    let problem = of_bias::Problem::new(slots, experts, top_k, hidden);
    let problem = problem.unwrap().with_element(element);
    let plan = match output_bias::plan(problem, target.capability()) {
        Ok(plan) => plan,
        Err(error) => return Outcome::Unsupported(error.to_string()),
    };
    let sorted = permute::reference(&keys, experts);
    let dy = rounded(rng.vec(tokens * hidden, 1.0), element);
    let bias = rounded(rng.vec(experts * hidden, 1.0), element);
    let dweights = rng.vec(slots, 1.0);
    let buffers = output_bias::Buffers {
        dy: upload(&client, &dy, element),
        bias: upload(&client, &bias, element),
        order: upload_u32(&client, &sorted.order),
        offsets: upload_u32(&client, &sorted.offsets),
        dweights: upload_f32(&client, &dweights),
    };
    output_bias::launch(&client, &plan, buffers.clone());
    let mut want = of_bias::reference(&problem, &sorted, &exact(&dy), &exact(&bias));
    for (sum, before) in want.iter_mut().zip(&dweights) {
        *sum += f64::from(*before);
    }
    let got = download_f32(&client, buffers.dweights, slots);
    let what = format!("dweights of {problem:?}");
    assert_close(&what, &got, &want, rel_l2(Element::F32));
    Outcome::Ran
}

pub(crate) fn empty_batch(target: &Target) {
    let problem = silu(0, 2, 8);
    let client = target.client().unwrap();
    let plan = plan(problem, target.capability()).unwrap();
    let buffer = nans(&client, 1);
    let buffers = BackwardBuffers {
        pre: buffer.clone(),
        dhidden: buffer.clone(),
        order: buffer.clone(),
        offsets: buffer.clone(),
        weights: buffer.clone(),
        dpre: buffer.clone(),
        dweights: buffer.clone(),
    };
    expert_activation::launch_backward(&client, &plan, buffers);
    assert!(download_f32(&client, buffer, 1)[0].is_nan());
}

pub(crate) fn of_element(target: &Target, element: Element) -> Outcome {
    let mut runs = vec![check_output_bias(target, [40, 3, 96], element)];
    for activation in ACTIVATIONS {
        for (gated, inter) in [(true, 33), (false, 96)] {
            let problem = silu(50, 3, inter).with_activation(activation, gated);
            let problem = problem.with_element(element);
            runs.push(Batch::random(50, 3, problem).check(target));
        }
    }
    Outcome::of(runs)
}
