//! Llama (Touvron et al. 2023; Llama 3, 2024), and what was made from it, such as SmolLM2.

use super::keys::Keys;
use super::parts::{attention, dense, layer, layers, model};
use super::rule::{ATTENTION, DENSE, FRAME, INVERSE_FREQUENCIES};
use super::{Extra, Family};
use crate::decoder::ModelSpec;

pub(super) const FAMILY: Family = Family {
    name: "llama",
    read,
    layouts: &[&[FRAME, ATTENTION, DENSE]],
    ignored: &[INVERSE_FREQUENCIES],
    extra: Extra::None,
};

fn read(keys: &mut Keys<'_>) -> ModelSpec {
    let count = layers(keys);
    let attention = attention(keys, 10_000.0);
    let bias = keys.flag_or("mlp_bias", false);
    let dense = dense(keys, bias);
    model(keys, vec![layer(attention, dense); count])
}
