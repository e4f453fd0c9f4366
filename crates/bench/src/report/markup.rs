//! HTML that is also XML, so that a strict parser can check it.

use std::fmt::Write;

/// `text` as the content of an element or of a quoted attribute. Characters that XML does not allow
/// are replaced.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' => escaped.push(character),
            '\0'..' ' | '\u{7f}'..'\u{a0}' | '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Adds `<name attributes>text</name>` with escaped text; `attributes` are written as they are.
pub(super) fn element(output: &mut String, name: &str, attributes: &str, text: &str) {
    let space = if attributes.is_empty() { "" } else { " " };
    let text = escaped(text);
    let _ = writeln!(output, "<{name}{space}{attributes}>{text}</{name}>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_text() {
        assert_eq!(
            escaped("<b a='x' c=\"y\">&amp;</b>"),
            "&lt;b a=&#39;x&#39; c=&quot;y&quot;&gt;&amp;amp;&lt;/b&gt;"
        );
        assert_eq!(
            escaped("a\u{1}\u{1b}[0m\u{85}\n\u{ffff}é"),
            "a\u{fffd}\u{fffd}[0m\u{fffd}\n\u{fffd}é"
        );
        let mut output = String::new();
        element(&mut output, "td", "class=\"x\"", "1 < 2");
        element(&mut output, "p", "", "");
        assert_eq!(output, "<td class=\"x\">1 &lt; 2</td>\n<p></p>\n");
    }
}
