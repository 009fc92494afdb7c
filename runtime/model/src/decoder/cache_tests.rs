use std::cell::Cell;

use moebius::moe::MoeConfig;

use super::*;
use crate::decoder::FeedForwardSpec;

/// Two layers with two heads of keys and values: 12 elements, kept as 16, and 24.
fn memory(pages: usize, format: CacheFormat) -> CacheMemory {
    // A page of 16 tokens has 16 · 2 · (D + Dv) values, and in FP8 two scales of four bytes for each token and head.
    let of_layer = |width: usize| match format {
        CacheFormat::E4m3 => 16 * 2 * (2 * width + 8),
        _ => 16 * 2 * 2 * width * 4,
    };
    let [narrow, wide] = [16, 24].map(|width| of_layer(width) as u64);
    CacheMemory {
        pages: pages as u64,
        page: 16,
        all: narrow + wide,
        largest: wide,
        ..CacheMemory::default()
    }
}

/// The layers of `memory`, made of a layer of a model for bytes, of which only the sizes of heads count.
fn spec() -> ModelSpec {
    let mut spec = crate::DecoderConfig::default().spec();
    spec.layers.truncate(2);
    for (layer, width) in spec.layers.iter_mut().zip([12, 24]) {
        let attention = layer.attention_mut().unwrap();
        attention.kv_heads = 2;
        (attention.head_dim, attention.value_dim) = (width, width);
    }
    spec
}

#[test]
fn the_memory_of_a_cache_follows_from_the_description() {
    for format in [CacheFormat::F32, CacheFormat::E4m3] {
        let found = CacheMemory::new(&spec(), [5, 16], format).unwrap();
        assert_eq!(found, memory(5, format), "{format:?}");
    }
    // 2³¹ words hold 2³¹ / 1536 pages of the wider layer in f32.
    let most = ((1_usize << 31) - 1) / 1536;
    assert!(CacheMemory::new(&spec(), [most, 16], CacheFormat::F32).is_ok());
    let error = CacheMemory::new(&spec(), [most + 1, 16], CacheFormat::F32).unwrap_err();
    let said = format!(
        "tokens of a cache: expected at most {}, got {}",
        16 * most,
        16 * (most + 1)
    );
    assert_eq!(error.to_string(), said);
}

#[test]
fn what_is_free_must_hold_the_pages_and_their_making() {
    let (four, ten) = (memory(4, CacheFormat::F32), memory(10, CacheFormat::F32));
    // A page takes 4096 + 6144 bytes, and making the pages twice those of the wider layer.
    let making = 10_240 + 2 * 6144;
    assert_eq!(four.check_within(4 * making, 0, 0), Ok(()));
    let error = four.check_within(4 * making - 1, 0, 0).unwrap_err();
    assert_eq!([error.needed, error.free], [4 * making, 4 * making - 1]);
    assert_eq!(error.tokens, 3 * 16);
    // Of ten pages four are there, and 1000 bytes are for something else.
    let needed = 10 * making - 4 * 10_240 + 1000;
    assert_eq!(ten.check_within(needed, 4, 1000), Ok(()));
    let error = ten.check_within(needed - making, 4, 1000).unwrap_err();
    assert_eq!((error.needed, error.tokens), (needed, 9 * 16));
    // Nothing more fits than there is.
    assert_eq!(ten.check_within(10, 4, 1000).unwrap_err().tokens, 4 * 16);
    // Weights alone.
    let weights = CacheMemory::default();
    assert_eq!(weights.check_within(10, 0, 10), Ok(()));
    let error = weights.check_within(9, 0, 10).unwrap_err();
    let said = "memory for weights and cache: expected at most the 9 bytes that the device has for them, got 10 bytes that are needed; \
                0 tokens would fit";
    assert_eq!(error.to_string(), said);
}

#[test]
fn a_step_and_a_margin_must_fit_beside_the_pages() {
    let mut spec = spec();
    spec.hidden = 8;
    for (layer, inter) in spec.layers.iter_mut().zip([10, 7]) {
        layer.attention_mut().unwrap().heads = 4;
        layer.feed_forward = FeedForwardSpec::Dense(MoeConfig::new(8, inter, 1));
    }
    // Of a token, the second layer has the most values, in its attention: 96 of queries, 48 of keys, 48 of values, and 96 that heads give.
    let step = 4 * 5 * (8 + 2 * 192 + 2 * 96);
    let memory = memory(4, CacheFormat::F32).with_step(&spec, 5, 2);
    let counted = 4 * (10_240 + 2 * 6144) + step + 1000;
    assert_eq!(memory.check_within(counted, 0, 1000), Ok(()));
    let error = memory.check_within(counted - 1, 0, 1000).unwrap_err();
    assert_eq!((error.needed, error.tokens), (counted, 3 * 16));
    // What a step decodes is a part of it.
    let decoding = memory.with_decoded(500);
    assert_eq!(decoding.check_within(counted + 500, 0, 1000), Ok(()));
    assert!(decoding.check_within(counted + 499, 0, 1000).is_err());
    let weights = CacheMemory::default();
    assert_eq!(weights.with_decoded(500), weights);
    // The margin is needed, too, and takes no page away.
    let wide = memory.with_margin(20);
    let needed = counted + counted / 5;
    assert_eq!(wide.check_within(needed, 0, 1000), Ok(()));
    let error = wide.check_within(needed - 1, 0, 1000).unwrap_err();
    assert_eq!((error.needed, error.free), (needed, needed - 1));
    assert_eq!(wide.check_within(counted, 0, 1000).unwrap_err().tokens, 64);
    let most = wide.with_margin(u32::MAX).with_step(&spec, usize::MAX, 1);
    assert_eq!(most.check_within(9, 0, 0).unwrap_err().needed, u64::MAX);
    // In an exact model, each of the four heads of the five tokens has scores of 32 keys and their sum, too.
    let exact = memory.with_exact_step(&spec, 5, 2, 32);
    assert_eq!(exact.bytes() - memory.bytes(), 4 * 5 * 4 * 33);
    // Logits of more words than a layer has values, and a copy of them.
    spec.vocabulary = 10_000;
    let logits = memory.with_margin(0).with_step(&spec, 5, 2);
    let counted = counted - step + 4 * (5 * 16 + 2 * 2 * 10_000);
    assert_eq!(logits.check_within(counted, 0, 1000), Ok(()));
    assert!(logits.check_within(counted - 1, 0, 1000).is_err());
}

#[test]
fn pools_give_back_what_they_keep_before_memory_is_refused() {
    let memory = memory(4, CacheFormat::F32);
    let enough = 4 * (10_240 + 2 * 6144);
    let free = Cell::new(enough - 1);
    let check = |more: u64, works: bool| {
        let release = || {
            free.set(free.get() + more);
            works
        };
        memory.check_free([0, 0], || Some(free.get()), release)
    };
    assert_eq!(check(0, true).unwrap_err().free, enough - 1);
    assert_eq!(check(0, false).unwrap_err().free, enough - 1);
    assert_eq!(check(1, true), Ok(()));
    // Where enough is free, or nothing tells, nothing is given back.
    for free in [Some(enough), None] {
        let found = memory.check_free([0, 0], || free, || unreachable!());
        assert_eq!(found, Ok(()));
    }
}
