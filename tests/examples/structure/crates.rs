//! Reads the modules of a crate: what each declares, what it takes in with `use`, and which paths
//! stand in its code.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::paths;

/// A crate as far as its own sources say.
#[derive(Default)]
pub(crate) struct Crate {
    /// Relative to the crate, such as `src/lib.rs`.
    pub(crate) files: Vec<String>,
    pub(crate) modules: Vec<Module>,
    /// Lines of everything in `src`, tests included.
    pub(crate) all_lines: usize,
    /// Lines of `files` without the modules and items in them that are tests.
    pub(crate) lines: usize,
    /// For each name of a type the files that declare one, outside of tests.
    pub(crate) types: BTreeMap<String, Vec<String>>,
}

/// A module that is no test.
#[derive(Default)]
pub(crate) struct Module {
    /// Index of the file that it stands in. Several modules may stand in one.
    pub(crate) file: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) children: HashMap<String, usize>,
    /// Names of functions, types, constants, macros.
    pub(crate) items: HashSet<String>,
    /// What `use` brings in under a name. The same name may be a type and a module.
    pub(crate) imports: HashMap<String, Vec<Vec<String>>>,
    /// `use path::*`.
    pub(crate) globs: Vec<Vec<String>>,
    /// Every path in code.
    pub(crate) paths: BTreeSet<Vec<String>>,
}

impl Crate {
    /// Reads the crate in `directory`. A library and a program beside it are two roots.
    pub(crate) fn read(directory: &Path) -> Result<Self, String> {
        let mut result = Self::default();
        for root in ["src/lib.rs", "src/main.rs"] {
            if directory.join(root).exists() {
                result.read_file(directory, root, None)?;
            }
        }
        result.all_lines = lines_below(&directory.join("src"))?;
        Ok(result)
    }

    /// Reads a file and those of its modules. Gives the index of its module.
    fn read_file(
        &mut self,
        directory: &Path,
        name: &str,
        parent: Option<usize>,
    ) -> Result<usize, String> {
        let path = directory.join(name);
        let text = read(&path)?;
        let file = syn::parse_file(&text).map_err(|error| {
            let start = error.span().start();
            format!("{}:{}: {error}", path.display(), start.line)
        })?;
        self.files.push(name.to_owned());
        self.lines += text.lines().count();
        let module = self.add_module(self.files.len() - 1, parent);
        self.read_items(directory, module, name_of_children(name), file.items)?;
        Ok(module)
    }

    fn add_module(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }

    /// `below` is where the files of child modules are.
    fn read_items(
        &mut self,
        directory: &Path,
        module: usize,
        below: PathBuf,
        items: Vec<syn::Item>,
    ) -> Result<(), String> {
        for item in items {
            if is_test(attributes(&item)) {
                let span = item.span();
                self.lines -= span.end().line - span.start().line + 1;
                continue;
            }
            let syn::Item::Mod(child) = item else {
                self.read_item(module, &item);
                continue;
            };
            let name = child.ident.to_string();
            if name == "tests" {
                continue;
            }
            let path = below.join(&name);
            let index = match child.content {
                Some((_, items)) => {
                    let index = self.add_module(self.modules[module].file, Some(module));
                    self.read_items(directory, index, path, items)?;
                    index
                }
                None => {
                    let files = [path.with_extension("rs"), path.join("mod.rs")];
                    let file = files.iter().find(|file| directory.join(file).exists());
                    let file = file.ok_or_else(|| format!("no file of mod {}", path.display()))?;
                    self.read_file(directory, &file.display().to_string(), Some(module))?
                }
            };
            self.modules[module].children.insert(name, index);
        }
        Ok(())
    }

    fn read_item(&mut self, module: usize, item: &syn::Item) {
        let file = self.files[self.modules[module].file].clone();
        let module = &mut self.modules[module];
        module.items.extend(paths::name(item));
        let mut reader = Reader {
            module,
            file,
            types: &mut self.types,
            tests: 0,
        };
        reader.visit_item(item);
        self.lines -= reader.tests;
    }
}

/// Collects what stands inside an item, functions and their own `use` included.
struct Reader<'a> {
    module: &'a mut Module,
    file: String,
    types: &'a mut BTreeMap<String, Vec<String>>,
    /// Lines of things inside that are tests.
    tests: usize,
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test(attributes(item)) {
            return;
        }
        let is_type = matches!(
            item,
            syn::Item::Struct(_)
                | syn::Item::Enum(_)
                | syn::Item::Trait(_)
                | syn::Item::Type(_)
                | syn::Item::Union(_)
        );
        if let Some(name) = paths::name(item).filter(|_| is_type) {
            self.types.entry(name).or_default().push(self.file.clone());
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item(&mut self, item: &'ast syn::ImplItem) {
        let attributes: &[syn::Attribute] = match item {
            syn::ImplItem::Const(item) => &item.attrs,
            syn::ImplItem::Fn(item) => &item.attrs,
            syn::ImplItem::Type(item) => &item.attrs,
            _ => &[],
        };
        if is_test(attributes) {
            let span = item.span();
            self.tests += span.end().line - span.start().line + 1;
            return;
        }
        visit::visit_impl_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut path = Vec::new();
        paths::imports(&item.tree, &mut path, self.module);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let path_of = segments.map(|segment| segment.ident.to_string()).collect();
        if path.leading_colon.is_none() {
            self.module.paths.insert(path_of);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::module)` says who may use it, and uses nothing.
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.visit_path(&item.path);
        paths::in_tokens(item.tokens.clone(), &mut self.module.paths);
    }
}

/// Where the files of the child modules of a file are.
fn name_of_children(file: &str) -> PathBuf {
    let path = Path::new(file);
    match path.file_name().and_then(|name| name.to_str()) {
        Some("lib.rs" | "main.rs" | "mod.rs") => path.with_file_name(""),
        _ => path.with_extension(""),
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn lines_below(directory: &Path) -> Result<usize, String> {
    let failed = |error| format!("{}: {error}", directory.display());
    let mut lines = 0;
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            lines += lines_below(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            lines += read(&path)?.lines().count();
        }
    }
    Ok(lines)
}

/// Whether an item is there in tests only.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_only_for_tests = |list: &syn::MetaList| {
            let text = list.tokens.to_string();
            let mut conditions = text.trim_start_matches("all").split(['(', ')', ',']);
            let is_simple = !text.starts_with("any") && !text.starts_with("not");
            is_simple && conditions.any(|condition| condition.trim() == "test")
        };
        match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("cfg") && is_only_for_tests(list),
            syn::Meta::Path(path) => path.is_ident("test"),
            syn::Meta::NameValue(_) => false,
        }
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
