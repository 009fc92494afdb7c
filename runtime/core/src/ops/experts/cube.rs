//! The experts as kernels.

use super::{
    ExpertGradients, ExpertWeights, ExpertsCall, ExpertsGradients, ExpertsOps, Forward, Needs,
    StageClock, Trained,
};
use crate::ops::buffers::{cast_like, empty_like, handle, planned};
use crate::ops::{Maybe, Sorted};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_shaders::checked;
use moebius_shaders::moe::{self, training};

impl ExpertWeights<CubeBackend> {
    fn buffers(self) -> moe::Weights {
        moe::Weights {
            w_in: handle(self.w_in),
            b_in: self.b_in.into_option().map(handle),
            w_out: handle(self.w_out),
            b_out: self.b_out.into_option().map(handle),
        }
    }
}

/// Notes the end of every stage; the device is waited for.
fn marker<'a>(clock: &'a Option<StageClock>, client: &'a Client) -> impl FnMut(moe::Stage) + 'a {
    move |stage| {
        if let Some(clock) = clock {
            // A device error shows at the caller's next read; the clock only needs the wait.
            let _ = cubecl::future::block_on(client.sync());
            clock.mark(stage);
        }
    }
}

impl ExpertsOps for CubeBackend {
    fn moe_experts(
        x: CubeTensor,
        weights: CubeTensor,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> CubeTensor {
        let client = x.client.clone();
        let p = &call.problem;
        let y = empty_like(&x, [p.routing.tokens(), p.hidden], x.dtype);
        let buffers = moe::Buffers {
            x: handle(x),
            weights: handle(weights),
            sorted: sorted.buffers(),
            experts: experts.buffers(),
            y: y.handle.clone(),
        };
        checked(&client, &[&y.handle], || {
            let done = &mut marker(&call.run.clock, &client);
            moe::launch(&client, &planned(call.plan), buffers, done);
        });
        y
    }
}

impl ExpertsGradients for CubeBackend {
    fn moe_experts_keeping(
        x: CubeTensor,
        weights: CubeTensor,
        sorted: Sorted<Self>,
        experts: ExpertWeights<Self>,
        call: ExpertsCall,
    ) -> Trained<Self> {
        let client = x.client.clone();
        let p = &call.problem;
        let trained: Trained<Self> = Trained {
            y: empty_like(&x, [p.routing.tokens(), p.hidden], x.dtype),
            pre: empty_like(&x, [p.row_bound, p.columns_in()], x.dtype),
        };
        let buffers = moe::Buffers {
            x: handle(x),
            weights: handle(weights),
            sorted: sorted.buffers(),
            experts: experts.buffers(),
            y: trained.y.handle.clone(),
        };
        let plans = (&planned(call.plan), &planned(call.training));
        let (y, pre) = (&trained.y.handle, &trained.pre.handle);
        checked(&client, &[y, pre], || {
            let done = &mut marker(&call.run.clock, &client);
            training::launch_keeping(&client, plans, buffers, pre.clone(), done);
        });
        trained
    }

    fn moe_experts_backward(
        dy: CubeTensor,
        forward: Forward<Self>,
        needs: Needs,
        call: ExpertsCall,
    ) -> ExpertGradients<Self> {
        let client = dy.client.clone();
        let dtype = forward.x.dtype;
        let gradients = Gradients::empty(&dy, needs, &call.problem);
        let buffers = moe::Buffers {
            x: handle(forward.x),
            weights: handle(forward.weights),
            sorted: forward.sorted.buffers(),
            experts: forward.experts.buffers(),
            y: handle(dy),
        };
        let pre = forward.pre.into_option().map(handle);
        let out = gradients.buffers();
        checked(&client, &gradients.handles(), || {
            training::launch_backward(&client, &planned(call.training), buffers, pre, out);
        });
        gradients.into_results(dtype)
    }
}

/// Tensors of a backward pass's results; those of weights are f32 whatever the weights are.
struct Gradients {
    x: Option<CubeTensor>,
    weights: CubeTensor,
    w: Option<[CubeTensor; 2]>,
    b: Option<[CubeTensor; 2]>,
}

impl Gradients {
    fn empty(dy: &CubeTensor, needs: Needs, p: &moebius_ops::moe::Problem) -> Self {
        let r = &p.routing;
        let (e, h, f, columns) = (r.experts(), p.hidden, p.inter, p.columns_in());
        let stack = |rows, columns| empty_like(dy, [e, rows, columns], DType::F32);
        let biases = |columns| empty_like(dy, [e, columns], DType::F32);
        Self {
            x: needs.x.then(|| empty_like(dy, [r.tokens(), h], dy.dtype)),
            weights: empty_like(dy, [r.tokens(), r.top_k()], DType::F32),
            w: needs.experts.then(|| [stack(columns, h), stack(h, f)]),
            b: (needs.experts && p.bias).then(|| [biases(columns), biases(h)]),
        }
    }

    fn buffers(&self) -> training::Gradients {
        let of = |tensor: &CubeTensor| tensor.handle.clone();
        let bias = |at: usize| self.b.as_ref().map(|b| of(&b[at]));
        training::Gradients {
            x: self.x.as_ref().map(of),
            weights: of(&self.weights),
            experts: self.w.as_ref().map(|w| training::WeightGradients {
                w_in: of(&w[0]),
                w_out: of(&w[1]),
                b_in: bias(0),
                b_out: bias(1),
            }),
        }
    }

    fn handles(&self) -> Vec<&Handle> {
        let pairs = [&self.w, &self.b].into_iter().flatten().flatten();
        let tensors = self.x.iter().chain([&self.weights]).chain(pairs);
        tensors.map(|tensor| &tensor.handle).collect()
    }

    fn into_results(self, dtype: DType) -> ExpertGradients<CubeBackend> {
        let pair = |tensors: Option<[CubeTensor; 2]>| match tensors {
            Some(tensors) => tensors.map(|t| Maybe::Present(cast_like(t, dtype))),
            None => [Maybe::Absent, Maybe::Absent],
        };
        let [w_in, w_out] = pair(self.w);
        let [b_in, b_out] = pair(self.b);
        ExpertGradients {
            x: self.x.into(),
            weights: self.weights,
            w_in,
            w_out,
            b_in,
            b_out,
        }
    }
}
