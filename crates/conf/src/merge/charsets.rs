//! Checks of the character sets in the whole configuration.

use crate::model::{CharsetName, Charsets, LocationConf, Locations, Server};

/// Whether there is a table wherever one set is to be converted to another.
pub(super) fn check(charsets: &Charsets, servers: &[Server]) -> Result<(), String> {
    for server in servers {
        check_one(charsets, &server.conf)?;
        check_level(charsets, &server.locations)?;
    }
    Ok(())
}

fn check_level(charsets: &Charsets, level: &Locations) -> Result<(), String> {
    for location in level.all() {
        check_one(charsets, &location.conf)?;
        let script = location.conf.script.iter();
        for block in script.flat_map(|script| script.blocks.iter()) {
            check_one(charsets, block)?;
        }
        check_level(charsets, &location.children)?;
    }
    Ok(())
}

fn check_one(charsets: &Charsets, conf: &LocationConf) -> Result<(), String> {
    let filters = conf.body_filters.as_deref();
    let Some(charset) = filters.and_then(|filters| filters.texts.charset.as_deref()) else {
        return Ok(());
    };
    let (Some(CharsetName::Known(to)), Some(CharsetName::Known(from))) =
        (&charset.named, &charset.source)
    else {
        return Ok(());
    };
    if from == to || charsets.conversion(*from, *to).is_some() {
        return Ok(());
    }
    let name = |index: usize| String::from_utf8_lossy(&charsets.names[index]);
    Err(format!(
        "no \"charset_map\" between the charsets \"{}\" and \"{}\"",
        name(*from),
        name(*to)
    ))
}
