//! The linear modules of a model by the names that transformers gives them, and changes of low rank that adapters add to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn::module::Param;
use burn::tensor::{DType, Device, Tensor, TensorData};
use moebius::fp8::LowRank;
use moebius_weights::{Reader, Unfit, quoted};

use super::mapping::{Change, Piece, Plan, Target, Wanted, expand};
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

    /// The first of the rows of a matrix with `rows` rows that change, and the number of rows up to the last.
    fn span(&self, rows: usize) -> [usize; 2] {
        let half = rows / 2;
        match (self.piece.form, self.piece.part) {
            (Form::Plain, Part::Gate) => [0, half],
            (Form::Plain, Part::Up) => [half, half],
            _ => [0, rows],
        }
    }

    /// B times the scale in the rows of a matrix of its place, \[rows, r\]; 0 in rows that don't change.
    fn up(&self, rows: usize) -> Vec<f32> {
        let rank = self.factors.rank;
        let own =
            self.piece.skipped * rank..(self.piece.skipped + rows_in(&self.piece, rows)) * rank;
        let scaled = |&up: &f32| (f64::from(up) * self.scale) as f32;
        let own: Vec<f32> = self.factors.up[own].iter().map(scaled).collect();
        let mut placed = vec![0.0; rows * rank];
        place(&self.piece, &own, &mut placed, [rows, rank]);
        placed
    }
}

/// The changes that adapters make to the same rows of a place's matrices.
struct Changed<'a> {
    /// The first of the rows, and their number.
    first: usize,
    count: usize,
    changes: Vec<&'a Change>,
}

impl Changed<'_> {
    /// The changes of matrices with `rows` rows, by the rows that they change.
    fn of(target: &Target, rows: usize) -> Vec<Changed<'_>> {
        let mut spans = BTreeMap::<_, Vec<_>>::new();
        for change in &target.changes {
            spans.entry(change.span(rows)).or_default().push(change);
        }
        let spans = spans.into_iter();
        let changed = spans.map(|([first, count], changes)| Changed {
            first,
            count,
            changes,
        });
        changed.collect()
    }

    /// The ranks of all changes of a matrix together, the most of any matrix.
    fn rank(&self) -> usize {
        let mut ranks = BTreeMap::new();
        for change in &self.changes {
            *ranks.entry(change.matrix()).or_insert(0) += change.factors.rank;
        }
        ranks.into_values().max().unwrap_or(0)
    }

    /// One change of all `stack` matrices \[rows, columns\]; factors of smaller ranks end with zeros.
    fn low_rank(&self, [stack, rows, columns]: [usize; 3], on: (&Device, DType)) -> LowRank {
        let (rank, count) = (self.rank(), self.count);
        let mut down = vec![0.0; stack * rank * columns];
        let mut up = vec![0.0; stack * count * rank];
        let mut used = vec![0; stack];
        for change in &self.changes {
            let (matrix, own) = (change.matrix(), change.factors.rank);
            let at = used[matrix];
            used[matrix] += own;
            let to = (matrix * rank + at) * columns;
            down[to..][..own * columns].copy_from_slice(&change.factors.down);
            let placed = change.up(rows);
            for (row, from) in placed
                .chunks_exact(own)
                .skip(self.first)
                .take(count)
                .enumerate()
            {
                up[(matrix * count + row) * rank + at..][..own].copy_from_slice(from);
            }
        }
        let param = |values: Vec<f32>, shape: [usize; 3]| {
            let values = Tensor::<3>::from_data(TensorData::new(values, shape), on);
            Param::from_tensor(values).set_require_grad(false)
        };
        LowRank {
            down: param(down, [stack, rank, columns]),
            up: param(up, [stack, count, rank]),
            first: self.first,
            // It is in B.
            scale: 1.0,
        }
    }
}

/// The changes that adapters make to a place, beside its \[stack, rows, columns\].
pub(super) fn low_ranks(target: &Target, shape: [usize; 3], on: (&Device, DType)) -> Vec<LowRank> {
    let changed = Changed::of(target, shape[1]);
    let changed = changed.iter().map(|changed| changed.low_rank(shape, on));
    changed.collect()
}

/// The number of elements of the factors that [`low_ranks`] makes.
pub(super) fn factor_elements(target: &Target, [stack, rows, columns]: [usize; 3]) -> usize {
    let changed = Changed::of(target, rows).into_iter();
    let elements = changed.map(|changed| changed.rank() * (changed.count + columns));
    stack * elements.sum::<usize>()
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
    /// whenever they are read. Where weights are codes on the device, stored or rounded, the changes stay beside them as factors, which products
    /// add: the codes are those below which an adapter is trained. In a cache of experts and in an exact model, the values that such codes stand for
    /// change instead.
    /// Other adapters that were added before count, too.
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
