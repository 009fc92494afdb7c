//! Router logits: logits\[t,e\] = Σ_h x\[t,h\] · w\[e,h\] in f32, whatever the dtype of x and w.
//!
//! FLOPs 2·T·E·H; bytes (T·H + E·H) elements read, 4·T·E written.
//!
//! Their gradients: dx\[t\] = Σ_e dl\[t,e\] · w\[e\] and dw\[e\] = Σ_t dl\[t,e\] · x\[t\].
//!
//! Shapes: dl \[T,E\] f32, x and dx \[T,H\] and w \[E,H\] of the element type, dw \[E,H\] f32.
//!
//! FLOPs 2·T·E·H each; bytes (T·H + E·H) elements and 4·T·E read, T·H elements or 4·E·H written.

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

/// The oracle, in f64: dx \[T,H\] and dw \[E,H\] for dlogits \[T,E\], x \[T,H\] and w \[E,H\].
pub fn logits_backward_reference(
    dlogits: &[f32],
    x: &[f32],
    w: &[f32],
    hidden: usize,
) -> (Vec<f64>, Vec<f64>) {
    let experts = w.len() / hidden;
    let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; w.len()]);
    for (i, d) in dlogits.iter().enumerate() {
        let (token, expert) = (i / experts * hidden, i % experts * hidden);
        for h in 0..hidden {
            dx[token + h] += f64::from(*d) * f64::from(w[expert + h]);
            dw[expert + h] += f64::from(*d) * f64::from(x[token + h]);
        }
    }
    (dx, dw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_by_hand() {
        let logits = logits_reference(&[1.0, 2.0, -3.0, 0.5], &[2.0, 1.0, 0.0, 4.0], 2);
        assert_eq!(logits, [4.0, 8.0, -5.5, 2.0]);
    }

    /// The logits are linear in x and in w, so Σ dl·l = Σ dx·x = Σ dw·w.
    #[test]
    fn oracle_is_the_adjoint_of_the_logits() {
        let values = |n: usize, seed: f32| -> Vec<f32> {
            (0..n).map(|i| ((i as f32 + seed) * 0.7).sin()).collect()
        };
        let (dlogits, x, w) = (values(12, 1.0), values(20, 2.0), values(15, 3.0));
        let (dx, dw) = logits_backward_reference(&dlogits, &x, &w, 5);
        let dot =
            |a: &[f64], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum() };
        let want = dot(&logits_reference(&x, &w, 5), &dlogits);
        assert!((dot(&dx, &x) - want).abs() < 1e-12);
        assert!((dot(&dw, &w) - want).abs() < 1e-12);
    }
}
