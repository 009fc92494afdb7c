//! Signals that a server gets: the first one that ends a process drains it, the second ends it at once, and SIGHUP reads its keys again.

use std::io;

use moebius_serve::{KeyRing, Keys};

use crate::error::CliError;

/// Signals that end the process.
pub(crate) struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

/// Exit status of a process that a signal ended, as in shells.
const INTERRUPTED: i32 = 130;
#[cfg(unix)]
const TERMINATED: i32 = 143;

#[cfg(unix)]
impl Signals {
    /// Takes the signals from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: Some(signal(SignalKind::hangup())?),
        })
    }

    /// Calls `read` for the keys at each SIGHUP; keys that can't be read leave those that there are.
    pub(crate) fn reload(
        &mut self,
        ring: KeyRing,
        read: impl Fn() -> Result<Keys, CliError> + Send + 'static,
    ) {
        let Some(mut hangup) = self.hangup.take() else {
            return;
        };
        tokio::spawn(async move {
            while hangup.recv().await.is_some() {
                match read() {
                    Ok(keys) => {
                        tracing::info!("the keys were read again");
                        ring.replace(keys);
                    }
                    Err(error) => tracing::error!(%error, "the keys stay as they are"),
                }
            }
        });
    }

    /// Waits for the first signal that ends the process; the second then ends it at once.
    pub(crate) async fn first(mut self) {
        self.next().await;
        tokio::spawn(async move {
            let status = self.next().await;
            std::process::exit(status);
        });
    }

    /// Waits for a signal, and returns the exit status that goes with it.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.terminate.recv() => TERMINATED,
            _ = self.interrupt.recv() => INTERRUPTED,
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Takes the signals from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Does nothing: there is no signal to read keys again.
    pub(crate) fn reload(
        &mut self,
        _: KeyRing,
        _: impl Fn() -> Result<Keys, CliError> + Send + 'static,
    ) {
    }

    /// Waits for Ctrl-C; the second one then ends the process at once.
    pub(crate) async fn first(self) {
        // Without the signal, the process runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::spawn(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED);
            }
        });
    }
}
