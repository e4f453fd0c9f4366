//! Files that are part of a configuration, such as one site: they are read as if their
//! configuration included them.

use super::Reader;
use sealane_conf::survey::{Refusal, RefusalKind, Survey, survey};
use sealane_conf::{Loader, Options};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A block that a part of a configuration may be included in.
struct EnclosingBlock {
    /// As people call it.
    block: &'static str,
    before: &'static str,
    behind: &'static str,
    /// Directives that are not the part's: these, and the `include`.
    directives: usize,
}

const PLACES: [EnclosingBlock; 2] = [
    EnclosingBlock {
        block: "http { }",
        before: "events { }\nhttp {\n",
        behind: "}\n",
        directives: 3,
    },
    EnclosingBlock {
        block: "server { } in http { }",
        before: "events { }\nhttp {\nserver {\n",
        behind: "}\n}\n",
        directives: 4,
    },
];

/// Reads a file on its own or, if it can only be part of a configuration, in the block that
/// it fits best. Returns the block with the findings.
pub(super) fn read(options: &Options, reader: &mut Reader) -> (Survey, Option<&'static str>) {
    let alone = survey(options, reader);
    if !is_part(&alone) {
        return (alone, None);
    }
    let mut best = (alone, None);
    for place in PLACES {
        let file = options.conf_path.clone();
        let quoted = file.display().to_string().replace('\\', "\\\\");
        let quoted = quoted.replace('"', "\\\"");
        let mut around = Around {
            reader,
            outer: beside(&file),
            text: format!("{}include \"{quoted}\";\n{}", place.before, place.behind),
            file,
        };
        let options = Options {
            conf_path: around.outer.clone(),
            ..options.clone()
        };
        let mut found = survey(&options, &mut around);
        found.met.working = found.met.working.saturating_sub(place.directives);
        if misplaced(&found) < misplaced(&best.0) {
            best = (found, Some(place.block));
        }
    }
    best
}

/// A name that cannot be included, because it ends with a line end, in the directory where relative
/// names start: that of the nearest `nginx.conf` above, such as `/etc/nginx` for
/// `/etc/nginx/sites-enabled/one`.
fn beside(file: &Path) -> PathBuf {
    let mut above = file.ancestors().skip(1);
    let directory = above.find(|directory| directory.join("nginx.conf").is_file());
    let directory = directory.or(file.parent()).unwrap_or(file);
    directory.join("part\n")
}

/// Whether the text is not a configuration because it is in the wrong context.
fn is_part(survey: &Survey) -> bool {
    let is_whole = |refusal: &Refusal| refusal.name.is_empty();
    survey.refusals.iter().any(is_whole) && misplaced(survey) > 0
}

/// Directives in a place that is not theirs.
fn misplaced(survey: &Survey) -> usize {
    let refusals = survey.refusals.iter();
    refusals
        .filter(|refusal| refusal.kind == RefusalKind::Misplaced)
        .count()
}

/// The file system with one more file, which includes another.
struct Around<'r> {
    reader: &'r mut Reader,
    outer: PathBuf,
    text: String,
    file: PathBuf,
}

impl Loader for Around<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match path == self.outer {
            true => Ok(self.text.clone().into_bytes()),
            false => self.reader.read(path),
        }
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        // A file whose name looks like a pattern is meant itself.
        match Path::new(pattern) == self.file {
            true => Ok(vec![self.file.clone()]),
            false => self.reader.glob(pattern),
        }
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        self.reader.resolve(host)
    }
}
