//! Attention over caches: what is read where it lies has the bits of what is packed.

use crate::sets::held;
use moebius_host::kv_cache::{Places, Queries, append, attend};
use moebius_ops::Element;
use moebius_ops::attention::{Problem, Rule, Rules, Sizes};
use moebius_ops::kv_cache::{Append, Attend, CacheFormat, Layout};

/// Cached tokens: some more than a block of keys, the last sixteen of them not whole.
const TOKENS: usize = 150;
/// Tokens of a page, and pages of the sequence.
const PAGE: usize = 32;
const PAGES: usize = 5;
const KV_HEADS: usize = 2;

/// Reproducible values from −2 to 2.
fn values(count: usize, seed: u32) -> Vec<f32> {
    let value = |i: usize| {
        let mixed = (i as u32 + seed).wrapping_mul(2_654_435_761);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(2_246_822_519);
        (mixed >> 8) as f32 / (1_u32 << 22) as f32 - 2.0
    };
    (0..count).map(value).collect()
}

/// A sequence's pages, and its new tokens.
fn places(spans: &[i32; 2]) -> Places<'_> {
    Places {
        table: &[3, 0, 4, 1, 2],
        spans,
        pages: PAGES,
    }
}

/// A pool with all tokens; a token in the midst has these factors of its key and value.
fn filled(layout: &Layout, factors: [f32; 2]) -> Vec<i32> {
    // A page's places that no token has hold what was there before.
    let mut pool = vec![0x7F7F_7F7F; layout.words()];
    let new = Append {
        layout: *layout,
        batch: 1,
        tokens: TOKENS,
        table: PAGES,
        element: Element::F32,
    };
    let widths = [layout.head_dim(), layout.value_dim()];
    let mut kv = [0, 1].map(|i| values(KV_HEADS * TOKENS * widths[i], i as u32));
    for ((all, width), factor) in kv.iter_mut().zip(widths).zip(factors) {
        all[77 * width..78 * width]
            .iter_mut()
            .for_each(|x| *x *= factor);
    }
    let [k, v] = &kv;
    append(&new, &places(&[0, TOKENS as i32]), [k, v], &mut pool);
    pool
}

/// Attention of the last `queries` tokens \[Hq, queries, Dv\], whose queries are the same for any number of them.
fn attended(layout: &Layout, pool: &[i32], heads: usize, queries: usize) -> Vec<f32> {
    let sizes = Sizes {
        batch: 1,
        heads,
        kv_heads: KV_HEADS,
        queries,
        keys: PAGE * PAGES,
        head_dim: layout.head_dim(),
        value_dim: layout.value_dim(),
    };
    let rules = Rules::new([Rule::Causal]).unwrap();
    let problem = Problem::new(sizes).unwrap().with_rules(rules).unwrap();
    let over = Attend::new(problem, *layout, PAGES).unwrap();
    let all = values(heads * TOKENS * layout.head_dim(), 2);
    let of_heads = all.chunks(TOKENS * layout.head_dim());
    let last = of_heads.flat_map(|head| &head[(TOKENS - queries) * layout.head_dim()..]);
    let q: Vec<f32> = last.copied().collect();
    let queries = Queries {
        q: &q,
        slopes: &[],
        relative: &[],
        sinks: &[],
    };
    let spans = [(TOKENS - sizes.queries) as i32, TOKENS as i32];
    let [o, _] = attend(&over, &places(&spans), queries, pool);
    o
}

/// Bits, with one NaN for all.
fn bits(value: f32) -> u32 {
    if value.is_nan() {
        f32::NAN.to_bits()
    } else {
        value.to_bits()
    }
}

#[test]
fn a_token_is_the_same_alone_and_among_others() {
    held();
    // Scales of a large factor don't fit into those that E4M3's codes are multiplied by without a step in between; NaN has a code of its own.
    let factors = [
        [1.0, 1.0],
        [1e6, 1.0],
        [1.0, 1e6],
        [f32::NAN, 1.0],
        [1.0, f32::NAN],
    ];
    for format in CacheFormat::ALL {
        for dims in [[8, 8], [24, 40], [64, 64], [72, 136], [256, 256]] {
            let layout = Layout::new([PAGES, PAGE], KV_HEADS, dims, format).unwrap();
            for (factors, heads) in factors.iter().zip([6, 2, 10, 16, 8]) {
                let pool = filled(&layout, *factors);
                // Keys and values of so many queries are packed.
                let among = attended(&layout, &pool, heads, 12);
                let alone = attended(&layout, &pool, heads, 1);
                for (head, alone) in alone.chunks(dims[1]).enumerate() {
                    let among = &among[(head * 12 + 11) * dims[1]..][..dims[1]];
                    let [alone, among] = [alone, among].map(|o| o.iter().copied().map(bits));
                    assert!(
                        alone.eq(among),
                        "{format:?} {dims:?} {factors:?} {heads} {head}"
                    );
                }
            }
        }
    }
}
