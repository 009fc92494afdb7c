//! Nothing is lost when a conversion fails, is refused, or has its own source as the target.

use std::fs;
use std::path::Path;

use moebius_ops::quantize::Quantized;
use moebius_ops::scaling::{Granularity, HostScales};
use moebius_weights::{
    Action, ConvertOptions, Dtype, Reader, Unscaled, WeightsError, convert, host_quantizer,
};

use crate::conversion::{BLOCK, UP, folder_of, model, run, scheme};
use crate::files::{Tensor, bytes, f32s, names, write};

/// How a bad quantiser spoils a good result.
type Spoil = fn(Quantized) -> Result<Quantized, String>;

#[test]
fn what_fails_leaves_everything_as_it_was() {
    let source = folder_of(&model());
    let out = tempfile::tempdir().unwrap();
    let one = out.path().join("one.safetensors");
    fs::write(&one, "before").unwrap();
    let empty = out.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let reader = Reader::open(source.path()).unwrap();
    let options = ConvertOptions::new(scheme(BLOCK));
    let attempts: [(&str, Spoil); 4] = [
        ("no device", |_| Err("no device".to_owned())),
        ("959", |mut quantized| {
            quantized.codes.remove(0);
            Ok(quantized)
        }),
        ("f32 scales", |mut quantized| {
            quantized.scales = HostScales::F32(vec![1.0]);
            Ok(quantized)
        }),
        ("f32 scales", |mut quantized| {
            quantized.scales = HostScales::E8M0(vec![1; 6]);
            Ok(quantized)
        }),
    ];
    for (said, spoil) in attempts {
        for target in [&one, &empty, &out.path().join("new")] {
            let mut host = host_quantizer(options.scheme);
            let mut quantize = |values: &[f32], rows: usize, columns: usize| {
                let quantized = host(values, rows, columns)?;
                // The first matrix succeeds, so there is something to lose.
                if values.len() == 33 * 24 {
                    Ok(quantized)
                } else {
                    Ok(spoil(quantized)?)
                }
            };
            let error =
                convert(&reader, target, &options, &mut quantize, &mut |_, _, _| ()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(said) && text.contains(UP), "{text}");
            assert_eq!(names(out.path()), ["empty", "one.safetensors"]);
        }
    }
    assert_eq!(fs::read(&one).unwrap(), b"before");
    assert!(names(&empty).is_empty());
    // After the failures, both paths can still be targets.
    run(source.path(), &one, &options).unwrap();
    run(source.path(), &empty, &options).unwrap();
    assert_eq!(names(out.path()), ["empty", "one.safetensors"]);
}

#[test]
fn a_source_is_not_written_onto() {
    let source = folder_of(&model());
    let path = source.path();
    let before = names(path);
    let options = ConvertOptions::new(scheme(BLOCK));
    let refusal = |from: &Path, to: &Path| run(from, to, &options).unwrap_err();
    let is_source = |from: &Path, to: &Path| {
        let error = refusal(from, to);
        let fits = matches!(error, WeightsError::TargetIsSource { .. });
        assert!(fits, "{error}");
    };
    let dotted = path.join("../").join(path.file_name().unwrap());
    let shard = path.join("model-1.safetensors");
    let index = path.join("model.safetensors.index.json");
    for (from, to) in [
        (path, path),
        (path, &dotted),
        (path, &shard),
        (&shard, &shard),
        (&index, path),
    ] {
        is_source(from, to);
    }
    #[cfg(unix)]
    {
        let out = tempfile::tempdir().unwrap();
        let link = out.path().join("link");
        std::os::unix::fs::symlink(path, &link).unwrap();
        is_source(path, &link);
    }
    assert_eq!(names(path), before);
    let out = tempfile::tempdir().unwrap();
    write(out.path(), "notes.txt", "mine");
    write(out.path(), "file", "mine");
    for taken in [out.path(), &out.path().join("file")] {
        let error = refusal(path, taken);
        let exists = matches!(error, WeightsError::TargetExists { .. });
        assert!(exists, "{error}");
    }
    fs::create_dir(out.path().join("x.part")).unwrap();
    let error = refusal(path, &out.path().join("x"));
    assert!(matches!(error, WeightsError::Busy { .. }), "{error}");
    assert_eq!(names(out.path()), ["file", "notes.txt", "x.part"]);
}

#[test]
fn what_cannot_be_converted_is_refused_before_anything_is_written() {
    let out = tempfile::tempdir().unwrap();
    let options = ConvertOptions::new(scheme(BLOCK));
    let refused = |tensors: &[Tensor], options: &ConvertOptions| {
        let source = folder_of(tensors);
        let error = run(source.path(), &out.path().join("x"), options).unwrap_err();
        assert!(names(out.path()).is_empty());
        error
    };
    let fnuz = [bytes("w.weight", Dtype::F8_E4M3FNUZ, &[2, 2], 0)];
    let error = refused(&fnuz, &options);
    assert!(matches!(error, WeightsError::WrongTensor { .. }));
    let bare = [bytes("w.weight", Dtype::F8_E4M3, &[2, 2], 0x38)];
    let error = refused(&bare, &options);
    assert!(matches!(error, WeightsError::MissingScale { .. }));
    let nothing = ConvertOptions::new(scheme(Granularity::of_blocks(0, 4)));
    let error = refused(&model(), &nothing);
    assert!(matches!(error, WeightsError::Scheme { .. }));
    // The source already has a tensor with the name that the scales would need.
    let taken = [
        f32s("w.weight", &[2, 2], &[1.0; 4]),
        f32s("w.weight_scale_inv", &[1], &[1.0]),
    ];
    let error = refused(&taken, &options);
    assert!(matches!(error, WeightsError::Declared { .. }));
    let one = ConvertOptions {
        unscaled: Unscaled::AssumeOne,
        ..options
    };
    let source = folder_of(&bare);
    let report = run(source.path(), &out.path().join("x"), &one).unwrap();
    assert_eq!(report.layers[0].action, Action::Carried);
    let reader = Reader::open(&out.path().join("x")).unwrap();
    assert_eq!(reader.read_f32("w.weight_scale_inv").unwrap(), [1.0]);
}
