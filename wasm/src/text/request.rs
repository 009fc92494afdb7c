//! What a text is generated of, and how.

use std::collections::BTreeMap;

use js_sys::{Array, Function, Object, Reflect};
use moebius_engine::{Generation, Sampling, SamplingOptions};
use wasm_bindgen::{JsCast, JsValue};

use super::words::{Answer, Words};
use crate::failure::Failure;
use crate::options::Options;
use crate::work::Signal;

/// Tokens of an answer at most, where nothing is said.
const MOST_NEW: usize = 128;

/// A generation that was asked for, its options checked.
pub(super) struct Request {
    pub(super) generation: Generation,
    /// The text that comes of it.
    pub(super) answer: Answer,
    /// Whether the experts of each token are told.
    pub(super) experts: bool,
    pub(super) on_token: Option<Function>,
    pub(super) signal: Signal,
}

impl Request {
    pub(super) fn new(options: JsValue, words: &Words) -> Result<Self, Failure> {
        let mut options = Options::new("generation options", options)?;
        let signal = Signal::take(&mut options)?;
        let prompt = options.text("prompt")?;
        let messages = options.list("messages")?;
        let ids = match (prompt, messages) {
            (Some(text), None) => words.encode(&text)?,
            (None, Some(messages)) => conversation(&messages, words)?,
            (prompt, _) => {
                let got = if prompt.is_some() { "both" } else { "neither" };
                let what = "generation options";
                return Err(Failure::expected(what, "prompt or messages", got));
            }
        };
        if ids.is_empty() {
            let what = "the prompt";
            return Err(Failure::expected(what, "at least one token", "none"));
        }
        let most_new = options.count_or("maxTokens", MOST_NEW)?;
        let sampling = Sampling::new(sampling(&mut options)?)?;
        let answer = words.answer(stops(&mut options)?)?;
        let experts = options.flag("experts")?.unwrap_or(false);
        let on_token = options.function("onToken")?;
        options.finish()?;
        Ok(Self {
            generation: Generation::new(ids, most_new)
                .with_sampling(sampling)
                .with_ends(words.ends()),
            answer,
            experts,
            on_token,
            signal,
        })
    }
}

/// The tokens of a conversation, up to where an answer begins.
fn conversation(messages: &[JsValue], words: &Words) -> Result<Vec<u32>, Failure> {
    let (roles, contents) = (Array::new(), Array::new());
    for message in messages {
        let mut options = Options::new("message", message.clone())?;
        let mut needed = |key| {
            let missing = || Failure::expected(&format!("message {key}"), "a text", "none");
            options.text(key)?.ok_or_else(missing)
        };
        let (role, content): (String, String) = (needed("role")?, needed("content")?);
        options.finish()?;
        roles.push(&role.into());
        contents.push(&content.into());
    }
    Ok(words.converse(roles, contents, js_sys::Date::now())?)
}

fn sampling(options: &mut Options) -> Result<SamplingOptions, Failure> {
    let default = SamplingOptions::default();
    let mut number = |key, default: f32| {
        let given = options.number(key)?;
        Ok::<_, Failure>(given.map_or(default, |number| number as f32))
    };
    let greedy = 0.0;
    Ok(SamplingOptions {
        temperature: number("temperature", greedy)?,
        top_p: number("topP", default.top_p)?,
        min_p: number("minP", default.min_p)?,
        repetition_penalty: number("repetitionPenalty", default.repetition_penalty)?,
        presence_penalty: number("presencePenalty", default.presence_penalty)?,
        frequency_penalty: number("frequencyPenalty", default.frequency_penalty)?,
        top_k: options.count("topK", 0)?.unwrap_or(default.top_k),
        seed: options.count("seed", 0)?.unwrap_or(0) as u64,
        logit_bias: biases(options)?,
        logprobs: None,
    })
}

/// What is added to logits, by the tokens' ids.
fn biases(options: &mut Options) -> Result<BTreeMap<u32, f32>, Failure> {
    let Some(given) = options.value("logitBias") else {
        return Ok(BTreeMap::new());
    };
    let wrong = || {
        Failure::expected(
            "logitBias",
            "numbers by the ids of tokens",
            "something else",
        )
    };
    let object: &Object = given.dyn_ref().ok_or_else(wrong)?;
    let pair = |key: JsValue| {
        let id = key.as_string()?.parse::<u32>().ok()?;
        let bias = Reflect::get(object, &key).ok()?.as_f64()?;
        Some((id, bias as f32))
    };
    let keys = Object::keys(object);
    let pairs = keys.iter().map(|key| pair(key).ok_or_else(wrong));
    pairs.collect()
}

fn stops(options: &mut Options) -> Result<Array, Failure> {
    let wrong = || {
        Failure::expected(
            "stop",
            "an array of texts that aren't empty",
            "something else",
        )
    };
    let given = options.list("stop")?.unwrap_or_default();
    let is_text = |stop: &JsValue| stop.as_string().is_some_and(|text| !text.is_empty());
    if given.iter().all(is_text) {
        Ok(given.into_iter().collect())
    } else {
        Err(wrong())
    }
}
