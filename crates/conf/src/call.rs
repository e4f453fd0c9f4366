//! One directive as it was read, with the ways in which setters read its
//! arguments. The error messages are nginx's.

use crate::directives::{Check, Row};
use crate::lexer::Word;
use crate::model::Origin;
use crate::survey::RefusalKind;
use crate::values;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// A directive with its arguments.
pub(crate) struct Call<'a> {
    pub(crate) row: &'static Row,
    /// The name, then the arguments.
    pub(crate) words: &'a [Word],
    /// Its position according to nginx: the line of its end.
    pub(crate) origin: Origin,
}

/// What is wrong with a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) place: FaultPlace,
    /// What kind of thing is refused, where the directive's row does not tell.
    pub(crate) kind: Option<RefusalKind>,
}

/// Which place a [`Fault`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FaultPlace {
    /// The word with this index in the current directive.
    Word(usize),
    /// A line met earlier.
    Origin(Origin),
    /// The configuration as a whole.
    Nowhere,
}

impl Fault {
    /// About the directive, pointing at its name.
    pub(crate) fn new(message: impl Into<String>) -> Fault {
        Fault {
            message: message.into(),
            help: None,
            place: FaultPlace::Word(0),
            kind: None,
        }
    }

    /// About one of the words.
    pub(crate) fn at(word: usize, message: impl Into<String>) -> Fault {
        Fault {
            message: message.into(),
            help: None,
            place: FaultPlace::Word(word),
            kind: None,
        }
    }

    /// About the configuration as a whole.
    pub(crate) fn whole(message: impl Into<String>) -> Fault {
        Fault {
            message: message.into(),
            help: None,
            place: FaultPlace::Nowhere,
            kind: None,
        }
    }

    /// About a line met earlier.
    pub(crate) fn earlier(origin: &Origin, message: impl Into<String>) -> Fault {
        Fault {
            message: message.into(),
            help: None,
            place: FaultPlace::Origin(origin.clone()),
            kind: None,
        }
    }

    /// The same, about one of the words.
    pub(crate) fn at_word(mut self, word: usize) -> Fault {
        self.place = FaultPlace::Word(word);
        self
    }

    /// The same, about what nginx would take and is not supported yet.
    pub(crate) fn not_yet(mut self) -> Fault {
        self.kind = Some(RefusalKind::NotYet);
        self
    }

    /// The same, about what nginx would take and is left out.
    pub(crate) fn left_out(mut self) -> Fault {
        self.kind = Some(RefusalKind::Unsupported);
        self
    }

    /// With advice.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Fault {
        self.help = Some(help.into());
        self
    }
}

/// Bytes of the configuration for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl<'a> Call<'a> {
    /// Number of arguments, the name not counted.
    pub(crate) fn count(&self) -> usize {
        self.words.len() - 1
    }

    /// Argument `index`, from 1; empty when there is none.
    pub(crate) fn arg(&self, index: usize) -> &'a [u8] {
        self.words.get(index).map_or(&[], |word| &word.bytes)
    }

    /// The arguments with their indexes, from 1.
    pub(crate) fn args(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        self.words
            .iter()
            .enumerate()
            .skip(1)
            .map(|(index, word)| (index, word.bytes.as_slice()))
    }

    /// Argument `index` for a message.
    pub(crate) fn shown(&self, index: usize) -> String {
        shown(self.arg(index))
    }

    /// Argument `index` as text.
    pub(crate) fn text(&self, index: usize) -> Result<&'a str, Fault> {
        self.utf8(index, self.arg(index))
    }

    /// A part of argument `index` as text.
    pub(crate) fn utf8(&self, index: usize, part: &'a [u8]) -> Result<&'a str, Fault> {
        std::str::from_utf8(part).map_err(|_| {
            Fault::at(index, format!("invalid value \"{}\"", self.shown(index)))
                .help("the value is not valid UTF-8")
        })
    }

    /// The name in argument `index`, which must be a variable.
    pub(crate) fn variable_name(&self, index: usize) -> Result<&'a str, Fault> {
        let invalid = || {
            Fault::at(
                index,
                format!("invalid variable name \"{}\"", self.shown(index)),
            )
        };
        let name = self.text(index)?.strip_prefix('$').ok_or_else(invalid)?;
        // nginx checks only the name once the `$` is removed.
        match name.is_empty() {
            true => Err(Fault::at(index, "invalid variable name \"$\"")),
            false => Ok(name),
        }
    }

    /// Argument `index` as a path.
    pub(crate) fn path(&self, index: usize) -> &'a Path {
        Path::new(OsStr::from_bytes(self.arg(index)))
    }

    /// A complaint that nginx prints as `"NAME" directive WHAT`.
    pub(crate) fn refuse(&self, what: &str) -> Fault {
        Fault::new(format!("\"{}\" directive {what}", self.row.name))
    }

    /// The same, pointing at an argument.
    pub(crate) fn refuse_arg(&self, index: usize, what: &str) -> Fault {
        Fault::at(index, format!("\"{}\" directive {what}", self.row.name))
    }

    /// `invalid value "x"`, nginx's message for words from a list.
    pub(crate) fn invalid(&self, index: usize) -> Fault {
        Fault::at(index, format!("invalid value \"{}\"", self.shown(index)))
    }

    /// `invalid parameter "x"`.
    pub(crate) fn invalid_parameter(&self, index: usize) -> Fault {
        Fault::at(
            index,
            format!("invalid parameter \"{}\"", self.shown(index)),
        )
    }

    /// Fails if the setting was given on this level already.
    pub(crate) fn once<T>(&self, slot: &Option<T>) -> Result<(), Fault> {
        match slot {
            None => Ok(()),
            Some(_) => Err(self.refuse("is duplicate")),
        }
    }

    /// The first argument as `on` or `off`.
    pub(crate) fn on_off(&self) -> Result<bool, Fault> {
        match self.arg(1) {
            value if value.eq_ignore_ascii_case(b"on") => Ok(true),
            value if value.eq_ignore_ascii_case(b"off") => Ok(false),
            _ => Err(Fault::at(
                1,
                format!(
                    "invalid value \"{}\" in \"{}\" directive, it must be \"on\" or \"off\"",
                    self.shown(1),
                    self.row.name
                ),
            )),
        }
    }

    /// `on` or `off`.
    pub(crate) fn flag(&self, slot: &mut Option<bool>) -> Result<(), Fault> {
        self.once(slot)?;
        *slot = Some(self.on_off()?);
        Ok(())
    }

    /// A decimal number.
    pub(crate) fn number(&self, slot: &mut Option<u64>) -> Result<(), Fault> {
        self.once(slot)?;
        *slot =
            Some(values::number(self.arg(1)).ok_or_else(|| self.refuse_arg(1, "invalid number"))?);
        Ok(())
    }

    /// A size with `k` or `m`.
    pub(crate) fn size(&self, slot: &mut Option<u64>) -> Result<(), Fault> {
        self.parsed(slot, values::size)
    }

    /// A size with `k`, `m` or `g`.
    pub(crate) fn offset(&self, slot: &mut Option<u64>) -> Result<(), Fault> {
        self.parsed(slot, values::offset)
    }

    /// A time with milliseconds.
    pub(crate) fn time(&self, slot: &mut Option<Duration>) -> Result<(), Fault> {
        self.parsed(slot, values::time)
    }

    /// A time in seconds.
    pub(crate) fn seconds(&self, slot: &mut Option<Duration>) -> Result<(), Fault> {
        self.parsed(slot, values::seconds)
    }

    fn parsed<T>(&self, slot: &mut Option<T>, parse: fn(&[u8]) -> Option<T>) -> Result<(), Fault> {
        self.once(slot)?;
        *slot = Some(parse(self.arg(1)).ok_or_else(|| self.refuse_arg(1, "invalid value"))?);
        Ok(())
    }

    /// A number and a size, neither zero.
    pub(crate) fn buffers(&self, slot: &mut Option<(u32, u64)>) -> Result<(), Fault> {
        self.once(slot)?;
        let number = values::number(self.arg(1)).and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| *number > 0);
        let number = number.ok_or_else(|| self.refuse_arg(1, "invalid value"))?;
        let size = values::size(self.arg(2)).filter(|size| *size > 0);
        *slot = Some((
            number,
            size.ok_or_else(|| self.refuse_arg(2, "invalid value"))?,
        ));
        Ok(())
    }

    /// One word out of a list.
    pub(crate) fn choice<T: Clone>(
        &self,
        slot: &mut Option<T>,
        choices: &[(&str, T)],
    ) -> Result<(), Fault> {
        self.once(slot)?;
        let given = self.arg(1);
        let found = choices
            .iter()
            .find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(given));
        let (_, value) = found.ok_or_else(|| {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("\"{name}\""))
                .collect();
            self.invalid(1)
                .help(format!("it can be {}", names.join(", ")))
        })?;
        *slot = Some(value.clone());
        Ok(())
    }

    /// Checks arguments that no setter reads.
    pub(crate) fn check(&self, check: Check) -> Result<(), Fault> {
        match check {
            Check::Any | Check::Text | Check::By(_) => Ok(()),
            Check::Flag => self.on_off().map(drop),
            Check::Number => self.number(&mut None),
            Check::Between(low, high) => {
                let mut number = None;
                self.number(&mut number)?;
                match number {
                    Some(number) if (low..=high).contains(&number) => Ok(()),
                    _ => Err(Fault::at(
                        1,
                        format!("value must be between {low} and {high}"),
                    )),
                }
            }
            Check::Size => self.size(&mut None),
            Check::Offset => self.offset(&mut None),
            Check::Buffers => self.buffers(&mut None),
            Check::Time => self.time(&mut None),
            Check::Seconds => self.seconds(&mut None),
            Check::OneOf(names) => {
                let choices: Vec<(&str, ())> = names.iter().map(|name| (*name, ())).collect();
                self.choice(&mut None, &choices)
            }
        }
    }
}
