//! Slots sorted by expert, and the movement of token rows into that order and back; the shapes are those of [`moebius_ops::permute`].
//!
//! Every kind of expert is composed of differentiable operations on sorted rows: [`Assignment::gather`] moves rows in, `linear` is a
//! product per expert, [`Assignment::neighbours`] and `attention` look along a sequence, and [`Assignment::combine`] moves rows out.
//! Products and attention are in the files of their families. Rows are \[R, width\] in the order of their experts; rows past the last
//! expert's are undefined and never reach a token.

use super::DeviceValue;
use super::call::Request;
use crate::check::element;
use crate::{Error, device};
use burn::tensor::kind::Basic;
use burn::tensor::{Bool, Int, Tensor};
use moebius_ops::permute::{Capacity, RowsProblem, sorting};
use moebius_ops::{Mismatch, Permute, routing};
use moebius_shaders::grouped_gemm::Variant;

/// The rule that limits how many slots an expert takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CapacityRule {
    /// The capacity limit; `None` never drops a slot.
    pub(crate) capacity: Option<Capacity>,
    /// Capacity factors \[E\] (f32) on the device, which replace the factor of `capacity`.
    pub(crate) factors: Option<Tensor<1>>,
    /// True for the available experts; `None` makes all available.
    pub(crate) mask: Option<Tensor<1, Bool>>,
}

/// Slots sorted by expert.
#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(super) sorted: Sorted,
    pub(super) routing: routing::Problem,
    pub(super) row_bound: usize,
    /// The kernel variant that all products share, because it decides the tiles; `None` on a device without kernels.
    pub(super) variant: Option<Variant>,
}

impl Assignment {
    /// Sorts the slots of `indices` \[T,K\] with router weights \[T,K\].
    pub(crate) fn new(
        indices: Tensor<2, Int>,
        weights: Tensor<2>,
        experts: usize,
        rule: CapacityRule,
        variant: Option<Variant>,
    ) -> Result<Self, Error> {
        let ([tokens, top_k], device) = (indices.dims(), weights.device());
        device::check_experts(&device, experts)?;
        let routing = routing::Problem::new(tokens, experts, top_k)?;
        let problem = sorting::Problem::new(&routing, rule.capacity, rule.factors.is_some())?;
        let rows = problem.row_bound();
        let variant = device::plan(&device, |device| -> Result<_, Error> {
            Ok(Variant::or_portable(variant, rows, experts, device))
        })?;
        let mask = rule.mask.is_some();
        let tile_rows = variant.map(Variant::tile_rows);
        let call = Request::new(Permute::Sort { problem, mask }, &device, &tile_rows)?;
        let call = call.reads([weights]).reads([indices]).reads(rule.mask);
        let mut results = call.reads(rule.factors).run();
        let sorted = Sorted {
            order: results.value(),
            offsets: results.value(),
            positions: results.value(),
            dropped: results.value(),
            tiles: results.next(),
        };
        Ok(Self {
            sorted,
            routing,
            row_bound: rows,
            variant,
        })
    }

    /// The numbers of tokens, experts and slots.
    pub(crate) fn routing(&self) -> routing::Problem {
        self.routing
    }

    /// The number of slots that reach no expert, \[1\].
    pub(crate) fn dropped(&self) -> Tensor<1, Int> {
        self.sorted.dropped.clone().words()
    }

    /// The sorted row of every slot, \[T,K\]; −1 for a slot that reaches no expert.
    pub(crate) fn positions(&self) -> Tensor<2, Int> {
        let positions = self.sorted.positions.clone().words::<1>();
        positions.reshape([self.routing.tokens(), self.routing.top_k()])
    }

    /// Returns rows \[R, width\] with zeros in the rows past the last expert's, whose gradients become 0, too.
    pub(crate) fn defined(&self, rows: Tensor<2>) -> Tensor<2> {
        let ([count, _], experts) = (rows.dims(), self.routing.experts());
        let offsets = self.sorted.offsets.clone().words::<1>();
        let used = offsets.narrow(0, experts, 1).expand([count]);
        let row = Tensor::<1, Int>::arange(0..count as i64, &rows.device()).cast(used.dtype());
        let undefined = row.greater_equal(used).reshape([count, 1]);
        let shape = rows.dims();
        rows.mask_fill(undefined.expand(shape), 0.0)
    }

    fn rows(&self, rows: &Tensor<2>) -> Result<RowsProblem, Mismatch> {
        let (width, element) = (rows.dims()[1], element(rows.dtype())?);
        RowsProblem::new(&self.routing, self.row_bound, width, element)
    }

    /// Gathers the token of every sorted row from x \[T, width\]: \[R, width\].
    pub(crate) fn gather(&self, x: Tensor<2>) -> Result<Tensor<2>, Error> {
        let (problem, sorted) = (self.rows(&x)?, &self.sorted);
        let call = Request::new(Permute::Gather(problem), &x.device(), &None)?;
        let call = call.reads([x]).reads(sorted.segments());
        let positions = ("positions", sorted.positions.clone());
        Ok(call.beside([positions]).run().floats())
    }

    /// Computes Σ_k w_tk · row of slot (t,k), \[T, width\], in slot order; `None` stands for weights of 1.
    pub(crate) fn combine(
        &self,
        rows: Tensor<2>,
        weights: Option<Tensor<2>>,
    ) -> Result<Tensor<2>, Error> {
        let (problem, sorted) = (self.rows(&rows)?, &self.sorted);
        let weighted = weights.is_some();
        let combine = Permute::Combine { problem, weighted };
        let call = Request::new(combine, &rows.device(), &None)?.reads([rows]);
        let call = call.reads([&sorted.positions]).reads(weights);
        let [order, offsets] = sorted.segments().map(DeviceValue::clone);
        let beside = [("order", order), ("offsets", offsets)];
        Ok(call.beside(beside).run().floats())
    }

    /// Puts every row between its neighbours in its expert and its sequence of `sequence` tokens, or after its two predecessors if
    /// `causal`: \[R, 3·width\], with zeros beyond the ends.
    pub(crate) fn neighbours(&self, rows: Tensor<2>, sequence: usize, causal: bool) -> Tensor<2> {
        let (rows, owners) = (self.defined(rows), self.owners(sequence));
        let places = if causal { [-2, -1, 0] } else { [-1, 0, 1] };
        let seen = places.map(|by| {
            let same = beside(owners.clone(), by, -1).equal(owners.clone());
            let hidden = same.bool_not().unsqueeze_dim::<2>(1).expand(rows.dims());
            beside(rows.clone(), by, 0).mask_fill(hidden, 0.0)
        });
        Tensor::cat(seen.into(), 1)
    }

    /// Numbers the pair of expert and sequence of each sorted row, \[R\].
    fn owners(&self, sequence: usize) -> Tensor<1, Int> {
        let (rows, experts) = (self.row_bound, self.routing.experts());
        let slots = self.sorted.order.clone().words::<1>().narrow(0, 0, rows);
        let ends = self
            .sorted
            .offsets
            .clone()
            .words::<1>()
            .narrow(0, 1, experts);
        let row = Tensor::<1, Int>::arange(0..rows as i64, &slots.device()).cast(slots.dtype());
        let before = row.unsqueeze_dim::<2>(1).expand([rows, experts]);
        let ended = before.greater_equal(ends.unsqueeze::<2>().expand([rows, experts]));
        let expert = ended
            .int()
            .cast(slots.dtype())
            .sum_dim(1)
            .squeeze_dim::<1>(1);
        let sequence_slots = sequence * self.routing.top_k();
        let sequences = self.routing.slots().div_ceil(sequence_slots);
        let of_sequence = slots.div_scalar(sequence_slots as i64);
        expert.mul_scalar(sequences as i64) + of_sequence
    }
}

/// The sort of slots by expert, after the capacity has dropped some.
#[derive(Clone, Debug)]
pub(crate) struct Sorted {
    /// The slot of each sorted row, \[S\].
    pub(crate) order: DeviceValue,
    /// The first sorted row of each expert, and the number of sorted rows, \[E+1\].
    pub(crate) offsets: DeviceValue,
    /// The sorted row of each slot, \[S\]; −1 for a slot that reaches no expert.
    pub(crate) positions: DeviceValue,
    /// The number of slots that reach no expert, \[1\].
    pub(crate) dropped: DeviceValue,
    /// The tiles in which kernels walk the segments, \[3·max_tiles\]; present on a device with kernels.
    pub(crate) tiles: Option<DeviceValue>,
}

impl Sorted {
    /// Returns the order and the offsets, the operands of most descriptions.
    pub(super) fn segments(&self) -> [&DeviceValue; 2] {
        [&self.order, &self.offsets]
    }

    /// Returns the operand that kernels read in addition to the segments.
    pub(super) fn tiles(&self) -> Option<(&'static str, DeviceValue)> {
        self.tiles.clone().map(|tiles| ("tiles", tiles))
    }
}

/// Multiplies row t by w_t of weights \[T,1\] in f32, without a sort: \[T, width\]. This is an operation of its own because Burn's fusion
/// may round such a product and a following sum only once, so that bits would depend on what follows.
pub(crate) fn weighted(rows: Tensor<2>, weights: Tensor<2>) -> Result<Tensor<2>, Error> {
    let ([count, width], device) = (rows.dims(), rows.device());
    let routing = routing::Problem::new(count, 1, 1)?;
    let problem = RowsProblem::new(&routing, count, width, element(rows.dtype())?)?;
    let combine = Permute::Combine {
        problem,
        weighted: true,
    };
    let in_order = Tensor::<1, Int>::arange(0..count as i64, &device);
    let call = Request::new(combine, &device, &None)?.reads([rows]);
    let call = call.reads([in_order.clone()]).reads([weights]);
    if !device.is_autodiff() {
        return Ok(call.run().floats());
    }
    // The gradients read a sort in which all rows are one expert's.
    let offsets = Tensor::<1, Int>::arange(0..2, &device).mul_scalar(count as i64);
    let sort = [("order", in_order.into()), ("offsets", offsets.into())];
    Ok(call.beside(sort).run().floats())
}

/// Shifts rows: row r of the result is row r + `by` of x, or `outside` if x has no such row.
fn beside<const D: usize, K: Basic>(x: Tensor<D, K>, by: i64, outside: i64) -> Tensor<D, K> {
    let mut shape = x.dims();
    let rows = shape[0];
    let moved = rows.min(by.unsigned_abs() as usize);
    if moved == 0 {
        return x;
    }
    shape[0] = moved;
    let none = Tensor::full(shape, outside, (&x.device(), x.dtype()));
    if moved == rows {
        none
    } else if by < 0 {
        Tensor::cat(vec![none, x.narrow(0, 0, rows - moved)], 0)
    } else {
        Tensor::cat(vec![x.narrow(0, moved, rows - moved), none], 0)
    }
}

#[cfg(feature = "flex")]
pub(super) mod flex {
    //! The sort of slots and the movement of rows on Flex. Capacities are the kernels' references.

    use crate::ops::host::{Computed, Floats, Operands, floats, segments, words};
    use moebius_host::permute as host;
    use moebius_ops::Permute;
    use moebius_ops::permute::sorting::Problem as Sort;
    use moebius_ops::permute::{RowsProblem, capacities_reference, capacity};

    pub(in crate::ops) fn run(operation: &Permute, b: Operands) -> Vec<Computed> {
        match operation {
            Permute::Sort { problem, .. } => sort(problem, b).map(Computed::from).into(),
            Permute::Gather(p) => vec![gather(p, b).into()],
            Permute::Combine { problem, .. } => vec![combine(problem, b).into()],
            Permute::CombineBackward(p) => combine_backward(p, b).map(Computed::from).into(),
        }
    }

    /// The order, offsets, positions and number of dropped slots.
    fn sort(sort: &Sort, mut b: Operands) -> [Vec<u32>; 4] {
        let (slots, experts) = (sort.slots(), sort.experts());
        let mut keys = words(b.word("indices"));
        if let Some(rule) = sort.capacity() {
            let mask = b.maybe_word("mask").map(words);
            let mask: Option<Vec<bool>> = mask.map(|m| m.iter().map(|m| *m != 0).collect());
            let factors = b.maybe_float("factors").map(floats);
            let (mask, factors) = (mask.as_deref(), factors.as_deref());
            let capacities = capacities_reference(&rule, slots, experts, mask, factors);
            keys = capacity::reference(&keys, &floats(b.float("weights")), &capacities);
        }
        let sorted = host::sort(&keys, experts);
        let kept = sorted.offsets[experts];
        [
            sorted.order,
            sorted.offsets,
            sorted.positions,
            vec![slots as u32 - kept],
        ]
    }

    fn gather(p: &RowsProblem, mut b: Operands) -> Vec<f32> {
        let segments = segments(&mut b, 0);
        host::gather(p, &segments, Floats::of(&mut b, "x").values())
    }

    fn combine(p: &RowsProblem, mut b: Operands) -> Vec<f32> {
        let segments = segments(&mut b, 0);
        let [rows, weights] = ["rows", "weights"].map(|name| Floats::of(&mut b, name));
        host::combine(p, &segments, rows.values(), weights.maybe())
    }

    fn combine_backward(p: &RowsProblem, mut b: Operands) -> [Vec<f32>; 2] {
        let segments = segments(&mut b, 0);
        let floats = ["rows", "weights", "dy"].map(|name| Floats::of(&mut b, name));
        let [rows, weights, dy] = floats.each_ref().map(Floats::values);
        host::combine_backward(p, &segments, [rows, weights], dy)
    }
}
