//! Conversion of dense models into mixtures of experts that compute the same (Komatsuzaki et al. 2023, "Sparse upcycling"), and a measure
//! of how far the experts have diverged since.

use std::path::{Path, PathBuf};

use moebius_weights::Unfit;

use crate::decoder::{Drawn, FeedForwardSpec, ModelSpec, Place, Slot, Values};
use crate::error::{Error, Misfits};
use crate::families::{Sizes, upcycled};
use crate::load::{FileValues, ModelFiles};
use crate::save::{Beside, save};

/// How a dense feed-forward network becomes experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upcycling {
    /// Each expert is a copy of the network, and a randomly drawn router chooses `top_k` of them with weights that sum to 1. Training makes
    /// the experts diverge.
    Copies {
        /// Number of experts.
        experts: usize,
        /// Experts per token.
        top_k: usize,
        /// Seed of the routers.
        seed: u64,
    },
    /// Each expert is a slice of the network's width; every token goes to all of them with equal weights.
    Split {
        /// Number of experts, a divisor of the network's inner width.
        experts: usize,
    },
}

impl Upcycling {
    fn sizes(self, inter: usize) -> Result<Sizes, Error> {
        match self {
            Self::Copies { experts, top_k, .. } => {
                Error::check(experts > 0, "experts", "at least 1", experts)?;
                let expected = format!("1 to {experts}");
                let fits = (1..=experts).contains(&top_k);
                Error::check(fits, "experts of a token", expected, top_k)?;
                Ok(Sizes {
                    experts,
                    top_k,
                    inter,
                })
            }
            Self::Split { experts } => {
                let expected = format!("a divisor of the width {inter}");
                let fits = experts > 0 && inter.is_multiple_of(experts);
                Error::check(fits, "experts", expected, experts)?;
                Ok(Sizes {
                    experts,
                    top_k: experts,
                    inter: inter / experts,
                })
            }
        }
    }
}

/// Result of an upcycling.
#[derive(Clone, Debug)]
pub struct Upcycled {
    /// Folder of the mixture.
    pub folder: PathBuf,
    /// Description of the mixture.
    pub spec: ModelSpec,
}

/// Writes the dense model in `files` as a mixture of experts into the folder `target`, which is new or empty, with the tokenizer and the
/// other small files beside it. The weights of one place are in memory at a time.
///
/// A mixture gives the logits of the dense model up to the rounding of a sum of experts.
///
/// # Errors
/// [`Error::Config`] for numbers that don't fit the model, [`Error::Misfits`] for a model that isn't dense or has no counterpart with
/// experts, and the errors of [`save`].
pub fn upcycle(files: &ModelFiles, how: Upcycling, target: &Path) -> Result<Upcycled, Error> {
    let unfit = |what, expected, got| Misfits::of_config(vec![Unfit::new(what, expected, got)]);
    let config = files.config();
    let config =
        config.ok_or_else(|| unfit("a dense model", "a folder with config.json", "a GGUF file"))?;
    let inter = files
        .spec()
        .layers
        .iter()
        .find_map(|of| of.feed_forward.width());
    let inter = inter.ok_or_else(|| unfit("a dense model", "layers without experts", "none"))?;
    let sizes = how.sizes(inter)?;
    let (config, mut spec) = upcycled(&config, sizes).map_err(Misfits::of_config)?;
    // A head that is stored counts, whatever the configuration says.
    spec.tied = files.spec().tied;
    let mut values = Mixture {
        dense: files.values(),
        spec: &spec,
        how,
    };
    let beside = Beside {
        folder: files.reader().and_then(|reader| reader.folder()),
        files: &[],
    };
    let folder = save(&mut values, &config, beside, target)?;
    Ok(Upcycled { folder, spec })
}

/// The weights of the mixture, made from those of the dense model.
struct Mixture<'a> {
    dense: FileValues<'a>,
    spec: &'a ModelSpec,
    how: Upcycling,
}

impl Values for Mixture<'_> {
    fn values(&mut self, place: Place) -> Result<Vec<f32>, Error> {
        let of_dense = |slot| Place { slot, ..place };
        match (place.slot, self.how) {
            (Slot::Router, Upcycling::Copies { seed, .. }) => {
                Drawn::new(self.spec, seed).values(place)
            }
            (Slot::Router, Upcycling::Split { .. }) => {
                let count = place.shape(self.spec).iter().product();
                Ok(vec![0.0; count])
            }
            (Slot::ExpertsIn, how) => {
                let dense = self.dense.values(of_dense(Slot::DenseIn))?;
                Ok(match how {
                    Upcycling::Copies { experts, .. } => dense.repeat(experts),
                    Upcycling::Split { experts } => split_rows(&dense, experts),
                })
            }
            (Slot::ExpertsOut, how) => {
                let dense = self.dense.values(of_dense(Slot::DenseOut))?;
                Ok(match how {
                    Upcycling::Copies { experts, .. } => dense.repeat(experts),
                    Upcycling::Split { experts } => {
                        split_columns(&dense, experts, self.spec.hidden)
                    }
                })
            }
            _ => self.dense.values(place),
        }
    }

    fn own_head(&self) -> Option<bool> {
        self.dense.own_head()
    }
}

/// Splits the rows of a dense \[2F, H\] (the gate's, then those of up) between the experts: \[E, 2F/E, H\].
fn split_rows(dense: &[f32], experts: usize) -> Vec<f32> {
    let (gate, up) = dense.split_at(dense.len() / 2);
    let part = gate.len() / experts;
    let parts = (0..experts).flat_map(|at| [&gate[at * part..][..part], &up[at * part..][..part]]);
    parts.flatten().copied().collect()
}

/// Splits the columns of a dense \[H, F\] between the experts and multiplies by E, as each expert has the weight 1/E: \[E, H, F/E\].
fn split_columns(dense: &[f32], experts: usize, rows: usize) -> Vec<f32> {
    let columns = dense.len() / rows;
    let part = columns / experts;
    let parts = (0..experts).flat_map(|at| {
        let of_rows = dense.chunks_exact(columns);
        of_rows.flat_map(move |row| &row[at * part..][..part])
    });
    parts.map(|value| value * experts as f32).collect()
}

/// Measures, for each layer with experts, how far the experts are from their mean: √(mean over experts of ‖w − w̄‖²) / ‖w̄‖ over the
/// matrices of their first product, in f64. Copies of one network give 0, unrelated matrices about √(E − 1).
///
/// # Errors
/// The error of `values` when they can't be read.
pub fn spread(values: &mut dyn Values, spec: &ModelSpec) -> Result<Vec<f64>, Error> {
    let mut found = Vec::new();
    for (layer, of) in spec.layers.iter().enumerate() {
        if let FeedForwardSpec::Experts(experts) = &of.feed_forward {
            let slot = Slot::ExpertsIn;
            let all = values.values(Place { layer, slot })?;
            found.push(of_experts(&all, experts.experts));
        }
    }
    Ok(found)
}

fn of_experts(all: &[f32], experts: usize) -> f64 {
    let size = all.len() / experts;
    let (mut apart, mut together) = (0.0, 0.0);
    for at in 0..size {
        let of = all[at..]
            .iter()
            .step_by(size)
            .map(|&value| f64::from(value));
        let mean = of.clone().sum::<f64>() / experts as f64;
        apart += of.map(|value| (value - mean).powi(2)).sum::<f64>() / experts as f64;
        together += mean * mean;
    }
    (apart / together).sqrt()
}

#[cfg(test)]
mod tests {
    use super::of_experts;

    #[test]
    fn copies_have_none_and_opposites_have_much() {
        assert_eq!(of_experts(&[1.0, -2.0, 1.0, -2.0, 1.0, -2.0], 3), 0.0);
        // The mean of 1 and 3 is 2, and each is 1 away from it.
        assert!((of_experts(&[1.0, 3.0], 2) - 0.5).abs() < 1e-12);
    }
}
