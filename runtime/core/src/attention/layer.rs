//! The attention layer: projections of queries, keys and values, attention in heads, and a projection of the result.

use super::Attend;
use crate::Error;
use crate::check::{check_device, check_same};
use burn::module::Module;
use burn::nn::attention::MultiHeadAttention;
use burn::nn::{Dropout, Linear};
use burn::tensor::Tensor;
use moebius_ops::{Fault, Mismatch};

/// Multi-head attention with projections before and after, Vaswani et al. 2017.
///
/// The projections have the names and shapes of those in Burn's `MultiHeadAttention`; records of that layer load here, and `From` converts
/// the layer itself. Burn's option of a quiet softmax is missing: a sink of 0 per head ([`Attend::sinks`]) gives the same softmax. An
/// [`Attend`] hides keys, and hidden keys have no weight at all, where Burn's layer gives a row that sees no key the mean of all values.
///
/// ```
/// use burn::nn::attention::MultiHeadAttentionConfig;
/// use burn::tensor::{Distribution, Tensor};
/// use moebius::attention::{Attend, Attention};
///
/// # fn main() -> Result<(), moebius::Error> {
/// # #[cfg(feature = "flex")] {
/// let device = moebius::open(&moebius::Device::Flex)?;
/// let layer = Attention::from(MultiHeadAttentionConfig::new(64, 4).init(&device));
/// let x = Tensor::<3>::random([2, 10, 64], Distribution::Default, &device);
/// assert_eq!(layer.forward(x, &Attend::new().causal())?.dims(), [2, 10, 64]);
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct Attention {
    /// Projects d_model inputs to the query heads.
    pub query: Linear,
    /// Projects d_model inputs to the key heads.
    pub key: Linear,
    /// Projects d_model inputs to the value heads, as many as key heads.
    pub value: Linear,
    /// Projects the outputs of all heads, one after the other, to d_model outputs.
    pub output: Linear,
    /// The number of query heads.
    pub n_heads: usize,
    /// The number of key and value heads, a divisor of `n_heads`.
    pub n_kv_heads: usize,
    /// Drops attention weights while training, as in Burn's layer: on a device that records gradients, unless the layer is frozen. The
    /// device's generator draws a seed in each forward pass; an [`Attend`] with a dropout of its own keeps that dropout.
    pub dropout: Dropout,
}

impl From<MultiHeadAttention> for Attention {
    fn from(layer: MultiHeadAttention) -> Self {
        Self {
            query: layer.query,
            key: layer.key,
            value: layer.value,
            output: layer.output,
            n_heads: layer.n_heads,
            n_kv_heads: layer.n_heads,
            dropout: layer.dropout,
        }
    }
}

impl Attention {
    /// Self-attention of x \[B, S, d_model\] to \[B, S, d_model\].
    ///
    /// # Errors
    /// As [`Attention::forward_cross`].
    pub fn forward(&self, x: Tensor<3>, attend: &Attend) -> Result<Tensor<3>, Error> {
        self.forward_cross([x.clone(), x.clone(), x], attend)
    }

    /// Attention of queries \[B, Sq, d_model\] to keys and values \[B, Skv, d_model\]; returns \[B, Sq, d_model\].
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for other shapes, and for a projection without inputs or outputs,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) if the number of heads doesn't divide the outputs of a projection, and the errors of
    /// [`Attend::forward`].
    pub fn forward_cross(
        &self,
        [query, key, value]: [Tensor<3>; 3],
        attend: &Attend,
    ) -> Result<Tensor<3>, Error> {
        let [b, s, _] = query.dims();
        let [_, keys, _] = key.dims();
        check_same("sequences of the keys", key.dims()[0], b)?;
        let of_values = [value.dims()[0], value.dims()[1]];
        check_same("sequences and tokens of the values", of_values, [b, keys])?;
        let q = heads("query", &self.query, query, self.n_heads)?;
        let k = heads("key", &self.key, key, self.n_kv_heads)?;
        let v = heads("value", &self.value, value, self.n_kv_heads)?;
        let dropout = &self.dropout;
        let training = dropout.training.is_enabled() && q.device().is_autodiff();
        let attend = if training && !attend.has_dropout() {
            &attend.clone().dropout_drawn(dropout.prob)
        } else {
            attend
        };
        let o = attend.forward(q, k, v)?.o;
        let [_, heads, _, width] = o.dims();
        let [rows, columns] = self.output.weight.dims();
        check_same("inputs of the output projection", rows, heads * width)?;
        if b * s * columns == 0 {
            return Ok(Tensor::zeros([b, s, columns], (&o.device(), o.dtype())));
        }
        let joined = o.swap_dims(1, 2).reshape([b, s, heads * width]);
        Ok(self.output.forward(joined))
    }

    /// Computes the attention weights \[B, n_heads, Sq, Skv\] of queries \[B, Sq, d_model\] to keys \[B, Skv, d_model\], as
    /// [`Attend::weights`] does of their heads: PyTorch's `need_weights`, without the mean over heads (`mean_dim(1)`). Dropped are weights
    /// that `attend` drops, and none by the layer's own dropout, which draws anew in each pass.
    ///
    /// # Errors
    /// As [`Attention::forward_cross`] and [`Attend::weights`].
    pub fn weights(
        &self,
        [query, key]: [Tensor<3>; 2],
        attend: &Attend,
    ) -> Result<Tensor<4>, Error> {
        let q = heads("query", &self.query, query, self.n_heads)?;
        let k = heads("key", &self.key, key, self.n_kv_heads)?;
        attend.weights(q, k)
    }
}

/// Projects x \[B, S, d_model\] to heads \[B, heads, S, width\].
fn heads(
    what: &'static str,
    projection: &Linear,
    x: Tensor<3>,
    heads: usize,
) -> Result<Tensor<4>, Error> {
    let ([b, s, width], [inputs, outputs]) = (x.dims(), projection.weight.dims());
    if width != inputs {
        let expected = format!("[.., {inputs}]");
        return Err(Mismatch::new(what, expected, format!("[.., {width}]")).into());
    }
    let (some, expected) = (inputs * outputs > 0, "at least 1 input and 1 output");
    let got = format_args!("[{inputs}, {outputs}]");
    Mismatch::unless(some, what, expected, got)?;
    if heads == 0 || !outputs.is_multiple_of(heads) {
        let expected = format!("a divisor of {outputs} (the outputs of {what})");
        return Err(Fault::Config.error("heads", expected, heads).into());
    }
    let weight = projection.weight.val();
    check_same("dtype of x", x.dtype(), weight.dtype())?;
    check_device("device of x", x.device(), &weight.device())?;
    let shape = [b, s, heads, outputs / heads];
    if b * s == 0 {
        let shape = [b, heads, s, outputs / heads];
        return Ok(Tensor::zeros(shape, (&x.device(), x.dtype())));
    }
    Ok(projection.forward(x).reshape(shape).swap_dims(1, 2))
}
