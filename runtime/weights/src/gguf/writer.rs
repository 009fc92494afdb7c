//! Writer of GGUF files, piece by piece: version 3, with data at multiples of 32 bytes.
//!
//! All tensors are declared first, so the head and every offset are known before the data; the data may then come in any order. The file
//! has a temporary name (`NAME.part`) until its last byte is written, and an incomplete one is removed.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::element::{GgmlType, decode};
use super::encode::encode;
use super::file::GgufFile;
use super::head::{ALIGNMENT, elements};
use super::value::{GgufValue, push_text};
use crate::error::{WeightsError, data_length, quoted, read_error, write_error};
use crate::folder::{Part, parent, sync_folder};
use crate::source::ReadAt;

const VERSION: u32 = 3;

/// Values that are encoded at a time: whole blocks of every type, and enough for many threads.
const PIECE: usize = 1 << 20;

/// Declaration of a tensor to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufSpec {
    /// Name of the tensor.
    pub name: String,
    /// Type of the stored values.
    pub kind: GgmlType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
}

impl GgufSpec {
    fn bytes(&self) -> Result<u64, WeightsError> {
        let bytes = elements(&self.shape).and_then(|values| self.kind.size(values));
        bytes.ok_or_else(|| WeightsError::Declared {
            tensor: quoted(&self.name),
            reason: "its size overflows, or is no whole number of blocks",
        })
    }
}

/// A tensor that was written, and how far its values are from the originals.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufWritten {
    /// What was declared.
    pub spec: GgufSpec,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Relative error ‖decoded − original‖₂ / ‖original‖₂; 0 where zeros stay zeros.
    pub relative_rms: f64,
}

/// Writer of one file.
#[derive(Debug)]
pub struct GgufWriter {
    path: PathBuf,
    part: Part,
    /// The tensors in the order of their declaration.
    tensors: Vec<Place>,
    /// The index of each tensor, by name.
    places: HashMap<String, usize>,
}

#[derive(Debug)]
struct Place {
    spec: GgufSpec,
    /// Offset of the tensor in the file.
    begin: u64,
    bytes: u64,
    written: u64,
    /// Sums of the squares of the differences, and of the originals.
    squares: [f64; 2],
}

/// The head of a file that isn't written, and the size that it would have; the data is zeros.
#[derive(Debug)]
struct Declared {
    head: Vec<u8>,
    size: u64,
}

impl ReadAt for Declared {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        if at.saturating_add(out.len() as u64) > self.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.fill(0);
        let from = usize::try_from(at).ok();
        let head = from.and_then(|from| self.head.get(from..));
        for (out, byte) in out.iter_mut().zip(head.unwrap_or_default()) {
            *out = *byte;
        }
        Ok(())
    }
}

impl Declared {
    /// Makes the head, and places for the data of each tensor one after the other.
    fn new(
        metadata: &[(String, GgufValue)],
        tensors: &[GgufSpec],
    ) -> Result<(Self, Vec<Place>), WeightsError> {
        let mut head = b"GGUF".to_vec();
        head.extend(VERSION.to_le_bytes());
        for count in [tensors.len(), metadata.len()] {
            head.extend((count as u64).to_le_bytes());
        }
        for (key, value) in metadata {
            push_text(key, &mut head);
            value.push(&mut head);
        }
        let (mut places, mut offset) = (Vec::new(), 0_u64);
        for spec in tensors {
            let bytes = spec.bytes()?;
            push_text(&spec.name, &mut head);
            head.extend((spec.shape.len() as u32).to_le_bytes());
            for extent in spec.shape.iter().rev() {
                head.extend((*extent as u64).to_le_bytes());
            }
            head.extend(spec.kind.number().to_le_bytes());
            head.extend(offset.to_le_bytes());
            places.push(Place {
                spec: spec.clone(),
                begin: offset,
                bytes,
                written: 0,
                squares: [0.0; 2],
            });
            let next = offset.checked_add(bytes);
            let next = next.and_then(|next| next.checked_next_multiple_of(ALIGNMENT));
            offset = next.ok_or_else(|| WeightsError::Declared {
                tensor: quoted(&spec.name),
                reason: "the file's size overflows",
            })?;
        }
        head.resize(head.len().next_multiple_of(ALIGNMENT as usize), 0);
        for place in &mut places {
            place.begin += head.len() as u64;
        }
        let size = (head.len() as u64).saturating_add(offset);
        Ok((Self { head, size }, places))
    }

    /// The file as a reader finds it.
    fn read(&self, path: &Path) -> Result<GgufFile, WeightsError> {
        let copy = Self {
            head: self.head.clone(),
            size: self.size,
        };
        GgufFile::from_source(&path.display().to_string(), Box::new(copy))
    }
}

impl GgufWriter {
    /// The file of these declarations as a reader finds it, before any value is written: all values are zeros. Errors call it `name`.
    ///
    /// # Errors
    /// [`WeightsError::Declared`] for a size that overflows, [`WeightsError::Gguf`] for what a reader refuses: names that are too long or
    /// occur twice, and rows that are no whole blocks.
    pub fn declared(
        name: &str,
        metadata: &[(String, GgufValue)],
        tensors: &[GgufSpec],
    ) -> Result<GgufFile, WeightsError> {
        Declared::new(metadata, tensors)?.0.read(Path::new(name))
    }

    /// Begins the file `path`, which must not exist. An integer of the metadata has 32 bits where it fits, as readers expect it of most
    /// keys.
    ///
    /// # Errors
    /// As [`Self::declared`]; [`WeightsError::FileExists`] when there is such a file, [`WeightsError::Busy`] when the temporary file exists
    /// already, [`WeightsError::Write`] when it can't be written.
    pub fn begin(
        path: &Path,
        metadata: &[(String, GgufValue)],
        tensors: &[GgufSpec],
    ) -> Result<Self, WeightsError> {
        if path.try_exists().map_err(read_error(path))? {
            return Err(WeightsError::FileExists(path.to_owned()));
        }
        let (declared, places) = Declared::new(metadata, tensors)?;
        declared.read(path)?;
        let above = parent(path);
        fs::create_dir_all(&above).map_err(write_error(&above))?;
        let mut part = Part::create(path)?;
        // What is between the tensors stays zeros.
        let wrote = part.file.write_all(&declared.head);
        let wrote = wrote.and_then(|()| part.file.set_len(declared.size));
        wrote.map_err(write_error(&part.path))?;
        let names = places.iter().enumerate();
        Ok(Self {
            path: path.to_owned(),
            part,
            places: names
                .map(|(at, place)| (place.spec.name.clone(), at))
                .collect(),
            tensors: places,
        })
    }

    /// Encodes and appends values of a tensor, whole blocks of it.
    ///
    /// # Errors
    /// Those of [`encode`]; [`WeightsError::UnknownTensor`] for a tensor that wasn't declared, [`WeightsError::DataLength`] for more values
    /// than were declared, [`WeightsError::Write`] when the file can't be written.
    pub fn append(&mut self, name: &str, values: &[f32]) -> Result<(), WeightsError> {
        let Some(&at) = self.places.get(name) else {
            return Err(WeightsError::UnknownTensor(quoted(name)));
        };
        let place = &self.tensors[at];
        // A part of a block is told by the encoder.
        let bytes = place.spec.kind.size(values.len() as u64).unwrap_or(0);
        let got = place.written.saturating_add(bytes);
        if got > place.bytes {
            return Err(data_length(name, place.bytes, got));
        }
        for values in values.chunks(PIECE) {
            self.append_piece(at, values)?;
        }
        Ok(())
    }

    fn append_piece(&mut self, at: usize, values: &[f32]) -> Result<(), WeightsError> {
        let place = &mut self.tensors[at];
        let bytes = encode(&place.spec.name, place.spec.kind, values)?;
        let file = &mut self.part.file;
        let sought = file.seek(SeekFrom::Start(place.begin + place.written));
        let wrote = sought.and_then(|_| file.write_all(&bytes));
        wrote.map_err(write_error(&self.part.path))?;
        place.written += bytes.len() as u64;
        let mut decoded = vec![0.0; values.len()];
        decode(place.spec.kind, &bytes, &mut decoded);
        for (&value, &decoded) in values.iter().zip(&decoded) {
            let (value, decoded) = (f64::from(value), f64::from(decoded));
            place.squares[0] += (decoded - value) * (decoded - value);
            place.squares[1] += value * value;
        }
        Ok(())
    }

    /// Completes the file, and returns what was written.
    ///
    /// # Errors
    /// [`WeightsError::DataLength`] for a tensor whose values aren't complete, [`WeightsError::Write`] when the file can't be written.
    pub fn finish(self) -> Result<Vec<GgufWritten>, WeightsError> {
        for place in &self.tensors {
            if place.written != place.bytes {
                return Err(data_length(&place.spec.name, place.bytes, place.written));
            }
        }
        self.part.finish(&self.path)?;
        let folder = parent(&self.path);
        sync_folder(&folder).map_err(write_error(&folder))?;
        let written = self.tensors.into_iter().map(|place| GgufWritten {
            bytes: place.bytes,
            relative_rms: if place.squares[0] == 0.0 {
                0.0
            } else {
                (place.squares[0] / place.squares[1]).sqrt()
            },
            spec: place.spec,
        });
        Ok(written.collect())
    }
}
