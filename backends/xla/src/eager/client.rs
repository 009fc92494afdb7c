//! The router's side: a client that hands everything to the device's recorder.

use super::device::XlaDevice;
use super::recorder::Recorder;
use burn_backend::{DType, DTypeUsage, DTypeUsageSet, ExecutionError, Shape, TensorData};
use burn_ir::{GraphBindings, GraphId, OperationIr, TensorId, TensorIr};
use burn_router::{Graph, MultiBackendBridge, RouterChannel, RouterClient, RouterTensor};
use burn_std::future::DynFut;
use std::sync::Arc;

/// Burn's backend for devices of XLA.
pub type XlaBackend = burn_router::BackendRouter<XlaChannel>;

/// The channel of [`XlaBackend`].
#[derive(Clone, Debug)]
pub struct XlaChannel;

/// Records operations of one device.
#[derive(Clone)]
pub struct XlaClient {
    device: XlaDevice,
    recorder: Arc<Recorder>,
}

impl RouterChannel for XlaChannel {
    type Device = XlaDevice;
    type Bridge = XlaBridge;
    type Client = XlaClient;

    fn name(device: &XlaDevice) -> String {
        format!("xla-{device:?}")
    }

    fn init_client(device: &XlaDevice) -> XlaClient {
        let recorder = device.recorder();
        let unopened = || unreachable!("devices are opened before they are named");
        XlaClient {
            device: *device,
            recorder: recorder.unwrap_or_else(unopened),
        }
    }

    fn get_tensor_handle(tensor: &TensorIr, client: &XlaClient) -> Handle {
        let data = client.recorder.read(tensor);
        data.map_err(|error| error.to_string())
    }

    fn register_tensor(
        client: &XlaClient,
        handle: Handle,
        shape: Shape,
        dtype: DType,
    ) -> RouterTensor<XlaClient> {
        let id = match handle {
            Ok(data) => client.recorder.upload(data),
            Err(reason) => client.recorder.failed(reason),
        };
        RouterTensor::new(id, shape, dtype, client.clone())
    }
}

/// A tensor on its way, or why it couldn't be read.
type Handle = Result<TensorData, String>;

/// Moves tensors between two devices of XLA, by way of the host.
pub struct XlaBridge;

impl MultiBackendBridge for XlaBridge {
    type TensorHandle = Handle;
    type Device = XlaDevice;

    fn change_backend_float(tensor: Handle, _: Shape, _: &XlaDevice) -> Handle {
        tensor
    }

    fn change_backend_int(tensor: Handle, _: Shape, _: &XlaDevice) -> Handle {
        tensor
    }

    fn change_backend_bool(tensor: Handle, _: Shape, _: &XlaDevice) -> Handle {
        tensor
    }
}

impl RouterClient for XlaClient {
    type Device = XlaDevice;

    fn register_op(&self, operation: OperationIr) {
        self.recorder.record(operation);
    }

    fn read_tensor_async(&self, tensor: TensorIr) -> DynFut<Result<TensorData, ExecutionError>> {
        let data = self.recorder.read(&tensor);
        Box::pin(
            async move { data.map_err(|error| ExecutionError::with_context(error.to_string())) },
        )
    }

    fn sync(&self) -> Result<(), ExecutionError> {
        let done = self.recorder.sync();
        done.map_err(|error| ExecutionError::with_context(error.to_string()))
    }

    fn flush(&self) {
        self.recorder.flush();
    }

    fn create_empty_handle(&self) -> TensorId {
        self.recorder.new_id()
    }

    fn register_tensor_data(&self, data: TensorData) -> RouterTensor<Self> {
        let (shape, dtype) = (data.shape().clone(), data.dtype());
        RouterTensor::new(self.recorder.upload(data), shape, dtype, self.clone())
    }

    fn device(&self) -> XlaDevice {
        self.device
    }

    fn seed(&self, seed: u64) {
        self.recorder.seed(seed);
    }

    fn dtype_usage(&self, dtype: DType) -> DTypeUsageSet {
        match dtype {
            DType::QFloat(_) => DTypeUsageSet::empty(),
            _ => DTypeUsage::general(),
        }
    }

    fn register_and_execute_graph(
        &self,
        id: GraphId,
        operations: Vec<OperationIr>,
        bindings: GraphBindings,
    ) {
        self.recorder.keep_graph(id, Graph::new(operations));
        self.execute_graph(id, bindings);
    }

    fn execute_graph(&self, id: GraphId, bindings: GraphBindings) {
        if let Some(graph) = self.recorder.graph(id) {
            for operation in graph.bind(bindings).operations {
                self.recorder.record(operation);
            }
        }
    }

    fn register_alias(&self, new: TensorId, source: TensorId) {
        self.recorder.alias(new, source);
    }
}
