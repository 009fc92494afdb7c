//! Calls of tools: told apart in what a model writes, streamed or not, and written where a client demands them.
#![cfg(feature = "flex")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't set itself up has failed"
)]

mod served;

use serde_json::{Value, json};

use served::{Served, chat, letters};

const CHAT: &str = "/v1/chat/completions";

/// Name of the token that ends an answer.
const END: &str = "<|return|>";

/// Names of the tokens of the models, beside letters.
const NAMES: [&str; 13] = [
    END,
    "Ġ",
    "Ċ",
    "<tool_call>",
    "</tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|channel|>",
    "<|message|>",
    "<|constrain|>",
    "<|start|>",
    "<|end|>",
    "<|call|>",
];

/// Templates in the manner of Hermes, Qwen3-Coder, GLM, Llama, Mistral, its newer models and gpt-oss, and of none of them.
const HERMES: &str = "{# <tool_call> #}{{ messages[0].content }}";
const CODER: &str = "{# <tool_call> <function= #}{{ messages[0].content }}";
const GLM: &str = "{# <tool_call> <arg_key> #}{{ messages[0].content }}";
const LLAMA: &str = "{# ipython {\"parameters\": x} #}{{ messages[0].content }}";
const MISTRAL: &str = "{# [TOOL_CALLS] #}{{ messages[0].content }}";
const NAMED: &str = "{# [TOOL_CALLS] [ARGS] #}{{ messages[0].content }}";
const HARMONY: &str = "{# <|channel|> #}{{ messages[0].content }}<|start|>assistant";
const PLAIN: &str = "{{ messages[0].content }}{% if tools %}{{ tools|length }}{% endif %}";

fn tools() -> Value {
    let parameters = json!({
        "type": "object", "properties": {"city": {"enum": ["Bern", "Oslo"]}}, "required": ["city"],
        "additionalProperties": false,
    });
    let none = json!({"type": "object", "additionalProperties": false});
    json!([
        {"type": "function", "function": {"name": "weather", "parameters": parameters}},
        {"type": "function", "function": {"name": "time", "description": "now", "parameters": none}},
    ])
}

/// A request with tools for an answer of at most 100 tokens.
fn request(more: Value) -> Value {
    let mut all = json!({"tools": tools(), "max_completion_tokens": 100});
    for (name, value) in more.as_object().unwrap() {
        all[name] = value.clone();
    }
    chat("abc", &all)
}

/// What is told of an answer: content, reasoning, names and arguments of calls, and why it ended.
#[derive(Debug, PartialEq)]
struct Told {
    content: Option<String>,
    reasoning: String,
    calls: Vec<(String, Value)>,
    reason: String,
}

/// Reads calls, and checks their ids.
fn calls(calls: &Value) -> Vec<(String, Value)> {
    let calls = calls.as_array().into_iter().flatten();
    let read = calls.map(|call| {
        assert_eq!(call["type"], "function");
        let id = call["id"].as_str().unwrap();
        assert!(id.starts_with("call_") && id.len() == 37, "{id}");
        let name = call["function"]["name"].as_str().unwrap();
        let arguments = call["function"]["arguments"].as_str().unwrap();
        (name.to_owned(), serde_json::from_str(arguments).unwrap())
    });
    read.collect()
}

/// The answer to a request as a whole, which a stream must tell in parts.
async fn answer(served: &Served, more: Value) -> Told {
    let whole = served.post(CHAT, &request(more.clone())).await.json();
    let choice = &whole["choices"][0];
    let message = &choice["message"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let told = Told {
        content: text(&message["content"]),
        reasoning: text(&message["reasoning_content"]).unwrap_or_default(),
        calls: calls(&message["tool_calls"]),
        reason: text(&choice["finish_reason"]).unwrap_or_else(|| whole.to_string()),
    };

    let mut asked = more;
    asked["stream"] = json!(true);
    let stream = served.stream(CHAT, &request(asked)).await;
    let chunks = stream.all().await;
    let deltas = || chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]);
    let joined = |name: &str| -> String {
        let parts = deltas().filter_map(|delta| delta[name].as_str());
        parts.collect()
    };
    assert_eq!(joined("content"), told.content.clone().unwrap_or_default());
    assert_eq!(joined("reasoning_content"), told.reasoning);
    let parts: Vec<&Value> = deltas().map(|delta| &delta["tool_calls"]).collect();
    let streamed = parts.iter().flat_map(|part| calls(part));
    assert_eq!(streamed.collect::<Vec<_>>(), told.calls);
    let numbers = parts.iter().filter_map(|part| part.as_array()).flatten();
    let numbers = numbers.map(|call| call["index"].as_u64().unwrap());
    assert!(numbers.eq(0..told.calls.len() as u64));
    let reason = &chunks.last().unwrap()["choices"][0]["finish_reason"];
    assert_eq!(*reason, told.reason);
    told
}

/// Calls of functions, as a test expects them.
fn called(calls: &[(&str, Value)]) -> Vec<(String, Value)> {
    let owned = |(name, arguments): &(&str, Value)| ((*name).to_owned(), arguments.clone());
    calls.iter().map(owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_told_apart_in_every_format() {
    let bern = || json!({"city": "Bern"});
    let both = called(&[("weather", bern()), ("time", json!({}))]);
    let one = called(&[("weather", bern())]);
    let hermes = "Well.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>\n<tool_call>{\"name\":\"time\"}</tool_call>";
    let llama = "{\"name\": \"weather\", \"parameters\": {\"city\": \"Bern\"}}; {\"name\": \"time\", \"parameters\": {}}";
    let mistral = "[TOOL_CALLS] [{\"name\": \"weather\", \"arguments\": {\"city\": \"Bern\"}}, {\"name\": \"time\", \"arguments\": {}}]";
    let coder = "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>\n</function>\n</tool_call>\n<tool_call><function=time></function></tool_call>";
    let glm = "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n</tool_call>\n<tool_call>time</tool_call>";
    let named = "[TOOL_CALLS]weather[ARGS]{\"city\": \"Bern\"}[TOOL_CALLS]time[ARGS]{}";
    let harmony = "<|channel|>analysis<|message|>Where?<|end|><|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{\"city\": \"Bern\"}<|call|>never";
    let cases = [
        (HERMES, hermes, Some("Well."), "", &both),
        (CODER, coder, None, "", &both),
        (GLM, glm, None, "", &both),
        (LLAMA, llama, None, "", &both),
        (MISTRAL, mistral, None, "", &both),
        (NAMED, named, None, "", &both),
        (HARMONY, harmony, None, "Where?", &one),
    ];
    for (template, script, content, reasoning, calls) in cases {
        let served = Served::scripted(&NAMES, template, script).await;
        let mut want = Told {
            content: content.map(str::to_owned),
            reasoning: reasoning.to_owned(),
            calls: calls.clone(),
            reason: "tool_calls".to_owned(),
        };
        assert_eq!(answer(&served, json!({})).await, want, "{script}");
        want.calls.truncate(1);
        let single = json!({"parallel_tool_calls": false, "tool_choice": "auto"});
        assert_eq!(answer(&served, single).await, want, "{script}");
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_call_stays_text() {
    let script = "<tool_call>{\"name\":\"time\"}</tool_call>";
    let text = |reason: &str, content: &str| Told {
        content: Some(content.to_owned()),
        reasoning: String::new(),
        calls: Vec::new(),
        reason: reason.to_owned(),
    };
    let served = Served::scripted(&NAMES, HERMES, script).await;
    for more in [json!({"tool_choice": "none"}), json!({"tools": []})] {
        assert_eq!(answer(&served, more).await, text("stop", script));
    }
    // An answer that is cut within a call has none.
    let cut = json!({"max_completion_tokens": 5});
    let begun = text("length", "<tool_call>{\"na");
    assert_eq!(answer(&served, cut).await, begun);
    served.stop().await;

    let served = Served::scripted(&NAMES, PLAIN, script).await;
    assert_eq!(answer(&served, json!({})).await, text("stop", script));
    let must = request(json!({"tool_choice": "required"}));
    let told = served.post(CHAT, &must).await.error(400);
    let expected = ("unsupported_parameter".to_owned(), json!("tool_choice"));
    assert_eq!(told, expected);
    let other = json!({"type": "function", "function": {"name": "other"}});
    for choice in [json!("any"), other] {
        let asked = request(json!({"tool_choice": choice}));
        let told = served.post(CHAT, &asked).await.error(400);
        assert_eq!(told, ("invalid_value".to_owned(), json!("tool_choice")));
    }
    served.stop().await;

    // The channels of gpt-oss are told apart without tools, too.
    let script =
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
    let served = Served::scripted(&NAMES, HARMONY, script).await;
    let mut want = text("stop", "Yes.");
    want.reasoning = "hm".to_owned();
    assert_eq!(answer(&served, json!({"tools": []})).await, want);
    served.stop().await;
}

/// Biases with which an untrained model writes no spaces where it needn't, and doesn't think for long.
fn biases() -> Value {
    let tokenizer = letters(&NAMES);
    let biases = [("Ġ", -100), ("Ċ", -100), ("<|end|>", 100)];
    let by_id = biases.map(|(name, bias)| (tokenizer.id(name).unwrap().to_string(), bias));
    by_id.into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_are_written_where_they_are_demanded() {
    for template in [HERMES, CODER, GLM, LLAMA, MISTRAL, NAMED, HARMONY] {
        let served = Served::spelling(&NAMES, template).await;
        let time = json!({"type": "function", "function": {"name": "time"}});
        let weather = json!({"type": "function", "function": {"name": "weather"}});
        for choice in [json!("required"), time, weather] {
            let name = choice["function"]["name"].as_str();
            let more = json!({
                "tool_choice": choice, "parallel_tool_calls": false, "logit_bias": biases(),
            });
            let told = answer(&served, more).await;
            assert_eq!(told.reason, "tool_calls", "{template} {told:?}");
            assert_eq!(told.content, None, "{template}");
            let [(called, arguments)] = &told.calls[..] else {
                unreachable!("one call: {told:?}")
            };
            assert!(name.is_none_or(|name| name == called), "{called}");
            let cities = [json!({"city": "Bern"}), json!({"city": "Oslo"})];
            match called.as_str() {
                "time" => assert_eq!(*arguments, json!({})),
                "weather" => assert!(cities.contains(arguments), "{arguments}"),
                other => unreachable!("a tool: {other}"),
            }
        }
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_json_may_be_a_call_as_well() {
    let served = Served::spelling(&NAMES, HERMES).await;
    let schema = json!({"enum": ["yes", "no"]});
    let format = json!({"type": "json_schema", "json_schema": {"schema": schema}});
    let mut biased = biases();
    let tokenizer = letters(&NAMES);
    let quote = tokenizer.id("\"").unwrap().to_string();
    let open = tokenizer.id("<tool_call>").unwrap().to_string();
    for (wanted, calls) in [(quote, 0), (open, 1)] {
        biased[&wanted] = json!(100);
        let more = json!({
            "response_format": format, "logit_bias": biased, "parallel_tool_calls": false,
        });
        let told = answer(&served, more).await;
        assert_eq!(told.calls.len(), calls, "{told:?}");
        let answers = ["\"yes\"", "\"no\""];
        let content = told.content.as_deref();
        let answers = content.is_some_and(|text| answers.contains(&text));
        assert_eq!(answers, calls == 0, "{told:?}");
        biased[&wanted] = json!(0);
    }
    served.stop().await;
}
