//! What was found, as data: the text and `--json` show the same.
//!
//! The field names are the stable schema that `docs/migrate.md` describes. Fields may be added; a
//! change of what one means raises [`SCHEMA`].

use super::advice;
use crate::defaults::{self, Differs};
use crate::summary::plural;
use crate::version;
use sealane_conf::Diagnostic;
use sealane_conf::met::IdleReason;
use sealane_conf::model::Origin;
use sealane_conf::survey::{Refusal, RefusalKind, Survey};
use serde::Serialize;
use std::path::Path;

/// Version of the JSON schema.
const SCHEMA: u32 = 1;

/// Longest part of a line of the configuration that is shown.
const LINE_CHARS: usize = 69;

/// Everything.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) schema: u32,
    /// `sealane/0.1.0`.
    pub(super) version: &'static str,
    pub(super) file: String,
    /// The block that it was read in, if it is not a complete configuration.
    pub(super) read_as: Option<&'static str>,
    /// One sentence.
    pub(super) verdict: String,
    /// Directives that do what nginx's documentation says.
    pub(super) working: usize,
    /// What would keep the server from starting.
    pub(super) refused: Vec<Refused>,
    /// Includes that could not be read.
    pub(super) unread: Vec<Message>,
    /// What ended the reading before the end.
    pub(super) unfinished: Option<Message>,
    /// Directives that are accepted and change nothing.
    pub(super) without_effect: Vec<WithoutEffect>,
    pub(super) warnings: Vec<Message>,
    /// Directives that are not set and whose default differs from nginx's.
    pub(super) defaults: Vec<Default>,
    /// What was not checked.
    pub(super) unchecked: Vec<String>,
    /// What is worth enabling.
    pub(super) advice: Vec<Advice>,
}

/// A directive that does not work, with all places of the same fault.
#[derive(Debug, Serialize)]
pub(super) struct Refused {
    /// Empty when the configuration as a whole is meant.
    pub(super) directive: String,
    pub(super) kind: Kind,
    pub(super) message: String,
    /// What to use instead, or how to mend it.
    pub(super) remedy: Option<String>,
    pub(super) places: Vec<SourceLine>,
    /// Blocks of the directive were not checked.
    pub(super) blocks_skipped: bool,
}

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// nginx, or a module for it, has it; Sealane does not.
    Unsupported,
    /// Sealane has the directive, but does not take these arguments of it yet.
    NotYet,
    /// Nobody knows the name.
    Unknown,
    /// nginx would refuse it too.
    Wrong,
}

/// A line of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SourceLine {
    /// Empty for `-g`.
    pub(super) file: String,
    pub(super) line: u32,
    /// The line itself, where it is known.
    pub(super) text: String,
}

/// A message about one place or none.
#[derive(Debug, Serialize)]
pub(super) struct Message {
    pub(super) message: String,
    pub(super) remedy: Option<String>,
    pub(super) place: Option<SourceLine>,
}

/// A directive that is accepted and changes nothing.
#[derive(Debug, Serialize)]
pub(super) struct WithoutEffect {
    pub(super) directive: &'static str,
    /// `meaningless`, `later` or `obsolete`.
    pub(super) reason: &'static str,
    pub(super) why: String,
    pub(super) places: Vec<SourceLine>,
    /// How many places there are beyond `places`.
    pub(super) more: usize,
}

/// A default that differs.
#[derive(Debug, Serialize)]
pub(super) struct Default {
    pub(super) directive: &'static str,
    pub(super) here: &'static str,
    pub(super) nginx: &'static str,
    pub(super) note: &'static str,
}

/// Something worth switching on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    /// One word for scripts.
    pub(super) id: &'static str,
    /// What for.
    pub(super) why: String,
    /// Where: `http`, `main`, or a server with its place.
    pub(super) into: String,
    /// Lines to take out.
    pub(super) remove: Vec<String>,
    /// Lines to put in.
    pub(super) add: Vec<String>,
}

impl Report {
    pub(super) fn of(file: &Path, survey: Survey, names: Vec<String>) -> Report {
        let refused = grouped(&survey.refusals);
        let advice = match &survey.config {
            Some(config) => advice::of(config, &survey.met),
            None => Vec::new(),
        };
        let without_effect: Vec<WithoutEffect> = survey
            .met
            .idle
            .iter()
            .map(|idle| WithoutEffect {
                directive: idle.name,
                reason: match idle.reason {
                    IdleReason::Meaningless => "meaningless",
                    IdleReason::Later => "later",
                    IdleReason::Obsolete => "obsolete",
                },
                why: idle.why.trim_end_matches('.').to_owned(),
                places: idle.places.iter().map(SourceLine::of_origin).collect(),
                more: idle.more,
            })
            .collect();
        // What has no effect is in the list above, with every place.
        let has_list = |message: &str| {
            without_effect
                .iter()
                .any(|idle| message.starts_with(&format!("the \"{}\" directive ", idle.directive)))
        };
        let warnings = survey.warnings.iter().map(Message::of);
        let warnings = warnings
            .filter(|warning| !has_list(&warning.message))
            .collect();
        let faults = survey.refusals.len() + survey.unread.len();
        let idle = survey.met.idle_count();
        let working = survey.met.working;
        Report {
            schema: SCHEMA,
            version: version::NAME_AND_VERSION,
            file: file.display().to_string(),
            read_as: None,
            verdict: verdict(survey.end.is_some(), faults, working, idle),
            working,
            refused,
            unread: survey.unread.iter().map(Message::of).collect(),
            unfinished: survey.end.as_deref().map(Message::of),
            without_effect,
            warnings,
            defaults: defaults::differing(&survey.met)
                .into_iter()
                .map(Default::of)
                .collect(),
            unchecked: unchecked(&survey, &names),
            advice,
        }
    }

    /// The report on a part that was read in a block: the configuration around it
    /// is not known and is left out.
    pub(super) fn of_part(mut self, block: &'static str) -> Report {
        self.read_as = Some(block);
        self.defaults.retain(|default| default.directive != "pid");
        self.advice.retain(|advice| advice.into != "main");
        self
    }
}

fn verdict(unfinished: bool, faults: usize, working: usize, idle: usize) -> String {
    let sum = format!(
        "{working} {} and {idle} {} no effect",
        if working == 1 { "works" } else { "work" },
        if idle == 1 { "has" } else { "have" }
    );
    let faults_text = plural(faults, "fault", "faults");
    match (unfinished, faults) {
        (true, 0) => "It could not be read completely.".to_owned(),
        (true, _) => format!("It could not be read completely; {faults_text} before that."),
        (false, 0) => format!("It works without changes: of its directives {sum}."),
        (false, _) => {
            format!(
                "It does not work without changes: {faults_text}; of the other directives \
                {sum}."
            )
        }
    }
}

/// The same fault in several places is one finding.
fn grouped(refusals: &[Refusal]) -> Vec<Refused> {
    let mut list: Vec<Refused> = Vec::new();
    for refusal in refusals {
        let diagnostic = &refusal.diagnostic;
        let (message, remedy) = (diagnostic.text(), diagnostic.help.clone());
        let place = diagnostic.place.as_ref().map(SourceLine::of);
        let known = list
            .iter_mut()
            .find(|known| known.message == message && known.remedy == remedy);
        match known {
            Some(known) => {
                known.places.extend(place);
                known.blocks_skipped |= refusal.skipped_block;
            }
            None => list.push(Refused {
                directive: refusal.name.clone(),
                kind: match refusal.kind {
                    RefusalKind::Unsupported => Kind::Unsupported,
                    RefusalKind::NotYet => Kind::NotYet,
                    RefusalKind::Unknown => Kind::Unknown,
                    RefusalKind::Misplaced | RefusalKind::Wrong => Kind::Wrong,
                },
                message,
                remedy,
                places: place.into_iter().collect(),
                blocks_skipped: refusal.skipped_block,
            }),
        }
    }
    list
}

/// What only the server itself can find out, or must not be touched here.
fn unchecked(survey: &Survey, names: &[String]) -> Vec<String> {
    let mut list = Vec::new();
    if !names.is_empty() {
        list.push(format!(
            "host names were not resolved, and must resolve when the server starts: {}",
            names.join(", ")
        ));
    }
    let files: Vec<&str> = [
        ("ssl_certificate", "certificates and keys"),
        ("ssl_session_ticket_key", "ticket keys"),
        ("auth_basic_user_file", "files of passwords"),
    ]
    .into_iter()
    .filter(|(directive, _)| survey.met.has(directive))
    .map(|(_, what)| what)
    .collect();
    if !files.is_empty() {
        let files = files.join(", ");
        list.push(format!(
            "{files} were not opened: `sealane -t`, as the user that starts the server, does"
        ));
    }
    list
}

impl SourceLine {
    fn of(place: &sealane_conf::SourceLocation) -> SourceLine {
        let file = place.file.as_ref();
        SourceLine {
            file: file.map_or_else(String::new, |file| file.display().to_string()),
            line: place.line,
            text: place.shown_line(LINE_CHARS),
        }
    }

    fn of_origin(origin: &Origin) -> SourceLine {
        SourceLine {
            file: origin.file.display().to_string(),
            line: origin.line,
            text: String::new(),
        }
    }
}

impl Message {
    fn of(diagnostic: &Diagnostic) -> Message {
        Message {
            message: diagnostic.text(),
            remedy: diagnostic.help.clone(),
            place: diagnostic.place.as_ref().map(SourceLine::of),
        }
    }
}

impl Default {
    fn of(differs: &Differs) -> Default {
        let Differs {
            name,
            here,
            nginx,
            note,
            ..
        } = *differs;
        Default {
            directive: name,
            here,
            nginx,
            note,
        }
    }
}
