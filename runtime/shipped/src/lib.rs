//! The files of a small language model, for the command `moebius`, which writes with it where no other model is given.

/// Name and bytes of every file of the model, sorted by name.
pub static FILES: &[(&str, &[u8])] = &[
    ("config.json", include_bytes!("../config.json")),
    (
        "generation_config.json",
        include_bytes!("../generation_config.json"),
    ),
    ("model.safetensors", include_bytes!("../model.safetensors")),
    ("tokenizer.json", include_bytes!("../tokenizer.json")),
    (
        "tokenizer_config.json",
        include_bytes!("../tokenizer_config.json"),
    ),
];
