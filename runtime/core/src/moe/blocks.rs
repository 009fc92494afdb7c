//! Feed-forward blocks of a GLaM-style model, in which dense and mixture-of-experts layers alternate.

use super::config::MoeConfig;
use super::experts::FeedForwardExperts;
use super::layer::MoeLayer;
use super::route::Routing;
use crate::Error;
use crate::check::{check_positive, shaped};
use burn::module::Module;
use burn::tensor::{Bool, DType, Device, Int, Tensor};
use serde::{Deserialize, Serialize};

/// The configuration of alternating dense and mixture-of-experts blocks (Du et al. 2022).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GlamConfig {
    /// The configuration of the mixture-of-experts blocks.
    pub moe: MoeConfig,
    /// Width of the dense blocks.
    pub dense_inter: usize,
}

impl GlamConfig {
    /// Dense blocks of width `inter`, and [`MoeConfig::glam`] blocks that cost as much per token.
    pub fn new(hidden: usize, inter: usize, experts: usize) -> Self {
        Self {
            moe: MoeConfig::glam(hidden, inter, experts),
            dense_inter: inter,
        }
    }

    fn dense(&self) -> MoeConfig {
        MoeConfig {
            inter: self.dense_inter,
            ..self.moe
        }
    }

    /// Creates `blocks` blocks: dense at even indices, mixture of experts at odd ones.
    ///
    /// # Errors
    /// As [`MoeConfig::init`].
    pub fn init(&self, blocks: usize, device: &Device) -> Result<Vec<FeedForwardBlock>, Error> {
        self.moe.check()?;
        check_positive("dense_inter", self.dense_inter)?;
        self.moe.check_size(self.dense_inter, 1)?;
        let block = |at: usize| -> Result<_, Error> {
            if at % 2 == 1 {
                return Ok(FeedForwardBlock::Moe(self.moe.init(device)?));
            }
            let config = self.dense();
            Ok(FeedForwardBlock::Dense(DenseBlock {
                experts: FeedForwardExperts::new(&config, 1, device),
                config,
            }))
        };
        (0..blocks).map(block).collect()
    }
}

/// One feed-forward block; residuals and norms belong to the model.
#[derive(Module, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a model has few blocks, and Burn's modules can't be boxed"
)]
pub enum FeedForwardBlock {
    /// One network for every token.
    Dense(DenseBlock),
    /// A layer in which every token goes through its chosen experts.
    Moe(MoeLayer),
}

/// What a block returns.
#[derive(Clone, Debug)]
pub struct BlockOutput<const D: usize> {
    /// The output, in the shape of x.
    pub y: Tensor<D>,
    /// The routing of a mixture-of-experts block; `None` for a dense block.
    pub routing: Option<Routing>,
    /// The number of slots \[1\] that reached no expert; `None` for a dense block.
    pub dropped_slots: Option<Tensor<1, Int>>,
}

impl FeedForwardBlock {
    /// Computes y from x \[.., H\].
    ///
    /// # Errors
    /// As [`MoeLayer::forward`].
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<BlockOutput<D>, Error> {
        self.forward_where(x, None)
    }

    /// Does what [`FeedForwardBlock::forward`] does with only the experts for which `expert_mask` \[E\] is true; a dense block ignores the
    /// mask.
    ///
    /// # Errors
    /// As [`MoeLayer::forward_masked`].
    pub fn forward_masked<const D: usize>(
        &self,
        x: Tensor<D>,
        expert_mask: Tensor<1, Bool>,
    ) -> Result<BlockOutput<D>, Error> {
        self.forward_where(x, Some(expert_mask))
    }

    fn forward_where<const D: usize>(
        &self,
        x: Tensor<D>,
        mask: Option<Tensor<1, Bool>>,
    ) -> Result<BlockOutput<D>, Error> {
        let (y, routing, dropped_slots) = match self {
            Self::Dense(block) => (block.forward(x)?, None, None),
            Self::Moe(layer) => {
                let out = layer.forward_where(x, mask, None)?;
                (out.y, Some(out.routing), Some(out.dropped_slots))
            }
        };
        Ok(BlockOutput {
            y,
            routing,
            dropped_slots,
        })
    }

    /// The same block with weights in another dtype.
    ///
    /// # Errors
    /// As [`MoeLayer::cast`].
    pub fn cast(self, dtype: DType) -> Result<Self, Error> {
        crate::check::element(dtype)?;
        Ok(match self {
            Self::Dense(block) => Self::Dense(DenseBlock {
                experts: block.experts.cast(dtype),
                ..block
            }),
            Self::Moe(layer) => Self::Moe(layer.cast(dtype)?),
        })
    }
}

/// A dense feed-forward network: the products of experts, with one expert for all tokens and no sort.
#[derive(Module, Debug)]
pub struct DenseBlock {
    /// Weights of one expert.
    pub experts: FeedForwardExperts,
    #[module(skip)]
    config: MoeConfig,
}

impl DenseBlock {
    /// A network with the weights of one expert: activation, gate, biases and sizes are those of `config`, whose router and number of
    /// experts don't matter.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a width of 0, [`ErrorKind::Shape`](crate::ErrorKind::Shape) for weights of other
    /// shapes than the configuration's, or of several dtypes, [`ErrorKind::Device`](crate::ErrorKind::Device) for several devices.
    pub fn new(config: MoeConfig, experts: FeedForwardExperts) -> Result<Self, Error> {
        check_positive("hidden", config.hidden)?;
        check_positive("inter", config.inter)?;
        let config = MoeConfig {
            experts: 1,
            ..config
        };
        experts.check(&experts.like()?, &config, 1)?;
        Ok(Self { experts, config })
    }

    /// The configuration of the network.
    pub(super) fn config(&self) -> &MoeConfig {
        &self.config
    }

    /// Computes y from x \[.., H\].
    ///
    /// # Errors
    /// As [`MoeLayer::forward`].
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Result<Tensor<D>, Error> {
        let (shape, hidden) = (x.dims(), self.config.hidden);
        let like = self.experts.like()?;
        self.experts.check(&like, &self.config, 1)?;
        like.check_input(&x, hidden)?;
        let tokens = shape.iter().product::<usize>() / hidden;
        if tokens == 0 {
            return Ok(x);
        }
        let x = shaped(x, [tokens, hidden]);
        let y = self.experts.forward_all(x, None, &self.config, None)?;
        Ok(shaped(y, shape))
    }
}
