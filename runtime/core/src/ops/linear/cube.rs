//! Products per expert as kernels.

use super::{LinearCall, LinearGradientOps, LinearGradients, LinearOps, Needs};
use crate::ops::buffers::{cast_like, empty_like, handle, planned};
use crate::ops::{Grouping, Maybe};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::moe::linear;

impl LinearOps for CubeBackend {
    fn moe_grouped_linear(
        rows: CubeTensor,
        w: CubeTensor,
        bias: Maybe<Self>,
        grouping: Grouping<Self>,
        call: LinearCall,
    ) -> CubeTensor {
        let client = rows.client.clone();
        let p = &call.problem;
        let y = empty_like(&rows, [p.row_bound, p.n], rows.dtype);
        let buffers = linear::Buffers {
            rows: handle(rows),
            w: handle(w),
            bias: bias.into_option().map(handle),
            segments: grouping.segments(),
            y: y.handle.clone(),
        };
        checked(&client, &[&y.handle], || {
            linear::launch(&client, &planned(call.plan), buffers);
        });
        y
    }
}

impl LinearGradientOps for CubeBackend {
    fn moe_grouped_linear_backward(
        dy: CubeTensor,
        rows: CubeTensor,
        w: CubeTensor,
        grouping: Grouping<Self>,
        needs: Needs,
        call: LinearCall,
    ) -> LinearGradients<Self> {
        let client = dy.client.clone();
        let (p, dtype) = (&call.problem, w.dtype);
        let drows = needs
            .rows
            .then(|| empty_like(&dy, [p.row_bound, p.k], dy.dtype));
        let dw = needs
            .w
            .then(|| empty_like(&dy, [p.experts, p.n, p.k], DType::F32));
        let dbias = needs
            .bias
            .then(|| empty_like(&dy, [p.experts, p.n], DType::F32));
        let of = |tensor: &Option<CubeTensor>| tensor.as_ref().map(|t| t.handle.clone());
        let buffers = linear::GradientBuffers {
            dy: handle(dy),
            rows: handle(rows),
            w: handle(w),
            segments: grouping.segments(),
            drows: of(&drows),
            dw: of(&dw),
            dbias: of(&dbias),
        };
        let outputs = [&drows, &dw, &dbias].into_iter().flatten();
        let outputs: Vec<_> = outputs.map(|tensor| &tensor.handle).collect();
        checked(&client, &outputs, || {
            linear::launch_backward(&client, &planned(call.plan), buffers);
        });
        LinearGradients {
            rows: drows.into(),
            w: dw.map(|w| cast_like(w, dtype)).into(),
            bias: dbias.map(|b| cast_like(b, dtype)).into(),
        }
    }
}
