//! A step of a training as one program, called without recording it again.

use crate::eager::{Input, Output, Recorder, Replay, StepTrace, TracedRun};
use crate::host;
use crate::machine::RunError;
use crate::open::{self, OpenError};
use crate::pjrt::{self, Buffer, Platform, TensorSpec};
use burn::tensor::{DType, Device, TensorData};
use burn_ir::TensorId;
use std::sync::Arc;

/// A step that can't be run again as recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The device can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device failed.
    #[error("the device: {0}")]
    Device(String),
    /// It computes nothing, or reads a result and goes on: that makes several programs.
    #[error("expected a step of one program, got {0}: read results at its end only")]
    Programs(usize),
    /// It reads something else than its results.
    #[error("the step reads a tensor that it didn't compute")]
    Look,
    /// It isn't the same operations every time.
    #[error("the step's operations or shapes differ from one time to the next")]
    Differs,
    /// It takes another tensor each time that the step before didn't make.
    #[error(
        "the step takes a tensor that is neither given to it, nor made by the step before, nor the same \
         every time"
    )]
    Other,
    /// The examples don't tell what is given from what isn't.
    #[error("expected two examples of as many values, all of them different: number {0} is not")]
    Examples(usize),
    /// A number of the host's is another in each step.
    #[error(
        "a number that the host computes was {before} in one step and {after} in the next, and would stay \
         as it is: give it to the step as a tensor; moebius_xla::Adam counts on the device"
    )]
    Scalar {
        /// In the last but one.
        before: f64,
        /// In the last.
        after: f64,
    },
    /// What it uploads first isn't what it is given.
    #[error("expected the step to upload what it is given first: upload {index} is {got}")]
    Given {
        /// The place among what is given.
        index: usize,
        /// What it uploads.
        got: String,
    },
    /// It uploads something of its own that changes.
    #[error("upload {0} of the step is neither given to it nor the same every time")]
    Upload(usize),
    /// An argument is gone.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A step of a training that was recorded, with gradients and optimizer, as one program: a call uploads
/// what it is given and runs it, without going through Burn.
///
/// What the step carries on, such as weights and moments, stays where it is: the module that the last
/// recorded step left has the weights of the last call. So do clones of it, which share its tensors. Module
/// and optimizer must live as long as the step is called.
///
/// Everything that the host decides stays as it was recorded: branches, numbers, the learning rate.
/// [`StepError`] says so where it changes while the step is recorded.
///
/// ```no_run
/// use burn::optim::{GradientsParams, ModuleOptimizer};
/// use burn::tensor::{Tensor, TensorData};
/// use moebius_xla::{Adam, Step, open, pjrt::Platform};
/// # use burn::nn::{Linear, LinearConfig};
///
/// let device = open(Platform::Cpu, 0)?.autodiff();
/// let mut network: Linear = LinearConfig::new(4, 1).init(&device);
/// let mut optimizer = ModuleOptimizer::from(Adam::default());
/// let batch = |i: usize| TensorData::new(vec![i as f32; 32], [8, 4]);
/// let examples = [&[batch(0)][..], &[batch(1)]];
/// let step = Step::record(Platform::Cpu, 0, examples, |given| {
///     let x = Tensor::<2>::from_data(given[0].clone(), &device);
///     let loss = network.forward(x).powi_scalar(2).mean();
///     let gradients = GradientsParams::from_grads(loss.backward(), &network);
///     network = optimizer.step(1e-3, network.clone(), gradients);
///     loss.into_data();
/// })?;
/// for i in 0..1000 {
///     let loss = step.run(&[batch(i)])?;
///     if i % 100 == 0 {
///         println!("{:?}", moebius_xla::download(&loss[0])?);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Step {
    device: Device,
    recorder: Arc<Recorder>,
    replay: Replay,
    given: Vec<TensorSpec>,
}

/// Run 1 creates the optimizer's state; scalars that vary first differ from those of the run before in run 3.
const RECORDINGS: usize = 4;

impl Step {
    /// Takes `step` four times, alternating between the two `examples`, and remembers the last. It uploads what it
    /// is given first and in order, does the same operations every time, and reads results at its end
    /// only, which are those of a call. Nothing else may use the device meanwhile.
    ///
    /// # Errors
    ///
    /// [`StepError`], where it is no such step; it was taken nevertheless.
    pub fn record(
        platform: Platform,
        index: usize,
        examples: [&[TensorData]; 2],
        mut step: impl FnMut(&[TensorData]),
    ) -> Result<Self, StepError> {
        check_examples(examples)?;
        let device = open::open(platform, index)?;
        let recorder = open::recorder(platform, index)?;
        sync(&device)?;
        let tracing = Tracing::at(&recorder);
        let mut seen = (StepTrace::default(), StepTrace::default());
        for number in 0..RECORDINGS {
            let given = examples[number % 2];
            step(given);
            sync(&device)?;
            seen = (seen.1, recorder.trace());
            check_given(&seen.1, given)?;
        }
        drop(tracing);
        let upload = |data: &TensorData| host::upload(&recorder.machine, data);
        let spec = |data| Ok(upload(data)?.spec().clone());
        let specs = examples[0].iter().map(spec);
        Ok(Self {
            given: specs.collect::<Result<_, RunError>>()?,
            replay: replay(&recorder, (&seen.0, &seen.1), examples[0].len())?,
            device,
            recorder,
        })
    }

    /// Starts a step and returns what it reads, which needn't be there yet. With Burn's fusion on, what other threads
    /// have computed from what the step carries is of before it only where they have flushed the device since.
    ///
    /// # Errors
    ///
    /// [`RunError`] where what is given isn't what was given to the recorded step, or something that the
    /// step carries on is gone; the plugin's.
    pub fn run(&self, given: &[TensorData]) -> Result<Vec<Arc<Buffer>>, RunError> {
        if given.len() != self.given.len() {
            let (expected, got) = (self.given.len(), given.len());
            return Err(RunError::Inputs { expected, got });
        }
        // All that the caller can get wrong is found here, before what the step carries is touched.
        let upload = |(index, data)| {
            let buffer = host::upload(&self.recorder.machine, data)?;
            if *buffer.spec() == self.given[index] {
                return Ok(Arc::new(buffer));
            }
            Err(RunError::from(pjrt::Error::Argument {
                index,
                expected: self.given[index].clone(),
                got: buffer.spec().clone(),
            }))
        };
        let given = given.iter().enumerate().map(upload);
        let given = given.collect::<Result<Vec<_>, _>>()?;
        // What this thread computed before must not see what the step makes.
        send(&self.device)?;
        self.recorder.replay(&self.replay, &given)
    }
}

/// Ends a step: what this thread recorded on the device since the last one runs as one program, without a wait for it.
///
/// A loop that reads a result in each round, or waits or seeds, has such a boundary already. One that does none of it
/// calls this at the end of each round; otherwise its rounds are recorded one after the other, up to 16384 operations,
/// and compiled together.
///
/// # Errors
///
/// [`StepError::Open`] or [`StepError::Run`]. What fails later shows where a result is read.
pub fn mark_step(platform: Platform, index: usize) -> Result<(), StepError> {
    send(&open::open(platform, index)?)?;
    open::recorder(platform, index)?.flush();
    Ok(())
}

/// Has all operations of this thread arrive at the recorder. Burn's fusion holds operations back until a flush, and
/// burn-remote until a request needs a reply, as this cheap one does.
fn send(device: &Device) -> Result<(), RunError> {
    let flushed = device.flush();
    flushed.map_err(|error| RunError::Unsent {
        reason: format!("{error:?}"),
    })?;
    device.supports_dtype(DType::F32);
    Ok(())
}

/// Has a recorder trace what it does until this is dropped.
struct Tracing<'a>(&'a Recorder);

impl<'a> Tracing<'a> {
    fn at(recorder: &'a Recorder) -> Self {
        recorder.trace();
        Self(recorder)
    }
}

impl Drop for Tracing<'_> {
    fn drop(&mut self) {
        self.0.end_trace();
    }
}

fn sync(device: &Device) -> Result<(), StepError> {
    let done = device.sync();
    done.map_err(|error| StepError::Device(format!("{error:?}")))
}

/// Whether all values differ, so that it shows where they go.
fn check_examples([a, b]: [&[TensorData]; 2]) -> Result<(), StepError> {
    let all: Vec<&TensorData> = a.iter().chain(b).collect();
    let repeated = (0..all.len()).find(|i| all[..*i].contains(&all[*i]));
    let kind = |data: &TensorData| (data.dtype(), data.shape().clone());
    let same_kinds = a.iter().map(kind).eq(b.iter().map(kind));
    match repeated {
        Some(place) => Err(StepError::Examples(place % a.len().max(1))),
        None if !same_kinds => Err(StepError::Examples(a.len().min(b.len()))),
        None => Ok(()),
    }
}

fn one_run(trace: &StepTrace) -> Result<&TracedRun, StepError> {
    if let Some(error) = &trace.error {
        return Err(error.clone().into());
    }
    match &trace.runs[..] {
        [run] => Ok(run),
        runs => Err(StepError::Programs(runs.len())),
    }
}

/// What two steps in a row show.
fn replay(
    recorder: &Recorder,
    (before, last): (&StepTrace, &StepTrace),
    given: usize,
) -> Result<Replay, StepError> {
    let (first, run) = (one_run(before)?, one_run(last)?);
    same(first, run)?;
    let input = |place: usize| {
        let id = run.inputs[place];
        if let Some(made) = first.outputs.iter().position(|output| *output == id) {
            return Ok(Input::Carried(run.outputs[made]));
        }
        match last.uploads.iter().position(|(upload, _)| *upload == id) {
            Some(number) if number < given => Ok(Input::Given(number)),
            Some(number) => constant(recorder, (before, last), number),
            None if first.inputs[place] == id => Ok(Input::Held(id, recorder.place(id)?)),
            None => Err(StepError::Other),
        }
    };
    let inputs = (0..run.inputs.len()).map(input);
    let output = |(id, before): (&TensorId, &TensorId)| Output {
        id: *id,
        carried: run.inputs.contains(before),
    };
    let result = |id: &TensorId| run.outputs.iter().position(|output| output == id);
    let returned = last.reads.iter().map(result);
    Ok(Replay {
        program: run.program.clone(),
        scalars: run.scalars.clone(),
        inputs: inputs.collect::<Result<_, StepError>>()?,
        outputs: run.outputs.iter().zip(&first.outputs).map(output).collect(),
        returned: returned.collect::<Option<_>>().ok_or(StepError::Look)?,
    })
}

/// An upload of the step's own.
fn constant(
    recorder: &Recorder,
    (before, last): (&StepTrace, &StepTrace),
    number: usize,
) -> Result<Input, StepError> {
    let data = &last.uploads[number].1;
    if before.uploads.get(number).map(|(_, data)| data) != Some(data) {
        return Err(StepError::Upload(number));
    }
    let buffer = host::upload(&recorder.machine, data)?;
    Ok(Input::Constant(Arc::new(buffer)))
}

fn same(before: &TracedRun, last: &TracedRun) -> Result<(), StepError> {
    if !Arc::ptr_eq(&before.program, &last.program) {
        return Err(StepError::Differs);
    }
    let mut pairs = before.scalars.iter().zip(&last.scalars);
    match pairs.find(|(before, after)| before.to_bits() != after.to_bits()) {
        Some((&before, &after)) => Err(StepError::Scalar { before, after }),
        None => Ok(()),
    }
}

/// Whether the first uploads are what was given.
fn check_given(trace: &StepTrace, given: &[TensorData]) -> Result<(), StepError> {
    for (index, data) in given.iter().enumerate() {
        let upload = trace.uploads.get(index).map(|(_, data)| data);
        if upload != Some(data) {
            let describe = |data: &TensorData| format!("{:?} {:?}", data.dtype(), data.shape());
            let got = match upload {
                Some(other) if describe(other) == describe(data) => "other values".to_owned(),
                Some(other) => describe(other),
                None => "missing".to_owned(),
            };
            return Err(StepError::Given { index, got });
        }
    }
    Ok(())
}
