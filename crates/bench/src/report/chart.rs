//! Bar charts as inline SVG. Lengths are shares of the width, which the page decides; heights and
//! letters keep their size, so that a chart can be read on a phone.

use std::fmt::Write;

use crate::report::{
    markup::escaped,
    section::{Bar, Chart, Colour, range},
};

/// Heights in pixels.
const GROUP: u32 = 30;
const LABEL: u32 = 18;
const BAR: u32 = 12;
const GAP: u32 = 8;

/// Of a picture: its width, the space around what it shows, and the lines above the bars.
const WIDTH: u32 = 800;
const MARGIN: u32 = 24;
const TITLE: u32 = 24;
const LEGEND: u32 = 22;

/// The colours and letters of charts.
pub(super) const STYLE: &str = include_str!("chart.css");

/// Adds a chart. `name` is unique on the page.
pub(super) fn draw(output: &mut String, chart: &Chart, name: &str) {
    let _ = writeln!(
        output,
        "<figure>\n<figcaption>{}</figcaption>",
        escaped(&chart.title)
    );
    let _ = writeln!(output, "<p class=\"legend\">{}</p>", escaped(&chart.legend));
    let _ = writeln!(
        output,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"100%\" height=\"{}\" \
         aria-labelledby=\"{name}-title {name}-text\">",
        height(chart)
    );
    draw_names(output, chart, name);
    draw_groups(output, chart);
    output.push_str("</svg>\n</figure>\n");
}

/// A chart as a file of its own, for pages that show pictures.
pub(super) fn picture(chart: &Chart) -> String {
    let top = MARGIN + TITLE + LEGEND;
    let whole = top + height(chart) + MARGIN;
    let mut output = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"0 0 {WIDTH} {whole}\" \
         width=\"{WIDTH}\" height=\"{whole}\" aria-labelledby=\"chart-title chart-text\">\n"
    );
    draw_names(&mut output, chart, "chart");
    let _ = writeln!(
        output,
        "<style>\n{STYLE}</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{whole}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"{}\">{}</text>\n\
         <text class=\"range\" x=\"{MARGIN}\" y=\"{}\">{}</text>\n\
         <svg x=\"{MARGIN}\" y=\"{top}\" width=\"{}\" height=\"{}\">",
        MARGIN + TITLE - 8,
        escaped(&chart.title),
        MARGIN + TITLE + LEGEND - 8,
        escaped(&chart.legend),
        WIDTH - 2 * MARGIN,
        height(chart)
    );
    draw_groups(&mut output, chart);
    output.push_str("</svg>\n</svg>\n");
    output
}

fn height(chart: &Chart) -> u32 {
    let bars = chart.groups.iter().map(|(_, bars)| bars.len() as u32);
    bars.map(|count| GROUP + count * (LABEL + BAR + GAP)).sum()
}

/// What a chart is called, and what it says to those who cannot see it.
fn draw_names(output: &mut String, chart: &Chart, name: &str) {
    let _ = writeln!(
        output,
        "<title id=\"{name}-title\">{}</title>\n<desc id=\"{name}-text\">{}</desc>",
        escaped(&chart.title),
        escaped(&description(chart))
    );
}

fn draw_groups(output: &mut String, chart: &Chart) {
    let longest = longest(chart);
    let mut top = 0;
    for (title, bars) in &chart.groups {
        let _ = writeln!(
            output,
            "<text class=\"group\" x=\"0\" y=\"{}\">{}</text>",
            top + GROUP - 12,
            escaped(title)
        );
        top += GROUP;
        for bar in bars {
            draw_bar(output, chart, bar, top, longest);
            top += LABEL + BAR + GAP;
        }
    }
}

/// The figure that is as long as the chart is wide.
fn longest(chart: &Chart) -> f64 {
    let bars = chart.groups.iter().flat_map(|(_, bars)| bars);
    let figures = bars.filter_map(|bar| bar.value.as_ref().ok());
    let longest = figures
        .map(|summary| summary.max)
        .fold(chart.whole.unwrap_or(0.0), f64::max);
    if longest > 0.0 { longest } else { 1.0 }
}

fn draw_bar(output: &mut String, chart: &Chart, bar: &Bar, top: u32, longest: f64) {
    let label_y = top + LABEL - 5;
    let summary = match &bar.value {
        Ok(summary) => summary,
        Err(reason) => {
            let _ = writeln!(
                output,
                "<text x=\"0\" y=\"{label_y}\"><tspan>{}</tspan> <tspan class=\"missing\">{}</tspan></text>\n\
                 <rect class=\"none\" x=\"0\" y=\"{}\" width=\"100%\" height=\"1\"/>",
                escaped(&bar.label),
                escaped(&first_words(reason)),
                top + LABEL + BAR / 2
            );
            return;
        }
    };
    let text_range = match summary.count {
        1 => String::new(),
        _ => format!(" ({})", range(summary, chart.format)),
    };
    let _ = writeln!(
        output,
        "<text x=\"0\" y=\"{label_y}\"><tspan>{}</tspan> <tspan class=\"value\">{}</tspan><tspan class=\"range\">{}</tspan></text>",
        escaped(&bar.label),
        escaped(&(chart.format)(summary.median)),
        escaped(&text_range)
    );
    let share = |value: f64| (value / longest * 100.0).clamp(0.0, 100.0);
    let class = class_of(bar.colour);
    let top = top + LABEL;
    if let Some(reference) = chart.whole {
        let _ = writeln!(
            output,
            "<rect class=\"none\" x=\"0\" y=\"{top}\" width=\"{:.2}%\" height=\"{BAR}\"/>",
            share(reference)
        );
    }
    let whole = share(summary.median);
    let user = whole * (1.0 - bar.system_share.unwrap_or(0.0));
    let _ = writeln!(
        output,
        "<rect class=\"{class}\" x=\"0\" y=\"{top}\" width=\"{user:.2}%\" height=\"{BAR}\"/>"
    );
    if bar.system_share.is_some() {
        let _ = writeln!(
            output,
            "<rect class=\"{class} system\" x=\"{user:.2}%\" y=\"{top}\" width=\"{:.2}%\" height=\"{BAR}\"/>",
            whole - user
        );
    }
    if summary.count > 1 {
        let middle = top + BAR / 2;
        let _ = writeln!(
            output,
            "<line class=\"whisker\" x1=\"{:.2}%\" x2=\"{:.2}%\" y1=\"{middle}\" y2=\"{middle}\"/>",
            share(summary.min),
            share(summary.max)
        );
    }
}

/// As much of a reason as fits; the tables have all of it.
fn first_words(reason: &str) -> String {
    const LETTERS: usize = 36;
    match reason.char_indices().nth(LETTERS) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason.to_owned(),
    }
}

/// The classes of a colour in the style sheet, which has as many as this.
const COLOURS: usize = 6;

fn class_of(colour: Colour) -> String {
    match colour {
        Colour::Published => "published".into(),
        Colour::Server { index, is_variant } => {
            let variant = if is_variant { " variant" } else { "" };
            format!("server-{}{variant}", index % COLOURS)
        }
    }
}

/// What a chart says, for those who cannot see it.
fn description(chart: &Chart) -> String {
    let mut text = chart.legend.clone();
    for (title, bars) in &chart.groups {
        let each = bars.iter().map(|bar| match &bar.value {
            Ok(summary) => format!("{} {}", bar.label, (chart.format)(summary.median)),
            Err(reason) => format!("{} without a figure, {reason}", bar.label),
        });
        let _ = write!(text, " {title}: {}.", each.collect::<Vec<_>>().join("; "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Summary;

    fn chart(bars: Vec<Bar>) -> String {
        let chart = Chart {
            title: "A & B".into(),
            legend: "Shorter is better.".into(),
            groups: vec![("group".into(), bars)],
            format: |value| format!("{value:.1}"),
            whole: None,
        };
        let mut output = String::new();
        draw(&mut output, &chart, "c1");
        output
    }

    fn bar(values: &[f64], system_share: Option<f64>) -> Bar {
        Bar {
            label: "<server>".into(),
            colour: Colour::Server {
                index: 1,
                is_variant: true,
            },
            value: Summary::of(values).ok_or_else(|| "it has <failed>".into()),
            system_share,
        }
    }

    #[test]
    fn the_largest_figure_is_as_long_as_the_chart_is_wide() {
        let svg = chart(vec![
            bar(&[10.0, 20.0, 40.0], Some(0.25)),
            bar(&[8.0], None),
        ]);
        // Of 50 %, a quarter is system time.
        for expected in [
            "class=\"server-1 variant\" x=\"0\" y=\"48\" width=\"37.50%\"",
            "class=\"server-1 variant system\" x=\"37.50%\" y=\"48\" width=\"12.50%\"",
            "x1=\"25.00%\" x2=\"100.00%\"",
            "width=\"20.00%\"",
            ">20.0</tspan><tspan class=\"range\"> (10.0–40.0)</tspan>",
            "<title id=\"c1-title\">A &amp; B</title>",
            "&lt;server&gt; 20.0; &lt;server&gt; 8.0.",
        ] {
            assert_eq!(svg.matches(expected).count(), 1, "{expected} in {svg}");
        }
    }

    #[test]
    fn a_missing_figure_has_no_bar() {
        let svg = chart(vec![bar(&[], None)]);
        assert!(svg.contains("it has &lt;failed&gt;"), "{svg}");
        assert!(!svg.contains("class=\"server-1"), "{svg}");
    }

    #[test]
    fn nothing_but_zeroes_is_drawn() {
        let svg = chart(vec![bar(&[0.0], None)]);
        assert!(
            svg.contains("width=\"0.00%\"") && !svg.contains("NaN"),
            "{svg}"
        );
    }
}
