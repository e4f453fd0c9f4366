//! Directories and files, each with the inode by which the kernel knows it.

use sealane_conf::model::{Part, Template};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Paths, with device and inode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places(BTreeMap<PathBuf, (u64, u64)>);

impl Places {
    /// If it is there, and a directory.
    pub(super) fn add_directory(&mut self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|facts| facts.is_dir()) && self.add(path)
    }

    /// The directory, or the one in which it may be made.
    pub(super) fn add_nearest(&mut self, path: &Path) {
        let _ = path.ancestors().find(|path| self.add_directory(path));
    }

    /// What the path leads to and, where it leads through a symbolic link, what the link may be
    /// switched to without anybody telling the server: the neighbours of its target and, if the
    /// target is somewhere below the directory of the link, everything there. (`current ->
    /// releases/42` becomes `releases/43`, or `blue` becomes `green`.)
    ///
    /// Never everything there is: whoever switches `/www -> /disk` has to reload.
    pub(super) fn add_with_neighbours(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else {
            return;
        };
        self.add(&real);
        for Link { directory, target } in links_on(path) {
            let below = target.starts_with(&directory).then_some(&*directory);
            for place in below.into_iter().chain(target.parent()) {
                if place.parent().is_some() {
                    self.add(place);
                }
            }
        }
    }

    /// A file that is replaced where a link leads to.
    pub(super) fn add_file(&mut self, path: &Path) {
        let Ok(real) = fs::canonicalize(path) else {
            return;
        };
        match real.parent() {
            Some(directory) if real != path && directory.parent().is_some() => {
                self.add(directory);
            }
            _ => {
                self.add(&real);
            }
        }
    }

    fn add(&mut self, path: &Path) -> bool {
        let Ok(facts) = fs::metadata(path) else {
            return false;
        };
        self.0
            .insert(path.to_owned(), (facts.dev(), facts.ino()))
            .is_none_or(|_| true)
    }

    /// Leaves out what is below something else.
    pub(super) fn without_what_is_below(self) -> Places {
        let is_top = |path: &Path| {
            let mut above = path.ancestors().skip(1);
            !above.any(|directory| self.0.contains_key(directory))
        };
        let all = self.0.iter().filter(|(path, _)| is_top(path));
        Places(all.map(|(path, id)| (path.clone(), *id)).collect())
    }

    /// Whether all the others are here, and still are what they were.
    pub(super) fn cover(&self, others: &Places) -> bool {
        let is_here = |(path, id)| self.0.get(path) == Some(id);
        others.0.iter().all(is_here)
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.keys().map(PathBuf::as_path)
    }

    /// For messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.paths().map(Path::to_string_lossy).collect();
        names.join(", ")
    }
}

/// A symbolic link on a path.
struct Link {
    /// Where the link is.
    directory: PathBuf,
    /// Where it leads.
    target: PathBuf,
}

/// The links on an absolute path, up to the first name that is missing.
fn links_on(path: &Path) -> Vec<Link> {
    let mut links = Vec::new();
    let mut real = PathBuf::from("/");
    for name in path.components() {
        match name {
            Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            Component::ParentDir => {
                real.pop();
            }
            Component::Normal(name) => {
                let entry = real.join(name);
                match fs::symlink_metadata(&entry) {
                    Ok(facts) if facts.is_symlink() => {
                        let Ok(target) = fs::canonicalize(&entry) else {
                            return links;
                        };
                        links.push(Link {
                            directory: real,
                            target: target.clone(),
                        });
                        real = target;
                    }
                    Ok(_) => real = entry,
                    Err(_) => return links,
                }
            }
        }
    }
    links
}

/// The directory that all values of a path lie in.
pub(super) fn known_part(path: &Template) -> PathBuf {
    let literal = match path.parts() {
        [] => return "/".into(), // "root /"
        [Part::Literal(whole)] => return OsStr::from_bytes(whole).into(),
        [Part::Literal(beginning), ..] => &**beginning,
        [Part::Variable(_), ..] => &[],
    };
    let end = literal.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    let directory = OsStr::from_bytes(&literal[..end]);
    if directory.is_empty() {
        "/".into()
    } else {
        directory.into()
    }
}

/// The directory that the files at all values of a path lie in.
pub(super) fn directory_of(path: &Template) -> PathBuf {
    match path.as_literal() {
        Some(file) => {
            let file = Path::new(OsStr::from_bytes(file));
            file.parent().unwrap_or(file).to_owned()
        }
        None => known_part(path),
    }
}

#[cfg(test)]
mod tests;
