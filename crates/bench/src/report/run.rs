//! Runs the comparisons and storms of a report.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use crate::{
    Error, Kind, Server,
    compare::{Comparison, Turns},
    report::{
        Chapter, Pages,
        progress::Progress,
        saved::{Measured, Recorded, SCHEMA, Saved},
    },
    storm::Storm,
    testbed::{Machine, ServerLabel, available_cpus, kernel_tls},
};

/// A report to make.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) chapters: Vec<Chapter>,
    /// Sealane first, then its peers.
    pub(crate) servers: Vec<Server>,
    pub(crate) rounds: usize,
    /// Length of each measurement.
    pub(crate) measurement: Duration,
    pub(crate) quick: bool,
    /// Directory of the test certificates, which are made if there are none.
    pub(crate) certificates: PathBuf,
    pub(crate) work: PathBuf,
}

/// A report that was made.
pub(crate) struct Made {
    pub(crate) pages: Pages,
    pub(crate) json: String,
    pub(crate) is_interrupted: bool,
    /// How many measurements have failed.
    pub(crate) failures: usize,
}

/// Sealane with what it would not do by default.
pub(super) const OFFLOAD_OFF: &str = "ssl_async off; ssl_accelerator cpu;";
const KERNEL_TLS_OFF: &str = "ssl_ktls off;";
/// What the names of variants end with.
pub(super) const WITHOUT_OFFLOAD: &str = "-off";
pub(super) const WITH_KERNEL_TLS: &str = "-ktls";

/// How many connections a storm's clients hold at most, and how often the probe asks.
const STORM_CLIENTS: usize = 64;
const PROBE_INTERVAL: Duration = Duration::from_millis(2);

/// How many keys the case zipf would ask for; no chapter has it.
const KEYS: u32 = 10_000;

/// What measures a chapter.
enum Task {
    Comparison(Comparison),
    Storm(Storm),
}

impl Run {
    /// Measures everything, or until a signal arrives.
    ///
    /// What fails is in the report. An error is only what keeps everything from being measured: a
    /// server that prints no version, no certificates.
    pub(crate) fn make(&self) -> Result<Made, Error> {
        let started = utc(SystemTime::now());
        let labels = self.servers.iter().map(ServerLabel::of);
        let servers = labels.collect::<Result<Vec<_>, Error>>()?;
        if let Some(first) = servers.first().filter(|first| !first.is_sealane()) {
            return Err(Error::Usage(format!(
                "--sealane {} is {}, not Sealane; other servers are given with --peer",
                self.servers[0].path.display(),
                first.version
            )));
        }
        provide_certificates(&self.certificates)?;
        let tasks: Vec<_> = self
            .chapters
            .iter()
            .map(|&chapter| Ok((chapter, self.task(chapter)?)))
            .collect::<Result<_, Error>>()?;
        let mut agenda = Vec::new();
        for (_, task) in &tasks {
            agenda.extend(task.agenda()?);
        }
        let mut progress = Progress::new(&agenda, self.rounds, self.measurement)?;
        let mut chapters = Vec::new();
        for (chapter, task) in tasks {
            let outcome = if progress.is_interrupted() {
                Recorded::Nothing("the run was ended before".into())
            } else {
                task.run(&mut progress).unwrap_or_else(|error| {
                    progress.say(&format!("{}: {error}", chapter.name()));
                    Recorded::Nothing(error.to_string())
                })
            };
            chapters.push(Measured {
                chapter,
                command: self.command(&[chapter]),
                outcome,
            });
        }
        let is_interrupted = progress.is_interrupted();
        progress.finish();
        let saved = Saved {
            schema: SCHEMA,
            program: format!("sealane-bench {}", env!("CARGO_PKG_VERSION")),
            started,
            machine: Machine::here(),
            servers,
            rounds: self.rounds,
            seconds: self.measurement.as_secs_f64(),
            quick: self.quick,
            is_interrupted,
            command: self.command(&self.chapters),
            chapters,
        };
        Ok(Made {
            pages: Pages::of(&saved),
            json: saved.json(),
            is_interrupted,
            failures: progress.failures(),
        })
    }

    fn task(&self, chapter: Chapter) -> Result<Task, Error> {
        let comparison = |cases: &[&str], servers, server_cores| {
            Task::Comparison(Comparison {
                servers,
                cases: cases.iter().map(|&case| case.to_owned()).collect(),
                certificates: self.certificates.clone(),
                work: self.work.clone(),
                rounds: self.rounds,
                measurement: self.measurement,
                quick: self.quick,
                server_cpu: None,
                server_cores,
                instructions: false,
                keys: KEYS,
                profile: None,
                turns: Turns::All,
            })
        };
        let cores = worker_counts(available_cpus()?.len());
        let fewest_and_most = match cores.as_slice() {
            [one, .., most] => vec![*one, *most],
            all => all.to_vec(),
        };
        let as_they_come = || self.servers.clone();
        Ok(match chapter {
            Chapter::S1 => comparison(&["s1"], self.with_kernel_tls(), vec![1]),
            Chapter::S2 => comparison(&["s2"], self.with_offload_off(), fewest_and_most),
            Chapter::S3 => comparison(&["s3"], as_they_come(), vec![1]),
            Chapter::Memory => comparison(&["tls13-idle", "h2-idle"], as_they_come(), vec![1]),
            Chapter::Scale => comparison(
                &["scale", "names", "tls13-full-p256"],
                as_they_come(),
                cores,
            ),
            Chapter::Storm => Task::Storm(Storm {
                servers: as_they_come(),
                keys: Vec::new(),
                clients: STORM_CLIENTS,
                interval: PROBE_INTERVAL,
                certificates: self.certificates.clone(),
                work: self.work.clone(),
                rounds: self.rounds,
                measurement: self.measurement,
                quick: self.quick,
                server_cores: Vec::new(),
            }),
        })
    }

    /// Each server that reads nginx.conf twice: in user space, and with kernel TLS.
    fn with_kernel_tls(&self) -> Vec<Server> {
        let mut servers = Vec::new();
        for (index, server) in self.servers.iter().enumerate() {
            let mut in_user_space = server.clone();
            if index == 0 {
                in_user_space.directives = KERNEL_TLS_OFF.into();
            }
            servers.push(in_user_space);
            if server.kind == Kind::Nginx {
                servers.push(variant(server, WITH_KERNEL_TLS, kernel_tls::DIRECTIVE));
            }
        }
        servers
    }

    /// Sealane as it comes and with nothing but the processor's own instructions, then its peers.
    fn with_offload_off(&self) -> Vec<Server> {
        let mut servers = self.servers.clone();
        servers.insert(1, variant(&servers[0], WITHOUT_OFFLOAD, OFFLOAD_OFF));
        servers
    }

    /// The command line that measures these chapters in the same way.
    fn command(&self, chapters: &[Chapter]) -> String {
        let mut words = vec!["sealane-bench".to_owned(), "report".into()];
        words.extend(chapters.iter().map(|chapter| chapter.name().to_owned()));
        for (index, server) in self.servers.iter().enumerate() {
            let path = server.path.display();
            match index {
                0 => words.extend(["--sealane".into(), path.to_string()]),
                _ => words.extend(["--peer".into(), format!("{}={path}", server.name)]),
            }
            if server.kind != Kind::Nginx {
                let kind = server.kind.product().to_ascii_lowercase();
                words.extend(["--kind".into(), format!("{}={kind}", server.name)]);
            }
        }
        words.extend(["--rounds".into(), self.rounds.to_string()]);
        let seconds = self.measurement.as_secs_f64();
        words.extend(["--seconds".into(), seconds.to_string()]);
        if self.quick {
            words.push("--quick".into());
        }
        let quoted: Vec<_> = words.iter().map(|word| shell_word(word)).collect();
        quoted.join(" ")
    }
}

impl Task {
    fn agenda(&self) -> Result<Vec<String>, Error> {
        match self {
            Self::Comparison(comparison) => comparison.agenda(),
            Self::Storm(storm) => storm.agenda(),
        }
    }

    fn run(&self, progress: &mut Progress) -> Result<Recorded, Error> {
        Ok(match self {
            Self::Comparison(comparison) => Recorded::Comparison(comparison.run_watched(progress)?),
            Self::Storm(storm) => Recorded::Storm(storm.run_watched(progress)?),
        })
    }
}

fn variant(server: &Server, suffix: &str, directives: &str) -> Server {
    Server {
        name: format!("{}{suffix}", server.name),
        directives: directives.into(),
        ..server.clone()
    }
}

/// 1, 2, 4 and so on: at most half of the cores, since the generator works as hard as a server.
fn worker_counts(cores: usize) -> Vec<usize> {
    let is_left = |count: &usize| *count == 1 || *count <= cores / 2;
    let doubled = |count: &usize| Some(count * 2);
    std::iter::successors(Some(1), doubled)
        .take_while(is_left)
        .collect()
}

/// Makes the certificates, unless they are there.
fn provide_certificates(directory: &Path) -> Result<(), Error> {
    const SCRIPT: &str = include_str!("../../../../bench/make-certificates.sh");
    let output = Command::new("bash")
        .args(["-c", SCRIPT, "make-certificates.sh"])
        .arg(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::io("run bash to make the certificates", source))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Error::Usage(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

/// A word as a shell reads it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// "2026-11-26 02:06 UTC", by the civil calendar.
fn utc(time: SystemTime) -> String {
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / 86_400);
    let minutes = seconds % 86_400 / 60;
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a number of days since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    // Years that begin in March, in periods of 400 years that begin in the year 0.
    let days = days + 719_468;
    let (period, day_of_period) = (days / 146_097, days % 146_097);
    let year_of_period = (day_of_period - day_of_period / 1_460 + day_of_period / 36_524
        - day_of_period / 146_096)
        / 365;
    let day_of_year =
        day_of_period - (365 * year_of_period + year_of_period / 4 - year_of_period / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = period * 400 + year_of_period + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_cores_at_most() {
        assert_eq!(worker_counts(1), [1]);
        assert_eq!(worker_counts(3), [1]);
        assert_eq!(worker_counts(4), [1, 2]);
        assert_eq!(worker_counts(12), [1, 2, 4]);
    }

    #[test]
    fn commands_are_for_a_shell() {
        assert_eq!(shell_word("a=/b/c-d"), "a=/b/c-d");
        assert_eq!(shell_word("it's; here"), r"'it'\''s; here'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn dates_of_the_calendar() {
        let at = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    fn run(chapters: &[Chapter]) -> Run {
        let server = |text: &str| text.parse().expect("name=path");
        let mut h2o: Server = server("h2o=/usr/bin/h2o");
        h2o.kind = Kind::H2o;
        Run {
            chapters: chapters.to_vec(),
            servers: vec![server("sealane=/s"), server("nginx=/with space/nginx"), h2o],
            rounds: 2,
            measurement: Duration::from_millis(500),
            quick: true,
            certificates: "c".into(),
            work: "w".into(),
        }
    }

    #[test]
    fn the_command_repeats_the_run() {
        let run = run(&[Chapter::S3, Chapter::Memory]);
        assert_eq!(
            run.command(&run.chapters),
            "sealane-bench report s3 memory --sealane /s --peer 'nginx=/with space/nginx' \
             --peer h2o=/usr/bin/h2o --kind h2o=h2o --rounds 2 --seconds 0.5 --quick"
        );
    }

    #[test]
    fn variants_are_of_servers_that_have_the_directives() {
        let run = run(&[]);
        let names = |servers: Vec<Server>| {
            let each = servers.iter().map(|server| server.name.clone());
            each.collect::<Vec<_>>()
        };
        let kernel_tls = ["sealane", "sealane-ktls", "nginx", "nginx-ktls", "h2o"];
        assert_eq!(names(run.with_kernel_tls()), kernel_tls);
        let offload = ["sealane", "sealane-off", "nginx", "h2o"];
        assert_eq!(names(run.with_offload_off()), offload);
    }

    #[test]
    fn every_chapter_has_something_to_measure() {
        let run = run(&Chapter::ALL);
        for chapter in Chapter::ALL {
            let task = run.task(chapter).expect("cores to measure on");
            assert!(
                !task.agenda().expect("known cases").is_empty(),
                "{chapter:?}"
            );
        }
    }
}
