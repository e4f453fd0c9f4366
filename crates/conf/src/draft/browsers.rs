//! `modern_browser` and `ancient_browser`, as written on a level.

use crate::model::{BrowserFamily, Browsers, ModernBrowser};
use std::sync::Arc;

/// What is set on a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct BrowsersDraft {
    pub(crate) modern: Option<ModernDraft>,
    pub(crate) ancient: Option<AncientDraft>,
    pub(crate) modern_value: Option<Box<[u8]>>,
    pub(crate) ancient_value: Option<Box<[u8]>>,
}

/// All `modern_browser` of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct ModernDraft {
    pub(crate) listed: Vec<ModernBrowser>,
    pub(crate) unlisted: bool,
}

/// All `ancient_browser` of a level.
#[derive(Debug, Default, Clone)]
pub(crate) struct AncientDraft {
    pub(crate) texts: Vec<Box<[u8]>>,
    pub(crate) netscape4: bool,
}

impl BrowsersDraft {
    /// What holds; `None` where that is what nginx does without any of it.
    pub(crate) fn finish(&self) -> Option<Arc<Browsers>> {
        let ModernDraft { listed, unlisted } = self.modern.clone().unwrap_or_default();
        let ancient = self.ancient.clone().unwrap_or_default();
        let value = |value: &Option<Box<[u8]>>| value.clone().unwrap_or_else(|| b"1"[..].into());
        let browsers = Browsers {
            modern: in_order(listed),
            unlisted_is_modern: unlisted,
            ancient: ancient.texts.into(),
            netscape4_is_ancient: ancient.netscape4,
            modern_value: value(&self.modern_value),
            ancient_value: value(&self.ancient_value),
        };
        (browsers != Browsers::default()).then(|| Arc::new(browsers))
    }
}

/// In the order in which families are told from each other. Opera may call itself MSIE too, so an
/// Opera that is not listed is ancient before anything else is looked for.
fn in_order(mut listed: Vec<ModernBrowser>) -> Box<[ModernBrowser]> {
    let has_opera = |list: &[ModernBrowser]| list.iter().any(|b| b.family == BrowserFamily::Opera);
    if !listed.is_empty() && !has_opera(&listed) {
        listed.push(ModernBrowser {
            family: BrowserFamily::Opera,
            since: None,
        });
    }
    listed.sort_by_key(|browser| browser.family);
    listed.into()
}
