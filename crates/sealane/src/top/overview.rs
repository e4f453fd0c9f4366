//! The first view: what is wrong, and graphs.

use super::history::{History, Series, responses};
use super::table::Tone;
use crate::running::figures::{brief, bytes, count, percent, rate, seconds};
use crate::running::gains::Gains;
use crate::running::problems::{Level, Problem, room_for_connections};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline, Wrap};

/// Rows of a graph, with its border, at least.
const TILE_ROWS: u16 = 4;
/// Columns of a graph, at least.
const TILE_COLUMNS: u16 = 38;
/// Problems that are shown here.
const MOST_PROBLEMS: usize = 6;
/// A graph counts in whole numbers: this many are 1.
const SCALE: f64 = 1000.0;

/// Draws the view.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    gains: &Gains,
    history: &History,
    problems: &[Problem],
) {
    let shown = problems.len().min(MOST_PROBLEMS);
    let rows = u16::try_from(shown.max(1)).unwrap_or(1) + 2;
    let [top, graphs] =
        Layout::vertical([Constraint::Length(rows), Constraint::Min(0)]).areas(area);
    draw_problems(frame, top, problems);
    // So that every row is full.
    let columns = match graphs.width / TILE_COLUMNS {
        0 | 1 => 1,
        2 | 3 => 2,
        _ => 4,
    };
    let tiles = tiles(gains);
    let lines = u16::try_from(tiles.len()).unwrap_or(1).div_ceil(columns);
    // On a small terminal the last ones are left out.
    let fitting = (graphs.height / TILE_ROWS).clamp(1, lines);
    let lines = Layout::vertical(vec![Constraint::Fill(1); fitting.into()]).split(graphs);
    for (line, row) in lines.iter().zip(tiles.chunks(columns.into())) {
        let places = Layout::horizontal(vec![Constraint::Fill(1); columns.into()]).split(*line);
        for (place, tile) in places.iter().zip(row) {
            tile.draw(frame, *place, history);
        }
    }
}

/// A list of problems, for a view of its own too.
pub(super) fn draw_problems(frame: &mut Frame<'_>, area: Rect, problems: &[Problem]) {
    let room = usize::from(area.height.saturating_sub(2)).max(1);
    let lines = match problems {
        [] => vec![Line::styled(
            "Nothing is wrong, and nothing got worse in the last 5 minutes.",
            Tone::Good.style(),
        )],
        _ => problems.iter().take(room).map(line).collect(),
    };
    let title = match problems.len() {
        0 => " problems ".to_owned(),
        all if all > room => format!(" problems: {room} of {all}, all with p "),
        all => format!(" problems: {all} "),
    };
    let block = Block::bordered().title(title);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// All problems with what to do.
pub(super) fn draw_advice(frame: &mut Frame<'_>, area: Rect, problems: &[Problem], skip: usize) {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for problem in problems {
        lines.push(line(problem));
        lines.push(Line::styled(
            format!("        {}", problem.advice),
            Tone::Quiet.style(),
        ));
    }
    if lines.is_empty() {
        lines.push(Line::styled("Nothing is wrong.", Tone::Good.style()));
    }
    let skip = u16::try_from(skip).unwrap_or(u16::MAX);
    let block = Block::bordered().title(format!(" problems: {} ", problems.len()));
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(text.scroll((skip, 0)).block(block), area);
}

fn line(problem: &Problem) -> Line<'_> {
    let tone = match problem.level {
        Level::Bad => Tone::Bad,
        Level::Warn => Tone::Warn,
        Level::Note => Tone::Quiet,
    };
    Line::from(vec![
        Span::styled(format!("{:8}", problem.level.name()), tone.style()),
        Span::raw(problem.what.as_str()),
    ])
}

/// A graph with its numbers.
struct Tile {
    title: &'static str,
    big: String,
    rest: String,
    series: Series,
    colour: Color,
}

impl Tile {
    fn draw(&self, frame: &mut Frame<'_>, area: Rect, history: &History) {
        let title = Line::from(vec![
            Span::raw(format!(" {} ", self.title)),
            Span::styled(
                format!("{} ", self.big),
                Style::new().add_modifier(Modifier::BOLD),
            ),
        ]);
        let block = Block::bordered().title(title);
        let inner = block.inner(area);
        frame.render_widget(block, area);
        let [graph, text] =
            Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(inner);
        let values = history.last(self.series, graph.width.into());
        let values = values
            .iter()
            .map(|value| value.map(|value| (value.min(1e12) * SCALE) as u64));
        let bars: Vec<Option<u64>> = values.collect();
        // The newest value is at the right edge.
        let blank = usize::from(graph.width).saturating_sub(bars.len());
        let bars: Vec<Option<u64>> = std::iter::repeat_n(None, blank).chain(bars).collect();
        let style = Style::new().fg(self.colour);
        frame.render_widget(Sparkline::default().data(bars).style(style), graph);
        let line = Line::styled(self.rest.as_str(), Tone::Quiet.style());
        frame.render_widget(line, text);
    }
}

fn tile(title: &'static str, series: Series, colour: Color, big: String, rest: String) -> Tile {
    Tile {
        title,
        big,
        rest,
        series,
        colour,
    }
}

fn tiles(gains: &Gains) -> Vec<Tile> {
    let number = |name| gains.now()?.number(name, &[]);
    let mut tiles = tiles_of_requests(gains);
    tiles.extend(tiles_of_tls(gains));
    tiles.push(tile(
        "memory",
        Series::Memory,
        Color::Gray,
        bytes(number("process_resident_memory_bytes")),
        format!(
            "{} of {} descriptors",
            brief(number("process_open_fds")),
            brief(number("process_max_fds")),
        ),
    ));
    tiles
}

fn tiles_of_requests(gains: &Gains) -> Vec<Tile> {
    let number = |name| gains.now()?.number(name, &[]);
    let speed = |name| gains.speed(name, &[]);
    let classes = responses(gains);
    let class = |digit: usize| classes.map(|classes| classes[digit]);
    let errors = classes.and_then(|classes| {
        let all: f64 = classes.iter().sum();
        (all > 0.0).then(|| classes[5] / all)
    });
    vec![
        tile(
            "connections",
            Series::Connections,
            Color::Blue,
            format!("{} open", count(number("connections_active"))),
            format!(
                "{} reading, {} writing, {} idle; {} new/s; room for {}",
                brief(number("connections_reading")),
                brief(number("connections_writing")),
                brief(number("connections_waiting")),
                rate(speed("connections_accepted")),
                brief(gains.now().and_then(room_for_connections)),
            ),
        ),
        tile(
            "requests",
            Series::Requests,
            Color::Blue,
            format!("{}/s", rate(speed("requests"))),
            format!(
                "{} HTTP/2 streams/s; {} since the start",
                rate(speed("http2_streams_opened")),
                brief(number("requests")),
            ),
        ),
        tile(
            "server errors",
            Series::Errors,
            Color::Red,
            percent(errors),
            format!(
                "2xx {}/s, 3xx {}/s, 4xx {}/s, 5xx {}/s",
                rate(class(2)),
                rate(class(3)),
                rate(class(4)),
                rate(class(5)),
            ),
        ),
        tile(
            "sent",
            Series::Sent,
            Color::Cyan,
            format!("{}/s", bytes(gains.sum_of_speeds("server_sent_bytes", &[]))),
            format!(
                "received {}/s",
                bytes(gains.sum_of_speeds("server_received_bytes", &[])),
            ),
        ),
    ]
}

fn tiles_of_tls(gains: &Gains) -> Vec<Tile> {
    let speed = |name| gains.speed(name, &[]);
    let recent = |share, name| gains.recent(share, name, &[]);
    let done = speed("tls_handshakes");
    let resumed = speed("tls_handshakes_resumed");
    let sealed = speed("kernel_tls_connections");
    let unsealed = gains.sum_of_speeds("kernel_tls_refused_connections", &[]);
    let small = gains.speed("kernel_tls_refused_connections", &["small_response"]);
    vec![
        tile(
            "TLS handshakes",
            Series::Handshakes,
            Color::Magenta,
            format!("{}/s", rate(done)),
            format!(
                "{} resumed; {} failed/s, {} 0-RTT/s",
                percent(resumed.zip(done).map(|(resumed, done)| resumed / done)),
                rate(speed("tls_handshakes_failed")),
                rate(gains.speed("tls_early_data", &["accepted"])),
            ),
        ),
        tile(
            "handshake p99",
            Series::HandshakeTime,
            Color::Magenta,
            seconds(recent(0.99, "tls_handshake_seconds")),
            format!(
                "p50 {}; waiting p99 {}",
                seconds(recent(0.5, "tls_handshake_seconds")),
                seconds(recent(0.99, "tls_handshake_queue_seconds")),
            ),
        ),
        tile(
            "kernel TLS",
            Series::KernelTls,
            Color::Green,
            percent(
                sealed
                    .zip(unsealed)
                    .map(|(sealed, not)| sealed / (sealed + not)),
            ),
            format!(
                "connections that ended: {} kernel/s, {} small/s, {} others/s",
                rate(sealed),
                rate(small),
                rate(unsealed.map(|all| (all - small.unwrap_or(0.0)).max(0.0))),
            ),
        ),
    ]
}
