//! Tengine's ngx_http_upstream_session_sticky_module.

use super::{Arity, HSL, Module, ONE, Row, UPSTREAM};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{SessionLimits, SessionMode, SessionSticky, Sticky};
use crate::upstream_url::{UpstreamUrl, UriPart};
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "Session affinity as in Tengine",
    doc: "A cookie tells which server of a group a client belongs to. The id of a server is the MD5 \
          hash of its address, or with `hash=plain` its `id=`, else the address itself.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "session_sticky",
        UPSTREAM,
        Arity::AtLeast(0),
        "",
        "Passes requests of a client to the server that its cookie names, as long as that is \
         available. `cookie=` is its name (`route`), with the attributes `domain=`, `path=` (`/`) \
         and `maxage=` in seconds. `mode=insert` (default) sets the cookie; `mode=prefix` puts the \
         id and `~` before the value of the cookie that the server sets; `mode=rewrite` puts the id \
         in its place. `option=indirect` hides an inserted cookie from the server, `direct` \
         (default) does not; with `indirect` and with `prefix`, cookies are set only where \
         `session_sticky_hide_cookie` is. `maxidle=` and `maxlife=`: an inserted cookie ends so \
         many seconds after its last or its first use. With `fallback=off` no other server is \
         asked instead: the response is 502. `hash=md5` (default) or `plain`. Responses from 400 \
         on set no cookie.",
        session_sticky,
    )
    .own(),
    Row::new(
        "session_sticky_hide_cookie",
        HSL,
        ONE,
        "",
        "`upstream=NAME`: servers of this group do not get its cookie of `session_sticky` with \
         `option=indirect`, or with `mode=prefix` what was put before its value.",
        hide_cookie,
    )
    .own(),
];

fn session_sticky(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if let Some(sticky) = &b.upstream().sticky {
        return Err(match sticky {
            Sticky::Session(_) => c.refuse("is duplicate"),
            _ => c.refuse("cannot be combined with \"sticky\""),
        });
    }
    let mut session = SessionSticky {
        cookie: b"route"[..].into(),
        domain: None,
        path: b"/"[..].into(),
        max_age_s: None,
        mode: SessionMode::Insert,
        indirect: false,
        limits: None,
        fallback: true,
        plain: false,
    };
    let (mut max_idle_s, mut max_life_s) = (None, None);
    for (index, word) in c.args() {
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        let invalid = || Fault::at(index, format!("invalid argument \"{}\"", c.shown(index)));
        let one_of = |values: &[&[u8]]| {
            let found = values.iter().position(|known| *known == value);
            found.ok_or_else(invalid)
        };
        let seconds = || {
            let time = values::seconds(value).ok_or_else(invalid)?;
            i64::try_from(time.as_secs()).map_err(|_| invalid())
        };
        match name {
            b"cookie=" if is_name(value) => session.cookie = value.into(),
            b"domain=" if is_attribute(value) => session.domain = Some(value.into()),
            b"path=" if is_attribute(value) => session.path = value.into(),
            b"maxage=" => session.max_age_s = Some(seconds()?),
            b"maxidle=" => max_idle_s = Some(seconds()?),
            b"maxlife=" => max_life_s = Some(seconds()?),
            b"mode=" => {
                session.mode = [
                    SessionMode::Insert,
                    SessionMode::Prefix,
                    SessionMode::Rewrite,
                ][one_of(&[b"insert", b"prefix", b"rewrite"])?];
            }
            b"option=" => session.indirect = one_of(&[b"direct", b"indirect"])? == 1,
            b"fallback=" => session.fallback = one_of(&[b"off", b"on"])? == 1,
            b"hash=" => session.plain = one_of(&[b"md5", b"plain"])? == 1,
            _ => return Err(invalid()),
        }
    }
    if session.mode == SessionMode::Rewrite {
        // The server decides about its cookie.
        session.indirect = false;
    }
    if max_idle_s.is_some() || max_life_s.is_some() {
        session.limits = Some(SessionLimits {
            max_idle_s: max_idle_s.unwrap_or(NO_LIMIT_S),
            max_life_s: max_life_s.unwrap_or(NO_LIMIT_S),
        });
    }
    b.upstream().sticky = Some(Sticky::Session(Box::new(session)));
    Ok(())
}

/// The limit that is not written, as in Tengine.
const NO_LIMIT_S: i64 = i32::MAX as i64;

/// A name that a cookie may have (RFC 6265: a token).
fn is_name(name: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(byte);
    !name.is_empty() && name.iter().all(is_token)
}

/// What an attribute of a cookie may be.
fn is_attribute(value: &[u8]) -> bool {
    !value.is_empty()
        && value
            .iter()
            .all(|byte| !byte.is_ascii_control() && *byte != b';')
}

/// Whether this can be the id of a server: part of the value of a cookie, with nothing that ends
/// it.
pub(super) fn is_id(id: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_graphic() && !b",;\\\"|~".contains(byte);
    !id.is_empty() && id.iter().all(may_be)
}

fn hide_cookie(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().hides_session)?;
    let name = c
        .arg(1)
        .strip_prefix(b"upstream=")
        .filter(|name| !name.is_empty());
    let Some(name) = name else {
        let message = format!("invalid argument of \"{}\"", c.shown(1));
        return Err(Fault::at(1, message).help("write \"upstream=NAME\""));
    };
    let url = UpstreamUrl::parse(name, 0, UriPart::Refused);
    let url = url.map_err(|reason| Fault::at(1, format!("{reason} in \"{}\"", c.shown(1))))?;
    let group = b.http.groups.refer(&url, &c.origin)?;
    b.location().hides_session = Some(group);
    Ok(())
}
