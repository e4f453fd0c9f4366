//! Who follows a run of many measurements, and decides whether it goes on.

use crate::Error;

/// One measurement of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step<'a> {
    /// What is measured; steps of the same name take about as long.
    pub(crate) what: &'a str,
    /// The name of the server.
    pub(crate) server: &'a str,
    /// The round, from 0.
    pub(crate) round: usize,
}

/// What becomes of a run after a measurement that failed.
#[derive(Debug)]
pub(crate) enum Verdict {
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
    fn goes_on(&mut self, step: Step<'_>) -> bool;

    /// After each measurement that succeeded.
    fn measured(&mut self, step: Step<'_>);

    /// After all rounds of something, which `text` says.
    fn finished(&mut self, text: &str);

    /// After each that failed.
    fn failed(&mut self, step: Step<'_>, error: Error) -> Verdict;
}

/// The first error ends the run.
#[derive(Debug)]
pub(crate) struct FirstErrorEnds;

impl Watch for FirstErrorEnds {
    fn goes_on(&mut self, _: Step<'_>) -> bool {
        true
    }

    fn measured(&mut self, _: Step<'_>) {}

    fn finished(&mut self, text: &str) {
        eprintln!("{text}");
    }

    fn failed(&mut self, _: Step<'_>, error: Error) -> Verdict {
        Verdict::Fail(error)
    }
}
