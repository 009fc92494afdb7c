//! How much the experts of a layer differ.

use crate::decoder::{FeedForwardSpec, ModelSpec, Place, Slot, Values};
use crate::error::Error;

/// Of each layer with experts, how far they are from their mean: √(mean over experts of ‖w − w̄‖²) / ‖w̄‖ over the matrices of their first
/// product, in f64. Copies of one network have 0, and matrices that have nothing in common, about √(E − 1).
///
/// # Errors
/// What keeps `values` from being read.
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
        // 1 and 3: mean 2, both 1 away.
        assert!((of_experts(&[1.0, 3.0], 2) - 0.5).abs() < 1e-12);
    }
}
