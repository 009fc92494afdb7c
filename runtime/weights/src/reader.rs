//! Reader of a checkpoint: the tensors of one or several files, read one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use moebius_ops::blocks::BlockFormat;
use safetensors::Dtype;
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Unfit, WeightsError, data_length, quoted, read_error, tensor};
use crate::folder::parent;
use crate::header::Header;
use crate::located::{Index, file_of_folder, is_plain_name, missing, read_json};
use crate::packed::{self, PackedWeight, Part, ReadParts};
use crate::source::{BLOCK_SIZE, CONFIG_FILE, ReadAt, Source, TensorInfo};
use crate::widen::{FLOATS, float_size, widen};

/// An open checkpoint, of which only the headers have been read.
///
/// A tensor is read from the file on each request, so a reader holds no data. The files stay open: a file that is replaced meanwhile is
/// still read in its old version.
#[derive(Debug, Default)]
pub struct Reader {
    files: Vec<(Source, BTreeMap<String, String>)>,
    tensors: BTreeMap<String, TensorInfo>,
    /// Folder of the checkpoint, if the folder holds only this checkpoint.
    folder: Option<PathBuf>,
    config: Option<(PathBuf, Value)>,
    /// Weights stored in several tensors, by their names among `tensors`.
    packed: BTreeMap<String, PackedWeight>,
    /// The packed weight that was decoded last, as weights are read in pieces.
    decoded: Mutex<Option<(String, Arc<Vec<f32>>)>>,
    read: AtomicU64,
}

impl Reader {
    /// Opens a `.safetensors` file, an index (`.json`), or a folder with either.
    ///
    /// Weights that lie in several tensors, as those of GPTQ do, become one tensor of F32 each, under the name that they would have in floating
    /// point. In a folder `model.safetensors` comes first, then `model.safetensors.index.json`, then the only other `.safetensors` file. A
    /// `config.json` next to the weights is read for its block size. Tensors that an index leaves out are still found, as in programs that
    /// load whole files.
    ///
    /// # Errors
    /// [`WeightsError`] for anything that is missing, malformed or contradictory.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let about = path.metadata().map_err(read_error(path))?;
        let file = if about.is_dir() {
            file_of_folder(path)?
        } else {
            path.to_owned()
        };
        let is_index = file.extension().is_some_and(|ending| ending == "json");
        let place = parent(&file);
        let mut reader = if is_index {
            Self::open_index(&file, &place)?
        } else {
            let mut reader = Self::default();
            reader.add(Source::open(&file)?, |_| true)?;
            reader
        };
        if is_index || about.is_dir() {
            reader.folder = Some(place.clone());
        }
        let config = place.join(CONFIG_FILE);
        if config.is_file() {
            let value = read_json(&config)?;
            reader.config = Some((config, value));
        }
        reader.gather_packed()?;
        Ok(reader)
    }

    /// Opens a `.safetensors` file that is already in memory; errors call it `name`.
    ///
    /// # Errors
    /// [`WeightsError::Header`] for an invalid header.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, WeightsError> {
        Self::from_sources([(name.to_owned(), Box::new(bytes) as _)], None)
    }

    /// Opens the `.safetensors` files of a checkpoint from any sources of bytes, with an optional configuration; errors call the files by
    /// the given names. No index is needed: all tensors of all files are found.
    ///
    /// # Errors
    /// [`WeightsError::Header`] for an invalid header, [`WeightsError::Read`] when a source can't be read,
    /// [`WeightsError::DuplicateTensor`] for a tensor that is in two files.
    pub fn from_sources(
        files: impl IntoIterator<Item = (String, Box<dyn ReadAt>)>,
        config: Option<(&str, Value)>,
    ) -> Result<Self, WeightsError> {
        let mut reader = Self::default();
        for (name, bytes) in files {
            reader.add(Source::of(PathBuf::from(name), bytes)?, |_| true)?;
        }
        reader.config = config.map(|(name, value)| (PathBuf::from(name), value));
        reader.gather_packed()?;
        Ok(reader)
    }

    /// Replaces the tensors of each packed weight by one weight of F32.
    fn gather_packed(&mut self) -> Result<(), WeightsError> {
        let this: &Self = self;
        let (found, parts) = packed::find(&this.tensors, this.config(), this)?;
        for name in parts {
            self.tensors.remove(&name);
        }
        for (name, weight) in &found {
            let count: u64 = weight.shape.iter().map(|&extent| extent as u64).product();
            let info = TensorInfo {
                dtype: Dtype::F32,
                shape: weight.shape.clone(),
                file: weight.file,
                at: 0..4 * count,
            };
            self.tensors.insert(name.clone(), info);
        }
        self.packed = found;
        Ok(())
    }

    /// The decoded values of a packed weight; `None` for other tensors.
    pub(crate) fn unpacked(&self, name: &str) -> Result<Option<Arc<Vec<f32>>>, WeightsError> {
        let Some(weight) = self.packed.get(name) else {
            return Ok(None);
        };
        let mut last = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, values)) = &*last
            && known == name
        {
            return Ok(Some(values.clone()));
        }
        let mut values = self.room(name, self.info(name)?.bytes() / 4)?;
        weight.decode(self, &mut values)?;
        let values = Arc::new(values);
        *last = Some((name.to_owned(), values.clone()));
        Ok(Some(values))
    }

    /// Adds the tensors of a file for which `are_here` is true.
    fn add(
        &mut self,
        (source, header): (Source, Header),
        are_here: impl Fn(&str) -> bool,
    ) -> Result<(), WeightsError> {
        let file = self.files.len();
        for (name, info) in header.tensors {
            if !are_here(&name) {
                continue;
            }
            if self.tensors.contains_key(&name) {
                let second = format!("another in {}", source.path().display());
                let fault = Unfit::new(self.place_of(&name), "one tensor", second);
                return Err(WeightsError::DuplicateTensor(fault));
            }
            let (from, to) = info.data_offsets;
            let info = TensorInfo {
                dtype: info.dtype,
                shape: info.shape,
                file,
                at: from as u64..to as u64,
            };
            self.tensors.insert(name, info);
        }
        self.files.push((source, header.metadata));
        Ok(())
    }

    fn open_index(path: &Path, folder: &Path) -> Result<Self, WeightsError> {
        let index: Index = read_json(path)?;
        let mut map = index.weight_map.into_inner();
        for shard in map.values_mut() {
            // Some programs write `./` before the name of a file in the same folder.
            if let Some(plain) = shard.strip_prefix("./") {
                *shard = plain.to_owned();
            }
        }
        let wrong = |fault| WeightsError::Index {
            path: path.to_owned(),
            fault,
        };
        let mut reader = Self::default();
        let mut number = BTreeMap::new();
        // By name, which is the order in which the files were written.
        let shards: BTreeSet<_> = map.values().collect();
        if let Some(shard) = shards.iter().find(|shard| !is_plain_name(shard)) {
            let expected = "expected the name of a file beside it";
            return Err(wrong(format!("{expected}, got {}", quoted(shard))));
        }
        if let Some(fault) = missing(folder, shards.iter().copied()) {
            return Err(wrong(fault));
        }
        for shard in shards {
            let file = folder.join(shard);
            number.insert(shard, reader.files.len());
            // A tensor that several files hold is taken from the file that the index names.
            let are_here = |name: &str| map.get(name).is_none_or(|of| of == shard);
            reader.add(Source::open(&file)?, are_here)?;
        }
        for (tensor, shard) in &map {
            let info = reader.tensors.get(tensor);
            if info.is_none_or(|info| number.get(shard) != Some(&info.file)) {
                let (tensor, shard) = (quoted(tensor), quoted(shard));
                let expected = format!("expected tensor {tensor} in {shard}");
                return Err(wrong(format!("{expected}, which lacks it")));
            }
        }
        Ok(reader)
    }

    /// This checkpoint with other names of tensors: `new` returns each tensor's name.
    ///
    /// # Errors
    /// [`WeightsError::DuplicateTensor`] where two tensors would have the same name.
    pub fn renamed(mut self, new: impl Fn(&str) -> String) -> Result<Self, WeightsError> {
        let mut tensors = BTreeMap::new();
        for (name, info) in &self.tensors {
            let to = new(name);
            if tensors.insert(to.clone(), info.clone()).is_some() {
                let second = format!("another that would be {}", quoted(&to));
                let fault = Unfit::new(self.place_of(name), "one tensor of its name", second);
                return Err(WeightsError::DuplicateTensor(fault));
            }
        }
        self.tensors = tensors;
        let packed = self.packed.into_iter();
        self.packed = packed.map(|(name, of)| (new(&name), of)).collect();
        self.decoded = Mutex::default();
        Ok(self)
    }

    /// The tensors by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        self.tensors
            .iter()
            .map(|(name, info)| (name.as_str(), info))
    }

    /// The names of the tensors in the order of the files.
    pub fn names_in_order(&self) -> Vec<&str> {
        let mut all: Vec<_> = self.tensors().collect();
        all.sort_by_key(|(_, info)| (info.file, info.at.start, info.at.end));
        all.into_iter().map(|(name, _)| name).collect()
    }

    /// Header information of a tensor.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// The free-text metadata of the files; for equal keys, the value of the first file.
    pub fn metadata(&self) -> BTreeMap<&str, &str> {
        let all = self.files.iter().rev().flat_map(|(_, entries)| entries);
        all.map(|(key, text)| (key.as_str(), text.as_str()))
            .collect()
    }

    /// Whether some weights are codes that lie in several tensors, such as those of GPTQ.
    pub fn is_packed(&self) -> bool {
        !self.packed.is_empty()
    }

    /// The format of the blocks in which [`Self::read_blocks`] reads a weight that lies in several tensors: of four bits with scales in F16 or
    /// BF16, each for a multiple of 32 neighbouring columns (GPTQ without `desc_act`, AWQ, compressed-tensors), MXFP4, or NVFP4 with a multiple of 32
    /// columns. Groups of 32 with scales in F16 are Q4_0 where there are no zeros, or where the configuration says that all are in the middle of the
    /// codes, which the first call for a weight checks by reading them. `None` for other tensors.
    pub fn blocks(&self, name: &str) -> Option<BlockFormat> {
        self.packed.get(name)?.blocks(self)
    }

    /// The contents of the `config.json` next to the weights.
    pub fn config(&self) -> Option<&Value> {
        self.config.as_ref().map(|(_, value)| value)
    }

    /// The folder of the checkpoint, if it was opened as a folder.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Paths of the files of weights.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(source, _)| source.path())
    }

    /// Bytes of all files of weights together.
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|(source, _)| source.len()).sum()
    }

    /// Bytes of tensors read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Bytes of a tensor in the files: for a weight that lies in several tensors, those of all of them. Reading it counts as many
    /// ([`Self::bytes_read`]).
    pub fn stored_bytes(&self, name: &str) -> Option<u64> {
        let packed = self.packed.get(name).map(PackedWeight::stored_bytes);
        packed.or_else(|| Some(self.tensors.get(name)?.bytes()))
    }

    /// Counts bytes of a tensor as read, of `of` bytes of a weight that lies in several tensors the same share of those in the files.
    pub(crate) fn count(&self, name: &str, read: Range<u64>, of: u64) {
        let bytes = match self.packed.get(name) {
            Some(weight) => {
                let stored = u128::from(weight.stored_bytes());
                let until = |at: u64| (stored * u128::from(at) / u128::from(of.max(1))) as u64;
                until(read.end).saturating_sub(until(read.start))
            }
            None => read.end.saturating_sub(read.start),
        };
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether rows of a tensor are read alone, in blocks ([`Self::read_blocks`]) or as values. A weight in several tensors may be read as a
    /// whole for any of its rows.
    pub fn has_rows(&self, name: &str, in_blocks: bool) -> bool {
        let packed = self.packed.get(name);
        packed.is_none_or(|weight| in_blocks && weight.has_rows())
    }

    /// Reads the bytes of a tensor: little-endian elements, row-major.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`] for an unknown name, [`WeightsError::Read`] when the file can't be read,
    /// [`WeightsError::OutOfMemory`] when the memory can't be allocated.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, WeightsError> {
        let len = self.info(name)?.bytes();
        let mut bytes = self.room(name, len)?;
        bytes.resize(len as usize, 0);
        self.read_part(name, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills `out` with the bytes of a tensor, from byte `at` on.
    ///
    /// # Errors
    /// [`WeightsError::UnknownTensor`] for an unknown name, [`WeightsError::Read`] when the file can't be read,
    /// [`WeightsError::DataLength`] when the tensor ends before `out` is full.
    pub fn read_part(&self, name: &str, at: u64, out: &mut [u8]) -> Result<(), WeightsError> {
        let info = self.info(name)?;
        let end = at.saturating_add(out.len() as u64);
        if end > info.bytes() {
            return Err(data_length(name, info.bytes(), end));
        }
        if let Some(values) = self.unpacked(name)? {
            for (byte, at) in out.iter_mut().zip(at as usize..) {
                *byte = values[at / 4].to_le_bytes()[at % 4];
            }
        } else {
            self.files[info.file].0.read(info.at.start + at, out)?;
        }
        self.count(name, at..end, info.bytes());
        Ok(())
    }

    /// Fills `out` with the blocks of whole rows of a weight, from row `first` on, one row after the other without padding. Codes, scales and zeros
    /// are those of the file: the blocks decode to the bits that [`Self::read_f32`] gives, but MXFP4 and NVFP4 to 0 in place of −0. Rows of NVFP4
    /// begin with the scale of all.
    ///
    /// # Errors
    /// [`WeightsError::WrongTensor`] for a tensor that [`Self::blocks`] has no format of, for columns whose groups aren't those that the
    /// configuration declares, for damaged scales, and for those of NVFP4 that no blocks have (negative ones, and one of all outside of 2⁻⁹⁰ to 2⁹⁰);
    /// [`WeightsError::DataLength`] when the weight ends before `out` is full, and for a part of a row at the end of `out`; and the errors of
    /// [`Self::read`].
    pub fn read_blocks(
        &self,
        name: &str,
        first: usize,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        let info = self.info(name)?;
        let (Some(weight), Some(format)) = (self.packed.get(name), self.blocks(name)) else {
            let expected = "a weight whose codes can be in blocks";
            return Err(self.wrong(name, expected, info.dtype));
        };
        let (columns, outer) = info.shape.split_last().unwrap_or((&0, &[][..]));
        let row = format.row_bytes(*columns);
        let rows = out.len() / row;
        if !out.len().is_multiple_of(row) {
            return Err(data_length(name, (rows * row) as u64, out.len() as u64));
        }
        let (end, of_row) = (first.saturating_add(rows), 4 * *columns as u64);
        if end > outer.iter().product::<usize>() {
            let end = of_row.saturating_mul(end as u64);
            return Err(data_length(name, info.bytes(), end));
        }
        weight.read_blocks(first..end, self, out)?;
        let [begin, end] = [first, end].map(|row| of_row * row as u64);
        self.count(name, begin..end, info.bytes());
        Ok(())
    }

    /// Tells the file that bytes of a tensor, counted from the tensor's first, will be read soon, and returns at once. Those of a weight in several
    /// tensors are counted through all of them ([`Self::stored_bytes`]). A hint: names and bytes that there aren't are passed over.
    pub fn expect(&self, name: &str, bytes: Range<u64>) {
        let Some(info) = self.tensors.get(name) else {
            return;
        };
        let packed = self.packed.get(name);
        let parts = packed.map_or(slice::from_ref(info), |weight| &weight.parts[..]);
        let mut begin = 0;
        for part in parts {
            let end = begin + part.bytes();
            let (from, to) = (bytes.start.max(begin), bytes.end.min(end));
            if from < to {
                let at = part.at.start;
                let source = &self.files[part.file].0;
                source.expect(at + from - begin..at + to - begin);
            }
            begin = end;
        }
    }

    /// Allocates room for `count` elements of a tensor; failure to allocate is an error, not an abort.
    pub(crate) fn room<T>(&self, name: &str, count: u64) -> Result<Vec<T>, WeightsError> {
        let mut room = Vec::new();
        let len = usize::try_from(count).unwrap_or(usize::MAX);
        let reserved = room.try_reserve_exact(len);
        reserved.map_err(|refused| {
            let bytes = count.saturating_mul(size_of::<T>() as u64);
            let expected = format!("memory for {bytes} bytes");
            WeightsError::OutOfMemory(Unfit::new(self.place_of(name), expected, refused))
        })?;
        Ok(room)
    }

    pub(crate) fn info(&self, name: &str) -> Result<&TensorInfo, WeightsError> {
        let info = self.tensors.get(name);
        info.ok_or_else(|| WeightsError::UnknownTensor(quoted(name)))
    }

    /// The path of a tensor's file and the tensor's name, for an error.
    pub(crate) fn place_of(&self, name: &str) -> String {
        let tensor = tensor(name);
        match self.tensors.get(name) {
            Some(info) => format!("{}: {tensor}", self.files[info.file].0.path().display()),
            None => tensor,
        }
    }

    /// The error that a tensor doesn't fit its use.
    pub(crate) fn wrong(
        &self,
        name: &str,
        expected: impl ToString,
        got: impl ToString,
    ) -> WeightsError {
        WeightsError::WrongTensor(Unfit::new(self.place_of(name), expected, got))
    }

    /// Rows and columns of a block as declared by `config.json`, or else by the metadata of the tensor's file.
    pub(crate) fn declared_block(&self, name: &str) -> Result<Option<[usize; 2]>, WeightsError> {
        if let Some((path, config)) = &self.config {
            let quantization = &config["quantization_config"];
            let written = &quantization[BLOCK_SIZE];
            if !written.is_null() {
                return block_size(path, written).map(Some);
            }
            if let Some(written) = block_of_group(quantization) {
                return block_size(path, written).map(Some);
            }
        }
        let info = self.info(name)?;
        let (source, metadata) = &self.files[info.file];
        let Some(text) = metadata.get(BLOCK_SIZE) else {
            return Ok(None);
        };
        // Text that isn't JSON is passed on as a string, which is no block size either.
        let written = serde_json::from_str(text).unwrap_or(Value::String(text.clone()));
        block_size(source.path(), &written).map(Some)
    }
}

impl ReadParts for Reader {
    // Parts aren't counted as read: the weight is, once.
    fn some(&self, part: &Part, bytes: Range<u64>) -> Result<Vec<u8>, WeightsError> {
        let count = bytes.end.saturating_sub(bytes.start);
        let mut room = self.room(&part.name, count)?;
        room.resize(count as usize, 0);
        let (source, _) = &self.files[part.info.file];
        source.read(part.info.at.start + bytes.start, &mut room)?;
        Ok(room)
    }

    fn floats(&self, part: &Part) -> Result<Vec<f32>, WeightsError> {
        if float_size(part.info.dtype).is_none() {
            return Err(self.unfit(part, FLOATS, &part.info.dtype.to_string()));
        }
        let mut values = Vec::new();
        widen(part.info.dtype, &self.bytes(part)?, &mut values);
        Ok(values)
    }

    fn unfit(&self, part: &Part, expected: &str, got: &str) -> WeightsError {
        let (source, _) = &self.files[part.info.file];
        let place = format!("{}: {}", source.path().display(), tensor(&part.name));
        WeightsError::WrongTensor(Unfit::new(place, expected, got))
    }
}

/// The size of blocks that compressed-tensors declares for a group of layers.
fn block_of_group(quantization: &Value) -> Option<&Value> {
    let groups = quantization["config_groups"].as_object()?.values();
    let mut sizes = groups.map(|group| &group["weights"]["block_structure"]);
    sizes.find(|size| size.is_array())
}

fn block_size(path: &Path, written: &Value) -> Result<[usize; 2], WeightsError> {
    let size = <[usize; 2]>::deserialize(written).ok();
    let size = size.filter(|size| !size.contains(&0));
    size.ok_or_else(|| {
        let what = format!("{}: {BLOCK_SIZE}", path.display());
        let got = quoted(&written.to_string());
        WeightsError::BlockSize(Unfit::new(what, "two positive numbers", got))
    })
}
