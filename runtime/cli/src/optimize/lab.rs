//! The lab of the command: models on a device, judged by what they compute and measured as `moebius bench engine` does.

use moebius::attention::CacheFormat;
use moebius_benches::timing::Timing;
use moebius_device::Device;

use super::accuracy::Judge;
use super::plan::{Budget, Plan};
use super::search::{Accuracy, Figures, Lab, Turns};
use crate::answerer::Answerer;
use crate::args::BenchEngineArgs;
use crate::bench::engine::{self, Bench};
use crate::error::CliError;
use crate::published::{self, Source};
use crate::screen::Screen;

/// Number of turns that are timed, after one that isn't.
pub(super) const TURNS: usize = 5;

/// What models are loaded from, and what they are asked.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) source: &'a Source,
    pub(super) requests: &'a BenchEngineArgs,
    /// Tokens that the prompts are made of.
    pub(super) ids: &'a [u32],
}

/// A model that is ready to answer.
pub(super) struct Ready<'a> {
    pub(super) bench: Bench<'a>,
    /// Name of its device.
    pub(super) name: Device,
    pub(super) device: burn::tensor::Device,
    format: CacheFormat,
    /// Bytes of its weights and its cache.
    bytes: u64,
}

impl<'a> Work<'a> {
    /// Loads the model by a plan onto a device, with room for all requests.
    pub(super) fn load(
        self,
        plan: Plan,
        device: Device,
        screen: &mut Screen,
    ) -> Result<Ready<'a>, CliError> {
        let options = plan.engine_args(device);
        let room = engine::room(self.requests);
        let answerer = Answerer::open(&options, self.source, room, screen)?;
        let loading = published::loading(&options.place);
        let weights = self.source.files.weight_bytes(&answerer.device, loading);
        Ok(Ready {
            bytes: weights + answerer.engine.cache_bytes() as u64,
            bench: Bench::new(self.requests, answerer.engine, self.ids.to_vec()),
            name: answerer.name,
            device: answerer.device,
            format: answerer.cache_format,
        })
    }
}

/// A device with what it is given to do.
pub(super) struct Bed<'a> {
    pub(super) work: Work<'a>,
    pub(super) name: Device,
    pub(super) judge: Judge,
    pub(super) screen: &'a mut Screen,
}

impl<'a> Lab for Bed<'a> {
    type Ready = Ready<'a>;

    fn load(&mut self, plan: Plan) -> Result<Ready<'a>, CliError> {
        self.work.load(plan, self.name, self.screen)
    }

    fn judge(&mut self, model: &Ready<'a>, budget: Budget) -> Result<Accuracy, CliError> {
        let spinner = self.screen.spinner();
        spinner.set_message("what it computes");
        let (engine, format) = (&model.bench.engine, model.format);
        let found = self.judge.judge(engine.model(), format, budget);
        spinner.finish_and_clear();
        Ok(found?)
    }

    fn measure(&mut self, best: &mut Ready<'a>, other: &mut Ready<'a>) -> Result<Turns, CliError> {
        let bar = self.screen.steps("turns", TURNS + 1);
        let mut seconds: [[Vec<f64>; 2]; 2] = Default::default();
        let (mut same, mut verified) = (true, true);
        for turn in 0..=TURNS {
            let [first, second] = [best.bench.streams_once()?, other.bench.streams_once()?];
            same &= first[1].said == second[1].said;
            verified &= second[0].said == second[1].said;
            for (all, runs) in seconds.iter_mut().zip([&first, &second]) {
                for (times, run) in all.iter_mut().zip(runs) {
                    times.extend((turn > 0).then_some(run.seconds));
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let [of_best, of_other] = seconds.map(|all| all.map(|mut times| Timing::of(&mut times)));
        let figures = |[alone, together]: [Timing; 2], bytes| Figures {
            alone,
            together,
            bytes,
        };
        Ok(Turns {
            best: figures(of_best, best.bytes),
            other: figures(of_other, other.bytes),
            same_tokens: same,
            verified,
        })
    }
}
