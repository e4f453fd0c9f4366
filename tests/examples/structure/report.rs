//! What is printed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::crates::Crate;
use crate::uses::{Uses, largest_circle, uses};

const COLUMNS: [&str; 5] = ["lines", "without tests", "files", "circle", "names"];

const LEGEND: &str = "lines, without tests: of src; files: without tests; circle: files in the \
     largest set that all use each other;\nnames: of types that are declared more than once in a \
     crate\n";

struct Measured {
    figures: [usize; COLUMNS.len()],
    /// Names of types that are declared more than once, and the files they stand in.
    repeated: BTreeMap<String, Vec<String>>,
}

impl Measured {
    fn of(read: &Crate) -> Self {
        let circle = largest_circle(&uses(read)).len();
        let repeated = read.types.iter().filter(|(_, files)| files.len() > 1);
        let repeated: BTreeMap<_, _> = repeated
            .map(|(name, files)| (name.clone(), files.clone()))
            .collect();
        Self {
            figures: [
                read.all_lines,
                read.lines,
                read.files.len(),
                circle,
                repeated.len(),
            ],
            repeated,
        }
    }
}

pub(crate) fn one(tree: &Path) -> Result<String, String> {
    let measured = measure(tree)?;
    let cells = measured
        .iter()
        .map(|(name, measured)| (name.as_str(), measured.figures.map(|n| n.to_string())));
    let mut text = table(cells);
    text.push_str(LEGEND);
    names(&mut text, &measured);
    Ok(text)
}

pub(crate) fn two(old: &Path, new: &Path) -> Result<String, String> {
    let (old, new) = (measure(old)?, measure(new)?);
    let mut crates: Vec<&str> = old.keys().chain(new.keys()).map(String::as_str).collect();
    crates.sort_unstable();
    crates.dedup();
    let figure = |of: &BTreeMap<String, Measured>, name: &str, column: usize| {
        of.get(name)
            .map_or("-".to_owned(), |found| found.figures[column].to_string())
    };
    let cells = crates.into_iter().map(|name| {
        let both = std::array::from_fn(|column| {
            let (old, new) = (figure(&old, name, column), figure(&new, name, column));
            if old == new {
                new
            } else {
                format!("{old} > {new}")
            }
        });
        (name, both)
    });
    let mut text = table(cells);
    text.push_str(LEGEND);
    names(&mut text, &new);
    Ok(text)
}

/// The files of the largest circle of a crate, each with those of the circle that it uses.
pub(crate) fn circle(tree: &Path, name: &str) -> Result<String, String> {
    let read = Crate::read(&tree.join("crates").join(name))?;
    let uses: Uses = uses(&read);
    let circle = largest_circle(&uses);
    let mut text = String::new();
    for file in &circle {
        let used = uses[file].intersection(&circle);
        let used: Vec<&str> = used.map(|file| read.files[*file].as_str()).collect();
        line(
            &mut text,
            &format!("{}\n    {}", read.files[*file], used.join("\n    ")),
        );
    }
    Ok(text)
}

fn measure(tree: &Path) -> Result<BTreeMap<String, Measured>, String> {
    let directory = tree.join("crates");
    let failed = |error| format!("{}: {error}", directory.display());
    let mut measured = BTreeMap::new();
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join("src").is_dir() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            measured.insert(name.into_owned(), Measured::of(&Crate::read(&path)?));
        }
    }
    Ok(measured)
}

fn table<'a>(rows: impl Iterator<Item = (&'a str, [String; COLUMNS.len()])>) -> String {
    let mut text = String::new();
    let rows: Vec<_> = rows.collect();
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|(_, cells)| cells[column].len());
        cells.chain([COLUMNS[column].len()]).max().unwrap_or(0)
    });
    let mut row = |name: &str, cells: [&str; COLUMNS.len()]| {
        let cells = cells.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("  {cell:>width$}"));
        line(
            &mut text,
            &format!("{name:10}{}", cells.collect::<String>()),
        );
    };
    row("crate", COLUMNS);
    for (name, cells) in &rows {
        row(name, cells.each_ref().map(String::as_str));
    }
    text
}

fn names(text: &mut String, measured: &BTreeMap<String, Measured>) {
    for (name, measured) in measured {
        for (type_name, files) in &measured.repeated {
            line(text, &format!("{name}: {type_name}: {}", files.join(", ")));
        }
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}
