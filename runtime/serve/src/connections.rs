//! Connections: accepted up to a number, with limits on their time, until the server stops.

use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;

use crate::options::ServeLimits;
use crate::steady::Steady;

/// Largest head of a request, and the bytes of a body that are read ahead.
const READ_AHEAD: usize = 64 << 10;

/// Longest time for a head: hyper adds it to the clock, which can't tell any time.
const LONGEST_HEAD: Duration = Duration::from_secs(365 * 24 * 3600);

/// Time without accepting after the system had no more connections to give.
const PAUSE: Duration = Duration::from_millis(50);

/// What a client is told whose connection is one too many.
const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 109\r\n\r\n\
    {\"error\":{\"message\":\"too many connections\",\"type\":\"server_error\",\
    \"param\":null,\"code\":\"too_many_connections\"}}";

/// A listener, and what its connections are served with.
pub(crate) struct Connections {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ServeLimits,
    places: Arc<Semaphore>,
    open: GracefulShutdown,
}

impl Connections {
    pub(crate) fn new(
        listener: TcpListener,
        tls: Option<TlsAcceptor>,
        router: Router,
        limits: ServeLimits,
    ) -> Self {
        Self {
            listener,
            tls,
            router,
            limits,
            places: Arc::new(Semaphore::new(
                limits.connections.min(Semaphore::MAX_PERMITS),
            )),
            open: GracefulShutdown::new(),
        }
    }

    /// Accepts and serves connections until `stop`; returns those that are open.
    pub(crate) async fn accept(self, stop: impl Future<Output = ()>) -> GracefulShutdown {
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => return self.open,
            };
            match accepted {
                Ok((stream, peer)) => self.begin(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn begin(&self, stream: TcpStream, peer: SocketAddr) {
        let Ok(place) = self.places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, "one connection too many");
            // tokio writes nothing before it has heard of the connection, and a client that doesn't take this at once is not waited for.
            if self.tls.is_none()
                && let Ok(mut stream) = stream.into_std()
            {
                let _ = stream.write_all(TOO_MANY);
            }
            return;
        };
        let connection = Connection {
            router: self.router.clone(),
            limits: self.limits,
            open: self.open.watcher(),
            place,
        };
        let tls = self.tls.clone();
        tokio::spawn(async move {
            // Tokens go out as they come; a system that can't do so sends them a little later.
            let _ = stream.set_nodelay(true);
            let stream = Steady::new(stream, connection.limits.stalled_time);
            let Some(tls) = tls else {
                return connection.serve(stream).await;
            };
            let within = connection.limits.head_time;
            match tokio::time::timeout(within, tls.accept(stream)).await {
                Ok(Ok(stream)) => connection.serve(stream).await,
                Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS"),
                Err(_) => tracing::debug!(%peer, "TLS took too long"),
            }
        });
    }
}

/// What one connection is served with.
struct Connection {
    router: Router,
    limits: ServeLimits,
    open: Watcher,
    /// Place among the connections, free again when this is dropped.
    place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(self.limits.head_time.min(LONGEST_HEAD))
            .max_buf_size(READ_AHEAD);
        let service = TowerToHyperService::new(self.router);
        let served = http.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = self.open.watch(served).await {
            tracing::debug!(%error, "a connection ended early");
        }
        drop(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_has_the_length_that_it_says() {
        let text = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let length = format!("content-length: {}", body.len());
        assert!(head.ends_with(&length), "{length}");
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
