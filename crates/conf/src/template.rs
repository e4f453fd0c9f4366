//! Compiles values with variables into [`Template`]s.

use crate::call::{Fault, shown};
use crate::model::{Origin, Part, Template, Variable};
use crate::variables;
use std::collections::HashMap;

/// Names that are variables only because a regular expression somewhere in
/// the configuration captures them; it may stand after their first use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// In the order of [`crate::model::Http::named_captures`].
    list: Vec<Name>,
    index: HashMap<String, u16>,
}

#[derive(Debug)]
struct Name {
    name: String,
    defined: bool,
    used_at: Option<Origin>,
}

impl Names {
    /// The index of a named group; `None` if the name is a variable already
    /// (or there are too many names).
    pub(crate) fn define(&mut self, name: &str) -> Option<u16> {
        if variables::lookup(name).is_some_and(|variable| !changeable(&variable)) {
            return None;
        }
        let index = self.intern(name)?;
        self.list[usize::from(index)].defined = true;
        Some(index)
    }

    /// Notes the use of a name that is no built-in variable.
    fn use_at(&mut self, name: &str, origin: &Origin) -> Option<u16> {
        let index = self.intern(name)?;
        self.list[usize::from(index)]
            .used_at
            .get_or_insert_with(|| origin.clone());
        Some(index)
    }

    fn intern(&mut self, name: &str) -> Option<u16> {
        let name = name.to_ascii_lowercase();
        if let Some(index) = self.index.get(&name) {
            return Some(*index);
        }
        let index = u16::try_from(self.list.len()).ok()?;
        self.list.push(Name {
            name: name.clone(),
            defined: false,
            used_at: None,
        });
        self.index.insert(name, index);
        Some(index)
    }

    /// The first name that nothing defines, with the place of its first use.
    pub(crate) fn undefined(&self) -> Option<(&str, Option<&Origin>)> {
        let name = self.list.iter().find(|name| !name.defined)?;
        Some((&name.name, name.used_at.as_ref()))
    }

    /// All names, in order.
    pub(crate) fn into_list(self) -> Vec<String> {
        self.list.into_iter().map(|name| name.name).collect()
    }
}

/// Variables that nginx lets a configuration define again.
fn changeable(variable: &Variable) -> bool {
    use variables::Builtin::{Args, LimitRate};
    matches!(variable, Variable::Builtin(Args | LimitRate))
}

/// Compiles argument `word`, or the part of it given as `value`.
pub(crate) fn compile(
    names: &mut Names,
    value: &[u8],
    word: usize,
    origin: &Origin,
) -> Result<Template, Fault> {
    compile_with(names, value, word, origin, Captures::Allowed)
}

/// Compiles a piece of a `log_format`, where `$1` is no capture.
pub(crate) fn compile_log(
    names: &mut Names,
    value: &[u8],
    word: usize,
    origin: &Origin,
) -> Result<Template, Fault> {
    compile_with(names, value, word, origin, Captures::None)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Captures {
    Allowed,
    None,
}

fn compile_with(
    names: &mut Names,
    value: &[u8],
    word: usize,
    origin: &Origin,
    captures: Captures,
) -> Result<Template, Fault> {
    let mut parts = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let literal = memchr::memchr(b'$', rest).unwrap_or(rest.len());
        if literal > 0 {
            parts.push(Part::Literal(rest[..literal].into()));
            rest = &rest[literal..];
            continue;
        }
        let from_dollar = rest;
        rest = &rest[1..];
        if let Some(digit @ b'1'..=b'9') = rest.first().copied()
            && captures == Captures::Allowed
        {
            parts.push(Part::Variable(Variable::Capture(digit - b'0')));
            rest = &rest[1..];
            continue;
        }
        let bracket = rest.first() == Some(&b'{');
        rest = &rest[usize::from(bracket)..];
        let length = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count();
        let (name, after) = rest.split_at(length);
        rest = after;
        if bracket && rest.first() != Some(&b'}') {
            // nginx counts what was read so far as the name.
            if rest.is_empty() && name.is_empty() {
                return Err(invalid_name(captures, word, from_dollar));
            }
            return Err(Fault::at(
                word,
                format!(
                    "the closing bracket in \"{}\" variable is missing",
                    shown(name)
                ),
            ));
        }
        rest = &rest[usize::from(bracket)..];
        let Ok(name) = std::str::from_utf8(name) else {
            return Err(invalid_name(captures, word, from_dollar));
        };
        if name.is_empty() {
            return Err(invalid_name(captures, word, from_dollar));
        }
        let variable = variables::lookup(name)
            .or_else(|| names.use_at(name, origin).map(Variable::NamedCapture))
            .ok_or_else(|| Fault::at(word, "too many variables"))?;
        parts.push(Part::Variable(variable));
    }
    Ok(Template::new(parts))
}

fn invalid_name(captures: Captures, word: usize, from_dollar: &[u8]) -> Fault {
    match captures {
        Captures::Allowed => Fault::at(word, "invalid variable name"),
        Captures::None => Fault::at(
            word,
            format!("invalid parameter \"{}\"", shown(from_dollar)),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::Builtin;

    fn parts(value: &str) -> Result<Vec<Part>, String> {
        let origin = Origin {
            file: "/nginx.conf".into(),
            line: 7,
        };
        compile(&mut Names::default(), value.as_bytes(), 1, &origin)
            .map(|template| template.parts().to_vec())
            .map_err(|fault| fault.message)
    }

    fn literal(text: &str) -> Part {
        Part::Literal(text.as_bytes().into())
    }

    #[test]
    fn literals_variables_and_captures() {
        use Part::Variable as Var;
        assert_eq!(parts(""), Ok(vec![]));
        assert_eq!(parts("/a b"), Ok(vec![literal("/a b")]));
        assert_eq!(
            parts("https://$host$request_uri"),
            Ok(vec![
                literal("https://"),
                Var(Variable::Builtin(Builtin::Host)),
                Var(Variable::Builtin(Builtin::RequestUri)),
            ])
        );
        assert_eq!(
            parts("${uri}x$1y$http_X_a-"),
            Ok(vec![
                Var(Variable::Builtin(Builtin::Uri)),
                literal("x"),
                Var(Variable::Capture(1)),
                literal("y"),
                Var(Variable::RequestHeader("x_a".into())),
                literal("-"),
            ])
        );
        assert_eq!(parts("$mine"), Ok(vec![Var(Variable::NamedCapture(0))]));
    }

    #[test]
    fn faults_in_nginx_words() {
        assert_eq!(parts("a$"), Err("invalid variable name".into()));
        assert_eq!(parts("$-"), Err("invalid variable name".into()));
        assert_eq!(parts("${}"), Err("invalid variable name".into()));
        assert_eq!(parts("${"), Err("invalid variable name".into()));
        assert_eq!(
            parts("${host"),
            Err("the closing bracket in \"host\" variable is missing".into())
        );
        assert_eq!(
            parts("${ho-st}"),
            Err("the closing bracket in \"ho\" variable is missing".into())
        );
    }

    #[test]
    fn names_may_be_defined_after_their_use() {
        let origin = Origin {
            file: "/nginx.conf".into(),
            line: 7,
        };
        let mut names = Names::default();
        compile(&mut names, b"$User", 1, &origin).expect("compiles");
        assert_eq!(names.undefined(), Some(("user", Some(&origin))));
        assert_eq!(names.define("user"), Some(0));
        assert_eq!(names.undefined(), None);
        assert_eq!(names.define("host"), None, "a built-in variable");
        assert_eq!(names.into_list(), ["user"]);
    }
}
