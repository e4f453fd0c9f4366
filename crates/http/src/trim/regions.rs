//! Which elements are open, as far as that decides how text is read.
//!
//! A page is not parsed here: that would take as much memory as the page has elements. What is
//! counted errs on one side only. An element may be taken for open although it has ended, and
//! then white space, comments or what looks like a script stay as they are. Where an end tag
//! might be ignored by a parser, everything that follows is taken for uncertain.

/// Elements whose white space is left alone. Those of code are often styled to show it.
const SPACED: [&[u8]; 5] = [b"pre", b"listing", b"code", b"samp", b"kbd"];

/// Elements that may stand in those without an effect on where they end.
const PHRASING: [&[u8]; 36] = [
    b"a", b"abbr", b"b", b"bdi", b"bdo", b"big", b"br", b"cite", b"code", b"data", b"del", b"dfn",
    b"em", b"font", b"i", b"img", b"input", b"ins", b"kbd", b"label", b"mark", b"nobr", b"q", b"s",
    b"samp", b"small", b"span", b"strike", b"strong", b"sub", b"sup", b"time", b"tt", b"u", b"var",
    b"wbr",
];

/// Elements of SVG and MathML in which HTML may follow; `title` is read as text or not at all.
const INTEGRATING: [&[u8]; 8] = [
    b"foreignobject",
    b"desc",
    b"annotation-xml",
    b"mi",
    b"mo",
    b"mn",
    b"ms",
    b"mtext",
];

/// Counts of open elements.
#[derive(Debug, Clone, Default)]
pub(super) struct Regions {
    svg: u32,
    math: u32,
    tables: u32,
    in_select: bool,
    in_template: bool,
    /// The last tag began the element of this number in [`INTEGRATING`].
    integrating: Option<usize>,
    spaced: [u32; SPACED.len()],
    /// Whether a tag makes a parser read text differently is not known any more.
    uncertain: bool,
    /// It is not known any more where the white space ends that is left alone.
    keeps_space: bool,
    /// It is not known any more where tables end.
    tables_uncertain: bool,
}

impl Regions {
    /// A start tag.
    pub(super) fn start(&mut self, name: &[u8], self_closing: bool) {
        let foreign = self.is_foreign();
        self.uncertain |= self.integrating.take().is_some();
        // A `pre` in another one ends with its own end tag.
        let nests = name == SPACED[0] && self.spaced[0] == self.spaces();
        if self.spaces() > 0 && !nests && !PHRASING.contains(&name) {
            self.keeps_space = true;
        }
        match name {
            b"svg" if !self_closing => self.svg = self.svg.saturating_add(1),
            b"math" if !self_closing => self.math = self.math.saturating_add(1),
            b"table" => self.tables = self.tables.saturating_add(1),
            b"select" => self.in_select = true,
            b"frameset" => self.uncertain = true,
            b"template" => {
                self.in_template = true;
                // Rows may stand in it without a table.
                self.tables_uncertain = true;
                self.uncertain |= self.in_select || foreign;
            }
            // The contents of a template may be those of a group of columns, where nothing else
            // is taken.
            b"col" | b"colgroup" if self.in_template => self.uncertain = true,
            _ => {
                if foreign && !self_closing {
                    self.integrating = INTEGRATING.iter().position(|one| *one == name);
                }
                if let Some(at) = SPACED.iter().position(|spaced| *spaced == name) {
                    self.spaced[at] = self.spaced[at].saturating_add(1);
                }
            }
        }
    }

    /// An end tag.
    pub(super) fn end(&mut self, name: &[u8]) {
        // Without a tag in it, it was as good as text.
        let integrated = self.integrating.take();
        self.uncertain |= integrated.is_some_and(|at| INTEGRATING[at] != name);
        match name {
            b"svg" => self.svg = self.svg.saturating_sub(1),
            b"math" => self.math = self.math.saturating_sub(1),
            b"table" => self.tables = self.tables.saturating_sub(1),
            b"select" => self.in_select = false,
            _ => {
                if let Some(at) = SPACED.iter().position(|spaced| *spaced == name) {
                    self.spaced[at] = self.spaced[at].saturating_sub(1);
                }
            }
        }
    }

    /// A style says that white space is to be seen.
    pub(super) fn keep_space(&mut self) {
        self.keeps_space = true;
    }

    /// White space and comments stay as they are.
    pub(super) fn keeps_space(&self) -> bool {
        self.keeps_space || self.spaces() > 0 || self.is_foreign()
    }

    /// Text may be moved out of a table.
    pub(super) fn may_be_in_table(&self) -> bool {
        self.tables > 0 || self.tables_uncertain
    }

    /// Elements such as `style` may be those of SVG or MathML, whose contents are markup, or be
    /// ignored.
    pub(super) fn may_ignore_elements(&self) -> bool {
        self.is_foreign() || self.in_select || self.uncertain
    }

    /// There may be CDATA sections.
    pub(super) fn may_be_foreign(&self) -> bool {
        self.is_foreign() || self.uncertain
    }

    fn is_foreign(&self) -> bool {
        self.svg > 0 || self.math > 0
    }

    fn spaces(&self) -> u32 {
        self.spaced
            .iter()
            .fold(0, |all, some| all.saturating_add(*some))
    }
}
