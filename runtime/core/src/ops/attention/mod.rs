//! Attention among the rows of one expert and one sequence; shapes as in
//! [`moebius_shaders::segment_attention`].

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

use super::Sorted;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, ExtensionType, backend_extension};
use moebius_shaders::segment_attention;

/// Attention within segments.
#[derive(Clone, Debug)]
pub(crate) struct AttentionCall {
    /// Sorted rows R.
    pub(crate) rows: usize,
    pub(crate) heads: usize,
    pub(crate) head_dim: usize,
    /// Slots of one sequence: its tokens × K.
    pub(crate) sequence_slots: usize,
    pub(crate) causal: bool,
    pub(crate) plan: Option<segment_attention::Plan>,
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
        #[extension_type] sorted: Sorted<Self>,
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
        #[extension_type] sorted: Sorted<Self>,
        call: AttentionCall,
    ) -> Projections<Self>;
}
