//! The relative distance of results from expected values.

/// The relative distance ‖got − want‖ / ‖want‖: infinite if it is NaN or the lengths differ, and 0 for equal slices.
pub fn distance<G, W>(got: &[G], want: &[W]) -> f64
where
    G: Copy + Into<f64>,
    W: Copy + Into<f64>,
{
    distance_over(got, want, 0.0)
}

/// The distance ‖got − want‖ / max(‖want‖, `least`), otherwise like [`distance()`], for results that are differences of larger
/// numbers.
pub fn distance_over<G, W>(got: &[G], want: &[W], least: f64) -> f64
where
    G: Copy + Into<f64>,
    W: Copy + Into<f64>,
{
    if got.len() != want.len() {
        return f64::INFINITY;
    }
    let (mut error, mut norm) = (0.0f64, 0.0f64);
    for (got, want) in got.iter().zip(want) {
        let (got, want): (f64, f64) = ((*got).into(), (*want).into());
        error += (got - want).powi(2);
        norm += want.powi(2);
    }
    if error == 0.0 {
        return 0.0;
    }
    let relative = error.sqrt() / norm.sqrt().max(least);
    if relative.is_nan() {
        f64::INFINITY
    } else {
        relative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_relative_to_what_was_rounded() {
        assert_eq!(distance(&[3.0, 5.0], &[3.0, 4.0]), 0.2);
        assert_eq!(distance(&[3.0f32, 4.5], &[3.0, 4.0]), 0.1);
        assert_eq!(distance(&[3.0, 4.0], &[3.0, 4.0]), 0.0);
        assert_eq!(distance_over(&[3.0, 5.0], &[3.0, 4.0], 10.0), 0.1);
    }

    #[test]
    fn what_is_no_number_or_missing_is_infinitely_far() {
        assert_eq!(distance(&[f32::NAN], &[1.0]), f64::INFINITY);
        assert_eq!(distance(&[1.0], &[1.0, 0.0]), f64::INFINITY);
        assert_eq!(distance(&[0.0], &[0.0]), 0.0);
        assert_eq!(distance(&[1.0], &[0.0]), f64::INFINITY);
    }
}
