//! Products on Flex: Burn's matmul, expert by expert.

use super::{LinearCall, LinearGradientOps, LinearGradients, LinearOps, Needs};
use crate::ops::host::{cast_like, expert, matmul, rows_of, to_f32};
use crate::ops::rows::host::Segments;
use crate::ops::{Grouping, Maybe};
use burn::backend::Flex;
use burn::backend::tensor::FloatTensor;

type Rows = FloatTensor<Flex>;

impl LinearOps for Flex {
    fn moe_grouped_linear(
        rows: Rows,
        w: Rows,
        bias: Maybe<Self>,
        grouping: Grouping<Self>,
        call: LinearCall,
    ) -> Rows {
        let segments = Segments::grouped(grouping, call.problem.row_bound);
        let dtype = rows.dtype();
        let rows = segments.unpadded(to_f32(rows));
        let y = segments.products(&rows, &w, &bias.into_option());
        let problem = &call.problem;
        cast_like(segments.padded(y, problem.row_bound, problem.n), dtype)
    }
}

impl LinearGradientOps for Flex {
    fn moe_grouped_linear_backward(
        dy: Rows,
        rows: Rows,
        w: Rows,
        grouping: Grouping<Self>,
        needs: Needs,
        call: LinearCall,
    ) -> LinearGradients<Self> {
        let segments = Segments::grouped(grouping, call.problem.row_bound);
        let (dtype, problem) = (rows.dtype(), &call.problem);
        let dy = segments.unpadded(to_f32(dy));
        let rows = segments.unpadded(to_f32(rows));
        let drows = needs.rows.then(|| {
            let drows = segments.each(problem.k, |e, range| {
                let dy = rows_of(dy.clone(), range.start, range.end);
                matmul(dy, expert(w.clone(), e))
            });
            cast_like(segments.padded(drows, problem.row_bound, problem.k), dtype)
        });
        let dw = needs
            .w
            .then(|| cast_like(segments.outer(&dy, &rows), dtype));
        let dbias = needs.bias.then(|| cast_like(segments.sums(&dy), dtype));
        LinearGradients {
            rows: drows.into(),
            w: dw.into(),
            bias: dbias.into(),
        }
    }
}
