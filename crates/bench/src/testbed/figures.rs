//! Formats figures for reports.

use crate::Summary;

/// Smallest and largest.
pub(crate) fn spread(summary: &Summary) -> String {
    format!("{}..{}", number(summary.min), number(summary.max))
}

/// Median and range of ratios.
pub(crate) fn ratio_text(summary: &Summary) -> String {
    format!(
        "{:.2} ({:.2}..{:.2})",
        summary.median, summary.min, summary.max
    )
}

/// Whether a target was met.
pub(crate) fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// Three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 100.0 => format!("{value:.0}"),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        magnitude if magnitude >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
