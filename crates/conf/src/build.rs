//! The configuration while it is being read: the drafts of the open blocks,
//! and what setters may ask for.

use crate::call::{Call, Fault};
use crate::diagnostic::{Diagnostic, SourceLocation};
use crate::directives::{self, Contexts};
use crate::draft::{
    AcmeIssuerDraft, EventsDraft, HttpDraft, LimitExceptBlock, LocationBlock, LocationDraft,
    MainDraft, ScriptDraft, ServerBlock, ServerDraft, StandAloneDraft, UpstreamBlock,
};
use crate::input::{Loader, Options};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::merge::HttpLevel;
use crate::met::{IdleReason, Met};
use crate::model::{
    Condition, If, LogLevel, Matcher, Op, Origin, Server, ServerKind, Types, Upstream,
};
use crate::regex::Regex;
use crate::template::Names;
use std::collections::HashSet;
use std::sync::Arc;

/// The configuration while it is being read.
pub(crate) struct Build<'a> {
    pub(crate) options: &'a Options,
    /// Files and host names come from here.
    pub(crate) loader: &'a mut dyn Loader,
    pub(crate) main: MainDraft,
    pub(crate) events: Option<EventsDraft>,
    pub(crate) http: HttpDraft,
    /// The blocks that were begun.
    kinds: Vec<ServerKind>,
    /// The settings of `http`, `stream` and `mail` themselves, in the order in which the blocks
    /// have ended.
    pub(crate) ended: Vec<HttpLevel>,
    /// The servers of blocks that have ended, in the order of the configuration.
    pub(crate) servers: Vec<Server>,
    /// The groups of servers, once their block has ended.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// Open levels from `http` inwards.
    levels: Vec<Level>,
    /// Names of variables met so far.
    pub(crate) names: Names,
    pub(crate) warnings: Vec<Diagnostic>,
    /// What directives do.
    pub(crate) met: Met,
    /// Directives that were warned about already.
    warned: HashSet<&'static str>,
    /// The place of the directive at hand, for warnings.
    pub(crate) place: Option<SourceLocation>,
    /// The block that a setter wants opened.
    pub(crate) opening: Option<Opening>,
    /// The block of a list that is open, other than `types`.
    list: Option<Box<dyn ListBlock>>,
    /// The `process` block that is open.
    pub(crate) open_process: Option<StandAloneDraft>,
}

/// A block that a setter has prepared.
pub(crate) enum Opening {
    /// `events`.
    Events,
    /// `http`.
    Http,
    /// `server`.
    Server,
    /// `stream`.
    Stream,
    /// `server` of `stream`.
    StreamServer,
    /// `mail`.
    Mail,
    /// `server` of `mail`.
    MailServer,
    /// `location`.
    Location { matcher: Matcher, name: Box<str> },
    /// `upstream`.
    Upstream(Box<UpstreamBlock>),
    /// `acme_issuer`.
    AcmeIssuer(Box<AcmeIssuerDraft>),
    /// `processes`.
    Processes,
    /// `process`.
    Process(Box<StandAloneDraft>),
    /// `if`, in a server or in a location.
    If(Condition),
    /// `limit_except` with the methods that it is not about.
    LimitExcept(Vec<&'static str>),
    /// `types`: not directives but a list.
    Types,
    /// Another block that holds a list.
    List(Box<dyn ListBlock>),
}

/// An open block from `http` inwards.
struct Level {
    kind: LevelKind,
    origin: Origin,
    server: ServerDraft,
    location: LocationDraft,
    children: Vec<LocationBlock>,
    script: ScriptDraft,
    limit_except: Option<LimitExceptBlock>,
    /// Single-valued directives without a setter that were met here.
    seen: HashSet<&'static str>,
    /// The `types` block that is open.
    types: Option<Types>,
}

/// What a level is.
enum LevelKind {
    Main,
    Http,
    Server,
    Stream,
    StreamServer,
    Mail,
    MailServer,
    Location {
        matcher: Matcher,
        name: Box<str>,
    },
    If {
        condition: Condition,
        in_server: bool,
    },
    LimitExcept {
        methods: Vec<&'static str>,
    },
}

impl Level {
    fn new(kind: LevelKind, origin: Origin) -> Level {
        Level {
            kind,
            origin,
            server: ServerDraft::default(),
            location: LocationDraft::default(),
            children: Vec::new(),
            script: ScriptDraft::default(),
            limit_except: None,
            seen: HashSet::new(),
            types: None,
        }
    }
}

impl<'a> Build<'a> {
    pub(crate) fn new(options: &'a Options, loader: &'a mut dyn Loader) -> Build<'a> {
        let outermost = Origin {
            file: options.conf_path.clone(),
            line: 0,
        };
        Build {
            options,
            loader,
            main: MainDraft::default(),
            events: None,
            http: HttpDraft::default(),
            kinds: Vec::new(),
            ended: Vec::new(),
            servers: Vec::new(),
            upstreams: Vec::new(),
            levels: vec![Level::new(LevelKind::Main, outermost)],
            names: Names::default(),
            warnings: Vec::new(),
            met: Met::default(),
            warned: HashSet::new(),
            place: None,
            opening: None,
            list: None,
            open_process: None,
        }
    }

    fn level(&mut self) -> &mut Level {
        self.levels
            .last_mut()
            .expect("the outermost level is never closed")
    }

    /// Settings of server level in the innermost `http` or `server`.
    pub(crate) fn server(&mut self) -> &mut ServerDraft {
        &mut self.level().server
    }

    /// Settings of location level in the innermost block.
    pub(crate) fn location(&mut self) -> &mut LocationDraft {
        &mut self.level().location
    }

    /// What the rewrite module does on the innermost level.
    pub(crate) fn script(&mut self) -> &mut Vec<Op> {
        &mut self.level().script.ops
    }

    /// The same, to be read.
    pub(crate) fn location_ref(&self) -> &LocationDraft {
        let level = self.levels.last();
        &level.expect("the outermost level is never closed").location
    }

    /// The `events` block.
    pub(crate) fn events(&mut self) -> &mut EventsDraft {
        self.events.get_or_insert_default()
    }

    /// The location that is open, if the innermost block is one.
    pub(crate) fn open_location(&self) -> Option<(&Matcher, &str)> {
        match &self.levels.last()?.kind {
            LevelKind::Location { matcher, name } => Some((matcher, name)),
            _ => None,
        }
    }

    /// Whether directives are directly in a `server`.
    pub(crate) fn in_server(&self) -> bool {
        matches!(
            self.levels.last().map(|level| &level.kind),
            Some(LevelKind::Server)
        )
    }

    /// Whether directives are outside `http`.
    pub(crate) fn in_main(&self) -> bool {
        self.levels.len() == 1
    }

    /// Records a single-valued directive without a setter; false when it was
    /// already there.
    pub(crate) fn first_here(&mut self, name: &'static str) -> bool {
        self.level().seen.insert(name)
    }

    /// The list that an open `types` block fills.
    pub(crate) fn types(&mut self) -> &mut Types {
        self.level().types.get_or_insert_default()
    }

    /// Begins a block.
    pub(crate) fn open(&mut self, opening: Opening, origin: Origin) -> Contexts {
        match opening {
            Opening::Events => {
                self.events();
                directives::EVENTS
            }
            Opening::Http => {
                self.begin(ServerKind::Http);
                self.http.log_formats.push(Arc::new(directives::combined()));
                self.levels.push(Level::new(LevelKind::Http, origin));
                directives::HTTP
            }
            Opening::Server => {
                self.levels.push(Level::new(LevelKind::Server, origin));
                directives::SERVER
            }
            Opening::Stream => {
                self.begin(ServerKind::Stream);
                self.levels.push(Level::new(LevelKind::Stream, origin));
                directives::STREAM
            }
            Opening::StreamServer => {
                self.levels
                    .push(Level::new(LevelKind::StreamServer, origin));
                directives::STREAM_SERVER
            }
            Opening::Mail => {
                self.begin(ServerKind::Mail);
                self.levels.push(Level::new(LevelKind::Mail, origin));
                directives::MAIL
            }
            Opening::MailServer => {
                self.levels.push(Level::new(LevelKind::MailServer, origin));
                directives::MAIL_SERVER
            }
            Opening::Location { matcher, name } => {
                self.levels
                    .push(Level::new(LevelKind::Location { matcher, name }, origin));
                directives::LOCATION
            }
            Opening::If(condition) => {
                let in_server = self.in_server();
                let kind = LevelKind::If {
                    condition,
                    in_server,
                };
                self.levels.push(Level::new(kind, origin));
                match in_server {
                    true => directives::SERVER_IF,
                    false => directives::LOCATION_IF,
                }
            }
            Opening::LimitExcept(methods) => {
                self.levels
                    .push(Level::new(LevelKind::LimitExcept { methods }, origin));
                directives::LIMIT_EXCEPT
            }
            Opening::Upstream(block) => {
                self.http.open_upstream = Some(*block);
                match self.kind() {
                    ServerKind::Stream => directives::STREAM_UPSTREAM,
                    _ => directives::UPSTREAM,
                }
            }
            Opening::AcmeIssuer(issuer) => {
                self.http.open_acme_issuer = Some(*issuer);
                directives::ACME_ISSUER
            }
            Opening::Processes => directives::PROCESSES,
            Opening::Process(process) => {
                self.open_process = Some(*process);
                directives::PROCESS
            }
            Opening::Types => {
                // Several blocks on one level add up.
                let earlier = self.level().location.types.as_deref().cloned();
                self.level().types = Some(earlier.unwrap_or_default());
                0
            }
            Opening::List(list) => {
                self.list = Some(list);
                0
            }
        }
    }

    /// Ends the block that `context` was opened for.
    pub(crate) fn close(&mut self, context: Contexts) -> Result<(), Fault> {
        match context {
            0 if self.list.is_some() => {
                if let Some(list) = self.list.take() {
                    return list.end(self);
                }
            }
            0 => {
                let types = self.level().types.take().unwrap_or_default();
                self.level().location.types = Some(Arc::new(types));
            }
            directives::SERVER
            | directives::STREAM_SERVER
            | directives::MAIL_SERVER
            | directives::LOCATION
            | directives::SERVER_IF
            | directives::LOCATION_IF
            | directives::LIMIT_EXCEPT => {
                let level = self.levels.pop().expect("the block was opened");
                self.finish(level);
            }
            // `http`, `stream` and `mail` stay open as levels until they are merged.
            _ => {}
        }
        Ok(())
    }

    /// Whether `include` among the lines of the open list reads further ones.
    pub(crate) fn list_includes(&self) -> bool {
        self.list.as_ref().is_none_or(|list| list.includes())
    }

    /// One line of the list that is open.
    pub(crate) fn list_line(&mut self, words: &[Word], origin: &Origin) -> Result<(), Fault> {
        let Some(mut list) = self.list.take() else {
            return directives::add_media_type(self, words);
        };
        let read = list.line(self, words, origin);
        self.list = Some(list);
        read
    }

    /// Whether the open list is a `types` block.
    pub(crate) fn in_types(&self) -> bool {
        self.list.is_none()
    }

    fn finish(&mut self, level: Level) {
        let Level {
            kind,
            origin,
            server,
            location,
            children,
            mut script,
            limit_except,
            ..
        } = level;
        match kind {
            LevelKind::Server | LevelKind::StreamServer | LevelKind::MailServer => {
                self.http.servers.push(ServerBlock {
                    kind: match kind {
                        LevelKind::StreamServer => ServerKind::Stream,
                        LevelKind::MailServer => ServerKind::Mail,
                        _ => ServerKind::Http,
                    },
                    server,
                    location,
                    locations: children,
                    script,
                    origin,
                });
            }
            LevelKind::Location { matcher, name } => {
                let block = LocationBlock {
                    matcher,
                    name,
                    location,
                    children,
                    script,
                    limit_except,
                    origin,
                };
                self.level().children.push(block);
            }
            LevelKind::If {
                condition,
                in_server,
            } => {
                let outer = &mut self.level().script;
                let block = (!in_server).then_some(outer.blocks.len());
                if !in_server {
                    outer.blocks.push(location);
                }
                outer.ops.push(Op::If(Box::new(If {
                    condition,
                    inside: script.ops.len(),
                    block,
                })));
                outer.ops.append(&mut script.ops);
            }
            LevelKind::LimitExcept { methods } => {
                self.level().limit_except = Some(LimitExceptBlock { methods, location });
            }
            LevelKind::Main | LevelKind::Http | LevelKind::Stream | LevelKind::Mail => {}
        }
    }

    /// Whether the innermost block has had a `limit_except`.
    pub(crate) fn has_limit_except(&self) -> bool {
        let level = self.levels.last();
        level.is_some_and(|level| level.limit_except.is_some())
    }

    /// The block that is open, or was open last.
    pub(crate) fn kind(&self) -> ServerKind {
        self.kinds.last().copied().unwrap_or_default()
    }

    /// Whether there is a block of this kind.
    pub(crate) fn has_block(&self, kind: ServerKind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Begins `http`, `stream` or `mail`, which have their own names of variables, formats and
    /// groups.
    fn begin(&mut self, kind: ServerKind) {
        self.kinds.push(kind);
        self.names.enter(kind);
        self.http.groups.begin_block();
        self.http.log_formats.clear();
    }

    /// Takes the level of `http`, `stream` or `mail` itself, once its block has ended.
    pub(crate) fn take_outer_level(&mut self) -> (ServerDraft, LocationDraft) {
        let level = self.levels.pop().expect("the block was opened");
        (level.server, level.location)
    }

    /// The `upstream` block that is open.
    pub(crate) fn upstream(&mut self) -> &mut UpstreamBlock {
        self.http
            .open_upstream
            .as_mut()
            .expect("directives of an upstream stand in its block")
    }

    /// The `acme_issuer` block that is open.
    pub(crate) fn acme_issuer(&mut self) -> &mut AcmeIssuerDraft {
        self.http
            .open_acme_issuer
            .as_mut()
            .expect("directives of an issuer stand in its block")
    }

    /// The `process` block that is open.
    pub(crate) fn stand_alone(&mut self) -> &mut StandAloneDraft {
        self.open_process
            .as_mut()
            .expect("directives of a process stand in its block")
    }

    /// The number that the `server` block at hand gets.
    pub(crate) fn server_index(&self) -> usize {
        self.http.servers.len()
    }

    /// Compiles a regular expression; its named groups become variables.
    pub(crate) fn regex(
        &mut self,
        pattern: &str,
        caseless: bool,
        word: usize,
    ) -> Result<Regex, Fault> {
        let names = &mut self.names;
        let mut taken = None;
        let regex = Regex::new(pattern, caseless, |name| {
            names.define(name).unwrap_or_else(|fault| {
                taken.get_or_insert(fault);
                0
            })
        });
        let regex = regex.map_err(|error| {
            let tail = error
                .offset
                .and_then(|at| pattern.get(at..))
                .filter(|tail| !tail.is_empty());
            let at = tail
                .map(|tail| format!(" at \"{tail}\""))
                .unwrap_or_default();
            let reason = &error.message;
            Fault::at(
                word,
                format!("pcre2_compile() failed: {reason} in \"{pattern}\"{at}"),
            )
        })?;
        match taken {
            Some(fault) => Err(fault.at_word(word)),
            None => Ok(regex),
        }
    }

    /// A directive that has no effect yet, and what is missing.
    pub(crate) fn has_no_effect(&mut self, call: &Call<'_>, missing: &'static str) {
        let row = call.row;
        self.met
            .is_idle(row, IdleReason::Later, || missing.to_owned(), &call.origin);
        self.warn_once(
            row.name,
            format!(
                "the \"{}\" directive has no effect yet: {missing}",
                row.name
            ),
        );
    }

    /// A warning about the directive at hand.
    pub(crate) fn warn(&mut self, message: impl Into<String>) {
        let warning = Diagnostic {
            level: LogLevel::Warn,
            message: message.into(),
            place: self.place.clone(),
            help: None,
        };
        self.warnings.push(warning);
    }

    /// A warning about the configuration as a whole.
    pub(crate) fn warn_whole(&mut self, message: impl Into<String>) {
        let warning = Diagnostic {
            level: LogLevel::Warn,
            message: message.into(),
            place: None,
            help: None,
        };
        self.warnings.push(warning);
    }

    /// A warning that is printed once, however often its cause is met.
    pub(crate) fn warn_once(&mut self, cause: &'static str, message: impl Into<String>) {
        if self.warned.insert(cause) {
            self.warn(message);
        }
    }
}
