//! `balance_losses {top_k}`: `logits` [T,E] → `switch`, `gshard`, `entropy`, `z` [1], `utilization` [E].

use burn::tensor::Device;
use moebius::moe::{RouteConfig, route};
use serde::Deserialize;

use super::inputs::Inputs;
use super::route::check_top_k;
use super::{OpError, Produced, Values, download, download_ints};
use crate::case_file::CaseFile;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    top_k: usize,
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let params: Params = case.params()?;
    let mut inputs = Inputs::new(case);
    let logits = inputs.required("logits")?;
    inputs.finish()?;
    let [tokens, experts] = logits.dims("[T,E]")?;
    // Means over no tokens are undefined.
    logits.expect_positive("[T,E]", 0)?;
    check_top_k(params.top_k, experts)?;
    let config = RouteConfig {
        top_k: params.top_k,
        ..RouteConfig::default()
    };
    let routing = route(logits.on(device)?, None, &config)?;
    let losses = routing.losses(1)?;
    let load = download_ints("utilization", routing.load()?).await?;
    let slots = (tokens * params.top_k) as f64;
    let utilization = load.iter().map(|count| (*count as f64 / slots) as f32);
    let mut produced = vec![
        download("switch", losses.switch).await?,
        download("gshard", losses.gshard).await?,
        download("entropy", losses.entropy).await?,
        Produced::new(
            "utilization",
            &[experts],
            Values::Float(utilization.collect()),
        ),
    ];
    if let Some(z) = losses.z {
        produced.push(download("z", z).await?);
    }
    Ok(produced)
}
