//! Lists that many locations inherit.

use std::ops::Deref;
use std::sync::Arc;

/// A list that is shared by everything that inherits it; read like a slice.
#[derive(Debug, PartialEq, Eq)]
pub struct List<T>(Arc<Vec<T>>);

impl<T: Clone> List<T> {
    /// Adds an element, to this list only.
    pub(crate) fn push(&mut self, element: T) {
        Arc::make_mut(&mut self.0).push(element);
    }
}

impl<T> Clone for List<T> {
    fn clone(&self) -> List<T> {
        List(Arc::clone(&self.0))
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Arc::default())
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(elements: Vec<T>) -> List<T> {
        List(Arc::new(elements))
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> List<T> {
        List(Arc::new(elements.into_iter().collect()))
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'l, T> IntoIterator for &'l List<T> {
    type Item = &'l T;
    type IntoIter = std::slice::Iter<'l, T>;

    fn into_iter(self) -> std::slice::Iter<'l, T> {
        self.0.iter()
    }
}
