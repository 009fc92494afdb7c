//! LoRA adapters (Hu et al. 2021) in the files of PEFT: `adapter_config.json` and `adapter_model.safetensors`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use moebius_weights::folder::{PartFolder, write_whole};
use moebius_weights::{InFile, Reader, TensorSpec, Unfit, file_bytes, python_json, quoted};
use safetensors::Dtype;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::error::{Error, Misfits};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// What PEFT puts before the names of a model's modules.
const PREFIX: &str = "base_model.model.";

/// Target that stands for all linear modules of the layers.
const ALL: &str = "all-linear";

/// Ways to draw the first factors that leave the model's own weights as they are; others, such as PiSSA, change these, too.
const STARTS: [&str; 3] = ["gaussian", "orthogonal", "eva"];

/// Numbers and modules of an adapter, in PEFT's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdapterConfig {
    /// Rank r of the changes.
    pub rank: usize,
    /// α: changes are multiplied by α / r.
    pub alpha: f64,
    /// Whether changes are multiplied by α / √r instead (Kalajdzievski 2023, "rsLoRA").
    pub rank_stabilized: bool,
    /// The linear modules that change: those whose names are one of these or end with a dot and one of these. `all-linear` stands for all of
    /// them.
    pub targets: Vec<String>,
}

impl Default for AdapterConfig {
    /// PEFT's numbers, and the modules that it chooses for Llama.
    fn default() -> Self {
        Self {
            rank: 8,
            alpha: 8.0,
            rank_stabilized: false,
            targets: ["q_proj", "v_proj"].map(str::to_owned).into(),
        }
    }
}

impl AdapterConfig {
    /// The factor of a change of rank `rank`.
    pub fn scale(&self, rank: usize) -> f64 {
        let rank = rank as f64;
        self.alpha
            / if self.rank_stabilized {
                rank.sqrt()
            } else {
                rank
            }
    }

    /// The first of the targets that names a module; `None` for a module that stays as it is.
    pub(crate) fn target_of(&self, module: &str) -> Option<&str> {
        let names = |target: &&String| {
            let before = module.strip_suffix(target.as_str());
            *target == ALL
                || before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.targets.iter().find(names).map(String::as_str)
    }

    /// Checks the numbers.
    pub(crate) fn check(&self) -> Result<(), Error> {
        Error::check(self.rank > 0, "rank of an adapter", "at least 1", self.rank)?;
        Error::check_positive("alpha of an adapter", self.alpha)
    }

    /// Reads PEFT's configuration. Also returns whether modules may have other ranks than this one.
    fn of_json(config: &Value) -> Result<(Self, bool), Vec<Unfit>> {
        let mut faults = unsupported(config);
        let kind = config["peft_type"].as_str().unwrap_or_default();
        if kind != "LORA" {
            faults.insert(0, Unfit::new("peft_type", "LORA", quoted(kind)));
        }
        let rank = config["r"].as_u64().filter(|&rank| rank > 0);
        if rank.is_none() {
            faults.push(Unfit::new("r", "a number of at least 1", &config["r"]));
        }
        let alpha = config["lora_alpha"]
            .as_f64()
            .filter(|alpha| alpha.is_finite());
        if alpha.is_none() {
            let got = &config["lora_alpha"];
            faults.push(Unfit::new("lora_alpha", "a number", got));
        }
        let (Some(rank), Some(alpha), true) = (rank, alpha, faults.is_empty()) else {
            return Err(faults);
        };
        let targets = match &config["target_modules"] {
            Value::String(all) => vec![all.clone()],
            Value::Array(names) => {
                let names = names.iter().filter_map(Value::as_str);
                names.map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let read = Self {
            rank: rank as usize,
            alpha,
            rank_stabilized: config["use_rslora"] == true,
            targets,
        };
        Ok((read, is_set(&config["rank_pattern"])))
    }

    /// PEFT's configuration of an adapter of the model `base`, whose modules have the ranks of `others` where those aren't this one's.
    fn to_json(&self, base: Option<&str>, others: &Map<String, Value>) -> Value {
        let targets = match &self.targets[..] {
            [all] if all == ALL => json!(ALL),
            names => json!(names),
        };
        json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": base,
            "inference_mode": true,
            "r": self.rank,
            "lora_alpha": self.alpha,
            "lora_dropout": 0.0,
            "use_rslora": self.rank_stabilized,
            "target_modules": targets,
            "bias": "none",
            "fan_in_fan_out": false,
            "modules_to_save": null,
            "init_lora_weights": true,
            "use_dora": false,
            "rank_pattern": others,
            "alpha_pattern": {},
        })
    }
}

/// Whether a field has an effect: it isn't missing, null, false or empty.
fn is_set(field: &Value) -> bool {
    match field {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => true,
    }
}

/// Fields by which an adapter is more than factors of low rank.
fn unsupported(config: &Value) -> Vec<Unfit> {
    let mut faults = Vec::new();
    for name in [
        "use_dora",
        "use_qalora",
        "use_bdlora",
        "alora_invocation_tokens",
        "arrow_config",
        "kasa_config",
        "monteclora_config",
        "lora_bias",
        "fan_in_fan_out",
        "modules_to_save",
        "layer_replication",
        "target_parameters",
        "trainable_token_indices",
        "alpha_pattern",
    ] {
        if is_set(&config[name]) {
            faults.push(Unfit::new(name, "none", quoted(&config[name].to_string())));
        }
    }
    let bias = &config["bias"];
    if is_set(bias) && bias != "none" {
        faults.push(Unfit::new("bias", "none", quoted(&bias.to_string())));
    }
    if let Some(start) = config["init_lora_weights"].as_str()
        && !STARTS.contains(&start)
    {
        let expected = "a start that leaves the model's weights as they are";
        faults.push(Unfit::new("init_lora_weights", expected, quoted(start)));
    }
    faults
}

/// The two factors of a module's change s · B · A.
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    /// Rank r.
    pub rank: usize,
    /// A \[r, in\], row by row.
    pub down: Vec<f32>,
    /// B \[out, r\], row by row.
    pub up: Vec<f32>,
}

impl Factors {
    /// The shape \[out, in\] of the change.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [&self.up, &self.down].map(|of| of.len() / self.rank)
    }

    /// The rows of B · A from `first` on, `count` of them, times `scale`. The sum of a row goes over the ranks in order.
    pub(crate) fn rows(&self, first: usize, count: usize, scale: f64) -> Vec<f32> {
        let [_, columns] = self.shape();
        let mut rows = vec![0.0; count * columns];
        let of_up = self.up.chunks_exact(self.rank).skip(first);
        for (row, up) in rows.chunks_exact_mut(columns).zip(of_up) {
            for (&up, down) in up.iter().zip(self.down.chunks_exact(columns)) {
                let up = (f64::from(up) * scale) as f32;
                row.iter_mut()
                    .zip(down)
                    .for_each(|(sum, &down)| *sum += up * down);
            }
        }
        rows
    }
}

/// The bytes of an adapter's two files, as PEFT writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterFiles {
    /// The configuration: numbers and modules, in JSON.
    pub config: Vec<u8>,
    /// The factors, in safetensors.
    pub weights: Vec<u8>,
}

impl AdapterFiles {
    /// Name of the file of the configuration.
    pub const CONFIG: &'static str = CONFIG;
    /// Name of the file of the factors.
    pub const WEIGHTS: &'static str = WEIGHTS;
}

/// A LoRA adapter: changes of low rank of a model's linear modules.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Numbers and modules.
    pub config: AdapterConfig,
    /// Factors by the name of the module, as transformers has it.
    pub modules: BTreeMap<String, Factors>,
}

impl Adapter {
    /// Reads an adapter from a folder with `adapter_config.json` and `adapter_model.safetensors`, as PEFT writes it.
    ///
    /// # Errors
    /// [`Error::Text`] and [`Error::Weights`] for files that can't be read, [`Error::Misfits`] with all fields that ask for more than factors of
    /// low rank (DoRA, whole modules, biases and others), and with tensors that are none of the two factors or don't fit each other.
    pub fn read(folder: &Path) -> Result<Self, Error> {
        let bytes = |name: &str| {
            let path = folder.join(name);
            fs::read(&path).map_err(|error| Error::Text(InFile::at(&path)(error)))
        };
        let (config, weights) = (bytes(CONFIG)?, bytes(WEIGHTS)?);
        Self::of_files(AdapterFiles { config, weights }, folder)
    }

    /// Reads an adapter from the bytes of its files, which errors place in `folder`.
    ///
    /// # Errors
    /// As [`Adapter::read`].
    pub fn of_files(files: AdapterFiles, folder: &Path) -> Result<Self, Error> {
        let refused = |faults: Vec<Unfit>| Misfits::of_config(faults).at(folder);
        let config: Value = python_json(&files.config)
            .map_err(|error| refused(vec![Unfit::new(CONFIG, "JSON", error)]))?;
        let (config, patterned) = AdapterConfig::of_json(&config).map_err(refused)?;
        let name = folder.join(WEIGHTS).display().to_string();
        let reader = Reader::from_bytes(&name, files.weights)?;
        let rank = (!patterned).then_some(config.rank);
        let modules = factors(&reader, rank)?.map_err(|misfits| misfits.at(folder))?;
        Ok(Self { config, modules })
    }

    /// Writes the adapter into the folder `target`, which must be new or empty and appears only when it is complete. `base` names the model
    /// that it is an adapter of.
    ///
    /// # Errors
    /// [`Error::Weights`] when a file can't be written.
    pub fn write(&self, base: Option<&str>, target: &Path) -> Result<PathBuf, Error> {
        let files = self.to_files(base)?;
        let folder = PartFolder::begin(target)?;
        write_whole(&folder.path().join(WEIGHTS), &files.weights)?;
        write_whole(&folder.path().join(CONFIG), &files.config)?;
        Ok(folder.finish()?)
    }

    /// The bytes of the adapter's files; `base` names the model that it is an adapter of.
    ///
    /// # Errors
    /// [`Error::Weights`] for factors that aren't of their rank.
    pub fn to_files(&self, base: Option<&str>) -> Result<AdapterFiles, Error> {
        let mut tensors = Vec::new();
        for (module, factors) in &self.modules {
            let ([outputs, inputs], rank) = (factors.shape(), factors.rank);
            for (part, shape, values) in [
                ("A", [rank, inputs], &factors.down),
                ("B", [outputs, rank], &factors.up),
            ] {
                let spec = TensorSpec {
                    name: format!("{PREFIX}{module}.lora_{part}.weight"),
                    dtype: Dtype::F32,
                    shape: shape.into(),
                };
                let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                let bytes: Vec<u8> = bytes.collect();
                tensors.push((spec, bytes));
            }
        }
        let others = self.modules.iter();
        let others = others.filter(|(_, factors)| factors.rank != self.config.rank);
        let others = others.map(|(module, factors)| (module.clone(), json!(factors.rank)));
        let others: Map<String, Value> = others.collect();
        let config = format!("{:#}\n", self.config.to_json(base, &others));
        Ok(AdapterFiles {
            config: config.into_bytes(),
            weights: file_bytes(&tensors)?,
        })
    }
}

/// The factors of each module. All have the rank `rank`, if one is given.
fn factors(
    reader: &Reader,
    rank: Option<usize>,
) -> Result<Result<BTreeMap<String, Factors>, Misfits>, Error> {
    let (mut found, mut misfits) = (BTreeMap::new(), Misfits::default());
    for (name, info) in reader.tensors() {
        let Some(module) = name.strip_suffix(".lora_A.weight") else {
            let is_up = name.ends_with(".lora_B.weight");
            // A tensor B without its A is told as one that nothing is computed from.
            let down = name.replace(".lora_B.weight", ".lora_A.weight");
            if !is_up || reader.get(&down).is_none() {
                misfits.unexpected.push(name.to_owned());
            }
            continue;
        };
        let other = format!("{module}.lora_B.weight");
        let Some(up) = reader.get(&other) else {
            misfits.missing.push(other);
            continue;
        };
        let (&[r, inputs], &[outputs, r_up]) = (&info.shape[..], &up.shape[..]) else {
            let got = format!("{:?} and {:?}", info.shape, up.shape);
            let fault = Unfit::new(quoted(name), "A [r, in] and B [out, r]", got);
            misfits.misshapen.push(fault);
            continue;
        };
        let some = [r, inputs, outputs].iter().all(|&size| size > 0);
        let right = some && r == r_up && rank.is_none_or(|rank| rank == r);
        if !right {
            let expected = rank.map_or("one rank".to_owned(), |rank| format!("rank {rank}"));
            let got = format!("A [{r}, {inputs}] and B [{outputs}, {r_up}]");
            misfits
                .misshapen
                .push(Unfit::new(quoted(name), expected, got));
            continue;
        }
        let factors = Factors {
            rank: r,
            down: reader.read_f32(name)?,
            up: reader.read_f32(&other)?,
        };
        let module = module.strip_prefix(PREFIX).unwrap_or(module);
        found.insert(module.to_owned(), factors);
    }
    Ok(if misfits.is_empty() {
        Ok(found)
    } else {
        Err(misfits)
    })
}

#[cfg(test)]
#[path = "adapter_tests.rs"]
mod tests;
