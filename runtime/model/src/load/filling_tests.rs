use std::io;

use half::bf16;
use moebius_weights::{Dtype, ReadAt, Reader};
use serde_json::{Map, Value, json};

use super::*;
use crate::decoder::Slot;
use crate::families::Part;
use crate::load::placing::matrices_of;

/// Columns of every matrix. Rows of [`TASK`] are 4096 in f32.
const COLUMNS: usize = 64;

/// A checkpoint in memory with tensors of a dtype; each has other bytes.
fn checkpoint(dtype: Dtype, tensors: &[(&str, Vec<usize>)]) -> Reader {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (number, (name, shape)) in tensors.iter().enumerate() {
        let (begin, count) = (data.len(), shape.iter().product::<usize>());
        for at in 0..count {
            let value = ((at * 31 + number * 7) % 509) as f32 - 254.0;
            match dtype {
                Dtype::F32 => data.extend(value.to_le_bytes()),
                Dtype::BF16 => data.extend(bf16::from_f32(value).to_le_bytes()),
                _ => data.push((at * 31 + number * 7) as u8),
            }
        }
        let offsets = [begin, data.len()];
        let entry = json!({ "dtype": dtype, "shape": shape, "data_offsets": offsets });
        header.insert((*name).to_owned(), entry);
    }
    let header = Value::Object(header).to_string();
    let length = (header.len() as u64).to_le_bytes();
    let bytes = [&length[..], header.as_bytes(), &data].concat();
    Reader::from_bytes("test", bytes).unwrap()
}

/// A piece with heads of six rows, of which four make the key.
fn piece(name: &str, part: Part, form: Form, expert: Option<usize>) -> Piece {
    Piece {
        name: name.to_owned(),
        part,
        form,
        expert,
        head: 6,
        keys: 4,
        skipped: 0,
        fp8: None,
        blocks: None,
    }
}

/// Matrices that are filled, and the progress.
fn filled(rows: &Rows<'_>, reader: &Reader) -> (Vec<u8>, Vec<String>) {
    let (mut out, mut told) = (vec![0; rows.bytes()], Vec::new());
    let mut read = |name: &str| told.push(name.to_owned());
    let filling = rows.fill(Checkpoint::Safetensors(reader), &mut out, &mut read);
    filling.unwrap();
    (out, told)
}

/// Compares what is filled with matrices that are read as a whole, and placed one after the other.
fn assert_filled(slot: Slot, shape: &[usize], pieces: &[Piece], tensors: &[(&str, Vec<usize>)]) {
    let target = Target {
        shape: shape.to_vec(),
        pieces: pieces.to_vec(),
        changes: Vec::new(),
    };
    let at = Place { layer: 0, slot };
    let [stack, rows, columns] = slot.extents(shape);
    for (dtype, of) in [
        (Dtype::F32, 0..stack),
        (Dtype::BF16, 0..stack),
        (Dtype::BF16, stack - 1..stack),
    ] {
        let reader = checkpoint(dtype, tensors);
        let mut want = vec![0.0; of.len() * rows * columns];
        for piece in pieces {
            let taken = rows_in(piece, rows);
            for [number, to] in matrices_of(piece, &of) {
                let from = ((number * taken + piece.skipped) * columns) as u64;
                let until = from + (taken * columns) as u64;
                let values = reader.read_f32_part(&piece.name, from..until).unwrap();
                let out = &mut want[to * rows * columns..][..rows * columns];
                place(piece, &values, out, [rows, columns]);
            }
        }
        let all = Rows::new(at, &target, of.clone(), Kind::Floats);
        let (got, told) = filled(&all, &reader);
        let got = got.as_chunks::<4>().0.iter();
        let same = got
            .map(|four| f32::from_ne_bytes(*four))
            .eq(want.iter().copied());
        assert!(same, "{slot:?} {:?} of {of:?} in {dtype}", pieces[0].form);
        // All of it is less than what is reported at a time.
        let last = pieces
            .iter()
            .rfind(|piece| piece.expert.is_none_or(|e| of.contains(&e)));
        assert_eq!(told, [last.unwrap().name.as_str()]);
        if dtype == Dtype::BF16 {
            let halves = Rows::new(at, &target, of.clone(), Kind::Halves(DType::BF16));
            let want = want
                .iter()
                .flat_map(|value| bf16::from_f32(*value).to_le_bytes());
            assert!(
                filled(&halves, &reader).0.into_iter().eq(want),
                "{slot:?} of {of:?}"
            );
        }
    }
}

/// Rows of tensors go to the places that [`place`] gives them, whether threads divide a matrix or not.
#[test]
fn rows_are_where_matrices_have_them() {
    use Form::{Fused, Heads, Neighbours, Pairs, Plain, Transposed, TransposedHeads};
    use Part::{Gate, Keys, Up, Values, Whole};
    let rows = 9000;
    let names = ["g0", "u0", "g1", "u1"];
    let halves = names.map(|name| (name, vec![rows / 2, COLUMNS]));
    let apart = [(0, Gate), (1, Up), (2, Gate), (3, Up)];
    let apart = apart.map(|(at, part)| piece(names[at], part, Plain, Some(at / 2)));
    assert_filled(Slot::ExpertsIn, &[2, rows, COLUMNS], &apart, &halves);

    let stacked = [("w", vec![2, rows, COLUMNS])];
    for form in [Plain, Pairs, Transposed] {
        let whole = [piece("w", Whole, form, None)];
        assert_filled(Slot::ExpertsIn, &[2, rows, COLUMNS], &whole, &stacked);
    }
    let matrix = [("w", vec![rows, COLUMNS])];
    let neighbours = [piece("w", Whole, Neighbours, None)];
    assert_filled(Slot::Query, &[rows, COLUMNS], &neighbours, &matrix);
    let mut fused = piece("w", Whole, Fused, None);
    fused.skipped = 2000;
    assert_filled(Slot::Key, &[5000, COLUMNS], &[fused], &matrix);

    let heads = rows / 6;
    let parts = [
        ("k", vec![heads, COLUMNS, 4]),
        ("v", vec![heads, 2, COLUMNS]),
    ];
    let pieces = [
        piece("k", Keys, TransposedHeads, None),
        piece("v", Values, Heads, None),
    ];
    assert_filled(Slot::LatentUp, &[rows, COLUMNS], &pieces, &parts);
}

/// Rows of blocks that end inside a word are filled up with zeros there.
#[test]
fn rows_of_blocks_are_padded() {
    let (rows, columns, format) = (9000, 96, BlockFormat::Mxfp4);
    let reader = checkpoint(
        Dtype::U8,
        &[
            ("w_blocks", vec![2, rows, 3, 16]),
            ("w_scales", vec![2, rows, 3]),
        ],
    );
    for form in [Form::Mxfp4, Form::Mxfp4Pairs] {
        let one = piece("w_blocks", Part::Whole, form, None);
        let mut want = Vec::new();
        for number in 0..2 {
            let mut own = vec![0; rows * 51];
            let source = Checkpoint::Safetensors(&reader);
            read_mxfp4(source, &one.name, number * 3 * rows as u64, &mut own).unwrap();
            let mut placed = own.clone();
            place(&one, &own, &mut placed, [rows, 51]);
            want.extend(format.to_words(&placed, columns).unwrap());
        }
        let target = Target {
            shape: vec![2, rows, columns],
            pieces: vec![one],
            changes: Vec::new(),
        };
        let at = Place {
            layer: 0,
            slot: Slot::ExpertsIn,
        };
        let all = Rows::new(at, &target, 0..2, Kind::Blocks(format));
        assert_eq!(all.layout().unwrap().words_shape(), [2, rows, 13]);
        let (got, _) = filled(&all, &reader);
        let words = got.as_chunks::<4>().0.iter();
        assert!(
            words.map(|word| u32::from_ne_bytes(*word)).eq(want),
            "{form:?}"
        );
        let (mut want, mut interleaved) = (got.clone(), got);
        interleaved::interleave(want.as_chunks_mut().0, format, [rows, 13]);
        all.interleave(&mut interleaved);
        assert!(interleaved == want, "{form:?}");
    }
}

/// A file of zeros behind its header, which takes no memory.
#[derive(Debug)]
struct Zeros {
    header: Vec<u8>,
    size: u64,
}

impl ReadAt for Zeros {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        if at < self.header.len() as u64 {
            self.header.read_at(at, out)?;
        }
        Ok(())
    }
}

/// A progress is told for every 64 MiB of a large matrix.
#[test]
fn progress_is_told_inside_of_large_matrices() {
    let rows = 5 * BATCH / (4 * COLUMNS);
    let bytes = 2 * rows * COLUMNS;
    let entry = json!({ "dtype": "BF16", "shape": [rows, COLUMNS], "data_offsets": [0, bytes] });
    let text = json!({ "w": entry }).to_string();
    let length = (text.len() as u64).to_le_bytes();
    let header = [&length[..], text.as_bytes()].concat();
    let size = (header.len() + bytes) as u64;
    let source: Box<dyn ReadAt> = Box::new(Zeros { header, size });
    let reader = Reader::from_sources([("zeros".to_owned(), source)], None).unwrap();
    let target = Target {
        shape: vec![rows, COLUMNS],
        pieces: vec![piece("w", Part::Whole, Form::Plain, None)],
        changes: Vec::new(),
    };
    let at = Place {
        layer: 0,
        slot: Slot::Query,
    };
    let all = Rows::new(at, &target, 0..1, Kind::Halves(DType::BF16));
    let (mut out, mut told) = (vec![0; all.bytes()], Vec::new());
    let source = Checkpoint::Safetensors(&reader);
    let filling = all.fill(source, &mut out, &mut |_| told.push(reader.bytes_read()));
    filling.unwrap();
    assert_eq!((told.len(), told.last()), (3, Some(&(bytes as u64))));
    assert!(told[0] >= BATCH as u64 && told.is_sorted(), "{told:?}");
    assert!(told[0] < (BATCH + TASK) as u64, "{told:?}");
}
