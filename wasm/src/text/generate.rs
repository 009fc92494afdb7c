//! Generation of a text, token by token: its options, its steps and its result.

use std::collections::BTreeMap;
use std::rc::Rc;

use burn::tensor::TensorData;
use js_sys::{Array, Function, Object, Reflect, Uint32Array};
use moebius_engine::{
    Ended, Event, Experts, Generation, Launched, RequestId, Sampling, SamplingOptions,
};
use wasm_bindgen::{JsCast, JsValue};

use super::Writer;
use super::words::{Answer, Piece, Words};
use crate::failure::{Code, Failure};
use crate::objects::{Options, Record};
use crate::work::{Aborted, Signal, now};

/// Default for the largest number of tokens of an answer.
const MOST_NEW: usize = 128;

/// Guard that marks a model as free again when its work ends in any way.
struct Turn(Rc<Writer>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.busy.set(false);
    }
}

/// Generates the text that the options ask for.
pub(super) async fn generate(writer: Rc<Writer>, options: JsValue) -> Result<Record, Failure> {
    let request = Request::new(options, &writer.words)?;
    if writer.busy.replace(true) {
        let message = "expected one text at a time, got a second while a first is written";
        return Err(Failure::new(Code::UNSUPPORTED, message));
    }
    let turn = Turn(writer);
    let writer = &turn.0;
    request.signal.check()?;
    writer.gpu.alive()?;
    let mut text = Text {
        answer: request.answer,
        on_token: request.on_token,
        said: String::new(),
        ids: Vec::new(),
        begun: now(),
        first: None,
    };
    let prompt_tokens = request.generation.prompt.len();
    let id = writer.engine.borrow_mut().add(request.generation)?;
    let mut aborted = request.signal.aborted();
    let finish = text.follow(writer, request.experts, &mut aborted).await;
    // Cancelling does nothing to a request that has ended by itself.
    writer.engine.borrow_mut().cancel(id);
    Ok(text
        .result(finish?)
        .with("promptTokens", prompt_tokens as f64))
}

/// The text written so far.
struct Text {
    answer: Answer,
    on_token: Option<Function>,
    said: String,
    ids: Vec<u32>,
    /// Times at which the generation began and the first token came.
    begun: f64,
    first: Option<f64>,
}

/// Result of a step: its events, and the chosen experts if they were asked for.
type Came = (Vec<(RequestId, Event)>, Vec<Experts>);

impl Text {
    /// Generates until the text ends; returns the reason of its end.
    async fn follow(
        &mut self,
        writer: &Rc<Writer>,
        experts: bool,
        aborted: &mut Aborted,
    ) -> Result<&'static str, Failure> {
        while let Some((events, experts)) = step(writer, experts, aborted).await? {
            let experts = experts.into_iter().next();
            for (_, event) in events {
                match event {
                    Event::Token(draw) => {
                        if self.token(draw.id, experts.as_ref())? {
                            return Ok("stop");
                        }
                    }
                    Event::End(Ended::Stop) => return self.end("stop"),
                    Event::End(Ended::Length) => return self.end("length"),
                    Event::End(Ended::Failed(error)) => {
                        return Err(Failure::new(Code::DEVICE, error));
                    }
                    Event::End(Ended::NoRoom(error)) => {
                        return Err(Failure::new(Code::OUT_OF_MEMORY, error));
                    }
                }
            }
        }
        self.end("length")
    }

    /// Adds a token to the text; returns whether a stop string ended the text.
    fn token(&mut self, id: u32, experts: Option<&Experts>) -> Result<bool, Failure> {
        self.first.get_or_insert_with(now);
        self.ids.push(id);
        let piece = self.answer.push(id)?;
        self.said.push_str(&piece.text);
        let record = Record::new().with("id", id).with("text", piece.text);
        let experts = experts.map(|of| {
            let chosen: Vec<u32> = of.layers.iter().flatten().copied().collect();
            Uint32Array::from(chosen.as_slice())
        });
        self.tell(record.with("experts", experts.map_or(JsValue::NULL, Into::into)))?;
        Ok(piece.stopped)
    }

    /// Ends the text and reports the part that was held back; returns the reason of the end.
    fn end(&mut self, finish: &'static str) -> Result<&'static str, Failure> {
        let Piece { text, stopped } = self.answer.finish()?;
        self.said.push_str(&text);
        if !text.is_empty() {
            let record = Record::new().with("id", JsValue::NULL).with("text", text);
            self.tell(record.with("experts", JsValue::NULL))?;
        }
        Ok(if stopped { "stop" } else { finish })
    }

    fn tell(&self, record: Record) -> Result<(), Failure> {
        let Some(on_token) = &self.on_token else {
            return Ok(());
        };
        let told = on_token.call1(&JsValue::NULL, &record.into());
        let thrown = |error| Failure::new(Code::DEVICE, format!("onToken threw: {error:?}"));
        told.map(|_| ()).map_err(thrown)
    }

    fn result(self, finish: &'static str) -> Record {
        let ended = now();
        let first = self.first.unwrap_or(ended);
        // The first token comes from the prompt.
        let after = self.ids.len().saturating_sub(1) as f64;
        let speed = if after > 0.0 && ended > first {
            JsValue::from(1000.0 * after / (ended - first))
        } else {
            JsValue::NULL
        };
        Record::new()
            .with("text", self.said)
            .with("ids", Uint32Array::from(self.ids.as_slice()))
            .with("finish", finish)
            .with("firstTokenMs", first - self.begun)
            .with("decodeMs", ended - first)
            .with("tokensPerSecond", speed)
    }
}

/// Runs the engine's next step; `None` if there is nothing left to do.
async fn step(
    writer: &Rc<Writer>,
    experts: bool,
    aborted: &mut Aborted,
) -> Result<Option<Came>, Failure> {
    writer.gpu.alive()?;
    let Some(launched) = writer.engine.borrow_mut().launch()? else {
        return Ok(None);
    };
    let outcome = match read(writer, &launched, experts, aborted).await {
        Ok(read) => experts_of(&launched, &read, experts).map(|experts| (read, experts)),
        Err(error) => Err(error),
    };
    let mut engine = writer.engine.borrow_mut();
    match outcome {
        Ok((read, experts)) => Ok(Some((engine.finish(launched, &read)?, experts))),
        Err(error) => {
            engine.abandon(launched);
            Err(error)
        }
    }
}

fn experts_of(
    launched: &Launched,
    read: &[TensorData],
    wanted: bool,
) -> Result<Vec<Experts>, Failure> {
    if wanted && launched.chooses() {
        Ok(launched.experts(read)?)
    } else {
        Ok(Vec::new())
    }
}

/// Reads the results of a step from the device. A step that only computes a piece of a prompt has none; this then waits
/// for it.
async fn read(
    writer: &Rc<Writer>,
    launched: &Launched,
    experts: bool,
    aborted: &mut Aborted,
) -> Result<Vec<TensorData>, Failure> {
    let gpu = writer.gpu.clone();
    let reads = launched.chooses().then(|| launched.reads(experts));
    let read = async move {
        match reads {
            Some(reads) => gpu.read(reads).await,
            None => gpu.finish().await.map(|()| Vec::new()),
        }
    };
    aborted.or(read).await
}

/// A generation request with checked options.
struct Request {
    generation: Generation,
    /// The text of the answer.
    answer: Answer,
    /// Whether to report the experts of each token.
    experts: bool,
    on_token: Option<Function>,
    signal: Signal,
}

impl Request {
    fn new(options: JsValue, words: &Words) -> Result<Self, Failure> {
        let mut options = Options::new("generation options", options)?;
        let signal = Signal::take(&mut options)?;
        let prompt = options.text("prompt")?;
        let messages = options.list("messages")?;
        let special = options.flag("special")?.unwrap_or(true);
        let ids = match (prompt, messages) {
            (Some(text), None) => words.encode(&text, special)?,
            (None, Some(messages)) => conversation(&messages, words, special)?,
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

/// Tokens of a conversation, up to where the answer begins. Names of special tokens in messages stand for the tokens if `special`.
fn conversation(messages: &[JsValue], words: &Words, special: bool) -> Result<Vec<u32>, Failure> {
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
    Ok(words.converse(roles, contents, js_sys::Date::now(), special)?)
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

/// Numbers that are added to logits, by token id.
fn biases(options: &mut Options) -> Result<BTreeMap<u32, f32>, Failure> {
    let Some(given) = options.value("logitBias") else {
        return Ok(BTreeMap::new());
    };
    let expected = "numbers by the ids of tokens";
    let wrong = || Failure::expected("logitBias", expected, "something else");
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
    let given = options.list("stop")?.unwrap_or_default();
    let is_text = |stop: &JsValue| stop.as_string().is_some_and(|text| !text.is_empty());
    if given.iter().all(is_text) {
        return Ok(given.into_iter().collect());
    }
    let expected = "an array of texts that aren't empty";
    Err(Failure::expected("stop", expected, "something else"))
}
