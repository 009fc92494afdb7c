//! The trained part of a model below an adapter: factors of low rank, and the modules whose changes they are.

use std::collections::{BTreeMap, BTreeSet};

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use moebius::fp8::LowRank;
use moebius_weights::{Unfit, quoted};

use crate::adapter::{Adapter, AdapterConfig, Factors};
use crate::decoder::{Model, Place};
use crate::error::Error;
use crate::load::{LinearModule, ModelFiles};
use crate::random::{Random, bound};

/// The linear modules that an adapter changes, those of all experts of a layer together.
#[derive(Clone, Debug)]
pub(crate) struct Lora {
    config: AdapterConfig,
    /// In the order of places, and of rows within one.
    groups: Vec<Group>,
}

/// Modules whose matrices are the same rows of the matrices of one place.
#[derive(Clone, Debug)]
struct Group {
    place: Place,
    /// First row of the place's matrices.
    first: usize,
    /// Shape \[out, in\] of a module's matrix.
    shape: [usize; 2],
    /// Name of each module: of each expert, or of the only one.
    names: Vec<String>,
}

/// All that an adapter trains, in the order of the groups.
#[derive(Module, Debug)]
pub(crate) struct Changes {
    changes: Vec<LowRank>,
}

impl Lora {
    /// The modules of a model that `config` names.
    ///
    /// # Errors
    /// [`Error::Config`] for numbers that mean nothing, a target that names no linear module of the layers, and for targets that can't be
    /// trained: rows that the model has in another order, and some experts of a layer without the others.
    pub(crate) fn of(config: AdapterConfig, files: &ModelFiles) -> Result<Self, Error> {
        config.check()?;
        let modules = files.linear_modules()?;
        check_targets(&config, &modules)?;
        let mut groups: BTreeMap<(Place, usize), Vec<LinearModule>> = BTreeMap::new();
        for module in modules {
            let taken = config.target_of(&module.name).is_some();
            match module.first {
                Some(first) => groups
                    .entry((module.place, first))
                    .or_default()
                    .push(module),
                None if taken => {
                    let expected = "a module whose rows a model keeps together";
                    let got = quoted(&module.name);
                    return Err(Error::Config(Unfit::new(TARGETS, expected, got)));
                }
                None => {}
            }
        }
        let groups = groups.into_iter().filter_map(|((place, first), modules)| {
            let taken = |of: &&LinearModule| config.target_of(&of.name).is_some();
            let group = || Group {
                place,
                first,
                shape: modules[0].shape,
                names: modules.iter().map(|of| of.name.clone()).collect(),
            };
            match modules.iter().filter(taken).count() {
                0 => None,
                count if count == modules.len() => Some(Ok(group())),
                count => {
                    let expected = format!("all {} experts of a layer, or none", modules.len());
                    let got = format!("{count}, such as {}", quoted(&modules[0].name));
                    Some(Err(Error::Config(Unfit::new(TARGETS, expected, got))))
                }
            }
        });
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { config, groups })
    }

    /// Numbers and modules of the adapter.
    pub(crate) fn config(&self) -> &AdapterConfig {
        &self.config
    }

    /// The changes before the first step: A is uniform in ±1/√in, drawn from the seed and the place, and B is 0, so that nothing changes yet.
    pub(crate) fn first(&self, seed: u64, device: &Device) -> Changes {
        let rank = self.config.rank;
        let change = |group: &Group| {
            let ([rows, columns], count) = (group.shape, group.names.len());
            let place = [group.place.layer, group.place.slot as usize, group.first];
            let [layer, slot, first] = place.map(|number| number as u64);
            let mut random = Random::new(&[seed, layer, slot, first]);
            let down = random.uniform(count * rank * columns, bound(columns));
            let down = TensorData::new(down, [count, rank, columns]);
            LowRank {
                down: Param::from_tensor(Tensor::from_data(down, device)),
                up: Param::from_tensor(Tensor::zeros([count, rows, rank], device)),
                first: group.first,
                scale: self.config.scale(rank),
            }
        };
        let changes = self.groups.iter().map(change).collect();
        Changes { changes }
    }

    /// The frozen `model` with these changes of its weights.
    ///
    /// # Errors
    /// As [`Model::change`].
    pub(crate) fn attach(&self, mut model: Model, changes: Changes) -> Result<Model, Error> {
        let mut of_places: BTreeMap<Place, Vec<LowRank>> = BTreeMap::new();
        for (group, change) in self.groups.iter().zip(changes.changes) {
            of_places.entry(group.place).or_default().push(change);
        }
        for (place, changes) in of_places {
            model.change(place, changes)?;
        }
        Ok(model)
    }

    /// The changes of the weights of `model`.
    ///
    /// # Errors
    /// As [`Model::changes`].
    pub(crate) fn attached(&self, model: &Model) -> Result<Changes, Error> {
        // A clone shares all tensors.
        let mut model = model.clone();
        let places: BTreeSet<Place> = self.groups.iter().map(|group| group.place).collect();
        let mut changes = Vec::with_capacity(self.groups.len());
        for place in places {
            changes.extend(model.changes(place)?);
        }
        Ok(Changes { changes })
    }

    /// The factors of the changes of `model`, without gradients: A and B of each group in turn.
    ///
    /// # Errors
    /// As [`Lora::attached`].
    pub(crate) fn factors(&self, model: &Model) -> Result<Vec<Tensor<3>>, Error> {
        let changes = self.attached(model)?.changes.into_iter();
        let factors = changes.flat_map(|change| [change.down.val(), change.up.val()]);
        Ok(factors.map(Tensor::without_autodiff).collect())
    }

    /// The adapter whose [`factors`](Self::factors) have these values.
    ///
    /// # Errors
    /// [`Error::Config`] for another number of factors or of values.
    pub(crate) fn adapter(&self, values: &[Vec<f32>]) -> Result<Adapter, Error> {
        let rank = self.config.rank;
        let sizes = self.groups.iter().flat_map(|group| {
            let count = rank * group.names.len();
            let [rows, columns] = group.shape;
            [count * columns, count * rows]
        });
        let fits = sizes.eq(values.iter().map(Vec::len));
        let expected = format!("{} of known sizes", 2 * self.groups.len());
        Error::check(fits, "factors of an adapter", expected, "others")?;
        let mut modules = BTreeMap::new();
        for (group, values) in self.groups.iter().zip(values.chunks_exact(2)) {
            let [rows, columns] = group.shape;
            let parts = values[0].chunks_exact(rank * columns);
            let parts = parts.zip(values[1].chunks_exact(rows * rank));
            for (name, (down, up)) in group.names.iter().zip(parts) {
                let factors = Factors {
                    rank,
                    down: down.to_vec(),
                    up: up.to_vec(),
                };
                modules.insert(name.clone(), factors);
            }
        }
        Ok(Adapter {
            config: self.config.clone(),
            modules,
        })
    }
}

impl AdapterConfig {
    /// Number of parameters of such an adapter of the model in `files`: r · (in + out) for each module.
    ///
    /// # Errors
    /// [`Error::Config`] for numbers and targets that [`Trainer::load_adapter`](crate::Trainer::load_adapter) refuses.
    pub fn parameters(&self, files: &ModelFiles) -> Result<u64, Error> {
        let lora = Lora::of(self.clone(), files)?;
        let of_group = |group: &Group| {
            let sizes = [group.names.len(), self.rank, group.shape.iter().sum()];
            let sizes = sizes.map(|size| size as u64);
            sizes.into_iter().fold(1, u64::saturating_mul)
        };
        Ok(lora
            .groups
            .iter()
            .map(of_group)
            .fold(0, u64::saturating_add))
    }
}

/// What errors call the targets.
const TARGETS: &str = "targets of an adapter";

/// Checks that each target names a module, as a misspelt one doesn't.
fn check_targets(config: &AdapterConfig, modules: &[LinearModule]) -> Result<(), Error> {
    let unknown = config.targets.iter().find(|target| {
        let alone = AdapterConfig {
            targets: vec![(*target).clone()],
            ..config.clone()
        };
        let names = |module: &LinearModule| alone.target_of(&module.name).is_some();
        !modules.iter().any(names)
    });
    let got = match (unknown, config.targets.is_empty()) {
        (Some(unknown), _) => quoted(unknown),
        (None, true) => "none".to_owned(),
        (None, false) => return Ok(()),
    };
    let last = |module: &LinearModule| module.name.rsplit('.').next().map(str::to_owned);
    let known: BTreeSet<String> = modules.iter().filter_map(last).collect();
    let known: Vec<String> = known.into_iter().collect();
    let expected = format!(
        "all-linear, or names of modules such as {}",
        known.join(", ")
    );
    Err(Error::Config(Unfit::new(TARGETS, expected, got)))
}
