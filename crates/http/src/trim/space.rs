//! White space that is not written yet.

/// A run of white space, and what stays of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space {
    #[default]
    None,
    /// A space.
    Blank,
    /// A line feed: the run had a line break.
    Line,
}

impl Space {
    /// The run goes on.
    pub(super) fn add(&mut self, more: Space) {
        *self = (*self).max(more);
    }

    /// Ends the run.
    pub(super) fn write(&mut self, output: &mut Vec<u8>) {
        match std::mem::take(self) {
            Space::None => {}
            Space::Blank => output.push(b' '),
            Space::Line => output.push(b'\n'),
        }
    }
}
