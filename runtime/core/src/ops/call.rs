//! Calls: the only way to run an operation on a device, with its kernels (on devices that run kernels) and its operands.

use super::StageClock;
#[cfg(feature = "fusion")]
use super::tensors::ValueMetadata;
use super::tensors::{DeviceValue, Named, Tensors};
use crate::Error;
use crate::spans::waited;
#[cfg(feature = "fusion")]
use burn::backend::fusion::custom::TensorSpec;
use burn::backend::{Backend, backend_extension};
#[cfg(feature = "fusion")]
use burn::tensor::Shape;
use burn::tensor::{Device, Int, Tensor};
use cubecl::server::Handle;
use moebius_ops::{Operation, Scalar, Signature, TensorInfo};
use moebius_shaders::{AnyRule, Family, Kernels, Lookup, PlanError, Tiles, Unsupported};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::trace_span;

/// The buffers of a launch, by their names in the description.
#[cfg_attr(not(feature = "cube"), allow(dead_code, reason = "nothing launches"))]
pub(crate) struct Buffers {
    pub(super) handles: Named<Handle>,
    /// The strides of the buffers that are views.
    pub(super) strides: Named<[usize; 3]>,
}

impl Lookup for Buffers {
    fn find(&self, name: &str) -> Option<Handle> {
        self.handles.maybe(name)
    }

    fn strides(&self, name: &str) -> Option<[usize; 3]> {
        self.strides.maybe(name)
    }
}

/// The kernels with which a CubeCL device runs a call.
#[cfg_attr(
    not(all(feature = "cube", feature = "autodiff")),
    allow(dead_code, reason = "nothing launches or records")
)]
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(super) forward: Kernels,
    /// The kernels of the operation that a device that records gradients runs instead, if there is one.
    pub(super) recorded: Option<Kernels>,
    /// The kernels of the gradients through each result, on a device that records gradients.
    pub(super) gradients: Vec<(&'static str, Kernels)>,
}

/// A call without its tensors.
#[cfg_attr(
    not(all(feature = "autodiff", feature = "flex", feature = "cube")),
    allow(dead_code, reason = "nothing records, is timed or launches")
)]
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) signature: Arc<Signature>,
    /// The operation that a device that records gradients runs instead; its additional results are kept for the backward pass.
    pub(crate) recorded: Option<Operation>,
    /// The names of operands after those of the description, which only kernels and backward passes read.
    pub(crate) beside: Vec<&'static str>,
    /// The kernels; present on a CubeCL device.
    pub(super) planned: Option<Planned>,
    /// The program's own rule of an attention, for a device that computes it on the host.
    pub(crate) rule: Option<Arc<dyn AnyRule>>,
    /// A clock that records the time after every stage; each stage then waits for the device.
    pub(crate) clock: Option<StageClock>,
    /// The number of kernels that the call has launched, for a listener.
    pub(crate) launches: Option<Arc<AtomicU64>>,
}

impl Call {
    /// Runs the call; every operation on every device begins here. Where somebody listens, it is a span with the operation's costs and, on
    /// CubeCL's devices, its launches, for which this waits for the device before and after.
    pub(super) fn run<B: Operations>(mut self: Box<Self>, operands: Tensors<B>) -> Tensors<B> {
        if LevelFilter::current() < LevelFilter::TRACE {
            return B::moebius_run(operands, self);
        }
        let operation = self.recorded.as_ref().unwrap_or(&self.operation);
        let span = trace_span!(
            "operation",
            name = self.signature.name,
            family = operation.family(),
            sizes = %operation.signature(),
            bytes = operation.bytes(),
            flops = operation.flops(),
            launches = Empty,
        );
        let launches = self.planned.is_some().then(Arc::<AtomicU64>::default);
        self.launches = launches.clone();
        let device = operands.device();
        let wait = || {
            // A device error shows at the caller's next read; a span only needs the wait.
            let _ = B::sync(&device);
        };
        let results = waited(span.clone(), wait, || B::moebius_run(operands, self));
        if let Some(launches) = launches {
            // Burn's fusion may launch on another thread, for which the span has waited.
            span.record("launches", launches.load(Ordering::Relaxed));
        }
        results
    }

    /// Runs `launch`, and counts the kernels that it launches for a listener.
    #[cfg(feature = "cube")]
    pub(super) fn counted(&self, launch: impl FnOnce()) {
        let count = moebius_shaders::launched::counted(launch);
        if let Some(launches) = &self.launches {
            launches.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(super) fn operands(&self) -> impl Iterator<Item = &'static str> {
        let described = self.signature.operands.iter().map(|operand| operand.name);
        described.chain(self.beside.iter().copied())
    }

    /// Describes the results, followed by the list of tiles if the kernels write one.
    #[cfg(any(feature = "cube", feature = "autodiff"))]
    pub(super) fn results(&self) -> impl Iterator<Item = TensorInfo> {
        let planned = self.planned.as_ref();
        let tiles = planned.and_then(|planned| planned.forward.tiles());
        let tiles = tiles.map(|words| TensorInfo {
            name: "tiles",
            shape: vec![words],
            scalar: Scalar::Word,
            summed: false,
        });
        self.signature.results.iter().cloned().chain(tiles)
    }
}

#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    Remote: cfg(feature = "xla"),
    Capture: cfg(feature = "xla"),
    Fusion: cfg(feature = "fusion"),
    Autodiff: cfg(feature = "autodiff"),
)]
pub(crate) trait Operations: Backend {
    /// Computes the results of a call whose sizes, types and plan the caller has checked.
    #[fusion(meta = results)]
    fn moebius_run(#[extension_type] operands: Tensors<Self>, call: Box<Call>) -> Tensors<Self>;
}

/// Tells Burn's fusion the shapes and types of results that don't exist yet, as the operation describes them.
#[cfg(feature = "fusion")]
fn results(_operands: &Vec<ValueMetadata>, call: &Call) -> Vec<ValueMetadata> {
    let described = call.results();
    let spec = described.map(|result| {
        let dtype = super::dtype(result.scalar);
        let spec = TensorSpec::new(Shape::from(result.shape), dtype);
        match result.scalar {
            Scalar::Float(_) => ValueMetadata::Float(spec),
            Scalar::Word => ValueMetadata::Word(spec),
        }
    });
    spec.collect()
}

/// A call with its operands.
pub(crate) struct Request {
    /// In a box, because it is moved often and takes a kilobyte.
    call: Box<Call>,
    operands: Vec<DeviceValue>,
}

impl Request {
    /// A call of `operation` with its kernels on a device that runs kernels, and the kernels of its gradients if the device records
    /// gradients.
    ///
    /// # Errors
    /// The errors of planning, and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a backend without an implementation here, and
    /// for an operation that the backend doesn't have.
    pub(crate) fn new<F: Family>(
        operation: F,
        device: &Device,
        how: &F::How,
    ) -> Result<Self, Error> {
        let records = device.is_autodiff();
        let planned = crate::device::plan(device, |capability| -> Result<_, PlanError> {
            let gradients = || operation.gradients(how, capability);
            Ok(Planned {
                forward: operation.kernels(how, capability)?,
                recorded: None,
                gradients: if records { gradients()? } else { Vec::new() },
            })
        })?;
        let operation: Operation = operation.into();
        check_exact(&operation, device)?;
        let call = Box::new(Call {
            signature: Arc::new(operation.signature()),
            operation,
            recorded: None,
            beside: Vec::new(),
            planned,
            rule: None,
            clock: None,
            launches: None,
        });
        let operands = Vec::with_capacity(call.signature.operands.len());
        Ok(Self { call, operands })
    }

    /// Adds operands, in the order of the description.
    pub(crate) fn reads<V: Into<DeviceValue>>(
        mut self,
        operands: impl IntoIterator<Item = V>,
    ) -> Self {
        self.operands.extend(operands.into_iter().map(Into::into));
        self
    }

    /// Adds operands that the description doesn't name.
    pub(crate) fn beside(
        mut self,
        operands: impl IntoIterator<Item = (&'static str, DeviceValue)>,
    ) -> Self {
        for (name, operand) in operands {
            self.call.beside.push(name);
            self.operands.push(operand);
        }
        self
    }

    /// Makes a device that records gradients run `operation` instead.
    ///
    /// # Errors
    /// As [`Request::new`].
    pub(crate) fn recorded_as<F: Family>(
        mut self,
        operation: F,
        device: &Device,
        how: &F::How,
    ) -> Result<Self, Error> {
        if device.is_autodiff() {
            let kernels = crate::device::plan(device, |device| operation.kernels(how, device))?;
            if let Some(planned) = &mut self.call.planned {
                planned.recorded = kernels;
            }
            self.call.recorded = Some(operation.into());
        }
        Ok(self)
    }

    /// Adds the program's own rule, for a device that computes it on the host.
    pub(crate) fn ruled(mut self, rule: Option<Arc<dyn AnyRule>>) -> Self {
        self.call.rule = rule;
        self
    }

    /// Adds a clock that times the stages.
    pub(crate) fn timed(mut self, clock: Option<StageClock>) -> Self {
        self.call.clock = clock;
        self
    }

    /// The list of tiles that the kernels read in addition to the operands of the description.
    pub(crate) fn walks(&self) -> Option<Tiles> {
        let planned = self.call.planned.as_ref();
        planned.and_then(|planned| planned.forward.walks())
    }

    /// The call without its operands.
    pub(crate) fn into_call(self) -> Box<Call> {
        self.call
    }

    /// Runs the call; returns the results in the order of the description.
    pub(crate) fn run(self) -> Results {
        let results = self.call.run(Tensors(self.operands));
        Results(results.0.into_iter())
    }
}

/// Refuses a device that can't compute an operation with the same bits everywhere.
fn check_exact(operation: &Operation, device: &Device) -> Result<(), Error> {
    match operation {
        Operation::Exact(_) => check_order(operation.signature().name, device),
        _ => Ok(()),
    }
}

/// Refuses a device that has no exact operations; `name` is that of the one which is asked for.
pub(crate) fn check_order(name: &'static str, device: &Device) -> Result<(), Error> {
    if crate::device::is_xla(device) {
        let needs = "a device that keeps to the order of sums";
        return Err(Unsupported::new(name, needs, "XLA, which chooses an order").into());
    }
    if device.is_autodiff() {
        let needs = "a device that records no gradients";
        return Err(Unsupported::new(name, needs, "gradients recorded").into());
    }
    Ok(())
}

/// The results of a call, taken one after the other.
pub(crate) struct Results(std::vec::IntoIter<DeviceValue>);

impl Results {
    pub(crate) fn next(&mut self) -> Option<DeviceValue> {
        self.0.next()
    }

    pub(crate) fn value(&mut self) -> DeviceValue {
        let next = self.next();
        next.unwrap_or_else(|| unreachable!("an operation has the results of its description"))
    }

    pub(crate) fn floats<const D: usize>(&mut self) -> Tensor<D> {
        self.value().floats()
    }

    pub(crate) fn words<const D: usize>(&mut self) -> Tensor<D, Int> {
        self.value().words()
    }
}
