//! ngx_http_map_module.

use super::{Arity, Check, HTTP, Module, ONE, Row, STREAM};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::lexer::Word;
use crate::lists::ListBlock;
use crate::model::{Getter, Map, Origin};
use crate::template;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: map",
    doc: "Variables whose values come from a lookup table.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "map",
        HTTP | STREAM,
        Arity::Between(2, 2),
        "Defines a variable (second argument) whose value depends on the first argument, which may \
         contain variables. Lines have the form `source value`. A source is a string \
         (case-insensitive), `~regex` or `~*regex`; a value may contain variables and captures. \
         Special parameters: `default value`, `hostnames` (sources may also be `*.example.org`, \
         `.example.org` and `mail.*`), `volatile` (the value is not cached for the request) and \
         `include file`.",
        map,
    ),
    Row::meaningless(
        "map_hash_bucket_size",
        HTTP | STREAM,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "map_hash_max_size",
        HTTP | STREAM,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
];

/// A `map` block that is open.
struct Open {
    name: String,
    map: Map,
    default_given: bool,
    /// Names of `hostnames` that are taken by `.example.org`.
    below_dots: HashSet<Box<[u8]>>,
}

fn map(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let source = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let name = c.variable_name(2)?;
    // Names that cannot be defined are refused before the block is read.
    let defined = b.names.define_as(name, Getter::Absent);
    defined.map_err(|fault| fault.at_word(2))?;
    b.opening = Some(Opening::List(Box::new(Open {
        name: name.to_owned(),
        map: Map {
            source,
            ..Map::default()
        },
        default_given: false,
        below_dots: HashSet::new(),
    })));
    Ok(())
}

impl ListBlock for Open {
    fn line(&mut self, b: &mut Build<'_>, words: &[Word], origin: &Origin) -> Result<(), Fault> {
        match words {
            [word] if word.bytes == b"hostnames" => {
                self.map.hostnames = true;
                return Ok(());
            }
            [word] if word.bytes == b"volatile" => {
                self.map.volatile = true;
                return Ok(());
            }
            [_, _] => {}
            _ => return Err(Fault::new("invalid number of the map parameters")),
        }
        let value = template::compile(&mut b.names, &words[1].bytes, 1, origin)?;
        let source = &words[0].bytes[..];
        if source == b"default" {
            if self.default_given {
                return Err(Fault::new("duplicate default map parameter"));
            }
            self.default_given = true;
            self.map.default = value;
            return Ok(());
        }
        if let Some(pattern) = source.strip_prefix(b"~") {
            let (pattern, caseless) = match pattern.strip_prefix(b"*") {
                Some(pattern) => (pattern, true),
                None => (pattern, false),
            };
            let pattern = std::str::from_utf8(pattern)
                .map_err(|_| Fault::new(format!("invalid value \"{}\"", shown(source))))?;
            let regex = b.regex(pattern, caseless, 0)?;
            self.map.expressions.push((regex, value));
            return Ok(());
        }
        let source = source.strip_prefix(b"\\").unwrap_or(source);
        self.add(source.to_ascii_lowercase(), value)
    }

    fn includes(&self) -> bool {
        true
    }

    fn end(self: Box<Self>, b: &mut Build<'_>) -> Result<(), Fault> {
        let getter = Getter::Map(Arc::new(self.map));
        b.names.define_as(&self.name, getter).map(drop)
    }
}

impl Open {
    fn add(&mut self, source: Vec<u8>, value: crate::model::Template) -> Result<(), Fault> {
        let conflict = || Fault::new(format!("conflicting parameter \"{}\"", shown(&source)));
        let taken = if !self.map.hostnames {
            self.map.exact.insert(source.clone().into(), value)
        } else {
            let stars = source.iter().filter(|byte| **byte == b'*').count();
            let invalid = || {
                let message = format!("invalid hostname or wildcard \"{}\"", shown(&source));
                Err(Fault::new(message))
            };
            let dots = source.windows(2).any(|pair| pair == b"..");
            if stars > 1 || dots || source.contains(&0) {
                return invalid();
            }
            match &source[..] {
                [b'.', name @ ..] if !name.is_empty() => {
                    if self.map.exact.contains_key(name) || !self.below_dots.insert(name.into()) {
                        return Err(conflict());
                    }
                    self.map.exact.insert(name.into(), value.clone());
                    self.map.suffixes.insert(name.into(), value)
                }
                [b'*', b'.', name @ ..] if !name.is_empty() => {
                    self.map.suffixes.insert(name.into(), value)
                }
                [name @ .., b'.', b'*'] if !name.is_empty() => {
                    self.map.prefixes.insert(name.into(), value)
                }
                _ if stars > 0 => return invalid(),
                _ => self.map.exact.insert(source.clone().into(), value),
            }
        };
        match taken {
            Some(_) => Err(conflict()),
            None => Ok(()),
        }
    }
}
