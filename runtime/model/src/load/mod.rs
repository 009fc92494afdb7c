//! Loads published models: `config.json` and safetensors, or a GGUF file, become a [`Model`].
//!
//! [`ModelFiles::open`] reads only headers, maps each tensor to its place in the model, and reports everything that doesn't fit.
//! [`ModelFiles::load`] reads the weights, each byte once, and [`ModelFiles::begin`] does so in pieces.
//!
//! ```no_run
//! use moebius_model::load::{LoadOptions, ModelFiles};
//!
//! # fn main() -> Result<(), moebius_model::Error> {
//! let device = moebius::open(&moebius::Device::Auto)?;
//! let files = ModelFiles::open("OLMoE-1B-7B".as_ref())?;
//! let model = files.load(&device, LoadOptions::default(), &mut |progress| {
//!     println!("{} of {} bytes", progress.read, progress.bytes);
//! })?;
//! # Ok(())
//! # }
//! ```

mod adapting;
mod cache_scales;
mod checkpoint;
mod course;
mod experts;
mod filling;
mod host;
mod kept;
mod mapping;
mod names;
mod narrow;
mod options;
pub(crate) mod placing;
mod size;
mod stream;

pub(crate) use adapting::LinearModule;
pub use mapping::Plan;
pub(crate) use mapping::{Wanted, expand};
pub use options::{BaseWeights, ExpertsFrom, InBlocks, LoadOptions};
pub(crate) use placing::{is_whole, taken};

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use moebius_weights::folder::{is_gguf, model_at};
use moebius_weights::gguf::GgufFile;
use moebius_weights::{Reader, Unfit, quoted};
use serde_json::Value;

use crate::decoder::{Building, CacheMemory, Model, ModelSpec, Place, Values};
use crate::error::{Error, Misfits};
use crate::families::{self, Described};
use cache_scales::cache_scales;
use checkpoint::{Checkpoint, describe_gguf_file};
use course::Course;
use mapping::{has_own_head, names_of_a_tied_head};
use names::with_plain_names;
use size::Sizes;
use stream::WeightStream;

/// Quantisation methods whose weights are read, by their names in configurations.
const METHODS: [&str; 9] = [
    "fp8",
    "compressed-tensors",
    "modelopt",
    "gptq",
    "awq",
    "auto-round",
    "bitsandbytes",
    "mxfp4",
    "moebius-fp8",
];

/// Quantisation methods that round weights and inputs whenever the model runs.
const ROUNDED_ANEW: [&str; 2] = ["bitnet", "fp_quant"];

/// Files of a published model, of which the headers have been read and found to fit.
#[derive(Debug)]
pub struct ModelFiles {
    /// Shared with models whose experts stay in the files.
    files: Arc<Files>,
    family: &'static str,
    spec: ModelSpec,
    plan: Arc<Plan>,
}

/// Kind of a model's files.
#[derive(Debug)]
enum Files {
    Safetensors(Reader),
    Gguf(GgufFile),
}

impl Files {
    fn checkpoint(&self) -> Checkpoint<'_> {
        match self {
            Self::Safetensors(reader) => Checkpoint::Safetensors(reader),
            Self::Gguf(file) => Checkpoint::Gguf(file),
        }
    }
}

/// Progress of a loading.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Name of the tensor that was read last.
    pub tensor: &'a str,
    /// Bytes read so far.
    pub read: u64,
    /// Bytes to read in all, without those of experts that stay in the files.
    pub bytes: u64,
}

impl ModelFiles {
    /// Opens a GGUF file, or a folder with `config.json` and weights that [`Reader::open`] takes; [`model_at`] finds one of the two at
    /// `path`.
    ///
    /// # Errors
    /// [`Error::Weights`] when files can't be read, and [`Error::Misfits`] with everything that doesn't fit.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::at(&model_at(path)?)
    }

    /// Opens what [`model_at`] has found: a GGUF file, or a folder with `config.json` and weights.
    ///
    /// # Errors
    /// As [`ModelFiles::open`].
    pub fn at(place: &Path) -> Result<Self, Error> {
        let opened = if is_gguf(place) {
            Self::of_gguf(GgufFile::open(place)?)
        } else {
            Self::of(Reader::open(place)?)
        };
        opened.map_err(|error| match error {
            Error::Misfits(misfits) => misfits.at(place).into(),
            other => other,
        })
    }

    /// Makes model files from an open safetensors checkpoint.
    ///
    /// # Errors
    /// As [`ModelFiles::open`].
    pub fn of(reader: Reader) -> Result<Self, Error> {
        let mut reader = with_plain_names(reader)?;
        let config = reader.config().ok_or_else(|| without_config(&reader))?;
        let mut described = families::describe(config).map_err(Misfits::of_config)?;
        if let Some(fault) = rounded_anew(&config["quantization_config"]) {
            return Err(Misfits::of_config(vec![fault]).into());
        }
        let unread = unread_method(&config["quantization_config"]);
        if let (Some(unread), true) = (&unread, reader.is_packed()) {
            // Such codes may mean other values than those of the methods that are read.
            return Err(Misfits::of_config(vec![unread.clone()]).into());
        }
        let family = described.family;
        if described.spec.tied {
            let checkpoint = Checkpoint::Safetensors(&reader);
            described.spec.tied = !has_own_head(checkpoint, family)?;
            if let Some([head, embedding]) = names_of_a_tied_head(checkpoint, family) {
                let new = |name: &str| {
                    let new = if name == head { embedding } else { name };
                    new.to_owned()
                };
                reader = reader.renamed(new)?;
            }
        }
        let scales = cache_scales(&reader, &described.spec, &mut described.unsupported)?;
        described.spec.cache_scales = scales;
        match (
            Self::described(Files::Safetensors(reader), described),
            unread,
        ) {
            (Err(Error::Misfits(mut misfits)), Some(unread)) => {
                misfits.faults.insert(0, unread);
                Err(misfits.into())
            }
            (files, _) => files,
        }
    }

    /// Makes model files from an open GGUF file.
    ///
    /// # Errors
    /// As [`ModelFiles::open`].
    pub fn of_gguf(file: GgufFile) -> Result<Self, Error> {
        let described = describe_gguf_file(&file)?;
        Self::described(Files::Gguf(file), described)
    }

    fn described(files: Files, described: Described) -> Result<Self, Error> {
        let (family, spec) = (described.family.name, described.spec.clone());
        let plan = Plan::of(files.checkpoint(), described)?;
        Ok(Self {
            files: Arc::new(files),
            family,
            spec,
            plan: Arc::new(plan),
        })
    }

    /// Description of the model.
    pub fn spec(&self) -> &ModelSpec {
        &self.spec
    }

    /// The `model_type` of the configuration; for a GGUF file, that of the configuration that its metadata stands for.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// The reader of a safetensors checkpoint; `None` for a GGUF file.
    pub fn reader(&self) -> Option<&Reader> {
        match &*self.files {
            Files::Safetensors(reader) => Some(reader),
            Files::Gguf(_) => None,
        }
    }

    /// The configuration of a safetensors checkpoint; that of the text model, where the checkpoint holds other models, too. It ties the head
    /// to the embedding only if the checkpoint stores no other head.
    pub fn config(&self) -> Option<Value> {
        let config = self.reader()?.config()?;
        let mut config = families::text_config(config).ok()?.into_owned();
        // A family's default may be to tie the two.
        if !self.spec.tied && config["tie_word_embeddings"] != false {
            config["tie_word_embeddings"] = Value::from(false);
        }
        Some(config)
    }

    /// The GGUF file, which also holds a tokenizer's parts and a chat template; `None` for a safetensors checkpoint.
    pub fn gguf(&self) -> Option<&GgufFile> {
        match &*self.files {
            Files::Safetensors(_) => None,
            Files::Gguf(file) => Some(file),
        }
    }

    /// The values of places on the host, one place at a time; FP8 and 4-bit codes are decoded.
    pub fn values(&self) -> FileValues<'_> {
        FileValues(self)
    }

    /// Matrix `number` of those that are stacked in a place, in the place's order on the host; FP8 and 4-bit codes are decoded.
    pub(crate) fn matrix(&self, place: Place, number: usize) -> Result<Vec<f32>, Error> {
        if !self.plan.targets.contains_key(&place) {
            return Err(place.absent());
        }
        let (reader, of) = (self.files.checkpoint(), number..number + 1);
        host::values_in(reader, &self.plan, place, of, &mut |_| ())
    }

    /// Bytes of all tensors of the model, and those of tensors that have been read so far.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        [self.plan.bytes, self.files.checkpoint().bytes_read()]
    }

    /// Checks that a device has memory for the weights, loaded by `options`, and beside them for `cache` with its step and margin, that it has
    /// the type that is computed in, and that it can divide the experts if it is several devices. Reads no weights. Before memory is refused, the
    /// device's pools give back what they keep without use.
    ///
    /// # Errors
    /// [`Error::NoRoom`] for more bytes than are free; a device that doesn't tell how many are ([`moebius::memory_free`]) passes.
    /// [`Error::Moebius`] for a type that the device lacks and for experts that it can't divide, [`Error::Config`] where weights are to be in
    /// the blocks of files that have none, or other quantized types.
    pub fn check_memory(
        &self,
        device: &Device,
        options: LoadOptions,
        cache: CacheMemory,
    ) -> Result<(), Error> {
        moebius::check_dtype(options.dtype, device)?;
        self.spec.check_experts(device)?;
        narrow::check(self.files.checkpoint(), &self.plan, options)?;
        let weights = self.weight_bytes(device, options);
        let decoding = size::decoding_bytes(&self.plan, options);
        let cache = self.with_decoded(cache, device, options);
        Ok(cache.check(0, weights.saturating_add(decoding), device)?)
    }

    /// `cache`, whose step also counts what a device decodes of the weights.
    fn with_decoded(
        &self,
        cache: CacheMemory,
        device: &Device,
        options: LoadOptions,
    ) -> CacheMemory {
        cache.with_decoded(size::decoded_bytes(&self.plan, device, options))
    }

    /// Bytes of the weights on a device, loaded by `options`, as [`ModelFiles::check_memory`] counts them: those of tensors, without what an
    /// allocator keeps beside them. Reads no weights.
    pub fn weight_bytes(&self, device: &Device, options: LoadOptions) -> u64 {
        size::loaded_bytes(&self.plan, device, options)
    }

    /// Options by which weights are on a device as the files have them, where devices decode such: FP8 codes stay codes and blocks stay blocks
    /// ([`InBlocks::File`]), values of 16 bits among them, in a model that computes in f32. Other weights become f32. Reads no weights.
    pub fn as_stored(&self) -> LoadOptions {
        let options = LoadOptions::default().with_blocks(InBlocks::File);
        match narrow::check(self.files.checkpoint(), &self.plan, options) {
            Ok(()) => options,
            Err(_) => LoadOptions::default(),
        }
    }

    /// Names of the tensors whose rows aren't whole blocks of the format that `options` ask for ([`InBlocks::Format`]), so that they get another
    /// type, in alphabetical order. Reads no weights.
    pub fn of_another_type(&self, options: LoadOptions) -> Vec<&str> {
        let names = narrow::of_another_type(&self.plan, options);
        names.into_iter().collect()
    }

    /// Bytes of the experts of all layers, loaded by `options`, wherever they wait; 0 for a model without experts. Reads no weights.
    pub fn expert_bytes(&self, device: &Device, options: LoadOptions) -> u64 {
        Sizes::of(&self.plan, device, options).experts()
    }

    /// The options by which the model fits on a device: these, where [`ModelFiles::check_memory`] finds room for what they ask. Where it finds none
    /// and they have no `expert_cache` and aren't `exact`, the experts of a mixture stay in the files, and the cache has what is free beside all
    /// else. Reads no weights.
    ///
    /// # Errors
    /// As [`ModelFiles::check_memory`], also where what is free holds fewer than two experts of each layer.
    pub fn fitting(
        &self,
        device: &Device,
        options: LoadOptions,
        cache: CacheMemory,
    ) -> Result<LoadOptions, Error> {
        let refused = match self.check_memory(device, options, cache) {
            // An exact model has all experts on the device.
            Err(Error::NoRoom(refused)) if options.may_switch() => refused,
            checked => return checked.map(|()| options),
        };
        let bytes = self.cache_within(refused.free, device, options, cache);
        let options = LoadOptions {
            expert_cache: Some(bytes.ok_or(refused)?),
            experts_from: ExpertsFrom::Files,
            ..options
        };
        self.check_memory(device, options, cache)?;
        Ok(options)
    }

    /// Bytes for a cache of experts in `free` bytes, beside everything else; `None` for a model without experts, or with too few bytes.
    fn cache_within(
        &self,
        free: u64,
        device: &Device,
        options: LoadOptions,
        cache: CacheMemory,
    ) -> Option<u64> {
        // Experts of a cache are other weights where adapters change them.
        let options = LoadOptions {
            expert_cache: Some(0),
            ..options
        };
        let sizes = Sizes::of(&self.plan, device, options);
        let cache = self.with_decoded(cache, device, options);
        let bytes = cache.left(free, sizes.others);
        // What is free changes while programs run.
        let bytes = bytes - bytes / 16;
        (bytes >= sizes.least_cache()?).then_some(bytes)
    }

    /// Loads the model to `device`; `progress` is called after each weight, and every 64 MiB of a large one.
    ///
    /// Where the file has weights as the device has them, in blocks or as values of the same bits, and the device computes in the host's memory (Flex),
    /// they are read to where they stay, on all threads of the host. What is decoded or put in another order goes there piece by piece.
    ///
    /// Peak memory beyond the weights: some MiB for each thread or a matrix of a file, and a copy of the largest weight where the device doesn't take
    /// over the host's memory, or the weight is rounded.
    ///
    /// # Errors
    /// [`Error::NoRoom`] as [`ModelFiles::check_memory`] says, before anything is read, [`Error::Weights`] when files can't be read,
    /// [`Error::Moebius`] when the device can't hold or run the model, and the errors of [`Model::with_exact`] if the model is to be exact.
    pub fn load(
        &self,
        device: &Device,
        options: LoadOptions,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Model, Error> {
        self.check_memory(device, options, CacheMemory::default())?;
        let spec = self.built(options);
        let building = Building::new(&spec).with_expert_cache(options.expert_cache);
        let mut course = Course::new(self, options);
        let model = building.finish(&mut WeightStream {
            files: self,
            device,
            options,
            course: &mut course,
            progress,
            ready: BTreeMap::new(),
        })?;
        options.of(model)
    }

    /// Begins a loading like [`ModelFiles::load`], in pieces, for programs that do other things in between.
    pub fn begin(&self, device: &Device, options: LoadOptions) -> Loading<'_> {
        let spec = self.built(options);
        Loading {
            files: self,
            device: device.clone(),
            options,
            course: Course::new(self, options),
            building: Building::new(&spec).with_expert_cache(options.expert_cache),
            begun: false,
        }
    }
}

/// The error for weights without a configuration.
fn without_config(reader: &Reader) -> Misfits {
    let folder = reader.folder();
    let has = |name: &str| folder.is_some_and(|folder| folder.join(name).is_file());
    let got = if has("params.json") {
        "params.json, the layout of the model's maker: take the folder that is made for transformers"
    } else {
        "none: the file comes with the model"
    };
    let expected = "a config.json beside the weights";
    Misfits::of_config(vec![Unfit::new("the folder", expected, got)])
}

/// The fault of a configuration by which other programs round or turn plain weights or inputs whenever the model runs.
///
/// The stored values alone would be another model than that of the other program, without an error.
fn rounded_anew(quantization: &Value) -> Option<Unfit> {
    let instead = "take a model whose weights are stored as they are used";
    let method = quantization["quant_method"].as_str().unwrap_or_default();
    if ROUNDED_ANEW.contains(&method) {
        let (what, expected) = (
            "quantization_config.quant_method",
            "a method of stored weights",
        );
        let got = format!("{}: {instead}", quoted(method));
        return Some(Unfit::new(what, expected, got));
    }
    let groups = quantization["transform_config"]["config_groups"].as_object()?;
    let mut places = groups
        .values()
        .filter_map(|group| group["apply"].as_array())
        .flatten()
        .filter_map(|one| one["location"].as_str());
    // A transform of a weight is part of the stored weight.
    let place = places.find(|place| !place.starts_with("weight_"))?;
    let (what, expected) = (
        "quantization_config.transform_config",
        "transforms of weights",
    );
    let got = format!("one at {}: {instead}", quoted(place));
    Some(Unfit::new(what, expected, got))
}

/// The fault of a configuration whose method of quantization isn't read.
fn unread_method(quantization: &Value) -> Option<Unfit> {
    let method = quantization["quant_method"].as_str()?;
    let packing = quantization["packing_format"].as_str().unwrap_or_default();
    // AutoRound has integers in the layouts of GPTQ and AWQ, with or without their names, and other codes in layouts of its own.
    let kind = quantization["data_type"].as_str().unwrap_or("int");
    let inputs = quantization["act_bits"].as_u64().unwrap_or(16);
    let plain = packing == "auto_round" && kind == "int" && inputs >= 16;
    let own = !(plain || packing.contains("gptq") || packing.contains("awq"));
    let own = method == "auto-round" && own;
    if METHODS.contains(&method) && !own {
        return None;
    }
    let expected = format!("{}, or weights in floating point", METHODS.join(", "));
    let what = "quantization_config.quant_method";
    let method = if own { packing } else { method };
    let got = format!(
        "{}: take the model in one of these, or as a GGUF file",
        quoted(method)
    );
    Some(Unfit::new(what, expected, got))
}

/// A model that is being loaded, one layer at a time.
#[derive(Debug)]
pub struct Loading<'a> {
    files: &'a ModelFiles,
    device: Device,
    options: LoadOptions,
    course: Course,
    building: Building,
    /// Whether a part has been read, before which the options are checked.
    begun: bool,
}

impl Loading<'_> {
    /// Reads the weights of the next layer, or of what stands before or after the layers; the last call returns the model.
    ///
    /// # Errors
    /// As [`ModelFiles::load`].
    pub fn go_on(
        self,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<ControlFlow<Model, Self>, Error> {
        let Self {
            files,
            device,
            options,
            mut course,
            building,
            begun,
        } = self;
        if !begun {
            narrow::check(files.files.checkpoint(), &files.plan, options)?;
        }
        let mut stream = WeightStream {
            files,
            device: &device,
            options,
            course: &mut course,
            progress,
            ready: BTreeMap::new(),
        };
        let built = building.go_on(&mut stream)?;
        Ok(match built {
            ControlFlow::Continue(building) => ControlFlow::Continue(Self {
                files,
                device,
                options,
                course,
                building,
                begun: true,
            }),
            ControlFlow::Break(model) => ControlFlow::Break(options.of(model)?),
        })
    }
}

/// The values of a checkpoint's places, decoded on the host.
#[derive(Clone, Copy, Debug)]
pub struct FileValues<'a>(&'a ModelFiles);

impl Values for FileValues<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let ModelFiles { files, plan, .. } = self.0;
        if !plan.targets.contains_key(&place) {
            return Err(place.absent());
        }
        let read = host::values(files.checkpoint(), plan, place, &mut |_| ());
        Ok(read?.0)
    }

    fn own_head(&self) -> Option<bool> {
        Some(!self.0.spec().tied)
    }
}
