//! Values with variables in them (nginx's "complex values").

use std::fmt;
use std::sync::Arc;

/// A compiled value: literal text and variables in turn. Cloning shares it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Template {
    parts: Arc<[Part]>,
}

/// One piece of a [`Template`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Literal text.
    Literal(Box<[u8]>),
    /// A variable whose value is taken when the template is evaluated.
    Variable(Variable),
}

impl Template {
    /// A template of the given parts; adjacent literals should be joined already.
    pub fn new(parts: Vec<Part>) -> Template {
        Template {
            parts: parts.into(),
        }
    }

    /// A template that is just text.
    pub fn literal(text: impl AsRef<[u8]>) -> Template {
        let text = text.as_ref();
        if text.is_empty() {
            return Template {
                parts: Arc::new([]),
            };
        }
        Template {
            parts: Arc::new([Part::Literal(text.into())]),
        }
    }

    /// The parts in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The text, if the template contains no variable.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the template is empty text.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Template(\"")?;
        for part in &*self.parts {
            match part {
                Part::Literal(text) => write!(f, "{}", text.escape_ascii())?,
                Part::Variable(v) => write!(f, "${{{v:?}}}")?,
            }
        }
        f.write_str("\")")
    }
}

/// A variable as a template names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// A variable with a fixed name; the table is in [`crate::variables`].
    Builtin(crate::variables::Builtin),
    /// `$http_NAME`: request header; the name in lower case with `_` for `-`.
    RequestHeader(Box<str>),
    /// `$sent_http_NAME`: response header.
    ResponseHeader(Box<str>),
    /// `$sent_trailer_NAME`: response trailer.
    ResponseTrailer(Box<str>),
    /// `$arg_NAME`: argument of the request line.
    Argument(Box<str>),
    /// `$cookie_NAME`: cookie of the request.
    Cookie(Box<str>),
    /// `$upstream_http_NAME`: header of the response that another server gave; the
    /// name in lower case with `_` for `-`.
    UpstreamHeader(Box<str>),
    /// `$upstream_trailer_NAME`: trailer of such a response.
    UpstreamTrailer(Box<str>),
    /// `$upstream_cookie_NAME`: cookie that such a response sets.
    UpstreamCookie(Box<str>),
    /// `$proxy_protocol_tlv_NAME`: a TLV of the PROXY protocol header that the
    /// connection began with.
    ProxyProtocolTlv(Box<str>),
    /// A variable of `stream`.
    Stream(crate::variables::StreamVariable),
    /// `$1` to `$9` (and `$0`): capture of the last regular expression.
    Capture(u8),
    /// `$name` of a variable that the configuration defines: an index into
    /// [`super::Http::variables`].
    User(u16),
}
