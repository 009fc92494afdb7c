//! Grammars allow the tokens of the texts that they describe and no others, end with them, and refuse schemas that would take too much.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use moebius_engine::Constraint;
use moebius_grammar::{Grammar, GrammarError, Grammars, Part};
use moebius_text::Tokenizer;
use serde_json::{Map, Value, json};

/// Ids of special tokens of the tokenizer.
const END: u32 = 0;
const START: u32 = 1;

/// A small tokenizer.
fn named(name: &str) -> Tokenizer {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../text/tests/vectors");
    let json = fs::read(tests.join(format!("{name}.json"))).unwrap();
    Tokenizer::from_bytes(&json).unwrap()
}

/// The tokenizer of most tests, whose tokens are one or several bytes.
fn tokenizer() -> Tokenizer {
    named("byte_level").with_ends(None, vec![END]).unwrap()
}

fn compiled(parts: &[Part]) -> Result<Grammar, GrammarError> {
    Grammars::new(&tokenizer()).unwrap().compile(parts)
}

fn json_of(schema: &Value) -> Vec<Part> {
    vec![Part::Json(schema.to_string())]
}

/// How much of a text is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    /// All of it, and nothing may follow.
    Complete,
    /// All of it; the answer may end here, or go on.
    MayEnd,
    /// All of it, but the answer can't end here.
    Begun,
    /// Not all of it.
    Forbidden,
}

/// Follows the tokens of a text.
fn judged(grammar: &Grammar, ids: &[u32]) -> Judged {
    let mut grammar = grammar.clone();
    for (at, id) in ids.iter().enumerate() {
        if !grammar.allowed().unwrap().contains(*id) {
            return Judged::Forbidden;
        }
        if grammar.push(*id).unwrap() {
            let left = at + 1 < ids.len();
            return [Judged::Complete, Judged::Forbidden][usize::from(left)];
        }
    }
    if grammar.allowed().unwrap().contains(END) {
        assert!(grammar.push(END).unwrap(), "the token that ends, ends");
        Judged::MayEnd
    } else {
        Judged::Begun
    }
}

/// Checks what is said of texts.
#[track_caller]
fn check(grammar: &Grammar, expected: Judged, texts: &[&str]) {
    let tokenizer = tokenizer();
    for text in texts {
        let ids = tokenizer.encode(text, false).unwrap();
        assert_eq!(judged(grammar, &ids), expected, "{text}");
    }
}

#[test]
fn json_follows_its_schema() {
    // Fields come in this order, which a sorted map wouldn't keep.
    let schema = r##"{
        "type": "object",
        "properties": {
            "zeal": {"type": "integer", "minimum": 0, "maximum": 20},
            "kind": {"enum": ["whale", "ship"]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2}
        },
        "$defs": {"tag": {"type": "string", "maxLength": 3}},
        "required": ["zeal", "kind"],
        "additionalProperties": false
    }"##;
    let grammar = compiled(&[Part::Json(schema.to_owned())]).unwrap();
    let complete = [
        r#"{"zeal":12,"kind":"whale"}"#,
        "{\n  \"zeal\": 0,\n  \"kind\": \"ship\", \"tags\": []\n}",
        r#"{"zeal":1,"kind":"ship","tags":["a","é🚢"]}"#,
    ];
    check(&grammar, Judged::Complete, &complete);
    let begun = [r#"{"zeal":1,"kind":"ship""#, r#"{"ze"#, ""];
    check(&grammar, Judged::Begun, &begun);
    let forbidden = [
        r#"{"zeal":1}"#,
        r#"{"zeal":21"#,
        r#"{"zeal":-1"#,
        r#"{"kind":"ship","zeal":1}"#,
        r#"{"zeal":1,"kind":"fish"}"#,
        r#"{"zeal":1,"kind":"ship","tags":["abcd"]}"#,
        r#"{"zeal":1,"kind":"ship","tags":["a","b","c"]}"#,
        r#"{"zeal":1,"kind":"ship","more":1}"#,
        "Sure: {",
        "[",
    ];
    check(&grammar, Judged::Forbidden, &forbidden);
}

#[test]
fn any_json_may_be_asked_for() {
    let object = compiled(&json_of(&json!({"type": "object"}))).unwrap();
    let complete = ["{}", r#"{"a":[1,{"b":null}],"c":-2.5e3,"d":"\n"}"#];
    check(&object, Judged::Complete, &complete);
    check(&object, Judged::Begun, &[r#"{"a":tru"#]);
    let forbidden = [r#"{"a":"<|im_start|>"}"#, "[1]", "{'a':1}"];
    check(&object, Judged::Forbidden, &forbidden);
    let value = compiled(&json_of(&json!(true))).unwrap();
    check(&value, Judged::MayEnd, &["7"]);
    check(&value, Judged::Complete, &["[7]"]);
    check(&value, Judged::Forbidden, &["x"]);
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

#[test]
fn parts_follow_one_another() {
    let call = |name: &str, schema: Value| {
        let begin = text(&format!("{{\"name\": \"{name}\", \"arguments\": "));
        vec![begin, Part::Json(schema.to_string()), text("}")]
    };
    let city = json!({
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        "additionalProperties": false,
    });
    let none = json!({"type": "object", "additionalProperties": false});
    let parts = [
        Part::Through("</think>".to_owned()),
        Part::Space,
        text("<call>"),
        Part::OneOf(vec![call("weather", city), call("time", none)]),
        text("</call>"),
        Part::Repeated(vec![text("!")]),
    ];
    let grammar = compiled(&parts).unwrap();
    let may_end = [
        r#"so <b></b></think> <call>{"name": "weather", "arguments": {"city": "Bern"}}</call>"#,
        r#"</think><call>{"name": "time", "arguments": {}}</call>!!"#,
    ];
    check(&grammar, Judged::MayEnd, &may_end);
    let begun = [
        r#"a</think><call>{"name": "time", "arguments": {"#,
        "never done",
    ];
    check(&grammar, Judged::Begun, &begun);
    let forbidden = [
        r#"a</think><call>{"name": "tide""#,
        r#"a</think><call>{"name": "time", "arguments": {"city": "#,
        "a</think>b",
    ];
    check(&grammar, Judged::Forbidden, &forbidden);
}

#[test]
fn a_special_token_has_no_text_and_no_text_stands_for_it() {
    let parts = [
        Part::Through("<|im_end|>".to_owned()),
        text("<|im_start|>"),
        Part::Maybe(vec![text("a")]),
        text("b"),
    ];
    let grammar = compiled(&parts).unwrap();
    let complete = ["x y<|im_end|><|im_start|>ab", "<|im_end|><|im_start|>b"];
    check(&grammar, Judged::Complete, &complete);
    check(&grammar, Judged::Forbidden, &["<|im_end|>b"]);
    let ids = |text: &str| tokenizer().encode(text, false).unwrap();
    assert_eq!(ids("<|im_end|><|im_start|>"), [2, START]);
    let tokenizer = tokenizer().with_special_as_text(true);
    let spelled = |text: &str| tokenizer.encode(text, false).unwrap();
    let all = spelled("x<|im_end|><|im_start|>b");
    assert_eq!(judged(&grammar, &all), Judged::Begun);
    let start = [ids("<|im_end|>"), spelled("<|im_start|>")].concat();
    assert_eq!(judged(&grammar, &start), Judged::Forbidden);
}

#[test]
fn copies_go_their_own_ways() {
    let grammar = compiled(&json_of(&json!({"enum": ["ab", "ac", "b"]}))).unwrap();
    let [quote, a, b, c] = ["\"", "a", "b", "c"].map(|text| tokenizer().id(text).unwrap());
    let mut first: Box<dyn Constraint> = Box::new(grammar);
    for id in [quote, a] {
        assert!(!first.push(id).unwrap());
    }
    let mut second = first.clone();
    for (one, id) in [(&mut first, b), (&mut second, c)] {
        assert!(one.allowed().unwrap().contains(id));
        assert!(!one.push(id).unwrap());
        assert!(one.push(quote).unwrap());
    }
    let mut wrong = compiled(&json_of(&json!({"enum": ["ab"]}))).unwrap();
    let said = wrong.push(a).unwrap_err().to_string();
    assert!(said.starts_with("the answer's grammar: "), "{said}");
    assert!(!said.contains('\n'), "{said}");
}

#[test]
fn what_can_not_be_followed_is_refused() {
    let refused = |schema: &Value| compiled(&json_of(schema)).unwrap_err();
    for schema in [
        json!({"not": {"type": "string"}}),
        json!({"type": "thing"}),
        json!({"$ref": "https://example.com/schema"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"allOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "minLength": 3, "maxLength": 2}),
    ] {
        let error = refused(&schema);
        let refused = matches!(error, GrammarError::Refused(_));
        assert!(refused, "{schema}: {error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    for schema in [json!([1]), json!({"title": "a".repeat(1 << 20)})] {
        let error = refused(&schema);
        let refused = matches!(error, GrammarError::Schema { .. });
        assert!(refused, "{error}");
    }
    let words = Grammars::new(&named("word_piece")).unwrap_err();
    let refused = matches!(words, GrammarError::Tokenizer(_));
    assert!(refused, "{words}");
}

/// References one behind the other are followed by calls, for which the stack of a common thread would not do.
#[test]
fn a_long_chain_of_references_is_followed() {
    const LINKS: usize = 1000;
    let link = |at: usize| {
        let next = json!({"$ref": format!("#/$defs/{}", at + 1)});
        (at.to_string(), next)
    };
    let mut links: Map<String, Value> = (0..LINKS).map(link).collect();
    links.insert(LINKS.to_string(), json!({"type": "null"}));
    let schema = json!({"$ref": "#/$defs/0", "$defs": links});
    let grammar = compiled(&json_of(&schema)).unwrap();
    check(&grammar, Judged::Complete, &["null"]);
    check(&grammar, Judged::Forbidden, &["1"]);
}

/// Work is bounded: each of these either has a grammar or is refused, within a time that a test may take.
#[test]
fn hostile_schemas_come_to_an_end() {
    let patterns = (0..30).map(|n| (format!("(a|b)*a(a|b){{{n}}}c{n}"), json!({})));
    let options: Vec<String> = (0..4000).map(|n| format!("{n:08}")).collect();
    for schema in [
        json!({"type": "object", "patternProperties": patterns.collect::<Map<_, _>>()}),
        json!({"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}),
        json!({"type": "string", "pattern": "(((a{99}){99}){99}){99}"}),
        json!({"type": "string", "pattern": "(x+x+)+y".repeat(500)}),
        json!({"type": "array", "minItems": 1_000_000_000, "items": {"type": "null"}}),
        json!({"type": "integer", "multipleOf": 999_983, "minimum": 7}),
        json!({"enum": options}),
    ] {
        let Ok(mut grammar) = compiled(&json_of(&schema)) else {
            continue;
        };
        for _ in 0..20 {
            let Ok(allowed) = grammar.allowed() else {
                break;
            };
            let id = (0..483).find(|id| allowed.contains(*id)).unwrap();
            if grammar.push(id).is_err() {
                break;
            }
        }
    }
}
