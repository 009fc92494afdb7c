//! Which tensors of a checkpoint go where.

use crate::decoder::Slot;

/// Tensors of this name are, or are a part of, what a slot holds.
///
/// In the name `{l}` stands for the number of a layer and `{e}` for that of an expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The name.
    pub from: &'static str,
    /// The place.
    pub to: Slot,
    /// Which of a gated slot's rows.
    pub part: Part,
    /// How the values lie in the file.
    pub form: Form,
}

/// Rows of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    Whole,
    /// The first half of a gated slot's.
    Gate,
    /// The second half.
    Up,
}

/// How the values of a tensor lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As in the slot.
    Plain,
    /// \[.., in, out\] for a slot of \[.., out, in\].
    Transposed,
    /// As in the slot, but the rows of gate and up take turns.
    Pairs,
    /// Both: columns that take turns.
    TransposedPairs,
    /// As in the slot, but in each head the two rows that rotary positions turn together are neighbours, (2i, 2i + 1) instead of
    /// (i, i + d/2).
    Neighbours,
    /// Codes of four bits \[.., in / 32, 16\] of a slot of \[.., out, in\], whose scales are in the tensor whose name ends in `_scales`
    /// instead of `_blocks`.
    Mxfp4,
    /// The same, and the rows of gate and up take turns.
    Mxfp4Pairs,
}

impl Form {
    /// Whether the rows of gate and up take turns.
    pub fn is_paired(self) -> bool {
        matches!(self, Self::Pairs | Self::TransposedPairs | Self::Mxfp4Pairs)
    }

    /// Whether rows and columns are exchanged.
    pub fn is_transposed(self) -> bool {
        matches!(self, Self::Transposed | Self::TransposedPairs)
    }

    /// Whether values are codes of four bits.
    pub fn is_mxfp4(self) -> bool {
        matches!(self, Self::Mxfp4 | Self::Mxfp4Pairs)
    }
}

impl Rule {
    /// All of a slot.
    pub(super) const fn whole(from: &'static str, to: Slot) -> Self {
        Self::of(from, to, Part::Whole, Form::Plain)
    }

    /// The gate's rows.
    pub(super) const fn gate(from: &'static str, to: Slot) -> Self {
        Self::of(from, to, Part::Gate, Form::Plain)
    }

    /// The rows of up.
    pub(super) const fn up(from: &'static str, to: Slot) -> Self {
        Self::of(from, to, Part::Up, Form::Plain)
    }

    /// All of a slot in another form.
    pub(super) const fn formed(from: &'static str, to: Slot, form: Form) -> Self {
        Self::of(from, to, Part::Whole, form)
    }

    const fn of(from: &'static str, to: Slot, part: Part, form: Form) -> Self {
        Self {
            from,
            to,
            part,
            form,
        }
    }
}
