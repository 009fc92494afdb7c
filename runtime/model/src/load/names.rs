//! Prefixes that programs put before the names of a model's tensors, or leave out.

use moebius_weights::{Reader, WeightsError};

/// Prefixes, with what stands in their place in the names that families know; a name may have several, in this order.
const PREFIXES: [(&str, &str); 5] = [
    // PyTorch's wrappers for compiled and for distributed models.
    ("_orig_mod.", ""),
    ("module.", ""),
    // Models that peft has merged an adapter into.
    ("base_model.model.", ""),
    // The language model of one that also sees, before and since transformers 4.52.
    ("language_model.", ""),
    ("model.language_model.", "model."),
];

/// Parts of a model whose names begin with `model.`.
const INNER: [&str; 4] = ["layers.", "embed_tokens.", "norm.", "rotary_emb."];

/// A tensor's name as families know it.
pub(super) fn plain(name: &str) -> String {
    let mut name = name.to_owned();
    for (prefix, instead) in PREFIXES {
        if let Some(rest) = name.strip_prefix(prefix) {
            name = format!("{instead}{rest}");
        }
    }
    if INNER.iter().any(|inner| name.starts_with(inner)) {
        name.insert_str(0, "model.");
    }
    name
}

/// The checkpoint with the names that families know. A checkpoint that has some of them is left as it is.
///
/// # Errors
/// [`WeightsError::DuplicateTensor`] where two tensors would have the same name.
pub(super) fn with_plain_names(reader: Reader) -> Result<Reader, WeightsError> {
    let known = |name: &str| name.starts_with("model.layers.");
    let is_plain = reader.tensors().any(|(name, _)| known(name));
    if is_plain || !reader.tensors().any(|(name, _)| known(&plain(name))) {
        return Ok(reader);
    }
    reader.renamed(plain)
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn prefixes_are_taken_off_and_put_on() {
        for (written, expected) in [
            (
                "layers.3.mlp.up_proj.weight",
                "model.layers.3.mlp.up_proj.weight",
            ),
            ("embed_tokens.weight", "model.embed_tokens.weight"),
            ("norm.weight", "model.norm.weight"),
            ("lm_head.weight", "lm_head.weight"),
            ("language_model.model.norm.weight", "model.norm.weight"),
            ("language_model.lm_head.weight", "lm_head.weight"),
            ("model.language_model.layers.0.x", "model.layers.0.x"),
            ("base_model.model.model.layers.0.x", "model.layers.0.x"),
            ("base_model.model.lm_head.weight", "lm_head.weight"),
            ("_orig_mod.module.model.norm.weight", "model.norm.weight"),
            ("vision_tower.layers.0.x", "vision_tower.layers.0.x"),
        ] {
            assert_eq!(plain(written), expected);
        }
    }
}
