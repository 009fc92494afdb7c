//! The weights of an attention, for inspection.

use super::Attend;
use super::attend::sizes;
use crate::Error;
use crate::device::largest_buffer;
use burn::tensor::{Bool, Tensor};
use moebius_ops::Mismatch;
use moebius_ops::attention::MAX_HEAD_DIM;

impl Attend {
    /// The most bytes that [`weights`](Self::weights) computes; the largest buffer of the device bounds them, too.
    pub const MAX_WEIGHTS_BYTES: u64 = 1 << 30;

    /// Computes the weights p_ij \[B, Hq, Sq, Skv\] that [`forward`](Self::forward) gives to the values, after all rules and after the
    /// dropout, from q \[B, Hq, Sq, D\] and k \[B, Hkv, Skv, D\], in their dtype: o is their product with v. Hidden keys and dropped weights
    /// have 0. Without a dropout the sum over a query's keys is 1, less what goes to its sink, and 0 if the query sees no key.
    ///
    /// This is for looking at an attention: it makes the matrix that `forward` never has. The weights are what `forward` computes with an
    /// identity matrix for the values, 256 of its columns in each of ⌈Skv / 256⌉ attentions over all keys, so that every rule and its gradient
    /// counts as it does there, on every device. In f32 they have the few roundings of a softmax. In f16 and bf16 they are rounded to that
    /// type, and twice where matrix instructions multiply weights by values: as a factor, and as a result. For a part of a large attention
    /// give some of the queries or heads, and with queries that aren't the last ones their [`position`](Self::position).
    ///
    /// ```
    /// use burn::tensor::{Distribution, Tensor};
    /// use moebius::attention::Attend;
    ///
    /// # fn main() -> Result<(), moebius::Error> {
    /// # #[cfg(feature = "flex")] {
    /// let device = moebius::open(&moebius::Device::Flex)?;
    /// let x = Tensor::<4>::random([1, 4, 32, 16], Distribution::Default, &device);
    /// // To which keys does the last query attend, in the mean over all heads?
    /// let weights = Attend::new().causal().weights(x.clone().narrow(2, 31, 1), x)?;
    /// let (_, keys) = weights.mean_dim(1).topk_with_indices(3, 3);
    /// assert_eq!(keys.dims(), [1, 1, 1, 3]);
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for weights of more than
    /// [`MAX_WEIGHTS_BYTES`](Self::MAX_WEIGHTS_BYTES), or of more than the device's largest buffer.
    pub fn weights(&self, q: Tensor<4>, k: Tensor<4>) -> Result<Tensor<4>, Error> {
        let sizes = sizes(&q, &k, &k)?;
        // Shapes, rules and tables are checked before an identity matrix is made for them.
        self.problem(&sizes, &q)?;
        let (device, dtype, keys) = (q.device(), q.dtype(), sizes.keys);
        let shape = [sizes.batch, sizes.heads, sizes.queries, keys];
        let most = largest_buffer(&device).unwrap_or(u64::MAX);
        let most = most.min(Self::MAX_WEIGHTS_BYTES);
        let bytes = shape.iter().fold(dtype.size() as u64, |bytes, &size| {
            bytes.saturating_mul(size as u64)
        });
        let what = "bytes of attention weights [B, Hq, Sq, Skv]";
        Mismatch::unless(bytes <= most, what, format_args!("at most {most}"), bytes)?;
        if shape.contains(&0) {
            return Ok(Tensor::zeros(shape, (&device, dtype)));
        }
        let parts = (0..keys).step_by(MAX_HEAD_DIM).map(|from| {
            let columns = MAX_HEAD_DIM.min(keys - from);
            let others = Tensor::<2, Bool>::diag_mask([keys, columns], -(from as i64), &device);
            let ones = Tensor::<2>::ones([keys, columns], (&device, dtype));
            let identity = ones.mask_fill(others, 0.0).unsqueeze::<4>();
            let v = identity.expand([sizes.batch, sizes.kv_heads, keys, columns]);
            let found = self.forward(q.clone(), k.clone(), v);
            found.map(|found| found.o)
        });
        let parts = parts.collect::<Result<Vec<_>, Error>>()?;
        Ok(Tensor::cat(parts, 3))
    }
}
