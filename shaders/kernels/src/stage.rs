//! The parts of a layer that are timed apart.

moebius_ops::named! {
    /// A part of a layer's forward that is timed by itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Stage {
        /// Router logits and the choice of experts.
        Router = "router",
        /// Histogram, scan, scatter, and the drop rule.
        Sort = "sort",
        /// First product with activation.
        Gemm1 = "gemm 1",
        /// Second product.
        Gemm2 = "gemm 2",
        /// Weighted sum of the slots.
        Combine = "combine",
        /// Both products and the weighted sum, where they are one program.
        Experts = "experts",
    }
}
