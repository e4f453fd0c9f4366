//! What is shown, and what keys do.

use super::history::History;
use super::table::{Table, Tone};
use super::{lists, overview, tls};
use crate::running::answer::Answer;
use crate::running::figures::span;
use crate::running::gains::Gains;
use crate::running::problems::{Problem, Trail};
use crate::running::status::head;
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Tabs};
use std::time::{Duration, Instant};

/// Rows of a page for the keys that move by one.
const PAGE: i32 = 20;
/// Steps of the keys that look more or less often, in seconds.
const DELAYS_S: [u64; 7] = [1, 2, 5, 10, 30, 60, 300];

/// What one can look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Overview,
    Tls,
    Servers,
    Locations,
    Upstreams,
    Caches,
    Limits,
    Certificates,
    Problems,
}

impl View {
    const ALL: [(View, &'static str); 9] = [
        (View::Overview, "1 overview"),
        (View::Tls, "2 TLS"),
        (View::Servers, "3 servers"),
        (View::Locations, "4 locations"),
        (View::Upstreams, "5 upstreams"),
        (View::Caches, "6 caches"),
        (View::Limits, "7 limits"),
        (View::Certificates, "8 certificates"),
        (View::Problems, "9 problems"),
    ];
}

/// What is shown.
pub(super) struct Screen {
    gains: Gains,
    trail: Trail,
    history: History,
    problems: Vec<Problem>,
    /// Index into [`View::ALL`].
    view: usize,
    /// One for each view that is a table.
    tables: [Table; 6],
    /// Lines above those that are shown, of views that are none.
    skipped: usize,
    filter: String,
    /// Keys are letters of the filter.
    is_typing: bool,
    is_paused: bool,
    is_over: bool,
    delay: Duration,
    /// Since when the server has not answered, and why.
    lost: Option<(Instant, String)>,
}

impl Screen {
    pub(super) fn new(delay: Duration) -> Screen {
        Screen {
            gains: Gains::default(),
            trail: Trail::default(),
            history: History::default(),
            problems: Vec::new(),
            view: 0,
            tables: [
                Table::new(lists::SERVERS, 1),
                Table::new(lists::LOCATIONS, 1),
                Table::new(lists::PEERS, 0),
                Table::new(lists::CACHES, 0),
                Table::new(lists::LIMITS, 0),
                Table::new(lists::CERTIFICATES, 1).upwards(),
            ],
            skipped: 0,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            is_over: false,
            delay,
            lost: None,
        }
    }

    /// Takes an answer that came this long after the last one, or why there is none.
    pub(super) fn take(&mut self, answer: Result<Answer, String>, arrived: Duration) {
        match answer {
            Ok(answer) => {
                self.lost = None;
                self.gains.take(answer, arrived.as_secs_f64());
                self.trail.add(&self.gains);
                self.history.add(&self.gains);
                let now = self.gains.now();
                self.problems = now.map(|now| self.trail.problems(now)).unwrap_or_default();
            }
            Err(why) => {
                let since = self
                    .lost
                    .take()
                    .map_or_else(Instant::now, |(since, _)| since);
                self.lost = Some((since, why));
            }
        }
    }

    /// Whether it is time to ask again, so long after the last question.
    pub(super) fn wants_answer(&self, asked: Duration) -> bool {
        // Rates need two answers: the second comes early.
        let is_first = self.gains.speed("requests", &[]).is_none() && self.lost.is_none();
        let delay = match is_first {
            true => self.delay.min(Duration::from_secs(1)),
            false => self.delay,
        };
        !self.is_paused && asked >= delay
    }

    /// Whether the user has had enough.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Does what a key asks for.
    pub(super) fn press(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over |= matches!(key.code, KeyCode::Char('c' | 'd'));
        } else if self.is_typing {
            self.type_filter(key.code);
        } else {
            self.command(key.code);
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        self.tables.iter_mut().for_each(Table::go_to_top);
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn command(&mut self, code: KeyCode) {
        let views = View::ALL.len();
        match code {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Esc if self.filter.is_empty() => self.is_over = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => {
                self.go_to((self.view + 1) % views)
            }
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => {
                self.go_to((self.view + views - 1) % views);
            }
            KeyCode::Char(digit @ '1'..='9') => self.go_to(digit as usize - '1' as usize),
            KeyCode::Char('p') => self.go_to(views - 1),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('+') => self.delay = next_delay(self.delay, DELAYS_S.iter()),
            KeyCode::Char('-') => self.delay = next_delay(self.delay, DELAYS_S.iter().rev()),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-PAGE),
            KeyCode::PageDown => self.move_by(PAGE),
            KeyCode::Home => self.move_by(i32::MIN),
            KeyCode::End => self.move_by(i32::MAX),
            KeyCode::Char('s') => {
                if let Some(table) = self.table() {
                    table.sort_by_next();
                }
            }
            KeyCode::Char('r') => {
                if let Some(table) = self.table() {
                    table.reverse();
                }
            }
            _ => {}
        }
    }

    fn go_to(&mut self, view: usize) {
        (self.view, self.skipped) = (view, 0);
    }

    /// The table that is shown.
    fn table(&mut self) -> Option<&mut Table> {
        let first = View::Servers as usize;
        self.tables.get_mut(self.view.checked_sub(first)?)
    }

    fn move_by(&mut self, rows: i32) {
        match self.table() {
            Some(table) => table.move_by(rows),
            None => {
                let moved = self.skipped.saturating_add_signed(rows as isize);
                // Longer than any list of problems.
                self.skipped =
                    moved.min(2 * self.problems.len() + usize::try_from(PAGE).unwrap_or(0));
            }
        }
    }

    /// Draws everything.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let areas = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [top, tabs, body, bottom] = areas.areas(frame.area());
        frame.render_widget(self.head(), top);
        let titles = View::ALL.map(|(_, title)| title);
        frame.render_widget(
            Tabs::new(titles)
                .select(self.view)
                .padding("", " ")
                .divider(""),
            tabs,
        );
        self.draw_body(frame, body);
        frame.render_widget(Paragraph::new(self.foot()), bottom);
    }

    fn draw_body(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let gains = &self.gains;
        let (title, rows) = match View::ALL[self.view].0 {
            View::Overview => {
                return overview::draw(frame, area, gains, &self.history, &self.problems);
            }
            View::Tls => return tls::draw(frame, area, gains, self.skipped),
            View::Problems => {
                return overview::draw_advice(frame, area, &self.problems, self.skipped);
            }
            View::Servers => ("servers", lists::servers(gains)),
            View::Locations => ("locations with a status_zone", lists::locations(gains)),
            View::Upstreams => ("peers of upstreams", lists::peers(gains)),
            View::Caches => ("caches", lists::caches(gains)),
            View::Limits => ("zones of limits", lists::limits(gains)),
            View::Certificates => ("certificates", lists::certificates(gains)),
        };
        let words = self.filter.clone();
        if let Some(table) = self.table() {
            table.draw(frame, area, title, rows, &words);
        }
    }

    fn head(&self) -> Line<'static> {
        if let Some((since, why)) = &self.lost {
            let text = format!(
                "No answer for {}: {why}",
                span(since.elapsed().as_secs_f64())
            );
            return Line::styled(text, Tone::Bad.style());
        }
        Line::raw(self.gains.now().map(head).unwrap_or_default())
    }

    fn foot(&self) -> Line<'static> {
        let pace = match self.is_paused {
            true => "paused".to_owned(),
            false => format!("every {} s", self.delay.as_secs()),
        };
        Line::styled(
            match self.is_typing {
                true => format!("filter: {}▏  Enter keep  Esc clear", self.filter),
                false => format!(
                    "q quit  Tab 1-9 view  ↑↓ row  s sort  r reverse  / filter  Space pause  +- {pace}"
                ),
            },
            Tone::Quiet.style(),
        )
    }
}

/// The next step in a direction; the last one stays.
fn next_delay<'a>(delay: Duration, mut steps: impl Iterator<Item = &'a u64> + Clone) -> Duration {
    let is_upwards = steps.clone().next() < steps.clone().last();
    let next = steps.find(|step| match is_upwards {
        true => **step > delay.as_secs(),
        false => **step < delay.as_secs(),
    });
    next.map_or(delay, |step| Duration::from_secs(*step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;
    use serde_json::json;

    fn answer(time: f64, requests: u64) -> Answer {
        let bounds: Vec<f64> = vec![0.1, 1.0];
        let servers: Vec<_> = (0..300)
            .map(|index| json!([format!("s{index:03}.test"), requests]))
            .collect();
        let json = json!({"time": time, "bounds": bounds, "families": {
            "sealane_build_info": {"labels": ["version", "tls"], "samples": [["9.8.7", "X", 1]]},
            "sealane_start_time_seconds": {"labels": [], "samples": [[0.0]]},
            "sealane_requests": {"labels": [], "samples": [[requests]]},
            "sealane_connections_active": {"labels": [], "samples": [[1234]]},
            "sealane_session_store_up": {"labels": ["store"], "samples": [["\u{1b}[31m\n", 0]]},
            "sealane_server_requests": {"labels": ["server"], "samples": servers},
            "sealane_tls_handshake_seconds":
                {"labels": [], "samples": [[[requests, 1.0, [requests, 0, 0]]]]},
            "sealane_tls_batch_operations":
                {"labels": [], "samples": [[[2, 9.0, [[1.0, 1], [8.0, 1]]]]]},
        }});
        Answer::read(json.to_string().as_bytes()).expect("it is valid")
    }

    fn drawn(screen: &mut Screen, columns: u16, rows: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a buffer");
        terminal.draw(|frame| screen.draw(frame)).expect("a buffer");
        terminal.backend().to_string()
    }

    fn press(screen: &mut Screen, keys: &str) {
        for letter in keys.chars() {
            screen.press(KeyEvent::from(KeyCode::Char(letter)));
        }
    }

    fn screen() -> Screen {
        let mut screen = Screen::new(Duration::from_secs(2));
        screen.take(Ok(answer(100.0, 10)), Duration::ZERO);
        screen.take(Ok(answer(102.0, 70)), Duration::from_secs(2));
        screen
    }

    #[test]
    fn every_view_fits_every_terminal() {
        let mut screen = screen();
        for (columns, rows) in [(1, 1), (20, 5), (80, 24), (300, 100)] {
            for view in "123456789".chars() {
                press(&mut screen, &view.to_string());
                drawn(&mut screen, columns, rows);
            }
        }
        press(&mut screen, "1");
        let shown = drawn(&mut screen, 80, 24);
        for text in ["Sealane 9.8.7", "1,234 open", "30/s", "memory", "q quit"] {
            assert!(shown.contains(text), "{text} is not in\n{shown}");
        }
        assert!(
            !shown.contains('\u{1b}'),
            "names are text whatever they contain"
        );
    }

    #[test]
    fn tables_are_sorted_filtered_and_scrolled() {
        let mut screen = screen();
        press(&mut screen, "3");
        assert!(drawn(&mut screen, 100, 24).contains("servers: 300"));
        screen.press(KeyEvent::from(KeyCode::End));
        let shown = drawn(&mut screen, 100, 24);
        assert!(
            shown.contains("s299.test") && !shown.contains("s000.test"),
            "{shown}"
        );
        press(&mut screen, "/29");
        screen.press(KeyEvent::from(KeyCode::Enter));
        let shown = drawn(&mut screen, 100, 24);
        assert!(shown.contains("13 of 300 match \"29\""), "{shown}");
        screen.press(KeyEvent::from(KeyCode::Esc));
        press(&mut screen, "sssssssss");
        assert!(drawn(&mut screen, 100, 24).contains("req/s▼"));
        press(&mut screen, "r");
        assert!(drawn(&mut screen, 100, 24).contains("req/s▲"));
        assert!(!screen.is_over());
        press(&mut screen, "q");
        assert!(screen.is_over());
    }

    #[test]
    fn a_server_that_is_away_is_told() {
        let mut screen = screen();
        screen.take(Err("nobody is there".to_owned()), Duration::ZERO);
        assert!(drawn(&mut screen, 100, 24).contains("nobody is there"));
        assert!(screen.wants_answer(Duration::from_secs(2)));
        screen.take(Ok(answer(110.0, 80)), Duration::from_secs(8));
        assert!(!drawn(&mut screen, 100, 24).contains("nobody is there"));
        press(&mut screen, " ");
        assert!(!screen.wants_answer(Duration::from_secs(60)));
        press(&mut screen, " +++");
        assert!(drawn(&mut screen, 100, 24).contains("every 30 s"));
        press(&mut screen, "------");
        assert!(drawn(&mut screen, 100, 24).contains("every 1 s"));
    }
}
