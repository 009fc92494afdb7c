//! The one way into a device: an operation, its kernels where the device runs kernels, and its operands.

use super::StageClock;
use super::tensors::{DeviceValue, Named, Tensors};
use crate::Error;
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::tensor::{Device, Int, Tensor};
use cubecl::client::Client;
use cubecl::server::Handle;
use moebius_device::Capability;
use moebius_ops::attention::HostRule;
use moebius_ops::{Operation, Scalar, Signature, TensorInfo};
use moebius_shaders::{FromNames, Lookup};
use std::fmt;
use std::sync::Arc;

/// The buffers of a launch by the names of the description.
#[cfg_attr(not(feature = "cube"), allow(dead_code, reason = "nothing launches"))]
pub(crate) struct Buffers {
    pub(super) handles: Named<Handle>,
    /// Of the views among them.
    pub(super) strides: Named<[usize; 3]>,
}

impl Buffers {
    pub(crate) fn get(&self, name: &str) -> Handle {
        self.handles.get(name)
    }

    pub(crate) fn maybe(&self, name: &str) -> Option<Handle> {
        self.handles.maybe(name)
    }
}

impl Lookup for Buffers {
    fn find(&self, name: &str) -> Option<Handle> {
        self.maybe(name)
    }

    fn strides(&self, name: &str) -> Option<[usize; 3]> {
        self.strides.maybe(name)
    }
}

/// Enqueues the kernels of one operation, as they were planned.
#[cfg_attr(not(feature = "cube"), allow(dead_code, reason = "nothing launches"))]
#[derive(Clone)]
pub(crate) struct Launch(Arc<Enqueue>);

type Enqueue = dyn Fn(&Client, &Buffers) + Send + Sync;

impl Launch {
    pub(crate) fn new(launch: impl Fn(&Client, &Buffers) + Send + Sync + 'static) -> Self {
        Self(Arc::new(launch))
    }

    #[cfg(feature = "cube")]
    pub(super) fn run(&self, client: &Client, buffers: &Buffers) {
        (self.0)(client, buffers);
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Launch")
    }
}

/// How a CubeCL device runs a call.
#[cfg_attr(
    not(all(feature = "cube", feature = "autodiff")),
    allow(dead_code, reason = "nothing launches or records")
)]
#[derive(Clone, Debug)]
pub(crate) struct Kernels {
    pub(crate) forward: Launch,
    /// Of the gradients; present where the device records.
    pub(crate) backward: Option<Launch>,
    /// Words of the list of tiles that a sort writes beside the results of its description.
    pub(crate) tiles: Option<usize>,
    /// Operands \[B, H, S, D\] that the forward reads where a view has them; all others are made contiguous first.
    pub(crate) strided: &'static [&'static str],
}

impl Kernels {
    pub(crate) fn new(launch: impl Fn(&Client, &Buffers) + Send + Sync + 'static) -> Self {
        Self {
            forward: Launch::new(launch),
            backward: None,
            tiles: None,
            strided: &[],
        }
    }

    /// The same, whose forward reads these operands by their strides.
    pub(crate) fn strided(self, strided: &'static [&'static str]) -> Self {
        Self { strided, ..self }
    }

    /// What `launch` enqueues of `plan`, given the buffers by their names.
    pub(crate) fn of<P: Send + Sync + 'static, B: FromNames>(
        plan: P,
        launch: impl Fn(&Client, &P, B) + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |client, b| launch(client, &plan, b.fill()))
    }

    /// The same, and the gradients.
    pub(crate) fn with_backward(
        self,
        launch: impl Fn(&Client, &Buffers) + Send + Sync + 'static,
    ) -> Self {
        Self {
            backward: Some(Launch::new(launch)),
            ..self
        }
    }

    /// The same, and what `launch` enqueues of `plan` for the gradients.
    pub(crate) fn and_back<P: Send + Sync + 'static, B: FromNames>(
        self,
        plan: P,
        launch: impl Fn(&Client, &P, B) + Send + Sync + 'static,
    ) -> Self {
        self.with_backward(move |client, b| launch(client, &plan, b.fill()))
    }
}

/// All of a call but its tensors.
#[cfg_attr(
    not(all(feature = "autodiff", feature = "flex")),
    allow(dead_code, reason = "nothing records or is timed")
)]
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operation: Operation,
    pub(crate) signature: Arc<Signature>,
    /// The operation that a recording device runs instead: its further results are kept for the backward pass.
    pub(crate) recorded: Option<Operation>,
    /// Operands after those of the description: what only kernels and backward passes read.
    pub(crate) beside: Vec<&'static str>,
    /// Present on a CubeCL device.
    pub(crate) kernels: Option<Kernels>,
    /// Of an attention: the program's own rule, for a device that computes it on the host.
    pub(crate) rule: Option<Arc<dyn HostRule>>,
    /// Where to note the time after every stage; the device is waited for.
    pub(crate) clock: Option<StageClock>,
}

impl Call {
    pub(super) fn operands(&self) -> impl Iterator<Item = &'static str> {
        let described = self.signature.operands.iter().map(|operand| operand.name);
        described.chain(self.beside.iter().copied())
    }

    /// The results, and the list of tiles where kernels write one.
    #[cfg(any(feature = "cube", feature = "autodiff"))]
    pub(super) fn results(&self) -> impl Iterator<Item = TensorInfo> {
        let tiles = self.kernels.as_ref().and_then(|kernels| kernels.tiles);
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
    /// The results of a call, whose sizes, types and plan the caller has checked.
    #[fusion(meta = super::fusion::results)]
    fn moebius_run(#[extension_type] operands: Tensors<Self>, call: Call) -> Tensors<Self>;
}

/// A call with its operands.
pub(crate) struct Request {
    call: Call,
    operands: Vec<DeviceValue>,
}

impl Request {
    /// A call of `operation`, with the kernels that `plan` makes of what the device can do, if it runs kernels.
    ///
    /// # Errors
    /// What `plan` says, and [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for a backend without an
    /// implementation of ours.
    pub(crate) fn plan<E: Into<Error>>(
        operation: impl Into<Operation>,
        device: &Device,
        plan: impl FnOnce(&Capability) -> Result<Kernels, E>,
    ) -> Result<Self, Error> {
        let operation = operation.into();
        let call = Call {
            signature: Arc::new(operation.signature()),
            operation,
            recorded: None,
            beside: Vec::new(),
            kernels: crate::device::plan(device, plan)?,
            rule: None,
            clock: None,
        };
        let operands = Vec::new();
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

    /// The same; a recording device runs `operation` instead.
    pub(crate) fn recorded_as(mut self, operation: impl Into<Operation>) -> Self {
        self.call.recorded = Some(operation.into());
        self
    }

    /// The same, with a rule of the program's own.
    pub(crate) fn ruled(mut self, rule: Option<Arc<dyn HostRule>>) -> Self {
        self.call.rule = rule;
        self
    }

    /// The same, timed.
    pub(crate) fn timed(mut self, clock: Option<StageClock>) -> Self {
        self.call.clock = clock;
        self
    }

    /// The call without its operands.
    pub(crate) fn into_call(self) -> Call {
        self.call
    }

    /// The results in the order of the description.
    pub(crate) fn run(self) -> Results {
        let results = Dispatch::moebius_run(Tensors(self.operands), self.call);
        Results(results.0.into_iter())
    }
}

/// Results, taken one after the other.
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
