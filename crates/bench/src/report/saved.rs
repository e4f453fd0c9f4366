//! What a report is made from, as it is saved beside the page.

use std::{fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    Error, compare,
    report::Chapter,
    storm,
    testbed::{Machine, ServerLabel},
};

/// The version of the format. A change that older files do not have needs another one.
pub(super) const SCHEMA: u32 = 1;

/// Everything that a report shows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Saved {
    pub(super) schema: u32,
    /// The program that measured, with its version.
    pub(super) program: String,
    /// When it started, in UTC.
    pub(super) started: String,
    pub(super) machine: Machine,
    /// The servers as they were given, Sealane first. Chapters add variants of them.
    pub(super) servers: Vec<ServerLabel>,
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) quick: bool,
    /// Whether it was ended before everything was measured.
    pub(super) is_interrupted: bool,
    /// The command that made it.
    pub(super) command: String,
    pub(super) chapters: Vec<Measured>,
}

/// A chapter of a report.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) chapter: Chapter,
    /// The command that measures the same and nothing else.
    pub(super) command: String,
    pub(super) outcome: Recorded,
}

/// What was measured for a chapter.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Recorded {
    Comparison(compare::Report),
    Storm(storm::Report),
    /// Nothing, and why.
    Nothing(String),
}

impl Saved {
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path)
            .map_err(|source| Error::io(format!("read {}", path.display()), source))?;
        Self::parse(&text).map_err(|reason| Error::Usage(format!("{}: {reason}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let not_saved = |error| format!("this is no file that `report` has saved: {error}");
        let version: Version = serde_json::from_str(text).map_err(not_saved)?;
        if version.schema != SCHEMA {
            return Err(format!(
                "its format is version {}, and this program reads version {SCHEMA}: use the \
                 program that wrote it, or measure again",
                version.schema
            ));
        }
        serde_json::from_str(text).map_err(not_saved)
    }

    pub(super) fn json(&self) -> String {
        // Serialisation fails only for maps whose keys are not strings, and there are none.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_format_is_refused() {
        let reason = |text| Saved::parse(text).expect_err("not a report");
        assert!(reason("{\"schema\": 99}").contains("version 99"));
        assert!(reason("{}").contains("no file that `report` has saved"));
        assert!(reason("{\"schema\": 1}").contains("no file that `report` has saved"));
        assert!(reason("<html>").contains("no file that `report` has saved"));
    }
}
