use std::cell::Cell;

use super::*;
use crate::{DecoderConfig, Precision};

fn memory(config: &TrainConfig, savings: Savings) -> TrainMemory {
    let spec = DecoderConfig {
        layers: 8,
        ..DecoderConfig::default()
    }
    .spec();
    TrainMemory::new(&spec, config, savings, &Device::flex())
}

#[test]
fn savings_take_less() {
    let config = TrainConfig::default();
    let resident = memory(&config, Savings::default());
    let offloaded = memory(
        &config,
        Savings {
            offloads: true,
            ..Savings::default()
        },
    );
    assert_eq!(resident.moments, 2 * resident.weights);
    // On a host moments are elsewhere only in a file, which is read ahead into the same memory.
    let ahead = MomentStore::read_ahead(resident.moments);
    assert_eq!(ahead, resident.moments / 16);
    assert_eq!(resident.peak - offloaded.peak, resident.moments - ahead);
    let again = memory(
        &config,
        Savings {
            recomputes: true,
            ..Savings::default()
        },
    );
    // The inputs of eight layers, 64 wide, and the rest of one in place of eight.
    let inputs = 8 * 64 * 4 * config.tokens() as u64;
    assert_eq!(again.kept, inputs + resident.kept / 8);
    assert!(resident.peak - again.peak > resident.kept / 2);
}

/// While the pass is in the last layer, the gradients of its experts are beside what all layers keep.
#[test]
fn gradients_of_a_network_are_beside_what_layers_keep() {
    let sizes = DecoderConfig::default();
    // So few words that the head has little.
    let spec = ModelSpec {
        vocabulary: 16,
        ..sizes.spec()
    };
    let config = TrainConfig::default();
    let memory = TrainMemory::new(&spec, &config, Savings::default(), &Device::flex());
    let tokens = 1024;
    assert_eq!(config.tokens(), tokens);
    // Matrices of eight experts, the router, the norm before both, and the head.
    let gradients = 8 * 3 * 128 * 64 + 8 * 64 + 64 + 16 * 64;
    // x and its gradient, and the activations of a quarter of the tokens, which one expert gets.
    let passing = tokens * 2 * 64 + tokens / 4 * 3 * 128;
    let spare = tokens * 2 * (4 * 128 + 64);
    let beside = memory.peak - memory.weights - memory.moments - memory.kept;
    assert_eq!(beside, 4 * (gradients + passing + spare) as u64);
}

/// The sum of the batches' gradients is beside all that a batch takes.
#[test]
fn batches_after_one_another_take_one_more_gradient() {
    let of = |accumulate| TrainConfig {
        accumulate,
        ..TrainConfig::default()
    };
    let one = memory(&of(1), Savings::default());
    let [two, eight] = [2, 8].map(|batches| memory(&of(batches), Savings::default()));
    assert_eq!(two.peak - one.peak, one.weights);
    assert_eq!(eight, two);
}

/// An adapter's parameters alone have gradients and moments, and are beside the model's.
#[test]
fn an_adapter_leaves_out_gradients_and_moments_of_the_model() {
    let savings = Savings {
        adapter: Some(1000),
        ..Savings::default()
    };
    let config = TrainConfig {
        batch: 1,
        sequence: 1,
        ..TrainConfig::default()
    };
    let all = memory(&config, Savings::default());
    let few = memory(&config, savings);
    assert_eq!(few.weights, all.weights + 4000);
    assert_eq!(few.moments, 8000);
    assert!(few.peak < 2 * few.weights, "{few:?}");
    // Codes below it take their own bytes in place of four for each parameter.
    let base = Some(all.weights / 4 + 7);
    let narrow = memory(&config, Savings { base, ..savings });
    assert_eq!(narrow.weights, all.weights / 4 + 4007);
    assert_eq!(few.peak - narrow.peak, few.weights - narrow.weights);
}

/// The largest matrix below an adapter is that of gate and up of one expert, [2 · 128, 64].
#[test]
fn one_matrix_of_codes_below_an_adapter_is_decoded_at_a_time() {
    let spec = DecoderConfig::default().spec();
    for base in [BaseWeights::F32, BaseWeights::Bf16] {
        assert_eq!(largest_coded(&spec, base), 0);
    }
    for base in [BaseWeights::Fp8, BaseWeights::File] {
        assert_eq!(largest_coded(&spec, base), 4 * 256 * 64);
    }
}

/// Products in bf16 halve what they read and write of a token: the norm before either part, queries, keys, values, and what heads give, twice,
/// and the first products of two experts. The router reads a copy of x in f32. Weights stay f32, with copies of 16 bits beside them.
#[test]
fn products_in_bf16_keep_half_and_copy_weights() {
    let config = TrainConfig::default();
    let of = |config: TrainConfig| {
        let narrow = config.with_precision(Precision::Bf16);
        [config, narrow].map(|config| memory(&config, Savings::default()))
    };
    let [wide, narrow] = of(config);
    assert_eq!(
        [wide.weights, wide.moments],
        [narrow.weights, narrow.moments]
    );
    let of_token = 2 * 64 + 3 * 64 + 2 * 64 + 2 * 2 * 128;
    let all = 8 * config.tokens() as u64;
    assert_eq!(wide.kept - narrow.kept, (2 * of_token - 4 * 64) * all);
    let [wide, narrow] = of(TrainConfig {
        batch: 1,
        sequence: 1,
        ..config
    });
    let more = narrow.peak - wide.peak;
    assert!((1..=wide.weights / 2).contains(&more), "{more}");
}

/// With few tokens the optimizer has the most: old weights, new ones or gradients, and moments.
#[test]
fn few_tokens_leave_weights_gradients_and_moments() {
    let config = TrainConfig {
        batch: 1,
        sequence: 1,
        ..TrainConfig::default()
    };
    let few = memory(&config, Savings::default());
    assert!(few.peak >= 4 * few.weights && few.peak < 5 * few.weights);
    let many = TrainConfig {
        batch: usize::MAX,
        ..config
    };
    assert_eq!(memory(&many, Savings::default()).peak, u64::MAX);
}

/// While the optimizer updates, the moments of two parameters are on the device wherever all are in between, and on a host those of a third wait to
/// be written.
#[test]
fn moments_on_their_way_count() {
    let config = TrainConfig {
        batch: 1,
        sequence: 1,
        ..TrainConfig::default()
    };
    let [resident, offloaded] = [false, true].map(|offloads| {
        let savings = Savings {
            offloads,
            ..Savings::default()
        };
        memory(&config, savings)
    });
    // The largest parameter is the first matrices of a layer's eight experts, [8, 2 · 128, 64].
    let moving = 3 * 2 * 4 * 8 * 2 * 128 * 64;
    let ahead = MomentStore::read_ahead(resident.moments);
    let fell = resident.moments - moving - ahead;
    assert_eq!(resident.peak - offloaded.peak, fell);
}

#[test]
fn pools_give_back_what_they_keep_before_a_training_is_refused() {
    let step = TrainMemory {
        weights: 40,
        moments: 80,
        kept: 20,
        peak: 200,
    };
    let free = Cell::new(239);
    let check = |more: u64| {
        let release = || {
            free.set(free.get() + more);
            true
        };
        step.check_free(20, || Some(free.get()), release)
    };
    let refused = check(0).unwrap_err();
    assert_eq!([refused.needed, refused.free], [240, 239]);
    let said = "memory of a training step: expected at most the 239 bytes that the device has for it, got 240 bytes that are needed";
    assert_eq!(refused.to_string(), said);
    assert_eq!(check(1), Ok(()));
    assert_eq!(step.check_free(20, || None, || unreachable!()), Ok(()));
}
