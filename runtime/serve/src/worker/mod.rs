//! The thread that owns the engine: it takes answers to generate, steps while there is work, and hands tokens to the streams of clients.
//!
//! The thread waits for no client. A stream has room for all tokens of its answer, and an answer whose stream is gone is cancelled before the
//! next step. When the engine fails or panics, all streams end without their last update, which clients are told as a failure.

mod generator;
mod job;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

pub use generator::Generator;
pub(crate) use job::{Command, Failure, Finish, Job, JobTimes, Logits, Update};

use moebius_engine::{Ended, Event, Generation};

use crate::metrics::Metrics;
use crate::panics::message_of;
use crate::phase::{Phase, Phases};
use run::Run;

/// Name of the thread.
const THREAD: &str = "moebius-engine";

/// Error of a loader.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Function that loads a model and makes its engine, on the thread that then runs it.
pub type Loader = Box<dyn FnOnce() -> Result<Box<dyn Generator>, LoadError> + Send>;

/// Tells why results since the last call are invalid, if they are.
pub(crate) type Lost = fn() -> Option<String>;

/// A handle of the thread, which ends when all handles are dropped and all answers have ended.
#[derive(Clone, Debug)]
pub(crate) struct Worker(mpsc::Sender<Command>);

impl Worker {
    /// Starts the thread, which loads the model and makes the server ready; returns a handle for commands, and the one that waits for the
    /// thread's end.
    ///
    /// # Errors
    /// The system's error if there can be no more threads.
    pub(crate) fn start(
        loader: Loader,
        metrics: Arc<Metrics>,
        phases: Phases,
        lost: Lost,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let (sender, commands) = mpsc::channel();
        let thread = thread::Builder::new().name(THREAD.to_owned());
        let thread = thread.spawn(move || live(loader, &commands, (&metrics, lost), &phases))?;
        Ok((Self(sender), thread))
    }

    /// Gives the thread a command.
    ///
    /// # Errors
    /// [`Failure::Gone`] if the thread has ended.
    pub(crate) fn send(&self, command: Command) -> Result<(), Failure> {
        self.0.send(command).map_err(|_| Failure::Gone)
    }
}

/// Loads the model and answers commands until no handle is left, or until the engine fails. Commands that are still in the channel then are
/// dropped with it, and so told as failures.
fn live(
    loader: Loader,
    commands: &mpsc::Receiver<Command>,
    (metrics, lost): (&Metrics, Lost),
    phases: &Phases,
) {
    let loaded = guarded(|| {
        let mut generator = loader().map_err(|error| error.to_string())?;
        warm_up(&mut *generator)?;
        lost().map_or(Ok(()), Err)?;
        Ok(generator)
    });
    let mut generator = match loaded {
        Ok(generator) => generator,
        Err(why) => {
            tracing::error!(why, "the model could not be loaded");
            return phases.enter(Phase::Unloadable(why));
        }
    };
    phases.enter(Phase::Ready);
    tracing::info!("ready");
    if let Err(why) = guarded(|| Run::new(&mut *generator, metrics, lost).all(commands)) {
        tracing::error!(why, "the engine failed");
        // A device that failed may fail again while its memory is given back, so the phase comes first.
        phases.enter(Phase::Dead(why));
    }
}

/// Generates one token, whose logits must be finite.
fn warm_up(generator: &mut dyn Generator) -> Result<(), String> {
    let generation = Generation::new(vec![0], 1);
    let told = |error: moebius_engine::EngineError| error.to_string();
    generator.add(generation).map_err(told)?;
    while !generator.is_idle() {
        for (_, event) in generator.step().map_err(told)? {
            match event {
                Event::End(Ended::Failed(error)) => return Err(error.to_string()),
                Event::End(Ended::NoRoom(error)) => return Err(error.to_string()),
                Event::Token(_) | Event::End(Ended::Stop | Ended::Length) => {}
            }
        }
    }
    Ok(())
}

/// Runs `call`, and makes the message of a panic its error.
fn guarded<T>(call: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let called = catch_unwind(AssertUnwindSafe(call));
    called.unwrap_or_else(|panic| Err(format!("a panic: {}", message_of(&*panic))))
}
