//! Names and paths in syntax trees and in the tokens of macros.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use syn::{Item, UseTree};

use crate::crates::Module;

/// What an item can be called by from elsewhere.
pub(crate) fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Adds what a tree of `use` brings in to `module`. `path` is what stands before the tree.
pub(crate) fn imports(tree: &UseTree, path: &mut Vec<String>, module: &mut Module) {
    let mut import = |name: String, path: &[String]| {
        let paths = module.imports.entry(name).or_default();
        paths.push(path.to_vec());
    };
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            imports(&tree.tree, path, module);
            path.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                imports(tree, path, module);
            }
        }
        UseTree::Glob(_) => module.globs.push(path.clone()),
        UseTree::Name(tree) if tree.ident == "self" => {
            import(path.last().cloned().unwrap_or_default(), path);
        }
        UseTree::Rename(tree) if tree.ident == "self" => import(tree.rename.to_string(), path),
        UseTree::Name(tree) => {
            path.push(tree.ident.to_string());
            import(tree.ident.to_string(), path);
            path.pop();
        }
        UseTree::Rename(tree) => {
            path.push(tree.ident.to_string());
            import(tree.rename.to_string(), path);
            path.pop();
        }
    }
}

/// Adds the paths that stand in `tokens`, which nothing but the macro itself could parse.
pub(crate) fn in_tokens(tokens: TokenStream, paths: &mut BTreeSet<Vec<String>>) {
    let mut path: Vec<String> = Vec::new();
    // How many colons came after the last name. A name after a dot is a field or a method.
    let mut colons = 0;
    let mut after_dot = false;
    for token in tokens {
        match token {
            TokenTree::Ident(name) => {
                if colons != 2 {
                    paths.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
                }
                if !after_dot {
                    path.push(name.to_string());
                }
                (colons, after_dot) = (0, false);
                continue;
            }
            TokenTree::Punct(punctuation) if punctuation.as_char() == ':' && !path.is_empty() => {
                colons += 1;
                continue;
            }
            TokenTree::Group(group) => in_tokens(group.stream(), paths),
            TokenTree::Punct(ref punctuation) => {
                after_dot = punctuation.as_char() == '.';
            }
            TokenTree::Literal(_) => after_dot = false,
        }
        paths.extend((!path.is_empty()).then(|| std::mem::take(&mut path)));
        colons = 0;
    }
    paths.extend((!path.is_empty()).then_some(path));
}
