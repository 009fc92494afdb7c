//! `config`, `completions` and `man`: the commands about the command line itself, and the named sets of settings.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::Shell;

/// A named set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// Less memory: weights and cache in FP8, and proposed tokens.
    Inference,
    /// Fewer interruptions of a training, and benchmarks with gradients.
    Training,
    /// Short runs and small queues.
    Development,
}

impl Preset {
    /// The settings, as a file has them.
    pub(crate) const fn settings(self) -> &'static str {
        match self {
            Self::Inference => include_str!("../config/presets/inference.toml"),
            Self::Training => include_str!("../config/presets/training.toml"),
            Self::Development => include_str!("../config/presets/development.toml"),
        }
    }
}

/// `config`.
#[derive(Debug, Args)]
#[command(after_help = CONFIG_EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// What to show.
    #[command(subcommand)]
    pub(crate) what: ConfigCommand,
}

/// What is shown of the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// The flags of a command as they are in effect, as a file that has the same effect, and where each is from.
    Show(ConfigShowArgs),
    /// The JSON schema of the file, for editors.
    Schema,
    /// Where the file is that is read, or would be.
    Path,
}

/// `config show`.
#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// A command, perhaps with flags [default: every command].
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) line: Vec<OsString>,
}

const CONFIG_EXAMPLES: &str = "\
Examples:
  moebius config show
  moebius config show serve --preset inference --running 4 > moebius.toml
  moebius config schema > moebius.schema.json
  moebius config path

A flag comes before its variable (MOEBIUS_SERVE_RUNNING for --running of serve), the variable before the
file, the file before the preset. The file is --config FILE, else MOEBIUS_CONFIG, else moebius.toml here, else
moebius/config.toml in the user's folder of configurations.";

/// `completions`.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell that completes.
    pub(crate) shell: Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  moebius completions bash > ~/.local/share/bash-completion/completions/moebius
  moebius completions fish > ~/.config/fish/completions/moebius.fish
  moebius completions zsh > _moebius                             # into a folder of $fpath";

/// `man`.
#[derive(Debug, Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {
    /// Folder for the pages; created where missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

const MAN_EXAMPLES: &str = "\
Examples:
  moebius man --out man
  man man/moebius-serve.1";
