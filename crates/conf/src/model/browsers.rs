//! Which browsers are taken for modern or ancient, by `User-Agent`.

/// `modern_browser`, `ancient_browser` and their values, as they hold in a location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Browsers {
    /// `modern_browser`: in the order in which they are looked for.
    pub modern: Box<[ModernBrowser]>,
    /// `modern_browser unlisted`: whatever is not listed is modern.
    pub unlisted_is_modern: bool,
    /// `ancient_browser`: texts that only ancient browsers send.
    pub ancient: Box<[Box<[u8]>]>,
    /// `ancient_browser netscape4`.
    pub netscape4_is_ancient: bool,
    /// `modern_browser_value`.
    pub modern_value: Box<[u8]>,
    /// `ancient_browser_value`.
    pub ancient_value: Box<[u8]>,
}

impl Default for Browsers {
    /// Every browser is ancient.
    fn default() -> Browsers {
        Browsers {
            modern: Box::default(),
            unlisted_is_modern: false,
            ancient: Box::default(),
            netscape4_is_ancient: false,
            modern_value: b"1"[..].into(),
            ancient_value: b"1"[..].into(),
        }
    }
}

/// A browser, and from which version on it is modern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModernBrowser {
    /// What calls itself so.
    pub family: BrowserFamily,
    /// The first modern version; `None` if no version is.
    pub since: Option<BrowserVersion>,
}

/// Browsers that nginx knows by name. Opera comes first: it also calls itself MSIE.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrowserFamily {
    /// `Opera/7.50` or `Opera 7.50`.
    Opera,
    /// `MSIE 6.0`.
    Msie,
    /// Mozilla's engine: `rv:1.7.8`.
    Gecko,
    /// `Safari/125.7`.
    Safari,
    /// `Konqueror/3.5`.
    Konqueror,
}

/// Up to four numbers, each but the first below 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrowserVersion(u64);

impl BrowserFamily {
    /// The family with this name in the configuration, whatever its case.
    pub fn named(name: &[u8]) -> Option<BrowserFamily> {
        use BrowserFamily as F;
        let named = |(text, family): (&str, F)| {
            name.eq_ignore_ascii_case(text.as_bytes()).then_some(family)
        };
        let known = [
            ("opera", F::Opera),
            ("msie", F::Msie),
            ("gecko", F::Gecko),
            ("safari", F::Safari),
            ("konqueror", F::Konqueror),
        ];
        known.into_iter().find_map(named)
    }

    /// After how many bytes of the header the mark may come, the mark, and at which distance
    /// from its beginning the version stands.
    fn mark(self) -> (usize, &'static [u8], usize) {
        let behind = |text: &str| text.len();
        match self {
            // A slash or a space follows.
            BrowserFamily::Opera => (0, b"Opera", behind("Opera ")),
            BrowserFamily::Msie => (
                behind("Mozilla/4.0 (compatible; "),
                b"MSIE ",
                behind("MSIE "),
            ),
            BrowserFamily::Gecko => (behind("Mozilla/5.0 ("), b"rv:", behind("rv:")),
            BrowserFamily::Safari => (behind("Mozilla/5.0 ("), b"Safari/", behind("Safari/")),
            BrowserFamily::Konqueror => (
                behind("Mozilla/5.0 (compatible; "),
                b"Konqueror/",
                behind("Konqueror/"),
            ),
        }
    }

    /// What follows the mark, from the version on.
    fn version_in(self, agent: &[u8]) -> Option<&[u8]> {
        let (skipped, mark, distance) = self.mark();
        let rest = agent.get(skipped..)?;
        let at = memchr::memmem::find(rest, mark)?;
        rest.get(at + distance..).filter(|rest| !rest.is_empty())
    }
}

impl BrowserVersion {
    /// The version that a text begins with, and the text behind it.
    pub fn parse(text: &[u8]) -> (BrowserVersion, &[u8]) {
        const FIRST_NUMBER: u64 = 1_000_000;
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let end = text.iter().take_while(|byte| is_part(byte)).count();
        let (version, rest) = text.split_at(end);
        let mut total = 0_u64;
        let mut scale = FIRST_NUMBER;
        for part in version.split(|byte| *byte == b'.') {
            let number = part.iter().fold(0_u64, |number, digit| {
                number
                    .saturating_mul(10)
                    .saturating_add(u64::from(digit - b'0'))
            });
            total = total.saturating_add(number.saturating_mul(scale));
            scale /= 100;
        }
        (BrowserVersion(total), rest)
    }
}

impl Browsers {
    /// Whether the browser with this `User-Agent` is modern; every other one is ancient.
    pub fn is_modern(&self, agent: Option<&[u8]>) -> bool {
        let Some(agent) = agent else {
            return self.unlisted_is_modern;
        };
        for browser in &self.modern {
            if let Some(version) = browser.family.version_in(agent) {
                let (version, _) = BrowserVersion::parse(version);
                return browser.since.is_some_and(|since| version >= since);
            }
        }
        self.unlisted_is_modern
            && !(self.netscape4_is_ancient && is_netscape4(agent))
            && !self
                .ancient
                .iter()
                .any(|text| memchr::memmem::find(agent, text).is_some())
    }
}

/// `Mozilla/1` to `Mozilla/4`, and no more than a version.
fn is_netscape4(agent: &[u8]) -> bool {
    agent.len() > "Mozilla/4.72 ".len()
        && agent
            .strip_prefix(b"Mozilla/")
            .is_some_and(|rest| matches!(rest.first(), Some(b'1'..=b'4')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browsers(modern: &[(&str, Option<&str>)]) -> Browsers {
        let modern = modern.iter().map(|(name, since)| ModernBrowser {
            family: BrowserFamily::named(name.as_bytes()).expect("a known name"),
            since: since.map(|since| BrowserVersion::parse(since.as_bytes()).0),
        });
        Browsers {
            modern: modern.collect(),
            ..Browsers::default()
        }
    }

    #[test]
    fn versions_are_ordered_number_by_number() {
        let version = |text: &str| BrowserVersion::parse(text.as_bytes()).0;
        assert!(version("5.5") > version("5.0"));
        assert!(version("5.10") > version("5.9"));
        assert!(version("1.7.8") < version("1.8"));
        assert!(version("10") > version("9.99.99.99"));
        assert_eq!(version("6"), version("6.0.0.0"));
        assert_eq!(BrowserVersion::parse(b"6.0; X").1, b"; X");
        // A number that nobody means is no reason to panic.
        assert!(version("99999999999999999999999.1") > version("4000"));
    }

    #[test]
    fn a_listed_browser_is_modern_from_its_version_on() {
        let listed = browsers(&[("opera", None), ("MSIE", Some("6.0"))]);
        let modern = |agent: &str| listed.is_modern(Some(agent.as_bytes()));
        assert!(modern("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)"));
        assert!(!modern(
            "Mozilla/4.0 (compatible; MSIE 5.5; Windows NT 5.1)"
        ));
        assert!(!modern(
            "Mozilla/4.0 (compatible; MSIE 6.0; X11) Opera 7.50"
        ));
        assert!(
            !modern("MSIE 9.0"),
            "it is looked for behind the usual beginning"
        );
        assert!(
            !modern("Mozilla/4.0 (compatible; MSIE "),
            "there is no version"
        );
        assert!(!listed.is_modern(None));
    }

    #[test]
    fn unlisted_browsers_are_what_the_configuration_says() {
        let listed = Browsers {
            unlisted_is_modern: true,
            netscape4_is_ancient: true,
            ancient: Box::new([b"Lynx"[..].into()]),
            ..browsers(&[])
        };
        let modern = |agent: &str| listed.is_modern(Some(agent.as_bytes()));
        assert!(listed.is_modern(None));
        assert!(modern("curl/8.0"));
        assert!(!modern("Lynx/2.8.5"));
        assert!(!modern("Mozilla/4.72 [en] (X11)"));
        assert!(modern("Mozilla/5.0 (X11; Linux)"));
    }
}
