//! What the configuration asks for.

use crate::proxying::GroupRuntime;
use crate::snapshot::{LocationId, ServerId};
use sealane_conf::model::{
    Check, CheckKind, GroupRef, HealthCheck, HealthQuestion, Http, ResponseMatch, Upstream,
};
use sealane_tls::SharedSessions;
use sealane_upstream::{CheckSettings, Verdict};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A check of all peers of a group.
#[derive(Clone)]
pub(crate) struct HealthTask {
    pub(super) group: Arc<GroupRuntime>,
    /// Its number among the checks of the group.
    pub(super) number: usize,
    pub(super) rules: Rules,
    pub(super) question: Question,
}

/// What health checks have found out about a server, for the next process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownVerdict {
    /// The name of its group.
    pub group: String,
    /// Its address.
    pub peer: String,
    /// Whether it gets requests.
    pub healthy: bool,
}

/// What is known about the peers of these checks.
pub(super) fn verdicts(tasks: &[HealthTask]) -> Vec<KnownVerdict> {
    let mut all = Vec::new();
    // Those of one group know the same.
    for task in tasks.iter().filter(|task| task.number == 0) {
        let group = &task.group.group;
        for (peer, verdict) in group.verdicts() {
            let healthy = match verdict {
                Verdict::Unknown => continue,
                verdict => verdict == Verdict::Healthy,
            };
            all.push(KnownVerdict {
                group: group.name().to_owned(),
                peer: peer.name().to_string(),
                healthy,
            });
        }
    }
    all
}

/// Takes it over in another process.
pub(crate) fn take_over(tasks: &[HealthTask], known: &KnownVerdict) {
    for task in tasks.iter().filter(|task| task.number == 0) {
        let group = &task.group.group;
        if group.name() == known.group {
            group.take_over_verdict(&known.peer, known.healthy, Instant::now());
        }
    }
}

/// When a peer is asked, and when its verdict changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) interval: Duration,
    pub(super) jitter: Duration,
    pub(super) fails: u32,
    pub(super) passes: u32,
}

/// How a peer is asked.
#[derive(Clone)]
pub(super) enum Question {
    /// `health_check`: by a request of this location.
    Located(Box<Located>),
    /// Tengine's `check`.
    Raw(Arc<Check>),
}

/// See [`Question::Located`].
#[derive(Clone)]
pub(super) struct Located {
    pub(super) server: ServerId,
    pub(super) location: LocationId,
    pub(super) check: Arc<HealthCheck>,
    pub(super) expect: Option<Arc<ResponseMatch>>,
}

/// What the peers of a group are told of its `check`.
pub(crate) fn settings_of_check(check: &Check) -> CheckSettings {
    CheckSettings {
        name: "check".into(),
        mandatory: check.default_down,
    }
}

/// What the peers of a group are told of its checks: `check` first, then those of locations.
pub(crate) fn settings(http: &Http, group: GroupRef, upstream: &Upstream) -> Arc<[CheckSettings]> {
    let mut all: Vec<CheckSettings> = Vec::new();
    all.extend(upstream.check.as_deref().map(settings_of_check));
    for (conf, check) in http.health_checks(group) {
        let base = format!("health_check in location \"{}\"", conf.name);
        let same = all.iter().filter(|known| known.name.starts_with(&base));
        let name = match same.count() {
            0 => base,
            before => format!("{base} ({})", before + 1),
        };
        all.push(CheckSettings {
            name: name.into(),
            mandatory: check.mandatory,
        });
    }
    all.into()
}

impl HealthTask {
    /// `check` of an `upstream`.
    pub(crate) fn of_group(group: &Arc<GroupRuntime>, check: &Arc<Check>) -> HealthTask {
        HealthTask {
            group: Arc::clone(group),
            number: 0,
            rules: Rules {
                interval: check.interval,
                jitter: Duration::ZERO,
                fails: check.fall,
                passes: check.rise,
            },
            question: Question::Raw(Arc::clone(check)),
        }
    }

    /// A `health_check` of a location. `None` if it is not one of the group's.
    pub(crate) fn of_location(
        http: &Http,
        reference: GroupRef,
        group: &Arc<GroupRuntime>,
        check: &Arc<HealthCheck>,
        server: ServerId,
        location: LocationId,
    ) -> Option<HealthTask> {
        let mut known = http.health_checks(reference);
        let at = known.position(|(_, known)| Arc::ptr_eq(known, check))?;
        let before = usize::from(http.upstreams[reference.0].check.is_some());
        let expect = check.expect.and_then(|at| http.response_matches.get(at));
        Some(HealthTask {
            group: Arc::clone(group),
            number: before + at,
            rules: Rules {
                interval: check.interval,
                jitter: check.jitter,
                fails: check.fails,
                passes: check.passes,
            },
            question: Question::Located(Box::new(Located {
                server,
                location,
                check: Arc::clone(check),
                expect: expect.cloned(),
            })),
        })
    }

    /// The servers that are checked.
    pub(crate) fn group(&self) -> &GroupRuntime {
        &self.group
    }

    /// Its number among the checks of the group.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// How it asks, in a word.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.question {
            Question::Raw(check) => check.kind.name(),
            Question::Located(located) => match &located.check.question {
                HealthQuestion::Uri(_) => "http",
                HealthQuestion::Grpc { .. } => "grpc",
            },
        }
    }

    /// The port that it asks at, if that is not the server's own.
    pub(crate) fn port(&self) -> Option<u16> {
        match &self.question {
            Question::Raw(check) => check.port,
            Question::Located(located) => located.check.port,
        }
    }

    /// Whether nodes share what it finds out, where, and what tells it from other checks there:
    /// nodes that ask something else share nothing with this one.
    pub(super) fn sharing(&self) -> Option<(&SharedSessions, String)> {
        let (is_shared, question) = match &self.question {
            Question::Raw(check) => {
                let lines = (&check.send, check.alive, &check.fastcgi_params);
                (check.shared, format!("{lines:?}"))
            }
            Question::Located(located) => {
                let expected = located.expect.as_ref().map(|expected| &expected.name);
                let check = &located.check;
                (check.shared, format!("{:?} {expected:?}", check.question))
            }
        };
        let store = self.group.store.as_ref().filter(|_| is_shared)?;
        let (group, name, rules) = (self.group.group.name(), self.name(), self.rules);
        let (kind, port) = (self.kind(), self.port());
        let label = format!("{group} {name} {kind} {port:?} {rules:?} {question}");
        Some((store, label))
    }

    /// Whether it is a `check` of this type.
    pub(super) fn asks_for(&self, kind: CheckKind) -> bool {
        matches!(&self.question, Question::Raw(check) if check.kind == kind)
    }

    /// What the check is called in messages.
    pub(super) fn name(&self) -> &str {
        let checks = self.group.group.checks();
        checks.get(self.number).map_or("", |check| &check.name)
    }
}
