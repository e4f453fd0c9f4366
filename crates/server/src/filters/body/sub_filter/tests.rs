use super::*;
use crate::testing::Site;
use proptest::prelude::*;

/// nginx's rules, in the simplest way.
fn replaced(lines: &[(String, String)], once: bool, text: &[u8]) -> Vec<u8> {
    let mut left: Vec<&(String, String)> = lines.iter().collect();
    let mut out = Vec::new();
    let mut rest = text;
    'places: while !rest.is_empty() {
        let shortest = left.iter().map(|(text, _)| text.len()).min();
        if shortest.is_none_or(|shortest| rest.len() < shortest) {
            break;
        }
        for index in 0..left.len() {
            let (pattern, value) = left[index];
            let there = pattern.len().min(rest.len());
            if !rest[..there].eq_ignore_ascii_case(&pattern.as_bytes()[..there]) {
                continue;
            }
            if there < pattern.len() {
                break 'places;
            }
            out.extend_from_slice(value.as_bytes());
            rest = &rest[there..];
            if once {
                left.remove(index);
            }
            continue 'places;
        }
        out.push(rest[0]);
        rest = &rest[1..];
    }
    out.extend_from_slice(rest);
    out
}

fn in_pieces(site: &Site, text: &[u8], pieces: &[usize], max_bytes: usize) -> Vec<u8> {
    let mut exchange = site.exchange("GET /a.html HTTP/1.1\r\nHost: example.org\r\n\r\n");
    let filters = exchange.conf().body_filters.clone().expect("there is one");
    let settings = filters.texts.sub.as_ref().expect("it is this one");
    let mut search = Substitution::new(&exchange, settings).expect("it looks for something");
    let mut out = OutputChain::new();
    let mut rest = Bytes::copy_from_slice(text);
    for piece in pieces {
        let mut piece = rest.split_to((*piece).min(rest.len()));
        while search.step(&mut exchange, &mut piece, false, &mut out, max_bytes)
            == Ok(TransformStatus::Full)
        {}
        search.flush(&mut exchange, &mut out);
    }
    while search.step(&mut exchange, &mut rest, false, &mut out, max_bytes)
        == Ok(TransformStatus::Full)
    {}
    while search.step(&mut exchange, &mut Bytes::new(), true, &mut out, max_bytes)
        == Ok(TransformStatus::Full)
    {}
    crate::testing::contents(&out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn wherever_the_pieces_end(
        lines in prop::collection::vec(("[abAB]{1,5}", "[xyza]{0,3}"), 1..4),
        text in "[abABc]{0,60}",
        pieces in prop::collection::vec(0usize..7, 0..20),
        max_bytes in 1usize..20,
        once: bool,
    ) {
        let once_word = if once { "on" } else { "off" };
        let directives: String = lines
            .iter()
            .map(|(text, by)| format!("sub_filter '{text}' '{by}';"))
            .collect();
        let site = Site::new(&format!("{directives} sub_filter_once {once_word};"));
        let wanted = replaced(&lines, once, text.as_bytes());
        let got = in_pieces(&site, text.as_bytes(), &pieces, max_bytes);
        prop_assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&wanted));
    }
}

#[test]
fn a_long_body_with_many_places() {
    let site = Site::new("sub_filter abc x; sub_filter_once off;");
    let text = b"..abcAB".repeat(50_000);
    let wanted = b"..xAB".repeat(50_000);
    assert!(in_pieces(&site, &text, &[1, 70_000, 3, 64 << 10], 4096) == wanted);
    assert!(in_pieces(&site, &text, &[], usize::MAX) == wanted);
}
