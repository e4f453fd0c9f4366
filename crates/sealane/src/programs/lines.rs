//! What programs write to their standard error, as lines of the log.

use crate::journal::{Journal, note};
use std::time::{Duration, Instant};

/// Lines that go into the log within [`PERIOD`].
const MAX_LINES: u32 = 100;

/// In which lines are counted.
const PERIOD: Duration = Duration::from_secs(10);

/// A longer line is cut.
const MAX_LINE_BYTES: usize = 1000;

/// Makes lines of what is written.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    /// Since when lines are counted, and how many were logged and left out.
    since: Option<Instant>,
    logged: u32,
    left_out: u64,
}

impl Lines {
    pub(super) fn take(&mut self, bytes: &[u8], title: &str, journal: &Journal) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = MAX_LINE_BYTES.saturating_sub(self.begun.len());
            self.begun.extend(&text[..text.len().min(room)]);
            if part.ends_with(b"\n")
                && let Some(line) = self.finished(Instant::now(), |left_out| {
                    report_left_out(left_out, title, journal);
                })
            {
                note!(journal, Warn, "{title} says: {line}");
            }
        }
    }

    /// There will be no more.
    pub(super) fn end(&mut self, title: &str, journal: &Journal) {
        if let Some(line) = self.finished(Instant::now(), |_| {}) {
            note!(journal, Warn, "{title} says: {line}");
        }
        report_left_out(std::mem::take(&mut self.left_out), title, journal);
    }

    /// The line that has ended, unless it is empty or one too many.
    fn finished(&mut self, now: Instant, report: impl FnOnce(u64)) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        if self.since.is_none_or(|since| now >= since + PERIOD) {
            report(std::mem::take(&mut self.left_out));
            self.since = Some(now);
            self.logged = 0;
        }
        if self.logged >= MAX_LINES {
            self.left_out += 1;
            return None;
        }
        self.logged += 1;
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        Some(String::from_utf8_lossy(line).chars().map(plain).collect())
    }
}

fn report_left_out(lines: u64, title: &str, journal: &Journal) {
    if lines > 0 {
        note!(
            journal,
            Warn,
            "{title} says more, {lines} lines are left out"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_counted_and_made_plain() {
        let now = Instant::now();
        let mut lines = Lines::default();
        let mut finish = |text: &[u8], at: Instant| {
            lines.begun = text.to_vec();
            let mut reported = 0;
            let line = lines.finished(at, |left_out| reported = left_out);
            (line, reported)
        };
        assert_eq!(
            finish(b"a\tb\x1b[1m\xff", now).0.unwrap(),
            "a b [1m\u{fffd}"
        );
        assert_eq!(finish(b"  ", now), (None, 0));
        for _ in 1..MAX_LINES {
            assert!(finish(b"x", now).0.is_some());
        }
        assert_eq!(finish(b"x", now), (None, 0));
        assert_eq!(finish(b"x", now), (None, 0));
        assert_eq!(finish(b"y", now + PERIOD), (Some("y".into()), 2));
        let journal = Journal::running(sealane_log::Logger::discard());
        lines.take(&[b'z'; 3000], "p", &journal);
        assert_eq!(lines.begun.len(), MAX_LINE_BYTES);
        lines.take(b"\nrest", "p", &journal);
        assert_eq!(lines.begun, b"rest");
    }
}
