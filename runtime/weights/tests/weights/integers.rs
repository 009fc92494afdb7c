//! Integer weights in the layouts of GPTQ, AWQ and compressed-tensors (`tests/cases/make_integers.py`), and the blocks that are made of them.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use half::{bf16, f16};
use moebius_ops::blocks::BlockFormat;
use moebius_weights::{Dtype, ReadAt, Reader};
use serde_json::{Value, json};

use crate::files::{Tensor, f32s, file, noise, uniform};

fn cases(name: &str) -> Reader {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/integers");
    Reader::open(&folder.join(name)).unwrap()
}

#[test]
fn words_of_integers_are_weights() {
    let (stored, expected) = (cases("model.safetensors"), cases("expected.safetensors"));
    let names = |reader: &Reader| -> Vec<String> {
        reader.tensors().map(|(name, _)| name.to_owned()).collect()
    };
    assert_eq!(
        names(&stored),
        names(&expected),
        "no part is a tensor by itself"
    );
    for name in names(&expected) {
        let info = stored.get(&name).unwrap();
        assert_eq!(
            (info.dtype, &info.shape[..]),
            (Dtype::F32, &[16, 64][..]),
            "{name}"
        );
        let want = expected.read_f32(&name).unwrap();
        assert_eq!(stored.read_f32(&name).unwrap(), want, "{name}");
        assert_eq!(
            stored.read_f32_part(&name, 70..130).unwrap(),
            want[70..130],
            "{name}"
        );
        let bytes: Vec<u8> = want.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(stored.read(&name).unwrap(), bytes, "{name}");
    }
    let error = stored.read_f32_part("awq.weight", 1000..1025).unwrap_err();
    assert!(error.to_string().contains("4096"), "{error}");
}

/// Words of any bits.
fn words(name: &'static str, shape: [usize; 2], seed: u32) -> Tensor {
    let bytes = uniform(seed).map(|value| (256.0 * value) as u8);
    let bytes = bytes.take(4 * shape[0] * shape[1]).collect();
    (name, Dtype::I32, shape.to_vec(), bytes)
}

/// Scales of 16 bits: of both signs, 0, the largest and the smallest.
fn scales(name: &'static str, dtype: Dtype, shape: [usize; 2]) -> Tensor {
    let mut values = noise(shape[0] * shape[1], 9);
    values[..4].copy_from_slice(&[0.0, 65504.0, 2.0_f32.powi(-24), -1.5]);
    let bytes = values.into_iter().flat_map(|value| match dtype {
        Dtype::BF16 => bf16::from_f32(value).to_le_bytes(),
        _ => f16::from_f32(value).to_le_bytes(),
    });
    (name, dtype, shape.to_vec(), bytes.collect())
}

/// The numbers of the groups of columns.
fn numbers(group_of: impl Iterator<Item = usize>) -> Tensor {
    let numbers: Vec<u32> = group_of.map(|group| group as u32).collect();
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    ("x.g_idx", Dtype::I32, vec![numbers.len()], bytes.collect())
}

/// GPTQ's weight [n, k] of any codes and zeros.
fn gptq([n, k]: [usize; 2], width: usize, dtype: Dtype) -> Vec<Tensor> {
    let groups = k.div_ceil(width);
    vec![
        words("x.qweight", [k / 8, n], 1),
        words("x.qzeros", [groups, n / 8], 2),
        scales("x.scales", dtype, [groups, n]),
        numbers((0..k).map(|column| column / width)),
    ]
}

/// The same of AWQ, and of compressed-tensors with zeros and without.
fn others([n, k]: [usize; 2], width: usize, dtype: Dtype) -> [Vec<Tensor>; 3] {
    let groups = k.div_ceil(width);
    let packed = [
        words("x.weight_packed", [n, k / 8], 5),
        scales("x.weight_scale", dtype, [n, groups]),
    ];
    let zeros = words("x.weight_zero_point", [n / 8, groups], 6);
    let awq = [
        words("x.qweight", [k, n / 8], 3),
        words("x.qzeros", [groups, n / 8], 4),
        scales("x.scales", dtype, [groups, n]),
    ];
    let with_zeros = [&packed[..], &[zeros]].concat();
    [awq.to_vec(), packed.to_vec(), with_zeros]
}

fn config(width: usize, desc_act: bool) -> Value {
    json!({"quantization_config": {"bits": 4, "group_size": width, "desc_act": desc_act}})
}

fn reader(tensors: &[Tensor], config: Value) -> Reader {
    let source = ("test".to_owned(), Box::new(file(tensors)) as _);
    Reader::from_sources([source], Some(("config.json", config))).unwrap()
}

/// Checks that rows of blocks decode to the bits of the weight.
fn assert_rows(reader: &Reader, format: BlockFormat, rows: Range<usize>) {
    let [n, k] = reader.get("x.weight").unwrap().shape[..] else {
        panic!("a matrix");
    };
    let mut bytes = vec![0; rows.len() * format.row_bytes(k)];
    let before = reader.bytes_read();
    reader
        .read_blocks("x.weight", rows.start, &mut bytes)
        .unwrap();
    let stored = reader.stored_bytes("x.weight").unwrap();
    let [begin, end] = [rows.start, rows.end].map(|row| stored * row as u64 / n as u64);
    assert_eq!(reader.bytes_read() - before, end - begin);
    let got = format.decoded(&format.to_words(&bytes, k).unwrap(), k);
    let want = reader.read_f32("x.weight").unwrap();
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let want = bits(&want[rows.start * k..rows.end * k]);
    assert!(bits(&got) == want, "{format}: rows {rows:?}");
}

/// The blocks of any codes, zeros and scales have the bits of the decoded weight, in every layout, and a group is one block or several.
#[test]
fn blocks_of_integers_have_the_bits_of_their_values() {
    use BlockFormat::{Int4_32, Int4_64, Int4_128, Q4_0};
    for (k, width, with_zeros) in [
        (256, 32, Int4_32),
        (192, 64, Int4_64),
        (256, 128, Int4_128),
        // One scale for each row; a last group with fewer columns; and groups of three blocks.
        (256, 256, Int4_128),
        (288, 128, Int4_32),
        (192, 96, Int4_32),
    ] {
        for dtype in [Dtype::F16, Dtype::BF16] {
            let mut layers = others([24, k], width, dtype).to_vec();
            layers.push(gptq([24, k], width, dtype));
            for tensors in layers {
                let reader = reader(&tensors, config(width, false));
                let name = tensors[0].0;
                // Codes and scales alone, and these as wide as those of Q4_0.
                let without = tensors.len() == 2 && dtype == Dtype::F16;
                let format = match with_zeros {
                    Int4_32 if without => Q4_0,
                    format => format,
                };
                assert_eq!(
                    reader.blocks("x.weight"),
                    Some(format),
                    "{name} {k} {width}"
                );
                assert_rows(&reader, format, 0..24);
                assert_rows(&reader, format, 3..11);
            }
        }
    }
}

/// A block of 128 values has three bytes for a scale of two and a zero of a half.
#[test]
fn blocks_take_about_the_bytes_of_the_file() {
    for (width, most) in [(128, 1.01), (64, 1.02), (32, 1.03)] {
        let tensors = gptq([64, 1024], width, Dtype::F16);
        let stored: usize = tensors[..3].iter().map(|tensor| tensor.3.len()).sum();
        let reader = reader(&tensors, config(width, false));
        let format = reader.blocks("x.weight").unwrap();
        let share = (64 * 4 * format.row_words(1024)) as f64 / stored as f64;
        assert!(1.0 < share && share < most, "{format}: {share}");
    }
}

/// Groups of 32 columns without zeros, or with zeros that are told to be in the middle of the codes and are there, are blocks of Q4_0, which take no
/// byte more than the file. Other zeros than those told of stay.
#[test]
fn blocks_without_zeros_take_the_bytes_of_the_file() {
    let (q4_0, shape) = (BlockFormat::Q4_0, [24, 96]);
    let [_, packed, _] = others(shape, 32, Dtype::F16);
    let of_packed = reader(&packed, config(32, false));
    assert_eq!(of_packed.blocks("x.weight"), Some(q4_0));
    assert_rows(&of_packed, q4_0, 0..24);
    let stored = of_packed.stored_bytes("x.weight").unwrap();
    assert_eq!((24 * q4_0.row_bytes(96)) as u64, stored);

    let mut told = config(32, false);
    told["quantization_config"]["sym"] = json!(true);
    let mut tensors = gptq(shape, 32, Dtype::F16);
    let with_zeros = BlockFormat::Int4_32;
    let any = reader(&tensors, told.clone());
    assert_eq!(any.blocks("x.weight"), Some(with_zeros));
    assert_rows(&any, with_zeros, 0..24);
    // Stored zeros are smaller by 1.
    tensors[1].3.fill(0x77);
    let in_middle = reader(&tensors, told.clone());
    assert_eq!(in_middle.blocks("x.weight"), Some(q4_0));
    assert_rows(&in_middle, q4_0, 5..24);
    // One zero of all is 9.
    tensors[1].3[17] = 0x87;
    let but_one = reader(&tensors, told);
    assert_eq!(but_one.blocks("x.weight"), Some(with_zeros));
    assert_rows(&but_one, with_zeros, 0..24);
}

/// A source of bytes that notes what it is told of.
#[derive(Debug)]
struct Told(Vec<u8>, Arc<Mutex<Vec<Range<u64>>>>);

impl ReadAt for Told {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(at, out)
    }

    fn expect(&self, bytes: Range<u64>) {
        self.1.lock().unwrap().push(bytes);
    }
}

/// A weight in several tensors counts by their bytes, of which the file is told, too.
#[test]
fn a_weight_in_parts_counts_as_its_bytes_in_the_file() {
    let tensors = gptq([8, 64], 32, Dtype::F16);
    let lengths: Vec<u64> = tensors.iter().map(|tensor| tensor.3.len() as u64).collect();
    let (stored, bytes, told) = (lengths.iter().sum::<u64>(), file(&tensors), Arc::default());
    let data = bytes.len() as u64 - stored;
    let source: Box<dyn ReadAt> = Box::new(Told(bytes, Arc::clone(&told)));
    let config = Some(("config.json", config(32, false)));
    let reader = Reader::from_sources([("test".to_owned(), source)], config).unwrap();
    assert_eq!(reader.stored_bytes("x.weight"), Some(stored));
    assert_eq!(reader.stored_bytes("y.weight"), None);
    // The last byte of the codes and the first of the zeros behind them.
    reader.expect("x.weight", lengths[0] - 1..lengths[0] + 1);
    let between = data + lengths[0];
    assert_eq!(
        *told.lock().unwrap(),
        [between - 1..between, between..between + 1]
    );
    for rows in [0..3, 3..8] {
        let count = (64 * rows.len()) as u64;
        let from = (64 * rows.start) as u64;
        let values = reader
            .read_f32_part("x.weight", from..from + count)
            .unwrap();
        let mut bytes = vec![0; 4 * values.len()];
        reader.read_f32_to("x.weight", from, &mut bytes).unwrap();
        let again = bytes.as_chunks::<4>().0.iter();
        assert!(again.map(|four| f32::from_ne_bytes(*four)).eq(values));
    }
    assert_eq!(reader.bytes_read(), 2 * stored);
}

#[test]
fn integers_that_are_no_blocks_are_known_by_their_headers() {
    let plain = || gptq([8, 64], 32, Dtype::F16);
    let none = |tensors: &[Tensor], config: Value, what: &str| {
        let reader = reader(tensors, config);
        assert_eq!(reader.blocks("x.weight"), None, "{what}");
        let error = reader.read_blocks("x.weight", 0, &mut []).unwrap_err();
        assert!(error.to_string().contains("can be in blocks"), "{error}");
        assert_eq!(reader.read_f32("x.weight").unwrap().len(), 512, "{what}");
    };
    none(&plain(), config(32, true), "groups in another order");
    let untold = json!({"quantization_config": {"bits": 4, "group_size": 32}});
    none(&plain(), untold, "groups in an order that isn't told");
    none(
        &gptq([8, 64], 16, Dtype::F16),
        config(16, false),
        "groups of 16",
    );
    let mut wide = plain();
    wide[2] = f32s("x.scales", &[2, 8], &[0.1; 16]);
    none(&wide, config(32, false), "scales of 32 bits");
    let eight = json!({"quantization_config": {"bits": 8, "group_size": 32, "desc_act": false}});
    let [codes, zeros] = [[16, 8], [2, 2]];
    let eights = [
        words("x.qweight", codes, 1),
        words("x.qzeros", zeros, 2),
        scales("x.scales", Dtype::F16, [2, 8]),
    ];
    none(&eights, eight, "codes of eight bits");
    let floats = reader(&[f32s("x.weight", &[2, 32], &[1.0; 64])], Value::Null);
    assert!(floats.read_blocks("x.weight", 0, &mut []).is_err());
}

/// What a configuration says of the order of groups is held against the groups.
#[test]
fn blocks_that_the_file_does_not_have_are_errors() {
    let mut tensors = gptq([8, 64], 32, Dtype::F16);
    let of_plain = reader(&tensors, config(32, false));
    let row = BlockFormat::Int4_32.row_bytes(64);
    let past = of_plain.read_blocks("x.weight", 7, &mut vec![0; 2 * row]);
    let error = past.unwrap_err().to_string();
    assert!(error.contains("2048") && error.contains("2304"), "{error}");
    let longer = of_plain.read_blocks("x.weight", 0, &mut vec![0; 2 * row + 1]);
    let error = longer.unwrap_err().to_string();
    assert!(error.contains("expected 76 bytes, got 77"), "{error}");
    tensors[3] = numbers((0..64).map(|column| usize::from(column % 32 == 31)));
    let shuffled = reader(&tensors, config(32, false));
    let read = shuffled.read_blocks("x.weight", 0, &mut vec![0; row]);
    let error = read.unwrap_err().to_string();
    let parts = ["x.g_idx", "groups of 32", "group 1 of column 31"];
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}
