//! Files and folders of other formats, which are recognized to say what they are and what to do with them.

use std::path::Path;

use crate::error::{WeightsError, quoted};

/// Endings of files that Python has to unpickle.
const PICKLES: &[&str] = &[".bin", ".pt", ".pth", ".ckpt", ".pkl", ".bin.index.json"];

/// Endings of files of weights in other formats, with what the formats are.
const OTHERS: &[(&str, &str)] = &[
    (".incomplete", "a download that isn't complete"),
    (".onnx", "an ONNX model"),
    (".h5", "weights of TensorFlow or Keras"),
    (".msgpack", "weights of Flax"),
    (".npz", "arrays of NumPy"),
    (".mlmodel", "a Core ML model"),
    (".tflite", "a model of TensorFlow Lite"),
    (".nemo", "an archive of NeMo"),
    (".engine", "a program of TensorRT"),
];

/// What the names of transformers' pickles begin with.
const USUAL: &str = "pytorch_model";

/// What to do about each of these: an incomplete download, and a folder of another format.
const AGAIN: &str = "download it again";
const TAKE: &str = "take the model's safetensors or GGUF files instead";

/// The error for files that are Python's pickles; `files` is what Python's `glob` finds them by.
fn pickled(path: &Path, files: &str) -> WeightsError {
    let load = "torch.load(f, map_location='cpu', weights_only=True)";
    let tensors = format!(
        "{{k: v.clone().contiguous() for f in glob.glob('{files}') for k, v in {load}.items()}}"
    );
    let save = format!("save_file({tensors}, 'model.safetensors', {{'format': 'pt'}})");
    let line = format!(
        "python3 -c \"import glob, torch; from safetensors.torch import save_file; {save}\""
    );
    WeightsError::Foreign {
        path: path.to_owned(),
        got: "a pickle of PyTorch, which could run any program and is never opened".to_owned(),
        instead: format!("in its folder, this line writes safetensors: {line}"),
    }
}

fn foreign(path: &Path, got: impl ToString, instead: &str) -> WeightsError {
    WeightsError::Foreign {
        path: path.to_owned(),
        got: got.to_string(),
        instead: instead.to_owned(),
    }
}

/// The error for a folder without safetensors, by the names of the files in it; `None` if no file tells what it is.
pub(crate) fn of_names(folder: &Path, names: &[String]) -> Option<WeightsError> {
    let ending = |endings: &[&str]| {
        let fits = |name: &&String| endings.iter().any(|ending| name.ends_with(ending));
        names.iter().find(fits)
    };
    if names.iter().any(|name| name == "adapter_config.json") {
        let got = "a LoRA adapter without its model";
        let instead = "name its model, and this folder as the adapter of that (`--adapter`)";
        return Some(foreign(folder, got, instead));
    }
    let usual = names.iter().find(|name| name.starts_with(USUAL));
    if let Some(name) = usual.or_else(|| ending(PICKLES)) {
        return Some(pickled(folder, pattern(name)));
    }
    if let Some(name) = ending(&[".gguf"]) {
        let instead = format!("name one of them, such as {}", quoted(name));
        return Some(foreign(folder, "GGUF models", &instead));
    }
    let other = OTHERS
        .iter()
        .find_map(|(end, what)| Some((ending(&[*end])?, what)));
    other.map(|(name, what)| {
        let again = name.ends_with(".incomplete");
        let got = format!("{what}, {}", quoted(name));
        foreign(folder, got, if again { AGAIN } else { TAKE })
    })
}

/// What Python's `glob` finds a model's pickles by, of which one is called `name`. A name that would need quotes is left to the reader.
fn pattern(name: &str) -> &str {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._- ".contains(c);
    match name {
        _ if name.starts_with(USUAL) => "pytorch_model*.bin",
        _ if name.chars().all(fits) => name,
        _ => "FILE",
    }
}

/// The error for a file that begins with these bytes; `None` where they may be the length of a safetensors header.
pub(crate) fn of_start(path: &Path, start: [u8; 8]) -> Option<WeightsError> {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.unwrap_or_default();
    if u64::from_le_bytes(start) <= u64::from(u32::MAX) {
        return None;
    }
    match start {
        [b'P', b'K', 3, 4, ..] | [0x80, 2..=5, ..] => Some(pickled(path, pattern(&name))),
        [b'G', b'G', b'U', b'F', ..] => {
            let instead = "open the file by itself, not as a part of a safetensors checkpoint";
            Some(foreign(path, "a GGUF file", instead))
        }
        [0x89, b'H', b'D', b'F', ..] => Some(foreign(path, "an HDF5 file", TAKE)),
        // As a length these would be more than 2^61 bytes.
        _ if start
            .iter()
            .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\r' | b'\t')) =>
        {
            let text = quoted(&String::from_utf8_lossy(&start));
            let got = format!("a text that begins with {text}, such as a server's message");
            Some(foreign(path, got, AGAIN))
        }
        _ => None,
    }
}
