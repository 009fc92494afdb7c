//! Options that a search chooses, the changes that each level tries, and its budgets.

use moebius::attention::CacheFormat;
use moebius_device::Device;
use moebius_engine::{EngineOptions, Ngrams};
use moebius_model::computation::Limits;
use serde::Serialize;

use crate::args::{
    AskedLevel, CachePrecision, DeviceArgs, EngineArgs, Goal, Level, ModelPrecision, PlaceArgs,
};

/// Options of an engine, each of which a search may change; the command's defaults at the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) dtype: ModelPrecision,
    pub(super) narrow_embedding: bool,
    pub(super) cache: CachePrecision,
    pub(super) ngrams: bool,
}

/// One option of a plan with another value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Dtype(ModelPrecision),
    NarrowEmbedding,
    Cache(CacheFormat),
    Ngrams,
}

/// All changes in the order in which they are tried, each with the lowest level that tries it. What is computed in comes first, since the
/// others depend on it.
const CHANGES: [(Change, Level); 8] = [
    (Change::Dtype(ModelPrecision::F16), Level::Balanced),
    (Change::Dtype(ModelPrecision::Bf16), Level::Balanced),
    (Change::Dtype(ModelPrecision::Fp8), Level::Balanced),
    (Change::NarrowEmbedding, Level::Conservative),
    (Change::Cache(CacheFormat::F16), Level::Conservative),
    (Change::Cache(CacheFormat::Bf16), Level::Conservative),
    (Change::Cache(CacheFormat::E4m3), Level::Aggressive),
    (Change::Ngrams, Level::Conservative),
];

/// The changes that a level tries for a goal: proposed tokens save no memory.
pub(super) fn changes(level: Level, goal: Goal) -> impl Iterator<Item = Change> {
    let tried = CHANGES.into_iter();
    let tried = tried.filter(move |(_, least)| *least <= level);
    let changes = tried.map(|(change, _)| change);
    changes.filter(move |change| *change != Change::Ngrams || goal != Goal::Memory)
}

impl Change {
    /// Whether the change promises the same tokens, to the bit.
    pub(super) fn is_exact(self) -> bool {
        self == Self::Ngrams
    }

    /// The flag that makes the change.
    pub(super) fn flag(self) -> String {
        match self {
            Self::Dtype(precision) => format!("--dtype {}", precision.option()),
            Self::NarrowEmbedding => "--narrow-embedding".to_owned(),
            Self::Cache(format) => {
                let name = CachePrecision::Given(format).option();
                format!("--kv-cache-dtype {name}")
            }
            Self::Ngrams => "--speculate ngram".to_owned(),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            dtype: ModelPrecision::F32,
            narrow_embedding: false,
            cache: CachePrecision::Auto,
            ngrams: false,
        }
    }
}

impl Plan {
    /// This plan with a change; `None` where that has no effect: a narrow embedding of a model that isn't f32, and a cache of as many bytes as
    /// before or more.
    pub(super) fn with(self, change: Change) -> Option<Self> {
        let mut plan = self;
        match change {
            Change::Dtype(precision) => plan.dtype = precision,
            Change::NarrowEmbedding => plan.narrow_embedding = self.dtype == ModelPrecision::F32,
            Change::Cache(format) if format.per_word() > self.format().per_word() => {
                plan.cache = CachePrecision::Given(format);
            }
            Change::Cache(_) => {}
            Change::Ngrams => plan.ngrams = true,
        }
        (plan != self).then_some(plan)
    }

    /// The format of the cache.
    pub(super) fn format(self) -> CacheFormat {
        self.cache.format(self.dtype)
    }

    /// The options of an engine on a device.
    pub(super) fn engine_args(self, device: Device) -> EngineArgs {
        let devices = DeviceArgs {
            device,
            placement: None,
        };
        let mut args = EngineArgs::at(PlaceArgs {
            devices,
            dtype: self.dtype,
            weights: None,
            expert_cache: None,
            experts_from: None,
            memory_margin: EngineOptions::MARGIN,
            narrow_embedding: self.narrow_embedding,
            exact: false,
        });
        args.kv_cache_dtype = self.cache;
        args.speculation.speculate = self.ngrams.then(Ngrams::default);
        args
    }

    /// The flags that make the plan, without their dashes, with values as TOML.
    pub(super) fn flags(self) -> Vec<(&'static str, toml::Value)> {
        let mut flags = vec![
            ("dtype", self.dtype.option().into()),
            ("kv-cache-dtype", self.cache.option().into()),
        ];
        if self.narrow_embedding {
            flags.push(("narrow-embedding", true.into()));
        }
        if self.ngrams {
            flags.push(("speculate", "ngram".into()));
        }
        flags
    }

    /// A file of settings by which the commands that answer follow the plan. `found` says in one line what it was found by.
    pub(super) fn settings(self, found: &str) -> String {
        let lines = self.flags().into_iter();
        let lines: String = lines
            .map(|(flag, value)| format!("{flag} = {value}\n"))
            .collect();
        let tables = ["generate", "chat", "serve", "bench.engine"];
        let tables = tables.map(|table| format!("\n[{table}]\n{lines}"));
        format!("# {found}\n{}", tables.concat())
    }
}

/// The level that is asked for, by the goal and by a budget in percent, if one is given.
///
/// What `aggressive` tries more than `balanced` is a cache in FP8, whose gain is memory; so no other goal widens its budget for it unless told to.
pub(super) fn level(asked: AskedLevel, goal: Goal, percent: Option<f64>) -> Level {
    match (asked, percent) {
        (AskedLevel::Conservative, _) => Level::Conservative,
        (AskedLevel::Balanced, _) => Level::Balanced,
        (AskedLevel::Aggressive, _) => Level::Aggressive,
        (AskedLevel::Auto, None) if goal == Goal::Memory => Level::Aggressive,
        (AskedLevel::Auto, None) => Level::Balanced,
        (AskedLevel::Auto, Some(percent)) => {
            let within = |level: &Level| Budget::of(*level, None).perplexity <= percent / 100.0;
            let widest = [Level::Aggressive, Level::Balanced]
                .into_iter()
                .find(within);
            widest.unwrap_or(Level::Conservative)
        }
    }
}

/// How far a result may be from f32's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Budget {
    /// Largest growth of the perplexity, as a share of f32's.
    pub(super) perplexity: f64,
    /// Largest relative L2 distance of a part of the model.
    pub(super) distance: f64,
    /// Whether the likeliest token after each of the sample's first tokens must be f32's.
    pub(super) same_tokens: bool,
}

impl Budget {
    /// The budget of a level, with another growth of the perplexity if one is given, in percent.
    ///
    /// Distances leave room for what rounding does to one part and what later parts make of it: a value that is rounded to bf16 is off by
    /// 0.001 (root mean square), one in E4M3 by 0.03. A scale that is wrong by a factor of two is off by 1.
    pub(super) fn of(level: Level, percent: Option<f64>) -> Self {
        let (perplexity, distance) = match level {
            Level::Conservative => (0.001, 0.003),
            Level::Balanced => (0.01, 0.1),
            Level::Aggressive => (0.05, 0.3),
        };
        Self {
            perplexity: percent.map_or(perplexity, |percent| percent / 100.0),
            distance,
            same_tokens: level == Level::Conservative,
        }
    }

    /// The limits of parts. Passes go along the same experts, so that no choice is a tie.
    pub(super) fn limits(self) -> Limits {
        Limits {
            distance: self.distance,
            tie: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(level: Level, goal: Goal) -> Vec<String> {
        changes(level, goal).map(Change::flag).collect()
    }

    #[test]
    fn a_level_tries_what_its_table_says() {
        let conservative = [
            "--narrow-embedding",
            "--kv-cache-dtype f16",
            "--kv-cache-dtype bf16",
            "--speculate ngram",
        ];
        assert_eq!(tried(Level::Conservative, Goal::Latency), conservative);
        assert_eq!(
            tried(Level::Conservative, Goal::Memory),
            conservative[..3].to_vec()
        );
        let dtypes = ["--dtype f16", "--dtype bf16", "--dtype fp8"];
        let balanced = tried(Level::Balanced, Goal::Throughput);
        assert_eq!(balanced[..3], dtypes);
        assert_eq!(balanced[3..], conservative);
        let aggressive = tried(Level::Aggressive, Goal::Throughput);
        let more: Vec<_> = aggressive
            .iter()
            .filter(|flag| !balanced.contains(flag))
            .collect();
        assert_eq!(more, ["--kv-cache-dtype fp8"]);
    }

    #[test]
    fn auto_is_the_widest_level_within_the_budget_or_that_of_the_goal() {
        let auto = |goal, percent| level(AskedLevel::Auto, goal, percent);
        for (percent, expected) in [
            (0.0, Level::Conservative),
            (0.99, Level::Conservative),
            (1.0, Level::Balanced),
            (4.99, Level::Balanced),
            (5.0, Level::Aggressive),
        ] {
            for goal in [Goal::Latency, Goal::Throughput, Goal::Memory] {
                assert_eq!(auto(goal, Some(percent)), expected, "{percent}");
            }
        }
        let of_goals = [Goal::Latency, Goal::Throughput, Goal::Memory].map(|goal| auto(goal, None));
        let expected = [Level::Balanced, Level::Balanced, Level::Aggressive];
        assert_eq!(of_goals, expected);
        for (asked, expected) in [
            (AskedLevel::Conservative, Level::Conservative),
            (AskedLevel::Balanced, Level::Balanced),
            (AskedLevel::Aggressive, Level::Aggressive),
        ] {
            assert_eq!(level(asked, Goal::Memory, Some(0.5)), expected);
        }
    }

    #[test]
    fn a_change_without_effect_is_none() {
        let plan = Plan::default();
        let with = |plan: Plan, change| plan.with(change).unwrap();
        assert_eq!(plan.with(Change::Cache(CacheFormat::F32)), None);
        let narrow = with(plan, Change::NarrowEmbedding);
        assert_eq!(narrow.with(Change::NarrowEmbedding), None);
        let half = with(plan, Change::Dtype(ModelPrecision::F16));
        assert_eq!(half.with(Change::NarrowEmbedding), None);
        // The cache is in f16 already.
        assert_eq!(half.with(Change::Cache(CacheFormat::Bf16)), None);
        let small = with(half, Change::Cache(CacheFormat::E4m3));
        assert_eq!(small.format(), CacheFormat::E4m3);
        assert_eq!(small.with(Change::Cache(CacheFormat::F16)), None);
        let ngrams = with(small, Change::Ngrams);
        assert_eq!(ngrams.with(Change::Ngrams), None);
    }

    #[test]
    fn a_plan_is_a_file_of_settings() {
        let plan = Plan {
            ngrams: true,
            narrow_embedding: true,
            ..Plan::default()
        };
        let written = plan.settings("found");
        let read: toml::Table = written.parse().unwrap();
        let serve = read["serve"].as_table().unwrap();
        assert_eq!(serve.len(), 4, "{written}");
        assert_eq!(serve["narrow-embedding"].as_bool(), Some(true));
        assert_eq!(serve["kv-cache-dtype"].as_str(), Some("auto"));
        assert_eq!(read["bench"]["engine"]["speculate"].as_str(), Some("ngram"));
    }
}
