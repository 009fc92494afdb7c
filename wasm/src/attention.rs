//! Attention for JavaScript: queries that attend to keys, under rules.

use burn::tensor::{Tensor, TensorData, Transaction};
use js_sys::Promise;
use moebius::attention::Attend;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::device::Device;
use crate::failure::Failure;
use crate::objects::{Options, Record, floats, numbers};
use crate::work::{Gpu, Signal, promise};

/// Sizes of q, k, v or o: sequences, heads, tokens, and values per head.
type Sizes = [usize; 4];

/// A rule without arguments, by its name.
type Named = (&'static str, fn(Attend) -> Attend);

/// A rule that takes a count, by its name.
type Counted = (&'static str, fn(Attend, usize) -> Attend);

const NAMED: [Named; 3] = [
    ("causal", Attend::causal),
    ("causalTopLeft", Attend::causal_top_left),
    ("alibi", Attend::alibi),
];
const COUNTED: [Counted; 4] = [
    ("window", Attend::window),
    ("symmetricWindow", Attend::symmetric_window),
    ("prefix", Attend::prefix),
    ("dilated", Attend::dilated),
];

/// Computes attention of q [batch, heads, queries, headDim] to k [batch, kvHeads, keys, headDim] and v [batch, kvHeads, keys,
/// valueDim].
///
/// Each query's o is the mean of the values v of the keys that the query sees, weighted by the softmax of scale · ⟨q, k⟩ as changed
/// by the rules. Rejects with the code 'shape' for numbers that don't fit, and 'out-of-memory' for a tensor larger than one buffer
/// of the device.
#[wasm_bindgen(unchecked_return_type = "Promise<AttentionOutput>")]
pub fn attention(
    device: &Device,
    #[wasm_bindgen(unchecked_param_type = "Float32Array")] q: JsValue,
    #[wasm_bindgen(unchecked_param_type = "Float32Array")] k: JsValue,
    #[wasm_bindgen(unchecked_param_type = "Float32Array")] v: JsValue,
    #[wasm_bindgen(unchecked_param_type = "AttentionOptions")] options: JsValue,
) -> Promise {
    let gpu = device.gpu();
    promise(async move {
        let (gpu, asked) = (gpu?, Asked::read(options)?);
        asked.signal.check()?;
        let [query, key, value, output] = asked.sizes;
        gpu.holds("o", output, format_args!("{output:?}"))?;
        let attended = asked.attend.forward(
            tensor("q", floats("q", &q)?, query, &gpu)?,
            tensor("k", floats("k", &k)?, key, &gpu)?,
            tensor("v", floats("v", &v)?, value, &gpu)?,
        )?;
        let read = Transaction::default()
            .register(attended.o)
            .register(attended.lse);
        let read = gpu.read(read).await?;
        asked.signal.check()?;
        Ok(Record::new()
            .with("o", numbers(&read, 0))
            .with("lse", numbers(&read, 1)))
    })
}

/// Options of a call: `AttentionOptions` of `types.d.ts`.
struct Asked {
    /// Sizes of q, k, v and o.
    sizes: [Sizes; 4],
    attend: Attend,
    signal: Signal,
}

impl Asked {
    fn read(options: JsValue) -> Result<Self, Failure> {
        let mut options = Options::new("attention options", options)?;
        let batch = options.count_or("batch", 1)?;
        let heads = options.size("heads")?;
        let kv_heads = options.count_or("kvHeads", heads)?;
        let queries = options.size("queries")?;
        let keys = options.count_or("keys", queries)?;
        let head_dim = options.size("headDim")?;
        let value_dim = options.count_or("valueDim", head_dim)?;
        let rules = options.list("rules")?.unwrap_or_default();
        let attend = rules.into_iter().try_fold(Attend::new(), ruled)?;
        let attend = match options.number("scale")? {
            Some(scale) => attend.scale(scale as f32),
            None => attend,
        };
        let signal = Signal::take(&mut options)?;
        options.finish()?;
        let sizes = [
            [batch, heads, queries, head_dim],
            [batch, kv_heads, keys, head_dim],
            [batch, kv_heads, keys, value_dim],
            [batch, heads, queries, value_dim],
        ];
        Ok(Self {
            sizes,
            attend,
            signal,
        })
    }
}

/// Adds one rule, an `AttentionRule` of `types.d.ts`, to `attend`.
fn ruled(attend: Attend, rule: JsValue) -> Result<Attend, Failure> {
    if let Some(name) = rule.as_string() {
        let named = NAMED.iter().find(|(known, _)| *known == name);
        let names = NAMED.map(|(known, _)| known).join(", ");
        let known = named.ok_or_else(|| Failure::expected("rule", names, format!("'{name}'")));
        return known.map(|(_, rule)| rule(attend));
    }
    let mut given = Options::new("rule", rule)?;
    let mut made = Vec::new();
    for (key, rule) in COUNTED {
        let count = given.count(key, 0)?;
        made.extend(count.map(|count| rule(attend.clone(), count)));
    }
    let cap = given.number("softcap")?;
    made.extend(cap.map(|cap| attend.clone().softcap(cap as f32)));
    if let Some(global) = given.value("global") {
        let mut sizes = Options::new("global", global)?;
        let (tokens, window) = (sizes.size("tokens")?, sizes.size("window")?);
        sizes.finish()?;
        made.push(attend.global(tokens, window));
    }
    given.finish()?;
    match (made.pop(), made.len()) {
        (Some(attend), 0) => Ok(attend),
        (None, _) => Err(Failure::expected("rule", "a property", "none")),
        (_, others) => {
            let expected = "one property, in a list of rules";
            Err(Failure::expected("rule", expected, others + 1))
        }
    }
}

/// A tensor of the given sizes; refuses another number of values.
fn tensor(what: &str, values: Vec<f32>, sizes: Sizes, gpu: &Gpu) -> Result<Tensor<4>, Failure> {
    gpu.holds(what, sizes, format_args!("{sizes:?}"))?;
    if values.len() != sizes.iter().product::<usize>() {
        let expected = sizes.map(|size| size.to_string()).join(" × ");
        let expected = format!("{expected} numbers");
        return Err(Failure::expected(what, expected, values.len()));
    }
    Ok(Tensor::from_data(TensorData::new(values, sizes), &gpu.burn))
}
