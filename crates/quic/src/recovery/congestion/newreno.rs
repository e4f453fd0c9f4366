//! NewReno as RFC 9002 section 7.3 has it.

use super::{Acked, MAX_WINDOW, MIN_DATAGRAMS, initial_window};

#[derive(Debug)]
pub(super) struct NewReno {
    window: u64,
    /// Slow start ends here.
    threshold: u64,
    /// Bytes acknowledged since the window last grew, in congestion avoidance.
    acked: u64,
    /// Window and threshold before the last congestion event.
    before: Option<(u64, u64)>,
    datagram: u16,
}

impl NewReno {
    pub(super) fn new(datagram: u16) -> Self {
        Self {
            window: initial_window(datagram),
            threshold: u64::MAX,
            acked: 0,
            before: None,
            datagram,
        }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Where slow start ends; `u64::MAX` before that is known.
    pub(super) fn threshold(&self) -> u64 {
        self.threshold
    }

    fn min_window(&self) -> u64 {
        MIN_DATAGRAMS * u64::from(self.datagram)
    }

    pub(super) fn on_acked(&mut self, acked: &Acked) {
        if !acked.window_used {
            return;
        }
        if self.window < self.threshold {
            self.window += acked.growth_bytes;
        } else {
            self.acked += acked.growth_bytes;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += u64::from(self.datagram);
            }
        }
        self.window = self.window.min(MAX_WINDOW);
    }

    /// Halves the window, RFC 9002 section 7.3.2.
    pub(super) fn reduce(&mut self) {
        self.before = Some((self.window, self.threshold));
        self.window = (self.window / 2).max(self.min_window());
        self.threshold = self.window;
        self.acked = 0;
    }

    /// The last reduction was for nothing.
    pub(super) fn undo(&mut self) {
        if let Some((window, threshold)) = self.before.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
        }
    }

    /// Persistent congestion, RFC 9002 section 7.6.2.
    pub(super) fn collapse(&mut self) {
        self.before = None;
        self.window = self.min_window();
        self.acked = 0;
    }

    pub(super) fn set_datagram_size(&mut self, datagram: u16) {
        self.datagram = datagram;
        self.window = self.window.max(self.min_window());
    }
}
