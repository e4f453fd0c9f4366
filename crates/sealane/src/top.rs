//! `sealane top`: a running server in a terminal, while it works.
//!
//! One thread asks the server ([`crate::running`]), so that a slow answer delays no key. This one
//! draws what has come.
//!
//! | file | what |
//! |---|---|
//! | `screen.rs` | what is shown, and what keys do |
//! | `overview.rs`, `history.rs` | the first view: problems and graphs |
//! | `tls.rs` | the view of TLS |
//! | `table.rs`, `lists.rs` | the views that are tables, and what is in them |

mod history;
mod lists;
mod overview;
mod screen;
mod table;
mod tls;

use crate::running::answer::Answer;
use crate::running::{Running, Target, answer_with};
use clap::{CommandFactory, Parser};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use screen::Screen;
use sealane_log::OsError;
use sealane_sys::poll;
use sealane_sys::signal::{Signal, SignalQueue};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long a key may have to wait.
const POLL: Duration = Duration::from_millis(100);

#[derive(Parser)]
#[command(
    name = "sealane top",
    bin_name = "sealane top",
    about = "Shows a running server in the terminal, while it works",
    after_help = "Exit status: 0, or 1 if the server could not be asked at the start.\nWithout a \
                  terminal use sealane status."
)]
struct Request {
    #[command(flatten)]
    target: Target,
    /// Seconds between two looks at the server
    #[arg(short = 'd', long, value_name = "seconds", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=3600))]
    delay: u16,
}

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    Request::command()
}

/// Does what the command line asks for; `arguments` begin with `top`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    answer_with(arguments, |request: &Request| {
        watch(request)?;
        Ok((Vec::new(), ExitCode::SUCCESS))
    })
}

fn watch(request: &Request) -> Result<(), String> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err("this is no terminal: use \"sealane status\"".to_owned());
    }
    let running = request.target.find()?;
    // A server that cannot be asked is told before the screen is taken.
    let first = running.ask()?;
    let mut screen = Screen::new(Duration::from_secs(request.delay.into()));
    screen.take(Ok(first), Duration::ZERO);
    let failed = |error: io::Error| format!("the terminal cannot be used ({})", OsError(&error));
    // Whatever ends this, the terminal is given back. HUP says that it has gone: there is nothing
    // to give back, and the process simply ends.
    let signals = SignalQueue::open(&[Signal::Term, Signal::Int, Signal::Quit]);
    let signals = signals.map_err(failed)?;
    let asker = Asker::start(running)?;
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let result = follow(&mut terminal, &mut screen, &asker, &signals);
    ratatui::restore();
    result.map_err(failed)
}

/// Draws, and does what keys ask for, until one of them or a signal ends it.
fn follow(
    terminal: &mut DefaultTerminal,
    screen: &mut Screen,
    asker: &Asker,
    signals: &SignalQueue,
) -> io::Result<()> {
    let mut asked = Instant::now();
    let mut answered = Instant::now();
    let mut is_asking = false;
    let mut is_outdated = true;
    let keyboard = io::stdin();
    while !screen.is_over() && signals.next()?.is_none() {
        if is_outdated {
            terminal.draw(|frame| screen.draw(frame))?;
            is_outdated = false;
        }
        poll::wait_readable(&[keyboard.as_fd(), signals.as_fd()], Some(POLL))?;
        // A terminal that was closed is none any more, and crossterm would read from it for ever.
        if !keyboard.is_terminal() {
            break;
        }
        while event::poll(Duration::ZERO)? {
            is_outdated = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => screen.press(key),
                _ => {} // of another size
            }
        }
        if let Ok(answer) = asker.answers.try_recv() {
            if answer.is_ok() {
                screen.take(answer, answered.elapsed());
                answered = Instant::now();
            } else {
                screen.take(answer, Duration::ZERO);
            }
            (is_asking, is_outdated) = (false, true);
        }
        if !is_asking && screen.wants_answer(asked.elapsed()) {
            is_asking = asker.questions.send(()).is_ok();
            asked = Instant::now();
        }
    }
    Ok(())
}

/// The thread that asks the server.
struct Asker {
    questions: Sender<()>,
    answers: Receiver<Result<Answer, String>>,
}

impl Asker {
    fn start(running: Running) -> Result<Asker, String> {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        std::thread::Builder::new()
            .name("asker".to_owned())
            .spawn(move || {
                // Both end when the screen is given back.
                while asked.recv().is_ok() && answer.send(running.ask()).is_ok() {}
            })
            .map_err(|error| format!("cannot start a thread ({})", OsError(&error)))?;
        Ok(Asker { questions, answers })
    }
}
