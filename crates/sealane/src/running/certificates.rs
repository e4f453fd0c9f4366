//! `sealane certificates`: when the certificates and staples of a running server end.

use super::answer::Answer;
use super::figures::{count, span};
use super::{Target, answer_with};
use clap::{CommandFactory, Parser};
use sealane_sys::time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::ExitCode;

/// A certificate ends within `--within`.
const ENDS_SOON: u8 = 2;
const DAY_S: f64 = 86_400.0;
/// Columns are this far apart.
const GAP: &str = "  ";

#[derive(Parser)]
#[command(
    name = "sealane certificates",
    bin_name = "sealane certificates",
    about = "Lists the certificates of a running server, those that end first at the top",
    after_help = "Exit status: 0, or 2 if a certificate ends within --within days; 1 if the server \
                  has not \nanswered."
)]
struct Request {
    #[command(flatten)]
    target: Target,
    /// List only those that end within so many days, and end with status 2 if there are any
    #[arg(long, value_name = "days")]
    within: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    Request::command()
}

/// Does what the command line asks for; `arguments` begin with `certificates`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    answer_with(arguments, |request: &Request| {
        let answer = request.target.find()?.ask()?;
        let mut certificates = certificates(&answer);
        if let Some(days) = request.within {
            certificates.retain(|certificate| certificate.days_left < f64::from(days));
        }
        let text = match request.json {
            true => {
                let json = serde_json::to_string_pretty(&certificates);
                json.map_err(|error| format!("cannot write JSON: {error}"))? + "\n"
            }
            false => table(&certificates, answer.time_s, request.within),
        };
        let code = match request.within.is_some() && !certificates.is_empty() {
            true => ExitCode::from(ENDS_SOON),
            false => ExitCode::SUCCESS,
        };
        Ok((text.into_bytes(), code))
    })
}

/// A certificate with all servers that use it.
#[derive(Serialize)]
pub(crate) struct Certificate {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) servers: Vec<String>,
    pub(crate) days_left: f64,
    /// When it ends, in seconds of Unix time.
    pub(crate) not_after: f64,
    /// The same of its staple; 0 if there should be one, absent if there need not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) staple_until: Option<f64>,
}

/// All certificates, those that end first at the top.
pub(crate) fn certificates(answer: &Answer) -> Vec<Certificate> {
    let mut known: BTreeMap<(&str, &str), Certificate> = BTreeMap::new();
    for sample in answer.samples("certificate_not_after_timestamp_seconds") {
        let (server, path, key) = (sample.label(0), sample.label(1), sample.label(2));
        let not_after = sample.number().unwrap_or(0.0);
        let certificate = known.entry((path, key)).or_insert_with(|| Certificate {
            certificate: path.to_owned(),
            key: key.to_owned(),
            servers: Vec::new(),
            days_left: (not_after - answer.time_s) / DAY_S,
            not_after,
            staple_until: answer.number("staple_next_update_timestamp_seconds", &[path]),
        });
        certificate.servers.push(server.to_owned());
    }
    let mut certificates: Vec<Certificate> = known.into_values().collect();
    certificates.sort_by(|a, b| a.not_after.total_cmp(&b.not_after));
    certificates
}

impl Certificate {
    /// How long it is valid.
    pub(crate) fn left(&self) -> String {
        match self.days_left {
            left if left < 0.0 => format!("ended {} ago", span(-left * DAY_S)),
            left => span(left * DAY_S),
        }
    }

    /// The servers, shortened.
    pub(crate) fn servers(&self) -> String {
        let first = self.servers.first().map_or("", String::as_str);
        let first = if first.is_empty() { "(no name)" } else { first };
        match self.servers.len() {
            0 | 1 => first.to_owned(),
            more => format!("{first} and {} more", count((more - 1) as f64)),
        }
    }

    /// How long the staple may be sent.
    pub(crate) fn staple(&self, now_s: f64) -> String {
        match self.staple_until {
            None => "not stapled".to_owned(),
            Some(0.0) => "none yet".to_owned(),
            Some(end_s) if end_s < now_s => "out of date".to_owned(),
            Some(end_s) => span(end_s - now_s),
        }
    }
}

/// A moment in UTC.
pub(crate) fn date(unix_s: f64) -> String {
    let text = time::formatted(unix_s as i64, false, c"%Y-%m-%d %H:%M");
    String::from_utf8_lossy(&text).into_owned()
}

fn table(certificates: &[Certificate], now_s: f64, within: Option<u32>) -> String {
    if certificates.is_empty() {
        return match within {
            None => "The server has no certificates.\n".to_owned(),
            Some(days) => format!("No certificate ends within {days} days.\n"),
        };
    }
    let head = [
        "left",
        "ends (UTC)",
        "key",
        "staple",
        "servers",
        "certificate",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(certificates.iter().map(|certificate| {
        [
            certificate.left(),
            date(certificate.not_after),
            certificate.key.clone(),
            certificate.staple(now_s),
            certificate.servers(),
            certificate.certificate.clone(),
        ]
    }));
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        text.push_str(cells.join(GAP).trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_listed_with_all_of_their_servers() {
        let json = serde_json::json!({"time": 1000.0, "bounds": [], "families": {
            "sealane_certificate_not_after_timestamp_seconds": {
                "labels": ["server", "certificate", "key"], "samples": [
                    ["a", "/a.crt", "RSA 2048", 1000.0 + 864_000.0],
                    ["b", "/b.crt", "ECDSA P-256", 400.0],
                    ["c", "/a.crt", "RSA 2048", 1000.0 + 864_000.0]]},
            "sealane_staple_next_update_timestamp_seconds": {
                "labels": ["certificate"], "samples": [["/a.crt", 4600.0]]}}});
        let answer = Answer::read(json.to_string().as_bytes()).expect("it is valid");
        let certificates = certificates(&answer);
        let expected = "\
left              ends (UTC)        key          staple       servers       certificate
ended 10 min ago  1970-01-01 00:06  ECDSA P-256  not stapled  b             /b.crt
10 d 0 h          1970-01-11 00:16  RSA 2048     1 h 0 min    a and 1 more  /a.crt
";
        let text = table(&certificates, 1000.0, None);
        assert_eq!(text, expected);
        assert_eq!(
            table(&[], 0.0, Some(30)),
            "No certificate ends within 30 days.\n"
        );
    }
}
