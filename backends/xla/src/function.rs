//! Functions of tensors that are compiled once and called often.

use crate::lower::{LowerError, graph_donating};
use crate::machine::{self, Machine, RunError, panic_text};
use burn::backend::{BackendTensor, DispatchTensorKind};
use burn::tensor::kind::Basic;
use burn::tensor::{CaptureError, CapturedGraph, DType, Device, Float, Shape, Tensor, TensorData};
use burn_ir::{OperationIr, TensorId};
use moebius_pjrt::{Buffer, LoadedExecutable};
use std::collections::HashMap;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// The reason why a function can't be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// Burn refused the captured graph.
    #[error("capturing the function: {0}")]
    Capture(CaptureError),
    /// The function panicked. Burn's capturing device panics when a function reads what it computed, or records
    /// gradients.
    #[error(
        "expected a function that reads no result and records no gradients, got a panic: {reason}"
    )]
    Function {
        /// The panic's message.
        reason: String,
    },
    /// An output wasn't computed on the capturing device.
    #[error("expected {expected} outputs of the capturing device, got {got}")]
    Outputs {
        /// The number of the function's outputs.
        expected: usize,
        /// The number of outputs computed on the capturing device.
        got: usize,
    },
    /// An operation can't be compiled, or an input can't be donated.
    #[error(transparent)]
    Lower(#[from] LowerError),
    /// The plugin reported an error.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A function of tensors, compiled to one program for one device.
///
/// The parameters of modules that the function uses are held as buffers and passed to the program with every call.
/// Functions with the same program text share the program, but never the parameters.
///
/// ```no_run
/// use burn::module::Module;
/// use burn::nn::LinearConfig;
/// use burn::tensor::{DType, Device, Tensor, TensorData};
/// use moebius_pjrt::Platform;
/// use moebius_xla::{CompiledFunction, Machine, Spec, client};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let machine = Machine::new(client(Platform::Cpu)?.device(0)?)?;
/// let linear = LinearConfig::new(16, 4).init(&Device::flex());
/// let specs = Spec::<2>::new([8, 16], DType::F32);
/// let compiled = CompiledFunction::compile(&machine, &specs, &[], |device, x: Tensor<2>| {
///     linear.clone().fork(device).forward(x)
/// })?;
/// let y = compiled.call(&[TensorData::new(vec![1.0_f32; 128], [8, 16])])?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CompiledFunction {
    machine: Machine,
    executable: Arc<LoadedExecutable>,
    inputs: usize,
    outputs: Vec<DType>,
    parameters: Vec<Arc<Buffer>>,
    random: Option<Mutex<Arc<Buffer>>>,
}

impl CompiledFunction {
    /// Captures `function`, which is called with the capturing device and its arguments, and compiles it. A call
    /// consumes the inputs whose indices are in `donated`: the memory of each becomes that of the first free output of
    /// its type.
    ///
    /// # Errors
    ///
    /// [`CompileError`], before anything runs; [`CompileError::Function`] when the function panics. Reading an argument
    /// is no error and gives zeros.
    pub fn compile<I: Arguments, O: Arguments>(
        machine: &Machine,
        specs: &I::Specs,
        donated: &[usize],
        function: impl FnOnce(&Device, I) -> O,
    ) -> Result<Self, CompileError> {
        let (captured, expected) = capture(specs, function)?;
        if captured.graph.outputs.len() != expected {
            let got = captured.graph.outputs.len();
            return Err(CompileError::Outputs { expected, got });
        }
        let lowered = graph_donating(&captured, donated)?;
        let dtypes = dtypes(&captured);
        let parameters = lowered.constants.iter().map(|id| {
            let data = captured.values.get(id);
            let data = data.ok_or(RunError::Unknown(*id))?;
            machine::upload(machine, data)
        });
        let random = lowered
            .random
            .then(|| random_state(machine, machine::entropy()));
        Ok(Self {
            parameters: parameters.collect::<Result<_, RunError>>()?,
            random: random.transpose()?.map(Mutex::new),
            executable: machine.compile(&lowered.program)?,
            machine: machine.clone(),
            inputs: captured.graph.inputs.len(),
            outputs: captured.graph.outputs.iter().map(|id| dtypes[id]).collect(),
        })
    }

    /// The compiled program, for its memory figures.
    pub fn executable(&self) -> &Arc<LoadedExecutable> {
        &self.executable
    }

    /// Restarts the random number generator from `seed`.
    ///
    /// # Errors
    ///
    /// [`RunError::Plugin`] when the plugin fails.
    pub fn seed(&self, seed: u64) -> Result<(), RunError> {
        if let Some(state) = &self.random {
            let fresh = random_state(&self.machine, seed)?;
            *state.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
        Ok(())
    }

    /// Starts a call on buffers and returns its results, which may not be computed yet. A donated input is overwritten
    /// if nothing else holds it.
    ///
    /// # Errors
    ///
    /// [`RunError::Inputs`] for the wrong number of inputs, and [`RunError::Plugin`] when they have other types or the
    /// plugin fails.
    pub fn run(&self, mut inputs: Vec<Arc<Buffer>>) -> Result<Vec<Arc<Buffer>>, RunError> {
        if inputs.len() != self.inputs {
            let (expected, got) = (self.inputs, inputs.len());
            return Err(RunError::Inputs { expected, got });
        }
        inputs.extend(self.parameters.iter().cloned());
        let Some(random) = &self.random else {
            return machine::run(&self.executable, inputs);
        };
        // Held during the call, so that two calls at once don't draw the same numbers.
        let mut state = random.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.push(state.clone());
        let mut results = machine::run(&self.executable, inputs)?;
        if let Some(new) = results.pop() {
            *state = new;
        }
        Ok(results)
    }

    /// Calls the function on host values and waits for its results.
    ///
    /// # Errors
    ///
    /// As for [`Self::run`] and [`upload`](crate::upload).
    pub fn call(&self, inputs: &[TensorData]) -> Result<Vec<TensorData>, RunError> {
        let inputs = inputs
            .iter()
            .map(|data| machine::upload(&self.machine, data));
        let results = self.run(inputs.collect::<Result<_, _>>()?)?;
        let read = |(buffer, dtype): (&Arc<Buffer>, &DType)| machine::read(buffer, *dtype);
        results.iter().zip(&self.outputs).map(read).collect()
    }
}

fn random_state(machine: &Machine, seed: u64) -> Result<Arc<Buffer>, RunError> {
    machine::upload(machine, &machine::random_state(seed))
}

/// Reads the values of a buffer, and waits for them.
///
/// # Errors
///
/// [`LowerError::Quantised`] for an element type that Burn doesn't have, and [`RunError::Plugin`] when the plugin
/// fails.
pub fn download(buffer: &Buffer) -> Result<TensorData, RunError> {
    let element = buffer.element();
    let dtype = crate::dtype(element).ok_or_else(|| LowerError::Quantised(element.to_string()))?;
    machine::read(buffer, dtype)
}

/// Captures `function`: its graph, and the number of outputs that the graph should have.
fn capture<I: Arguments, O: Arguments>(
    specs: &I::Specs,
    function: impl FnOnce(&Device, I) -> O,
) -> Result<(CapturedGraph, usize), CompileError> {
    let device = Device::capture();
    let mut expected = 0;
    // The capture scope closes on a panic, and whatever else the function has changed is its own concern.
    let captured = catch_unwind(AssertUnwindSafe(|| {
        device.capture_scope(|scope| {
            let inputs = I::placeholders(specs, &device);
            let names = inputs.ids().into_iter().flatten();
            let outputs = function(&device, inputs);
            let made = outputs.ids();
            expected = made.len();
            scope.complete(names, made.into_iter().flatten())
        })
    }));
    let captured = captured.map_err(|panic| CompileError::Function {
        reason: panic_text(panic.as_ref()),
    })?;
    Ok((captured.map_err(CompileError::Capture)?, expected))
}

/// The dtypes of a graph's tensors.
fn dtypes(captured: &CapturedGraph) -> HashMap<TensorId, DType> {
    let made = captured
        .graph
        .operations
        .iter()
        .flat_map(OperationIr::nodes);
    let made = made.map(|tensor| (tensor.id, tensor.dtype));
    let values = captured.values.iter().map(|(id, data)| (*id, data.dtype()));
    values.chain(made).collect()
}

/// The shape and dtype of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec<const D: usize, K = Float> {
    shape: [usize; D],
    dtype: DType,
    kind: PhantomData<K>,
}

impl<const D: usize, K> Spec<D, K> {
    /// An argument of this shape and dtype; the dtype must be of the kind `K`.
    pub fn new(shape: [usize; D], dtype: DType) -> Self {
        Self {
            shape,
            dtype,
            kind: PhantomData,
        }
    }
}

/// The arguments or results of a captured function: a tensor, a tuple of up to six, or a list.
pub trait Arguments: Sized {
    /// The shapes and dtypes of the tensors.
    type Specs;

    /// Makes tensors of these shapes on the capturing device.
    fn placeholders(specs: &Self::Specs, device: &Device) -> Self;

    /// The tensors' ids in the captured graph; `None` for a tensor that isn't in it.
    fn ids(&self) -> Vec<Option<TensorId>>;
}

impl<const D: usize, K: Basic> Arguments for Tensor<D, K> {
    type Specs = Spec<D, K>;

    fn placeholders(spec: &Self::Specs, device: &Device) -> Self {
        let shape = Shape::from(spec.shape);
        let bytes = vec![0; shape.num_elements() * spec.dtype.size()];
        let zeros = TensorData::from_bytes_vec(bytes, shape, spec.dtype);
        Self::from_data(zeros, (device, spec.dtype))
    }

    fn ids(&self) -> Vec<Option<TensorId>> {
        use BackendTensor::{Bool, Float, Int};
        vec![match self.clone().into_dispatch().kind {
            DispatchTensorKind::Capture(Float(t) | Int(t) | Bool(t)) => Some(t.id()),
            _ => None,
        }]
    }
}

impl<A: Arguments> Arguments for Vec<A> {
    type Specs = Vec<A::Specs>;

    fn placeholders(specs: &Self::Specs, device: &Device) -> Self {
        specs
            .iter()
            .map(|spec| A::placeholders(spec, device))
            .collect()
    }

    fn ids(&self) -> Vec<Option<TensorId>> {
        self.iter().flat_map(A::ids).collect()
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Arguments),+> Arguments for ($($name,)+) {
            type Specs = ($($name::Specs,)+);

            fn placeholders(specs: &Self::Specs, device: &Device) -> Self {
                ($($name::placeholders(&specs.$index, device),)+)
            }

            fn ids(&self) -> Vec<Option<TensorId>> {
                [$(self.$index.ids()),+].concat()
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
