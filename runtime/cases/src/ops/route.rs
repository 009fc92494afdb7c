//! `route {kind: "topk", top_k, …}`: `logits` [T,E] and an optional `expert_mask` [E] → `indices`, `weights` [T,K], `probs` [T,E],
//! `logsumexp` [T]. Parameters that a file leaves out have the library's defaults: softmax scores, renormalised, from all groups, times 1.
//!
//! `route_backward`, with the same parameters: the inputs of `route`, `d_weights` [T,K] and perhaps `d_probs` [T,E] and `d_logsumexp` [T] →
//! `d_logits` [T,E], the gradient of Σ weights ∘ d_weights + Σ probs ∘ d_probs + Σ logsumexp ∘ d_logsumexp.
//!
//! `balance_losses {top_k}`: `logits` [T,E] → `switch`, `gshard`, `entropy`, `z` [1], `utilization` [E].
//!
//! `balance_losses_backward {top_k}`: `logits` [T,E] → `d_logits_switch`, `d_logits_gshard`, `d_logits_entropy`, `d_logits_z` [T,E], the
//! gradient of each loss.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use moebius::moe::{Groups, Losses, RouteConfig, Routing, Score, route};
use serde::Deserialize;

use super::{Input, Inputs, Produced, Values, download, download_counts, download_ints, gradient};
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

/// The parameter `groups`: only experts of the best groups can be chosen.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BestGroups {
    count: usize,
    chosen: usize,
    best: Option<usize>,
}

impl From<BestGroups> for Groups {
    fn from(of: BestGroups) -> Self {
        Self {
            count: of.count,
            chosen: of.chosen,
            best: of.best.unwrap_or(2),
        }
    }
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
            groups: self.groups.map(Groups::from),
            scale: self.scale.unwrap_or(default.scale),
        }
    }
}

/// The kind of a router alone: another kind has other parameters, and is unsupported rather than wrong.
#[derive(Deserialize)]
struct Kind {
    kind: String,
}

/// Logits and mask of a case, checked.
struct Described<'a> {
    logits: Input<'a>,
    mask: Option<Input<'a>>,
    config: RouteConfig,
}

impl<'a> Described<'a> {
    /// Reads the inputs of a forward pass; the caller reads the rest.
    fn read(case: &'a CaseFile, inputs: &mut Inputs<'a>) -> Result<Self, OpError> {
        let Kind { kind } = case.params()?;
        if kind != "topk" {
            let op = format!("`route` of kind {}", quoted(&kind));
            return Err(OpError::Unsupported(op));
        }
        let params: Params = case.params()?;
        let logits = inputs.required("logits")?;
        let mask = inputs.optional("expert_mask");
        let [_, experts] = logits.dims("[T,E]")?;
        logits.expect_positive("[T,E]", 1)?;
        mask.map_or(Ok(()), |mask| mask.expect("[E]", &[experts]))?;
        check_top_k(params.top_k, experts)?;
        Ok(Self {
            logits,
            mask,
            config: params.config(),
        })
    }

    fn route(&self, logits: Tensor<2>) -> Result<Routing, OpError> {
        let mask = mask_on(self.mask, &logits.device())?;
        Ok(route(logits, mask, &self.config)?)
    }
}

/// The mask of experts on `device`, if there is one; a value that is neither 0 nor 1 is an error.
pub(super) fn mask_on(
    mask: Option<Input<'_>>,
    device: &Device,
) -> Result<Option<Tensor<1, Bool>>, OpError> {
    let Some(mask) = mask else {
        return Ok(None);
    };
    let shape: [usize; 1] = mask.dims("[E]")?;
    let mask = TensorData::new(mask.view.to_bool()?, shape);
    Ok(Some(Tensor::from_data(mask, device)))
}

pub(crate) async fn run(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let described = Described::read(case, &mut inputs)?;
    inputs.finish()?;
    let routing = described.route(described.logits.on(device)?)?;
    let mut produced = vec![
        download_counts("indices", routing.indices).await?,
        download("weights", routing.weights).await?,
        download("probs", routing.probs).await?,
    ];
    if let Some(sums) = routing.logsumexp {
        produced.push(download("logsumexp", sums).await?);
    }
    Ok(produced)
}

pub(crate) async fn backward(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let mut inputs = Inputs::new(case);
    let described = Described::read(case, &mut inputs)?;
    let d_weights = inputs.required("d_weights")?;
    let d_probs = inputs.optional("d_probs");
    let d_sums = inputs.optional("d_logsumexp");
    inputs.finish()?;
    let [tokens, experts] = described.logits.dims("[T,E]")?;
    d_weights.expect("[T,K]", &[tokens, described.config.top_k])?;
    d_probs.map_or(Ok(()), |d| d.expect("[T,E]", &[tokens, experts]))?;
    d_sums.map_or(Ok(()), |d| d.expect("[T]", &[tokens]))?;
    let device = device.clone().autodiff();
    let logits = described.logits.on::<2>(&device)?.require_grad();
    let routing = described.route(logits.clone())?;
    let name = "d_logits";
    if tokens == 0 {
        return Ok(vec![download(name, gradient(None, name, &logits)?).await?]);
    }
    let mut sum = (routing.weights * d_weights.on(&device)?).sum();
    if let Some(d_probs) = d_probs {
        sum = sum + (routing.probs * d_probs.on(&device)?).sum();
    }
    if let (Some(sums), Some(d_sums)) = (routing.logsumexp, d_sums) {
        sum = sum + (sums * d_sums.on(&device)?).sum();
    }
    let tape = sum.backward();
    let d_logits = gradient(Some(&tape), name, &logits)?;
    Ok(vec![download(name, d_logits).await?])
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Balance {
    top_k: usize,
}

/// Logits whose losses are computed, checked.
struct Balanced<'a> {
    logits: Input<'a>,
    config: RouteConfig,
}

impl<'a> Balanced<'a> {
    fn read(case: &'a CaseFile) -> Result<Self, OpError> {
        let Balance { top_k } = case.params()?;
        let mut inputs = Inputs::new(case);
        let logits = inputs.required("logits")?;
        inputs.finish()?;
        let [_, experts] = logits.dims("[T,E]")?;
        // Means over no tokens are undefined.
        logits.expect_positive("[T,E]", 0)?;
        check_top_k(top_k, experts)?;
        let config = RouteConfig {
            top_k,
            ..RouteConfig::default()
        };
        Ok(Self { logits, config })
    }
}

pub(crate) async fn balance(case: &CaseFile, device: &Device) -> Result<Vec<Produced>, OpError> {
    let Balanced { logits, config } = Balanced::read(case)?;
    let [tokens, experts] = logits.dims("[T,E]")?;
    let routing = route(logits.on(device)?, None, &config)?;
    let losses = routing.losses(1)?;
    let load = download_ints("utilization", routing.load()?).await?;
    let slots = (tokens * config.top_k) as f64;
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

/// Chooses one of the losses.
type Loss = fn(Losses) -> Option<Tensor<1>>;

/// The name of each loss's gradient.
const GRADIENTS: [(&str, Loss); 4] = [
    ("d_logits_switch", |losses: Losses| Some(losses.switch)),
    ("d_logits_gshard", |losses: Losses| Some(losses.gshard)),
    ("d_logits_entropy", |losses: Losses| Some(losses.entropy)),
    ("d_logits_z", |losses: Losses| losses.z),
];

pub(crate) async fn balance_backward(
    case: &CaseFile,
    device: &Device,
) -> Result<Vec<Produced>, OpError> {
    let Balanced { logits, config } = Balanced::read(case)?;
    let device = device.clone().autodiff();
    let mut produced = Vec::new();
    for (name, of) in GRADIENTS {
        // A backward pass consumes the graph, so each loss has a forward pass of its own.
        let leaf = logits.on::<2>(&device)?.require_grad();
        let losses = route(leaf.clone(), None, &config)?.losses(1)?;
        let loss = of(losses).ok_or(OpError::NoGradient(name))?;
        let tape = loss.backward();
        produced.push(download(name, gradient(Some(&tape), name, &leaf)?).await?);
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
