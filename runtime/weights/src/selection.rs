//! Which tensors are weights of a matrix product, told from names and shapes.

/// Patterns of tensors that stay as they are: embeddings, norms, the output head, and what chooses experts.
pub const DEFAULT_SKIPS: &[&str] = &[
    "*embed*",
    "*wte*",
    "*wpe*",
    "*norm*",
    "*ln_*",
    "*lm_head*",
    "*router*",
    "*.gate.weight",
    "*.shared_expert_gate.weight",
];

/// Whether a tensor is a matrix, or a stack of one per expert, that rows of tokens are multiplied with.
///
/// Two extents: a name that ends in `.weight`, or that has a part `experts` and is neither bias nor
/// scale. Three: a stack is told from a convolution by a part that names experts.
pub(crate) fn is_matrix(name: &str, shape: &[usize]) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let weight = last == "weight";
    let part = |text: &str| name.split('.').any(|part| part.contains(text));
    let of_experts = part("experts") && !last.contains("bias") && !last.contains("scale");
    match shape.len() {
        2 => weight || of_experts,
        3 => of_experts || (weight && part("moe")),
        _ => false,
    }
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
