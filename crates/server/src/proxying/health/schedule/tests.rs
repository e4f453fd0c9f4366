use super::*;
use crate::testing::Site;

/// The tasks of groups `a`, `b` ... with so many servers each and this `check`.
fn tasks(groups: &[usize], check: &str) -> Vec<HealthTask> {
    let group = |(name, servers): (char, &usize)| {
        let lines: String = (1..=*servers)
            .map(|port| format!("server 127.0.0.1:{port};"))
            .collect();
        format!("upstream {name} {{ {lines} check {check}; }}")
    };
    let text: String = ('a'..).zip(groups).map(group).collect();
    let site = Site::with_http(&format!("{text} server {{ listen 127.0.0.1:80; }}"));
    site.worker().current.snapshot().health_tasks.clone()
}

/// Takes what is due until then, with the times at which it was.
fn taken(schedule: &mut Schedule, until: Instant) -> Vec<(Instant, EntryId)> {
    let mut all = Vec::new();
    while let Some(at) = schedule.next_due().filter(|at| *at <= until) {
        let (id, _) = schedule.take_due(at).expect("it is due");
        all.push((at, id));
    }
    all
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn new_servers_are_asked_one_after_the_other() {
    let now = Instant::now();
    for (groups, last) in [
        (&[3][..], Duration::from_millis(20)),
        (&[1, 1, 1], Duration::from_millis(20)),
        // All of them within the interval.
        (&[400, 600], seconds(5) - Duration::from_millis(5)),
    ] {
        let mut schedule = Schedule::default();
        schedule.renew(&tasks(groups, "interval=5000"), now);
        let all = taken(&mut schedule, now + seconds(60));
        assert_eq!(all.len(), groups.iter().sum::<usize>());
        assert_eq!(all.first().map(|(at, _)| *at), Some(now));
        assert_eq!(all.last().map(|(at, _)| *at), Some(now + last));
        let gaps = all.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let (least, most) = (gaps.clone().min(), gaps.max());
        assert_eq!(least, most);
    }
}

#[test]
fn the_next_check_is_an_interval_after_the_beginning_of_the_last() {
    let now = Instant::now();
    let mut schedule = Schedule::default();
    schedule.renew(&tasks(&[1], "interval=5000"), now);
    let (id, _) = schedule.take_due(now).expect("it is due");
    // While it is in progress it is not due again.
    assert_eq!(schedule.next_due(), None);
    schedule.ended(id, now, true, None, 0.0);
    assert_eq!(schedule.next_due(), Some(now + seconds(5)));
}

#[test]
fn jitter_makes_waits_longer() {
    let text = "upstream a { server 127.0.0.1:1; }
        server { listen 127.0.0.1:80;
            location / { proxy_pass http://a; health_check interval=5s jitter=2s; } }";
    let tasks = Site::with_http(text).worker().current.snapshot();
    let now = Instant::now();
    for (jitter, wait_ms) in [(0.0, 5000), (0.5, 6000), (1.0, 7000)] {
        let mut schedule = Schedule::default();
        schedule.renew(&tasks.health_tasks, now);
        let (id, _) = schedule.take_due(now).expect("it is due");
        schedule.ended(id, now, true, None, jitter);
        assert_eq!(
            schedule.next_due(),
            Some(now + Duration::from_millis(wait_ms))
        );
    }
}

#[test]
fn verdicts_change_after_as_many_results_in_a_row() {
    use Conclusion::{Healthy, Stays, Unhealthy};
    let now = Instant::now();
    let all = tasks(&[1], "interval=5000 rise=2 fall=3");
    let (task, mut schedule) = (&all[0], Schedule::default());
    schedule.renew(&all, now);
    let (id, _) = schedule.take_due(now).expect("it is due");
    for (at, (passed, conclusion)) in [
        // Before the first verdict.
        (false, Stays),
        (true, Stays),
        (true, Healthy),
        (true, Stays),
        // Two failures are not enough, nor is a third after a pass.
        (false, Stays),
        (false, Stays),
        (true, Stays),
        (false, Stays),
        (false, Stays),
        (false, Unhealthy),
        (false, Stays),
        (true, Stays),
        (false, Stays),
        (true, Stays),
        (true, Healthy),
    ]
    .into_iter()
    .enumerate()
    {
        let ended = schedule.ended(id, now, passed, None, 0.0);
        let (found, entry) = ended.expect("it is checked");
        assert_eq!(found, conclusion, "result {at}");
        if found != Stays {
            let peer = Arc::clone(&entry.peer);
            task.group()
                .group
                .note_verdict(&peer, task.number(), found == Healthy, now);
        }
    }
}

#[test]
fn servers_that_remain_keep_their_turn_and_those_that_are_gone_lose_it() {
    let now = Instant::now();
    let mut schedule = Schedule::default();
    schedule.renew(&tasks(&[2], "interval=5000"), now);
    let first = taken(&mut schedule, now + seconds(1));
    for (at, id) in &first {
        schedule.ended(*id, *at, false, None, 0.0);
    }
    // One more server in another configuration.
    let later = now + seconds(2);
    schedule.renew(&tasks(&[3], "interval=5000"), later);
    let second = taken(&mut schedule, now + seconds(6));
    let due: Vec<_> = second.iter().map(|(at, _)| *at).collect();
    let step = Duration::from_millis(10);
    assert_eq!(due, [later, now + seconds(5), now + seconds(5) + step]);
    let ids: Vec<EntryId> = second.iter().map(|(_, id)| *id).collect();
    assert_eq!(ids[1..], [first[0].1, first[1].1]);
    // All are gone, also those that are in progress.
    schedule.renew(&[], later);
    assert!(schedule.ended(ids[1], later, true, None, 0.0).is_none());
    assert_eq!(schedule.next_due(), None);
}
