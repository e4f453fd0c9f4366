//! Who follows a run of many measurements, and decides whether it goes on.

use crate::Error;

/// One measurement of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn<'a> {
    /// What is measured; turns of the same name take about as long.
    pub(crate) what: &'a str,
    /// The name of the server.
    pub(crate) server: &'a str,
    /// The round, from 0.
    pub(crate) round: usize,
}

/// What becomes of a run after a measurement that failed.
#[derive(Debug)]
pub(crate) enum Course {
    /// It ends with this error.
    Fail(Error),
    /// It goes on without this server in this case; the report has the reason.
    GoOn(String),
    /// It ends with what was measured before.
    Stop,
}

/// Follows a run.
pub(crate) trait Watch {
    /// Before each measurement: whether it is made. If not, the run ends with what was measured
    /// before.
    fn goes_on(&mut self, turn: Turn<'_>) -> bool;

    /// After each measurement that succeeded.
    fn measured(&mut self, turn: Turn<'_>);

    /// After all rounds of something, which `text` says.
    fn finished(&mut self, text: &str);

    /// After each that failed.
    fn failed(&mut self, turn: Turn<'_>, error: Error) -> Course;
}

/// The first error ends the run.
#[derive(Debug)]
pub(crate) struct FirstErrorEnds;

impl Watch for FirstErrorEnds {
    fn goes_on(&mut self, _: Turn<'_>) -> bool {
        true
    }

    fn measured(&mut self, _: Turn<'_>) {}

    fn finished(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn failed(&mut self, _: Turn<'_>, error: Error) -> Course {
        Course::Fail(error)
    }
}
