//! set-misc-nginx-module.

use super::{Arity, LOCATION, LOCATION_IF, Module, ONE, Row, SERVER, SERVER_IF};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{Compute, Function, Getter, Op, Part, Template, Variable};
use crate::template::{self, Settable};

pub(super) const MODULE: Module = Module {
    title: "HTTP: computed variables (set-misc)",
    doc: "As set-misc-nginx-module: variables that are computed where `set` would set them, in the \
          order of the configuration. Arguments may contain variables. Where the last argument may \
          be left out, it is the variable's own value. A function that cannot work with its \
          arguments ends the request with 500 and a line in the log.",
    rows: &[
        of_one(
            "set_escape_uri",
            "Escapes text for use in a URI.",
            |b, c| compute(b, c, Function::EscapeUri),
        ),
        of_one(
            "set_unescape_uri",
            "Decodes escapes of a URI, and `+` as a space.",
            |b, c| compute(b, c, Function::UnescapeUri),
        ),
        of_one("set_md5", "The MD5 of the text, in hexadecimal.", |b, c| {
            compute(b, c, Function::Md5)
        }),
        of_one(
            "set_sha1",
            "The SHA-1 of the text, in hexadecimal.",
            |b, c| compute(b, c, Function::Sha1),
        ),
        of_one("set_encode_base64", "Encodes in Base64.", |b, c| {
            compute(b, c, Function::EncodeBase64)
        }),
        of_one("set_decode_base64", "Decodes Base64.", |b, c| {
            compute(b, c, Function::DecodeBase64)
        }),
        of_one(
            "set_encode_base64url",
            "Encodes in Base64 for URLs, without padding.",
            |b, c| compute(b, c, Function::EncodeBase64Url),
        ),
        of_one(
            "set_decode_base64url",
            "Decodes Base64 for URLs.",
            |b, c| compute(b, c, Function::DecodeBase64Url),
        ),
        of_one("set_encode_hex", "Encodes in hexadecimal.", |b, c| {
            compute(b, c, Function::EncodeHex)
        }),
        of_one("set_decode_hex", "Decodes hexadecimal.", |b, c| {
            compute(b, c, Function::DecodeHex)
        }),
        of_one(
            "set_quote_sql_str",
            "Quotes text as a string of MySQL; an empty one is `''`.",
            |b, c| compute(b, c, Function::QuoteSql),
        ),
        of_one(
            "set_quote_json_str",
            "Quotes text as a string of JSON; an empty one is `null`.",
            |b, c| compute(b, c, Function::QuoteJson),
        ),
        row(
            "set_if_empty",
            TWO,
            "Sets a variable that is empty to the second argument.",
            |b, c| compute(b, c, Function::IfEmpty),
        ),
        row(
            "set_hmac_sha1",
            THREE,
            "The HMAC-SHA-1 with a key (second argument) of a text (third argument), as bytes.",
            |b, c| compute(b, c, Function::HmacSha1),
        ),
        row(
            "set_hmac_sha256",
            THREE,
            "The HMAC-SHA-256 with a key (second argument) of a text (third argument), as bytes.",
            |b, c| compute(b, c, Function::HmacSha256),
        ),
        row(
            "set_random",
            THREE,
            "A random number from the second argument to the third, both included.",
            |b, c| compute(b, c, Function::Random),
        ),
        row(
            "set_secure_random_alphanum",
            TWO,
            "As many random letters and digits as the second argument says, 1 to 64.",
            |b, c| compute(b, c, Function::RandomAlphanum),
        ),
        row(
            "set_secure_random_lcalpha",
            TWO,
            "As many random lower-case letters as the second argument says, 1 to 64.",
            |b, c| compute(b, c, Function::RandomLetters),
        ),
        row(
            "set_rotate",
            THREE,
            "The number after the variable's own, from the second argument to the third and from \
             the beginning again. A variable without one goes on after the last number in this \
             location, whichever worker thread computed it.",
            |b, c| compute(b, c, Function::Rotate),
        ),
        row(
            "set_local_today",
            ONE,
            "The date in local time, such as `2026-01-31`.",
            |b, c| compute(b, c, Function::LocalToday),
        ),
        row(
            "set_formatted_gmt_time",
            TWO,
            "The time in UTC, in a notation of strftime(3).",
            |b, c| compute(b, c, Function::FormattedGmtTime),
        ),
        row(
            "set_formatted_local_time",
            TWO,
            "The local time, in a notation of strftime(3).",
            |b, c| compute(b, c, Function::FormattedLocalTime),
        ),
    ],
};

const TWO: Arity = Arity::Between(2, 2);
const THREE: Arity = Arity::Between(3, 3);

type Setter = fn(&mut Build<'_>, &Call<'_>) -> Result<(), Fault>;

const fn row(name: &'static str, arity: Arity, doc: &'static str, setter: Setter) -> Row {
    let contexts = SERVER | SERVER_IF | LOCATION | LOCATION_IF;
    Row::new(name, contexts, arity, "", doc, setter).own()
}

/// A function of one text, which may be the variable's own.
const fn of_one(name: &'static str, doc: &'static str, setter: Setter) -> Row {
    row(name, Arity::Between(1, 2), doc, setter)
}

fn compute(b: &mut Build<'_>, c: &Call<'_>, function: Function) -> Result<(), Fault> {
    let name = c.variable_name(1)?;
    let variable = match b.names.settable(name, Getter::Uninitialized) {
        Ok(Settable::User(index)) => Variable::User(index),
        Ok(Settable::Builtin(builtin)) => Variable::Builtin(builtin),
        Err(fault) => return Err(fault.at_word(1)),
    };
    let own = Template::new(vec![Part::Variable(variable.clone())]);
    let mut arguments = Vec::with_capacity(3);
    let takes_own = match function {
        Function::IfEmpty | Function::Rotate => true,
        Function::LocalToday => false,
        _ => c.count() == 1,
    };
    if takes_own {
        arguments.push(own);
    }
    for (word, text) in c.args().skip(1) {
        arguments.push(template::compile(&mut b.names, text, word, &c.origin)?);
    }
    b.script().push(Op::Compute(Box::new(Compute {
        variable,
        name: c.row.name,
        function,
        arguments: arguments.into(),
    })));
    Ok(())
}
