use super::*;

fn files<'a>(names: &[&'a str], file: Option<&str>) -> Result<Vec<&'a str>, String> {
    match wanted("org/model", names, file) {
        Ok(Wanted::Files(files)) => Ok(files),
        Ok(wanted) => Err(format!("{wanted:?}")),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn a_model_in_safetensors_is_what_transformers_reads() {
    let names = [
        ".gitattributes",
        "README.md",
        "additional_chat_templates/rag.jinja",
        "additional_chat_templates/readme.txt",
        "chat_template.jinja",
        "config.json",
        "consolidated.safetensors",
        "generation_config.json",
        "model.fp16.safetensors",
        "model.safetensors",
        "onnx/config.json",
        "onnx/model.onnx",
        "original/model.safetensors",
        "pytorch_model.bin",
        "tokenizer.json",
        "tokenizer_config.json",
        "x.gguf",
    ];
    let right = [
        "additional_chat_templates/rag.jinja",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "model.safetensors",
    ];
    assert_eq!(files(&names, None).unwrap(), right);
}

#[test]
fn an_index_names_the_files_of_the_weights() {
    let names = [
        "config.json",
        "consolidated.safetensors.index.json",
        "model-1.safetensors",
        "model-2.safetensors",
        "model-3.safetensors",
        "model.safetensors.index.json",
    ];
    let found = wanted("org/model", &names, None).unwrap();
    let index = "model.safetensors.index.json";
    let beside = vec!["config.json"];
    assert_eq!(found, Wanted::Indexed { beside, index });
    let text = br#"{"metadata":{},"weight_map":{"a":"model-2.safetensors","b":"./model-1.safetensors","c":"model-2.safetensors"}}"#;
    let found = shards(index, text, &names).unwrap();
    assert_eq!(found, ["model-1.safetensors", "model-2.safetensors"]);
    for text in [
        r#"{"weight_map":{"a":"model-9.safetensors"}}"#,
        r#"{"weight_map":{"a":"../../x"}}"#,
        "{}",
        "",
    ] {
        let error = shards(index, text.as_bytes(), &names).unwrap_err();
        assert_eq!(error.what, index, "{text}");
    }
}

#[test]
fn weights_that_can_not_be_read_are_named() {
    let bin = files(&["config.json", "pytorch_model.bin"], None).unwrap_err();
    assert!(bin.contains("pytorch_model.bin"), "{bin}");
    let none = files(&["README.md"], None).unwrap_err();
    assert!(none.contains("got none"), "{none}");
    let bare = files(&["model.safetensors"], None).unwrap_err();
    assert!(bare.contains("config.json"), "{bare}");
    let two = files(&["config.json", "a.safetensors", "b.safetensors"], None).unwrap_err();
    assert!(
        two.contains("a.safetensors") && two.contains("b.safetensors"),
        "{two}"
    );
}

const QUANTISED: [&str; 8] = [
    "README.md",
    "Tiny-IQ4_XS.gguf",
    "Tiny-Q4_K_M.gguf",
    "Tiny-Q8_0.gguf",
    "Tiny-UD-Q4_K_M.gguf",
    "f16/Tiny-f16-00001-of-00002.gguf",
    "f16/Tiny-f16-00002-of-00002.gguf",
    "mmproj-Tiny-Q8_0.gguf",
];

#[test]
fn a_model_in_gguf_is_named_by_its_quantisation() {
    let f16 = &QUANTISED[5..7];
    let cases: [(&str, &[&str]); 10] = [
        ("Q4_K_M", &["Tiny-Q4_K_M.gguf"]),
        ("UD-Q4_K_M", &["Tiny-UD-Q4_K_M.gguf"]),
        ("q8_0", &["Tiny-Q8_0.gguf"]),
        ("iq4_xs", &["Tiny-IQ4_XS.gguf"]),
        ("F16", f16),
        ("*f16*", f16),
        ("f16/Tiny-f16-00002-of-00002.gguf", f16),
        ("Tiny-IQ?_XS.gguf", &["Tiny-IQ4_XS.gguf"]),
        ("mmproj-Tiny-Q8_0.gguf", &["mmproj-Tiny-Q8_0.gguf"]),
        ("README.md", &["README.md"]),
    ];
    for (file, right) in cases {
        let names: Vec<&str> = QUANTISED.to_vec();
        assert_eq!(files(&names, Some(file)).as_deref(), Ok(right), "{file}");
    }
}

#[test]
fn a_name_for_several_models_lists_them() {
    let names = QUANTISED[..5].to_vec();
    let short = "IQ4_XS, Q4_K_M, Q8_0, UD-Q4_K_M";
    let error = files(&names, None).unwrap_err();
    assert!(error.contains(&format!("got 4: {short}")), "{error}");
    assert!(error.contains("org/model:IQ4_XS"), "{error}");
    let error = files(&names, Some("Q4_K")).unwrap_err();
    assert!(
        error.contains("`Q4_K` stands for") && error.contains(short),
        "{error}"
    );
    let error = files(&names, Some("*Q4_K_M*")).unwrap_err();
    assert!(error.contains("got 2: Q4_K_M, UD-Q4_K_M"), "{error}");
    assert!(files(&["README.md"], Some("Q8_0")).is_err());
}

#[test]
fn one_model_in_gguf_needs_no_name() {
    assert_eq!(files(&["README.md", "x.GGUF"], None).unwrap(), ["x.GGUF"]);
    let parts = ["x-00001-of-00003.gguf", "x-00003-of-00003.gguf"];
    let error = files(&parts, None).unwrap_err();
    assert!(
        error.contains("3 parts of `x`") && error.ends_with("got 2"),
        "{error}"
    );
}
