//! What the rewrite module does for a server or a location, step by step.

use super::{LocationConf, SetVariable, Template, Variable};
use crate::regex::Regex;
use std::sync::Arc;

/// `rewrite`, `if`, `set`, `break` and `return` in the order of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// What is done, in order.
    pub ops: Box<[Op]>,
    /// Settings that hold from an [`If`] of a location on.
    pub blocks: Box<[Arc<LocationConf>]>,
}

/// One step of a [`Script`].
#[derive(Debug, Clone)]
pub enum Op {
    /// `rewrite`.
    Rewrite(Box<Rewrite>),
    /// `set`.
    Set(SetVariable),
    /// `set_md5` and the like.
    Compute(Box<Compute>),
    /// `if`.
    If(Box<If>),
    /// `break`.
    Break,
    /// `return`.
    Return(Return),
}

/// Sets a variable to the value of a function.
#[derive(Debug, Clone)]
pub struct Compute {
    /// The variable.
    pub variable: Variable,
    /// The directive, for messages.
    pub name: &'static str,
    /// The function.
    pub function: Function,
    /// Its arguments; the variable's own value where the directive names none.
    pub arguments: Box<[Template]>,
}

/// A function of set-misc-nginx-module. Digests and codes are of the first argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `set_escape_uri`.
    EscapeUri,
    /// `set_unescape_uri`.
    UnescapeUri,
    /// `set_if_empty`: the first argument, or the second if it is empty.
    IfEmpty,
    /// `set_md5`.
    Md5,
    /// `set_sha1`.
    Sha1,
    /// `set_hmac_sha1`: of a key and a text.
    HmacSha1,
    /// `set_hmac_sha256`: of a key and a text.
    HmacSha256,
    /// `set_encode_base64`.
    EncodeBase64,
    /// `set_decode_base64`.
    DecodeBase64,
    /// `set_encode_base64url`.
    EncodeBase64Url,
    /// `set_decode_base64url`.
    DecodeBase64Url,
    /// `set_encode_hex`.
    EncodeHex,
    /// `set_decode_hex`.
    DecodeHex,
    /// `set_random`: from the first argument to the second.
    Random,
    /// `set_secure_random_alphanum`: of a length.
    RandomAlphanum,
    /// `set_secure_random_lcalpha`: of a length.
    RandomLetters,
    /// `set_quote_sql_str`.
    QuoteSql,
    /// `set_quote_json_str`.
    QuoteJson,
    /// `set_local_today`: of nothing.
    LocalToday,
    /// `set_formatted_gmt_time`: of a notation.
    FormattedGmtTime,
    /// `set_formatted_local_time`: of a notation.
    FormattedLocalTime,
    /// `set_rotate`: of the last number, the first and the greatest.
    Rotate,
}

/// `return code [text]`, `return code URL`, `return URL`.
#[derive(Debug, Clone)]
pub struct Return {
    /// Status; 302 for `return URL`. 444 closes without an answer.
    pub code: u16,
    /// Body text, or the target for 301, 302, 303, 307 and 308.
    pub text: Option<Template>,
}

/// `rewrite regex replacement [flag]`.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// What the URI must match.
    pub regex: Regex,
    /// The new URI up to its question mark; the whole target of a redirect.
    pub path: Template,
    /// What follows the question mark of the replacement; never of a redirect.
    pub args: Option<Template>,
    /// A redirect's target has a question mark in the configuration.
    pub has_args: bool,
    /// The request's own arguments are appended: the replacement does not end with `?`.
    pub keeps_args: bool,
    /// What follows.
    pub then: RewriteThen,
}

/// What follows a rewrite whose expression matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteThen {
    /// The next step.
    Next,
    /// `last`: a location is looked for.
    Last,
    /// `break`: the request stays in this location.
    Break,
    /// `redirect`, `permanent`, or a replacement with a scheme: this status.
    Redirect(u16),
}

/// `if (condition) { ... }`.
#[derive(Debug, Clone)]
pub struct If {
    /// When what is inside is done.
    pub condition: Condition,
    /// How many of the steps that follow are inside.
    pub inside: usize,
    /// Index into [`Script::blocks`] of the settings that apply from here on; none in a
    /// server.
    pub block: Option<usize>,
}

/// The condition of an `if`.
#[derive(Debug, Clone)]
pub enum Condition {
    /// `$variable`: neither empty nor `0`.
    IsTrue(Variable),
    /// `$variable = value`.
    Equals(Variable, Template),
    /// `$variable != value`.
    Differs(Variable, Template),
    /// `$variable ~ expression` and its kin.
    Matches {
        /// What is tested.
        variable: Variable,
        /// The expression.
        regex: Regex,
        /// `!~`: it must not match.
        negated: bool,
    },
    /// `-f path` and its kin.
    File {
        /// What is looked for.
        path: Template,
        /// What it must be.
        test: FileTest,
        /// `!-f`: it must not be that.
        negated: bool,
    },
}

/// What a file must be for an `if`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`: a regular file.
    File,
    /// `-d`: a directory.
    Directory,
    /// `-e`: anything.
    Any,
    /// `-x`: something that its owner may execute.
    Executable,
}
