use super::*;

fn is_new(tally: &Tally, line: &str) -> bool {
    tally.is_new(&Logger::discard(), LogLevel::Error, 1, line)
}

#[test]
fn subrequests_are_counted_for_good_and_pieces_while_they_last() {
    let tally = Arc::new(Tally::default());
    let first = tally.begin(2, false);
    assert!(first.is_some());
    for _ in 0..10 {
        assert!(tally.begin(2, true).is_some());
    }
    drop(first);
    assert!(tally.begin(2, false).is_some(), "the second");
    assert!(tally.begin(2, false).is_none(), "there were two");
    assert!(tally.begin(2, true).is_none());
}

#[test]
fn few_begin_before_it_is_their_turn() {
    let tally = Arc::new(Tally::default());
    let permits: Vec<_> = (0..MAX_AHEAD).map(|_| tally.begin(1000, false)).collect();
    assert!(!tally.may_begin_ahead());
    drop(permits);
    assert!(tally.may_begin_ahead());
}

#[test]
fn a_line_is_new_once() {
    let tally = Tally::default();
    assert!(is_new(&tally, "a"));
    assert!(is_new(&tally, "b"));
    assert!(!is_new(&tally, "a"));
    let other_level = tally.is_new(&Logger::discard(), LogLevel::Crit, 1, "a");
    assert!(other_level, "it means something else");
    // Lines that differ only where they are cut are the same.
    let long = "x".repeat(MAX_ERROR_LINE_BYTES);
    assert!(is_new(&tally, &format!("{long}1")));
    assert!(!is_new(&tally, &format!("{long}2")));
}

#[test]
fn what_is_remembered_and_written_is_bounded() {
    let tally = Tally::default();
    let new = (0..5000).filter(|n| is_new(&tally, &format!("line {n}")));
    assert_eq!(new.count(), MAX_LINES as usize);
    let said = tally.said.lock().expect("nothing panics");
    assert_eq!(said.known.len(), MAX_KNOWN);
    assert_eq!(said.unsaid, 5000 - u64::from(MAX_LINES));
}
