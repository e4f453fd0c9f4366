use super::*;
use crate::Summary;

fn measurement(value: f64) -> Measurement {
    Measurement {
        value,
        busy: Some(0.9),
        system_share: Some(0.5),
        operations: 1,
        negotiated: None,
    }
}

fn result(ours: &[f64], theirs: &[f64]) -> CaseResult {
    let mut result = CaseResult::new(&cases::ALL[0], 2);
    for &value in ours {
        result.add(0, measurement(value));
    }
    for &value in theirs {
        result.add(1, measurement(value));
    }
    result
}

#[test]
fn a_ratio_is_taken_within_its_round() {
    // The machine halves its speed in the second round; the ratio does not move.
    let ratio = result(&[8.0, 16.0, 8.0], &[10.0, 20.0, 10.0])
        .ratio(1, "reference")
        .expect("three rounds");
    assert_eq!(
        ratio.summary,
        Summary::of(&[0.8, 0.8, 0.8]).expect("numbers")
    );
}

#[test]
fn targets_judge_the_reference_only() {
    let case = result(&[7.9], &[10.0]);
    assert_eq!(
        case.ratio(1, "reference").expect("a round").verdict,
        Some((0.80, true))
    );
    assert_eq!(case.ratio(1, "debian").expect("a round").verdict, None);
    assert_eq!(
        result(&[8.1], &[10.0])
            .ratio(1, "reference")
            .expect("a round")
            .verdict,
        Some((0.80, false))
    );
}

#[test]
fn versions_as_nginx_prints_them() {
    let text = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22 25 Aug 2026 (running with OpenSSL 3.0.19 27 Jan 2026)\n\
                TLS SNI support enabled\nconfigure arguments: --with-x\n";
    assert_eq!(
        server::parse_version(text).as_deref(),
        Some("nginx 1.22.1, OpenSSL 3.0.19")
    );
    let text = "nginx version: nginx/1.30.0 (Debian)\nbuilt by gcc 14\nbuilt with OpenSSL 4.0.3 29 Sep 2026\n";
    assert_eq!(
        server::parse_version(text).as_deref(),
        Some("nginx 1.30.0, OpenSSL 4.0.3")
    );
    assert_eq!(
        server::parse_version("sealane version: sealane/0.1.0\n").as_deref(),
        Some("sealane 0.1.0")
    );
    assert_eq!(server::parse_version("usage: something else\n"), None);
}

#[test]
fn server_arguments() {
    let server: Server = "reference=/opt/nginx=x/nginx".parse().expect("name=path");
    assert_eq!(
        (server.name.as_str(), server.path.to_str()),
        ("reference", Some("/opt/nginx=x/nginx"))
    );
    for malformed in ["nginx", "=path", "name=", "../x=path"] {
        assert!(malformed.parse::<Server>().is_err(), "{malformed}");
    }
}

#[test]
fn cases_are_found_by_name_and_named_once() {
    assert_eq!(cases::select(&[]).expect("all").len(), cases::ALL.len());
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

#[test]
fn the_template_is_filled_completely() {
    let scratch = std::env::temp_dir().join(format!("sealane-bench-site-{}", std::process::id()));
    let certificates = scratch.join("certificates");
    std::fs::create_dir_all(&certificates).expect("a scratch directory");
    assert!(
        Site::prepare(&scratch, &certificates, false).is_err(),
        "certificates are missing"
    );
    for name in ["p256.crt", "p256.key", "rsa2048.crt", "rsa2048.key"] {
        std::fs::write(certificates.join(name), "").expect("a scratch file");
    }
    let site = Site::prepare(&scratch, &certificates, false).expect("certificates are there");
    let ports = config::Ports {
        plain: 1001,
        p256: 1002,
        rsa: 1003,
        untuned: 1004,
        early: 1005,
    };
    let text = site.configuration(&ports, "some_directive 1;");
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    assert!(!code.contains('@'), "{text}");
    for expected in [
        "127.0.0.1:1001",
        "127.0.0.1:1002 ssl",
        "127.0.0.1:1003 ssl",
        "127.0.0.1:1004 ssl",
        "127.0.0.1:1005 ssl",
        "some_directive 1;",
    ] {
        assert!(code.contains(expected), "{expected} is missing in {text}");
    }
    assert_eq!(
        std::fs::metadata(scratch.join("files/100k"))
            .expect("created")
            .len(),
        100 << 10
    );
    std::fs::remove_dir_all(&scratch).expect("cleaning up");
}

#[test]
fn every_other_round_runs_backwards() {
    let server = |name: &str| format!("{name}=/x").parse::<Server>().expect("name=path");
    let comparison = Comparison {
        servers: vec![server("a"), server("b"), server("c")],
        cases: Vec::new(),
        certificates: PathBuf::new(),
        work: PathBuf::new(),
        rounds: 2,
        measurement: Duration::ZERO,
        quick: true,
        server_cpu: None,
        profile: None,
    };
    assert_eq!(
        (comparison.order(0), comparison.order(1)),
        (vec![0, 1, 2], vec![2, 1, 0])
    );
}
