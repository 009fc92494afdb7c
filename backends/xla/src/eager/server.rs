//! A server inside the process, so that ordinary tensors reach [`XlaBackend`].
//!
//! The list of backends that `Tensor` dispatches to is closed; what is open is Burn's remote backend,
//! which sends operations to a server of any backend. Ours listens on a port of the loopback interface
//! that the system chose, and lets in who knows a token that never leaves the process.

use super::client::{XlaBackend, XlaClient};
use super::device::XlaDevice;
use super::recorder::Recorder;
use crate::custom::ID;
use burn::remote::RemoteHost;
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};
use burn_remote::server::{BackendServer, TokenAuthorizer, WebSocketTransport};
use burn_router::{RouterClient, RouterTensor};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

/// Serves a device for each of these recorders to this process, until it ends.
pub(crate) fn serve(recorders: &[Arc<Recorder>]) -> io::Result<RemoteHost> {
    let devices: Vec<_> = recorders.iter().cloned().map(XlaDevice::open).collect();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("ws://127.0.0.1:{}", listener.local_addr()?.port());
    let token = format!(
        "{:016x}{:016x}",
        crate::host::entropy(),
        crate::host::entropy()
    );
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
            // It ends with the process. If it ends before, devices say so themselves when they are used.
            let _served =
                runtime.block_on(server.serve_async(WebSocketTransport::from_listener(listener)));
        })?;
    Ok(RemoteHost::websocket(&url).with_credential(token))
}

/// Records one of our operations on the device.
fn run_custom(
    handles: &mut HandleContainer<RouterTensor<XlaClient>>,
    ir: &CustomOpIr,
    device: &XlaDevice,
) {
    let client = burn_router::get_client::<super::client::XlaChannel>(device);
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
