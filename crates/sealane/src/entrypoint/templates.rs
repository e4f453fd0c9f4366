//! Templates of configuration files, in which variables of the environment are filled in
//! (`20-envsubst-on-templates.sh` of nginx's image).

use crate::steps::Environment;
use sealane_conf::regex::Regex;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Deepest directory of templates: what links to itself has an end.
const MAX_DEPTH: usize = 32;

/// Fills in all of them.
pub(crate) fn fill_in(environment: &Environment, say: &dyn Fn(&str)) -> Result<(), String> {
    let setting = |name: &str, default: &str| {
        let set = environment
            .get(OsStr::new(name))
            .filter(|value| !value.is_empty());
        set.cloned().unwrap_or_else(|| default.into())
    };
    let from = PathBuf::from(setting(
        "NGINX_ENVSUBST_TEMPLATE_DIR",
        "/etc/nginx/templates",
    ));
    let suffix = setting("NGINX_ENVSUBST_TEMPLATE_SUFFIX", ".template");
    let to = PathBuf::from(setting("NGINX_ENVSUBST_OUTPUT_DIR", "/etc/nginx/conf.d"));
    let filter = setting("NGINX_ENVSUBST_FILTER", "");
    if !from.is_dir() {
        return Ok(());
    }
    let wanted = wanted(environment, &filter)?;
    let mut found = Vec::new();
    find(&from, Path::new(""), &suffix, 0, &mut found)?;
    found.sort();
    for (source, name) in found {
        let target = to.join(name);
        say(&format!(
            "{} becomes {}",
            source.display(),
            target.display()
        ));
        let text = std::fs::read(&source)
            .map_err(|error| format!("cannot read {}: {error}", source.display()))?;
        let failed = |error| format!("cannot write {}: {error}", target.display());
        if let Some(directory) = target.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        std::fs::write(&target, substituted(&text, &wanted)).map_err(failed)?;
    }
    Ok(())
}

/// Name and value.
type Variable<'a> = (&'a [u8], &'a [u8]);

/// The variables that are filled in; any other name stays as it is written, because nginx has
/// variables of that form, too.
fn wanted<'a>(environment: &'a Environment, filter: &OsStr) -> Result<Vec<Variable<'a>>, String> {
    let filter = match filter.is_empty() {
        true => None,
        false => Some(
            Regex::new(&filter.to_string_lossy(), false, |_| 0).map_err(|error| {
                let why = error.message;
                format!("NGINX_ENVSUBST_FILTER is no regular expression: {why}")
            })?,
        ),
    };
    let variables = environment
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let passes = |name: &[u8]| {
        let matches = |filter: &Regex| filter.is_match(name).unwrap_or(false);
        filter.as_ref().is_none_or(matches)
    };
    Ok(variables.filter(|(name, _)| passes(name)).collect())
}

/// Templates below a directory, with the names of what they become.
fn find(
    directory: &Path,
    below: &Path,
    suffix: &OsString,
    depth: usize,
    found: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<(), String> {
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    if depth == MAX_DEPTH {
        return Err(format!("{} is too deep", directory.display()));
    }
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            find(&path, &below.join(name), suffix, depth + 1, found)?;
        } else if let Some(name) = name.as_bytes().strip_suffix(suffix.as_bytes())
            && path.is_file()
            && !name.is_empty()
        {
            found.push((path.clone(), below.join(OsStr::from_bytes(name))));
        }
    }
    Ok(())
}

/// `$NAME` and `${NAME}` become the values of these variables, as envsubst(1) has it.
fn substituted(text: &[u8], wanted: &[Variable<'_>]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let (name, length) = name_after_dollar(rest);
        match wanted.iter().find(|(wanted, _)| *wanted == name) {
            Some((_, value)) if !name.is_empty() => {
                out.extend_from_slice(value);
                rest = &rest[length..];
            }
            _ => {
                out.push(b'$');
                rest = &rest[1..];
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

/// The name behind a dollar sign, and the length of the whole.
fn name_after_dollar(text: &[u8]) -> (&[u8], usize) {
    let braced = text.get(1) == Some(&b'{');
    let from = if braced { 2 } else { 1 };
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let length = text[from..].iter().take_while(|byte| is_part(byte)).count();
    let name = &text[from..from + length];
    if name.first().is_none_or(u8::is_ascii_digit) {
        return (b"", 0);
    }
    match (braced, text.get(from + length)) {
        (true, Some(b'}')) => (name, from + length + 1),
        (true, _) => (b"", 0),
        (false, _) => (name, from + length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables
            .iter()
            .map(|(name, value)| (name.into(), value.into()));
        variables.collect()
    }

    #[test]
    fn only_variables_that_are_set_are_filled_in() {
        let environment = environment(&[("PORT", "80"), ("PORT_TLS", "443"), ("EMPTY", "")]);
        for (text, filled_in) in [
            ("listen $PORT;", "listen 80;"),
            ("listen ${PORT};", "listen 80;"),
            ("$PORT_TLS ${PORT}_TLS", "443 80_TLS"),
            (
                "return 301 https://$host$request_uri;",
                "return 301 https://$host$request_uri;",
            ),
            ("<$EMPTY${EMPTY}>", "<>"),
            (
                "$ $$PORT ${ ${PORT ${PORT:-1} $1 $",
                "$ $80 ${ ${PORT ${PORT:-1} $1 $",
            ),
        ] {
            let wanted = wanted(&environment, OsStr::new("")).expect("no filter");
            let out = substituted(text.as_bytes(), &wanted);
            assert_eq!(String::from_utf8_lossy(&out), filled_in, "{text}");
        }
        let filtered = wanted(&environment, OsStr::new("_TLS$")).expect("a filter");
        assert_eq!(substituted(b"$PORT $PORT_TLS", &filtered), b"$PORT 443");
        assert!(wanted(&environment, OsStr::new("(")).is_err());
    }

    #[test]
    fn templates_keep_their_place_below_the_directory() {
        let place = std::env::temp_dir().join(format!("sealane-{}-templates", std::process::id()));
        std::fs::create_dir_all(place.join("from/sites/a")).expect("writable");
        for name in [
            "from/one.conf.template",
            "from/sites/a/two.template",
            "from/three.conf",
            "from/.template",
        ] {
            std::fs::write(place.join(name), "<$VALUE>").expect("writable");
        }
        let path = |name: &str| place.join(name).display().to_string();
        let environment = environment(&[
            ("NGINX_ENVSUBST_TEMPLATE_DIR", &path("from")),
            ("NGINX_ENVSUBST_OUTPUT_DIR", &path("to")),
            ("VALUE", "x"),
        ]);
        fill_in(&environment, &|_| {}).expect("writable");
        for name in ["to/one.conf", "to/sites/a/two"] {
            let text = std::fs::read_to_string(place.join(name)).expect("written");
            assert_eq!(text, "<x>", "{name}");
        }
        assert!(!place.join("to/three.conf").exists());
        assert!(std::fs::read_dir(place.join("to")).expect("there").count() == 2);
        std::fs::remove_dir_all(&place).expect("ours");
    }
}
