//! `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use moebius_benches::options::positive;
use moebius_serve::ServeLimits;

use super::{EngineArgs, ModelArgs, TraceArgs};

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    /// Name under which clients ask for the model [default: the folder's, the file's or ORG/NAME].
    #[arg(long, value_name = "NAME")]
    pub(crate) served_name: Option<String>,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    /// Address to listen on.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8000")]
    pub(crate) address: SocketAddr,
    /// File with the keys of those who may use the server, one on each line; read again at SIGHUP. Without it, MOEBIUS_API_KEYS is read,
    /// where commas part them.
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Answer everybody, also on an address that other machines reach.
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Certificate in PEM, followed by those that vouch for it; turns TLS on.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Tokens of a request at most, prompt and answer [default: what the model was made for, at most 8192].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) context: Option<usize>,
    /// Tokens that all requests together have in the cache at most; memory is taken as they come [default: the context for each of
    /// --running].
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) cache_tokens: Option<usize>,
    /// Tokens that are computed in one step.
    #[arg(long, value_name = "N", default_value = "512", value_parser = positive)]
    pub(crate) batch_tokens: usize,
    /// Take names of special tokens in messages for the characters that they are.
    #[arg(long)]
    pub(crate) no_special: bool,
    /// Count how many tokens each expert of each layer gets, for the metrics.
    #[arg(long)]
    pub(crate) experts: bool,
    /// Send a span of each request by OTLP over HTTP to this collector, such as http://127.0.0.1:4318; needs a build with the feature otlp
    /// [default: the collector that OTEL_EXPORTER_OTLP_ENDPOINT names, if it is set].
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Write the log as JSON, an object on each line.
    #[arg(long)]
    pub(crate) log_json: bool,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
}

/// Limits on what clients may ask for at once.
#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Answers that are computed at the same time.
    #[arg(long, value_name = "N", default_value = "16", value_parser = positive)]
    pub(crate) running: usize,
    /// Answers that wait.
    #[arg(long, value_name = "N", default_value = "128")]
    pub(crate) queued: usize,
    /// Prompt tokens of the answers that wait.
    #[arg(long, value_name = "N", default_value = "65536")]
    pub(crate) queued_tokens: usize,
    /// Seconds for which a request may wait.
    #[arg(long, value_name = "S", default_value = "60", value_parser = seconds)]
    pub(crate) queue_time: Duration,
    /// Seconds of a request, from its arrival to its end.
    #[arg(long, value_name = "S", default_value = "600", value_parser = seconds)]
    pub(crate) request_time: Duration,
    /// Bytes of a body.
    #[arg(long, value_name = "N", default_value = "2097152", value_parser = positive)]
    pub(crate) body_bytes: usize,
    /// Levels of objects and lists in JSON.
    #[arg(long, value_name = "N", default_value = "64", value_parser = positive)]
    pub(crate) json_depth: usize,
    /// Seconds in which a head must arrive, and for which an idle connection stays open.
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) head_time: Duration,
    /// Seconds in which a body must arrive.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    pub(crate) body_time: Duration,
    /// Seconds for which a client may take nothing of its response.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    pub(crate) stalled_time: Duration,
    /// Connections.
    #[arg(long, value_name = "N", default_value = "1024", value_parser = positive)]
    pub(crate) connections: usize,
    /// Seconds for which a stop waits for requests under way.
    #[arg(long, value_name = "S", default_value = "30", value_parser = seconds)]
    pub(crate) drain_time: Duration,
}

impl LimitArgs {
    pub(crate) fn limits(&self) -> ServeLimits {
        ServeLimits {
            body_bytes: self.body_bytes,
            json_depth: self.json_depth,
            head_time: self.head_time,
            body_time: self.body_time,
            stalled_time: self.stalled_time,
            connections: self.connections,
            running: self.running,
            queued: self.queued,
            queued_tokens: self.queued_tokens,
            queue_time: self.queue_time,
            request_time: self.request_time,
            drain_time: self.drain_time,
        }
    }
}

const SERVE_EXAMPLES: &str = "\
Examples:
  moebius serve --model SmolLM2
  moebius serve --model HuggingFaceTB/SmolLM2-135M-Instruct --dtype fp8 --running 8
  moebius serve --model OLMoE --kv-cache-dtype fp8 --speculate ngram --expert-cache 4GiB
  moebius serve --model OLMoE --device xla:tpu --place experts=4,data=2
  moebius serve --model SmolLM2 --address 0.0.0.0:8000 --keys keys.txt --tls-certificate cert.pem --tls-key key.pem

Exit codes: 0 stopped by a signal, 2 an error before the start, 70 the engine failed.";

/// Parses a number of seconds above 0, which may have decimals.
fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected a number of seconds above 0".to_owned();
    let number: f64 = text.parse().map_err(|_| expected())?;
    let time = Duration::try_from_secs_f64(number).map_err(|_| expected())?;
    if time.is_zero() {
        Err(expected())
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const SEVEN: Duration = Duration::from_secs(7);

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        limits: LimitArgs,
    }

    #[test]
    fn limits_are_the_documented_ones_unless_told() {
        let limits = |line: &[&str]| Line::parse_from(line).limits.limits();
        assert_eq!(limits(&["serve"]), ServeLimits::default());
        let told = limits(&["serve", "--queue-time", "0.5"]);
        assert_eq!(told.queue_time, Duration::from_millis(500));
        for wrong in ["0", "-1", "NaN", "soon", "1e300"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_limit_has_its_flag() {
        type Set = fn(&mut ServeLimits);
        let flags: [(&str, Set); 12] = [
            ("--running", |limits| limits.running = 7),
            ("--queued", |limits| limits.queued = 7),
            ("--queued-tokens", |limits| limits.queued_tokens = 7),
            ("--queue-time", |limits| limits.queue_time = SEVEN),
            ("--request-time", |limits| limits.request_time = SEVEN),
            ("--body-bytes", |limits| limits.body_bytes = 7),
            ("--json-depth", |limits| limits.json_depth = 7),
            ("--head-time", |limits| limits.head_time = SEVEN),
            ("--body-time", |limits| limits.body_time = SEVEN),
            ("--stalled-time", |limits| limits.stalled_time = SEVEN),
            ("--connections", |limits| limits.connections = 7),
            ("--drain-time", |limits| limits.drain_time = SEVEN),
        ];
        for (flag, set) in flags {
            let mut want = ServeLimits::default();
            set(&mut want);
            let told = Line::parse_from(["serve", flag, "7"]).limits.limits();
            assert_eq!(told, want, "{flag}");
        }
    }
}
