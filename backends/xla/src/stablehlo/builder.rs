//! Values, arguments, regions, and the finished program.

use super::TensorType;
use std::fmt::{self, Write};

/// A result of an operation, or an argument.
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
    sharding: Option<String>,
}

/// One function in the making.
///
/// A value belongs to the builder that returned it, and one made inside a region to that region.
#[derive(Default)]
pub struct Builder {
    types: Vec<TensorType>,
    arguments: Vec<Argument>,
    text: String,
    depth: usize,
    flops: u64,
    exchanged: u64,
}

/// A finished module with one public function, `main`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The module's text.
    pub text: String,
    /// Types of the arguments.
    pub inputs: Vec<TensorType>,
    /// Types of the results.
    pub outputs: Vec<TensorType>,
    /// Floating-point operations of all matrix products: two for each multiply-add; of loops one
    /// round, or as many as [`Builder::counted`] says.
    pub flops: u64,
    /// Bytes that each device sends to others in the collectives, counted as [`Builder::exchanged`] says;
    /// of loops as `flops`. What the partitioner inserts isn't in it.
    pub exchanged_bytes: u64,
}

impl Builder {
    /// An empty function.
    pub fn new() -> Self {
        Self::default()
    }

    /// The next argument of the function.
    pub fn argument(&mut self, ty: TensorType) -> Value {
        let value = self.value(ty);
        self.arguments.push(Argument {
            value,
            aliased: None,
            sharding: None,
        });
        value
    }

    /// Gives argument `index` away: its memory holds output `output` afterwards.
    pub fn donate(&mut self, index: usize, output: usize) {
        self.arguments[index].aliased = Some(output);
    }

    /// How argument `index` is laid out over the devices of an SPMD program.
    pub fn shard(&mut self, index: usize, sharding: &super::Sharding) {
        self.arguments[index].sharding = Some(sharding.to_string());
    }

    /// The type of a value.
    pub fn ty(&self, value: Value) -> &TensorType {
        &self.types[value.0 as usize]
    }

    /// The extents of a value.
    pub fn shape(&self, value: Value) -> Vec<usize> {
        self.ty(value).shape.clone()
    }

    /// The element type of a value.
    pub fn element(&self, value: Value) -> crate::ElementType {
        self.ty(value).element
    }

    /// The function with these results, on one device.
    pub fn finish(self, outputs: &[Value]) -> Program {
        self.finish_spmd(outputs, 1, 1, &[])
    }

    /// The function with these results, run by `replicas` times `partitions` devices. `shardings`
    /// holds one for each output, or nothing.
    pub fn finish_spmd(
        self,
        outputs: &[Value],
        replicas: usize,
        partitions: usize,
        shardings: &[super::Sharding],
    ) -> Program {
        let types: Vec<TensorType> = outputs.iter().map(|v| self.ty(*v).clone()).collect();
        let arguments: Vec<String> = self.arguments.iter().map(|a| self.signature(a)).collect();
        let results = types
            .iter()
            .enumerate()
            .map(|(i, ty)| match shardings.get(i) {
                Some(sharding) => format!("{ty} {{mhlo.sharding = \"{sharding}\"}}"),
                None => ty.to_string(),
            });
        let results: Vec<String> = results.collect();
        let text = format!(
            "module @moebius attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = {replicas} : i32}} {{\n  \
             func.func public @main({}) -> ({}) {{\n{}    return{}\n  }}\n}}\n",
            arguments.join(", "),
            results.join(", "),
            self.text,
            operands_and_types(outputs, &types),
        );
        Program {
            text,
            inputs: self
                .arguments
                .iter()
                .map(|a| self.ty(a.value).clone())
                .collect(),
            outputs: types,
            flops: self.flops,
            exchanged_bytes: self.exchanged,
        }
    }

    fn signature(&self, argument: &Argument) -> String {
        let mut attributes = Vec::new();
        if let Some(output) = argument.aliased {
            attributes.push(format!("tf.aliasing_output = {output} : i32"));
        }
        if let Some(sharding) = &argument.sharding {
            attributes.push(format!("mhlo.sharding = \"{sharding}\""));
        }
        let mut text = format!("{}: {}", argument.value, self.ty(argument.value));
        if !attributes.is_empty() {
            let _ = write!(text, " {{{}}}", attributes.join(", "));
        }
        text
    }

    fn value(&mut self, ty: TensorType) -> Value {
        self.types.push(ty);
        Value((self.types.len() - 1) as u32)
    }

    /// Floating-point operations of the matrix products so far.
    pub(super) fn flops(&self) -> u64 {
        self.flops
    }

    /// Adds to the count of floating-point operations.
    pub(super) fn count_flops(&mut self, flops: u64) {
        self.flops += flops;
    }

    /// Bytes that each device sends to the others of its group in the collectives so far: of an all-to-all
    /// among n devices n − 1 of the n parts, of an all-gather its own part n − 1 times, of an all-reduce 2·(n
    /// − 1)/n of the tensor (a reduce-scatter, then an all-gather), which no algorithm undercuts.
    pub fn exchanged(&self) -> u64 {
        self.exchanged
    }

    /// Adds to the count of bytes that each device sends.
    pub(super) fn count_exchanged(&mut self, bytes: u64) {
        self.exchanged += bytes;
    }

    /// Appends `operation`, everything right of the equals sign.
    pub(super) fn push(&mut self, operation: impl fmt::Display, result: TensorType) -> Value {
        let value = self.value(result);
        self.line(format_args!("{value} = {operation}"));
        value
    }

    /// Appends an operation of several results.
    pub(super) fn push_many(
        &mut self,
        operation: impl fmt::Display,
        results: Vec<TensorType>,
    ) -> Vec<Value> {
        let values: Vec<Value> = results.into_iter().map(|ty| self.value(ty)).collect();
        let names: Vec<String> = values.iter().map(ToString::to_string).collect();
        self.line(format_args!("{} = {operation}", names.join(", ")));
        values
    }

    fn line(&mut self, line: impl fmt::Display) {
        let indent = 4 + 2 * self.depth;
        let _ = writeln!(self.text, "{:indent$}{line}", "");
    }

    /// The text of a region with arguments of `types`; `body` returns what the region returns.
    pub(super) fn region(
        &mut self,
        types: &[TensorType],
        body: impl FnOnce(&mut Self, &[Value]) -> Vec<Value>,
    ) -> String {
        let outer = std::mem::take(&mut self.text);
        let arguments: Vec<Value> = types.iter().map(|ty| self.value(ty.clone())).collect();
        self.depth += 1;
        let results = body(self, &arguments);
        let types: Vec<TensorType> = results.iter().map(|v| self.ty(*v).clone()).collect();
        self.line(format_args!(
            "stablehlo.return{}",
            operands_and_types(&results, &types)
        ));
        self.depth -= 1;
        let inner = std::mem::replace(&mut self.text, outer);
        let indent = 4 + 2 * self.depth;
        let header = match arguments.as_slice() {
            [] => String::new(),
            arguments => {
                let arguments: Vec<String> = arguments
                    .iter()
                    .map(|v| format!("{v}: {}", self.ty(*v)))
                    .collect();
                format!("{:indent$}^bb0({}):\n", "", arguments.join(", "))
            }
        };
        format!("{{\n{header}{inner}{:indent$}}}", "")
    }

    /// `%1, %2` and `tensor<…>, tensor<…>` of operands in the generic form.
    pub(super) fn operands(&self, values: &[Value]) -> (String, String) {
        let names: Vec<String> = values.iter().map(ToString::to_string).collect();
        let types: Vec<String> = values.iter().map(|v| self.ty(*v).to_string()).collect();
        (names.join(", "), types.join(", "))
    }
}

fn operands_and_types(values: &[Value], types: &[TensorType]) -> String {
    if values.is_empty() {
        return String::new();
    }
    let names: Vec<String> = values.iter().map(ToString::to_string).collect();
    let types: Vec<String> = types.iter().map(ToString::to_string).collect();
    format!(" {} : {}", names.join(", "), types.join(", "))
}
