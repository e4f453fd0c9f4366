//! One page about what was measured on this machine, beside what was published.
//!
//! | file | what |
//! |---|---|
//! | `run.rs` | runs the comparisons and storms of the chapters |
//! | `progress.rs` | progress, time left, and the end by a signal |
//! | `saved.rs` | the measurements as JSON, from which the page can be made again |
//! | `published.rs` | the published tables |
//! | `overview.rs` | everything at a glance |
//! | `chapters/` | what each chapter says: claims, charts, tables |
//! | `section.rs` | what those are |
//! | `page.rs`, `markup.rs`, `chart.rs`, `style.css`, `chart.css` | the page as HTML, its charts as SVG |

mod chapters;
mod chart;
mod markup;
mod overview;
mod page;
mod progress;
mod published;
mod run;
mod saved;
mod section;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub(crate) use run::Run;

use crate::Error;
use saved::Saved;

/// A part of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Chapter {
    /// Kernel TLS: an article's table of downloads
    S1,
    /// Full handshakes by suite: the table of an asynchronous TLS server with an accelerator
    S2,
    /// Sessions: the table of an HTTPS tuning study
    S3,
    /// How an established connection fares while others do handshakes
    Storm,
    /// Memory per idle TLS connection
    Memory,
    /// More workers, more connections, more server names
    Scale,
}

impl Chapter {
    /// All, in the order of the page.
    pub(crate) const ALL: [Self; 6] = [
        Self::S1,
        Self::S2,
        Self::S3,
        Self::Storm,
        Self::Memory,
        Self::Scale,
    ];

    /// Its name on the command line.
    fn name(self) -> &'static str {
        match self {
            Self::S1 => "s1",
            Self::S2 => "s2",
            Self::S3 => "s3",
            Self::Storm => "storm",
            Self::Memory => "memory",
            Self::Scale => "scale",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::S1 => "Kernel TLS",
            Self::S2 => "Full handshakes with an accelerator",
            Self::S3 => "HTTPS tuning: sessions",
            Self::Storm => "Handshake storms",
            Self::Memory => "Memory per idle connection",
            Self::Scale => "Workers, connections, names",
        }
    }
}

/// What is made of measurements.
pub(crate) struct Pages {
    /// The page.
    pub(crate) page: String,
    /// Its chart at a glance as an SVG, if there is one.
    pub(crate) chart: Option<String>,
}

impl Pages {
    /// Those of measurements that were saved.
    pub(crate) fn of_file(file: &Path) -> Result<Pages, Error> {
        Ok(Pages::of(&Saved::read(file)?))
    }

    fn of(saved: &Saved) -> Pages {
        let overview = overview::chart(saved);
        Pages {
            page: page::render(saved, overview.as_ref()),
            chart: overview.as_ref().map(chart::picture),
        }
    }
}

/// Where the measurements of a page are saved: beside it.
pub(crate) fn json_path(page: &Path) -> PathBuf {
    page.with_extension("json")
}

#[cfg(test)]
mod tests;
