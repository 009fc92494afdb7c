//! The loop of the engine's thread.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use moebius_engine::{Draw, Ended, EngineError, Event, Generation, RequestId, SampleError};
use moebius_text::Piece;

use super::Lost;
use super::generator::Generator;
use super::job::{Command, Failure, Finish, Job, Logits, Update};
use crate::metrics::{AnswerTimes, EngineLoad, Metrics};

/// A run of the engine, with the answers under way.
pub(super) struct Run<'a> {
    generator: &'a mut dyn Generator,
    metrics: &'a Metrics,
    lost: Lost,
    active: HashMap<RequestId, Active>,
    /// Requests for logits, in the order of arrival.
    logits: VecDeque<Logits>,
    /// Whether all answers were ended because the server stops, so that none begins any more.
    aborted: bool,
    /// How the engine was loaded when that was last told.
    told: EngineLoad,
    /// Experts' tokens, and when they were last told.
    experts: ExpertsTold,
}

/// When the tokens of experts were last told. Reading them waits for the device, so it isn't done after every step.
struct ExpertsTold {
    at: Instant,
    /// Whether a step was computed since then.
    behind: bool,
}

/// Time after which the tokens of experts are told while the engine works.
const EXPERTS: Duration = Duration::from_secs(1);

/// An answer under way.
struct Active {
    job: Job,
    times: AnswerTimes,
    /// Number of prompt tokens.
    prompt: usize,
    /// Number of generated tokens.
    generated: usize,
}

impl<'a> Run<'a> {
    /// A run without answers. What the engine counted before is left out.
    pub(super) fn new(generator: &'a mut dyn Generator, metrics: &'a Metrics, lost: Lost) -> Self {
        let told = load_of(generator);
        Self {
            generator,
            metrics,
            lost,
            active: HashMap::new(),
            logits: VecDeque::new(),
            aborted: false,
            told,
            experts: ExpertsTold {
                at: Instant::now(),
                behind: false,
            },
        }
    }

    /// Answers commands until there can be no more.
    ///
    /// # Errors
    /// Why the engine can't go on.
    pub(super) fn all(mut self, commands: &Receiver<Command>) -> Result<(), String> {
        loop {
            self.tell_load();
            self.tell_experts()?;
            if self.active.is_empty() && self.logits.is_empty() {
                match commands.recv() {
                    Ok(command) => self.take(command),
                    Err(_) => return Ok(()),
                }
            }
            for command in commands.try_iter() {
                self.take(command);
            }
            self.end_overdue();
            self.compute_logits()?;
            if !self.generator.is_idle() {
                self.step()?;
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Answer(job, _) if self.aborted => job.last(Err(Failure::Draining)),
            Command::Answer(job, generation) => self.add(*job, generation),
            Command::Logits(logits) => self.logits.push_back(logits),
            Command::Abort => {
                self.aborted = true;
                for id in self.ids() {
                    self.fail(id, Failure::Draining);
                }
                for logits in self.logits.drain(..) {
                    // A client that left needs no reply.
                    let _ = logits.reply.send(Err(Failure::Draining));
                }
            }
        }
    }

    fn add(&mut self, job: Job, generation: Generation) {
        let prompt = generation.prompt.len();
        match self.generator.add(generation) {
            Ok(id) => {
                let times = AnswerTimes {
                    arrived: job.times.arrived,
                    begun: None,
                    first: None,
                    last: None,
                };
                let active = Active {
                    job,
                    times,
                    prompt,
                    generated: 0,
                };
                self.active.insert(id, active);
            }
            Err(error) => {
                job.last(Err(Failure::Refused(error.to_string())));
            }
        }
    }

    /// Cancels answers whose clients have left, and ends those that took too long.
    fn end_overdue(&mut self) {
        let now = Instant::now();
        for id in self.ids() {
            let Some(active) = self.active.get(&id) else {
                continue;
            };
            if active.job.updates.is_closed() {
                self.generator.cancel(id);
                self.active.remove(&id);
            } else if active.times.begun.is_none() && now > active.job.times.begin_by {
                self.fail(id, Failure::Queued);
            } else if now > active.job.times.end_by {
                self.fail(id, Failure::Slow);
            }
        }
    }

    /// Answers one request for logits, so that a step of the answers under way comes between two.
    fn compute_logits(&mut self) -> Result<(), String> {
        self.logits.retain(|logits| !logits.reply.is_closed());
        let Some(mut logits) = self.logits.pop_front() else {
            return Ok(());
        };
        logits.place.begin();
        let reply = match self.generator.last_logits(&logits.tokens) {
            Ok(computed) => Ok(computed),
            Err(EngineError::Unfit(error)) => Err(Failure::Refused(error.to_string())),
            Err(error) => return Err(error.to_string()),
        };
        (self.lost)().map_or(Ok(()), Err)?;
        // A client that left meanwhile needs no reply.
        let _ = logits.reply.send(reply);
        Ok(())
    }

    /// Computes a step, and hands its events to the streams.
    fn step(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let events = self.generator.step().map_err(|error| error.to_string())?;
        (self.lost)().map_or(Ok(()), Err)?;
        self.tell_load();
        self.experts.behind = true;
        let summary = self.generator.last_step();
        self.metrics.step(summary);
        for id in &summary.began {
            if let Some(active) = self.active.get_mut(id)
                && active.times.begun.is_none()
            {
                active.times.begun = Some(begun);
                active.job.trace.told("begun", active.job.choice, begun);
                active.job.place.begin();
            }
        }
        let now = Instant::now();
        for (id, event) in events {
            match event {
                Event::Token(draw) => self.token(id, draw, now),
                Event::End(Ended::Stop) => self.end(id, Finish::Stop),
                Event::End(Ended::Length) => self.end(id, Finish::Length),
                // What the request asks for can't be followed within the limits of its grammar.
                Event::End(Ended::Failed(SampleError::Constraint(error))) => {
                    self.fail(id, Failure::Refused(error.to_string()));
                }
                Event::End(Ended::Failed(error)) => {
                    self.fail(id, Failure::Unusable(error.to_string()));
                }
                Event::End(Ended::NoRoom(error)) => {
                    self.fail(id, Failure::NoRoom(error.to_string()));
                }
            }
        }
        Ok(())
    }

    /// Hands the next token of an answer to its stream; a stop string ends the answer.
    fn token(&mut self, id: RequestId, draw: Draw, now: Instant) {
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        active.count_prompt(self.metrics);
        self.metrics.token(&active.times, now);
        active.generated += 1;
        if active.times.first.is_none() {
            active.times.first = Some(now);
            active.job.trace.told("first token", active.job.choice, now);
        }
        active.times.last = Some(now);
        match active.job.text.push(draw.id) {
            Ok(Piece { text, stop }) => {
                active.job.send(Update::Token { draw, text });
                if stop.is_some() {
                    self.generator.cancel(id);
                    self.finish(id, Finish::Stop, String::new());
                }
            }
            Err(error) => self.fail(id, Failure::Unusable(error.to_string())),
        }
    }

    /// Ends an answer that the engine has ended.
    fn end(&mut self, id: RequestId, finish: Finish) {
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        active.count_prompt(self.metrics);
        match active.job.text.finish() {
            Ok(Piece { text, stop: None }) => self.finish(id, finish, text),
            Ok(Piece { text, stop: _ }) => self.finish(id, Finish::Stop, text),
            Err(error) => self.fail(id, Failure::Unusable(error.to_string())),
        }
    }

    /// Tells the end of an answer.
    fn finish(&mut self, id: RequestId, finish: Finish, text: String) {
        if let Some(active) = self.active.remove(&id) {
            let tokens = [active.prompt, active.generated];
            self.metrics.finished(finish.name(), tokens, &active.times);
            active.job.last(Ok(Update::End { finish, text }));
        }
    }

    /// Tells that an answer can't be given, and cancels it.
    fn fail(&mut self, id: RequestId, failure: Failure) {
        self.generator.cancel(id);
        if let Some(active) = self.active.remove(&id) {
            active.job.last(Err(failure));
        }
    }

    fn tell_load(&mut self) {
        let load = load_of(self.generator);
        self.metrics.load(&load, &self.told);
        self.told = load;
    }

    /// Tells the tokens of experts, if the model has some and they are counted.
    fn tell_experts(&mut self) -> Result<(), String> {
        let due = self.generator.is_idle() || self.experts.at.elapsed() >= EXPERTS;
        if self.experts.behind && due {
            let load = self.generator.expert_load();
            let load = load.map_err(|error| error.to_string())?;
            self.metrics.experts(&load);
            self.experts = ExpertsTold {
                at: Instant::now(),
                behind: false,
            };
        }
        Ok(())
    }

    fn ids(&self) -> Vec<RequestId> {
        let mut ids: Vec<RequestId> = self.active.keys().copied().collect();
        ids.sort();
        ids
    }
}

/// How an engine is loaded now.
fn load_of(generator: &dyn Generator) -> EngineLoad {
    EngineLoad {
        queue: generator.queue(),
        usage: generator.usage(),
        counts: generator.counts(),
        proposals: generator.proposals(),
        cache_bytes: generator.cache_bytes(),
        experts: generator.expert_cache(),
    }
}

impl Active {
    /// Counts the request's prompt, once for all of its choices.
    fn count_prompt(&self, metrics: &Metrics) {
        if self.job.counts_prompt && self.generated == 0 {
            metrics.prompt(self.prompt);
        }
    }
}
