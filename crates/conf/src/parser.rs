//! Reads files, follows includes and hands every directive to its row.

use crate::build::{Build, Opening};
use crate::call::{Call, Fault, FaultPlace, shown};
use crate::diagnostic::{Diagnostic, Failure, SourceLocation};
use crate::directives::{self, Contexts, MAIN, Row, Setter, Support};
use crate::input::{Loader, MemoryLoader, Options};
use crate::lexer::{Item, LexError, Lexer, Origin as TextOrigin, Word};
use crate::listen;
use crate::merge;
use crate::met::IdleReason;
use crate::model::{Config, ErrorLog, LogLevel, Origin, Source};
use crate::survey::{Notes, Refusal, RefusalKind, Survey};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How large a configuration may be. The defaults are far above what people
/// or programs write; they stop mistakes such as an `include` of
/// everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Deepest nesting of blocks.
    pub(crate) block_depth: usize,
    /// Blocks in all.
    pub(crate) blocks: usize,
    /// Deepest nesting of included files.
    pub(crate) include_depth: usize,
    /// Files read, each reading counted.
    pub(crate) files: usize,
    /// Bytes read in all.
    pub(crate) bytes: usize,
}

impl Limits {
    pub(crate) const DEFAULT: Limits = Limits {
        block_depth: 64,
        blocks: 250_000,
        include_depth: 64,
        files: 10_000,
        bytes: 64 << 20,
    };
}

/// Reads a configuration.
///
/// As in nginx, directives of `options.globals` (`-g`) come first, then the
/// file; the first error ends the reading.
///
/// # Errors
///
/// The first error, with the warnings that came before it.
pub fn parse(options: &Options, loader: &mut dyn Loader) -> Result<Config, Failure> {
    parse_within(options, loader, &Limits::DEFAULT)
}

/// [`parse`] with limits of one's own.
pub(crate) fn parse_within(
    options: &Options,
    loader: &mut dyn Loader,
    limits: &Limits,
) -> Result<Config, Failure> {
    let config = Parser::new(options, loader, limits).parse()?;
    match options.adds_control_server {
        true => merge::control::add_server(config, options),
        false => Ok(config),
    }
}

/// [`parse`] for a text of the program's own. It reads no file, and its errors go where `logs`
/// says.
pub(crate) fn parse_own(
    options: &Options,
    text: &'static str,
    logs: &[ErrorLog],
) -> Result<Config, Failure> {
    let mut files = MemoryLoader::new().with(&options.conf_path, text);
    let mut parser = Parser::new(options, &mut files, &Limits::DEFAULT);
    parser.build.main.error_logs = logs.to_vec();
    parser.parse()
}

/// [`crate::survey::survey`].
pub(crate) fn survey(options: &Options, loader: &mut dyn Loader) -> Survey {
    survey_within(options, loader, &Limits::DEFAULT)
}

/// [`survey`] with limits of one's own.
pub(crate) fn survey_within(options: &Options, loader: &mut dyn Loader, limits: &Limits) -> Survey {
    let mut parser = Parser::new(options, loader, limits);
    parser.notes = Some(Notes::default());
    let result = parser.run();
    let Parser {
        build,
        sources,
        notes,
        ..
    } = parser;
    let mut notes = notes.unwrap_or_default();
    let met = build.met.clone();
    let result = match result {
        Ok(()) => merge::finish(build, sources),
        Err(error) => {
            let warnings = build.warnings;
            return Survey::of(Err(Failure { warnings, error }), notes, met);
        }
    };
    // What is wrong with the whole is one fault among the others.
    let mut survey = match result {
        Err(Failure { warnings, error }) => {
            notes.refusals.push(Refusal {
                kind: RefusalKind::Wrong,
                name: String::new(),
                diagnostic: *error,
                skipped_block: false,
            });
            Survey {
                config: None,
                refusals: Vec::new(),
                unread: Vec::new(),
                warnings,
                met,
                end: None,
            }
        }
        good => Survey::of(good, Notes::default(), met),
    };
    (survey.refusals, survey.unread) = (notes.refusals, notes.unread);
    survey
}

/// The reading ends here.
type Stop = Box<Diagnostic>;

struct Parser<'a> {
    limits: &'a Limits,
    block_count: usize,
    build: Build<'a>,
    /// Files being read, outermost first.
    files: Vec<Rc<Text>>,
    sources: Vec<Source>,
    total_bytes: usize,
    file_count: usize,
    block_depth: usize,
    /// The last directive that opened a block: in a list, such as `map`, which has no
    /// blocks, the directive of the list.
    opened: &'static str,
    /// Faults are noted here instead of ending the reading.
    notes: Option<Notes>,
}

/// A text being read.
struct Text {
    /// `None` for `-g`.
    path: Option<PathBuf>,
    bytes: Vec<u8>,
}

/// Which kind of text a run of statements may end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// A file, or `-g`: with its end.
    Whole,
    /// A block: with `}`.
    Block,
}

impl<'a> Parser<'a> {
    fn new(options: &'a Options, loader: &'a mut dyn Loader, limits: &'a Limits) -> Parser<'a> {
        Parser {
            limits,
            block_count: 0,
            build: Build::new(options, loader),
            files: Vec::new(),
            sources: Vec::new(),
            total_bytes: 0,
            file_count: 0,
            block_depth: 0,
            opened: "",
            notes: None,
        }
    }

    fn parse(mut self) -> Result<Config, Failure> {
        match self.run() {
            Ok(()) => merge::finish(self.build, self.sources),
            Err(error) => Err(Failure {
                warnings: self.build.warnings,
                error,
            }),
        }
    }

    fn run(&mut self) -> Result<(), Stop> {
        if let Some(globals) = &self.build.options.globals {
            let text = Rc::new(Text {
                path: None,
                bytes: globals.clone().into_bytes(),
            });
            self.whole_text(text, MAIN)?;
        }
        let path = self.build.options.conf_path.clone();
        let text = self.read(&path, None)?;
        self.whole_text(text, MAIN)
    }

    /// Reads an included file in the given context; `place` is that of the `include`.
    fn included(
        &mut self,
        path: &Path,
        context: Contexts,
        place: SourceLocation,
    ) -> Result<(), Stop> {
        match self.read(path, Some(place)) {
            Ok(text) => self.whole_text(text, context),
            Err(stop) => self.note_unread(stop),
        }
    }

    /// The text of a file; `place` is that of the `include`.
    fn read(&mut self, path: &Path, place: Option<SourceLocation>) -> Result<Rc<Text>, Stop> {
        let refuse = |message: String, help: Option<&str>| {
            let help = help.map(str::to_owned);
            Box::new(Diagnostic {
                level: LogLevel::Emerg,
                message,
                place: place.clone(),
                help,
            })
        };
        let shown_path = path.display();
        if self
            .files
            .iter()
            .any(|open| open.path.as_deref() == Some(path))
        {
            return Err(refuse(
                format!("\"{shown_path}\" includes itself"),
                Some("a file must not include itself, directly or indirectly"),
            ));
        }
        self.file_count += 1;
        if self.files.len() >= self.limits.include_depth {
            return Err(refuse(
                format!("too deep nesting of includes at \"{shown_path}\""),
                None,
            ));
        }
        if self.file_count > self.limits.files {
            return Err(refuse(
                format!("more than {} files are included", self.limits.files),
                None,
            ));
        }
        let bytes = self.build.loader.read(path).map_err(|error| {
            refuse(
                format!("open() \"{shown_path}\" failed ({})", errno_text(&error)),
                None,
            )
        })?;
        self.total_bytes = self.total_bytes.saturating_add(bytes.len());
        if self.total_bytes > self.limits.bytes {
            let megabytes = self.limits.bytes >> 20;
            return Err(refuse(
                format!("the configuration exceeds {megabytes} megabytes"),
                None,
            ));
        }
        if !self.sources.iter().any(|source| source.path == path) {
            self.sources.push(Source {
                path: path.to_owned(),
                text: bytes.clone(),
            });
        }
        Ok(Rc::new(Text {
            path: Some(path.to_owned()),
            bytes,
        }))
    }

    fn whole_text(&mut self, text: Rc<Text>, context: Contexts) -> Result<(), Stop> {
        self.files.push(Rc::clone(&text));
        let origin = match text.path {
            Some(_) => TextOrigin::File,
            None => TextOrigin::CommandLine,
        };
        let mut lexer = Lexer::new(&text.bytes, origin);
        self.statements(&text, &mut lexer, context, Run::Whole)?;
        self.files.pop();
        Ok(())
    }

    /// Reads statements until the text or the block is over.
    fn statements(
        &mut self,
        text: &Text,
        lexer: &mut Lexer<'_>,
        context: Contexts,
        run: Run,
    ) -> Result<(), Stop> {
        loop {
            let item = lexer.next_item().map_err(|error| text.lex_error(error))?;
            match (item, run) {
                (Item::End, Run::Whole) | (Item::BlockEnd, Run::Block) => return Ok(()),
                (Item::End, Run::Block) => {
                    return Err(text.at_lexer(lexer, "unexpected end of file, expecting \"}\""));
                }
                (Item::BlockEnd, Run::Whole) => {
                    return Err(text.at_lexer(lexer, "unexpected \"}\""));
                }
                (Item::BlockStart(_), _) if text.path.is_none() => {
                    let message = "block directives are not supported in -g option";
                    return Err(text.at_lexer(lexer, message));
                }
                // The context 0 is a list, such as `types`.
                (Item::BlockStart(_), _) if context == 0 => {
                    return Err(text.at_lexer(lexer, "unexpected \"{\""));
                }
                (Item::Simple(words), _) if context == 0 => {
                    self.list_line(text, lexer, &words)?;
                }
                (Item::Simple(words), _) => self.statement(text, lexer, context, &words, false)?,
                (Item::BlockStart(words), _) => {
                    self.statement(text, lexer, context, &words, true)?;
                }
            }
        }
    }

    /// Carries out one directive.
    fn statement(
        &mut self,
        text: &Text,
        lexer: &mut Lexer<'_>,
        context: Contexts,
        words: &[Word],
        opens: bool,
    ) -> Result<(), Stop> {
        let line = lexer.line();
        let call_place = |fault: Fault| text.fault(fault, words, line, &[]);
        let row = match find(words, context, opens) {
            Ok(row) => row,
            Err(fault) => {
                let kind = RefusalKind::unfound(&words[0].bytes, context);
                return self.pass_over(text, lexer, words, (opens, kind), fault);
            }
        };
        let call = Call {
            row,
            words,
            origin: text.origin(line),
        };
        self.build.place = Some(text.place(words[0].at, line));
        if row.name == "include" {
            self.build.met.works(row);
            return self.include(text, line, context, &call);
        }
        if let Err(fault) = self.carry_out(&call) {
            self.build.opening = None;
            let kind = RefusalKind::of(row);
            return self.pass_over(text, lexer, words, (opens, kind), fault);
        }
        let Some(opening) = self.build.opening.take() else {
            return Ok(());
        };
        self.block_count += 1;
        if self.block_count > self.limits.blocks {
            return Err(call_place(Fault::new("too many blocks")));
        }
        self.block_depth += 1;
        if self.block_depth > self.limits.block_depth {
            return Err(call_place(Fault::new("too deep nesting of blocks")));
        }
        let merge: Option<fn(&mut Build<'_>) -> Vec<Fault>> = match opening {
            Opening::Http => Some(merge::http),
            Opening::Stream => Some(merge::stream),
            Opening::Mail => Some(merge::mail),
            _ => None,
        };
        let is_server = matches!(opening, Opening::Server);
        self.opened = row.name;
        let inner = self.build.open(opening, call.origin.clone());
        self.statements(text, lexer, inner, Run::Block)?;
        let end_line = lexer.line();
        self.build.place = Some(text.place(words[0].at, end_line));
        let mut ended = Ok(());
        if is_server {
            ended = listen::default_listen(&mut self.build, text.origin(end_line));
        }
        if inner == directives::UPSTREAM || inner == directives::STREAM_UPSTREAM {
            ended = directives::end_upstream(&mut self.build);
        } else if inner == directives::ACME_ISSUER {
            ended = directives::end_acme_issuer(&mut self.build);
        } else if inner == directives::PROCESS {
            ended = directives::end_process(&mut self.build);
        }
        ended = ended.and(self.build.close(inner));
        let mut faults: Vec<Fault> = ended.err().into_iter().collect();
        if let Some(merge) = merge {
            faults = merge(&mut self.build);
        }
        for fault in faults {
            let kind = fault.kind.unwrap_or(RefusalKind::Wrong);
            let stop = text.fault(fault, words, end_line, &self.sources);
            self.note(stop, kind, row.name, false)?;
        }
        self.block_depth -= 1;
        Ok(())
    }

    /// A directive that cannot be carried out: the end of the reading, or a note.
    fn pass_over(
        &mut self,
        text: &Text,
        lexer: &mut Lexer<'_>,
        words: &[Word],
        (opens, kind): (bool, RefusalKind),
        fault: Fault,
    ) -> Result<(), Stop> {
        let kind = fault.kind.unwrap_or(kind);
        let stop = text.fault(fault, words, lexer.line(), &[]);
        self.note(stop, kind, &shown(&words[0].bytes), opens)?;
        self.define_all_in(words);
        self.stand_in_for(&words[0].bytes);
        match opens {
            true => self.skip_block(text, lexer, &words[0].bytes),
            false => Ok(()),
        }
    }

    /// Notes a fault, or returns it when there are no notes, or enough.
    fn note(
        &mut self,
        stop: Stop,
        kind: RefusalKind,
        name: &str,
        skipped_block: bool,
    ) -> Result<(), Stop> {
        let Some(notes) = self.notes.as_mut() else {
            return Err(stop);
        };
        notes.refusals.push(Refusal {
            kind,
            name: name.to_owned(),
            diagnostic: *stop,
            skipped_block,
        });
        self.enough()
    }

    /// Notes an include that cannot be read, or returns what is wrong with it.
    fn note_unread(&mut self, stop: Stop) -> Result<(), Stop> {
        let Some(notes) = self.notes.as_mut() else {
            return Err(stop);
        };
        notes.unread.push(*stop);
        self.enough()
    }

    fn enough(&self) -> Result<(), Stop> {
        match self.notes.as_ref().is_some_and(Notes::is_full) {
            true => {
                let message = format!("more than {} errors; the rest was not read", Notes::MOST);
                Err(Text::emerg(message, self.build.place.clone(), None))
            }
            false => Ok(()),
        }
    }

    fn carry_out(&mut self, call: &Call<'_>) -> Result<(), Fault> {
        let row = call.row;
        if call.count() == 1
            && row
                .inert
                .iter()
                .any(|inert| inert.as_bytes() == call.arg(1))
        {
            self.build.met.works(row);
            return Ok(());
        }
        match row.support {
            Support::Implemented(set) | Support::Block(set) => {
                let set: Setter = set.0;
                set(&mut self.build, call)?;
                self.build.met.works(row);
                Ok(())
            }
            Support::Meaningless(check, why) => {
                self.check_only(call, check)?;
                let why = || why.to_owned();
                self.build
                    .met
                    .is_idle(row, IdleReason::Meaningless, why, &call.origin);
                Ok(())
            }
            Support::Obsolete(instead) => {
                let advice = match instead {
                    Some(instead) => format!("use the \"{instead}\" directive instead"),
                    None => "ignored".into(),
                };
                let name = row.name;
                self.build
                    .warn(format!("the \"{name}\" directive is obsolete, {advice}"));
                let why = || format!("nginx has removed it; {advice}");
                self.build
                    .met
                    .is_idle(row, IdleReason::Obsolete, why, &call.origin);
                Ok(())
            }
            Support::Later(check, missing) => {
                self.check_only(call, check)?;
                self.build.has_no_effect(call, missing);
                Ok(())
            }
            Support::Unsupported(why) => Err(call.refuse("is not supported").help(why)),
        }
    }

    fn check_only(&mut self, call: &Call<'_>, check: directives::Check) -> Result<(), Fault> {
        match check {
            directives::Check::Any => {}
            directives::Check::By(set) => return (set.0)(&mut self.build, call),
            _ if self.build.first_here(call.row.name) => {}
            _ => return Err(call.refuse("is duplicate")),
        }
        call.check(check)
    }

    fn include(
        &mut self,
        text: &Text,
        line: u32,
        context: Contexts,
        call: &Call<'_>,
    ) -> Result<(), Stop> {
        let place = text.place(call.words[0].at, line);
        let path = self.build.options.beside_conf(call.path(1));
        if !path
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| matches!(byte, b'*' | b'?' | b'['))
        {
            return self.included(&path, context, place);
        }
        let Some(pattern) = path.to_str() else {
            return Err(text.fault(call.invalid(1), call.words, line, &[]));
        };
        let files = match self.build.loader.glob(pattern) {
            Ok(files) => files,
            Err(error) => {
                let message = format!("glob() \"{pattern}\" failed ({})", errno_text(&error));
                let stop = text.fault(Fault::at(1, message), call.words, line, &[]);
                return self.note_unread(stop);
            }
        };
        for file in files {
            self.included(&file, context, place.clone())?;
        }
        Ok(())
    }

    /// One line of a list, such as a `types` block.
    fn list_line(&mut self, text: &Text, lexer: &Lexer<'_>, words: &[Word]) -> Result<(), Stop> {
        let line = lexer.line();
        self.build.place = Some(text.place(words[0].at, line));
        let may_include = words.len() == 2 || self.build.in_types();
        if words[0].bytes == b"include" && self.build.list_includes() && may_include {
            if words.len() != 2 {
                let fault = Fault::new("invalid number of arguments in \"include\" directive");
                return Err(text.fault(fault, words, line, &[]));
            }
            let row = directives::named(b"include")
                .first()
                .expect("the table has a row for include");
            let call = Call {
                row,
                words,
                origin: text.origin(line),
            };
            return self.include(text, line, 0, &call);
        }
        match self.build.list_line(words, &text.origin(line)) {
            Ok(()) => Ok(()),
            Err(fault) => {
                let stop = text.fault(fault, words, line, &[]);
                self.note(stop, RefusalKind::Wrong, self.opened, false)
            }
        }
    }
}

/// The row for a directive, with nginx's complaints in nginx's order.
fn find(words: &[Word], context: Contexts, opens: bool) -> Result<&'static Row, Fault> {
    let name = &words[0].bytes;
    let mut known = None;
    for row in directives::named(name) {
        known = Some(row.name);
        if row.contexts & context == 0 {
            continue;
        }
        let name = row.name;
        if opens && !row.support.is_block() {
            return Err(Fault::new(format!(
                "directive \"{name}\" is not terminated by \";\""
            )));
        }
        if !opens && row.support.is_block() {
            return Err(Fault::new(format!(
                "directive \"{name}\" has no opening \"{{\""
            )));
        }
        if !row.arity.allows(words.len() - 1) {
            let message = format!("invalid number of arguments in \"{name}\" directive");
            return Err(Fault::new(message));
        }
        return Ok(row);
    }
    match known {
        Some(name) => {
            let fault = Fault::new(format!("\"{name}\" directive is not allowed here"));
            Err(fault.help(format!("it is allowed in: {}", contexts_of(name, context))))
        }
        None => {
            if let Some(elsewhere) = directives::owner(name) {
                let (name, module) = (shown(name), elsewhere.module);
                let fault =
                    format!("\"{name}\" directive is not supported, it belongs to {module}");
                let is_off = matches!(words, [_, word] if word.bytes == b"off");
                let help = match is_off {
                    true => "remove the line: there is nothing to disable",
                    false => elsewhere.instead,
                };
                return Err(Fault::new(fault).help(help));
            }
            let mut fault = Fault::new(format!("unknown directive \"{}\"", shown(name)));
            if name.contains(&b'=') {
                fault = fault.help("a value that contains \";\" must be in quotation marks");
            } else if let Some(near) = directives::nearest(name, context) {
                fault = fault.help(format!("did you mean \"{near}\"?"));
            }
            Err(fault)
        }
    }
}

/// The contexts of all rows of that name, as the manual names them; in `stream` and `mail`, which
/// have blocks of the same names, those of `http` say so.
fn contexts_of(name: &str, context: Contexts) -> String {
    let is_outside_http = context & OUTSIDE_HTTP != 0;
    let all = directives::named(name.as_bytes())
        .iter()
        .fold(0, |all, row| all | row.contexts);
    let names = directives::CONTEXT_NAMES
        .iter()
        .filter(|(context, _)| all & context != 0);
    let names = names.map(|(context, name)| match *context {
        directives::SERVER if is_outside_http => "server in http",
        directives::UPSTREAM if is_outside_http => "upstream in http",
        _ => name,
    });
    names.collect::<Vec<_>>().join(", ")
}

/// Where `server` and `upstream` are not those of `http`.
const OUTSIDE_HTTP: Contexts =
    directives::STREAM_LEVELS | directives::STREAM_UPSTREAM | directives::MAIL_LEVELS;

/// `2: No such file or directory`, as nginx prints errors of the system.
pub(crate) fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        // The standard library adds the number at the end.
        Some(code) => {
            let text = text
                .strip_suffix(&format!(" (os error {code})"))
                .unwrap_or(&text);
            format!("{code}: {text}")
        }
        None if error.kind() == io::ErrorKind::NotFound => "2: No such file or directory".into(),
        None => text,
    }
}

impl Text {
    fn origin(&self, line: u32) -> Origin {
        Origin {
            file: self.path.clone().unwrap_or_default(),
            line,
        }
    }

    /// A place in this text: the line that nginx names, and the byte to
    /// point at. Of a very long line, only the part around it is kept.
    fn place(&self, at: usize, line: u32) -> SourceLocation {
        const AROUND_BYTES: usize = 512;
        let at = at.min(self.bytes.len());
        let before = &self.bytes[at.saturating_sub(AROUND_BYTES)..at];
        let after = &self.bytes[at..self.bytes.len().min(at + AROUND_BYTES)];
        let start = match memchr::memrchr(b'\n', before) {
            Some(newline) => newline + 1,
            // Not from within a word: its beginning tells what is secret in it.
            None if at > AROUND_BYTES => memchr::memchr(b' ', before).unwrap_or(before.len()),
            None => 0,
        };
        let end = memchr::memchr(b'\n', after).unwrap_or(after.len());
        // Invalid UTF-8 changes its length when it is made printable.
        let before = String::from_utf8_lossy(&before[start..]);
        let column = u32::try_from(before.len() + 1).unwrap_or(u32::MAX);
        let source_line = format!("{before}{}", String::from_utf8_lossy(&after[..end]));
        let source_line = source_line.trim_end().to_owned();
        SourceLocation {
            file: self.path.clone(),
            line,
            column,
            source_line,
        }
    }

    fn emerg(message: String, place: Option<SourceLocation>, help: Option<String>) -> Stop {
        Box::new(Diagnostic {
            level: LogLevel::Emerg,
            message,
            place,
            help,
        })
    }

    fn fault(&self, fault: Fault, words: &[Word], line: u32, sources: &[Source]) -> Stop {
        let place = match fault.place {
            FaultPlace::Word(index) => {
                let word = words.get(index).or(words.first());
                Some(self.place(word.map_or(0, |word| word.at), line))
            }
            FaultPlace::Origin(origin) => Some(SourceLocation::of_line(origin, sources)),
            FaultPlace::Nowhere => None,
        };
        Text::emerg(fault.message, place, fault.help)
    }

    fn lex_error(&self, error: LexError) -> Stop {
        Text::emerg(error.message, Some(self.place(error.at, error.line)), None)
    }

    fn at_lexer(&self, lexer: &Lexer<'_>, message: &str) -> Stop {
        let place = self.place(lexer.last_at(), lexer.line());
        Text::emerg(message.to_owned(), Some(place), None)
    }
}

/// A path made of bytes of the configuration.
pub(crate) fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

mod skipping;
#[cfg(test)]
mod tests;
