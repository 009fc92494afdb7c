//! The experts on Flex.

use super::StageClock;
use crate::ops::host::{
    Floats, Operands, Rows, cast_like, float_tensor, floats, matrices, segments,
};
use crate::ops::tensors::Value;
use burn::backend::Flex;
use moebius_host::experts::{self as host, Stage, Weights};
use moebius_host::permute::Segments;
use moebius_ops::Experts as Operation;
use moebius_ops::experts::Problem;

/// What both passes read.
struct Inputs {
    segments: Segments,
    x: Rows,
    weights: Vec<f32>,
    w_in: Rows,
    w_out: Rows,
    biases: [Floats; 2],
}

impl Inputs {
    /// Without a sort all rows are the one expert's of a dense network, with a weight of 1.
    fn of(b: &mut Operands, problem: &Problem) -> Self {
        let weights = b.maybe_float("weights");
        Self {
            segments: segments(b, problem.row_bound),
            x: b.float("x").to_contiguous(),
            weights: weights.map_or_else(|| vec![1.0; problem.row_bound], floats),
            w_in: b.float("w_in").to_contiguous(),
            w_out: b.float("w_out").to_contiguous(),
            biases: ["b_in", "b_out"].map(|name| Floats::of(b, name)),
        }
    }

    fn operands(&self) -> host::Operands<'_> {
        host::Operands {
            segments: &self.segments,
            x: matrices(&self.x),
            weights: &self.weights,
            experts: Weights {
                w_in: matrices(&self.w_in),
                w_out: matrices(&self.w_out),
                biases: self.biases.each_ref().map(Floats::maybe),
            },
        }
    }
}

pub(in crate::ops) fn run(
    operation: &Operation,
    clock: Option<&StageClock>,
    b: Operands,
) -> Vec<Value<Flex>> {
    let results = match operation {
        Operation::Forward { problem, keep } => forward(problem, *keep, clock, b),
        Operation::Backward {
            problem,
            x,
            weights,
            ..
        } => gradients(problem, [*x, *weights], b),
    };
    results.into_iter().map(Value::Float).collect()
}

/// y, and the first product before its activation where it is kept.
fn forward(
    problem: &Problem,
    keep: bool,
    clock: Option<&StageClock>,
    mut b: Operands,
) -> Vec<Rows> {
    let inputs = Inputs::of(&mut b, problem);
    let ended = clock.map(|clock| move |stage| clock.mark(named(stage)));
    let ended = ended.as_ref().map(|ended| ended as &dyn Fn(Stage));
    let (y, pre) = host::forward(problem, &inputs.operands(), keep, ended);
    let y = float_tensor(y, &[problem.routing.tokens(), problem.hidden]);
    let shape = [problem.row_bound, problem.columns_in()];
    let pre = pre.map(|pre| float_tensor(pre, &shape));
    let results = [y].into_iter().chain(pre);
    let dtype = inputs.x.dtype();
    results.map(|result| cast_like(result, dtype)).collect()
}

fn named(stage: Stage) -> moebius_shaders::Stage {
    match stage {
        Stage::FirstProduct => moebius_shaders::Stage::Gemm1,
        Stage::SecondProduct => moebius_shaders::Stage::Gemm2,
        Stage::Combine => moebius_shaders::Stage::Combine,
    }
}

/// Gradients of x where it is needed, of the router weights where there are any, and of weights and biases where they are needed.
fn gradients(problem: &Problem, needs: [bool; 2], mut b: Operands) -> Vec<Rows> {
    let [dy, pre] = ["dy", "pre"].map(|name| Floats::of(&mut b, name));
    let inputs = Inputs::of(&mut b, problem);
    let dtype = inputs.x.dtype();
    let found = host::backward(
        problem,
        &inputs.operands(),
        (dy.values(), pre.maybe()),
        needs,
    );
    let (routing, experts) = (problem.routing, problem.routing.experts());
    let (hidden, columns) = (problem.hidden, problem.columns_in());
    let tensor = |values, shape: &[usize]| cast_like(float_tensor(values, shape), dtype);
    let x = found.x.map(|x| tensor(x, &[routing.tokens(), hidden]));
    let mut all: Vec<Rows> = x.into_iter().collect();
    if !problem.dense {
        let slots = [routing.tokens(), routing.top_k()];
        all.push(float_tensor(found.weights, &slots));
    }
    if let Some(of) = found.experts {
        all.push(tensor(of.w_in, &[experts, columns, hidden]));
        all.push(tensor(of.w_out, &[experts, hidden, problem.inter]));
        if problem.bias {
            all.push(tensor(of.b_in, &[experts, columns]));
            all.push(tensor(of.b_out, &[experts, hidden]));
        }
    }
    all
}
