//! Values, arguments, regions, loops, and the finished program.

use super::{Axis, Mesh};
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
    /// Whether each place of experts has a part of the argument.
    divided: bool,
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
    /// The devices; `None` for one.
    pub(super) mesh: Option<Mesh>,
    /// Whether operations are appended to a part that every device computes for itself.
    pub(super) inside: Cell<bool>,
    /// The number of exchanges between devices so far.
    pub(super) channels: Cell<u64>,
}

/// A finished module with one public function, `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The module's text.
    pub text: String,
    /// The types of the arguments on each device.
    pub inputs: Vec<TensorType>,
    /// The types of the results on each device.
    pub outputs: Vec<TensorType>,
    /// The number of floating-point operations of all matrix products: two for each multiply-add. A loop counts as one
    /// round, or as the rounds given to [`Builder::counted`].
    pub flops: u64,
}

impl Builder {
    /// Starts an empty function for one device.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts an empty function that XLA cuts into one for each device of `mesh`.
    pub fn placed(mesh: Mesh) -> Self {
        Self {
            mesh: Some(mesh),
            ..Self::default()
        }
    }

    /// The devices; `None` for one, and in a [`Builder::part`].
    pub fn mesh(&self) -> Option<Mesh> {
        self.mesh.filter(|_| !self.inside.get())
    }

    /// Appends an argument to the function. Every device has all of it.
    pub fn argument(&self, ty: TensorType) -> Value {
        self.argument_of(ty, false)
    }

    /// Appends an argument whose first dimension is divided among the places of experts, if `divided`.
    pub fn argument_of(&self, ty: TensorType, divided: bool) -> Value {
        let value = self.value(ty);
        self.arguments.borrow_mut().push(Argument {
            value,
            aliased: None,
            divided,
        });
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

    /// Finishes the function with these results. Every device has all of each.
    pub fn finish(self, outputs: &[Value]) -> Program {
        self.finish_divided(outputs, &vec![false; outputs.len()])
    }

    /// Finishes the function with these results. Where `divided`, a result's first dimension is divided among the places
    /// of experts.
    pub fn finish_divided(self, outputs: &[Value], divided: &[bool]) -> Program {
        let arguments = self.arguments.borrow();
        let inputs = arguments.iter().map(|a| self.lies(a.value, a.divided));
        let (inputs, places): (Vec<_>, Vec<_>) = inputs.unzip();
        let results = outputs.iter().zip(divided);
        let results = results.map(|(value, divided)| self.lies(*value, *divided));
        let (local, results): (Vec<_>, Vec<_>) = results.unzip();
        let arguments = arguments.iter().zip(places);
        let arguments = arguments.map(|(Argument { value, aliased, .. }, place)| {
            let aliased = aliased.map(|output| format!("tf.aliasing_output = {output} : i32"));
            let attributes = attributes([place, aliased]);
            format!("{value}: {}{attributes}", self.ty(*value))
        });
        let arguments = joined(arguments);
        let types = self.types(outputs);
        let results = types.iter().zip(results);
        let results = joined(results.map(|(ty, place)| format!("{ty}{}", attributes([place]))));
        let (partitions, mesh) = match self.mesh {
            Some(mesh) => (mesh.devices(), mesh.declaration()),
            None => (1, String::new()),
        };
        let text = format!(
            "module @moebius attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32}} {{\n\
             {mesh}  func.func public @main({arguments}) -> ({results}) {{\n{}    return{}\n  }}\n}}\n",
            self.text.borrow(),
            operands_and_types(outputs, &types),
        );
        Program {
            text,
            inputs,
            outputs: local,
            flops: self.flops.get(),
        }
    }

    /// The type of a value on each device, and the attribute that says how the value lies on them.
    fn lies(&self, value: Value, divided: bool) -> (TensorType, Option<String>) {
        let (ty, axis) = (self.ty(value), divided.then_some(Axis::Experts));
        match self.mesh {
            Some(mesh) => {
                let sharding = Mesh::sharding(ty.rank(), axis);
                let attribute = format!("sdy.sharding = #sdy.sharding{sharding}");
                (mesh.local(&ty, axis), Some(attribute))
            }
            None => (ty, None),
        }
    }

    pub(super) fn value(&self, ty: TensorType) -> Value {
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

    pub(super) fn line(&self, line: impl fmt::Display) {
        let indent = self.indent();
        let _ = writeln!(self.text.borrow_mut(), "{:indent$}{line}", "");
    }

    /// The spaces before a line.
    pub(super) fn indent(&self) -> usize {
        4 + 2 * self.depth.get()
    }

    /// Calls `append` and returns the text of what it appends, which isn't appended, and its result.
    pub(super) fn aside<T>(&self, append: impl FnOnce() -> T) -> (String, T) {
        let outer = self.text.take();
        self.depth.update(|depth| depth + 1);
        let result = append();
        self.depth.update(|depth| depth - 1);
        (self.text.replace(outer), result)
    }

    /// The text of a region with arguments of `types`; `body` returns what the region returns.
    pub(super) fn region(
        &self,
        types: &[TensorType],
        body: impl FnOnce(&Self, &[Value]) -> Vec<Value>,
    ) -> String {
        let arguments: Vec<Value> = types.iter().map(|ty| self.value(ty.clone())).collect();
        let (inner, ()) = self.aside(|| {
            let results = body(self, &arguments);
            self.line(format_args!(
                "stablehlo.return{}",
                operands_and_types(&results, &self.types(&results))
            ));
        });
        let indent = self.indent();
        let arguments = joined(arguments.iter().map(|v| format!("{v}: {}", self.ty(*v))));
        format!(
            "{{\n{0:indent$}^bb0({arguments}):\n{inner}{0:indent$}}}",
            ""
        )
    }
}

/// Attributes after a type, in braces; nothing if there are none.
fn attributes<const N: usize>(all: [Option<String>; N]) -> String {
    let all: Vec<String> = all.into_iter().flatten().collect();
    match all.as_slice() {
        [] => String::new(),
        all => format!(" {{{}}}", all.join(", ")),
    }
}

pub(super) fn operands_and_types(values: &[Value], types: &[TensorType]) -> String {
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

    /// Calls `append` and counts the floating-point operations of what it appends `rounds` times.
    pub fn counted<T>(&self, rounds: u64, append: impl FnOnce(&Self) -> T) -> T {
        let before = self.flops.get();
        let result = append(self);
        self.flops
            .update(|after| before + (after - before) * rounds);
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
