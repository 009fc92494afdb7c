//! The mapping of a checkpoint's tensors to places of the model, made from headers alone.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moebius::blocks::BlockFormat;
use moebius_weights::{Reader, StoredFp8, Unfit, WeightsError, quoted};

use super::cache_scales::is_scale;
use super::checkpoint::Checkpoint;
use crate::adapter::Factors;
use crate::decoder::{AttentionSpec, LayerSpec, ModelSpec, Place, Projection, Slot};
use crate::error::Misfits;
use crate::families::{Described, Extra, Family, Form, Part, Rule};

/// Number of 4-bit codes that share a scale.
pub(super) const MXFP4_BLOCK: usize = 32;

/// Number of names that a layout may require of a checkpoint with fewer tensors: more than published models have.
const MOST_NAMES: usize = 1 << 18;

/// Mapping of every tensor of a checkpoint to a place of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Source of each place of the model.
    pub(super) targets: BTreeMap<Place, Target>,
    /// Bytes of all tensors to read.
    pub(super) bytes: u64,
}

/// Source of a place: the tensors that it is made of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    /// Shape of the place.
    pub(super) shape: Vec<usize>,
    /// Tensors of the place.
    pub(super) pieces: Vec<Piece>,
    /// Changes of low rank that are added to what the tensors hold.
    pub(super) changes: Vec<Change>,
}

impl Target {
    /// The name of the first tensor, for errors.
    pub(super) fn name(&self) -> &str {
        self.pieces.first().map_or("", |piece| piece.name.as_str())
    }
}

/// A change of the rows of a place that a linear module has, by an adapter's factors times `scale`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    /// The module's matrix.
    pub(super) piece: Piece,
    pub(super) factors: Arc<Factors>,
    pub(super) scale: f64,
}

/// A tensor of the checkpoint, or some rows of one, which goes to one place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) name: String,
    pub(super) part: Part,
    pub(super) form: Form,
    /// Index of the tensor's expert; `None` for a tensor of all experts.
    pub(crate) expert: Option<usize>,
    /// Rows of a head in this layer, at least 1.
    pub(super) head: usize,
    /// Of these rows, those that make the key in latent attention.
    pub(super) keys: usize,
    /// Rows of the tensor before those of the piece.
    pub(super) skipped: usize,
    /// Layout of the FP8 codes, if the tensor holds such codes.
    pub(super) fp8: Option<StoredFp8>,
    /// The format of the blocks, if the tensor holds such that devices decode, or codes that can become such.
    pub(super) blocks: Option<BlockFormat>,
}

impl Piece {
    /// Names of the tensors that the piece is read from: its values or codes, and their scales.
    pub(super) fn tensors(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let fp8 = self.fp8.iter();
        let scales = fp8.flat_map(|layout| layout.scale.iter().chain(&layout.input_scale));
        let scales = scales.map(|name| Cow::Borrowed(name.as_str()));
        let of_four_bits = self.form.is_mxfp4();
        let of_four_bits = of_four_bits.then(|| Cow::Owned(scales_of(&self.name)));
        let own = Cow::Borrowed(self.name.as_str());
        std::iter::once(own).chain(scales).chain(of_four_bits)
    }
}

/// Name of the tensor with the scales of 4-bit codes.
pub(super) fn scales_of(codes: &str) -> String {
    let stem = codes.strip_suffix("_blocks").unwrap_or(codes);
    format!("{stem}_scales")
}

/// A tensor that a layout requires.
pub(crate) struct Wanted {
    pub(crate) place: Place,
    pub(crate) piece: Piece,
    pub(crate) shape: Vec<usize>,
    /// Name and shape of the tensor with the scales of 4-bit codes.
    pub(crate) scales: Option<(String, Vec<usize>)>,
}

impl Plan {
    /// Maps each tensor of `reader` to a place of the model that its configuration describes.
    ///
    /// # Errors
    /// [`Misfits`] with everything that doesn't fit.
    pub fn new(reader: &Reader, described: Described) -> Result<Self, Misfits> {
        Self::of(Checkpoint::Safetensors(reader), described)
    }

    /// Like [`Plan::new`], for a checkpoint of either kind.
    pub(super) fn of(reader: Checkpoint<'_>, described: Described) -> Result<Self, Misfits> {
        let Described {
            family,
            spec,
            unsupported,
        } = described;
        let wanted = best_layout(reader, family, &spec);
        let mut misfits = Misfits::of_config(unsupported);
        let mut plan = Self {
            targets: BTreeMap::new(),
            bytes: 0,
        };
        let mut used = BTreeSet::new();
        for one in wanted {
            plan.take(one, reader, &mut used, &mut misfits);
        }
        plan.check_places(&spec, &mut misfits);
        let names = reader.names().into_iter();
        let unused = names.filter(|name| !used.contains(*name));
        let unused = unused.filter(|name| !is_ignored(name, family, &spec));
        let is_empty = |name: &&str| reader.get(name).is_some_and(|info| info.shape.contains(&0));
        let unused = unused.filter(|name| !is_empty(name));
        misfits.unexpected = unused.map(str::to_owned).collect();
        for name in &used {
            plan.bytes += reader.get(name).map_or(0, |info| info.bytes);
        }
        // The shapes of the files have been checked, so each place gets the shape that the model has.
        for (place, target) in &mut plan.targets {
            target.shape = place.shape(&spec);
        }
        if misfits.is_empty() {
            Ok(plan)
        } else {
            Err(misfits)
        }
    }

    /// Bytes of all tensors to read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the tensors with the experts of a layer, which are all alike.
    pub(super) fn expert_bytes(&self, layer: usize, reader: Checkpoint<'_>) -> u64 {
        let targets = self.targets.iter();
        let targets = targets.filter(|(at, _)| at.slot.is_of_experts() && at.layer == layer);
        let pieces = targets.flat_map(|(_, target)| &target.pieces);
        // Several pieces may be rows of one tensor.
        let names: BTreeSet<_> = pieces.flat_map(|piece| piece.tensors()).collect();
        let bytes = |name: &Cow<'_, str>| reader.get(name).map_or(0, |info| info.bytes);
        names.iter().map(bytes).sum()
    }

    /// Assigns one tensor to its place, or notes what is wrong with it.
    fn take(
        &mut self,
        wanted: Wanted,
        reader: Checkpoint<'_>,
        used: &mut BTreeSet<String>,
        misfits: &mut Misfits,
    ) {
        let Wanted {
            place,
            mut piece,
            shape,
            scales,
        } = wanted;
        let mut of_name = |name: &str, shape: &[usize], misfits: &mut Misfits| {
            // Several pieces may be rows of one tensor.
            let first = used.insert(name.to_owned());
            let Some(info) = reader.get(name) else {
                if first {
                    misfits.missing.push(name.to_owned());
                }
                return None;
            };
            if first && !reader.has_shape(&info, shape) {
                let got = format!("{:?}", info.shape);
                let fault = Unfit::new(quoted(name), format!("{shape:?}"), got);
                misfits.misshapen.push(fault);
            }
            Some(info.element)
        };
        if let Some((name, shape)) = &scales {
            of_name(name, shape, misfits);
        }
        if let Some(element) = of_name(&piece.name, &shape, misfits) {
            piece.blocks = reader.blocks(&piece.name);
            match reader.fp8_layout(&piece.name) {
                Some(Ok(layout)) if !piece.form.is_mxfp4() => {
                    used.extend(layout.scale.iter().chain(&layout.input_scale).cloned());
                    piece.fp8 = Some(layout);
                }
                Some(Err(error)) if !piece.form.is_mxfp4() => {
                    misfits.faults.push(unreadable(&piece.name, error));
                }
                _ => {
                    let fault = element.unfit(piece.form.is_mxfp4());
                    let fault =
                        fault.map(|(expected, got)| Unfit::new(quoted(&piece.name), expected, got));
                    misfits.faults.extend(fault);
                }
            }
        }
        let target = self.targets.entry(place).or_insert_with(|| Target {
            shape: Vec::new(),
            pieces: Vec::new(),
            changes: Vec::new(),
        });
        target.pieces.push(piece);
    }

    /// Checks that the family's rules cover each place of the model.
    fn check_places(&self, spec: &ModelSpec, misfits: &mut Misfits) {
        for place in Slot::places(spec) {
            if !self.targets.contains_key(&place) {
                let what = format!("{:?} of layer {}", place.slot, place.layer);
                let expected = "a tensor that is known to hold it";
                misfits.faults.push(Unfit::new(what, expected, "none"));
            }
        }
    }
}

fn unreadable(name: &str, error: impl ToString) -> Unfit {
    let expected = "FP8 codes with scales";
    Unfit::new(quoted(name), expected, error.to_string())
}

/// The required tensors of the layout of which the checkpoint lacks the fewest. Layouts with far more tensors than the checkpoint has are left
/// out, so that no configuration of a few bytes asks for millions of names.
fn best_layout(reader: Checkpoint<'_>, family: &Family, spec: &ModelSpec) -> Vec<Wanted> {
    let most = reader.names().len().max(MOST_NAMES);
    let layouts = family.layouts.iter();
    let layouts = layouts.filter(|rules| required(rules, spec) <= most);
    let all = layouts.map(|rules| expand(rules, spec));
    let lacks = |wanted: &Vec<Wanted>| {
        let names = wanted.iter().map(|one| &one.piece.name);
        names.filter(|name| reader.get(name).is_none()).count()
    };
    all.min_by_key(lacks).unwrap_or_default()
}

/// The number of tensors that rules require, without their names.
fn required(rules: &[&[Rule]], spec: &ModelSpec) -> usize {
    let of = |rule: &Rule, layer: usize| match rule.to.shape(spec, layer) {
        Some(shape) if rule.from.contains("{e}") => rule.to.extents(&shape)[0],
        shape => usize::from(shape.is_some()),
    };
    let rules = rules.iter().copied().flatten();
    let counts = rules.flat_map(|rule| (0..layers_of(rule, spec)).map(move |at| of(rule, at)));
    counts.sum()
}

/// The number of layers that have tensors of a rule; 1 for a tensor outside of the layers.
fn layers_of(rule: &Rule, spec: &ModelSpec) -> usize {
    if rule.to.is_of_layer() {
        spec.layers.len()
    } else {
        1
    }
}

/// All tensors that rules require, for the places that the model has.
pub(crate) fn expand(rules: &[&[Rule]], spec: &ModelSpec) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for rule in rules.iter().copied().flatten() {
        for layer in 0..layers_of(rule, spec) {
            let Some(shape) = rule.to.shape(spec, layer) else {
                continue;
            };
            let slot = rule.to;
            let place = Place { layer, slot };
            let [experts, ..] = slot.extents(&shape);
            let name = rule.from.replace("{l}", &layer.to_string());
            let apart = name.contains("{e}");
            for expert in 0..if apart { experts } else { 1 } {
                let name = name.replace("{e}", &expert.to_string());
                let expert = apart.then_some(expert);
                let mut one = want(rule, place, name, expert, &shape);
                if let Some(of) = spec.layers.get(layer).and_then(LayerSpec::attention) {
                    fit_heads(&mut one, of);
                }
                wanted.push(one);
            }
        }
    }
    wanted
}

/// Adds what depends on the heads of a layer: the rows that a piece takes, and the shape of a tensor of q, k and v or of a matrix for each
/// head.
fn fit_heads(wanted: &mut Wanted, of: &AttentionSpec) {
    let (piece, shape) = (&mut wanted.piece, &mut wanted.shape);
    piece.head = of.head_dim;
    if piece.form == Form::Fused {
        let (q, k) = (of.heads * of.head_dim, of.kv_heads * of.head_dim);
        piece.skipped = match wanted.place.slot {
            Slot::Key => q,
            Slot::Value => q + k,
            _ => 0,
        };
        shape[0] = q + k + of.kv_heads * of.value_dim;
    }
    let Projection::Latent { rotated, .. } = of.projection else {
        return;
    };
    if matches!(piece.part, Part::Keys | Part::Values) {
        piece.keys = of.head_dim.saturating_sub(rotated);
        piece.head = piece.keys + of.value_dim;
        let columns = shape[1];
        *shape = match piece.part {
            Part::Keys => vec![of.heads, columns, piece.keys],
            _ => vec![of.heads, of.value_dim, columns],
        };
    }
}

fn want(
    rule: &Rule,
    place: Place,
    name: String,
    expert: Option<usize>,
    of_place: &[usize],
) -> Wanted {
    let shape = in_file(rule, of_place, expert.is_some());
    let scales = rule.form.is_mxfp4().then(|| {
        let scales = &shape[..shape.len() - 1];
        (scales_of(&name), scales.to_vec())
    });
    let piece = Piece {
        name,
        part: rule.part,
        form: rule.form,
        expert,
        head: 1,
        keys: 0,
        skipped: 0,
        fp8: None,
        blocks: None,
    };
    Wanted {
        place,
        piece,
        shape,
        scales,
    }
}

/// The shape of a rule's tensor in a file, given the shape of its place.
fn in_file(rule: &Rule, of_place: &[usize], of_expert: bool) -> Vec<usize> {
    let mut shape = of_place.to_vec();
    if of_expert {
        shape.remove(0);
    }
    let vectors = rule.to.extents(of_place)[2] == 1 && of_place.len() < 3;
    let rows = shape.len() - if vectors { 1 } else { 2 };
    if matches!(rule.part, Part::Gate | Part::Up) {
        shape[rows] /= 2;
    }
    if rule.form == Form::Row {
        shape.insert(0, 1);
    }
    if rule.form == Form::Channels {
        shape.insert(rows + 1, 1);
    }
    if rule.form.is_transposed() {
        shape.swap(rows, rows + 1);
    }
    if rule.form.is_mxfp4() {
        let columns = shape.pop().unwrap_or_default();
        shape.extend([columns.div_ceil(MXFP4_BLOCK), MXFP4_BLOCK / 2]);
    }
    shape
}

/// Tensors without effect on the computation, which checkpoints of any family may contain.
const LEFTOVERS: &[&str] = &[
    // Values that follow from the configuration.
    "model.rotary_emb.inv_freq",
    "model.layers.{l}.self_attn.rotary_emb.inv_freq",
    "model.layers.{l}.self_attn.rotary_emb.cos_cached",
    "model.layers.{l}.self_attn.rotary_emb.sin_cached",
    // Value head of models trained by reinforcement learning.
    "v_head.summary.weight",
    "v_head.summary.bias",
];

/// Name of the tensor of a slot outside of the layers, if the checkpoint has one.
fn name_of(reader: Checkpoint<'_>, family: &Family, slot: Slot) -> Option<&'static str> {
    let rules = family.layouts.iter().copied().flatten().copied().flatten();
    let mut names = rules.filter(|rule| rule.to == slot).map(|rule| rule.from);
    names.find(|name| reader.get(name).is_some())
}

/// Whether the checkpoint stores a head that differs from the embedding. Such a head is used, even if the configuration ties the two.
pub(super) fn has_own_head(reader: Checkpoint<'_>, family: &Family) -> Result<bool, WeightsError> {
    let names = [Slot::Head, Slot::Embedding].map(|slot| name_of(reader, family, slot));
    let [Some(head), Some(embedding)] = names else {
        return Ok(false);
    };
    reader.differ(head, embedding)
}

/// The name of the head, and the one that the embedding would have, where the checkpoint stores only the head.
pub(super) fn names_of_a_tied_head(
    reader: Checkpoint<'_>,
    family: &Family,
) -> Option<[&'static str; 2]> {
    let head = name_of(reader, family, Slot::Head)?;
    let mut rules = family.layouts.iter().copied().flatten().copied().flatten();
    let embedding = rules.find(|rule| rule.to == Slot::Embedding)?.from;
    let stored = name_of(reader, family, Slot::Embedding).is_some();
    (!stored).then_some([head, embedding])
}

/// Whether a tensor of this name goes to no place of the model, and may be there all the same.
fn is_ignored(name: &str, family: &Family, spec: &ModelSpec) -> bool {
    let mut patterns = LEFTOVERS.iter().chain(family.ignored);
    let listed = patterns.any(|pattern| fits(name, pattern));
    // A tied head may be stored all the same.
    let rules = family.layouts.iter().copied().flatten().copied().flatten();
    let head = spec.tied
        && rules
            .filter(|rule| rule.to == Slot::Head)
            .any(|rule| rule.from == name);
    let layer = name.split('.').find_map(|part| part.parse::<usize>().ok());
    let behind = family.extra == Extra::Layers && layer.is_some_and(|at| at >= spec.layers.len());
    listed || head || behind || is_scale(name)
}

/// Whether a name matches the pattern, with a number in place of `{l}`, or any ending in place of `*`.
fn fits(name: &str, pattern: &str) -> bool {
    if let Some(before) = pattern.strip_suffix('*') {
        return name.starts_with(before);
    }
    let Some((before, after)) = pattern.split_once("{l}") else {
        return name == pattern;
    };
    let number = name.strip_prefix(before);
    let number = number.and_then(|rest| rest.strip_suffix(after));
    number.is_some_and(|number| number.parse::<usize>().is_ok())
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
