//! Written files are read back, by this reader and by the `safetensors` crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use moebius_ops::fp8::Fp8Format;
use moebius_ops::quantize::quantize_host;
use moebius_ops::scaling::{Fp8Scheme, Granularity, HostScales};
use moebius_weights::{
    Dtype, Fp8Weight, Reader, TensorSpec, Unscaled, WeightsError, Writer, file_bytes,
};
use proptest::prelude::*;
use safetensors::SafeTensors;

use crate::files::{names, noise};

fn spec(name: &str, dtype: Dtype, shape: &[usize]) -> TensorSpec {
    TensorSpec {
        name: name.to_owned(),
        dtype,
        shape: shape.to_vec(),
    }
}

fn size(spec: &TensorSpec) -> usize {
    spec.shape.iter().product::<usize>() * spec.dtype.bitsize() / 8
}

/// Checks rows `result => error;`: each result is this error.
macro_rules! refused {
    ($($result:expr => $variant:ident $(:: $inner:ident)* { $($fields:tt)* };)+) => {$(
        let error = $result.unwrap_err();
        let fits = matches!(error, $variant $(:: $inner)* { $($fields)* });
        assert!(fits, "{error}");
    )+};
}

const NO_TEXT: BTreeMap<String, String> = BTreeMap::new();

#[test]
fn pieces_come_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let specs = [
        spec("odd", Dtype::U8, &[3]),
        spec("wide", Dtype::F64, &[2]),
        spec("none", Dtype::F32, &[0, 7]),
        spec("one", Dtype::BF16, &[]),
    ];
    let text = BTreeMap::from([("note".to_owned(), "a \"b\"\n".to_owned())]);
    let mut writer = Writer::file(&path, &specs, &text).unwrap();
    writer.append("odd", &[1]).unwrap();
    writer.append("one", &[8, 9]).unwrap();
    assert_eq!(names(folder.path()), ["x.safetensors.part"]);
    writer.append("odd", &[2, 3]).unwrap();
    writer.append("wide", &[7; 16]).unwrap();
    assert_eq!(writer.finish().unwrap(), std::slice::from_ref(&path));
    assert_eq!(names(folder.path()), ["x.safetensors"]);
    let whole = fs::read(&path).unwrap();
    let header = u64::from_le_bytes(*whole.first_chunk().unwrap());
    assert_eq!((header % 8, whole[8]), (0, b'{'));
    let other = SafeTensors::deserialize(&whole).unwrap();
    assert_eq!(other.tensor("odd").unwrap().data(), [1, 2, 3]);
    // Tensors lie in order of decreasing element size, so each is aligned to its elements.
    let data = other.tensor("wide").unwrap().data().as_ptr() as usize - whole.as_ptr() as usize;
    assert_eq!(data % 8, 0);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.names_in_order(), ["wide", "none", "one", "odd"]);
    assert_eq!(reader.read("one").unwrap(), [8, 9]);
    assert!(reader.read("none").unwrap().is_empty());
    let text = BTreeMap::from([("format", "pt"), ("note", "a \"b\"\n")]);
    assert_eq!(reader.metadata(), text);
}

#[test]
fn a_file_in_memory_is_the_one_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    let tensors = [("odd", Dtype::U8, 3), ("wide", Dtype::F64, 2)];
    let tensors = tensors.map(|(name, dtype, count)| {
        let spec = spec(name, dtype, &[count]);
        let bytes = vec![count as u8; size(&spec)];
        (spec, bytes)
    });
    let specs = tensors.clone().map(|(spec, _)| spec);
    let mut writer = Writer::file(&path, &specs, &NO_TEXT).unwrap();
    for (spec, bytes) in &tensors {
        writer.append(&spec.name, bytes).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(file_bytes(&tensors).unwrap(), fs::read(&path).unwrap());
    let short = (spec("a", Dtype::F32, &[2]), vec![0; 7]);
    refused! {
        file_bytes(&[short]) => WeightsError::DataLength { expected: 8, got: 7, .. };
        file_bytes(&[tensors[0].clone(), tensors[0].clone()]) => WeightsError::Declared { .. };
    }
}

#[test]
fn what_is_not_complete_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    fs::write(&path, "before").unwrap();
    let specs = [spec("a", Dtype::U8, &[2]), spec("b", Dtype::U8, &[2])];
    let mut writer = Writer::file(&path, &specs, &NO_TEXT).unwrap();
    writer.append("a", &[1, 2]).unwrap();
    // Two writers of the same file don't interfere.
    let mut second = Writer::file(&path, &specs, &NO_TEXT).unwrap();
    refused! {
        second.append("a", &[1]) => WeightsError::Busy { .. };
        writer.append("a", &[3]) => WeightsError::DataLength { expected: 2, got: 3, .. };
        writer.append("c", &[3]) => WeightsError::UnknownTensor { .. };
    }
    writer.append("b", &[1]).unwrap();
    refused! { writer.finish() => WeightsError::DataLength { expected: 2, got: 1, .. }; }
    assert_eq!(names(folder.path()), ["x.safetensors"]);
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[test]
fn declarations_are_checked() {
    let twice = [spec("a", Dtype::U8, &[1]), spec("a", Dtype::U8, &[1])];
    let large = [
        spec("a", Dtype::U8, &[usize::MAX]),
        spec("b", Dtype::U8, &[2]),
    ];
    for specs in [
        &twice[..],
        &[spec("__metadata__", Dtype::U8, &[1])],
        &[spec("a", Dtype::F32, &[usize::MAX])],
        &[spec("a", Dtype::F4, &[3])],
        &large,
    ] {
        refused! { Writer::file(Path::new("x"), specs, &NO_TEXT) => WeightsError::Declared { .. }; }
    }
    let folder = tempfile::tempdir().unwrap();
    refused! {
        Writer::folder(folder.path(), &twice, &NO_TEXT, Some(1)) => WeightsError::Declared { .. };
    }
}

#[test]
fn shards_have_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let specs = [
        spec("a", Dtype::U8, &[6]),
        spec("b", Dtype::U8, &[4]),
        spec("large", Dtype::U8, &[30]),
        spec("c", Dtype::U8, &[1]),
    ];
    let mut writer = Writer::folder(folder.path(), &specs, &NO_TEXT, Some(10)).unwrap();
    for spec in &specs {
        writer.append(&spec.name, &vec![7; size(spec)]).unwrap();
    }
    let files = writer.finish().unwrap();
    let shard = |n| format!("model-0000{n}-of-00003.safetensors");
    let index = "model.safetensors.index.json".to_owned();
    assert_eq!(names(folder.path()), [shard(1), shard(2), shard(3), index]);
    assert_eq!(files.len(), 4);
    let index: serde_json::Value = serde_json::from_slice(&fs::read(&files[3]).unwrap()).unwrap();
    assert_eq!(index["metadata"]["total_size"], 41);
    assert_eq!(index["weight_map"]["b"], shard(1));
    assert_eq!(index["weight_map"]["large"], shard(2));
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.tensors().count(), 4);
    assert_eq!(reader.read("large").unwrap(), [7; 30]);
}

#[test]
fn an_empty_checkpoint_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::folder(folder.path(), &[], &NO_TEXT, Some(1)).unwrap();
    writer.finish().unwrap();
    assert_eq!(names(folder.path()), ["model.safetensors"]);
    assert_eq!(Reader::open(folder.path()).unwrap().tensors().count(), 0);
}

const DTYPES: [Dtype; 14] = [
    Dtype::BOOL,
    Dtype::U8,
    Dtype::I8,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3,
    Dtype::F8_E8M0,
    Dtype::I16,
    Dtype::F16,
    Dtype::BF16,
    Dtype::I32,
    Dtype::F32,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
];

fn granularities() -> impl Strategy<Value = Granularity> {
    prop_oneof![
        Just(Granularity::Tensor),
        Just(Granularity::Row),
        Just(Granularity::Mx),
        (1_usize..70, 1_usize..70).prop_map(|(rows, columns)| Granularity::Block { rows, columns }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_tensors_are_read_as_they_were_written(
        tensors in prop::collection::btree_map(
            "[a-z._\u{e9}\"\\\\ ]{1,12}",
            (prop::sample::select(DTYPES.to_vec()), prop::collection::vec(0_usize..6, 0..4), any::<u8>()),
            0..8,
        ),
        limit in prop::option::of(1_u64..600),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let specs: Vec<TensorSpec> = tensors
            .iter()
            .map(|(name, (dtype, shape, _))| spec(name, *dtype, shape))
            .collect();
        let mut writer = Writer::folder(folder.path(), &specs, &NO_TEXT, limit).unwrap();
        let data = |spec: &TensorSpec| -> Vec<u8> {
            let fill = tensors[&spec.name].2;
            (0..size(spec)).map(|at| fill.wrapping_add(at as u8)).collect()
        };
        for spec in specs.iter().rev() {
            for piece in data(spec).chunks(7) {
                writer.append(&spec.name, piece).unwrap();
            }
        }
        let files = writer.finish().unwrap();
        let reader = Reader::open(folder.path()).unwrap();
        prop_assert_eq!(reader.tensors().count(), specs.len());
        for spec in &specs {
            let info = reader.get(&spec.name).unwrap();
            prop_assert_eq!((info.dtype, &info.shape), (spec.dtype, &spec.shape));
            prop_assert_eq!(reader.read(&spec.name).unwrap(), data(spec));
        }
        for file in files.iter().filter(|file| file.extension().unwrap() == "safetensors") {
            prop_assert!(SafeTensors::deserialize(&fs::read(file).unwrap()).is_ok());
        }
    }

    #[test]
    fn any_fp8_weight_is_read_as_it_was_written(
        experts in prop::option::of(0_usize..3),
        (rows, columns) in (1_usize..140, 1_usize..140),
        granularity in granularities(),
        e5m2 in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let format = if e5m2 { Fp8Format::E5M2 } else { Fp8Format::E4M3 };
        let scheme = Fp8Scheme { format, granularity };
        let shape: Vec<usize> = experts.into_iter().chain([rows, columns]).collect();
        let mut codes = Vec::new();
        let mut scales = match granularity {
            Granularity::Mx => HostScales::E8M0(Vec::new()),
            _ => HostScales::F32(Vec::new()),
        };
        for expert in 0..experts.unwrap_or(1) {
            let values = noise(rows * columns, seed.wrapping_add(expert as u32));
            let quantized = quantize_host(&values, rows, columns, scheme).unwrap();
            codes.extend(quantized.codes);
            match (&mut scales, quantized.scales) {
                (HostScales::F32(all), HostScales::F32(more)) => all.extend(more),
                (HostScales::E8M0(all), HostScales::E8M0(more)) => all.extend(more),
                _ => panic!("scales of another kind"),
            }
        }
        let weight = Fp8Weight {
            name: "l.experts.weight".to_owned(), scheme, shape: shape.clone(), codes, scales, input_scale: None,
        };
        let specs = TensorSpec::of_fp8(&weight.name, &shape, scheme);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.safetensors");
        let text = match granularity {
            Granularity::Block { rows, columns } =>
                BTreeMap::from([("weight_block_size".to_owned(), format!("[{rows}, {columns}]"))]),
            _ => NO_TEXT,
        };
        let mut writer = Writer::file(&path, &specs, &text).unwrap();
        weight.check().unwrap();
        writer.append(&specs[0].name, &weight.codes).unwrap();
        writer.append(&specs[1].name, &weight.scales.to_bytes()).unwrap();
        writer.finish().unwrap();
        let reader = Reader::open(&path).unwrap();
        let layout = reader.fp8_layout(&weight.name, Unscaled::Refuse).unwrap();
        let read = reader.fp8_weight(&layout).unwrap();
        // An expert's scale \[1, 1\] can be of a row or of the tensor, with the same values.
        prop_assert_eq!(read.dequantize().unwrap(), weight.dequantize().unwrap());
        prop_assert_eq!((&read.codes, &read.scales), (&weight.codes, &weight.scales));
        if experts != Some(0) && !(rows == 1 || columns == 1) {
            prop_assert_eq!(read.scheme, scheme);
        }
    }
}
