//! Files and folders that aren't safetensors, and what people are told to do with them.

use std::fs;
use std::path::Path;

use moebius_weights::folder::model_at;
use moebius_weights::{Dtype, Reader, Unscaled, WeightsError};

use crate::files::{bytes, f32s, file, raw, write};

/// A folder with empty files of these names.
fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        write(folder.path(), name, "");
    }
    folder
}

/// Checks that `path` is refused as another format, with an error that contains all of `said`.
fn refused(path: &Path, said: &[&str]) {
    let error = Reader::open(path).unwrap_err();
    assert!(matches!(error, WeightsError::Foreign { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(&*path.display().to_string()), "{text}");
    assert!(text.lines().count() <= 10, "{text}");
    for part in said {
        assert!(text.contains(part), "{part:?} isn't in: {text}");
    }
}

/// The line keeps tensors that share memory apart, and doesn't run what is in the file.
#[test]
fn pickles_are_refused_with_the_line_that_converts_them() {
    let line = "for f in glob.glob('pytorch_model*.bin') for k, v in torch.load(f, map_location='cpu', weights_only=True).items()";
    for names in [
        &["config.json", "pytorch_model.bin"][..],
        &["optimizer.bin", "pytorch_model-00001-of-00002.bin"],
        &["pytorch_model.bin.index.json"],
    ] {
        let folder = folder(names);
        refused(
            folder.path(),
            &[
                "never opened",
                line,
                "'model.safetensors'",
                "v.clone().contiguous()",
            ],
        );
    }
    refused(
        folder(&["consolidated.00.pth"]).path(),
        &["glob('consolidated.00.pth')"],
    );
    refused(folder(&["it's.pt"]).path(), &["glob('FILE')"]);
    let folder = folder(&[]);
    // Beginnings of PyTorch's archives, and of its older pickles.
    for start in [
        &b"PK\x03\x04\0\0\x08\x08\0\0"[..],
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 ",
    ] {
        write(folder.path(), "weights.pt", start);
        refused(
            &folder.path().join("weights.pt"),
            &["a pickle of PyTorch", "glob('weights.pt')"],
        );
    }
}

#[test]
fn other_folders_are_named() {
    for (names, said) in [
        (
            &["adapter_config.json", "adapter_model.safetensors"][..],
            "--adapter",
        ),
        (
            &["config.json", "model.onnx"][..],
            "an ONNX model, `model.onnx`",
        ),
        (&["tf_model.h5"][..], "TensorFlow"),
        (
            &["a.Q4_K_M.gguf", "b.Q8_0.gguf"][..],
            "such as `a.Q4_K_M.gguf`",
        ),
        (&["model.safetensors.incomplete"][..], "download it again"),
    ] {
        refused(folder(names).path(), &[said]);
    }
}

#[test]
fn texts_in_place_of_weights_are_named() {
    let folder = folder(&[]);
    let path = folder.path().join("model.safetensors");
    for text in [
        "<!DOCTYPE html><html>",
        "Access to model x is restricted",
        "{\n  \"error\": 1}",
    ] {
        write(folder.path(), "model.safetensors", text);
        refused(&path, &["a server's message", "download it again"]);
    }
    write(folder.path(), "model.safetensors", b"GGUF\x03\0\0\0\0\0");
    refused(&path, &["a GGUF file"]);
    let short = Reader::from_bytes("short", b"<html>".to_vec()).unwrap_err();
    assert!(
        short
            .to_string()
            .contains("at least 8 bytes, got 6: download"),
        "{short}"
    );
    let whole = file(&[f32s("a", &[4], &[1.0; 4])]);
    let cut = Reader::from_bytes("cut", whole[..whole.len() - 1].to_vec()).unwrap_err();
    assert!(
        cut.to_string()
            .ends_with("got 0..16: download the file again"),
        "{cut}"
    );
}

#[test]
fn of_missing_files_three_are_named() {
    let folder = folder(&[]);
    let shard = |n: usize| format!("model-{n:05}-of-00005.safetensors");
    let map: Vec<String> = (1..=5)
        .map(|n| format!(r#""t{n}": "{}""#, shard(n)))
        .collect();
    let index = format!(r#"{{"weight_map": {{{}}}}}"#, map.join(", "));
    write(folder.path(), "model.safetensors.index.json", index);
    let said = |expected: &str| {
        let error = Reader::open(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    };
    said("`model-00003-of-00005.safetensors` and 2 more are missing: download them again");
    for n in 1..5 {
        write(folder.path(), &shard(n), file(&[]));
    }
    said("the file `model-00005-of-00005.safetensors` is missing: download it again");
}

#[test]
fn metadata_may_be_null() {
    let text =
        r#"{"__metadata__": null, "w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}"#;
    let reader = Reader::from_bytes("null", raw(text, &[7])).unwrap();
    assert!(reader.metadata().is_empty());
    assert_eq!(reader.read("w").unwrap(), [7]);
}

/// Python writes `Infinity`; other keys of the configuration are read all the same.
#[test]
fn a_configuration_of_python_is_read() {
    let folder = folder(&[]);
    let tensors = [
        bytes("w.weight", Dtype::F8_E4M3, &[4, 4], 0x38),
        f32s("w.weight_scale_inv", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
    ];
    write(folder.path(), "model.safetensors", file(&tensors));
    let config = r#"{"time_step_limit": [0.0, Infinity], "quantization_config": {"weight_block_size": [2, 2]}}"#;
    write(folder.path(), "config.json", format!("\u{feff}{config}"));
    let reader = Reader::open(folder.path()).unwrap();
    let config = reader.config().unwrap();
    assert_eq!(config["time_step_limit"][1]["__float__"], "Infinity");
    let layout = reader.fp8_layout("w.weight", Unscaled::Refuse);
    assert_eq!(layout.unwrap().shape, [4, 4]);
}

#[test]
fn pages_of_servers_are_no_configuration() {
    let folder = folder(&[]);
    write(folder.path(), "model.safetensors", file(&[]));
    write(
        folder.path(),
        "config.json",
        "\n<!DOCTYPE html><html></html>",
    );
    let error = Reader::open(folder.path()).unwrap_err();
    assert!(matches!(error, WeightsError::Page(_)), "{error}");
    assert!(error.to_string().contains("config.json"), "{error}");
}

#[test]
fn tensors_may_have_other_names() {
    let tensors = [f32s("a.x", &[1], &[1.0]), f32s("b.x", &[1], &[2.0])];
    let open = || Reader::from_bytes("test", file(&tensors)).unwrap();
    let renamed = open().renamed(|name| name.replace("a.", "c."));
    assert_eq!(renamed.unwrap().read_f32("c.x").unwrap(), [1.0]);
    let twice = open().renamed(|_| "x".to_owned()).unwrap_err();
    assert!(matches!(twice, WeightsError::DuplicateTensor(_)), "{twice}");
}

/// Some repositories of GGUF files have the configuration of the original model beside them.
#[test]
fn a_configuration_beside_a_gguf_file_changes_nothing() {
    let folder = folder(&["config.json"]);
    let path = folder.path();
    write(path, "model.gguf", "GGUF");
    assert_eq!(model_at(path).unwrap(), path.join("model.gguf"));
    // The part of a model that sees.
    write(path, "mmproj-model-f16.gguf", "GGUF");
    assert_eq!(model_at(path).unwrap(), path.join("model.gguf"));
    write(path, "other.gguf", "GGUF");
    assert_eq!(model_at(path).unwrap(), path);
    write(path, "model.safetensors", file(&[]));
    fs::remove_file(path.join("other.gguf")).unwrap();
    assert_eq!(model_at(path).unwrap(), path);
}
