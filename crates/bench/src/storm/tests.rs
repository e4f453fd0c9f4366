use super::{
    report::{Latency, Measurement, StormResult},
    targets::Targets,
    *,
};

const MS: Duration = Duration::from_millis(1);

fn latency(p99_ms: f64, max_ms: f64) -> Latency {
    Latency {
        p50_ms: p99_ms / 2.0,
        p99_ms,
        max_ms,
        count: 1500,
    }
}

fn storm(p99_ms: f64, max_ms: f64, new_p99_ms: f64, connections_per_s: f64) -> Measurement {
    Measurement {
        alone: latency(0.1, 0.2),
        probe: latency(p99_ms, max_ms),
        probe_delay: latency(0.0, 0.0),
        is_real_time: true,
        connections: 3000,
        connections_per_s,
        new_connection: latency(new_p99_ms, new_p99_ms),
        server_us_per_connection: Some(500.0),
        server_busy_cores: Some(1.9),
        neighbours_share: 0.0,
        client_busy_share: 0.3,
        negotiated: None,
    }
}

fn result(
    key: StormKey,
    server_cpus: &[usize],
    ours: &[Measurement],
    theirs: &[Measurement],
) -> StormResult {
    let cpus = Cpus {
        server: server_cpus.to_vec(),
        generator: vec![0, 1],
    };
    let mut result = StormResult::new(key, &cpus, 2);
    for measurement in ours {
        result.add(0, measurement.clone());
    }
    for measurement in theirs {
        result.add(1, measurement.clone());
    }
    result
}

#[test]
fn bounds_are_met_by_the_median_of_the_rounds() {
    let rounds = [
        storm(0.2, 1.0, 20.0, 3000.0),
        storm(0.4, 4.0, 20.0, 3000.0),
        storm(0.9, 9.0, 20.0, 3000.0),
    ];
    let two_cores = result(StormKey::Rsa2048, &[2, 3], &rounds, &rounds);
    let met: Vec<_> = two_cores
        .bounds(0)
        .iter()
        .map(|verdict| (verdict.summary.median, verdict.met))
        .collect();
    assert_eq!(met, [(0.4, Some(true)), (4.0, Some(true))]);

    let slow = [storm(0.6, 5.1, 20.0, 3000.0)];
    let two_cores = result(StormKey::Rsa2048, &[2, 3], &slow, &slow);
    assert!(
        two_cores
            .bounds(0)
            .iter()
            .all(|verdict| verdict.met == Some(false))
    );
    // On one core the maximum has no bound, and the percentile a wider one.
    let one_core = result(StormKey::Rsa2048, &[3], &slow, &slow);
    let met: Vec<_> = one_core
        .bounds(0)
        .iter()
        .map(|verdict| verdict.met)
        .collect();
    assert_eq!(met, [Some(true), None]);
}

#[test]
fn ratios_are_taken_within_each_round() {
    // The second round ran on a machine of half the speed.
    let ours = [storm(0.5, 4.0, 26.0, 3000.0), storm(1.0, 8.0, 52.0, 1500.0)];
    let theirs = [
        storm(2.0, 20.0, 20.0, 3000.0),
        storm(4.0, 40.0, 40.0, 1500.0),
    ];
    let ratios = |key| result(key, &[2, 3], &ours, &theirs).ratios(0, 1);
    let judged = |key| -> Vec<_> {
        let each = ratios(key);
        each.iter()
            .map(|verdict| (verdict.what, verdict.summary.median, verdict.met))
            .collect()
    };
    assert_eq!(
        judged(StormKey::Rsa2048),
        [
            ("p99", 0.25, Some(true)),
            ("max", 0.2, Some(true)),
            ("new p99", 1.3, Some(true)),
            ("rate", 1.0, Some(true)),
            ("CPU", 1.0, None),
        ]
    );
    assert_eq!(judged(StormKey::P256)[1], ("max", 0.2, None));
}

#[test]
fn a_lower_rate_misses_its_target() {
    let ours = [storm(0.5, 4.0, 27.0, 2900.0)];
    let theirs = [storm(1.0, 5.0, 20.0, 3000.0)];
    let verdicts = result(StormKey::Rsa2048, &[2, 3], &ours, &theirs).ratios(0, 1);
    let met: Vec<_> = verdicts.iter().map(|verdict| verdict.met).collect();
    assert_eq!(
        met,
        [Some(false), Some(false), Some(false), Some(false), None]
    );
}

#[test]
fn targets_by_key_and_cores() {
    let p99_ms = |key, cores| Targets::of(key, cores).p99_ms;
    assert_eq!(
        StormKey::ALL.map(|key| (p99_ms(key, 1), p99_ms(key, 2))),
        [(1.0, 0.5), (5.0, 1.0), (1.0, 0.5)]
    );
}

#[test]
fn the_probe_gets_a_core_of_its_own_when_clients_keep_two() {
    let crew = |generator: &[usize]| {
        let crew = Crew::divide(generator);
        (crew.probe, crew.clients)
    };
    assert_eq!(crew(&[0, 1, 2]), (0, vec![1, 2]));
    assert_eq!(crew(&[4, 5]), (4, vec![4, 5]));
    assert_eq!(crew(&[1]), (1, vec![1]));
}

#[test]
fn samples_count_by_when_they_were_due() {
    let start = Instant::now();
    let sample = |due_ms: u32| Sample {
        due: start + MS * due_ms,
        latency: MS * 100,
        delay: Duration::ZERO,
    };
    let samples = [sample(0), sample(2), sample(4), sample(6)];
    let due: Vec<_> = between(&samples, start + MS * 2, start + MS * 6)
        .map(|sample| sample.due - start)
        .collect();
    assert_eq!(due, [MS * 2, MS * 4]);
}
