//! Results of an operation in the order of its description: recorded ones, and their shapes where they don't exist yet.

/// Results, taken one after the other.
pub(super) struct Results<T>(std::vec::IntoIter<T>);

impl<T> Results<T> {
    pub(super) fn new(results: Vec<T>) -> Self {
        Self(results.into_iter())
    }

    /// The next one.
    pub(super) fn take(&mut self) -> T {
        self.0
            .next()
            .unwrap_or_else(|| unreachable!("an operation has the results of its description"))
    }

    /// The next one if there is one by the description.
    pub(super) fn take_if(&mut self, present: bool) -> Option<T> {
        present.then(|| self.take())
    }
}

/// What Burn's fusion is told of the results.
#[cfg(feature = "fusion")]
pub(super) fn specs(
    operation: impl Into<moebius_ops::Operation>,
) -> Results<burn::backend::fusion::custom::TensorSpec> {
    use burn::tensor::{DType, Shape};
    let results = operation.into().signature().results;
    let specs = results.into_iter().map(|result| {
        let dtype = match result.scalar {
            moebius_ops::Scalar::Float(element) => super::quantize::dtype(element),
            moebius_ops::Scalar::Word => DType::I32,
        };
        burn::backend::fusion::custom::TensorSpec::new(Shape::from(result.shape), dtype)
    });
    Results::new(specs.collect())
}
