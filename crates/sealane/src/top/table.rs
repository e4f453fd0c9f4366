//! A table that is sorted, filtered and scrolled.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Row, Table as Widget, TableState};
use std::cmp::Ordering;

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Characters; the first column takes what the others leave.
    pub(super) width: u16,
}

/// One cell: how it is shown, and what it is sorted by.
pub(super) struct Cell {
    text: String,
    number: Option<f64>,
    tone: Tone,
}

/// How a cell looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// Nothing happens there.
    Quiet,
    Good,
    Warn,
    Bad,
}

impl Tone {
    pub(super) fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Quiet => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => Style::new().fg(Color::Green),
            Tone::Warn => Style::new().fg(Color::Yellow),
            Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}

impl Cell {
    /// A name.
    pub(super) fn name(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            number: None,
            tone: Tone::Plain,
        }
    }

    /// A number and how it is written; quiet if it is 0 or not known.
    pub(super) fn number(number: Option<f64>, write: impl Fn(Option<f64>) -> String) -> Cell {
        let is_quiet = number.is_none_or(|number| number == 0.0);
        Cell {
            text: write(number),
            number: Some(number.unwrap_or(f64::NEG_INFINITY)),
            tone: if is_quiet { Tone::Quiet } else { Tone::Plain },
        }
    }

    /// The same in another tone, unless it is quiet.
    pub(super) fn toned(mut self, tone: Tone) -> Cell {
        if self.tone != Tone::Quiet {
            self.tone = tone;
        }
        self
    }

    fn compare(&self, other: &Cell) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => self.text.cmp(&other.text),
        }
    }
}

/// What the user has done to a table.
pub(super) struct Table {
    columns: &'static [Column],
    sorted: usize,
    is_descending: bool,
    state: TableState,
}

impl Table {
    /// Sorted by the column with this number: names upwards, numbers downwards.
    pub(super) fn new(columns: &'static [Column], sorted: usize) -> Table {
        Table {
            columns,
            sorted,
            is_descending: sorted > 0,
            state: TableState::new().with_selected(0),
        }
    }

    /// Upwards although it is a column of numbers.
    pub(super) fn upwards(mut self) -> Table {
        self.is_descending = false;
        self
    }

    pub(super) fn sort_by_next(&mut self) {
        self.sorted = (self.sorted + 1) % self.columns.len();
        self.is_descending = self.sorted > 0;
    }

    pub(super) fn reverse(&mut self) {
        self.is_descending = !self.is_descending;
    }

    /// Shows the first row.
    pub(super) fn go_to_top(&mut self) {
        self.state = TableState::new().with_selected(0);
    }

    /// Moves by so many rows.
    pub(super) fn move_by(&mut self, rows: i32) {
        let selected = self.state.selected().unwrap_or(0);
        let moved = selected.saturating_add_signed(rows as isize);
        self.state.select(Some(moved));
    }

    /// Draws the rows that have all words in one of their cells.
    pub(super) fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        title: &str,
        mut rows: Vec<Vec<Cell>>,
        words: &str,
    ) {
        let all = rows.len();
        rows.retain(|row| matches(row, words));
        rows.sort_by(|a, b| {
            let order = a[self.sorted].compare(&b[self.sorted]);
            let order = if self.is_descending {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| a[0].text.cmp(&b[0].text))
        });
        let last = rows.len().saturating_sub(1);
        self.state
            .select(Some(self.state.selected().unwrap_or(0).min(last)));
        let count = match words.trim().is_empty() {
            true => format!(" {title}: {all} "),
            false => format!(
                " {title}: {} of {all} match \"{}\" ",
                rows.len(),
                words.trim()
            ),
        };
        let heads = self.columns.iter().enumerate().map(|(index, column)| {
            let arrow = match (index == self.sorted, self.is_descending) {
                (false, _) => "",
                (true, true) => "▼",
                (true, false) => "▲",
            };
            aligned(index, format!("{}{arrow}", column.title))
        });
        let heads = Row::new(heads).style(Style::new().add_modifier(Modifier::BOLD));
        let lines =
            rows.iter().map(|row| {
                let cells = row.iter().enumerate();
                Row::new(cells.map(|(index, cell)| {
                    aligned(index, cell.text.clone()).style(cell.tone.style())
                }))
            });
        let widths = self.columns.iter().enumerate();
        let widths = widths.map(|(index, column)| match index {
            0 => Constraint::Min(column.width),
            _ => Constraint::Length(column.width),
        });
        let widget = Widget::new(lines, widths)
            .header(heads)
            .block(Block::bordered().title(count))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(widget, area, &mut self.state);
    }
}

/// Names stand at the left, numbers at the right.
fn aligned(index: usize, text: String) -> Text<'static> {
    let alignment = match index {
        0 => Alignment::Left,
        _ => Alignment::Right,
    };
    Text::from(Line::from(text)).alignment(alignment)
}

fn matches(row: &[Cell], words: &str) -> bool {
    let mut words = words.split_whitespace().map(str::to_lowercase);
    words.all(|word| {
        let mut names = row.iter().filter(|cell| cell.number.is_none());
        names.any(|cell| cell.text.to_lowercase().contains(&word))
    })
}
