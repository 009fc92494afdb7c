//! Moved rows as kernels.

use super::{CombineGradients, NeighboursCall, RowsCall, RowsGradients, RowsOps};
use crate::ops::buffers::{empty_like, handle, planned};
use crate::ops::{Maybe, Sorted};
use burn::tensor::DType;
use burn_cubecl::CubeBackend;
use burn_cubecl::tensor::CubeTensor;
use moebius_shaders::checked;
use moebius_shaders::permute::combine::{self, CombineBuffers};
use moebius_shaders::permute::dispatch::{self, DispatchBuffers};
use moebius_shaders::permute::neighbours::{self, NeighboursBuffers};
use moebius_shaders::permute::weights_gradient::{self, WeightsGradientBuffers};

impl RowsOps for CubeBackend {
    fn moe_gather(x: CubeTensor, sorted: Sorted<Self>, call: RowsCall) -> CubeTensor {
        let client = x.client.clone();
        let p = &call.problem;
        let rows = empty_like(&x, [p.row_bound(), p.width()], x.dtype);
        let buffers = DispatchBuffers {
            order: handle(sorted.order),
            offsets: handle(sorted.offsets),
            weights: None,
            x: handle(x),
            rows: rows.handle.clone(),
        };
        checked(&client, &[&rows.handle], || {
            dispatch::launch(&client, &planned(call.plan), buffers);
        });
        rows
    }

    fn moe_combine(
        rows: CubeTensor,
        weights: Maybe<Self>,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> CubeTensor {
        let client = rows.client.clone();
        let p = &call.problem;
        let y = empty_like(&rows, [p.tokens(), p.width()], rows.dtype);
        let buffers = CombineBuffers {
            positions: handle(sorted.positions),
            weights: weights.into_option().map(handle),
            rows: handle(rows),
            y: y.handle.clone(),
        };
        checked(&client, &[&y.handle], || {
            combine::launch(&client, &planned(call.plan), buffers);
        });
        y
    }

    fn moe_neighbours(rows: CubeTensor, sorted: Sorted<Self>, call: NeighboursCall) -> CubeTensor {
        let client = rows.client.clone();
        let p = &call.problem;
        let wide = empty_like(&rows, [p.row_bound(), 3 * p.width()], rows.dtype);
        let buffers = NeighboursBuffers {
            order: handle(sorted.order),
            offsets: handle(sorted.offsets),
            narrow: handle(rows),
            wide: wide.handle.clone(),
        };
        checked(&client, &[&wide.handle], || {
            neighbours::launch(&client, &planned(call.plan), buffers);
        });
        wide
    }
}

impl RowsGradients for CubeBackend {
    fn moe_combine_backward(
        dy: CubeTensor,
        rows: CubeTensor,
        weights: CubeTensor,
        sorted: Sorted<Self>,
        call: RowsCall,
    ) -> CombineGradients<Self> {
        let client = dy.client.clone();
        let (p, plan) = (&call.problem, planned(call.plan));
        let gradients: CombineGradients<Self> = CombineGradients {
            rows: empty_like(&rows, [p.row_bound(), p.width()], rows.dtype),
            weights: empty_like(&dy, [p.tokens(), p.top_k()], DType::F32),
        };
        let dy = handle(dy);
        let spread = DispatchBuffers {
            order: handle(sorted.order),
            offsets: handle(sorted.offsets),
            weights: Some(handle(weights)),
            x: dy.clone(),
            rows: gradients.rows.handle.clone(),
        };
        let dots = WeightsGradientBuffers {
            positions: handle(sorted.positions),
            dy,
            rows: handle(rows),
            dweights: gradients.weights.handle.clone(),
        };
        let outputs = [&gradients.rows.handle, &gradients.weights.handle];
        checked(&client, &outputs, || {
            dispatch::launch(&client, &plan, spread);
            weights_gradient::launch(&client, &plan, dots);
        });
        gradients
    }

    fn moe_neighbours_backward(
        dy: CubeTensor,
        sorted: Sorted<Self>,
        call: NeighboursCall,
    ) -> CubeTensor {
        let client = dy.client.clone();
        let p = &call.problem;
        let narrow = empty_like(&dy, [p.row_bound(), p.width()], dy.dtype);
        let buffers = NeighboursBuffers {
            order: handle(sorted.order),
            offsets: handle(sorted.offsets),
            narrow: narrow.handle.clone(),
            wide: handle(dy),
        };
        checked(&client, &[&narrow.handle], || {
            neighbours::launch_backward(&client, &planned(call.plan), buffers);
        });
        narrow
    }
}
