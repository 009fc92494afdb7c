//! The linear modules of a model by the names that transformers gives them, and changes of low rank that adapters add to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use moebius_weights::{Reader, Unfit, quoted};

use super::mapping::{Change, Piece, Plan, Wanted, expand};
use super::names::plain;
use super::placing::{place, rows_in};
use super::{LoadOptions, ModelFiles};
use crate::adapter::Adapter;
use crate::decoder::{ModelSpec, Place};
use crate::error::{Error, Misfits};
use crate::families::{self, Family, Form, Part};

/// A linear module, or the rows of one that go to one place.
pub(crate) struct LinearModule {
    /// Name of the module.
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(super) piece: Piece,
    /// Shape \[out, in\] of the module's matrix.
    pub(crate) shape: [usize; 2],
    /// The first row of the place's matrix that is one of the module's, which follow it in order; `None` where the place has them in another
    /// order or has only some of them.
    pub(crate) first: Option<usize>,
}

impl Change {
    /// The number of the matrix that changes, of those that are stacked in its place.
    pub(super) fn matrix(&self) -> usize {
        self.piece.expert.unwrap_or(0)
    }

    /// Adds the change to its matrix \[rows, columns\].
    pub(super) fn add_to(&self, values: &mut [f32], [rows, columns]: [usize; 2]) {
        let size = rows * columns;
        let (first, count) = (self.piece.skipped, rows_in(&self.piece, rows));
        let change = self.factors.rows(first, count, self.scale);
        let mut placed = vec![0.0; size];
        place(&self.piece, &change, &mut placed, [rows, columns]);
        values
            .iter_mut()
            .zip(placed)
            .for_each(|(value, change)| *value += change);
    }
}

/// The linear modules in the layers of a model, in the layout in which its family is published.
fn linear_modules(family: &Family, spec: &ModelSpec) -> Vec<LinearModule> {
    let mut layouts = family.layouts.iter().map(|rules| expand(rules, spec));
    let layout = layouts.find(|wanted| wanted.iter().all(|one| one.scales.is_none()));
    let modules = layout.into_iter().flatten();
    modules.filter_map(|one| linear_module(one, spec)).collect()
}

/// The linear module that a tensor is the matrix of; `None` for tensors of another kind, such as experts in one tensor.
fn linear_module(one: Wanted, spec: &ModelSpec) -> Option<LinearModule> {
    let Wanted {
        place,
        piece,
        shape,
        ..
    } = one;
    let name = piece.name.strip_suffix(".weight")?.to_owned();
    let [stack, rows, _] = place.slot.extents(&place.shape(spec));
    let first = match (piece.form, piece.part) {
        (Form::Plain, Part::Whole | Part::Gate) => Some(0),
        (Form::Plain, Part::Up) => Some(rows / 2),
        _ => None,
    };
    let alone = piece.expert.is_some() || stack == 1;
    let in_rows = matches!(
        piece.form,
        Form::Plain | Form::Fused | Form::Neighbours | Form::Pairs
    );
    let linear = place.slot.takes_codes() && alone && in_rows;
    let shape = <[usize; 2]>::try_from(shape).ok().filter(|_| linear)?;
    Some(LinearModule {
        name,
        place,
        piece,
        shape,
        first,
    })
}

impl ModelFiles {
    /// These files with the changes of an adapter, which are added to the weights in f32 while they are read; to experts that stay in the files,
    /// whenever they are read. FP8 codes of weights that change are decoded. Other adapters that were added before count, too.
    ///
    /// # Errors
    /// [`Error::Misfits`] with modules that the model doesn't have and factors of other shapes, [`Error::Config`] for a GGUF file, whose
    /// tensors have other names.
    pub fn with_adapter(mut self, adapter: &Adapter) -> Result<Self, Error> {
        let family = self.published_family()?;
        Arc::make_mut(&mut self.plan).adapt(adapter, family, &self.spec)?;
        Ok(self)
    }

    /// The linear modules in the layers, by the names that adapters know them by.
    ///
    /// # Errors
    /// [`Error::Config`] for a GGUF file.
    pub(crate) fn linear_modules(&self) -> Result<Vec<LinearModule>, Error> {
        Ok(linear_modules(self.published_family()?, &self.spec))
    }

    /// The description of the model as it is loaded.
    pub(super) fn built(&self, options: LoadOptions) -> ModelSpec {
        let spec = self.spec.clone().with_fp8(options.fp8_training);
        if options.frozen {
            spec.with_steady_routers()
        } else {
            spec
        }
    }

    /// The family whose published names adapters use.
    fn published_family(&self) -> Result<&'static Family, Error> {
        let Some(config) = self.reader().and_then(Reader::config) else {
            let expected = "safetensors with a config.json";
            let fault = Unfit::new("the model of an adapter", expected, "a GGUF file");
            return Err(Error::Config(fault));
        };
        let described = families::describe(config).map_err(Misfits::of_config)?;
        Ok(described.family)
    }
}

impl Plan {
    /// Adds the changes of an adapter to the places that they go to.
    pub(super) fn adapt(
        &mut self,
        adapter: &Adapter,
        family: &Family,
        spec: &ModelSpec,
    ) -> Result<(), Misfits> {
        let mut of_names: BTreeMap<String, Vec<LinearModule>> = BTreeMap::new();
        for module in linear_modules(family, spec) {
            of_names
                .entry(module.name.clone())
                .or_default()
                .push(module);
        }
        let mut misfits = Misfits::default();
        for (name, factors) in &adapter.modules {
            let known = plain(&format!("{name}.weight"));
            let modules = known.strip_suffix(".weight");
            let Some(modules) = modules.and_then(|name| of_names.get(name)) else {
                let (what, expected) = ("module of the adapter", "a linear module of the model");
                misfits
                    .faults
                    .push(Unfit::new(what, expected, quoted(name)));
                continue;
            };
            let (scale, factors) = (
                adapter.config.scale(factors.rank),
                Arc::new(factors.clone()),
            );
            for module in modules {
                let got = factors.shape();
                if got != module.shape {
                    let expected = format!("{:?}", module.shape);
                    let fault = Unfit::new(quoted(name), expected, format!("{got:?}"));
                    misfits.misshapen.push(fault);
                    break;
                }
                let target = self.targets.get_mut(&module.place);
                let target = target.unwrap_or_else(|| unreachable!("a plan has all places"));
                target.changes.push(Change {
                    piece: module.piece.clone(),
                    factors: factors.clone(),
                    scale,
                });
            }
        }
        if misfits.is_empty() {
            Ok(())
        } else {
            Err(misfits)
        }
    }
}
