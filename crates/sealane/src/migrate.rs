//! `sealane migrate`: reports on a complete nginx configuration before anything is
//! changed. `docs/migrate.md` is its manual.
//!
//! | file | what |
//! |---|---|
//! | `fragment.rs` | files that are part of a configuration |
//! | `reader.rs` | the file system as this command may use it: read-only |
//! | `report.rs` | the findings as data, which is also the JSON schema |
//! | `advice.rs` | what is worth enabling |
//! | `render.rs` | the report as text |

mod advice;
mod fragment;
mod reader;
mod render;
mod report;

use crate::arguments::{Arguments, arguments_of_subcommand};
use crate::paths::Places;
use crate::startup;
use crate::terminal::{self, say};
use clap::{CommandFactory, Parser};
pub(crate) use reader::Reader;
use report::Report;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The configuration, or the command line, could not be read.
const UNREADABLE: u8 = 1;
/// Something does not work here.
const REFUSED: u8 = 2;

#[derive(Parser)]
#[command(
    name = "sealane migrate",
    bin_name = "sealane migrate",
    about = "Checks an nginx configuration: what works, what has no effect, and what is refused",
    after_help = "Exit status: 0 everything works, 1 the configuration cannot be read, 2 something \
                  does not \nwork. Nothing is written, no connection is opened and no name is \
                  resolved. Only read \naccess to the files is needed; keys and certificates are \
                  not opened."
)]
struct Request {
    /// Configuration file; without it, the one that the server would read
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Prefix path, as the server has it; without FILE, the configuration below it is read
    #[arg(short = 'p', value_name = "prefix")]
    prefix: Option<PathBuf>,
    /// Global directives out of the configuration file, as the server has them
    #[arg(short = 'g', value_name = "directives")]
    globals: Option<OsString>,
    /// Print JSON (docs/migrate.md has the schema)
    #[arg(long)]
    json: bool,
}

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    Request::command()
}

/// Does what the command line asks for; `arguments` begin with `migrate`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let request: Request = match arguments_of_subcommand(arguments, UNREADABLE) {
        Ok(request) => request,
        Err(code) => return code,
    };
    let report = examine(&request);
    let text = if request.json {
        match serde_json::to_string_pretty(&report) {
            Ok(json) => format!("{json}\n"),
            Err(error) => {
                say(&format!("sealane migrate: cannot write JSON: {error}\n"));
                return ExitCode::from(UNREADABLE);
            }
        }
    } else {
        render::text(&report, terminal::wants_colours())
    };
    // A reader that went away (`| head`) has what it wanted.
    let _ = std::io::stdout().write_all(text.as_bytes());
    if report.unfinished.is_some() {
        ExitCode::from(UNREADABLE)
    } else if report.refused.is_empty() && report.unread.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(REFUSED)
    }
}

/// What a configuration that nginx uses is here.
pub(crate) struct Examined(Report);

impl Examined {
    /// Whether the server would start with it, as far as the text decides.
    pub(crate) fn works(&self) -> bool {
        let Report {
            refused,
            unread,
            unfinished,
            ..
        } = &self.0;
        refused.is_empty() && unread.is_empty() && unfinished.is_none()
    }

    /// The report.
    pub(crate) fn text(&self) -> String {
        render::text(&self.0, terminal::wants_colours())
    }
}

/// Examines the configuration of an nginx with these paths.
pub(crate) fn examine_file(file: &Path, prefix: &Path, globals: Option<OsString>) -> Examined {
    Examined(examine(&Request {
        file: Some(file.to_owned()),
        prefix: Some(prefix.to_owned()),
        globals,
        json: false,
    }))
}

fn examine(request: &Request) -> Report {
    // As for any other command, a file name is relative to the current directory; `-c` starts from
    // the prefix.
    let here = std::env::current_dir().unwrap_or_default();
    let arguments = Arguments {
        prefix: request.prefix.clone(),
        conf_file: request.file.as_ref().map(|file| here.join(file)),
        globals: request.globals.clone(),
        ..Arguments::default()
    };
    let places = Places::new(&arguments);
    let options = sealane_conf::Options {
        // Root starts the server, whoever runs this command.
        privileged: true,
        ..startup::options(&arguments, &places)
    };
    let mut reader = Reader::default();
    let (survey, read_as) = fragment::read(&options, &mut reader);
    let report = Report::of(&places.conf_file, survey, reader.names());
    match read_as {
        Some(block) => report.of_part(block),
        None => report,
    }
}
