//! Blocks that hold lists instead of directives: `map`, `geo`, `split_clients`.

use crate::build::Build;
use crate::call::Fault;
use crate::lexer::Word;
use crate::model::Origin;

/// A block of lines that it reads itself.
pub(crate) trait ListBlock {
    /// One line; all its words are arguments.
    fn line(&mut self, b: &mut Build<'_>, words: &[Word], origin: &Origin) -> Result<(), Fault>;

    /// Whether `include FILE` among the lines reads further lines.
    fn includes(&self) -> bool;

    /// The block is over.
    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault>;
}
