//! The page as HTML: one file that asks for nothing else.

use std::fmt::Write;

use crate::{
    Kind,
    report::{
        chapters::{factor_text, section},
        chart,
        markup::{element, escaped},
        saved::{Measured, Recorded, Saved},
        section::{Cell, Chart, Claim, Judgement, Section, TOLERANCE, Table},
    },
};

/// The page about saved measurements, with their chart at a glance.
pub(super) fn render(saved: &Saved, overview: Option<&Chart>) -> String {
    let mut page = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <title>Sealane, measured on this machine</title>\n<style>\n",
    );
    page += include_str!("style.css");
    page += chart::STYLE;
    page += "</style>\n</head>\n<body>\n";
    header(&mut page, saved, overview.is_some());
    page += "<main>\n";
    if let Some(overview) = overview {
        page += "<section id=\"overview\" aria-labelledby=\"overview-heading\">\n";
        element(&mut page, "h2", "id=\"overview-heading\"", "At a glance");
        chart::draw(&mut page, overview, "overview-chart");
        page += "</section>\n";
    }
    for measured in &saved.chapters {
        chapter(&mut page, saved, measured);
    }
    method(&mut page, saved);
    page += "</main>\n</body>\n</html>\n";
    page
}

fn header(page: &mut String, saved: &Saved, has_overview: bool) {
    page.push_str("<header>\n");
    element(
        page,
        "p",
        "class=\"kicker\"",
        "Published claims, measured on this machine",
    );
    element(page, "h1", "", "Sealane beside what was published");
    if saved.quick {
        element(
            page,
            "p",
            "class=\"warning\"",
            "A quick run: few and short rounds, to see that everything works. Its figures are not for publication.",
        );
    }
    if saved.is_interrupted {
        element(
            page,
            "p",
            "class=\"warning\"",
            "The run was ended before everything was measured. What is missing says so.",
        );
    }
    facts(page, saved);
    page.push_str("<nav aria-label=\"Chapters\"><ul>\n");
    if has_overview {
        page.push_str("<li><a href=\"#overview\">At a glance</a></li>\n");
    }
    for measured in &saved.chapters {
        let (name, title) = (measured.chapter.name(), measured.chapter.title());
        let _ = writeln!(page, "<li><a href=\"#{name}\">{}</a></li>", escaped(title));
    }
    page.push_str("<li><a href=\"#method\">How it was measured</a></li>\n</ul></nav>\n</header>\n");
}

fn facts(page: &mut String, saved: &Saved) {
    let machine = &saved.machine;
    let features = match machine.features.is_empty() {
        true => "none of those that cryptography uses".to_owned(),
        false => machine.features.join(", "),
    };
    let kernel_tls = match machine.has_kernel_tls {
        true => "with kernel TLS",
        false => "without kernel TLS",
    };
    let memory = format!("{:.1} GiB", machine.memory_mib as f64 / 1024.0);
    let mut all = vec![
        ("Processor", machine.cpu.clone()),
        ("Features", features),
        ("Cores", machine.cores.to_string()),
        ("Memory", memory),
        ("Kernel", format!("Linux {}, {kernel_tls}", machine.kernel)),
        (
            "Machine",
            match machine.is_virtual {
                true => "virtual: others may use the same processor".into(),
                false => "not virtual, as far as the processor says".into(),
            },
        ),
        (
            "Measured",
            format!("{} by {}", saved.started, saved.program),
        ),
        (
            "Rounds",
            format!("{} alternating, of {} s", saved.rounds, saved.seconds),
        ),
    ];
    let label = |kind| {
        if kind == Kind::Nginx {
            ""
        } else {
            ", with a configuration of its own"
        }
    };
    for server in &saved.servers {
        all.push((
            "Server",
            format!("{}: {}{}", server.name, server.version, label(server.kind)),
        ));
    }
    page.push_str("<dl class=\"facts\">\n");
    for (name, value) in all {
        let _ = writeln!(
            page,
            "<div><dt>{}</dt><dd>{}</dd></div>",
            escaped(name),
            escaped(&value)
        );
    }
    page.push_str("</dl>\n");
}

fn chapter(page: &mut String, saved: &Saved, measured: &Measured) {
    let name = measured.chapter.name();
    let _ = writeln!(
        page,
        "<section id=\"{name}\" aria-labelledby=\"{name}-heading\">"
    );
    element(
        page,
        "h2",
        &format!("id=\"{name}-heading\""),
        measured.chapter.title(),
    );
    match (section(saved, measured), &measured.outcome) {
        (Some(section), _) => contents(page, &section, name),
        (None, Recorded::Nothing(reason)) => {
            element(
                page,
                "p",
                "class=\"warning\"",
                &format!("Nothing was measured: {reason}"),
            );
        }
        (None, _) => element(
            page,
            "p",
            "class=\"warning\"",
            "The saved file has something else here.",
        ),
    }
    element(page, "h3", "", "Repeat it");
    element(page, "pre", "tabindex=\"0\"", &measured.command);
    page.push_str("</section>\n");
}

fn contents(page: &mut String, section: &Section, name: &str) {
    for paragraph in &section.paragraphs {
        element(page, "p", "", paragraph);
    }
    element(page, "h3", "", "What was claimed, and what was measured");
    claims(page, &section.claims);
    for (index, figure) in section.charts.iter().enumerate() {
        chart::draw(page, figure, &format!("{name}-chart-{index}"));
    }
    for data in &section.tables {
        table(page, data);
    }
}

/// A claim has a heading, its published factor, and a line for each server.
fn claims(page: &mut String, claims: &[Claim]) {
    page.push_str("<ul class=\"claims\">\n");
    for claim in claims {
        let _ = writeln!(
            page,
            "<li>\n<p class=\"claim\">{}</p>\n<p class=\"source\"><b>{:.2} ×</b> by {}</p>",
            escaped(&claim.text),
            claim.published,
            escaped(claim.source)
        );
        for finding in &claim.findings {
            let judgement = finding.judgement(claim.published);
            let (class, sign, words) = appearance(judgement);
            let measured = match &finding.factor {
                Ok(factor) => format!("{} × measured", factor_text(factor)),
                Err(reason) => reason.clone(),
            };
            let _ = writeln!(
                page,
                "<p class=\"finding {class}\"><b><span aria-hidden=\"true\">{sign} </span>{words}</b> {}: {}</p>",
                escaped(&finding.subject),
                escaped(&measured)
            );
        }
        if claim.findings.is_empty() {
            let (class, sign, words) = appearance(Judgement::NotMeasured);
            let _ = writeln!(
                page,
                "<p class=\"finding {class}\"><b><span aria-hidden=\"true\">{sign} </span>{words}</b> there is no server to compare with</p>"
            );
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ul>\n");
}

fn appearance(judgement: Judgement) -> (&'static str, &'static str, &'static str) {
    match judgement {
        Judgement::Reproduced => ("reproduced", "✓", "Reproduced"),
        Judgement::Smaller => ("smaller", "≈", "Smaller than claimed"),
        Judgement::NotReproduced => ("refuted", "✗", "Not reproduced"),
        Judgement::NotMeasured => ("unmeasured", "–", "Not measured"),
    }
}

fn table(page: &mut String, table: &Table) {
    let caption = escaped(&table.caption);
    let _ = writeln!(
        page,
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\">\n<table>\n<caption>{caption}</caption>\n<thead><tr>"
    );
    for heading in &table.headings {
        element(page, "th", "scope=\"col\"", heading);
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>\n");
        for (column, cell) in row.iter().enumerate() {
            let is_last = column + 1 == row.len();
            // A row that ends early has one reason for all that is missing.
            let span = if is_last {
                table.headings.len().saturating_sub(column)
            } else {
                1
            };
            table_cell(page, cell, column, span);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

fn table_cell(page: &mut String, cell: &Cell, column: usize, span: usize) {
    let span = match span {
        0 | 1 => String::new(),
        _ => format!(" colspan=\"{span}\""),
    };
    let _ = match (cell, column) {
        (Cell::Text(text), 0) => {
            writeln!(page, "<th scope=\"row\"{span}>{}</th>", escaped(text))
        }
        (Cell::Text(text), _) => writeln!(page, "<td{span}>{}</td>", escaped(text)),
        (Cell::Figure(figure, None), _) => {
            writeln!(page, "<td class=\"figure\"{span}>{}</td>", escaped(figure))
        }
        (Cell::Figure(figure, Some(range)), _) => writeln!(
            page,
            "<td class=\"figure\"{span}>{} <span class=\"range\">({})</span></td>",
            escaped(figure),
            escaped(range)
        ),
        (Cell::Missing(reason), _) => {
            writeln!(page, "<td class=\"missing\"{span}>{}</td>", escaped(reason))
        }
    };
}

fn method(page: &mut String, saved: &Saved) {
    page.push_str("<section id=\"method\" aria-labelledby=\"method-heading\">\n");
    element(page, "h2", "id=\"method-heading\"", "How it was measured");
    let tolerance = TOLERANCE * 100.0;
    for paragraph in [
        "Servers take turns on the same cores with the same configuration. Each measurement starts its server anew; \
         every other round runs in reverse order. Factors are computed within a round, so both sides saw the same \
         machine; shown are the median of the rounds and, in parentheses, the lowest and the highest.",
        "Server CPU is what the scheduler has counted for all threads of the server (/proc/PID/task/*/schedstat), read \
         while all clients pause. The load generator runs on other cores if there are any. It checks the status and \
         length of every response, and protocol, suite, group, key and resumption of every handshake: what deviates is a \
         failure and has no figure.",
        &format!(
            "A claim is reproduced if the median reaches the published factor less {tolerance:.0} %, which is the spread \
             of a quiet machine. It is smaller if there is a gain of more than {tolerance:.0} %, and not reproduced \
             otherwise."
        ),
        "The published rates are from other machines, other years and, in part, other kinds of work. Compare factors, \
         not rates.",
    ] {
        element(page, "p", "", paragraph);
    }
    element(page, "h3", "", "Repeat all of it");
    element(page, "pre", "tabindex=\"0\"", &saved.command);
    element(
        page,
        "p",
        "",
        "All measurements are in the JSON file beside this page; sealane-bench report --from FILE makes the page again.",
    );
    page.push_str("</section>\n");
}
