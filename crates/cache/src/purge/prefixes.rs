//! Prefixes of keys, found by a key in a time that depends on its length alone.

use super::rules::Mark;

/// The root, which stands for the empty prefix.
const ROOT: u32 = 0;

/// A radix tree: each node adds a piece to the text of its parent, and the pieces of siblings begin
/// with different bytes. Nodes refer to each other by number, so that nothing here is recursive,
/// however prefixes are nested.
#[derive(Debug)]
pub(super) struct PrefixTree {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Node {
    /// What it adds; empty for the root alone.
    piece: Box<[u8]>,
    /// The purge of the text that ends here.
    mark: Option<Mark>,
    /// In the order of the first bytes of their pieces.
    children: Vec<u32>,
}

impl Default for PrefixTree {
    fn default() -> PrefixTree {
        PrefixTree {
            nodes: vec![Node::default()],
            free: Vec::new(),
        }
    }
}

impl PrefixTree {
    /// Whether there is a prefix of this key with such a mark.
    pub(super) fn any(&self, key: &[u8], wanted: impl Fn(Mark) -> bool) -> bool {
        let (mut at, mut rest) = (ROOT, key);
        loop {
            if self.node(at).mark.is_some_and(&wanted) {
                return true;
            }
            let Some(Ok(place)) = rest.first().map(|first| self.place(at, *first)) else {
                return false;
            };
            at = self.node(at).children[place];
            let Some(behind) = rest.strip_prefix(&*self.node(at).piece) else {
                return false;
            };
            rest = behind;
        }
    }

    /// Adds a prefix, or marks it once more.
    pub(super) fn insert(&mut self, prefix: &[u8], mark: Mark) {
        let (mut at, mut rest) = (ROOT, prefix);
        while let Some(first) = rest.first() {
            match self.place(at, *first) {
                Ok(place) => {
                    let child = self.node(at).children[place];
                    let piece = &self.node(child).piece;
                    let common = piece.iter().zip(rest).take_while(|(a, b)| a == b).count();
                    if common < piece.len() {
                        self.split(child, common);
                    }
                    at = child;
                    rest = &rest[common..];
                }
                Err(place) => {
                    let leaf = self.add(Node {
                        piece: rest.into(),
                        ..Node::default()
                    });
                    self.node_mut(at).children.insert(place, leaf);
                    at = leaf;
                    rest = &[];
                }
            }
        }
        let own = &mut self.node_mut(at).mark;
        *own = Some(own.map_or(mark, |before| before.max(mark)));
    }

    /// Takes out a prefix if its mark is no newer than this generation.
    pub(super) fn remove(&mut self, prefix: &[u8], generation: u64) {
        let (mut at, mut rest) = (ROOT, prefix);
        let mut parent = ROOT;
        while let Some(first) = rest.first() {
            let Ok(place) = self.place(at, *first) else {
                return;
            };
            parent = at;
            at = self.node(at).children[place];
            let Some(behind) = rest.strip_prefix(&*self.node(at).piece) else {
                return;
            };
            rest = behind;
        }
        let own = &mut self.node_mut(at).mark;
        if own.is_none_or(|mark| mark.generation > generation) {
            return;
        }
        *own = None;
        if at == ROOT {
            return;
        }
        if self.node(at).children.is_empty() {
            self.unlink(parent, at);
            // What was kept for two children may have one now.
            if parent != ROOT {
                self.join(parent);
            }
        } else {
            self.join(at);
        }
    }

    /// Nodes in use, for tests.
    #[cfg(test)]
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// Where the child is whose piece begins with this byte, or where it would be.
    fn place(&self, at: u32, first: u8) -> Result<usize, usize> {
        let children = &self.node(at).children;
        children.binary_search_by_key(&first, |child| self.node(*child).piece[0])
    }

    fn add(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                // Purges are limited to far fewer.
                (self.nodes.len() - 1) as u32
            }
        }
    }

    /// Divides a node: it keeps the first bytes of its piece, and a new child gets the rest with
    /// all that belongs to it.
    fn split(&mut self, at: u32, bytes: usize) {
        let mut upper = Node {
            piece: self.node(at).piece[..bytes].into(),
            ..Node::default()
        };
        let piece = self.node(at).piece[bytes..].into();
        let lower = Node {
            piece,
            ..std::mem::take(self.node_mut(at))
        };
        upper.children.push(self.add(lower));
        *self.node_mut(at) = upper;
    }

    /// Undoes a division that is no longer needed.
    fn join(&mut self, at: u32) {
        let node = self.node(at);
        if let (None, [child]) = (node.mark, &node.children[..]) {
            let child = *child;
            let lower = std::mem::take(self.node_mut(child));
            let piece = [&*self.node(at).piece, &*lower.piece].concat().into();
            *self.node_mut(at) = Node { piece, ..lower };
            self.free.push(child);
        }
    }

    fn unlink(&mut self, parent: u32, child: u32) {
        *self.node_mut(child) = Node::default();
        self.node_mut(parent).children.retain(|own| *own != child);
        self.free.push(child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn mark(generation: u64) -> Mark {
        Mark {
            generation,
            time_s: 0,
        }
    }

    #[test]
    fn nested_prefixes_need_no_stack() {
        let mut tree = PrefixTree::default();
        let text = vec![b'a'; 60_000];
        for bytes in 1..20_000 {
            tree.insert(&text[..bytes], mark(bytes as u64));
        }
        assert!(tree.any(&text, |mark| mark.generation == 19_999));
        assert!(!tree.any(&text, |mark| mark.generation == 20_000));
        assert!(!tree.any(&text[..100], |mark| mark.generation > 100));
        drop(tree);
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_was_added(
            steps in prop::collection::vec(("[abé]{0,6}", any::<bool>()), 1..60),
            keys in prop::collection::vec("[abéc]{0,8}", 1..20),
        ) {
            let mut tree = PrefixTree::default();
            let mut model = BTreeMap::new();
            for (number, (prefix, adds)) in steps.into_iter().enumerate() {
                let generation = number as u64 + 1;
                if adds {
                    tree.insert(prefix.as_bytes(), mark(generation));
                    model.insert(prefix, generation);
                } else {
                    tree.remove(prefix.as_bytes(), generation);
                    model.remove(&prefix);
                }
                for key in &keys {
                    for since in [0, generation / 2, generation] {
                        let found = tree.any(key.as_bytes(), |mark| mark.generation > since);
                        let expected = model.iter().any(|(prefix, generation)| {
                            key.starts_with(prefix.as_str()) && *generation > since
                        });
                        prop_assert_eq!(found, expected);
                    }
                }
                // No more divisions than prefixes, and the root.
                prop_assert!(tree.nodes() <= 2 * model.len() + 1);
            }
        }
    }
}
