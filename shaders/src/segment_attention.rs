//! STUB
/// STUB
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    row_bound: usize,
    heads: usize,
    head_dim: usize,
    top_k: usize,
    sequence: usize,
    causal: bool,
}
impl Problem {
    /// STUB
    pub fn new(
        r: &crate::routing::Problem,
        row_bound: usize,
        heads: usize,
        head_dim: usize,
        sequence: usize,
        causal: bool,
    ) -> Result<Self, crate::ShapeError> {
        Ok(Self {
            row_bound,
            heads,
            head_dim,
            top_k: r.top_k(),
            sequence,
            causal,
        })
    }
    /// STUB
    pub fn row_bound(&self) -> usize {
        self.row_bound
    }
    /// STUB
    pub fn heads(&self) -> usize {
        self.heads
    }
    /// STUB
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }
    /// STUB
    pub fn top_k(&self) -> usize {
        self.top_k
    }
    /// STUB
    pub fn sequence(&self) -> usize {
        self.sequence
    }
    /// STUB
    pub fn causal(&self) -> bool {
        self.causal
    }
}
/// STUB
#[derive(Clone, Copy, Debug)]
pub struct Plan;
/// STUB
pub fn plan(
    _: Problem,
    _: crate::Element,
    _: &moebius_device::Capability,
) -> Result<Plan, crate::Unsupported> {
    Ok(Plan)
}
