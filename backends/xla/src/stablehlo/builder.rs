//! Values, arguments, regions, loops, and the finished program.

use moebius_pjrt::{ElementType, TensorType};
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};

/// The result of an operation, or an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Value(u32);

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

struct Argument {
    value: Value,
    aliased: Option<usize>,
}

/// Builds one function.
///
/// A value belongs to the builder that returned it, and a value made inside a region belongs to that region. Operations
/// are appended through shared references, in the order in which Rust evaluates expressions: `b.mul(b.exp(x), y)`
/// appends the exponential, then the product.
#[derive(Default)]
pub struct Builder {
    types: RefCell<Vec<TensorType>>,
    arguments: RefCell<Vec<Argument>>,
    text: RefCell<String>,
    depth: Cell<usize>,
    /// The number of floating-point operations of the matrix products so far.
    pub(super) flops: Cell<u64>,
    pub(super) exchanged: Cell<u64>,
}

/// A finished module with one public function, `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The module's text.
    pub text: String,
    /// The types of the arguments.
    pub inputs: Vec<TensorType>,
    /// The types of the results.
    pub outputs: Vec<TensorType>,
    /// The number of floating-point operations of all matrix products: two for each multiply-add. A loop counts as one
    /// round, or as the rounds given to [`Builder::counted`].
    pub flops: u64,
    /// The bytes that each device sends to the others of its group in the collectives; loops count as in `flops`. With
    /// n devices, an all-to-all sends n − 1 of the n parts, an all-gather sends the tensor n − 1 times, and an
    /// all-reduce sends 2·(n − 1)/n of the tensor (a reduce-scatter, then an all-gather), the least of any algorithm.
    pub exchanged_bytes: u64,
}

impl Builder {
    /// Starts an empty function.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an argument to the function.
    pub fn argument(&self, ty: TensorType) -> Value {
        let value = self.value(ty);
        let (mut arguments, aliased) = (self.arguments.borrow_mut(), None);
        arguments.push(Argument { value, aliased });
        value
    }

    /// Donates argument `index`: its memory holds output `output` afterwards.
    pub fn donate(&self, index: usize, output: usize) {
        self.arguments.borrow_mut()[index].aliased = Some(output);
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> TensorType {
        self.types.borrow()[value.0 as usize].clone()
    }

    /// The types of values.
    pub fn types(&self, values: &[Value]) -> Vec<TensorType> {
        values.iter().map(|value| self.ty(*value)).collect()
    }

    /// The extents of a value's dimensions.
    pub fn shape(&self, value: Value) -> Vec<usize> {
        self.ty(value).shape
    }

    /// The element type of a value.
    pub fn element(&self, value: Value) -> ElementType {
        self.types.borrow()[value.0 as usize].element
    }

    /// Finishes the function with these results, to run on one device.
    pub fn finish(self, outputs: &[Value]) -> Program {
        self.finish_replicated(outputs, 1)
    }

    /// Finishes the function with these results, to run as `replicas` replicas on as many devices.
    pub fn finish_replicated(self, outputs: &[Value], replicas: usize) -> Program {
        let arguments = self.arguments.borrow();
        let inputs: Vec<TensorType> = arguments.iter().map(|a| self.ty(a.value)).collect();
        let results = self.types(outputs);
        let arguments = arguments.iter().zip(&inputs);
        let arguments = arguments.map(|(Argument { value, aliased }, ty)| match aliased {
            Some(output) => format!("{value}: {ty} {{tf.aliasing_output = {output} : i32}}"),
            None => format!("{value}: {ty}"),
        });
        let text = format!(
            "module @moebius attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {replicas} : i32}} {{\n  \
             func.func public @main({}) -> ({}) {{\n{}    return{}\n  }}\n}}\n",
            joined(arguments),
            joined(&results),
            self.text.borrow(),
            operands_and_types(outputs, &results),
        );
        Program {
            text,
            inputs,
            outputs: results,
            flops: self.flops.get(),
            exchanged_bytes: self.exchanged.get(),
        }
    }

    fn value(&self, ty: TensorType) -> Value {
        let mut types = self.types.borrow_mut();
        types.push(ty);
        Value((types.len() - 1) as u32)
    }

    /// Appends `operation`, the text to the right of the equals sign.
    pub(super) fn push(&self, operation: impl fmt::Display, result: TensorType) -> Value {
        let value = self.value(result);
        self.line(format_args!("{value} = {operation}"));
        value
    }

    /// Appends an operation that is written with only the type of its result.
    pub(super) fn of_type(&self, operation: impl fmt::Display, ty: TensorType) -> Value {
        self.push(format!("{operation} : {ty}"), ty)
    }

    /// Appends an operation whose operands and result have the type of `x`.
    pub(super) fn alike(&self, operation: impl fmt::Display, x: Value) -> Value {
        self.of_type(operation, self.ty(x))
    }

    /// Appends an operation that is written with the types of its operands and its result.
    pub(super) fn typed(
        &self,
        operation: impl fmt::Display,
        operands: &[Value],
        result: TensorType,
    ) -> Value {
        let types = joined(self.types(operands));
        self.push(format!("{operation} : ({types}) -> {result}"), result)
    }

    /// As [`Builder::typed`], with several results.
    pub(super) fn typed_many(
        &self,
        operation: impl fmt::Display,
        operands: &[Value],
        results: Vec<TensorType>,
    ) -> Vec<Value> {
        let types = joined(self.types(operands));
        let operation = format!("{operation} : ({types}) -> ({})", joined(&results));
        let values: Vec<Value> = results.into_iter().map(|ty| self.value(ty)).collect();
        self.line(format_args!("{} = {operation}", joined(&values)));
        values
    }

    fn line(&self, line: impl fmt::Display) {
        let indent = 4 + 2 * self.depth.get();
        let _ = writeln!(self.text.borrow_mut(), "{:indent$}{line}", "");
    }

    /// The text of a region with arguments of `types`; `body` returns what the region returns.
    pub(super) fn region(
        &self,
        types: &[TensorType],
        body: impl FnOnce(&Self, &[Value]) -> Vec<Value>,
    ) -> String {
        let outer = self.text.take();
        let arguments: Vec<Value> = types.iter().map(|ty| self.value(ty.clone())).collect();
        self.depth.update(|depth| depth + 1);
        let results = body(self, &arguments);
        self.line(format_args!(
            "stablehlo.return{}",
            operands_and_types(&results, &self.types(&results))
        ));
        self.depth.update(|depth| depth - 1);
        let inner = self.text.replace(outer);
        let indent = 4 + 2 * self.depth.get();
        let arguments = joined(arguments.iter().map(|v| format!("{v}: {}", self.ty(*v))));
        format!(
            "{{\n{0:indent$}^bb0({arguments}):\n{inner}{0:indent$}}}",
            ""
        )
    }
}

fn operands_and_types(values: &[Value], types: &[TensorType]) -> String {
    match values {
        [] => String::new(),
        _ => format!(" {} : {}", joined(values), joined(types)),
    }
}

impl Builder {
    /// Runs `body` on the state while `condition` holds.
    pub fn while_loop(
        &self,
        state: &[Value],
        condition: impl FnOnce(&Self, &[Value]) -> Value,
        body: impl FnOnce(&Self, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let types = self.types(state);
        let condition = self.region(&types, |b, args| vec![condition(b, args)]);
        let body = self.region(&types, body);
        let names = joined(state);
        let operation = format_args!("\"stablehlo.while\"({names}) ({condition}, {body})");
        self.typed_many(operation, state, types)
    }

    /// Runs `body(i, state)` for i = 0 … `count` − 1; `count` is an i32 scalar, known on the device only.
    pub fn for_loop(
        &self,
        count: Value,
        state: &[Value],
        body: impl FnOnce(&Self, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let state = [&[self.scalar(0.0, ElementType::S32), count], state].concat();
        let results = self.while_loop(
            &state,
            |b, state| b.lt(state[0], state[1]),
            |b, state| {
                let (at, count) = (state[0], state[1]);
                let results = body(b, at, &state[2..]);
                let next = b.add(at, b.scalar(1.0, ElementType::S32));
                [&[next, count], results.as_slice()].concat()
            },
        );
        results[2..].to_vec()
    }

    /// Calls `append` and counts the floating-point operations and exchanged bytes of what it appends `rounds` times.
    pub fn counted<T>(&self, rounds: u64, append: impl FnOnce(&Self) -> T) -> T {
        let before = [self.flops.get(), self.exchanged.get()];
        let result = append(self);
        for (count, before) in [&self.flops, &self.exchanged].into_iter().zip(before) {
            count.update(|after| before + (after - before) * rounds);
        }
        result
    }
}

/// A list of numbers in brackets, as attributes need it.
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

/// Joins items by commas: values as `%1, %2`, types as `tensor<…>, tensor<…>`.
pub(super) fn joined<T: fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.join(", ")
}
