//! Answers have the form that is asked for: JSON by a schema, from an untrained model that would write anything else.
#![cfg(feature = "flex")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't set itself up has failed"
)]

mod served;

use serde_json::{Value, json};

use served::{Served, chat, completion};

const CHAT: &str = "/v1/chat/completions";

/// A template that ends with the beginning of an answer.
const PLAIN: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

/// Name of the token that ends an answer.
const END: &str = "<|end|>";

/// A schema of few values.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "kind": {"enum": ["whale", "ship"]},
            "legs": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["kind", "legs"],
        "additionalProperties": false,
    })
}

/// Checks that a text is JSON by the schema.
#[track_caller]
fn assert_follows(text: &Value) {
    let text = text.as_str().unwrap();
    let value: Value = serde_json::from_str(text).unwrap();
    let kind = value["kind"].as_str().unwrap();
    assert!(["whale", "ship"].contains(&kind), "{text}");
    assert!(value["legs"].as_u64().is_some_and(|legs| legs < 10));
    assert_eq!(value.as_object().unwrap().len(), 2, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_follow_a_schema_and_end_with_it() {
    let served = Served::spelling(&[END], PLAIN).await;
    let named = json!({"name": "animal", "strict": true, "schema": schema()});
    let format = json!({"type": "json_schema", "json_schema": named});
    let asked = json!({
        "response_format": format, "max_completion_tokens": 60, "n": 2, "seed": 5,
        "temperature": 1, "logprobs": true,
    });
    let whole = served.post(CHAT, &chat("abc", &asked)).await.json();
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 2, "{whole}");
    for choice in choices {
        assert_follows(&choice["message"]["content"]);
        assert_eq!(choice["finish_reason"], "stop");
    }
    // No token follows the last brace, not even one that ends the answer.
    let texts = choices.iter().map(|choice| &choice["message"]["content"]);
    let letters: usize = texts.map(|text| text.as_str().unwrap().len()).sum();
    assert_eq!(whole["usage"]["completion_tokens"], letters);

    let mut streamed = asked.clone();
    streamed["stream"] = json!(true);
    let stream = served.stream(CHAT, &chat("abc", &streamed)).await;
    let chunks = stream.all().await;
    for (number, choice) in choices.iter().enumerate() {
        let parts = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let parts = parts.filter(|part| part["index"] == number);
        let parts = parts.filter_map(|part| part["delta"]["content"].as_str());
        let text: String = parts.collect();
        assert_eq!(choice["message"]["content"], text);
    }

    // A shorter answer is cut, and says so.
    let short = json!({"response_format": format, "max_completion_tokens": 5});
    let cut = served.post(CHAT, &chat("abc", &short)).await.json();
    assert_eq!(cut["choices"][0]["message"]["content"], "{\"kin", "{cut}");
    assert_eq!(cut["choices"][0]["finish_reason"], "length");
    let any = json!({"response_format": {"type": "json_object"}});
    let any = served.post(CHAT, &chat("abc", &any)).await.json();
    let text = any["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(text.starts_with('{'), "{any}");

    let more = json!({"response_format": format, "max_tokens": 60});
    let text = completion(&json!(["abc", "d"]), &more);
    let texts = served.post("/v1/completions", &text).await.json();
    for choice in texts["choices"].as_array().unwrap() {
        assert_follows(&choice["text"]);
    }
    let flat = json!({"type": "json_schema", "name": "animal", "schema": schema()});
    let request = json!({
        "model": served::MODEL, "input": "abc", "max_output_tokens": 60, "text": {"format": flat},
    });
    let response = served.post("/v1/responses", &request).await.json();
    assert_follows(&response["output"][0]["content"][0]["text"]);
    assert_eq!(response["status"], "completed");
    // The form that the older endpoints take is another one.
    let nested = json!({"type": "json_schema", "json_schema": {"schema": schema()}});
    let request = json!({"model": served::MODEL, "input": "abc", "text": {"format": nested}});
    let told = served.post("/v1/responses", &request).await.error(400);
    let fault = ("invalid_value".to_owned(), json!("text.format.schema"));
    assert_eq!(told, fault);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_that_can_not_be_followed_are_refused() {
    let served = Served::spelling(&[END], PLAIN).await;
    let deep = (0..70).fold(json!({}), |inner, _| json!({"items": inner}));
    let long = json!({"description": "a".repeat(100_000)});
    for schema in [json!({"not": {}}), json!({"type": "thing"}), long] {
        let named = json!({"schema": schema});
        let format = json!({"type": "json_schema", "json_schema": named});
        let request = chat("abc", &json!({"response_format": format}));
        let told = served.post(CHAT, &request).await.error(400);
        assert_eq!(told.0, "invalid_value", "{schema}");
        assert_eq!(told.1, "response_format", "{schema}");
    }
    let format = json!({"type": "json_schema", "json_schema": {"schema": deep}});
    let request = chat("abc", &json!({"response_format": format}));
    let told = served.post(CHAT, &request).await.error(400);
    assert_eq!(told.0, "invalid_json");
    // A server that refused goes on.
    let plain = served.post(CHAT, &chat("abc", &json!({}))).await;
    assert_eq!(plain.status, 200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reasoning_may_come_before_an_answer_in_json() {
    let opened = format!("{PLAIN}<think>");
    let served = Served::spelling(&[END, "<think>", "</think>"], &opened).await;
    let format = json!({"type": "json_schema", "json_schema": {"schema": schema()}});
    // A bias that has the untrained model close its reasoning at once; the ids follow those of the letters.
    let close = json!({"96": 100});
    let asked = json!({
        "response_format": format, "max_completion_tokens": 60, "logit_bias": close,
    });
    let whole = served.post(CHAT, &chat("abc", &asked)).await.json();
    assert_follows(&whole["choices"][0]["message"]["content"]);
    served.stop().await;
}
