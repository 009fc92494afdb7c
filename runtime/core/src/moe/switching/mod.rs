//! A layer whose experts don't all fit on the device: they live on the host, and those that a
//! batch needs are moved to a fixed number of places on the device.
//!
//! A forward routes the batch, reads which experts were chosen (the one wait for the device),
//! replaces the least recently used ones, and computes. When a batch needs more experts than there
//! are places, it computes in waves. Every slot's output is kept by itself until all waves are
//! done, and only then summed in slot order, so y has the same bits as from
//! [`MoeLayer`](super::MoeLayer) with the same weights, however many places there are; on XLA, which
//! chooses by the whole program what it rounds in between, to 1e-5. That takes the memory of
//! 3 · S · H elements beside the places.

mod cache;

pub use cache::{CacheStatistics, ExpertCache};

use super::check::Like;
use super::config::MoeConfig;
use super::experts::feed_forward::SharedExpert;
use super::experts::{ExpertKind, Experts};
use super::factors::CapacityFactors;
use super::layer::{MoeLayer, MoeOutput, RouteStage, check_around};
use super::losses::LoadStatistics;
use super::route::check_mask;
use super::routers::Router;
use crate::Error;
use crate::check::check_same;
use crate::ops::{self, Assignment, CapacityRule, Rows, Run, routing};
use burn::module::Param;
use burn::tensor::{Bool, Bytes, DType, Device, Int, Tensor, TensorData};
use moebius_ops::{Fault, Mismatch};
use moebius_shaders::grouped_gemm::Variant;

/// A mixture-of-experts layer for inference with experts that are moved to the device when a token
/// needs them; see the [module](self).
#[derive(Debug)]
pub struct SwitchedExperts {
    layer: HostLayer,
    cache: ExpertCache,
    variant: Option<Variant>,
}

impl SwitchedExperts {
    /// A copy with this kernel variant; see
    /// [`MoeLayer::with_variant`](super::MoeLayer::with_variant).
    pub fn with_variant(mut self, variant: Option<Variant>) -> Self {
        self.variant = variant;
        self
    }

    /// Chooses experts.
    pub fn router(&self) -> &Router {
        &self.layer.router
    }

    /// Capacity factors that change; when serving, a scheduler is told of the load here.
    pub fn factors(&self) -> Option<&CapacityFactors> {
        self.layer.factors.as_ref()
    }

    /// The experts on the device, and what moving them cost.
    pub fn cache(&self) -> &ExpertCache {
        &self.cache
    }

    /// [`MoeLayer::forward`](super::MoeLayer::forward) of x \[.., H\], which waits for the device
    /// once, when it reads which experts were chosen.
    ///
    /// # Errors
    /// As [`MoeLayer::forward`](super::MoeLayer::forward), and
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn forward<const D: usize>(&mut self, x: Tensor<D>) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, None)
    }

    /// [`SwitchedExperts::forward`] with only the experts for which `expert_mask` \[E\] is true.
    ///
    /// # Errors
    /// As [`SwitchedExperts::forward`], and [`ErrorKind::Shape`](crate::ErrorKind::Shape) for a
    /// mask of another length, [`ErrorKind::Device`](crate::ErrorKind::Device) for one on another device.
    pub fn forward_masked<const D: usize>(
        &mut self,
        x: Tensor<D>,
        expert_mask: Tensor<1, Bool>,
    ) -> Result<MoeOutput<D>, Error> {
        self.forward_where(x, Some(expert_mask))
    }

    fn forward_where<const D: usize>(
        &mut self,
        x: Tensor<D>,
        mask: Option<Tensor<1, Bool>>,
    ) -> Result<MoeOutput<D>, Error> {
        let (shape, hidden) = (x.dims(), self.layer.config.hidden);
        let like = self.cache.like();
        like.check_input(&x, hidden)?;
        let device = like.device;
        check_mask(mask.as_ref(), self.layer.config.experts, &device)?;
        let tokens = shape.iter().product::<usize>() / hidden;
        if tokens == 0 {
            return Ok(MoeOutput {
                y: x,
                routing: self.layer.router.empty(&device),
                dropped_slots: Tensor::zeros([1], &device),
            });
        }
        let x = x.reshape([tokens, hidden]);
        let stage = RouteStage {
            router: &self.layer.router,
            factors: self.layer.factors.as_ref(),
            config: &self.layer.config,
            variant: self.variant,
        };
        let dispatched = stage.run(&x, mask, None)?;
        let routing = dispatched.routing;
        // Slots that the capacity dropped need no expert.
        let experts = self.layer.config.experts as i64;
        let nowhere = dispatched.assignment.positions().lower_elem(0);
        let chosen = routing.indices.clone().mask_fill(nowhere.clone(), experts);
        let slots = self.slot_outputs(&x, chosen)?;
        let weights = routing.weights.clone().mask_fill(nowhere, 0.0);
        let y = combined(slots, weights, self.variant)?;
        let shared = self.layer.shared.as_ref();
        let y = SharedExpert::beside(shared, y, x, &self.layer.config, self.variant)?;
        Ok(MoeOutput {
            y: y.reshape(shape),
            routing,
            dropped_slots: dispatched.dropped,
        })
    }

    /// \[S,H\]: the output of every slot of `chosen` \[T,K\], 0 for those of no expert.
    fn slot_outputs(&mut self, x: &Tensor<2>, chosen: Tensor<2, Int>) -> Result<Tensor<2>, Error> {
        let MoeConfig {
            hidden, experts, ..
        } = self.layer.config;
        let [tokens, top_k] = chosen.dims();
        let count = tokens * top_k;
        let load = routing::load(chosen.clone(), experts, 1)?;
        let load = LoadStatistics::read(load.reshape([experts]))?;
        let used = load.counts.iter().enumerate();
        let used: Vec<usize> = used.filter(|(_, n)| **n > 0).map(|(e, _)| e).collect();
        // Every slot is a token of its own, because its output must stay apart.
        let rows = x.clone().unsqueeze_dim::<3>(1);
        let rows = rows
            .expand([tokens, top_k, hidden])
            .reshape([count, hidden]);
        let chosen = chosen.reshape([count]);
        let mut sum: Option<Tensor<2>> = None;
        for wave in self.cache.residents.waves(&used) {
            self.cache.bring(&wave, &self.layer.experts)?;
            let places = self.cache.places_of(&wave, experts);
            let places = Tensor::<1, Int>::from_data(TensorData::from(&places[..]), &x.device());
            let places = places.select(0, chosen.clone()).reshape([count, 1]);
            let out = self.wave(rows.clone(), places)?;
            // A slot is in one wave, and 0 + its output is its output.
            sum = Some(match sum {
                Some(sum) => sum + out,
                None => out,
            });
        }
        Ok(sum.unwrap_or_else(|| rows.zeros_like()))
    }

    /// The outputs of the slots whose expert has a place.
    fn wave(&self, rows: Tensor<2>, places: Tensor<2, Int>) -> Result<Tensor<2>, Error> {
        let options = (&rows.device(), DType::F32);
        let ones = Tensor::<2>::ones(places.dims(), options);
        let rule = CapacityRule::default();
        let count = self.cache.places();
        let assignment = Assignment::new(places, ones.clone(), count, rule, self.variant)?;
        let config = &self.layer.config;
        let problem = config.fused(assignment.routing(), rows.dtype())?;
        let experts = self.cache.experts();
        let of = Rows::Sorted(&assignment);
        ops::experts::run(rows, Some(ones), experts, of, problem, Run::default())
    }
}

/// \[T,H\]: the weighted sum of every token's slots \[S,H\], as the layer does it.
fn combined(
    slots: Tensor<2>,
    weights: Tensor<2>,
    variant: Option<Variant>,
) -> Result<Tensor<2>, Error> {
    // The sorted slots of a single expert are all slots in their order. There are K experts only
    // because a token can't choose more than there are.
    let [tokens, top_k] = weights.dims();
    let first = Tensor::<2, Int>::zeros([tokens, top_k], &slots.device());
    let rule = CapacityRule::default();
    let assignment = Assignment::new(first, weights.clone(), top_k, rule, variant)?;
    assignment.combine(slots, Some(weights))
}

/// The weights of one feed-forward expert.
#[derive(Clone, Debug, PartialEq)]
pub struct HostExpert {
    /// \[F,H\], gated \[2F,H\]: gate rows, then up rows.
    pub w_in: TensorData,
    /// \[F\] or \[2F\].
    pub b_in: Option<TensorData>,
    /// \[H,F\].
    pub w_out: TensorData,
    /// \[H\].
    pub b_out: Option<TensorData>,
}

/// A layer with its experts in host memory; everything else stays where it is.
#[derive(Clone, Debug)]
pub struct HostLayer {
    /// What the layer computes.
    pub config: MoeConfig,
    /// Chooses experts.
    pub router: Router,
    /// What every token goes through.
    pub shared: Option<SharedExpert>,
    /// Capacity factors that change.
    pub factors: Option<CapacityFactors>,
    /// E of them.
    pub experts: Vec<HostExpert>,
}

impl HostLayer {
    /// Reads a layer's experts: waits for the device, and frees them there when this was the last
    /// copy of the layer.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) for experts that aren't feed-forward,
    /// [`ErrorKind::Device`](crate::ErrorKind::Device) when the device failed.
    pub fn read(layer: MoeLayer) -> Result<Self, Error> {
        layer.check()?;
        let config = *layer.config();
        let stack = match layer.experts {
            Experts::FeedForward(stack) if stack.is_float() => stack,
            _ => return Err(not_feed_forward(&config).into()),
        };
        let (w_in, w_out) = (stack.w_in.float()?, stack.w_out.float()?);
        let [b_in, b_out] = [stack.b_in, stack.b_out].map(|bias| bias.map(Param::into_value));
        let one = |e: usize| -> Result<HostExpert, Error> {
            Ok(HostExpert {
                w_in: part(&w_in, e)?,
                b_in: b_in.as_ref().map(|b| part(b, e)).transpose()?,
                w_out: part(&w_out, e)?,
                b_out: b_out.as_ref().map(|b| part(b, e)).transpose()?,
            })
        };
        let experts: Result<Vec<_>, Error> = (0..config.experts).map(one).collect();
        Ok(Self {
            config,
            router: layer.router,
            shared: layer.shared,
            factors: layer.factors,
            experts: experts?,
        })
    }

    /// The layer on `device`, which also holds the router and a shared expert, with at most
    /// `budget_bytes` of experts there: as many places as that holds beside one expert on its way,
    /// ⌊budget / bytes of an expert⌋ − 1, at most E. The router and a shared expert aren't counted.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`](crate::ErrorKind::Shape) for weights of other shapes or dtypes
    /// than the configuration's, [`ErrorKind::Device`](crate::ErrorKind::Device) for several devices or one that records gradients,
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for a budget of less than two experts: one in place and one on its way.
    pub fn switched(self, budget_bytes: u64, device: &Device) -> Result<SwitchedExperts, Error> {
        let expected = "one that doesn't record gradients";
        let got = format_args!("{device:?}");
        let what = "device of switched experts";
        Fault::Device.unless(!device.is_autodiff(), what, expected, got)?;
        let like = Like::new(self.check()?, device.clone())?;
        let (shared, factors) = (self.shared.as_ref(), self.factors.as_ref());
        check_around((&self.router, shared, factors), &self.config, &like)?;
        let cache = ExpertCache::new(&self.config, like.dtype, budget_bytes, device)?;
        Ok(SwitchedExperts {
            layer: self,
            cache,
            variant: None,
        })
    }

    /// Checks the experts; returns the dtype they share.
    fn check(&self) -> Result<DType, Mismatch> {
        let config = &self.config;
        if config.kind != ExpertKind::FeedForward || config.fp8.is_some() {
            return Err(not_feed_forward(config));
        }
        Mismatch::check("host experts", config.experts, self.experts.len())?;
        let Some(first) = self.experts.first() else {
            return Err(Mismatch::new("host experts", "at least 1", 0));
        };
        let (h, f, columns) = (config.hidden, config.inter, config.columns_in());
        let dtype = first.w_in.dtype();
        for expert in &self.experts {
            let weights = [
                (
                    "w_in [F or 2F, H]",
                    Some(&expert.w_in),
                    true,
                    vec![columns, h],
                ),
                ("w_out [H,F]", Some(&expert.w_out), true, vec![h, f]),
                ("b_in", expert.b_in.as_ref(), config.bias, vec![columns]),
                ("b_out", expert.b_out.as_ref(), config.bias, vec![h]),
            ];
            for (what, weight, present, shape) in weights {
                check_same(what, weight.is_some(), present)?;
                if let Some(weight) = weight {
                    check_same(what, weight.shape().to_vec(), shape)?;
                    check_same(what, weight.dtype(), dtype)?;
                }
            }
        }
        Ok(dtype)
    }
}

fn not_feed_forward(config: &MoeConfig) -> Mismatch {
    let got = match config.fp8 {
        Some(_) => format!("{:?} in FP8", config.kind),
        None => format!("{:?}", config.kind),
    };
    Fault::Unsupported.error("switched experts", "feed-forward", got)
}

/// Entry `e` of a stack, on the host, without its first dimension.
fn part<const D: usize>(stack: &Tensor<D>, e: usize) -> Result<TensorData, Error> {
    let one = stack.clone().without_autodiff().narrow(0, e, 1);
    let data = one.try_into_data().map_err(Error::device)?;
    let (bytes, shape, dtype) = data.into_parts();
    // What is read may be a view of memory that still belongs to the device: a copy frees it there.
    let bytes = Bytes::from_bytes_vec(bytes.to_vec());
    Ok(TensorData::from_bytes(bytes, shape[1..].to_vec(), dtype))
}
