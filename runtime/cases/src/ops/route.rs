//! `route {kind: "topk", top_k, …}`: `logits` [T,E] and an optional `expert_mask` [E] → `indices`, `weights` [T,K].
//!
//! Parameters a file leaves out are the library's defaults: softmax scores, renormalised, of all
//! groups, times 1.

use burn::tensor::{Device, Tensor, TensorData};
use moebius::moe::{Groups, RouteConfig, Score, route};
use serde::Deserialize;

use super::inputs::Inputs;
use super::{OpError, Produced, Values, download, download_ints};
use crate::case_file::{CaseFile, quoted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    #[serde(rename = "kind")]
    _kind: String,
    top_k: usize,
    score: Option<Score>,
    renormalize: Option<bool>,
    softmax_after_topk: Option<bool>,
    groups: Option<BestGroups>,
    scale: Option<f32>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct BestGroups {
    count: usize,
    chosen: usize,
}

impl Params {
    fn config(&self) -> RouteConfig {
        let default = RouteConfig::default();
        RouteConfig {
            top_k: self.top_k,
            score: self.score.unwrap_or(default.score),
            renormalize: self.renormalize.unwrap_or(default.renormalize),
            softmax_after_topk: self
                .softmax_after_topk
                .unwrap_or(default.softmax_after_topk),
            groups: self.groups.map(|best| Groups {
                count: best.count,
                chosen: best.chosen,
            }),
            scale: self.scale.unwrap_or(default.scale),
        }
    }
}

/// The router's name alone: another router has other parameters, and is unsupported rather than wrong.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Kind { kind } = case.params()?;
    if kind != "topk" {
        return Err(OpError::Unsupported(format!(
            "`route` of kind {}",
            quoted(&kind)
        )));
    }
    let params: Params = case.params()?;
    let mut inputs = Inputs::new(case);
    let logits = inputs.required("logits")?;
    let mask = inputs.optional("expert_mask");
    inputs.finish()?;
    let [_, experts] = logits.dims("[T,E]")?;
    logits.expect_positive("[T,E]", 1)?;
    if let Some(mask) = mask {
        mask.expect("[E]", &[experts])?;
    }
    check_top_k(params.top_k, experts)?;
    let mask = mask.map(|mask| mask.bools()).transpose()?;
    let mask = mask.map(|mask| Tensor::from_data(TensorData::new(mask, [experts]), device));
    let routing = route(logits.on(device)?, mask, &params.config())?;
    let shape = routing.indices.dims();
    let indices = download_ints("indices", routing.indices).await?;
    Ok(vec![
        Produced::new("indices", &shape, Values::Int(indices)),
        download("weights", routing.weights).await?,
    ])
}

/// A token goes to at least one expert and to none twice.
pub(crate) fn check_top_k(top_k: usize, experts: usize) -> Result<(), OpError> {
    if (1..=experts).contains(&top_k) {
        Ok(())
    } else {
        Err(OpError::TopK {
            experts,
            got: top_k,
        })
    }
}
