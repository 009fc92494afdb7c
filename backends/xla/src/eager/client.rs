//! The path of ordinary tensors to a recorder: a server inside the process, the router that it hosts, and the router's
//! client and devices.
//!
//! The list of backends that `Tensor` dispatches to is closed, but one of them is Burn's remote backend, which sends
//! operations to a server that may host any backend. This crate's server listens on a port of the loopback interface
//! that the system chooses, and accepts only clients with a token that never leaves the process.

use super::recorder::Recorder;
use crate::custom::ID;
use crate::machine::entropy;
use burn::remote::RemoteHost;
use burn_backend::{
    BoolStore, DType, DTypeUsage, DTypeUsageSet, DeviceId, DeviceOps, DeviceSettings,
    ExecutionError, Shape, TensorData,
};
use burn_ir::{
    CustomOpIr, GraphBindings, GraphId, HandleContainer, OperationIr, TensorId, TensorIr,
};
use burn_remote::server::{BackendServer, TokenAuthorizer, WebSocketTransport};
use burn_router::{Graph, MultiBackendBridge, RouterChannel, RouterClient, RouterTensor};
use burn_std::device::Device;
use burn_std::future::DynFut;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// A device whose tensors are recorded and run by XLA, by the number that it got when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XlaDevice {
    index: u16,
}

/// The recorders of all opened devices. They live as long as the process, as the plugins do.
static OPENED: Mutex<Vec<Arc<Recorder>>> = Mutex::new(Vec::new());

/// The type id of these devices. Burn's own backends have small numbers, and its server passes this one through.
const TYPE_ID: u16 = 0x584c;

impl XlaDevice {
    fn open(recorder: Arc<Recorder>) -> Self {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.push(recorder);
        Self {
            index: (opened.len() - 1) as u16,
        }
    }

    /// The device's recorder; `None` for a number that no device has.
    fn recorder(self) -> Option<Arc<Recorder>> {
        let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        opened.get(self.index as usize).cloned()
    }
}

impl Device for XlaDevice {
    fn from_id(id: DeviceId) -> Self {
        Self { index: id.index_id }
    }

    fn to_id(&self) -> DeviceId {
        DeviceId {
            type_id: TYPE_ID,
            index_id: self.index,
        }
    }
}

impl DeviceOps for XlaDevice {
    fn defaults(&self) -> DeviceSettings {
        DeviceSettings::new(
            DType::F32,
            DType::I32,
            DType::Bool(BoolStore::Native),
            Default::default(),
        )
    }
}

/// Burn's backend for devices of XLA.
pub type XlaBackend = burn_router::BackendRouter<XlaChannel>;

/// The channel of [`XlaBackend`].
#[derive(Clone, Debug)]
pub struct XlaChannel;

/// A client that records the operations of one device.
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

/// A tensor in transit between devices, or the reason why it couldn't be read.
type Handle = Result<TensorData, String>;

/// Moves tensors between two devices of XLA, through the host.
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

/// Serves one device for each recorder, inside this process and until it ends.
pub(crate) fn serve(recorders: &[Arc<Recorder>]) -> io::Result<RemoteHost> {
    let devices: Vec<_> = recorders.iter().cloned().map(XlaDevice::open).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("ws://127.0.0.1:{}", listener.local_addr()?.port());
    let token = format!("{:016x}{:016x}", entropy(), entropy());
    let authorizer = TokenAuthorizer::new(token.as_str()).map_err(io::Error::other)?;
    let server = BackendServer::<XlaBackend>::new(devices)
        .with_authorizer(authorizer)
        .with_custom_op(ID, run_custom);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("xla-server")
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("xla-server".into())
        .spawn(move || {
            // The server ends with the process. If it ends before, devices report that when they are used.
            let _served =
                runtime.block_on(server.serve_async(WebSocketTransport::from_listener(listener)));
        })?;
    Ok(RemoteHost::websocket(&url).with_credential(token))
}

/// Records one of Moebius's custom operations on the device.
fn run_custom(
    handles: &mut HandleContainer<RouterTensor<XlaClient>>,
    ir: &CustomOpIr,
    device: &XlaDevice,
) {
    let client = burn_router::get_client::<XlaChannel>(device);
    let inputs = ir
        .inputs
        .iter()
        .map(|tensor| handles.get_float_tensor::<XlaBackend>(tensor).into_ir());
    let inputs: Vec<TensorIr> = inputs.collect();
    let outputs = ir.outputs.iter().map(|tensor| TensorIr {
        id: client.create_empty_handle(),
        ..tensor.clone()
    });
    let operation = CustomOpIr {
        id: ir.id.clone(),
        inputs,
        outputs: outputs.collect(),
        scalars: ir.scalars.clone(),
    };
    let results = client.register(OperationIr::Custom(operation));
    for (tensor, result) in ir.outputs.iter().zip(results) {
        handles.register_float_tensor::<XlaBackend>(&tensor.id, result);
    }
}
