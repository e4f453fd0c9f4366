//! Which file uses which, and the circles in that.

use std::collections::{BTreeMap, BTreeSet};

use crate::crates::Crate;

/// For each file (by index) those it uses.
pub(crate) type Uses = BTreeMap<usize, BTreeSet<usize>>;

/// Where a path leads.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// Something that is declared in this file.
    Item(usize),
}

/// How many re-exports a path may lead over; globs may lead in circles.
const STEPS: u32 = 16;

pub(crate) fn uses(of: &Crate) -> Uses {
    let mut uses = Uses::new();
    for (index, module) in of.modules.iter().enumerate() {
        let used = uses.entry(module.file).or_default();
        let imports = module.imports.values().flatten();
        let mut add = |path: &[String], names_modules: bool| {
            match find(of, index, path, STEPS) {
                Some(Target::Item(file)) => used.insert(file),
                // A local variable may be called like a module: a name alone in code is none.
                Some(Target::Module(module)) if names_modules => {
                    used.insert(of.modules[module].file)
                }
                _ => false,
            };
        };
        imports.for_each(|path| add(path, true));
        module.globs.iter().for_each(|path| add(path, true));
        module
            .paths
            .iter()
            .for_each(|path| add(path, path.len() > 1));
        used.remove(&module.file);
    }
    uses
}

/// Follows a path that stands in `module`. `None` if it leads out of the crate.
fn find(of: &Crate, module: usize, path: &[String], steps: u32) -> Option<Target> {
    let steps = steps.checked_sub(1)?;
    let (first, mut rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => Target::Module(root(of, module)),
        "self" => Target::Module(module),
        "super" => Target::Module(of.modules[module].parent?),
        name => lookup(of, module, name, !rest.is_empty(), steps)?,
    };
    while let (Target::Module(module), Some((name, after))) = (at, rest.split_first()) {
        at = match name.as_str() {
            "self" => at,
            "super" => Target::Module(of.modules[module].parent?),
            name => lookup(of, module, name, !after.is_empty(), steps)
                // What a macro declares has no name here: it is in the file of the module.
                .unwrap_or(Target::Item(of.modules[module].file)),
        };
        rest = after;
    }
    Some(at)
}

/// What `name` means in a module. If more of a path follows, a module comes before an item.
fn lookup(of: &Crate, module: usize, name: &str, more: bool, steps: u32) -> Option<Target> {
    let here = &of.modules[module];
    let child = here.children.get(name).map(|child| Target::Module(*child));
    let item = here.items.contains(name).then_some(Target::Item(here.file));
    let imported = || {
        let mut paths = here.imports.get(name)?.iter();
        paths.find_map(|path| find(of, module, path, steps))
    };
    let by_glob = || {
        let mut globs = here.globs.iter();
        globs.find_map(|path| match find(of, module, path, steps)? {
            Target::Module(other) if other != module => {
                lookup(of, other, name, more, steps.checked_sub(1)?)
            }
            _ => None,
        })
    };
    let (first, second) = if more { (child, item) } else { (item, child) };
    first.or_else(imported).or(second).or_else(by_glob)
}

fn root(of: &Crate, mut module: usize) -> usize {
    while let Some(parent) = of.modules[module].parent {
        module = parent;
    }
    module
}

/// The largest set of files that all use each other, over any number of steps. Empty if there is
/// no circle at all.
pub(crate) fn largest_circle(uses: &Uses) -> BTreeSet<usize> {
    let reachable: BTreeMap<usize, BTreeSet<usize>> = uses
        .keys()
        .map(|file| (*file, reached_from(uses, *file)))
        .collect();
    let circle_of = |file: &usize| -> BTreeSet<usize> {
        let reached = reachable[file].iter();
        let back = reached.filter(|other| reachable[*other].contains(file));
        back.copied().collect()
    };
    let circles = uses.keys().map(circle_of);
    circles.max_by_key(BTreeSet::len).unwrap_or_default()
}

fn reached_from(uses: &Uses, start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(file) = open.pop() {
        let next = uses[&file].iter().filter(|next| reached.insert(**next));
        open.extend(next);
    }
    reached
}
