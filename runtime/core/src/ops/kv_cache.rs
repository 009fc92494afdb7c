//! A cache of keys and values in pages; the shapes are those of [`moebius_ops::kv_cache`].

use super::call::Request;
use super::tensors::DeviceValue;
use crate::Error;
use burn::tensor::{Int, Tensor};
use moebius_ops::KvCache;
use moebius_ops::kv_cache::{Append, Attend};

/// Appends tokens to the pool, in place unless something else shares its memory. The caller has checked all shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run the operation.
pub(crate) fn append(
    [k, v]: [Tensor<4>; 2],
    pool: &mut Option<Tensor<2, Int>>,
    step: [Tensor<2, Int>; 2],
    problem: Append,
) -> Result<(), Error> {
    let call = Request::new(KvCache::Append(problem), &k.device(), &())?;
    let call = call.reads([k, v]).reads(pool.take());
    *pool = Some(call.reads(step).run().words());
    Ok(())
}

/// Computes o \[B, Hq, Sq, Dv\] and lse \[B, Hq, Sq\] (f32) of q over the pool. `tables` are those that the rules and sinks read, in the
/// order of the description; the caller has checked all shapes.
///
/// # Errors
/// As [`append`].
pub(crate) fn attend(
    q: Tensor<4>,
    pool: Tensor<2, Int>,
    step: [Tensor<2, Int>; 2],
    tables: Vec<DeviceValue>,
    problem: Attend,
) -> Result<(Tensor<4>, Tensor<3>), Error> {
    let call = Request::new(KvCache::Attend(problem), &q.device(), &())?;
    let call = call.reads([q]).reads([pool]).reads(step).reads(tables);
    let mut results = call.run();
    Ok((results.floats(), results.floats()))
}

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! Caches on Flex: appends tokens to their pages in place, and computes attention over pages.

    use crate::ops::host::{Computed, Floats, Operands, Words, contiguous, signed_words};
    use moebius_host::kv_cache::{self as host, Places, Queries};
    use moebius_ops::KvCache;
    use moebius_ops::kv_cache::{Append, Attend};

    /// Returns the changed pool, or o and its log-sum-exp.
    pub(in crate::ops) fn run(operation: &KvCache, b: Operands) -> Vec<Computed> {
        match operation {
            KvCache::Append(append) => vec![Computed::Changed(appended(append, b))],
            KvCache::Attend(attend) => attended(attend, b).map(Computed::from).into(),
        }
    }

    fn appended(append: &Append, mut b: Operands) -> Words {
        let step = ["table", "spans"].map(|name| contiguous(b.word(name)));
        let [table, spans] = step.each_ref().map(signed_words);
        let new = ["k", "v"].map(|name| Floats::of(&mut b, name));
        let mut pool = contiguous(b.word("pool"));
        let places = Places {
            table: &table,
            spans: &spans,
            pages: append.table,
        };
        let new = new.each_ref().map(Floats::values);
        host::append(append, &places, new, pool.storage_mut());
        pool
    }

    fn attended(attend: &Attend, mut b: Operands) -> [Vec<f32>; 2] {
        let step = ["table", "spans"].map(|name| contiguous(b.word(name)));
        let [table, spans] = step.each_ref().map(signed_words);
        let pool = contiguous(b.word("pool"));
        let floats = ["q", "slopes", "relative", "sinks"].map(|name| Floats::of(&mut b, name));
        let [q, slopes, relative, sinks] = floats.each_ref().map(Floats::values);
        let queries = Queries {
            q,
            slopes,
            relative,
            sinks,
        };
        let places = Places {
            table: &table,
            spans: &spans,
            pages: attend.table(),
        };
        host::attend(attend, &places, queries, pool.storage())
    }
}
