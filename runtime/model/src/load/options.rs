//! How the weights of a model are loaded.

use std::fmt;

use burn::tensor::DType;
use moebius::blocks::BlockFormat;
use moebius::fp8::training::Fp8Recipe;
use moebius::fp8::{Fp8Format, Granularity, Quantizer, ScaleRule};
use serde::{Deserialize, Serialize};

use crate::decoder::{Model, Slot};
use crate::error::Error;

/// Options for loading weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOptions {
    /// Dtype that the model computes in: f32, f16 or bf16.
    pub dtype: DType,
    /// Whether FP8 codes stay codes in models that compute in f32; otherwise codes are decoded.
    pub keep_fp8: bool,
    /// Which weights are in blocks of codes on the device, embedding and head included.
    pub blocks: InBlocks,
    /// Quantizer for weights without codes and not in blocks, applied on the host during loading; only in models that compute in f32.
    pub round: Option<Quantizer>,
    /// Whether the embedding and the head are bf16 in a model that computes in f32, on devices that multiply f32 by bf16
    /// ([`takes_half_weights`](moebius::nn::takes_half_weights)).
    pub narrow_embedding: bool,
    /// Whether nothing of the model itself changes while it trains, as below an adapter: routers keep the bias that balances their choice, and
    /// codes are laid out for products that gradients pass through. A narrow embedding has its values in f32 then, and of a model in 16 bits
    /// norms, routers and what else isn't of a product or a table are f32.
    pub frozen: bool,
    /// Recipe for training products of attention and feed-forward parts in FP8 ([`ModelSpec::with_fp8`](crate::decoder::ModelSpec::with_fp8)), with `keep_fp8` off: codes don't
    /// train.
    pub fp8_training: Option<Fp8Recipe>,
    /// Bytes of the device for the experts of all layers together: the experts wait where `experts_from` says, and are on the device while
    /// tokens need them ([`moebius::moe::switching`]). `None` for all experts on the device.
    pub expert_cache: Option<u64>,
    /// Whether the model's passes have the same bits on every device ([`Model::with_exact`]), with `keep_fp8` off and `dtype` f32.
    pub exact: bool,
    /// Where experts wait that `expert_cache` has no place for.
    pub experts_from: ExpertsFrom,
}

/// Which of a model's weights are in blocks of codes on the device ([`moebius::blocks`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InBlocks {
    /// None: blocks of a file are decoded.
    #[default]
    None,
    /// Those that the file has in blocks: those of a GGUF file in a [format](BlockFormat) that devices decode, MXFP4, and weights of four bits of GPTQ,
    /// AWQ and compressed-tensors or of NVFP4 that [`Reader::blocks`](moebius_weights::Reader::blocks) has a format of. Weights that the file has transposed, in
    /// parts of several types, or in codes of another kind, are decoded.
    File,
    /// All: other weights than those that the file has in blocks of this format are rounded to it, one matrix after the other, with the bits that
    /// [`save_gguf`](crate::save_gguf) writes. Rows that aren't whole blocks get the type that such a file has for them
    /// ([`GgmlType::fitting`](moebius_weights::gguf::GgmlType::fitting)): smaller blocks, or values that are rounded to F16. What such a file has
    /// transposed, of latent attention, is rounded along its own rows. A format that no GGUF file has is refused.
    Format(BlockFormat),
}

/// What the weights of products are on the device below an adapter that is trained; they stay as they are, and no copy in f32 is beside them.
/// Everything is computed in f32, but for products above weights in bf16.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaseWeights {
    /// Values in f32, decoded where the files have codes.
    #[default]
    F32,
    /// Values in bf16, decoded where the files have codes; products are in bf16, too ([`Precision::Bf16`](crate::Precision::Bf16)).
    Bf16,
    /// FP8 codes, as [`LoadOptions::fp8`] loads them.
    Fp8,
    /// Blocks of codes, as the files have them ([`InBlocks::File`]).
    File,
    /// Blocks of this format ([`InBlocks::Format`]).
    Blocks(BlockFormat),
}

impl fmt::Display for BaseWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Fp8 => "fp8",
            Self::File => "as the file has them",
            Self::Blocks(format) => format.name(),
        })
    }
}

/// Where the experts of a model wait that aren't on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpertsFrom {
    /// In host memory: each is read and converted once, when the model is loaded.
    #[default]
    Memory,
    /// In the files: each is read and converted whenever tokens need it and it isn't on the device. The files stay open as long as the model
    /// is there, and must not be written to: a read after that is an error.
    Files,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            dtype: DType::F32,
            keep_fp8: true,
            blocks: InBlocks::None,
            round: None,
            narrow_embedding: false,
            frozen: false,
            fp8_training: None,
            expert_cache: None,
            exact: false,
            experts_from: ExpertsFrom::Memory,
        }
    }
}

impl LoadOptions {
    /// Loads a model whose passes have the same bits on every device ([`Model::with_exact`]): all weights are f32, decoded on the host. With
    /// [`blocks`](Self::with_blocks) they stay such on the device, and each product decodes its own.
    pub fn exact() -> Self {
        Self {
            keep_fp8: false,
            exact: true,
            ..Self::default()
        }
    }

    /// Loads a model whose weights stay as they are while an adapter of it trains: the only place that says which weights can be below one.
    pub fn below_adapter(base: BaseWeights) -> Self {
        let values = |dtype| Self {
            dtype,
            keep_fp8: false,
            ..Self::default()
        };
        let options = match base {
            BaseWeights::F32 => values(DType::F32),
            BaseWeights::Bf16 => values(DType::BF16),
            BaseWeights::Fp8 => Self::fp8(),
            BaseWeights::File => Self::default().with_blocks(InBlocks::File),
            BaseWeights::Blocks(format) => Self::default().with_blocks(InBlocks::Format(format)),
        };
        Self {
            frozen: true,
            ..options
        }
    }

    /// These options with weights in blocks of codes as `blocks` says; FP8 codes of the file are decoded where all weights become such.
    #[must_use]
    pub fn with_blocks(self, blocks: InBlocks) -> Self {
        let all = matches!(blocks, InBlocks::Format(_));
        Self {
            blocks,
            keep_fp8: self.keep_fp8 && !all,
            ..self
        }
    }

    /// Loads weights as FP8. Codes in the file stay; other weights become E4M3 with a scale for every 32 values of a row, found by least
    /// squares.
    ///
    /// Norms and routers stay as they are, and so do the embedding and the head, except that these two are bf16 on Flex. The scales add an
    /// eighth of the codes' bytes. With SmolLM2-135M, they reduce the change of the logits to a third of the change with blocks of 128 ×
    /// 128.
    pub fn fp8() -> Self {
        let rows = Granularity::Block {
            rows: 1,
            columns: 32,
        };
        let quantizer = Quantizer::new(Fp8Format::E4M3, rows);
        Self {
            round: Some(quantizer.with_scales(ScaleRule::LeastSquares)),
            narrow_embedding: true,
            ..Self::default()
        }
    }
}

impl LoadOptions {
    /// The dtype of the values of a slot, if it isn't narrower than the rest.
    pub(super) fn dtype_of(self, slot: Slot) -> DType {
        if self.frozen && !slot.is_of_product() {
            DType::F32
        } else {
            self.dtype
        }
    }

    /// Whether experts may stay in the files where memory doesn't hold all of them.
    pub(super) fn may_switch(self) -> bool {
        self.expert_cache.is_none() && !self.exact
    }

    /// The model, exact if it is to be.
    pub(super) fn of(self, model: Model) -> Result<Model, Error> {
        if self.exact {
            model.with_exact()
        } else {
            Ok(model)
        }
    }
}
