use moebius::moe::{MoeConfig, SharedExpertConfig};

use super::*;
use crate::DecoderConfig;

/// A layer of width 8 with four heads of 12, two of keys and values, and two of 16 experts of this inner width.
fn layer(inter: usize) -> LayerSpec {
    let mut layer = DecoderConfig::default().spec().layers.remove(0);
    let attention = layer.attention_mut().unwrap();
    (attention.heads, attention.kv_heads) = (4, 2);
    (attention.head_dim, attention.value_dim) = (12, 12);
    layer.feed_forward = FeedForwardSpec::Experts(MoeConfig::new(8, inter, 16));
    layer
}

/// The experts that a token goes through count, not those that there are, and a shared one with them; of a layer's parts the one with more.
#[test]
fn values_are_those_of_the_chosen_experts_or_of_the_heads() {
    // Queries of 48, keys and values of 24 each, and 48 that heads give.
    assert_eq!(layer(10).values(8, 0), 8 + 2 * 96 + 2 * 48);
    // Four heads with scores of 100 keys and their sum.
    assert_eq!(layer(10).values(8, 100), 8 + 2 * 96 + 2 * 48 + 4 * 101);
    let mut wide = layer(100);
    assert_eq!(wide.values(8, 0), 3 * 8 + 2 * (300 + 8));
    assert_eq!(wide.values(8, 10), 3 * 8 + 2 * (300 + 8));
    let experts = MoeConfig::new(8, 100, 16);
    let experts = experts.with_shared(Some(SharedExpertConfig::new(5)));
    wide.feed_forward = FeedForwardSpec::Experts(experts);
    assert_eq!(wide.values(8, 0), 3 * 8 + 2 * (300 + 8) + 15 + 8);
}

#[test]
fn a_training_keeps_what_gradients_read() {
    let plain = 6 * 8 + (96 + 2 * 48 + 4) + 2 * 20 + (2 * 16 + 1 + 4 * 2);
    assert_eq!(layer(10).kept(8), plain);
    let mut normed = layer(10);
    normed.norms = Norms::Both;
    assert_eq!(normed.kept(8), plain + 4 * 8);
    let attention = normed.attention_mut().unwrap();
    let Projection::Direct { norm, .. } = &mut attention.projection else {
        unreachable!("the small decoder has separate matrices");
    };
    *norm = HeadNorm::Head;
    assert_eq!(normed.kept(8), plain + 4 * 8 + 2 * (48 + 24));
    normed.feed_forward = FeedForwardSpec::Dense(MoeConfig::new(8, 10, 1));
    assert_eq!(normed.kept(8), 10 * 8 + (96 + 2 * 48 + 4) + 2 * 72 + 20);
}

/// A backward pass has the gradients of its networks, or those of its heads where the networks have nothing any more.
#[test]
fn a_backward_pass_goes_through_one_part_at_a_time() {
    let network = 3 * 8 + 2 * 20 + (2 * 16 + 1 + 4 * 2);
    // Copies of 96 values and of 48 that heads give; 12 + 12 + 12 of two key heads packed; gradients of 96, and of 24 in four query heads.
    let heads = 16 + (96 + 48) + 72 + (96 + 96) - network;
    assert_eq!(layer(10).network_gradients(8), 2 * (40 + 8));
    assert_eq!(layer(10).passing(8, true), heads);
    assert_eq!(layer(100).passing(8, true), 16 + 2 * (400 + 8));
    assert_eq!(layer(100).passing(8, false), 16);
}

/// The rows of a piece are those of one expert, and no more than a thread takes at once.
#[test]
fn a_piece_has_the_rows_of_one_expert() {
    // Two of 16 experts have 80 tokens each.
    assert_eq!(layer(10).of_piece(640), 3 * 10 * 80);
    assert_eq!(layer(10).of_piece(u64::MAX), 3 * 10 * 384);
    let mut dense = layer(10);
    dense.feed_forward = FeedForwardSpec::Dense(MoeConfig::new(8, 10, 1));
    assert_eq!(dense.of_piece(100), 3 * 10 * 100);
}
