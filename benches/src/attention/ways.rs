//! The implementations that are measured on one device.

use super::AttentionBench;
use burn::tensor::Tensor;
use burn::tensor::module::{attention, attention_fallback};
use burn::tensor::ops::AttentionModuleOptions;
use moebius::Error;
use moebius::attention::Attend;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Ours.
    Ours,
    /// Ours, causal and without a window.
    Full,
    /// Burn's function.
    Burn,
    /// What Burn's function is where a backend has none of its own.
    Composition,
}

/// o \[B, Hq, Sq, D\], and the log-sum-exp \[B, Hq, Sq\] where a way has it.
pub(super) struct Output {
    pub(super) o: Tensor<4>,
    pub(super) lse: Option<Tensor<3>>,
}

impl Way {
    /// What it is called in a report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Full => "ours, causal without a window",
            Self::Burn => "Burn's attention",
            Self::Composition => "Burn's product, softmax and product",
        }
    }

    /// The benchmark that it computes when `bench` is asked for.
    pub(super) fn of(self, bench: &AttentionBench) -> AttentionBench {
        let mut bench = bench.clone();
        if self == Self::Full {
            (bench.causal, bench.window) = (true, None);
        }
        bench
    }

    pub(super) fn forward(
        self,
        bench: &AttentionBench,
        [q, k, v]: [Tensor<4>; 3],
    ) -> Result<Output, Error> {
        let options = AttentionModuleOptions {
            is_causal: bench.causal,
            ..Default::default()
        };
        let o = match self {
            Self::Ours | Self::Full => {
                let bench = self.of(bench);
                let attend = match (bench.window, bench.causal) {
                    (Some(keys), _) => Attend::new().window(keys),
                    (None, true) => Attend::new().causal(),
                    (None, false) => Attend::new(),
                };
                let out = attend.forward(q, k, v)?;
                let lse = Some(out.lse);
                return Ok(Output { o: out.o, lse });
            }
            Self::Burn => attention(q, k, v, None, None, options),
            Self::Composition => attention_fallback(q, k, v, None, None, options),
        };
        Ok(Output { o, lse: None })
    }
}
