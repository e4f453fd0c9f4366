//! Measurements as `ministat` prints them.

/// One row's numbers.
pub(crate) struct Sample {
    pub(crate) label: String,
    pub(crate) values: Vec<f64>,
}

impl Sample {
    pub(crate) fn average(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// Of a sample, with one degree of freedom less.
    fn standard_deviation(&self) -> f64 {
        let average = self.average();
        let squares: f64 = self
            .values
            .iter()
            .map(|value| (value - average).powi(2))
            .sum();
        (squares / (self.values.len() as f64 - 1.0)).sqrt()
    }
}

/// A table with a row for each sample.
pub(crate) fn table(unit: &str, samples: &[Sample]) -> String {
    let width = samples
        .iter()
        .map(|sample| sample.label.len())
        .max()
        .unwrap_or(0)
        .max(unit.len());
    let mut table = format!(
        "{unit:width$} {:>4} {:>12} {:>12} {:>12} {:>12} {:>12}\n",
        "N", "Min", "Max", "Median", "Avg", "Stddev"
    );
    for sample in samples {
        let mut sorted = sample.values.clone();
        sorted.sort_by(f64::total_cmp);
        table.push_str(&format!(
            "{:width$} {:>4} {:>12.1} {:>12.1} {:>12.1} {:>12.1} {:>12.1}\n",
            sample.label,
            sorted.len(),
            sorted[0],
            sorted[sorted.len() - 1],
            median(&sorted),
            sample.average(),
            sample.standard_deviation(),
        ));
    }
    table
}

fn median(sorted: &[f64]) -> f64 {
    let (upper, lower) = (sorted.len() / 2, (sorted.len() - 1) / 2);
    f64::midpoint(sorted[lower], sorted[upper])
}
