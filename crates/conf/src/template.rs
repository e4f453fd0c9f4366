//! Compiles values with variables into [`Template`]s.

use crate::call::{Fault, shown};
use crate::model::{Getter, Origin, Part, ServerKind, Template, UserVariable, Variable};
use crate::variables::{self, Builtin};
use std::collections::{HashMap, HashSet};

/// Names of variables that the configuration defines; it may do so after their first use.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// In the order of [`crate::model::Http::variables`].
    list: Vec<Name>,
    /// Those of the open block.
    index: HashMap<String, u16>,
    /// Names that exist without being defined, may still be defined, and were used
    /// before they were.
    used_undefined: HashSet<String>,
    /// The open block, whose variables have nothing to do with those of others.
    kind: ServerKind,
    /// Where its names begin.
    first: usize,
}

#[derive(Debug)]
struct Name {
    kind: ServerKind,
    name: String,
    getter: Option<Getter>,
    used_at: Option<Origin>,
}

/// What an assignment to a variable changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settable {
    /// A variable that the configuration defines.
    User(u16),
    /// One that exists and may be set: `$args`, `$limit_rate`.
    Builtin(Builtin),
}

/// Variables that nginx knows by their whole name although a prefix also matches them;
/// they cannot be redefined.
const FIXED: &[&str] = &[
    "http_host",
    "http_user_agent",
    "http_referer",
    "http_via",
    "http_x_forwarded_for",
    "http_cookie",
    "sent_http_content_type",
    "sent_http_content_length",
    "sent_http_location",
    "sent_http_last_modified",
    "sent_http_connection",
    "sent_http_keep_alive",
    "sent_http_transfer_encoding",
    "sent_http_cache_control",
    "sent_http_link",
];

impl Names {
    /// Another block begins.
    pub(crate) fn enter(&mut self, kind: ServerKind) {
        self.index.clear();
        self.used_undefined.clear();
        (self.kind, self.first) = (kind, self.list.len());
    }

    /// A named group of an expression.
    pub(crate) fn define(&mut self, name: &str) -> Result<u16, Fault> {
        let getter = match self.lookup_changeable(name)? {
            // The group's text takes precedence over the built-in value once there is one.
            Some(existing @ Variable::Builtin(_)) => Getter::Same(existing),
            _ => Getter::Absent,
        };
        self.define_as(name, getter)
    }

    /// A variable with a value of its own, such as `map`'s. The last definition holds.
    pub(crate) fn define_as(&mut self, name: &str, getter: Getter) -> Result<u16, Fault> {
        self.lookup_changeable(name)?;
        let index = self.intern_new(name)?;
        self.list[usize::from(index)].getter = Some(getter);
        Ok(index)
    }

    /// A variable without a value, unless there is one of that name.
    pub(crate) fn define_if_new(&mut self, name: &str) -> Result<(), Fault> {
        let lower = name.to_ascii_lowercase();
        if variables::lookup(self.kind, &lower).is_some() {
            return Ok(());
        }
        let index = self.intern_new(name)?;
        self.list[usize::from(index)]
            .getter
            .get_or_insert(Getter::Absent);
        Ok(())
    }

    /// The target of `set` and the like. Without another definition the variable reads as
    /// `otherwise` until something is assigned to it.
    pub(crate) fn settable(&mut self, name: &str, otherwise: Getter) -> Result<Settable, Fault> {
        let existing = self.lookup_changeable(name)?;
        if let Some(Variable::Builtin(builtin)) = existing
            && is_assigned(builtin)
        {
            return Ok(Settable::Builtin(builtin));
        }
        let index = self.intern_new(name)?;
        let getter = &mut self.list[usize::from(index)].getter;
        getter.get_or_insert_with(|| existing.map_or(otherwise, Getter::Same));
        Ok(Settable::User(index))
    }

    /// The variable that a name means where it is used.
    pub(crate) fn variable(&mut self, name: &str, origin: &Origin) -> Result<Variable, Fault> {
        let lower = name.to_ascii_lowercase();
        if let Some(index) = self.index.get(&lower)
            && self.list[usize::from(*index)].getter.is_some()
        {
            return Ok(Variable::User(*index));
        }
        if let Some(variable) = variables::lookup(self.kind, &lower) {
            if changeable(&lower, &variable) {
                self.used_undefined.insert(lower);
            }
            return Ok(variable);
        }
        let index = self.intern(lower)?;
        self.list[usize::from(index)]
            .used_at
            .get_or_insert_with(|| origin.clone());
        Ok(Variable::User(index))
    }

    fn intern_new(&mut self, name: &str) -> Result<u16, Fault> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() {
            return Err(Fault::new("invalid variable name \"$\""));
        }
        if self.used_undefined.contains(&name) {
            let message = format!("the \"{name}\" variable is defined after it was used");
            return Err(Fault::new(message)
                .help("a built-in variable has this name; define yours before its first use"));
        }
        self.intern(name)
    }

    fn intern(&mut self, name: String) -> Result<u16, Fault> {
        if let Some(index) = self.index.get(&name) {
            return Ok(*index);
        }
        let index = u16::try_from(self.list.len()).map_err(|_| Fault::new("too many variables"))?;
        self.list.push(Name {
            kind: self.kind,
            name: name.clone(),
            getter: None,
            used_at: None,
        });
        self.index.insert(name, index);
        Ok(index)
    }

    /// The names of the open block that nothing defines, each with the place of its first use.
    pub(crate) fn undefined(&self) -> impl Iterator<Item = (&str, Option<&Origin>)> {
        let names = self.list[self.first..].iter();
        let names = names.filter(|name| name.getter.is_none());
        names.map(|name| (name.name.as_str(), name.used_at.as_ref()))
    }

    /// All variables, in order.
    pub(crate) fn into_list(self) -> Vec<UserVariable> {
        let variable = |name: Name| UserVariable {
            kind: name.kind,
            name: name.name.into(),
            // It was checked that something defines each.
            getter: name.getter.unwrap_or(Getter::Absent),
        };
        self.list.into_iter().map(variable).collect()
    }

    /// The variable of a name that may be defined again, if there is one.
    fn lookup_changeable(&self, name: &str) -> Result<Option<Variable>, Fault> {
        let lower = name.to_ascii_lowercase();
        match variables::lookup(self.kind, &lower) {
            Some(variable) if !changeable(&lower, &variable) => {
                let message = format!("the duplicate \"{name}\" variable");
                let help = "a variable of this name exists and cannot be changed";
                Err(Fault::new(message).help(help))
            }
            existing => Ok(existing),
        }
    }
}

/// Whether `set` changes what the server does with the request, and not only a text.
fn is_assigned(builtin: Builtin) -> bool {
    matches!(
        builtin,
        Builtin::Args
            | Builtin::LimitRate
            | Builtin::ProxyConnectConnectTimeout
            | Builtin::ProxyConnectDataTimeout
            | Builtin::ProxyConnectReadTimeout
            | Builtin::ProxyConnectSendTimeout
            | Builtin::ProxyConnectResponse
    )
}

/// Whether nginx lets a configuration define the variable again.
fn changeable(name: &str, variable: &Variable) -> bool {
    match variable {
        Variable::Builtin(builtin) if is_assigned(*builtin) => true,
        Variable::Builtin(Builtin::ProxyHost | Builtin::ProxyPort) => true,
        Variable::Builtin(Builtin::InvalidReferer | Builtin::UidReset) => true,
        Variable::Builtin(Builtin::ModernBrowser | Builtin::AncientBrowser | Builtin::Msie) => true,
        // nginx's free edition has none of these names: a file may have made its own.
        Variable::Builtin(Builtin::UpstreamCacheAge | Builtin::UpstreamLastServerName) => true,
        Variable::Builtin(Builtin::BrotliRatio | Builtin::ZstdRatio) => true,
        Variable::Builtin(
            Builtin::ConnectHost
            | Builtin::ConnectPort
            | Builtin::ConnectAddr
            | Builtin::ProxyConnectResolveTime
            | Builtin::ProxyConnectConnectTime
            | Builtin::ProxyConnectFirstByteTime,
        ) => true,
        Variable::Builtin(Builtin::TrimBytes | Builtin::TrimOriginalBytes) => true,
        Variable::Builtin(Builtin::ZstdBytesIn | Builtin::ZstdBytesOut) => true,
        Variable::Builtin(_) => name.starts_with("ssl_"),
        // Those that `http` has as well are judged above.
        Variable::Stream(_) => false,
        _ => !FIXED.contains(&name),
    }
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
        let variable = names.variable(name, origin)?;
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
        assert_eq!(parts("$mine"), Ok(vec![Var(Variable::User(0))]));
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
        assert_eq!(names.undefined().next(), Some(("user", Some(&origin))));
        assert_eq!(names.define("user"), Ok(0));
        assert_eq!(names.undefined().next(), None);
        assert!(names.define("host").is_err(), "a built-in variable");
        assert_eq!(names.into_list().len(), 1);
    }
}
