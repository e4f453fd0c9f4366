//! `sealane bench report`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use clap::ValueEnum;

use super::{QUICK_MEASUREMENT, QUICK_ROUNDS, seconds, set_kind};
use crate::{
    Error, Server,
    report::{Chapter, Pages, Run, json_path},
    testbed::Precedence,
};

/// Exit status after INT or TERM, as shells have it for INT.
const INTERRUPTED: u8 = 130;

#[derive(clap::Args, Debug)]
pub(super) struct ReportArgs {
    /// What to measure
    #[arg(value_enum, value_name = "CHAPTER", required_unless_present = "from")]
    chapters: Vec<Part>,
    /// The binary of Sealane [default: the one next to this program, else the one in PATH]
    #[arg(long, value_name = "PATH")]
    sealane: Option<PathBuf>,
    /// A server to compare with: name=path of an nginx binary, or of what --kind says
    #[arg(long = "peer", value_name = "NAME=PATH")]
    peers: Vec<Server>,
    /// What a peer is if it does not read nginx.conf: name=h2o or name=haproxy
    #[arg(long = "kind", value_name = "NAME=KIND")]
    kinds: Vec<String>,
    /// Alternating rounds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Length of each measurement
    #[arg(long, default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Fewer and shorter rounds: to see that everything works; the page says so
    #[arg(long)]
    quick: bool,
    /// The page; its measurements are saved beside it, with the ending .json
    #[arg(long, value_name = "FILE", default_value = "sealane-report.html")]
    output: PathBuf,
    /// Also write the chart at a glance, as an SVG of its own
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Measure nothing: make the page of measurements that were saved
    #[arg(long, value_name = "FILE", conflicts_with_all = ["chapters", "sealane", "peers", "kinds", "quick"])]
    from: Option<PathBuf>,
    /// Directory of the test certificates, which are made if there are none (requires openssl)
    /// [default: "certificates" below --work]
    #[arg(long, value_name = "DIRECTORY")]
    certificates: Option<PathBuf>,
    /// Directory for configurations, files (2 GiB on the disk for s1) and logs
    /// [default: $XDG_CACHE_HOME/sealane-bench or ~/.cache/sealane-bench]
    #[arg(long, value_name = "DIRECTORY")]
    work: Option<PathBuf>,
    /// Niceness of servers and clients, such as -20 if others use the machine at the same time
    /// (requires root)
    #[arg(long, allow_negative_numbers = true)]
    nice: Option<i32>,
}

/// A chapter on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Chapter(Chapter),
    All,
}

impl ValueEnum for Part {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Part; 7] = [
            Part::Chapter(Chapter::S1),
            Part::Chapter(Chapter::S2),
            Part::Chapter(Chapter::S3),
            Part::Chapter(Chapter::Storm),
            Part::Chapter(Chapter::Memory),
            Part::Chapter(Chapter::Scale),
            Part::All,
        ];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            Self::Chapter(chapter) => chapter.to_possible_value(),
            Self::All => Some(clap::builder::PossibleValue::new("all").help("All of them")),
        }
    }
}

impl ReportArgs {
    pub(super) fn run(self) -> Result<ExitCode, Error> {
        if let Some(file) = &self.from {
            self.write(&Pages::of_file(file)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let _precedence = self.nice.map(Precedence::take).transpose()?;
        let made = self.report()?.make()?;
        // The measurements first: everything else can be made again.
        write(&json_path(&self.output), &made.json)?;
        self.write(&made.pages)?;
        Ok(match (made.is_interrupted, made.failures) {
            (true, _) => ExitCode::from(INTERRUPTED),
            (false, 0) => ExitCode::SUCCESS,
            (false, failures) => {
                eprintln!("{failures} measurements have failed; the page has the reasons");
                ExitCode::FAILURE
            }
        })
    }

    fn write(&self, pages: &Pages) -> Result<(), Error> {
        write(&self.output, &pages.page)?;
        match (&self.chart, &pages.chart) {
            (None, _) => Ok(()),
            (Some(file), Some(chart)) => write(file, chart),
            (Some(_), None) => Err(Error::Usage(
                "there is no chart: it compares Sealane with another server, which --peer names, in \
                 what was measured of both"
                    .into(),
            )),
        }
    }

    /// What is to be measured.
    fn report(&self) -> Result<Run, Error> {
        let work = match &self.work {
            Some(work) => work.clone(),
            None => cache_directory()?,
        };
        let certificates = self.certificates.clone();
        let (rounds, measurement) = match self.quick {
            true => (
                usize::from(self.rounds).min(QUICK_ROUNDS),
                self.seconds.min(QUICK_MEASUREMENT),
            ),
            false => (self.rounds.into(), self.seconds),
        };
        Ok(Run {
            chapters: self.chapters(),
            servers: self.servers()?,
            rounds,
            measurement,
            quick: self.quick,
            certificates: certificates.unwrap_or_else(|| work.join("certificates")),
            work,
        })
    }

    /// The named chapters in the order of the page, each once.
    fn chapters(&self) -> Vec<Chapter> {
        let is_named = |chapter: &Chapter| {
            let named = Part::Chapter(*chapter);
            self.chapters
                .iter()
                .any(|part| *part == named || *part == Part::All)
        };
        Chapter::ALL.into_iter().filter(is_named).collect()
    }

    /// Sealane, then its peers.
    fn servers(&self) -> Result<Vec<Server>, Error> {
        let path = match &self.sealane {
            Some(path) => path.clone(),
            None => installed_sealane()?,
        };
        let mut servers = vec![Server {
            path,
            ..Server::named("sealane")
        }];
        for peer in &self.peers {
            let is_taken = |server: &Server| {
                // Variants of servers get the same name with something behind a dash.
                let rest = peer.name.strip_prefix(&server.name);
                rest.is_some_and(|rest| ["", "-off", "-ktls"].contains(&rest))
            };
            if servers.iter().any(is_taken) {
                return Err(Error::Usage(format!(
                    "the name \"{}\" is taken; give the peer another one",
                    peer.name
                )));
            }
            servers.push(peer.clone());
        }
        for text in &self.kinds {
            set_kind(&mut servers, text)?;
        }
        Ok(servers)
    }
}

/// Sealane next to this program, else in a directory of PATH.
fn installed_sealane() -> Result<PathBuf, Error> {
    let beside = env::current_exe()
        .ok()
        .map(|path| path.with_file_name("sealane"));
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).map(|directory| directory.join("sealane"));
    let mut all = beside.into_iter().chain(in_path);
    all.find(|path| path.is_file()).ok_or_else(|| {
        Error::Usage(
            "sealane is neither next to sealane-bench nor in PATH; use --sealane PATH".into(),
        )
    })
}

/// Where files are kept for the next run.
fn cache_directory() -> Result<PathBuf, Error> {
    let directory = |name| env::var_os(name).filter(|value| Path::new(value).is_absolute());
    let cache = directory("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(directory("HOME")?).join(".cache")));
    let cache =
        cache.ok_or_else(|| Error::Usage("HOME is not set; use --work DIRECTORY".into()))?;
    let work = cache.join("sealane-bench");
    fs::create_dir_all(&work)
        .map_err(|source| Error::io(format!("create {}", work.display()), source))?;
    Ok(work)
}

/// Writes a file and says so.
fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text)
        .map_err(|source| Error::io(format!("write {}", path.display()), source))?;
    eprintln!("{}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ReportArgs,
    }

    fn parse(line: &str) -> Result<ReportArgs, clap::Error> {
        Line::try_parse_from(line.split_ascii_whitespace()).map(|line| line.args)
    }

    #[test]
    fn chapters_are_named_once_and_in_order() {
        let chapters = |line| parse(line).expect("valid").chapters();
        assert_eq!(chapters("report s3 s1 s3"), [Chapter::S1, Chapter::S3]);
        assert_eq!(chapters("report storm all"), Chapter::ALL);
        assert!(parse("report").is_err(), "nothing to do");
        assert!(parse("report s4").is_err());
        assert!(parse("report --from a.json").is_ok());
        assert!(
            parse("report s1 --from a.json").is_err(),
            "one or the other"
        );
    }

    #[test]
    fn names_of_peers_are_their_own() {
        let servers = |line: &str| {
            let line = format!("report s1 --sealane /s {line}");
            let servers = parse(&line).expect("valid").servers();
            servers.map(|all| {
                all.iter()
                    .map(|server| server.name.clone())
                    .collect::<Vec<_>>()
            })
        };
        let both = servers("--peer nginx=/n --peer h2o=/h --kind h2o=h2o").expect("three names");
        assert_eq!(both, ["sealane", "nginx", "h2o"]);
        assert!(servers("--peer nginx=/n --peer nginx=/m").is_err());
        assert!(servers("--peer sealane=/n").is_err());
        assert!(servers("--peer sealane-off=/n").is_err());
        assert!(servers("--peer nginx=/n --kind other=h2o").is_err());
    }

    #[test]
    fn quick_runs_are_short() {
        let run = |line: &str| {
            let run = parse(line)
                .expect("valid")
                .report()
                .expect("everything is given");
            (run.rounds, run.measurement, run.quick)
        };
        let start = "report s1 --sealane /s --work /w";
        assert_eq!(run(start), (5, Duration::from_secs(2), false));
        assert_eq!(
            run(&format!("{start} --quick")),
            (2, QUICK_MEASUREMENT, true)
        );
        let shortest = format!("{start} --quick --rounds 1 --seconds 0.1");
        assert_eq!(run(&shortest), (1, Duration::from_millis(100), true));
    }
}
