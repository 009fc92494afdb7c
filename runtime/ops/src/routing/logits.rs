//! Router logits: logits\[t,e\] = Σ_h x\[t,h\] · w\[e,h\] in f32, whatever the dtype of x and w.
//!
//! FLOPs 2·T·E·H; bytes (T·H + E·H) elements read, 4·T·E written.

/// The oracle, in f64: logits \[T,E\] of x \[T,H\] and w \[E,H\].
pub fn logits_reference(x: &[f32], w: &[f32], hidden: usize) -> Vec<f64> {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        products.sum()
    };
    x.chunks(hidden)
        .flat_map(|token| w.chunks(hidden).map(move |expert| dot(token, expert)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_by_hand() {
        let logits = logits_reference(&[1.0, 2.0, -3.0, 0.5], &[2.0, 1.0, 0.0, 4.0], 2);
        assert_eq!(logits, [4.0, 8.0, -5.5, 2.0]);
    }
}
