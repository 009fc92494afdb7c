//! Every endpoint of a server gives what the engine gives, and says what is wrong with a request.
#![cfg(feature = "flex")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't set itself up has failed"
)]

mod served;

use std::collections::BTreeSet;
use std::time::Duration;

use moebius_engine::{Draw, Generation, Sampling, SamplingOptions};
use moebius_serve::{Access, KeyRing, Keys};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize};
use serde_json::{Value, json};

use served::{CONTEXT, Fault, MODEL, Served, alone, call, chat, completion, options, words};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const PROMPT: &str = "w3 w14 w15 w92";
const IDS: [u32; 4] = [3, 14, 15, 92];
/// The list of the server's metrics that boards and alerts are checked against.
const METRICS: &str = include_str!("../../../docs/deploy/metrics.tsv");

/// The draws of the engine alone, after the prompt.
fn expected(options: SamplingOptions) -> Vec<Draw> {
    let generation = Generation::new(IDS.to_vec(), 12);
    alone(generation.with_sampling(Sampling::new(options).unwrap()))
}

fn greedy() -> SamplingOptions {
    SamplingOptions {
        temperature: 0.0,
        logprobs: Some(3),
        ..SamplingOptions::default()
    }
}

fn text_of(draws: &[Draw]) -> String {
    words(draws.iter().map(|draw| draw.id))
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_the_engine_streamed_or_not() {
    let served = Served::start().await;
    let want = text_of(&expected(greedy()));
    let whole = served.post(CHAT, &chat(PROMPT, &json!({}))).await.json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], want, "{whole}");
    assert_eq!(choice["message"]["role"], "assistant");
    assert_eq!(choice["finish_reason"], "length");
    let usage = json!({"prompt_tokens": 4, "completion_tokens": 12, "total_tokens": 16});
    assert_eq!(whole["usage"], usage);

    let asked = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = served.stream(CHAT, &chat(PROMPT, &asked)).await.all().await;
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let parts = chunks.iter().filter_map(|chunk| {
        let content = &chunk["choices"][0]["delta"]["content"];
        content.as_str().map(str::to_owned)
    });
    assert_eq!(parts.collect::<String>(), want);
    let [.., end, last] = &chunks[..] else {
        panic!("{chunks:?}")
    };
    assert_eq!(end["choices"][0]["finish_reason"], "length");
    assert_eq!(end["usage"], Value::Null);
    assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &usage));

    // Without being asked for, no event tells the numbers of tokens.
    let plain = chat(PROMPT, &json!({"stream": true}));
    let plain = served.stream(CHAT, &plain).await.all().await;
    assert!(plain.iter().all(|chunk| chunk.get("usage").is_none()));

    let usual = json!({"best_of": 1, "min_tokens": 0, "echo": false, "suffix": null});
    let asked = completion(&json!(PROMPT), &usual);
    let text = served.post(TEXT, &asked).await.json();
    assert_eq!(text["choices"][0]["text"], want);
    let asked = completion(&json!(IDS), &json!({"stream": true}));
    let chunks = served.stream(TEXT, &asked).await.all().await;
    let parts = chunks.iter().map(|chunk| &chunk["choices"][0]["text"]);
    let parts = parts.map(|text| text.as_str().unwrap().to_owned());
    assert_eq!(parts.collect::<String>(), want);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_decides_all_draws() {
    let served = Served::start().await;
    let drawn = |seed: u64| {
        text_of(&expected(SamplingOptions {
            temperature: 1.5,
            top_k: 40,
            top_p: 0.9,
            min_p: 0.01,
            repetition_penalty: 1.1,
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            logit_bias: [(7, 3.0)].into(),
            seed,
            ..SamplingOptions::default()
        }))
    };
    let options = json!({
        "temperature": 1.5, "top_k": 40, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.1,
        "presence_penalty": 0.5, "frequency_penalty": -0.5, "logit_bias": {"7": 3.0}, "seed": 11,
        "n": 3,
    });
    let reply = served.post(CHAT, &chat(PROMPT, &options)).await.json();
    let contents = |reply: &Value| -> Vec<String> {
        let choices = reply["choices"].as_array().unwrap().iter();
        let contents = choices.map(|choice| choice["message"]["content"].as_str().unwrap());
        contents.map(str::to_owned).collect()
    };
    assert_eq!(contents(&reply), [11, 12, 13].map(drawn), "{reply}");
    assert_eq!(reply["usage"]["completion_tokens"], 36);
    let more = json!({"seed": null, "temperature": 2.0});
    let request = chat(PROMPT, &more);
    let one = served.post(CHAT, &request).await.json();
    let other = served.post(CHAT, &request).await.json();
    assert_ne!(
        contents(&one),
        contents(&other),
        "without a seed, draws differ"
    );

    // Prompts of one request are answered each, in their order.
    let prompts = json!([PROMPT, "w1", IDS.map(|id| format!("w{id}")).join(" ")]);
    let asked = completion(&prompts, &json!({"n": 1}));
    let reply = served.post(TEXT, &asked).await.json();
    let choices = reply["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    assert_eq!(choices[0]["text"], choices[2]["text"]);
    assert_eq!(reply["usage"]["prompt_tokens"], 9);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probabilities_are_those_of_the_engine() {
    let served = Served::start().await;
    let want = expected(greedy());
    let asked = json!({"logprobs": true, "top_logprobs": 3});
    let whole = served.post(CHAT, &chat(PROMPT, &asked)).await.json();
    let tokens = whole["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    assert_eq!(tokens.len(), want.len());
    for (token, draw) in tokens.iter().zip(&want) {
        let logprobs = draw.logprobs.as_ref().unwrap();
        let word = format!("w{}", draw.id);
        assert_eq!(token["token"], word);
        assert_eq!(token["bytes"], json!(word.as_bytes()));
        assert_eq!(token["logprob"].as_f64().unwrap() as f32, logprobs.chosen);
        let top = token["top_logprobs"].as_array().unwrap();
        let top = top
            .iter()
            .map(|token| token["token"].as_str().unwrap().to_owned());
        let expected = logprobs.top.iter().map(|(id, _)| format!("w{id}"));
        assert_eq!(top.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
    let streamed = json!({"logprobs": true, "top_logprobs": 3, "stream": true});
    let chunks = served
        .stream(CHAT, &chat(PROMPT, &streamed))
        .await
        .all()
        .await;
    let streamed = chunks.iter().filter_map(|chunk| {
        let tokens = &chunk["choices"][0]["logprobs"]["content"];
        tokens.as_array().cloned()
    });
    assert_eq!(&streamed.flatten().collect::<Vec<_>>(), tokens);

    let text = completion(&json!(PROMPT), &json!({"logprobs": 2}));
    let text = served.post(TEXT, &text).await.json();
    let logprobs = &text["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), want.len());
    assert_eq!(logprobs["text_offset"][0], 0);
    assert_eq!(logprobs["top_logprobs"][0].as_object().unwrap().len(), 2);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stops_end_an_answer_before_them() {
    let served = Served::start().await;
    let draws = expected(greedy());
    let stop = format!("w{}", draws[5].id);
    // The words before may hold the stop string, too.
    let has_it = |count: &usize| text_of(&draws[..*count]).contains(&stop);
    let taken = (1..=draws.len()).find(has_it).unwrap();
    let all = text_of(&draws);
    let want = &all[..all.find(&stop).unwrap()];
    let asked = json!({"stop": [stop, "never"]});
    let reply = served.post(CHAT, &chat(PROMPT, &asked)).await.json();
    let choice = &reply["choices"][0];
    assert_eq!(choice["message"]["content"], want);
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(reply["usage"]["completion_tokens"], taken);
    // An id that ends an answer is no token of it.
    let before = draws
        .iter()
        .position(|draw| draw.id == draws[5].id)
        .unwrap();
    let asked = json!({"stop_token_ids": [draws[5].id]});
    let reply = served.post(CHAT, &chat(PROMPT, &asked)).await.json();
    assert_eq!(reply["usage"]["completion_tokens"], before);
    assert_eq!(reply["choices"][0]["finish_reason"], "stop");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_requests_are_told_by_status_code_and_field() {
    let served = Served::start().await;
    let no = |more: Value| chat(PROMPT, &more);
    let long = vec!["w1"; CONTEXT].join(" ");
    let image = json!([{"type": "image_url", "image_url": {"url": "x"}}]);
    let cases = [
        (
            no(json!({"model": "other"})),
            404,
            "model_not_found",
            "model",
        ),
        (
            no(json!({"messages": []})),
            400,
            "invalid_value",
            "messages",
        ),
        (
            no(json!({"temperature": -1})),
            400,
            "invalid_value",
            "temperature",
        ),
        (
            no(json!({"temperature": "hot"})),
            400,
            "invalid_value",
            "temperature",
        ),
        (no(json!({"top_p": 1.1})), 400, "invalid_value", "top_p"),
        (no(json!({"n": 5})), 400, "invalid_value", "n"),
        (no(json!({"n": -1})), 400, "invalid_value", "n"),
        (
            no(json!({"max_tokens": 0, "max_completion_tokens": null})),
            400,
            "invalid_value",
            "max_tokens",
        ),
        (
            no(json!({"max_completion_tokens": 1000})),
            400,
            "context_length_exceeded",
            "max_completion_tokens",
        ),
        (
            no(json!({"max_completion_tokens": 40, "n": 4})),
            400,
            "invalid_value",
            "max_completion_tokens",
        ),
        (
            no(json!({"stop": ["a", "b", "c", "d", "e"]})),
            400,
            "invalid_value",
            "stop",
        ),
        (
            no(json!({"presence_penalty": 2.5})),
            400,
            "invalid_value",
            "presence_penalty",
        ),
        (
            no(json!({"logit_bias": {"a": 1}})),
            400,
            "invalid_value",
            "logit_bias",
        ),
        (
            no(json!({"logit_bias": {"1": 101}})),
            400,
            "invalid_value",
            "logit_bias",
        ),
        (
            no(json!({"logit_bias": {"100000": 1}})),
            400,
            "invalid_value",
            "logit_bias",
        ),
        (
            no(json!({"top_logprobs": 3})),
            400,
            "invalid_value",
            "top_logprobs",
        ),
        (
            no(json!({"logprobs": true, "top_logprobs": 21})),
            400,
            "invalid_value",
            "top_logprobs",
        ),
        (
            no(json!({"response_format": {"type": "json_object"}})),
            400,
            "unsupported_parameter",
            "response_format",
        ),
        (
            no(json!({"response_format": {"type": "xml"}})),
            400,
            "invalid_value",
            "response_format.type",
        ),
        (
            no(json!({"functions": [{"name": "f"}]})),
            400,
            "unsupported_parameter",
            "functions",
        ),
        (
            no(json!({"guided_json": {}})),
            400,
            "unsupported_parameter",
            "guided_json",
        ),
        (
            no(json!({"tool_choice": "required"})),
            400,
            "invalid_value",
            "tool_choice",
        ),
        (
            no(json!({"tools": [{"type": "custom"}]})),
            400,
            "invalid_value",
            "tools[0].type",
        ),
        (
            no(json!({"chat_template_kwargs": {"messages": 1}})),
            400,
            "invalid_value",
            "chat_template_kwargs.messages",
        ),
        (
            no(json!({"reasoning_effort": "<|x|>"})),
            400,
            "invalid_value",
            "reasoning_effort",
        ),
        (
            no(json!({"messages": [{"role": "user", "content": image}]})),
            400,
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            no(json!({"messages": [{"role": "user", "content": long}]})),
            400,
            "context_length_exceeded",
            "messages",
        ),
    ];
    for (request, status, code, param) in cases {
        let reply = served.post(CHAT, &request).await;
        let told = reply.error(status);
        assert_eq!(told, (code.to_owned(), json!(param)), "{request}");
    }
    for (prompt, code) in [
        (json!(""), "invalid_value"),
        (json!([]), "invalid_value"),
        (json!([1, 100_000]), "invalid_value"),
        (json!({"a": 1}), "invalid_value"),
        (json!(vec![1; CONTEXT]), "context_length_exceeded"),
    ] {
        let reply = served.post(TEXT, &completion(&prompt, &json!({}))).await;
        assert_eq!(reply.error(400).0, code, "{prompt}");
    }
    // Options of a stream that isn't asked for, even if they ask for nothing.
    for more in [
        json!({"stream_options": {"include_usage": true}}),
        json!({"stream_options": {}, "stream": false}),
    ] {
        let fault = ("invalid_value".to_owned(), json!("stream_options"));
        let told = served.post(CHAT, &no(more.clone())).await.error(400);
        assert_eq!(told, fault, "{more}");
        let asked = completion(&json!(PROMPT), &more);
        assert_eq!(served.post(TEXT, &asked).await.error(400), fault, "{more}");
    }
    // An id without a token is refused before the head of a stream, too.
    let asked = completion(&json!([1, 100_000]), &json!({"stream": true}));
    assert_eq!(served.post(TEXT, &asked).await.error(400).1, "prompt");
    let unknown = json!({
        "something_new": 1, "user": "me", "tools": [], "n": null, "reasoning_effort": "low",
        "stream_options": null,
        "chat_template_kwargs": {"enable_thinking": false},
    });
    assert_eq!(served.post(CHAT, &no(unknown)).await.status, 200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_http_are_told_in_the_same_form() {
    let mut options = options();
    options.limits.body_bytes = 1000;
    let served = Served::with(options, Access::local(0), Fault::None).await;
    let address = served.address;
    let get = call(address, "GET", CHAT, &[], "").await;
    assert_eq!(get.error(405).0, "method_not_allowed");
    assert_eq!(served.get("/v2/models").await.error(404).0, "not_found");
    let form = [("content-type", "text/plain")];
    let typed = call(address, "POST", CHAT, &form, "{}").await;
    assert_eq!(typed.error(415).0, "unsupported_media_type");
    let large = served.send(CHAT, vec![b' '; 1001]).await;
    assert_eq!(large.error(413).0, "body_too_large");
    let named = call(address, "GET", "/version", &[("x-request-id", "abc-7")], "").await;
    assert_eq!(named.header("x-request-id"), "abc-7");
    assert_eq!(
        served.get("/version").await.header("x-request-id").len(),
        32
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_those_with_a_key_are_answered() {
    let keys = Keys::parse("sk-0123456789abcdef\nsk-aaaaaaaaaaaaaaaa").unwrap();
    let access = Access {
        keys: KeyRing::new(keys),
        ..Access::local(0)
    };
    let ring = access.keys.clone();
    let served = Served::with(options(), access, Fault::None).await;
    let get = |path: &'static str, key: &'static str| {
        let address = served.address;
        async move {
            let value = format!("Bearer {key}");
            call(
                address,
                "GET",
                path,
                &[("authorization", value.as_str())],
                "",
            )
            .await
        }
    };
    for path in ["/v1/models", "/metrics", "/openapi.json", "/nowhere"] {
        let refused = served.get(path).await;
        assert_eq!(refused.error(401).0, "invalid_api_key");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        assert_eq!(get(path, "sk-0123456789abcdeg").await.status, 401);
    }
    for path in ["/health", "/health/live", "/health/ready"] {
        assert_eq!(served.get(path).await.status, 200);
    }
    assert_eq!(get("/v1/models", "sk-0123456789abcdef").await.status, 200);
    ring.replace(Keys::parse("sk-bbbbbbbbbbbbbbbb").unwrap());
    assert_eq!(get("/v1/models", "sk-0123456789abcdef").await.status, 401);
    assert_eq!(get("/v1/models", "sk-bbbbbbbbbbbbbbbb").await.status, 200);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_different_keys_share_no_pages() {
    let keys = Keys::parse("sk-0123456789abcdef\nsk-aaaaaaaaaaaaaaaa").unwrap();
    let access = Access {
        keys: KeyRing::new(keys),
        ..Access::local(0)
    };
    let served = Served::with(options(), access, Fault::None).await;
    let prompt = vec!["w5"; 40].join(" ");
    let hits = async |key: &str, more: Value| {
        let value = format!("Bearer {key}");
        let headers = [
            ("authorization", value.as_str()),
            ("content-type", "application/json"),
        ];
        let body = completion(&json!(prompt), &more).to_string();
        let reply = call(served.address, "POST", TEXT, &headers, body).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        let text = call(served.address, "GET", "/metrics", &headers, "")
            .await
            .text();
        let line = text
            .lines()
            .find(|line| line.starts_with("moebius_prefix_cache_hits_total"));
        line.unwrap()
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    };
    let [one, other] = ["sk-0123456789abcdef", "sk-aaaaaaaaaaaaaaaa"];
    assert_eq!(hits(one, json!({})).await, 0.0);
    assert_eq!(hits(other, json!({})).await, 0.0);
    let same = hits(one, json!({})).await;
    assert!(same > 0.0, "the same client finds its pages");
    assert_eq!(hits(one, json!({"cache_salt": "x"})).await, same);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_and_its_tokens_are_told() {
    let served = Served::start().await;
    let models = served.get("/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], MODEL);
    let encoded = MODEL.replace('/', "%2F");
    for name in [MODEL, encoded.as_str()] {
        let model = served.get(&format!("/v1/models/{name}")).await.json();
        assert_eq!(model["max_model_len"], CONTEXT, "{model}");
        assert_eq!(model["chat"], true, "{model}");
    }
    let other = served.get("/v1/models/other").await;
    assert_eq!(other.error(404).0, "model_not_found");

    let text = json!({"prompt": PROMPT, "return_token_strs": true});
    let tokens = served.post("/tokenize", &text).await.json();
    assert_eq!(tokens["tokens"], json!(IDS));
    assert_eq!(
        (&tokens["count"], &tokens["token_strs"][1]),
        (&json!(4), &json!("w14"))
    );
    let messages = json!([{"role": "user", "content": "w3"}, {"role": "user", "content": "w14"}]);
    let chat = json!({"messages": messages});
    let tokens = served.post("/tokenize", &chat).await.json();
    assert_eq!(tokens["tokens"], json!([3, 14]));
    let ids = json!({"tokens": IDS});
    let text = served.post("/detokenize", &ids).await.json();
    assert_eq!(text["prompt"], PROMPT);
    let unknown = json!({"tokens": [100_000]});
    let unknown = served.post("/detokenize", &unknown).await;
    assert_eq!(unknown.error(400).1, "tokens");
    let neither = served.post("/tokenize", &json!({})).await;
    assert_eq!(neither.error(400).1, "prompt");

    let vectors = json!({"model": MODEL, "input": "w1"});
    let vectors = served.post("/v1/embeddings", &vectors).await;
    assert_eq!(vectors.error(400).1, "model");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_has_every_path() {
    let served = Served::start().await;
    let description = served.get("/openapi.json").await.json();
    let paths = description["paths"].as_object().unwrap();
    for path in [
        CHAT,
        TEXT,
        "/v1/responses",
        "/v1/infer",
        "/v1/embeddings",
        "/v1/models",
        "/v1/models/{id}",
        "/tokenize",
        "/detokenize",
        "/health",
        "/health/live",
        "/health/ready",
        "/version",
        "/metrics",
    ] {
        assert!(paths.contains_key(path), "{path}");
    }
    let fields = &description["components"]["schemas"]["ChatRequest"]["properties"];
    assert!(
        fields["temperature"].is_object() && fields["messages"].is_object(),
        "{fields}"
    );
    assert_eq!(
        served.get("/version").await.json()["version"],
        env!("CARGO_PKG_VERSION")
    );
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_equal_what_clients_count() {
    let served = Served::start().await;
    let (mut requests, mut prompts, mut tokens) = (0, 0, 0);
    for n in 1..=3 {
        let options = json!({"n": n, "temperature": 1, "max_completion_tokens": 3 + n});
        let reply = served.post(CHAT, &chat(PROMPT, &options)).await.json();
        requests += n;
        prompts += reply["usage"]["prompt_tokens"].as_u64().unwrap();
        tokens += reply["usage"]["completion_tokens"].as_u64().unwrap();
    }
    let options = json!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = served
        .stream(CHAT, &chat(PROMPT, &options))
        .await
        .all()
        .await;
    let usage = &chunks.last().unwrap()["usage"];
    requests += 1;
    prompts += usage["prompt_tokens"].as_u64().unwrap();
    tokens += usage["completion_tokens"].as_u64().unwrap();
    for _ in 0..3 {
        served
            .post(CHAT, &chat(PROMPT, &json!({"n": 9})))
            .await
            .error(400);
    }
    served.get("/nowhere").await.error(404);
    let metric = async |name: &str, label: &str| served.metric(name, label).await as u64;
    assert_eq!(
        metric("moebius_request_success_total", "length").await,
        requests
    );
    assert_eq!(metric("moebius_prompt_tokens_total", MODEL).await, prompts);
    assert_eq!(
        metric("moebius_generation_tokens_total", MODEL).await,
        tokens
    );
    assert_eq!(
        metric("moebius_request_generation_tokens_sum", MODEL).await,
        tokens
    );
    assert_eq!(
        metric("moebius_e2e_request_latency_seconds_count", MODEL).await,
        requests
    );
    assert_eq!(
        metric("moebius_time_to_first_token_seconds_count", MODEL).await,
        requests
    );
    let next = metric("moebius_inter_token_latency_seconds_count", MODEL).await;
    assert_eq!(next, tokens - requests);
    for (code, count) in [("code=\"400\"", 3.0), ("code=\"404\"", 1.0)] {
        served
            .until("moebius_request_failures_total", code, count)
            .await;
    }
    assert_eq!(metric("moebius_num_requests_running", MODEL).await, 0);
    assert_eq!(metric("moebius_kv_cache_usage_perc", MODEL).await, 0);
    // Three layers send each token to three experts, and one token was computed at the start.
    let computed = metric("moebius_iteration_tokens_total_sum", MODEL).await;
    served
        .until("moebius_expert_load", MODEL, (9 * (computed + 1)) as f64)
        .await;
    let open = [("accept", "application/openmetrics-text")];
    let open = call(served.address, "GET", "/metrics", &open, "").await;
    assert!(
        open.header("content-type")
            .starts_with("application/openmetrics-text")
    );
    assert!(open.text().ends_with("# EOF\n"));
    served.stop().await;
}

/// The metrics of a scraped text as rows of [`METRICS`]: name, type, and labels beside that of all metrics.
fn rows(scraped: &str) -> BTreeSet<String> {
    let described = scraped.split("# TYPE ").skip(1);
    let rows = described.map(|metric| {
        let mut lines = metric.lines();
        let described = lines.next().unwrap().replace(' ', "\t");
        let labels = lines.next().unwrap().split(['{', '}']).nth(1).unwrap();
        let labels = labels.split(',');
        let names = labels.filter_map(|label| label.split('=').next());
        let own = names.filter(|name| *name != "model_name");
        format!("{described}\t{}", own.collect::<Vec<_>>().join(","))
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_those_of_the_list() {
    let listed = METRICS.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<String> = listed.map(str::to_owned).collect();
    let mut options = options();
    (options.limits.running, options.limits.queued) = (1, 1);
    let slow = Fault::Slow(Duration::from_millis(20));
    let served = Served::with(options, Access::local(0), slow).await;
    let first = rows(&served.get("/metrics").await.text());
    let unlisted: Vec<_> = first.difference(&listed).collect();
    assert!(unlisted.is_empty(), "metrics.tsv lacks {unlisted:?}");
    // A metric with labels of its own, which end its row, has no sample before its first event. All others are told from the start.
    let later = listed.difference(&first);
    let late: Vec<_> = later.filter(|row| row.ends_with('\t')).collect();
    assert!(late.is_empty(), "not told from the start: {late:?}");

    // An event of each kind: two answers are refused where one place is left, and a request is answered by experts.
    let long = json!({"stream": true, "max_completion_tokens": 100});
    let stream = served.stream(CHAT, &chat(PROMPT, &long)).await;
    let running = "moebius_num_requests_running";
    served.until(running, MODEL, 1.0).await;
    let two = chat(PROMPT, &json!({"n": 2}));
    served.post(CHAT, &two).await.error(429);
    drop(stream);
    served.until(running, MODEL, 0.0).await;
    let failures = "moebius_request_failures_total";
    served.until(failures, "code=\"429\"", 1.0).await;
    let one = completion(&json!(PROMPT), &json!({}));
    assert_eq!(served.post(TEXT, &one).await.status, 200);
    // Three layers send each token to three experts, and one token was computed at the start.
    let computed = "moebius_iteration_tokens_total_sum";
    let computed = served.metric(computed, MODEL).await;
    let sent = 9.0 * (computed + 1.0);
    served.until("moebius_expert_load", MODEL, sent).await;
    assert_eq!(rows(&served.get("/metrics").await.text()), listed);
    served.stop().await;
}

/// A request that no free place would help is at fault itself: a client that waited and tried again would never end.
#[tokio::test(flavor = "multi_thread")]
async fn more_answers_than_places_are_refused_for_good() {
    let mut options = options();
    (options.limits.running, options.limits.queued) = (1, 1);
    let served = Served::with(options, Access::local(0), Fault::None).await;
    let many = |n: usize| json!({"n": n});
    let fault = ("invalid_value".to_owned(), json!("n"));
    let asked = chat(PROMPT, &many(3));
    assert_eq!(served.post(CHAT, &asked).await.error(400), fault);
    let asked = chat(PROMPT, &many(2));
    assert_eq!(served.post(CHAT, &asked).await.status, 200);
    // Continuations are computed together.
    let asked = completion(&json!(PROMPT), &many(2));
    assert_eq!(served.post(TEXT, &asked).await.error(400), fault);
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_answers_in_another_form() {
    let served = Served::start().await;
    let want = text_of(&expected(greedy()));
    let request = |stream: bool| {
        json!({
            "model": MODEL, "input": "w14 w15 w92", "instructions": "w3", "temperature": 0,
            "max_output_tokens": 12, "stream": stream,
        })
    };
    let whole = served.post("/v1/responses", &request(false)).await.json();
    assert_eq!(whole["output"][0]["content"][0]["text"], want, "{whole}");
    assert_eq!(whole["status"], "incomplete");
    assert_eq!(whole["usage"]["total_tokens"], 16);
    let mut stream = served.stream("/v1/responses", &request(true)).await;
    let (mut text, mut names) = (String::new(), Vec::new());
    while let Some((name, data)) = stream.next().await {
        let data: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(data["sequence_number"], names.len());
        assert_eq!(data["type"].as_str(), name.as_deref());
        text.push_str(data["delta"].as_str().unwrap_or_default());
        names.extend(name);
    }
    assert_eq!(text, want);
    assert_eq!(names.first().unwrap(), "response.created");
    assert_eq!(names.last().unwrap(), "response.incomplete");
    let stored = json!({"model": MODEL, "input": "w1", "previous_response_id": "resp_1"});
    let stored = served.post("/v1/responses", &stored).await;
    assert_eq!(stored.error(400).1, "previous_response_id");
    let image = json!([{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]);
    let image = json!({"model": MODEL, "input": image, "instructions": "w1"});
    let image = served.post("/v1/responses", &image).await;
    assert_eq!(image.error(400).1, "input[0].content[0].type");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tensors_come_and_go_as_safetensors() {
    let served = Served::start().await;
    let file = |ids: &[u32]| {
        let data: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let tensor = TensorView::new(Dtype::U32, vec![ids.len()], &data).unwrap();
        let function = [("function".to_owned(), "last_logits".to_owned())];
        serialize([("tokens", tensor)], Some(function.into())).unwrap()
    };
    let infer = async |body: Vec<u8>| {
        let bytes = [("content-type", "application/octet-stream")];
        call(served.address, "POST", "/v1/infer", &bytes, body).await
    };
    let reply = infer(file(&IDS)).await;
    assert_eq!(
        reply.status,
        200,
        "{}",
        String::from_utf8_lossy(&reply.body)
    );
    let tensors = SafeTensors::deserialize(&reply.body).unwrap();
    let (logits, _) = tensors.tensor("logits").unwrap().data().as_chunks();
    let logits: Vec<f32> = logits
        .iter()
        .map(|four| f32::from_le_bytes(*four))
        .collect();
    assert_eq!(logits, served::engine().last_logits(&IDS).unwrap());
    for wrong in [
        file(&[]),
        file(&[1 << 30]),
        file(&[1; CONTEXT + 1]),
        b"x".to_vec(),
    ] {
        assert_eq!(infer(wrong).await.error(400).0, "invalid_value");
    }
    assert_eq!(served.get("/health/ready").await.status, 200);
    served.stop().await;
}
