use super::*;
use crate::{Summary, testbed::ServerLabel};

fn measurement(value: f64) -> Measurement {
    Measurement {
        value,
        busy: Some(0.9),
        rate_per_s: Some(1000.0),
        instructions: None,
        system_share: Some(0.5),
        operations: 1,
        negotiated: None,
    }
}

fn result(ours: &[f64], theirs: &[f64]) -> CaseResult {
    let mut result = CaseResult::new(&cases::ALL[0], &[3], 2);
    for &value in ours {
        result.add(0, measurement(value));
    }
    for &value in theirs {
        result.add(1, measurement(value));
    }
    result
}

fn label(name: &str, version: &str, directives: &str) -> ServerLabel {
    ServerLabel {
        name: name.into(),
        version: version.into(),
        directives: directives.into(),
        rsa_directives: String::new(),
        events: String::new(),
    }
}

fn ratio(result: &CaseResult, directives: &str, peer: &str) -> report::Ratio {
    let ours = label("sealane", "sealane 0.1.0", directives);
    let theirs = label(peer, "nginx 1.30.0", "");
    result.ratio((0, &ours), (1, &theirs)).expect("a round")
}

#[test]
fn a_ratio_is_taken_within_its_round() {
    // The machine halves its speed in the second round; the ratio does not move.
    let result = result(&[8.0, 16.0, 8.0], &[10.0, 20.0, 10.0]);
    assert_eq!(
        ratio(&result, "", "reference").summary,
        Summary::of(&[0.8, 0.8, 0.8]).expect("numbers")
    );
}

#[test]
fn targets_judge_the_reference_only() {
    let near = result(&[7.9], &[10.0]);
    let verdict = |result: &CaseResult, peer: &str| ratio(result, "", peer).verdict;
    assert_eq!(verdict(&near, "reference"), Some((0.80, true)));
    assert_eq!(verdict(&near, "reference-multi"), Some((0.80, true)));
    assert_eq!(verdict(&near, "debian"), None);
    assert_eq!(verdict(&near, "references"), None);
    let far = result(&[8.1], &[10.0]);
    assert_eq!(verdict(&far, "reference"), Some((0.80, false)));
}

#[test]
fn a_target_for_batches_judges_servers_that_batch() {
    let case = cases::ALL
        .iter()
        .find(|case| case.name == "s2-rsa")
        .expect("a case of the table");
    let mut result = CaseResult::new(case, &[3], 2);
    result.add(0, measurement(4.0));
    result.add(1, measurement(10.0));
    assert_eq!(ratio(&result, "ssl_async on;", "reference").verdict, None);
    assert_eq!(
        ratio(&result, "ssl_async on; ssl_accelerator batch;", "reference").verdict,
        Some((0.45, true))
    );
}

#[test]
fn cases_are_found_by_name_and_named_once() {
    assert_eq!(
        cases::select(&[]).expect("all").len() + cases::S2.len(),
        cases::ALL.len()
    );
    let offload = cases::select(&["s2".into()]).expect("a known group");
    assert_eq!(offload.len(), cases::S2.len());
    let two = cases::select(&["plain-1k".into(), "tls13-1k".into()]).expect("known names");
    assert_eq!(
        two.iter().map(|case| case.name).collect::<Vec<_>>(),
        ["tls13-1k", "plain-1k"]
    );
    let group = cases::select(&["s3".into(), "tls12-ticket".into()]).expect("a known group");
    assert_eq!(group.len(), cases::S3.len(), "each once");
    assert!(cases::select(&["tls14".into()]).is_err());
    for case in cases::ALL {
        assert_eq!(
            cases::ALL
                .iter()
                .filter(|other| other.name == case.name)
                .count(),
            1,
            "{}",
            case.name
        );
    }
}
