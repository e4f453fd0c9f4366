//! Files that several requests of one turn of the event loop ask for, without `open_file_cache`.
//!
//! The requests of a turn were all there before the first of them was answered, so whatever
//! happens to a file meanwhile, none of them can have been sent after it. They may get the same
//! answer, and under load a file is then opened, examined and read once for many requests, with
//! nothing kept for the next turn.

use sealane_io::open_file::{Errno, Opened, Read};
use sealane_io::runtime;

/// Paths remembered in a turn, and so descriptors held beyond their requests.
const MAX_PATHS: usize = 16;
/// Files up to this size are kept as bytes from the second request on: one record of TLS.
const MAX_CONTENT_BYTES: u64 = 16 << 10;

/// What the requests of this turn have asked for.
#[derive(Default)]
pub(super) struct SameTurn {
    turn: u64,
    known: Vec<Known>,
}

struct Known {
    path: Box<[u8]>,
    answer: Result<Opened, Errno>,
}

impl SameTurn {
    /// The answer that another request of this turn has got.
    pub(super) fn lookup(&mut self, path: &[u8]) -> Option<Result<Opened, Errno>> {
        self.forget_others();
        let known = self.known.iter_mut().find(|known| *known.path == *path)?;
        if let Ok(Opened::File(file, content @ None)) = &mut known.answer
            && (1..=MAX_CONTENT_BYTES).contains(&file.size())
            && let Read::Done(bytes) = file.read_stable()
        {
            *content = Some(bytes);
        }
        Some(known.answer.clone())
    }

    /// Remembers an answer, if there may be others in this turn who want it.
    pub(super) fn store(&mut self, path: &[u8], answer: &Result<Opened, Errno>) {
        self.forget_others();
        if self.known.len() < MAX_PATHS && runtime::has_more() {
            self.known.push(Known {
                path: path.into(),
                answer: answer.clone(),
            });
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    /// Forgets what was asked for in other turns.
    fn forget_others(&mut self) {
        let turn = runtime::turn();
        if self.turn != turn {
            self.turn = turn;
            self.known.clear();
        }
    }
}
