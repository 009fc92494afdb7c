//! What all requests share: the model's text side, the queue, the engine's thread, and what is measured.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use moebius_grammar::{Grammar, GrammarError, Grammars, Part};
use moebius_text::{ChatTemplate, Tokenizer};
use tokio::sync::Semaphore;

use crate::admission::{Admission, Full, Place};
use crate::error::ApiError;
use crate::form;
use crate::keys::KeyRing;
use crate::metrics::Metrics;
use crate::options::{ServeLimits, ServeOptions};
use crate::phase::{Phase, Phases};
use crate::worker::{JobTimes, Worker};

/// Seconds after which a client may ask again while the model loads or the server stops.
const SOON: u64 = 5;

/// Time that stands for longer ones: ten years.
const NEVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The text side of a served model.
#[derive(Debug)]
pub struct ServedText {
    /// The model's tokenizer.
    pub tokenizer: Tokenizer,
    /// The model's chat template; without one, conversations are refused.
    pub template: Option<ChatTemplate>,
}

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) options: ServeOptions,
    /// Seconds since 1970 at the start.
    pub(crate) created: u64,
    pub(crate) text: ServedText,
    pub(crate) keys: KeyRing,
    pub(crate) admission: Admission,
    pub(crate) worker: Worker,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) phases: Phases,
    /// Bounds the threads that encode prompts and compile grammars, so that they leave the engine a processor.
    encoders: Arc<Semaphore>,
    /// Compiles grammars, once one is asked for.
    grammars: OnceLock<Result<Grammars, GrammarError>>,
}

/// The parts of a service that are made before it.
pub(crate) struct Parts {
    pub(crate) options: ServeOptions,
    pub(crate) text: ServedText,
    pub(crate) keys: KeyRing,
    pub(crate) worker: Worker,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) phases: Phases,
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |time| time.as_secs())
}

impl Service {
    pub(crate) fn new(parts: Parts) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            created: seconds(),
            admission: Admission::new(&parts.options.limits),
            encoders: Arc::new(Semaphore::new((processors / 2).max(1))),
            grammars: OnceLock::new(),
            options: parts.options,
            text: parts.text,
            keys: parts.keys,
            worker: parts.worker,
            metrics: parts.metrics,
            phases: parts.phases,
        }
    }

    /// The server's limits.
    pub(crate) fn limits(&self) -> &ServeLimits {
        &self.options.limits
    }

    /// Checks that the server answers requests now.
    ///
    /// # Errors
    /// 503 while it loads or drains, 500 if the engine is gone.
    pub(crate) fn ready(&self) -> Result<(), ApiError> {
        match self.phases.now() {
            Phase::Ready => Ok(()),
            Phase::Loading => Err(ApiError::unavailable(
                "loading",
                "the model is being loaded",
                SOON,
            )),
            Phase::Draining => Err(ApiError::unavailable(
                "draining",
                "the server is stopping",
                SOON,
            )),
            // Why, with paths of this machine, is for the log: /health/ready needs no key.
            Phase::Unloadable(_) | Phase::Dead(_) => Err(ApiError::internal(
                "engine_failed",
                "the engine failed; the server's log says why",
            )),
        }
    }

    /// Checks that a request would be admitted, before its body is read.
    ///
    /// # Errors
    /// As [`Self::ready`], and 429 if the queue is full.
    pub(crate) fn open(&self) -> Result<(), ApiError> {
        self.ready()?;
        self.admission.check().map_err(|full| self.rejected(full))
    }

    /// Takes places for `count` answers.
    ///
    /// # Errors
    /// 429 if the queue is full, and as [`Self::ready`].
    pub(crate) fn places(&self, count: usize) -> Result<Vec<Place>, ApiError> {
        let places = self.admission.take(count);
        let places = places.map_err(|full| self.rejected(full))?;
        // A stop that began while the body was read may have found no place taken, and waits for none that is taken now.
        self.ready()?;
        Ok(places)
    }

    /// Counts the prompts of a request's answers as waiting: so many tokens for each of the places.
    ///
    /// # Errors
    /// 429 if too many tokens wait.
    pub(crate) fn queue(
        &self,
        places: &mut [Place],
        tokens: impl IntoIterator<Item = usize> + Clone,
    ) -> Result<(), ApiError> {
        let queued = self.admission.queue(places, tokens);
        queued.map_err(|full| self.rejected(full))
    }

    fn rejected(&self, full: Full) -> ApiError {
        self.metrics.rejected(full.what);
        ApiError::full(full)
    }

    /// Checks the name of the model that a request asks for.
    ///
    /// # Errors
    /// 404 for another name.
    pub(crate) fn check_model(&self, asked: &str) -> Result<(), ApiError> {
        if asked == self.options.model {
            Ok(())
        } else {
            Err(ApiError::no_model(&self.options.model, asked))
        }
    }

    /// The times of a request that arrived at `arrived`.
    pub(crate) fn times(&self, arrived: Instant) -> JobTimes {
        // A time that the clock can't tell is as good as none.
        let after = |limit| arrived.checked_add(limit).unwrap_or(arrived + NEVER);
        JobTimes {
            arrived,
            begin_by: after(self.limits().queue_time),
            end_by: after(self.limits().request_time),
        }
    }

    /// Encodes texts by `work`, which takes long for a long one, on a thread for such work.
    ///
    /// # Errors
    /// Those of `work`, and 500 if it panicked.
    pub(crate) async fn encode<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&ServedText) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        self.apart(move |service| work(&service.text)).await
    }

    /// Compiles the grammar of answers that are these parts, on a thread for such work; the field `param` asks for it.
    ///
    /// # Errors
    /// 400 for a schema that can't be followed, and for a model whose tokens can't.
    pub(crate) async fn grammar(
        self: &Arc<Self>,
        param: &'static str,
        parts: Vec<Part>,
    ) -> Result<Grammar, ApiError> {
        self.apart(move |service| {
            let tokenizer = &service.text.tokenizer;
            let grammars = service.grammars.get_or_init(|| Grammars::new(tokenizer));
            let grammars = grammars.as_ref();
            let grammars = grammars.map_err(|error| form::refused(param, error))?;
            let compiled = grammars.compile(&parts);
            compiled.map_err(|error| form::refused(param, &error))
        })
        .await
    }

    /// Runs `work` on a thread for what takes long. A client that leaves doesn't stop it, so the permit goes with the work.
    ///
    /// # Errors
    /// Those of `work`, and 500 if it panicked.
    async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let failed = |what: String| ApiError::internal("encoder_failed", what);
        let permit = self.encoders.clone().acquire_owned().await;
        let permit = permit.map_err(|error| failed(error.to_string()))?;
        let service = self.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(&service)
        });
        done.await.map_err(|error| failed(error.to_string()))?
    }
}
