//! Text filters, while a block is read.

use super::MediaTypesDraft;
use crate::model::{
    Addition, Charset, CharsetName, EchoAround, Footer, List, Replacements, Ssi, SubFilter,
    Template, TextFilters, Trim,
};
use std::sync::Arc;

/// The directives of [`TextFilters`].
#[derive(Debug, Default, Clone)]
pub(crate) struct TextFiltersDraft {
    pub(crate) replacements: Option<Arc<Replacements>>,
    pub(crate) sub_once: Option<bool>,
    pub(crate) sub_last_modified: Option<bool>,
    pub(crate) sub_types: Option<MediaTypesDraft>,
    pub(crate) before_body: Option<Arc<[u8]>>,
    pub(crate) after_body: Option<Arc<[u8]>>,
    pub(crate) addition_types: Option<MediaTypesDraft>,
    pub(crate) footer: Option<Template>,
    pub(crate) echo_before: Option<List<Template>>,
    pub(crate) echo_after: Option<List<Template>>,
    pub(crate) footer_types: Option<MediaTypesDraft>,
    pub(crate) trim: Option<Template>,
    pub(crate) trim_js: Option<Template>,
    pub(crate) trim_css: Option<Template>,
    pub(crate) trim_types: Option<MediaTypesDraft>,
    /// `Some(None)`: off.
    pub(crate) charset: Option<Option<CharsetName>>,
    pub(crate) source_charset: Option<CharsetName>,
    pub(crate) override_charset: Option<bool>,
    pub(crate) charset_types: Option<MediaTypesDraft>,
    pub(crate) ssi: Option<bool>,
    pub(crate) ssi_last_modified: Option<bool>,
    pub(crate) ssi_silent_errors: Option<bool>,
    pub(crate) ssi_types: Option<MediaTypesDraft>,
    pub(crate) ssi_value_length: Option<u64>,
}

const HTML: &[&str] = &["text/html"];

const CHARSET_TYPES: &[&str] = &[
    "text/html",
    "text/xml",
    "text/plain",
    "text/vnd.wap.wml",
    "application/javascript",
    "application/rss+xml",
];

impl TextFiltersDraft {
    /// Takes what is not set here from the enclosing block.
    pub(crate) fn inherit(&mut self, outer: &TextFiltersDraft) {
        fn take<T: Clone>(own: &mut Option<T>, outer: &Option<T>) {
            if own.is_none() {
                own.clone_from(outer);
            }
        }
        take(&mut self.replacements, &outer.replacements);
        take(&mut self.sub_once, &outer.sub_once);
        take(&mut self.sub_last_modified, &outer.sub_last_modified);
        take(&mut self.sub_types, &outer.sub_types);
        take(&mut self.before_body, &outer.before_body);
        take(&mut self.after_body, &outer.after_body);
        take(&mut self.addition_types, &outer.addition_types);
        take(&mut self.footer, &outer.footer);
        take(&mut self.echo_before, &outer.echo_before);
        take(&mut self.echo_after, &outer.echo_after);
        take(&mut self.footer_types, &outer.footer_types);
        take(&mut self.trim, &outer.trim);
        take(&mut self.trim_js, &outer.trim_js);
        take(&mut self.trim_css, &outer.trim_css);
        take(&mut self.trim_types, &outer.trim_types);
        take(&mut self.charset, &outer.charset);
        take(&mut self.source_charset, &outer.source_charset);
        take(&mut self.override_charset, &outer.override_charset);
        take(&mut self.charset_types, &outer.charset_types);
        take(&mut self.ssi, &outer.ssi);
        take(&mut self.ssi_last_modified, &outer.ssi_last_modified);
        take(&mut self.ssi_silent_errors, &outer.ssi_silent_errors);
        take(&mut self.ssi_types, &outer.ssi_types);
        take(&mut self.ssi_value_length, &outer.ssi_value_length);
    }

    /// What holds.
    pub(crate) fn build(&self) -> TextFilters {
        let sub = self.replacements.as_ref().map(|replacements| {
            Arc::new(SubFilter {
                replacements: Arc::clone(replacements),
                once: self.sub_once.unwrap_or(true),
                last_modified: self.sub_last_modified.unwrap_or(false),
                types: MediaTypesDraft::built(&self.sub_types, HTML),
            })
        });
        let (before, after) = (path(&self.before_body), path(&self.after_body));
        let adds = !before.is_empty() || !after.is_empty();
        let addition = adds.then(|| {
            Arc::new(Addition {
                before,
                after,
                types: MediaTypesDraft::built(&self.addition_types, HTML),
            })
        });
        let footer = self.footer.as_ref().filter(|text| !text.is_empty());
        let footer = footer.map(|text| {
            Arc::new(Footer {
                text: text.clone(),
                types: MediaTypesDraft::built(&self.footer_types, HTML),
            })
        });
        let texts = |texts: &Option<List<Template>>| {
            texts.iter().flatten().cloned().collect::<Box<[Template]>>()
        };
        let (before, after) = (texts(&self.echo_before), texts(&self.echo_after));
        let is_any = !before.is_empty() || !after.is_empty();
        let echo = is_any.then(|| Arc::new(EchoAround { before, after }));
        let named = self.charset.clone().flatten();
        let charset = (named.is_some() || self.source_charset.is_some()).then(|| {
            Arc::new(Charset {
                named,
                source: self.source_charset.clone(),
                override_charset: self.override_charset.unwrap_or(false),
                types: MediaTypesDraft::built(&self.charset_types, CHARSET_TYPES),
            })
        });
        let ssi = self.ssi.unwrap_or(false).then(|| {
            Arc::new(Ssi {
                last_modified: self.ssi_last_modified.unwrap_or(false),
                silent_errors: self.ssi_silent_errors.unwrap_or(false),
                value_bytes: self.ssi_value_length.unwrap_or(255),
                types: MediaTypesDraft::built(&self.ssi_types, HTML),
            })
        });
        TextFilters {
            sub,
            addition,
            echo,
            footer,
            trim: self.trim(),
            charset,
            ssi,
        }
    }
}

impl TextFiltersDraft {
    fn trim(&self) -> Option<Arc<Trim>> {
        let may_be_on = |switch: &&Template| switch.as_literal().is_none_or(|text| text == b"on");
        let switch = |written: &Option<Template>| written.as_ref().filter(may_be_on).cloned();
        Some(Arc::new(Trim {
            enabled: switch(&self.trim)?,
            scripts: switch(&self.trim_js),
            styles: switch(&self.trim_css),
            types: MediaTypesDraft::built(&self.trim_types, HTML),
        }))
    }
}

fn path(written: &Option<Arc<[u8]>>) -> Arc<[u8]> {
    written.clone().unwrap_or_default()
}
