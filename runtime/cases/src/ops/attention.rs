//! `attention` and `attention_backward {causal, window, alibi, softcap, prefix, document, kv_len, scale}`: `q` \[B,Hq,Sq,D\],
//! `k` \[B,Hkv,Skv,D\], `v` \[B,Hkv,Skv,Dv\], and `document_ids` \[B,Sq\] with `document` → `o` and `lse`; with `do` \[B,Hq,Sq,Dv\]
//! `dq`, `dk` and `dv`, the gradients of Σ o ∘ do.
//!
//! Every parameter may be left out. Scores get the `alibi` biases with slopes 2^(−8(h + 1)/Hq) first, for any Hq, then the cap. The last
//! query and the last key have the same position. `prefix` takes the place of `causal` and `window`. The lse of a query that sees no key is
//! −∞, as in PyTorch's `logsumexp`.

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::Attend;
use serde::Deserialize;

use super::{Input, Inputs, Produced, Values, download, gradient, upload};
use crate::case_file::CaseFile;
use crate::error::OpError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    #[serde(default)]
    causal: bool,
    window: Option<usize>,
    #[serde(default)]
    alibi: bool,
    softcap: Option<f32>,
    prefix: Option<usize>,
    #[serde(default)]
    document: bool,
    kv_len: Option<usize>,
    scale: Option<f32>,
}

/// Parameters and inputs of a case, checked against each other.
struct Described<'a> {
    params: Params,
    tensors: [(Input<'a>, [usize; 4]); 3],
    documents: Option<Input<'a>>,
}

impl<'a> Described<'a> {
    /// Reads the inputs of a forward pass; the caller reads the rest.
    fn read(case: &'a CaseFile, inputs: &mut Inputs<'a>) -> Result<Self, OpError> {
        let params: Params = case.params()?;
        let q = inputs.required("q")?;
        let k = inputs.required("k")?;
        let v = inputs.required("v")?;
        let [batch, heads, queries, dim] = q.dims("[B,Hq,Sq,D]")?;
        let [_, kv_heads, keys, _] = k.dims("[B,Hkv,Skv,D]")?;
        let [_, _, _, value_dim] = v.dims("[B,Hkv,Skv,Dv]")?;
        let keys = params.kv_len.unwrap_or(keys);
        let of_keys = [batch, kv_heads, keys, dim];
        let of_values = [batch, kv_heads, keys, value_dim];
        k.expect("[B,Hkv,Skv,D]", &of_keys)?;
        v.expect("[B,Hkv,Skv,Dv]", &of_values)?;
        let documents = if params.document {
            let documents = inputs.required("document_ids")?;
            documents.expect("[B,Sq]", &[batch, queries])?;
            documents.expect("[B,Skv]", &[batch, keys])?;
            Some(documents)
        } else {
            None
        };
        let of_queries = [batch, heads, queries, dim];
        Ok(Self {
            params,
            tensors: [(q, of_queries), (k, of_keys), (v, of_values)],
            documents,
        })
    }

    /// Shape of the output o.
    fn output(&self) -> [usize; 4] {
        let [(_, [b, h, s, _]), _, (_, [_, _, _, width])] = self.tensors;
        [b, h, s, width]
    }

    fn tensors(&self, device: &Device) -> Result<[Tensor<4>; 3], OpError> {
        let [q, k, v] = self.tensors;
        let put = |(input, shape): (Input<'a>, _)| -> Result<_, OpError> {
            Ok(upload(input.view.to_f32()?, shape, device))
        };
        Ok([put(q)?, put(k)?, put(v)?])
    }

    fn attend(&self, device: &Device) -> Result<Attend, OpError> {
        let p = &self.params;
        let [(_, [batch, heads, queries, _]), ..] = self.tensors;
        let mut attend = Attend::new();
        if let Some(scale) = p.scale {
            attend = attend.scale(scale);
        }
        if p.alibi {
            let slope = |h| (-8.0 * (h + 1) as f64 / heads as f64).exp2() as f32;
            let slopes = (0..heads).map(slope).collect();
            attend = attend.alibi_slopes(upload(slopes, [heads], device));
        }
        if let Some(cap) = p.softcap {
            attend = attend.softcap(cap);
        }
        if let Some(keys) = p.prefix {
            attend = attend.prefix(keys);
        } else {
            if p.causal {
                attend = attend.causal();
            }
            if let Some(keys) = p.window {
                attend = attend.window(keys);
            }
        }
        if let Some(documents) = &self.documents {
            let ids: Vec<i64> = documents.view.ints()?.collect();
            let ids = TensorData::new(ids, [batch, queries]);
            let ids = Tensor::<2, Int>::from_data(ids, device);
            attend = attend.documents(ids.clone(), ids);
        }
        Ok(attend)
    }
}

pub(crate) async fn forward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let described = Described::read(case, &mut inputs)?;
    inputs.finish()?;
    let [q, k, v] = described.tensors(device)?;
    let out = described.attend(device)?.forward(q, k, v)?;
    let mut lse = download("lse", out.lse).await?;
    if let Values::Float(values) = &mut lse.values {
        for value in values.iter_mut().filter(|value| **value == f32::MIN) {
            *value = f32::NEG_INFINITY;
        }
    }
    Ok(vec![download("o", out.o).await?, lse])
}

pub(crate) async fn backward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let described = Described::read(case, &mut inputs)?;
    let d_o = inputs.required("do")?;
    inputs.finish()?;
    let shape = described.output();
    d_o.expect("[B,Hq,Sq,Dv]", &shape)?;
    let device = device.clone().autodiff();
    let leaves = described.tensors(&device)?.map(Tensor::require_grad);
    let [q, k, v] = leaves.clone();
    let out = described.attend(&device)?.forward(q, k, v)?;
    let d_o: Tensor<4> = upload(d_o.view.to_f32()?, shape, &device);
    // Without keys or queries the output has no gradients, which are then zeros.
    let [(_, [.., queries, _]), (_, [batch, _, keys, _]), _] = described.tensors;
    let tape = (batch * queries * keys > 0).then(|| (out.o * d_o).sum().backward());
    let mut produced = Vec::new();
    for (name, leaf) in ["dq", "dk", "dv"].into_iter().zip(leaves) {
        produced.push(download(name, gradient(tape.as_ref(), name, &leaf)?).await?);
    }
    Ok(produced)
}
