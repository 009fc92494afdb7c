//! `route {kind: "topk", top_k, …}`: `logits` [T,E] and an optional `expert_mask` [E] → `indices`, `weights` [T,K]. Parameters that a file
//! leaves out have the library's defaults: softmax scores, renormalised, from all groups, times 1.
//!
//! `balance_losses {top_k}`: `logits` [T,E] → `switch`, `gshard`, `entropy`, `z` [1], `utilization` [E].

use burn::tensor::{Device, Tensor, TensorData};
use moebius::moe::{Groups, RouteConfig, Score, route};
use serde::Deserialize;

use super::{Inputs, Produced, Values, download, download_counts, download_ints};
use crate::case_file::{CaseFile, quoted};
use crate::error::OpError;

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
            groups: self
                .groups
                .map(|BestGroups { count, chosen }| Groups { count, chosen }),
            scale: self.scale.unwrap_or(default.scale),
        }
    }
}

/// The kind of a router alone: another kind has other parameters, and is unsupported rather than wrong.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Kind { kind } = case.params()?;
    if kind != "topk" {
        let op = format!("`route` of kind {}", quoted(&kind));
        return Err(OpError::Unsupported(op));
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
    let mask = mask.map(|mask| mask.view.to_bool()).transpose()?;
    let mask = mask.map(|mask| Tensor::from_data(TensorData::new(mask, [experts]), device));
    let routing = route(logits.on(device)?, mask, &params.config())?;
    Ok(vec![
        download_counts("indices", routing.indices).await?,
        download("weights", routing.weights).await?,
    ])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Balance {
    top_k: usize,
}

pub(crate) async fn balance(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Balance { top_k } = case.params()?;
    let mut inputs = Inputs::new(case);
    let logits = inputs.required("logits")?;
    inputs.finish()?;
    let [tokens, experts] = logits.dims("[T,E]")?;
    // Means over no tokens are undefined.
    logits.expect_positive("[T,E]", 0)?;
    check_top_k(top_k, experts)?;
    let config = RouteConfig {
        top_k,
        ..RouteConfig::default()
    };
    let routing = route(logits.on(device)?, None, &config)?;
    let losses = routing.losses(1)?;
    let load = download_ints("utilization", routing.load()?).await?;
    let slots = (tokens * top_k) as f64;
    let share = |count: &i64| (*count as f64 / slots) as f32;
    let utilization = Values::Float(load.iter().map(share).collect());
    let mut produced = vec![
        download("switch", losses.switch).await?,
        download("gshard", losses.gshard).await?,
        download("entropy", losses.entropy).await?,
        Produced::new("utilization", &[experts], utilization),
    ];
    if let Some(z) = losses.z {
        produced.push(download("z", z).await?);
    }
    Ok(produced)
}

/// Checks that a token goes to at least one expert, and to none twice.
pub(crate) fn check_top_k(top_k: usize, experts: usize) -> Result<(), OpError> {
    if (1..=experts).contains(&top_k) {
        return Ok(());
    }
    let message = format!("parameter top_k: expected 1 to {experts}, got {top_k}");
    Err(OpError::Misfit(message))
}
