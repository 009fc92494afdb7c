//! A server from its start to its end.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::api;
use crate::connections::Connections;
use crate::error::ServeError;
use crate::keys::KeyRing;
use crate::metrics::Metrics;
use crate::options::ServeOptions;
use crate::phase::{Phase, Phases};
use crate::service::{Parts, ServedText, Service};
use crate::tls::Certificate;
use crate::worker::{Command, Loader, Worker};

/// Time for which the end of a server waits for the last bytes of responses, and for the engine's thread.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// Where a server listens, and whom it answers.
#[derive(Debug)]
pub struct Access {
    /// Address to listen on; port 0 takes any that is free.
    pub address: SocketAddr,
    /// Keys of those who may use the server; without any, everybody may.
    pub keys: KeyRing,
    /// Whether everybody may use an address that other machines reach.
    pub insecure: bool,
    /// Certificate for TLS; without one, the server speaks plain HTTP.
    pub certificate: Option<Certificate>,
}

impl Access {
    /// Access by everybody on this machine, on a port.
    pub fn local(port: u16) -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            keys: KeyRing::default(),
            insecure: false,
            certificate: None,
        }
    }
}

/// A server that listens, while its model is being loaded or ready.
pub struct Server {
    address: SocketAddr,
    connections: Connections,
    service: Arc<Service>,
    /// Thread of the engine.
    engine: JoinHandle<()>,
}

impl Server {
    /// Begins to listen, and to load the model by `loader` on a thread of its own.
    ///
    /// # Errors
    /// [`ServeError::Insecure`] for an address that others reach, without keys and without leave; [`ServeError::Listen`], [`ServeError::Tls`]
    /// and [`ServeError::Thread`].
    pub async fn start(
        options: ServeOptions,
        access: Access,
        text: ServedText,
        loader: Loader,
    ) -> Result<Self, ServeError> {
        let address = access.address;
        if !address.ip().is_loopback() && access.keys.is_empty() && !access.insecure {
            let address = address.to_string();
            return Err(ServeError::Insecure { address });
        }
        let tls = access.certificate.map(Certificate::acceptor).transpose()?;
        let failed = |source| ServeError::Listen {
            address: address.to_string(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let phases = Phases::new();
        let metrics = Arc::new(Metrics::new(&options.model, options.context));
        let started = Worker::start(loader, metrics.clone(), phases.clone(), options.lost);
        let (worker, engine) = started.map_err(ServeError::Thread)?;
        let service = Arc::new(Service::new(Parts {
            options,
            text,
            keys: access.keys,
            worker,
            metrics,
            phases,
        }));
        let router = api::router(service.clone());
        let limits = *service.limits();
        Ok(Self {
            address,
            connections: Connections::new(listener, tls, router, limits),
            service,
            engine,
        })
    }

    /// The address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until `stop`, and then until those under way have ended or the time for that is over: what is left then ends with
    /// an error. New requests are refused meanwhile.
    ///
    /// # Errors
    /// [`ServeError::Load`] if the model can't be loaded, and [`ServeError::Engine`] if the engine fails. All requests have been told so.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let Self {
            connections,
            service,
            engine,
            ..
        } = self;
        let (close, closed) = oneshot::channel::<()>();
        let closed = async {
            // The sender's end counts as well.
            let _ = closed.await;
        };
        let accepting = tokio::spawn(connections.accept(closed));
        let outcome = tokio::select! {
            () = stop => drained(&service).await,
            failed = service.phases.failed() => Err(error_of(failed)),
        };
        drop(close);
        // The tasks of connections hold what they need.
        if let Ok(open) = accepting.await
            && tokio::time::timeout(LAST_BYTES, open.shutdown())
                .await
                .is_err()
        {
            tracing::warn!("connections were left open");
        }
        let traces = service.options.traces.clone();
        // The engine's thread ends with the last handle, and gives the device's memory back before the process ends.
        drop(service);
        let joined = tokio::task::spawn_blocking(move || engine.join().is_ok());
        if tokio::time::timeout(LAST_BYTES, joined).await.is_err() {
            tracing::warn!("the engine's thread was left");
        }
        traces.end().await;
        outcome
    }
}

/// Waits until the requests under way have ended, and ends what takes too long.
async fn drained(service: &Service) -> Result<(), ServeError> {
    service.phases.enter(Phase::Draining);
    let limit = service.limits().drain_time;
    tracing::info!(requests = service.admission.taken(), "draining");
    tokio::select! {
        ended = tokio::time::timeout(limit, service.admission.idle()) => if ended.is_err() {
            tracing::warn!(requests = service.admission.taken(), "ending what is left");
            // An engine that is gone has ended its requests.
            let _ = service.worker.send(Command::Abort);
            let _ = tokio::time::timeout(LAST_BYTES, service.admission.idle()).await;
        },
        failed = service.phases.failed() => return Err(error_of(failed)),
    }
    Ok(())
}

fn error_of(phase: Phase) -> ServeError {
    match phase {
        Phase::Unloadable(why) => ServeError::Load(why),
        Phase::Dead(why) => ServeError::Engine(why),
        Phase::Loading | Phase::Ready | Phase::Draining => {
            unreachable!("a server fails in no other phase")
        }
    }
}
