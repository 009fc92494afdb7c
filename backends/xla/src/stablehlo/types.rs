use crate::ElementType;
use std::fmt;

/// Shape and element type of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Extents of the dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// Type of the elements.
    pub element: ElementType,
}

impl TensorType {
    /// A tensor of `shape`.
    pub fn new(shape: impl Into<Vec<usize>>, element: ElementType) -> Self {
        Self {
            shape: shape.into(),
            element,
        }
    }

    /// A tensor without dimensions.
    pub fn scalar(element: ElementType) -> Self {
        Self::new([], element)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of the elements, without padding.
    pub fn bytes(&self) -> usize {
        self.elements() * self.element.bytes()
    }

    /// The same shape with other elements.
    pub fn with_element(&self, element: ElementType) -> Self {
        Self::new(self.shape.clone(), element)
    }

    /// The same elements in another shape.
    pub fn with_shape(&self, shape: impl Into<Vec<usize>>) -> Self {
        Self::new(shape, self.element)
    }
}

/// As StableHLO writes it: `tensor<2x3xf32>`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for extent in &self.shape {
            write!(f, "{extent}x")?;
        }
        write!(f, "{}>", self.element)
    }
}

/// Numbers in brackets, as attributes have them.
pub(super) fn list<T: fmt::Display>(numbers: impl IntoIterator<Item = T>) -> String {
    format!("[{}]", joined(numbers))
}

/// An `array<i64: …>` attribute.
pub(super) fn array(numbers: &[usize]) -> String {
    match numbers {
        [] => "array<i64>".to_owned(),
        _ => format!("array<i64: {}>", joined(numbers)),
    }
}

/// `%1, %2` of values, `tensor<…>, tensor<…>` of types.
pub(super) fn joined<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.join(", ")
}
