//! Options of `cargo bench`, and the names of the benchmarks.

use clap::Parser;
use moebius_device::Device;
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Declares the benchmarks in the order in which they are measured, each with its documentation, the feature that it needs, and its name.
macro_rules! benchmarks {
    ($(
        $(#[doc = $what:literal])+
        $(#[cfg($built:meta)])?
        $benchmark:ident = $name:literal,
    )+) => {
        /// A benchmark of the suite.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Benchmark {
            $(
                $(#[doc = $what])+
                $(#[cfg($built)])?
                $benchmark,
            )+
        }

        impl Benchmark {
            /// All benchmarks of this build, in the order in which they are measured.
            pub const ALL: &'static [Self] = &[$($(#[cfg($built)])? Self::$benchmark,)+];

            /// Name of the benchmark on the command line and in reports.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($built)])? Self::$benchmark => $name,)+
                }
            }
        }
    };
}

benchmarks! {
    /// Launches of next to no work, and one byte through the small byte model.
    Launches = "launches",
    /// Our kernels alone: the product per expert and its gradients.
    GroupedGemm = "grouped-gemm",
    /// A mixture-of-experts layer, forward.
    Moe = "moe",
    /// A mixture-of-experts layer, forward and backward.
    MoeBackward = "moe-backward",
    /// Causal attention, forward.
    Attention = "attention",
    /// Causal attention, forward and backward.
    AttentionBackward = "attention-backward",
    /// A linear layer with FP8 weights.
    Linear = "linear",
    /// A decode step: attention of one token over the tokens in a cache, in f32 and FP8.
    Decode = "decode",
    /// A step of training a small transformer in ordinary Burn modules.
    #[cfg(feature = "flex")]
    TrainingStep = "training-step",
    /// A call of a program that XLA compiled.
    #[cfg(feature = "xla")]
    XlaCall = "xla-call",
}

/// A name that isn't a benchmark's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a benchmark, one of {}, got `{got}`", names())]
pub struct UnknownBenchmark {
    /// The name that was asked for.
    pub got: String,
}

/// The names of all benchmarks, for an error message.
fn names() -> String {
    let names: Vec<&str> = Benchmark::ALL.iter().map(|one| one.name()).collect();
    names.join(", ")
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Benchmark {
    type Err = UnknownBenchmark;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.iter().copied();
        let named = all.find(|benchmark| benchmark.name() == text);
        named.ok_or_else(|| UnknownBenchmark {
            got: text.to_owned(),
        })
    }
}

impl Serialize for Benchmark {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Measures layers and kernels on every device of this build that the machine has
///
/// Each result is compared with sums in f64 before it is timed. A wrong one, or a failure, is exit 1 after
/// the others ran; a device that is missing is named and left out.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "devices",
    bin_name = "cargo bench --",
    verbatim_doc_comment,
    after_help = EXAMPLES
)]
pub struct Options {
    /// Devices to measure, a list with commas: auto, wgpu[:n], vulkan[:n], cuda[:n], rocm[:n], cpu, flex or
    /// xla:{cpu,tpu,cuda}[:n] [default: all that there are].
    #[arg(long = "device", value_name = "D", value_delimiter = ',')]
    pub devices: Vec<Device>,
    /// Benchmarks to run, a list with commas: launches, grouped-gemm, moe, moe-backward, attention,
    /// attention-backward, linear, decode, training-step, xla-call [default: all of this build].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Benchmark>,
    /// The sizes of benches/RESULTS.md in place of small ones: minutes for each device.
    #[arg(long)]
    pub full: bool,
    /// Measure JAX's training step, too, in the same run.
    #[arg(long)]
    pub peer_jax: bool,
    /// Write one JSON object in place of the table.
    #[arg(long)]
    pub json: bool,
    /// What cargo itself adds; it changes nothing.
    #[arg(long, hide = true)]
    pub bench: bool,
}

/// Examples at the end of the help.
const EXAMPLES: &str = "\
Examples:
  cargo bench
  cargo bench --features cpu,vulkan
  cargo bench -- --device flex,wgpu --only moe,attention
  cargo bench -- --device cuda:0 --full --json > after.json";

impl Options {
    /// The benchmarks to run, each once, in the order of [`Benchmark::ALL`].
    pub fn benchmarks(&self) -> Vec<Benchmark> {
        let wanted = |one: &&Benchmark| self.only.is_empty() || self.only.contains(one);
        Benchmark::ALL.iter().filter(wanted).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["devices"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn cargos_own_option_changes_nothing() {
        let options = parse("--bench").unwrap();
        assert_eq!(options.benchmarks(), Benchmark::ALL);
        assert!(options.devices.is_empty() && !options.json && !options.full);
    }

    #[test]
    fn lists_and_repeated_options_add_up() {
        let line = "--device flex,wgpu:1 --device cpu --only decode,moe --only moe --json --bench";
        let options = parse(line).unwrap();
        let devices = [Device::Flex, Device::Wgpu(Some(1)), Device::Cpu];
        assert_eq!(options.devices, devices);
        assert_eq!(options.benchmarks(), [Benchmark::Moe, Benchmark::Decode]);
        assert!(options.json);
    }

    #[test]
    fn what_is_unknown_is_an_error_that_lists_what_there_is() {
        let said = parse("--only moe,gemm").unwrap_err().to_string();
        for benchmark in Benchmark::ALL {
            assert!(said.contains(benchmark.name()), "{said}");
        }
        assert!(said.contains("got `gemm`"), "{said}");
        let error = parse("--device gpu").unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("flex") && said.contains("got `gpu`"),
            "{said}"
        );
        assert_eq!(error.exit_code(), 2);
        assert!(parse("moe").is_err() && parse("--device").is_err());
    }

    #[test]
    fn the_help_names_every_benchmark() {
        let help = parse("--help").unwrap_err().to_string();
        let lacking = |one: &&Benchmark| !help.contains(one.name());
        assert_eq!(Benchmark::ALL.iter().find(lacking), None, "{help}");
    }
}
