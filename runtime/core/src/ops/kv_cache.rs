//! Keys and values in pages; shapes as in [`moebius_ops::kv_cache`].

#[cfg(feature = "flex")]
pub(super) mod flex;

use super::call::Request;
use super::tensors::DeviceValue;
use crate::Error;
use burn::tensor::{Int, Tensor};
use moebius_ops::KvCache;
use moebius_ops::kv_cache::{Append, Attend};

/// Appends tokens to the pool, in place where nothing else holds its memory. The caller has checked all shapes.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) when the device can't run it.
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

/// o \[B, Hq, Sq, Dv\] and lse f32 \[B, Hq, Sq\] of q over the pool. `tables` are those that the rules and sinks read, in the order
/// of the description; the caller has checked all shapes.
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
