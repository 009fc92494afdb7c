//! Takes a case's inputs one by one, so that one left over is noticed.

use std::collections::BTreeMap;

use burn::tensor::{Device, Tensor, TensorData};

use super::OpError;
use crate::case_file::{CaseFile, TensorView, quoted};

/// The inputs of a case that have not been read yet.
pub(crate) struct Inputs<'a> {
    op: &'a str,
    left: BTreeMap<&'a str, TensorView<'a>>,
}

/// One input with the name the operation knows it by.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    name: &'static str,
    pub(crate) view: TensorView<'a>,
}

impl<'a> Inputs<'a> {
    /// All inputs of `case`.
    pub(crate) fn new(case: &'a CaseFile) -> Self {
        Self {
            op: case.op(),
            left: case.inputs(),
        }
    }

    /// Takes an input that must be there.
    pub(crate) fn required(&mut self, name: &'static str) -> Result<Input<'a>, OpError> {
        let missing = || OpError::Misfit(format!("input {name} is missing"));
        self.optional(name).ok_or_else(missing)
    }

    /// Takes an input that may be there.
    pub(crate) fn optional(&mut self, name: &'static str) -> Option<Input<'a>> {
        Some(Input {
            name,
            view: self.left.remove(name)?,
        })
    }

    /// Refuses inputs that the operation didn't take.
    pub(crate) fn finish(self) -> Result<(), OpError> {
        match self.left.into_keys().next() {
            Some(name) => {
                let (name, op) = (quoted(name), quoted(self.op));
                let message = format!("input {name} is not read by op {op}");
                Err(OpError::Misfit(message))
            }
            None => Ok(()),
        }
    }
}

impl Input<'_> {
    /// The extents, where the rank is `D`; `symbols` such as `[T,H]` go into the error.
    pub(crate) fn dims<const D: usize>(&self, symbols: &str) -> Result<[usize; D], OpError> {
        self.view
            .shape
            .try_into()
            .map_err(|_| self.shape_error(symbols.to_owned()))
    }

    /// Refuses any other extents than `expected`.
    pub(crate) fn expect(&self, symbols: &str, expected: &[usize]) -> Result<(), OpError> {
        if self.view.shape == expected {
            return Ok(());
        }
        Err(self.shape_error(format!("{symbols} = {expected:?}")))
    }

    /// Refuses extents of zero from position `from` on: a layer without experts or width is no layer.
    pub(crate) fn expect_positive(&self, symbols: &str, from: usize) -> Result<(), OpError> {
        if self.view.shape.iter().skip(from).all(|&d| d > 0) {
            return Ok(());
        }
        Err(self.shape_error(format!("{symbols} without a zero extent")))
    }

    /// The elements in f32 on a device, with the extents of a rank that was checked.
    pub(crate) fn on<const D: usize>(&self, device: &Device) -> Result<Tensor<D>, OpError> {
        let data = TensorData::new(self.view.to_f32()?, self.view.shape.to_vec());
        Ok(Tensor::from_data(data, device))
    }

    pub(super) fn shape_error(&self, expected: String) -> OpError {
        let (name, got) = (self.name, self.view.shape);
        let message = format!("input {name}: expected shape {expected}, got {got:?}");
        OpError::Misfit(message)
    }
}
