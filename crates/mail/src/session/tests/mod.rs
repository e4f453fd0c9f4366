mod limits;
mod logins;
mod starttls;
mod tokens;

use super::*;
use crate::limits::MAX_ERRORS;

/// A session and everything that it has said.
struct Played {
    session: Session,
    /// What was sent to the client.
    sent: Vec<u8>,
    notes: Vec<Note>,
    /// The event that was not [`Event::Send`] or [`Event::Note`], if there was one.
    last: Option<Event>,
}

impl Played {
    fn new(settings: Settings) -> Played {
        let seed = SaltSeed {
            random: 4711,
            unix_seconds: 1_800_000_000,
        };
        let mut played = Played {
            session: Session::new(Arc::new(settings), false, seed),
            sent: Vec::new(),
            notes: Vec::new(),
            last: None,
        };
        played.run();
        played
    }

    /// The client sends something; what it gets for it.
    fn client(&mut self, bytes: &[u8]) -> String {
        let before = self.sent.len();
        let mut rest = bytes;
        loop {
            rest = &rest[self.session.receive(rest)..];
            self.run();
            if rest.is_empty() || self.session.room() == 0 {
                break;
            }
        }
        String::from_utf8_lossy(&self.sent[before..]).into_owned()
    }

    fn run(&mut self) {
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Note(note) => self.notes.push(note),
                Event::Send(bytes) => self.sent.extend(bytes),
                Event::Close(bytes) => {
                    self.sent.extend(&bytes);
                    self.last = Some(Event::Close(bytes));
                }
                Event::StartTls(bytes) => {
                    self.sent.extend(&bytes);
                    self.last = Some(Event::StartTls(bytes));
                }
                Event::Authenticate => self.last = Some(Event::Authenticate),
            }
        }
    }

    fn refuse(&mut self, refusal: &Refusal) -> String {
        let before = self.sent.len();
        self.session.refuse(refusal);
        self.run();
        String::from_utf8_lossy(&self.sent[before..]).into_owned()
    }

    fn is_closed(&self) -> bool {
        matches!(self.last, Some(Event::Close(_)))
    }

    fn attempt(&self) -> &LoginAttempt {
        self.session.attempt().expect("the client wants to log in")
    }
}

fn settings(protocol: Protocol) -> Settings {
    Settings::new(protocol, "mail.example.org")
}

fn refusal(wait_seconds: u64) -> Refusal {
    Refusal {
        message: b"go away".to_vec(),
        code: None,
        sasl_error: None,
        wait_seconds,
    }
}

fn password(attempt: &LoginAttempt) -> Option<&[u8]> {
    attempt.password.as_ref().map(Secret::as_bytes)
}
