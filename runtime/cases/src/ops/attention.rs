//! `attention` and `attention_backward {causal, window, alibi, softcap, prefix, document, kv_len, scale, dropout, dropout_seed, compute}`:
//! `q` \[B,Hq,Sq,D\], `k` \[B,Hkv,Skv,D\], `v` \[B,Hkv,Skv,Dv\], perhaps `sinks` \[Hq\], and with `document` the `document_ids` \[B,Sq\] of the
//! queries and the `key_document_ids` \[B,Skv\] of the keys, which are those of the queries if left out → `o` and `lse`; with `do`
//! \[B,Hq,Sq,Dv\] `dq`, `dk`, `dv` and, where there are sinks, `dsinks`, the gradients of Σ o ∘ do.
//!
//! Every parameter may be left out. Scores get the `alibi` biases with slopes 2^(−8(h + 1)/Hq) first, for any Hq, then the cap. The last
//! query and the last key have the same position. `prefix` takes the place of `causal` and `window`. exp(sink) is added to the sum of a head's
//! exponentials. The lse of a query that sees no key and has no sink is −∞, as in PyTorch's `logsumexp`. `dropout` is the probability of a
//! dropped weight; which are dropped follows from `dropout_seed` by this library's own formula, so other libraries agree for 0 only. `compute`
//! is the dtype of q, k and v, `f32`, `f16` or `bf16`; sinks and slopes are f32.

use burn::tensor::{Device, Int, Tensor, TensorData};
use moebius::attention::Attend;
use serde::Deserialize;

use super::{Input, Inputs, Produced, download, download_log_sums, gradient, upload};
use crate::case_file::CaseFile;
use crate::compute::{Compute, Place};
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
    dropout: Option<f64>,
    dropout_seed: Option<u64>,
    #[serde(default)]
    compute: Compute,
}

/// The rules of an attention that follow from positions, and the scale of its scores.
pub(super) struct Rules {
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) alibi: bool,
    pub(super) softcap: Option<f32>,
    pub(super) prefix: Option<usize>,
    pub(super) scale: Option<f32>,
}

impl Rules {
    /// An attention of `heads` query heads under these rules.
    pub(super) fn attend(&self, heads: usize, device: &Device) -> Attend {
        let mut attend = Attend::new();
        if let Some(scale) = self.scale {
            attend = attend.scale(scale);
        }
        if self.alibi {
            let slope = |h| (-8.0 * (h + 1) as f64 / heads as f64).exp2() as f32;
            let slopes = (0..heads).map(slope).collect();
            attend = attend.alibi_slopes(upload(slopes, [heads], device));
        }
        if let Some(cap) = self.softcap {
            attend = attend.softcap(cap);
        }
        if let Some(keys) = self.prefix {
            attend = attend.prefix(keys);
        } else {
            if self.causal {
                attend = attend.causal();
            }
            if let Some(keys) = self.window {
                attend = attend.window(keys);
            }
        }
        attend
    }
}

/// The ids of documents, of the queries and of the keys.
struct Documents<'a> {
    queries: Input<'a>,
    keys: Input<'a>,
}

/// Parameters and inputs of a case, checked against each other.
struct Described<'a> {
    params: Params,
    tensors: [(Input<'a>, [usize; 4]); 3],
    documents: Option<Documents<'a>>,
    sinks: Option<Input<'a>>,
}

impl<'a> Described<'a> {
    /// Reads the inputs of a forward pass; the caller reads the rest.
    fn read(case: &'a CaseFile, inputs: &mut Inputs<'a>) -> Result<Self, OpError> {
        let params: Params = case.params()?;
        if let (None, Some(_)) = (params.dropout, params.dropout_seed) {
            let message = "parameter dropout_seed has no effect without dropout";
            return Err(OpError::Misfit(message.to_owned()));
        }
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
            let of_queries = inputs.required("document_ids")?;
            let of_keys = inputs.optional("key_document_ids").unwrap_or(of_queries);
            of_queries.expect("[B,Sq]", &[batch, queries])?;
            of_keys.expect("[B,Skv]", &[batch, keys])?;
            Some(Documents {
                queries: of_queries,
                keys: of_keys,
            })
        } else {
            None
        };
        let sinks = inputs.optional("sinks");
        sinks.map_or(Ok(()), |sinks| sinks.expect("[Hq]", &[heads]))?;
        let of_queries = [batch, heads, queries, dim];
        Ok(Self {
            params,
            tensors: [(q, of_queries), (k, of_keys), (v, of_values)],
            documents,
            sinks,
        })
    }

    /// Shape of the output o.
    fn output(&self) -> [usize; 4] {
        let [(_, [b, h, s, _]), _, (_, [_, _, _, width])] = self.tensors;
        [b, h, s, width]
    }

    fn tensors(&self, place: &Place) -> Result<[Tensor<4>; 3], OpError> {
        let [q, k, v] = self.tensors;
        let put = |(input, shape): (Input<'a>, _)| -> Result<_, OpError> {
            Ok(place.put(input.view.to_f32()?, shape))
        };
        Ok([put(q)?, put(k)?, put(v)?])
    }

    /// The sinks, if there are any.
    fn sinks(&self, device: &Device) -> Result<Option<Tensor<1>>, OpError> {
        self.sinks.map(|sinks| sinks.on(device)).transpose()
    }

    /// The attention without its sinks.
    fn attend(&self, device: &Device) -> Result<Attend, OpError> {
        let p = &self.params;
        let [(_, [_, heads, ..]), ..] = self.tensors;
        let rules = Rules {
            causal: p.causal,
            window: p.window,
            alibi: p.alibi,
            softcap: p.softcap,
            prefix: p.prefix,
            scale: p.scale,
        };
        let mut attend = rules.attend(heads, device);
        if let Some(documents) = &self.documents {
            let ids = |input: &Input<'_>| -> Result<_, OpError> {
                let shape: [usize; 2] = input.dims("[B,S]")?;
                let ids: Vec<i64> = input.view.ints()?.collect();
                Ok(Tensor::<2, Int>::from_data(
                    TensorData::new(ids, shape),
                    device,
                ))
            };
            attend = attend.documents(ids(&documents.queries)?, ids(&documents.keys)?);
        }
        Ok(match p.dropout {
            Some(probability) => attend.dropout(probability, p.dropout_seed.unwrap_or(0)),
            None => attend,
        })
    }
}

fn with_sinks(attend: Attend, sinks: Option<Tensor<1>>) -> Attend {
    match sinks {
        Some(sinks) => attend.sinks(sinks),
        None => attend,
    }
}

pub(crate) async fn forward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let described = Described::read(case, &mut inputs)?;
    inputs.finish()?;
    let place = Place::new(described.params.compute, device)?;
    let [q, k, v] = described.tensors(&place)?;
    let attend = with_sinks(described.attend(device)?, described.sinks(device)?);
    let out = attend.forward(q, k, v)?;
    Ok(vec![
        download("o", out.o).await?,
        download_log_sums("lse", out.lse).await?,
    ])
}

pub(crate) async fn backward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let described = Described::read(case, &mut inputs)?;
    let d_o = inputs.required("do")?;
    inputs.finish()?;
    let shape = described.output();
    d_o.expect("[B,Hq,Sq,Dv]", &shape)?;
    let device = device.clone().autodiff();
    let place = Place::new(described.params.compute, &device)?;
    let leaves = described.tensors(&place)?.map(Tensor::require_grad);
    let sinks = described.sinks(&device)?.map(Tensor::require_grad);
    let [q, k, v] = leaves.clone();
    let attend = with_sinks(described.attend(&device)?, sinks.clone());
    let out = attend.forward(q, k, v)?;
    let d_o: Tensor<4> = place.put(d_o.view.to_f32()?, shape);
    // Without keys or queries the output has no gradients, which are then zeros.
    let [(_, [.., queries, _]), (_, [batch, _, keys, _]), _] = described.tensors;
    let tape = (batch * queries * keys > 0).then(|| (out.o * d_o).sum().backward());
    let mut produced = Vec::new();
    for (name, leaf) in ["dq", "dk", "dv"].into_iter().zip(leaves) {
        produced.push(download(name, gradient(tape.as_ref(), name, &leaf)?).await?);
    }
    if let Some(sinks) = sinks {
        let name = "dsinks";
        produced.push(download(name, gradient(tape.as_ref(), name, &sinks)?).await?);
    }
    Ok(produced)
}
