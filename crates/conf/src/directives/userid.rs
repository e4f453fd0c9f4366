//! ngx_http_userid_module.

use super::{Arity, HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{Getter, UserIdExpires, UserIdMode, Variable};
use crate::template::Settable;
use crate::values;
use crate::variables::Builtin;

pub(super) const MODULE: Module = Module {
    title: "HTTP: cookies for clients",
    doc: "Cookies that identify clients: `$uid_got`, `$uid_set`, `$uid_reset`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "userid",
        HSL,
        ONE,
        "off",
        "Whether cookies that identify clients are set: `on`, `v1` (an older format), `log` \
         (received cookies are logged, none are set).",
        userid,
    ),
    Row::new(
        "userid_name",
        HSL,
        ONE,
        "uid",
        "Name of the cookie.",
        |b, c| {
            let slot = &mut b.location().restricting.userid.name;
            c.once(slot)?;
            *slot = Some(c.text(1)?.into());
            Ok(())
        },
    ),
    Row::new(
        "userid_domain",
        HSL,
        ONE,
        "none",
        "Domain of the cookie.",
        |b, c| unless_none(c, &mut b.location().restricting.userid.domain),
    ),
    Row::new(
        "userid_path",
        HSL,
        ONE,
        "/",
        "Path of the cookie.",
        |b, c| {
            let slot = &mut b.location().restricting.userid.path;
            c.once(slot)?;
            *slot = Some(c.arg(1).into());
            Ok(())
        },
    ),
    Row::new(
        "userid_expires",
        HSL,
        ONE,
        "off",
        "Time for which the client keeps the cookie, `max`, or `off` to keep it until the browser \
         is closed.",
        |b, c| {
            let slot = &mut b.location().restricting.userid.expires;
            c.once(slot)?;
            *slot = Some(match c.arg(1) {
                b"max" => Some(UserIdExpires::Max),
                b"off" => None,
                written => {
                    let time = values::seconds(written).ok_or_else(|| c.refuse("invalid value"))?;
                    Some(UserIdExpires::After(time)).filter(|_| !time.is_zero())
                }
            });
            Ok(())
        },
    ),
    Row::new(
        "userid_flags",
        HSL,
        Arity::Between(1, 3),
        "off",
        "Flags of the cookie: `secure`, `httponly`, `samesite=strict`, `samesite=lax`, `samesite=none`.",
        flags,
    ),
    Row::new(
        "userid_mark",
        HSL,
        ONE,
        "off",
        "A letter, digit or `=` that marks the cookie. Clients whose cookie has another mark get a \
         new one.",
        |b, c| {
            let slot = &mut b.location().restricting.userid.mark;
            c.once(slot)?;
            *slot = Some(match c.arg(1) {
                b"off" => None,
                [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Some(*mark),
                _ => {
                    let what = "value must be \"off\" or a single letter, digit or \"=\"";
                    return Err(c.refuse(what));
                }
            });
            Ok(())
        },
    ),
    Row::new(
        "userid_p3p",
        HSL,
        ONE,
        "none",
        "Value of the `P3P` header field that is sent with the cookie.",
        |b, c| unless_none(c, &mut b.location().restricting.userid.p3p),
    ),
    Row::new(
        "userid_service",
        HSL,
        ONE,
        "",
        "Number that identifies the server in the cookie. The default is its address, or 0 with \
         `v1`.",
        |b, c| c.number(&mut b.location().restricting.userid.service),
    ),
];

fn userid(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let choices = [
        ("off", None),
        ("log", Some(UserIdMode::Log)),
        ("v1", Some(UserIdMode::V1)),
        ("on", Some(UserIdMode::V2)),
    ];
    c.choice(&mut b.location().restricting.userid.mode, &choices)?;
    if b.location().restricting.userid.mode == Some(None) {
        return Ok(());
    }
    let reset = match b.names.settable("uid_reset", Getter::Absent) {
        Ok(Settable::User(index)) => Variable::User(index),
        // It was used before, so nothing can define it now.
        _ => Variable::Builtin(Builtin::UidReset),
    };
    b.location().restricting.userid.reset = Some(reset);
    Ok(())
}

fn unless_none(c: &Call<'_>, slot: &mut Option<Option<Box<[u8]>>>) -> Result<(), Fault> {
    c.once(slot)?;
    *slot = Some(match c.arg(1) {
        b"none" => None,
        value => Some(value.into()),
    });
    Ok(())
}

/// What the flags are written as, in nginx's order.
const FLAGS: [(&str, &str); 6] = [
    ("off", ""),
    ("secure", "; secure"),
    ("httponly", "; httponly"),
    ("samesite=strict", "; samesite=strict"),
    ("samesite=lax", "; samesite=lax"),
    ("samesite=none", "; samesite=none"),
];

/// A second directive adds to the first, as with all of nginx's directives that are sets of words.
fn flags(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut b.location().restricting.userid.flags;
    let before = slot.take().unwrap_or_default();
    let mut given = FLAGS.map(|(_, text)| before.contains(&text));
    let mut repeated = Vec::new();
    for (index, word) in c.args() {
        let is_it = |(name, _): &(&str, &str)| name.as_bytes().eq_ignore_ascii_case(word);
        let at = FLAGS
            .iter()
            .position(is_it)
            .ok_or_else(|| c.invalid(index))?;
        if std::mem::replace(&mut given[at], true) {
            repeated.push(c.shown(index));
        }
    }
    let chosen = FLAGS.iter().zip(given).filter(|(_, given)| *given);
    *slot = Some(chosen.map(|((_, text), _)| *text).collect());
    for word in repeated {
        b.warn(format!("duplicate value \"{word}\""));
    }
    Ok(())
}
