//! Attention among the rows of one expert and one sequence, or of one sequence when all rows are one
//! expert's; shapes as in [`moebius_shaders::segment_attention`].

#[cfg(feature = "autodiff")]
mod autodiff;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "fusion")]
mod lazy;
#[cfg(feature = "xla")]
mod xla;

use super::{Assignment, Grouping};
use crate::check::element;
use crate::{Error, device};
use burn::backend::Dispatch;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use burn::tensor::Tensor;
use moebius_ops::ShapeError;
use moebius_ops::segment_attention::{Problem, Segments};
use moebius_shaders::segment_attention;

/// \[R, heads·D\]: the rows of `segments` attend to each other, to earlier ones and themselves only when
/// `causal`. The caller has checked that q, k and v \[R, heads·D\] are alike.
///
/// # Errors
/// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for heads that don't divide the width,
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
pub(crate) fn run(
    [q, k, v]: [Tensor<2>; 3],
    grouping: Grouping<Dispatch>,
    segments: Segments,
    (heads, causal): (usize, bool),
) -> Result<Tensor<2>, Error> {
    let width = q.dims()[1];
    if heads == 0 || !width.is_multiple_of(heads) {
        let expected = format!("a divisor of {width} (the width)");
        return Err(ShapeError::new("attention heads", expected, heads).into());
    }
    let problem = Problem::new(segments, heads, width / heads)?
        .with_element(element(q.dtype())?)
        .with_causal(causal);
    let plan = device::plan(&q.device(), |device| {
        segment_attention::plan(problem, device)
    })?;
    let call = AttentionCall { problem, plan };
    let projections = Projections {
        q: q.into_dispatch(),
        k: k.into_dispatch(),
        v: v.into_dispatch(),
    };
    let attended = Dispatch::moe_segment_attention(projections, grouping, call);
    Ok(Tensor::from_dispatch(attended.o))
}

impl Assignment {
    /// \[R, heads·D\]: rows of one expert and one sequence of `sequence` tokens attend to each
    /// other, to earlier ones and themselves only when `causal`.
    pub(crate) fn attention(
        &self,
        [q, k, v]: [Tensor<2>; 3],
        heads: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Tensor<2>, Error> {
        let r = &self.routing;
        let segments = Segments::new(r.slots(), r.experts(), r.top_k(), sequence)?;
        let segments = segments.with_row_bound(self.row_bound)?;
        run([q, k, v], self.grouping(), segments, (heads, causal))
    }
}

/// Attention within segments.
#[derive(Clone, Debug)]
pub(crate) struct AttentionCall {
    pub(crate) problem: moebius_ops::segment_attention::Problem,
    pub(crate) plan: Option<segment_attention::Plan>,
}

#[cfg(any(feature = "fusion", feature = "xla"))]
impl AttentionCall {
    fn operation(&self, dense: bool, backward: bool) -> moebius_ops::Rows {
        moebius_ops::Rows::Attention {
            problem: self.problem,
            dense,
            backward,
        }
    }
}

/// Queries, keys and values \[R, heads·D\].
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Projections<B: Backend> {
    pub(crate) q: FloatTensor<B>,
    pub(crate) k: FloatTensor<B>,
    pub(crate) v: FloatTensor<B>,
}

/// Result of an attention.
#[derive(ExtensionType, Clone, Debug)]
#[extension_type(fusion: cfg(feature = "fusion"))]
pub(crate) struct Attended<B: Backend> {
    /// \[R, heads·D\].
    pub(crate) o: FloatTensor<B>,
    /// \[R, heads\] f32.
    pub(crate) lse: FloatTensor<B>,
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait SegmentAttentionOps: Backend {
    #[fusion(meta = lazy::attended)]
    fn moe_segment_attention(
        #[extension_type] projections: Projections<Self>,
        #[extension_type] grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Attended<Self>;
}

/// What only a backward pass runs.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
)]
pub(crate) trait SegmentAttentionGradients: Backend {
    #[fusion(meta = lazy::gradients)]
    fn moe_segment_attention_backward(
        gradient: FloatTensor<Self>,
        #[extension_type] projections: Projections<Self>,
        #[extension_type] attended: Attended<Self>,
        #[extension_type] grouping: Grouping<Self>,
        call: AttentionCall,
    ) -> Projections<Self>;
}
