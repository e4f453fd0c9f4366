//! Medians and spread of a few rounds.

use serde::Serialize;

/// Five-number summary of a set of measurements.
///
/// Quartiles are interpolated linearly between the two nearest values (the
/// definition that spreadsheets and R use by default).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many measurements there were.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// First quartile.
    pub q1: f64,
    /// The median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Summarises `values`; `None` if there are none or one is not a number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            count: sorted.len(),
            min: sorted[0],
            q1: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            q3: quantile(&sorted, 0.75),
            max: sorted[sorted.len() - 1],
        })
    }

    /// Arithmetic mean and sample standard deviation of `values`, as ministat(1) prints them; no
    /// deviation for a single value.
    pub(crate) fn mean_and_deviation(values: &[f64]) -> Option<(f64, Option<f64>)> {
        let count = values.len() as f64;
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        Some((mean, deviation))
    }

    /// The interquartile range, which contains the middle half of the rounds.
    pub fn interquartile_range(&self) -> f64 {
        self.q3 - self.q1
    }
}

/// The quantile `q` in 0..=1 of a non-empty sorted slice.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q * (sorted.len() - 1) as f64;
    let below = position.floor() as usize;
    let above = position.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_count_has_its_middle_value_as_median() {
        let summary = Summary::of(&[5.0, 1.0, 3.0, 2.0, 4.0]).expect("five numbers");
        assert_eq!((summary.min, summary.median, summary.max), (1.0, 3.0, 5.0));
        assert_eq!((summary.q1, summary.q3), (2.0, 4.0));
        assert_eq!(summary.interquartile_range(), 2.0);
    }

    #[test]
    fn even_count_interpolates() {
        let summary = Summary::of(&[1.0, 2.0, 3.0, 10.0]).expect("four numbers");
        assert_eq!(summary.median, 2.5);
        assert_eq!((summary.q1, summary.q3), (1.75, 4.75));
    }

    #[test]
    fn one_value_is_everything_at_once() {
        let summary = Summary::of(&[7.0]).expect("one number");
        assert_eq!(
            (
                summary.min,
                summary.q1,
                summary.median,
                summary.q3,
                summary.max
            ),
            (7.0, 7.0, 7.0, 7.0, 7.0)
        );
    }

    #[test]
    fn mean_and_deviation_of_a_sample() {
        let of = Summary::mean_and_deviation;
        assert_eq!(of(&[2.0, 4.0, 6.0]), Some((4.0, Some(2.0))));
        assert_eq!(of(&[5.0]), Some((5.0, None)));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[f64::NAN]), None);
    }

    #[test]
    fn nothing_and_not_a_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }
}
