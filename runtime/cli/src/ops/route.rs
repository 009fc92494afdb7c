//! `route {kind: "topk", …}`: `logits` [T,E] and an optional `expert_mask` [E] → `indices`, `weights` [T,K].

use burn::tensor::Device;
use moebius::moe::{RouteConfig, Score, route};
use serde::Deserialize;

use super::inputs::Inputs;
use super::{OpError, Produced, download, download_ints, upload, upload_bool};
use crate::case_file::{CaseFile, quoted};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    #[serde(rename = "kind")]
    _kind: String,
    top_k: usize,
    score: Score,
    renormalize: bool,
    softmax_after_topk: bool,
}

/// The router's name alone: another router has other parameters, and is unsupported rather than wrong.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

pub(crate) fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Kind { kind } = case.params()?;
    if kind != "topk" {
        return Err(OpError::Unsupported {
            op: format!("`route` of kind {}", quoted(&kind)),
        });
    }
    let params: Params = case.params()?;
    let mut inputs = Inputs::new(case);
    let logits = inputs.required("logits")?;
    let mask = inputs.optional("expert_mask");
    inputs.finish()?;
    let [tokens, experts] = logits.dims("[T,E]")?;
    logits.expect_positive("[T,E]", 1)?;
    if let Some(mask) = mask {
        mask.expect("[E]", &[experts])?;
    }
    check_top_k(params.top_k, experts)?;
    let config = RouteConfig {
        top_k: params.top_k,
        score: params.score,
        renormalize: params.renormalize,
        softmax_after_topk: params.softmax_after_topk,
        ..RouteConfig::default()
    };
    let mask = mask
        .map(|m| m.bools())
        .transpose()?
        .map(|m| upload_bool(m, device));
    let routing = route(
        upload(logits.floats()?, [tokens, experts], device),
        mask,
        &config,
    )?;
    let shape = routing.indices.dims();
    let indices = Produced::int(
        "indices",
        &shape,
        download_ints("indices", routing.indices)?,
    );
    Ok(vec![indices, download("weights", routing.weights)?])
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
