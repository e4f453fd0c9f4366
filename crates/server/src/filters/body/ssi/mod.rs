//! `ssi`: server-side includes. Text passes through as it arrives; a command is carried out where
//! it occurs, and what it includes takes its place.
//!
//! ```text
//! body -> parser -> commands -> queue of texts and answers -> client
//! ```
//!
//! A subrequest begins when its command is parsed, so several are in progress at once. The queue
//! is bounded; the includes of a queued response begin when it is that response's turn.

mod commands;
mod parser;
mod values;

use super::head;
use super::input::Input;
use crate::body_source::{BodySource, Filled, PendingBody, SourceError};
use crate::exchange::{Exchange, Response};
use crate::request_log::log_request;
use crate::subrequest::IncludedAnswer;
use bytes::Bytes;
use parser::{OPENING, Parser, SsiToken};
use sealane_conf::model::Ssi as Settings;
use sealane_http::headers::HeaderList;
use sealane_io::chain::{OutputChain, Segment};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
pub(crate) use values::SharedIncludes;

/// What a request keeps for server-side includes.
#[derive(Default)]
pub(crate) struct SsiState {
    /// Shared by the page and those that it includes.
    shared: Option<Arc<Mutex<SharedIncludes>>>,
    /// Format of `$date_local` and `$date_gmt`, once a page has set it.
    pub(crate) time_format: Option<Box<[u8]>>,
}

impl SsiState {
    /// An included page shares the variables and blocks of the page that includes it.
    pub(crate) fn of_subrequest(main: &Exchange) -> SsiState {
        SsiState {
            shared: main.features.ssi.shared.clone(),
            time_format: None,
        }
    }
}

/// Applies to responses of one of the types.
pub(super) fn apply(exchange: &mut Exchange, settings: &Arc<Settings>) {
    let response = &exchange.response;
    if response.content_length == Some(0) || !head::is_of(response, &settings.types) {
        return;
    }
    let is_main = !exchange.request.is_subrequest;
    exchange.response.content_length = None;
    if is_main {
        head::forget_length(&mut exchange.response);
        if settings.last_modified {
            head::weaken_etag(exchange);
        } else {
            head::clear_validators(&mut exchange.response);
        }
    }
    exchange.features.ssi.shared.get_or_insert_default();
    let input = Input::of(&mut exchange.response);
    let depth = exchange.features.subrequest.depth;
    exchange.response.source = Some(PendingBody::new(Ssi::new(settings, input, depth)));
}

/// Texts and responses that may wait in the queue.
const MAX_QUEUED: usize = 32;

/// Bytes of text that may wait in the queue.
const MAX_QUEUED_BYTES: usize = 64 << 10;

/// Text that is read, and responses that turn out empty, before other tasks run.
const TURN_BYTES: usize = 256 << 10;
const TURN_ANSWERS: u32 = 16;

struct Ssi {
    settings: Arc<Settings>,
    input: Input,
    input_ended: bool,
    parser: Parser,
    piece: Bytes,
    /// Where in the piece the parser is.
    at: usize,
    page: PageState,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    /// Parsing waits until the last entry of the queue is over.
    waits: bool,
    /// Responses of this turn that were empty.
    empty_answers: u32,
    /// Something was sent.
    has_begun: bool,
}

/// The state that commands change.
struct PageState {
    /// How many subrequests it is nested in.
    depth: u8,
    /// The text is sent, and commands are carried out.
    is_shown: bool,
    /// A branch of the `if` was taken.
    is_chosen: bool,
    conditional: Conditional,
    /// The text goes to the newest block.
    in_block: bool,
    encoding: Encoding,
    error_message: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Conditional {
    No,
    If,
    Else,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    None,
    Url,
    Entity,
}

/// An entry of the queue.
enum Queued {
    Text(Bytes),
    Answer(Box<Included>),
}

/// A response, and its purpose.
struct Included {
    answer: IncludedAnswer,
    purpose: Purpose,
    /// Something of it was sent.
    any: bool,
}

enum Purpose {
    Show,
    /// The block is shown if the response is empty.
    Stub(Bytes),
    /// It becomes a variable.
    Set(Box<Setting>),
}

/// A variable that is being set.
struct Setting {
    name: Vec<u8>,
    /// The part of the response that has arrived.
    chain: OutputChain,
    /// All of it, being read.
    reading: Option<Input>,
    text: Vec<u8>,
}

/// Logs what is wrong with a command, with the current action as in nginx.
fn complain(exchange: &Exchange, message: fmt::Arguments<'_>) {
    let reading = match exchange.response.from_upstream {
        true => " while reading upstream",
        false => "", // every line says it
    };
    log_request!(exchange, Error, "{message}{reading}");
}

impl Ssi {
    fn new(settings: &Arc<Settings>, input: Input, depth: u8) -> Ssi {
        Ssi {
            settings: Arc::clone(settings),
            input,
            input_ended: false,
            parser: Parser::new(settings.value_bytes as usize),
            piece: Bytes::new(),
            at: 0,
            page: PageState {
                depth,
                is_shown: true,
                is_chosen: false,
                conditional: Conditional::No,
                in_block: false,
                encoding: Encoding::Entity,
                error_message: b"[an error occurred while processing the directive]".to_vec(),
            },
            queue: VecDeque::new(),
            queued_bytes: 0,
            waits: false,
            empty_answers: 0,
            has_begun: false,
        }
    }

    fn push(&mut self, text: Bytes) {
        if !text.is_empty() {
            self.queued_bytes += text.len();
            self.queue.push_back(Queued::Text(text));
        }
    }

    /// Whether more may be queued. What is to be sent next is always read.
    fn may_parse(&self, exchange: &Exchange) -> bool {
        let tally = exchange.features.tally.get();
        let may_begin = self.queue.is_empty() || tally.is_none_or(|tally| tally.may_begin_ahead());
        !self.waits
            && may_begin
            && self.queue.len() < MAX_QUEUED
            && self.queued_bytes < MAX_QUEUED_BYTES
    }

    /// Parses until enough is queued. Pending if more text has to arrive first.
    fn poll_parse(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
    ) -> Poll<Result<(), SourceError>> {
        let mut read_bytes = 0;
        while self.may_parse(exchange) {
            if self.at == self.piece.len() {
                if self.input_ended {
                    break;
                }
                if read_bytes > TURN_BYTES {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                match ready!(self.input.poll_piece(cx, exchange))? {
                    Some(piece) => {
                        read_bytes += piece.len();
                        (self.piece, self.at) = (piece, 0);
                    }
                    None => self.input_ended = true,
                }
                continue;
            }
            let mut complain = |message: fmt::Arguments<'_>| complain(exchange, message);
            let (at, event) = self.parser.next(&self.piece, self.at, &mut complain);
            self.at = at;
            match event {
                None => {}
                Some(SsiToken::Text { held, from, to }) => self.text(exchange, held, from, to),
                Some(SsiToken::Broken) => self.say_error(),
                Some(SsiToken::Command(command)) => {
                    match self.page.run(exchange, &command) {
                        Ok(Some((Queued::Text(text), _))) => self.push(text),
                        Ok(Some((item, waits))) => {
                            self.queue.push_back(item);
                            self.waits = waits;
                        }
                        Ok(None) => {}
                        Err(commands::Failed::Command) => self.say_error(),
                    };
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn text(&mut self, exchange: &Exchange, held: usize, from: usize, to: usize) {
        let text = self.piece.slice(from..to);
        if self.page.is_shown {
            self.push(Bytes::from_static(&OPENING[..held]));
            self.push(text);
        } else if self.page.in_block {
            // If there is no room, that is logged; no part of a block is shown here.
            let _ = commands::keep(exchange, |shared| {
                shared.add_to_block(&OPENING[..held])?;
                shared.add_to_block(&text)
            });
        }
    }

    fn say_error(&mut self) {
        if !self.settings.silent_errors {
            self.push(Bytes::from(self.page.error_message.clone()));
        }
    }

    /// Sends the first entries of the queue. Ready with `End` when it is empty.
    fn poll_first(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        loop {
            match self.queue.front_mut() {
                None => return Poll::Ready(Ok(Filled::End)),
                Some(Queued::Text(_)) if max_bytes == 0 => return Poll::Pending,
                Some(Queued::Text(text)) => {
                    let take = (text.len() as u64).min(max_bytes) as usize;
                    out.push_bytes(text.split_to(take));
                    self.queued_bytes -= take;
                    if text.is_empty() {
                        self.queue.pop_front();
                    }
                    return Poll::Ready(Ok(Filled::More));
                }
                Some(Queued::Answer(included)) => {
                    let before_bytes = out.len();
                    let filled = ready!(included.poll_fill(cx, exchange, out, max_bytes))?;
                    if filled == Filled::More {
                        return Poll::Ready(Ok(Filled::More));
                    }
                    self.queue.pop_front();
                    self.waits &= !self.queue.is_empty();
                    if out.len() > before_bytes {
                        return Poll::Ready(Ok(Filled::More));
                    }
                    self.empty_answers += 1;
                    if self.empty_answers == TURN_ANSWERS {
                        self.empty_answers = 0;
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Included {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        main: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        if let Purpose::Set(setting) = &mut self.purpose {
            ready!(setting.poll(cx, main, &mut self.answer))?;
            return Poll::Ready(Ok(Filled::End));
        }
        let mut piece = OutputChain::new();
        let filled = self.answer.poll_fill(cx, main, &mut piece, max_bytes);
        self.any |= !piece.is_empty();
        out.append(piece);
        let filled = ready!(filled)?;
        if filled == Filled::End
            && !self.any
            && let Purpose::Stub(block) = &self.purpose
        {
            // The response is empty; as in nginx, commands in the block are not carried out.
            out.push_bytes(block.clone());
        }
        Poll::Ready(Ok(filled))
    }
}

impl Setting {
    /// Collects the response, whatever the client takes meanwhile.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        main: &mut Exchange,
        answer: &mut IncludedAnswer,
    ) -> Poll<Result<(), SourceError>> {
        while self.reading.is_none() {
            ready!(answer.poll_head(cx));
            let max_bytes = answer.max_kept_bytes();
            let mut piece = OutputChain::new();
            let filled = ready!(answer.poll_fill(cx, main, &mut piece, max_bytes))?;
            // A source without buffers reads on when its last piece has been freed.
            for segment in piece.segments() {
                self.chain.push(match segment {
                    Segment::Memory(bytes) => Segment::Memory(Bytes::copy_from_slice(bytes)),
                    Segment::File(_) => segment.clone(),
                });
            }
            let bytes = self.chain.len();
            if bytes > max_bytes {
                log_request!(main, Error, "too big subrequest response: {bytes}");
                return Poll::Ready(Err(SourceError));
            }
            if filled == Filled::End {
                let mut response = Response::new();
                response.body = std::mem::take(&mut self.chain);
                self.reading = Some(Input::of(&mut response));
            }
        }
        while let Some(input) = &mut self.reading
            && let Some(piece) = ready!(input.poll_piece(cx, main))?
        {
            self.text.extend_from_slice(&piece);
        }
        let text = std::mem::take(&mut self.text);
        let is_usual = answer.succeeded() && !text.is_empty();
        // If there is no room, the variable keeps its value, and that is logged.
        let _ = commands::keep(main, |shared| {
            shared.set_from(&self.name, is_usual.then_some(text))
        });
        Poll::Ready(Ok(()))
    }
}

impl BodySource for Ssi {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange,
        out: &mut OutputChain,
        max_bytes: u64,
    ) -> Poll<Result<Filled, SourceError>> {
        let before_bytes = out.len();
        loop {
            let parsed = self.poll_parse(cx, exchange);
            if let Poll::Ready(Err(error)) = parsed {
                return Poll::Ready(Err(error));
            }
            // Subrequests that are not next yet already work on their heads, in their order.
            for item in &mut self.queue {
                if let Queued::Answer(included) = item {
                    let _ = included.answer.poll_head(cx);
                }
            }
            let filled = ready!(self.poll_first(cx, exchange, out, max_bytes))?;
            if filled == Filled::More || out.len() > before_bytes {
                self.has_begun = true;
                return Poll::Ready(Ok(Filled::More));
            }
            let is_over = self.input_ended && self.at == self.piece.len();
            match parsed {
                _ if is_over && self.queue.is_empty() => return Poll::Ready(Ok(Filled::End)),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(_) => {}
            }
        }
    }

    fn is_prompt(&self) -> bool {
        let is_first_prompt = || match self.queue.front() {
            Some(Queued::Answer(included)) => included.answer.is_prompt(),
            _ => false,
        };
        self.input.is_prompt() || is_first_prompt()
    }

    /// A page that begins with a variable begins when that is set: the response that it comes from
    /// may turn out too long.
    fn holds_head(&self) -> bool {
        let waits = || match self.queue.front() {
            Some(Queued::Answer(included)) => matches!(included.purpose, Purpose::Set(_)),
            Some(Queued::Text(_)) => false,
            None => !self.input.is_prompt(),
        };
        !self.has_begun && waits()
    }

    fn take_trailers(&mut self, exchange: &mut Exchange) -> HeaderList {
        self.input.take_trailers(exchange)
    }

    fn conclude(self: Box<Self>, exchange: &mut Exchange, completed: bool) {
        for item in self.queue {
            if let Queued::Answer(included) = item {
                included.answer.conclude(exchange);
            }
        }
        self.input.conclude(exchange, completed || self.input_ended);
    }
}
