//! Calls recorded for XLA, which lowers their descriptions when the graph runs.

use super::call::{Call, Operations};
use super::tensors::{Tensors, Value};
use burn::backend::{Backend, TensorMetadata};
use moebius_ops::Scalar;
use moebius_shaders::Stage;
use moebius_xla::{BackendRouter, RouterChannel};

impl<C: RouterChannel> Operations for BackendRouter<C> {
    fn moebius_run(operands: Tensors<Self>, call: Box<Call>) -> Tensors<Self> {
        let signature = &call.signature;
        let described = operands.0.into_iter().take(signature.operands.len());
        let operands = described.map(|value| match value {
            Value::Float(tensor) | Value::Word(tensor) => tensor,
        });
        let results = moebius_xla::record(&call.operation, operands.collect());
        let results = results.unwrap_or_else(|error| unreachable!("a checked call: {error}"));
        if let (Some(clock), Some(first)) = (&call.clock, results.first()) {
            // Both products and the sum run as one loop, so there is one stage. A device error shows at the caller's next read; the clock
            // only needs the wait.
            let _ = Self::sync(&first.device());
            clock.mark(Stage::Experts);
        }
        let described = signature.results.iter().zip(results);
        let value = described.map(|(info, tensor)| match info.scalar {
            Scalar::Float(_) => Value::Float(tensor),
            Scalar::Word => Value::Word(tensor),
        });
        Tensors(value.collect())
    }
}
