//! ngx_http_browser_module.

use super::{Arity, HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::{BrowserFamily, BrowserVersion, ModernBrowser};

pub(super) const MODULE: Module = Module {
    title: "HTTP: browsers",
    doc: "Sorts browsers by `User-Agent`: `$modern_browser`, `$ancient_browser`, `$msie`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "modern_browser",
        HSL,
        Arity::Between(1, 2),
        "",
        "From which version on a browser is modern: `msie`, `gecko`, `opera`, `safari` or \
         `konqueror` and a version such as `5.5`. `unlisted`: so is every browser that neither \
         this directive nor `ancient_browser` names.",
        modern_browser,
    ),
    Row::new(
        "modern_browser_value",
        HSL,
        ONE,
        "1",
        "Value of `$modern_browser` if the browser is modern; empty otherwise.",
        |b, c| {
            b.location().browsers.modern_value = Some(c.arg(1).into());
            Ok(())
        },
    ),
    Row::new(
        "ancient_browser",
        HSL,
        Arity::AtLeast(1),
        "",
        "Texts that mark a browser as ancient; `netscape4` stands for `Mozilla/1` to `Mozilla/4`.",
        ancient_browser,
    ),
    Row::new(
        "ancient_browser_value",
        HSL,
        ONE,
        "1",
        "Value of `$ancient_browser` if the browser is ancient; empty otherwise.",
        |b, c| {
            b.location().browsers.ancient_value = Some(c.arg(1).into());
            Ok(())
        },
    ),
];

fn modern_browser(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let modern = b.location().browsers.modern.get_or_insert_default();
    if c.count() == 1 {
        if c.arg(1) != b"unlisted" {
            return Err(c
                .invalid(1)
                .help("write `unlisted`, or the name of a browser and a version"));
        }
        modern.unlisted = true;
        return Ok(());
    }
    let family = BrowserFamily::named(c.arg(1)).ok_or_else(|| {
        let message = format!("unknown browser name \"{}\"", shown(c.arg(1)));
        Fault::at(1, message).help("known are msie, gecko, opera, safari and konqueror")
    })?;
    let (version, rest) = BrowserVersion::parse(c.arg(2));
    if !rest.is_empty() {
        let message = format!("invalid browser version \"{}\"", shown(c.arg(2)));
        return Err(Fault::at(2, message).help("write up to four numbers: 5.5"));
    }
    modern.listed.push(ModernBrowser {
        family,
        since: Some(version),
    });
    Ok(())
}

fn ancient_browser(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let ancient = b.location().browsers.ancient.get_or_insert_default();
    for (_, word) in c.args() {
        match word {
            b"netscape4" => ancient.netscape4 = true,
            text => ancient.texts.push(text.into()),
        }
    }
    Ok(())
}
