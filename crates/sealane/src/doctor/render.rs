//! The report as text for a terminal: the verdict first, then what to do,
//! then the facts.

use super::report::{
    Accelerators, Answer, Configuration, Cpu, Finding, Installed, Interface, Kernel, KernelTls,
    Limits, Loadable, Report, Server, Switch, TestedKey, Use,
};
use std::fmt::Display;

/// Columns that running text takes.
const TEXT_COLUMNS: usize = 92;
/// Columns of a label, its indentation included.
const LABEL_COLUMNS: usize = 20;

/// The report as text; with colours for a terminal.
pub(super) fn text(report: &Report, colours: bool) -> String {
    let mut page = Page {
        out: String::new(),
        colours,
    };
    page.verdict(report);
    page.findings("To improve", "!", Colour::Red, &report.problems);
    page.findings("Good to know", "-", Colour::Yellow, &report.notes);
    page.kernel(&report.kernel);
    page.kernel_tls(&report.kernel_tls);
    page.interfaces(&report.interfaces);
    page.cpu(&report.cpu, report.tls_library);
    page.accelerators(&report.accelerators);
    page.limits(&report.limits);
    if let Some(configuration) = &report.configuration {
        page.configuration(configuration);
    }
    page.out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    Plain,
    Bold,
    Green,
    Yellow,
    Red,
}

struct Page {
    out: String,
    colours: bool,
}

impl Page {
    fn verdict(&mut self, report: &Report) {
        let colour = if report.good {
            Colour::Green
        } else {
            Colour::Red
        };
        let verdict = self.paint(colour, &report.verdict);
        self.line(format!("{verdict}  ({})", report.version));
    }

    fn findings(&mut self, heading: &str, mark: &str, colour: Colour, findings: &[Finding]) {
        if findings.is_empty() {
            return;
        }
        self.heading(heading);
        let mark = self.paint(colour, mark);
        for finding in findings {
            for (at, line) in wrap(&finding.what).iter().enumerate() {
                let lead = if at == 0 { mark.as_str() } else { " " };
                self.line(format!("  {lead} {line}"));
            }
            for (at, line) in finding
                .remedy
                .iter()
                .flat_map(|text| wrap_commands(text))
                .enumerate()
            {
                let lead = if at == 0 { "=>" } else { "  " };
                self.line(format!("    {lead} {line}"));
            }
        }
    }

    fn kernel(&mut self, kernel: &Kernel) {
        self.heading("Kernel");
        self.row("release", format!("{} {}", kernel.system, kernel.release));
        let module = &kernel.module;
        let installed = match module.installed {
            Installed::Builtin => "built in",
            Installed::File => "installed",
            Installed::Missing => "not installed",
            Installed::Unknown => "unknown (no /lib/modules of this kernel here)",
        };
        let loaded = match module.loadable {
            Loadable::Yes if module.installed == Installed::Builtin => "",
            Loadable::Yes if module.loaded_before => ", loaded",
            Loadable::Yes => ", loaded just now",
            Loadable::NeedsRoot => ", not loaded; only root can load it",
            Loadable::No => ", not loaded; loading it was tried",
            Loadable::Unknown => ", not loaded",
        };
        self.row("module tls", format!("{installed}{loaded}"));
        let landlock = match kernel.landlock {
            None => "unavailable or disabled: worker_landlock has no effect".to_owned(),
            Some(1) => "version 1, too old for worker_landlock".to_owned(),
            Some(version @ 2..6) => format!("version {version}; signals are confined from 6 on"),
            Some(version) => format!("version {version}"),
        };
        self.row("Landlock", landlock);
        for (algorithm, driver) in &kernel.crypto {
            let name = match *algorithm {
                "gcm(aes)" => "AES-GCM by",
                _ => "ChaCha20 by",
            };
            self.row(name, driver);
        }
        if let Some(counters) = &kernel.tls_stat {
            let count = |name: &str| counters.get(name).copied().unwrap_or(0);
            let sending = count("TlsCurrTxSw") + count("TlsCurrTxDevice");
            let receiving = count("TlsCurrRxSw") + count("TlsCurrRxDevice");
            self.row(
                "sessions",
                format!("{sending} sending, {receiving} receiving"),
            );
            self.row(
                "since loading",
                format!(
                    "{} and {}, on devices {} and {}; {} decryption errors",
                    count("TlsTxSw"),
                    count("TlsRxSw"),
                    count("TlsTxDevice"),
                    count("TlsRxDevice"),
                    count("TlsDecryptError"),
                ),
            );
        }
    }

    fn kernel_tls(&mut self, tls: &KernelTls) {
        self.heading("Kernel TLS, tried");
        self.line(format!("  {:<9}{:<21}{:<9}receive", "", "", "send"));
        // A reason that all share is already shown above.
        let common = tls.suites.first().and_then(|suite| suite.transmit.reason);
        let all_alike = tls
            .suites
            .iter()
            .all(|suite| suite.transmit.reason == common);
        for suite in &tls.suites {
            let send = self.yes_no(&suite.transmit, 9);
            let receive = self.yes_no(&suite.receive, 9);
            let why = match &suite.transmit.detail {
                Some(detail) if !all_alike => detail.as_str(),
                _ => "",
            };
            let line = format!(
                "  {:<9}{:<21}{send}{receive}{why}",
                suite.protocol, suite.cipher
            );
            self.line(line.trim_end());
        }
        let rekey = self.yes_no(&tls.rekey, 9);
        let line = format!("  {:<9}{:<21}{rekey}", "TLSv1.3", "change of the key");
        self.line(line.trim_end());
        self.line("  (Sealane sends through the kernel and lets the TLS library receive.)");
    }

    fn interfaces(&mut self, interfaces: &[Interface]) {
        self.heading("TLS in network devices");
        let none = |interface: &Interface| {
            [interface.transmit, interface.receive, interface.record]
                .iter()
                .all(|switch| *switch == Switch::Absent)
        };
        let (without, with): (Vec<_>, Vec<_>) =
            interfaces.iter().partition(|interface| none(interface));
        if !with.is_empty() {
            self.line(format!("  {:<18}{:<9}{:<9}record", "", "send", "receive"));
        }
        for interface in with {
            let cells = [interface.transmit, interface.receive, interface.record].map(|switch| {
                let (text, colour) = match switch {
                    Switch::On => ("on", Colour::Green),
                    Switch::Off => ("off", Colour::Yellow),
                    Switch::Absent => ("-", Colour::Plain),
                };
                self.cell(colour, text, 9)
            });
            let line = format!("  {:<18}{}", interface.name, cells.concat());
            self.line(line.trim_end());
        }
        if !without.is_empty() {
            let names: Vec<&str> = without.iter().map(|one| one.name.as_str()).collect();
            for (at, line) in wrap(&names.join(", ")).into_iter().enumerate() {
                self.row(if at == 0 { "cannot" } else { "" }, line);
            }
        }
    }

    fn cpu(&mut self, cpu: &Cpu, library: &str) {
        self.heading("Processor and TLS library");
        let model = cpu.model.as_deref().unwrap_or("unnamed");
        self.row("model", format!("{model}, {} usable here", cpu.available));
        self.row("TLS library", library);
        self.row("verdict", cpu.verdict);
        for feature in &cpu.features {
            let (text, colour) = match feature.present {
                true => ("yes", Colour::Green),
                false => ("no", Colour::Yellow),
            };
            let present = self.cell(colour, text, 5);
            self.row(feature.name, format!("{present}{}", feature.used_for));
        }
    }

    fn accelerators(&mut self, accelerators: &Accelerators) {
        self.heading("Private keys (ssl_accelerator)");
        self.row("cpu", self.cell(Colour::Green, "yes", 5) + "always");
        let batch = &accelerators.batch;
        let (answer, why) = match &batch.detail {
            None => (
                self.cell(Colour::Green, "yes", 5),
                "for RSA keys of 2048, 3072 and 4096 bits",
            ),
            Some(why) => (self.cell(Colour::Yellow, "no", 5), why.as_str()),
        };
        for (at, line) in wrap(why).iter().enumerate() {
            match at {
                0 => self.row("batch", format!("{answer}{line}")),
                _ => self.row("", format!("     {line}")),
            }
        }
    }

    fn limits(&mut self, limits: &Limits) {
        self.heading("Descriptors");
        let show = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |n| n.to_string());
        let own = format!("{} (hard limit {})", show(limits.soft), show(limits.hard));
        self.row("this process", own);
        self.row(
            "one process",
            format!("at most {} (fs.nr_open)", show(limits.nr_open)),
        );
        self.row(
            "all processes",
            format!("{} (fs.file-max)", show(limits.file_max)),
        );
        if let Some(needed) = limits.needed {
            let granted = show(limits.granted);
            let fits = limits.granted.is_none_or(|granted| granted >= needed);
            let colour = if fits { Colour::Green } else { Colour::Red };
            let granted = self.paint(colour, &format!("would have {granted}"));
            self.row("the server", format!("needs {needed}, {granted}"));
        }
    }

    fn configuration(&mut self, configuration: &Configuration) {
        let file = configuration.file.display().to_string();
        self.heading(&format!("Servers of {}", harmless(&file)));
        if configuration.servers.is_empty() {
            self.line("  none of them has TLS");
        }
        for server in &configuration.servers {
            let (text, colour) = match server.kernel_tls {
                Use::Yes => ("kernel TLS", Colour::Green),
                Use::Partly => ("partly kernel TLS", Colour::Yellow),
                Use::No => ("no kernel TLS", Colour::Red),
                Use::Off => ("kernel TLS is off", Colour::Plain),
            };
            let name = match server.name.as_str() {
                "" => "(no name)",
                name => &harmless(name),
            };
            let name = self.paint(Colour::Bold, name);
            let by_starttls = server.starttls_listen.iter();
            let by_starttls =
                by_starttls.map(|address| format!("{address} (starttls {})", server.starttls));
            let by_quic = server.quic_listen.iter();
            let by_quic = by_quic.map(|address| format!("{address} (quic)"));
            let addresses = server.listen.iter().cloned();
            let addresses: Vec<String> = addresses.chain(by_starttls).chain(by_quic).collect();
            let addresses = harmless(&addresses.join(", "));
            self.line(format!("  {name} on {addresses}"));
            let answer = self.paint(colour, text);
            let (first, rest) = match wrap(&server.detail) {
                mut lines if !lines.is_empty() => (lines.remove(0), lines),
                _ => (String::new(), Vec::new()),
            };
            let colon = if server.kernel_tls == Use::Yes {
                ""
            } else {
                ":"
            };
            self.line(format!("    {answer}{colon} {first}"));
            for line in rest {
                self.line(format!("    {line}"));
            }
            self.private_keys(server, configuration.handshake_threads);
            self.certificates(server);
        }
        self.tested_keys(&configuration.keys);
    }

    /// What computes with the keys of a server, and where.
    fn private_keys(&mut self, server: &Server, threads: usize) {
        if server.accelerators.is_empty() {
            return;
        }
        let keys = server.accelerators.iter();
        let keys: Vec<String> = keys
            .map(|key| format!("{} by {}", key.key, key.accelerator))
            .collect();
        let threads = match (server.ssl_async, threads) {
            ("off", _) | (_, 0) => "on the workers".to_owned(),
            (mode, 1) => format!("ssl_async {mode} with 1 handshake thread"),
            (mode, threads) => format!("ssl_async {mode} with {threads} handshake threads"),
        };
        self.line(format!("    private keys: {}, {threads}", keys.join(", ")));
    }

    /// Whether each key signs, and how fast.
    fn tested_keys(&mut self, keys: &[TestedKey]) {
        for tested in keys {
            let name = harmless(&tested.name);
            let device = match &tested.device {
                None => String::new(),
                Some(device) => format!(" ({})", harmless(device)),
            };
            let speed = tested.signatures_per_second.unwrap_or_default();
            let result = match (&tested.problem, tested.key) {
                (Some(why), _) => harmless(why),
                (None, key) => {
                    let key = key.unwrap_or_default();
                    format!("{key}, signs, {speed:.0} signatures a second")
                }
            };
            self.line(format!("  key {name}{device}: {result}"));
        }
    }

    /// When certificates end, and where their staples come from.
    fn certificates(&mut self, server: &Server) {
        for certificate in &server.certificates {
            let end = match certificate.days_left {
                None => "has no end that can be read".to_owned(),
                Some(..=-1) => "has ended".to_owned(),
                Some(1) => "ends in 1 day".to_owned(),
                Some(days) => format!("ends in {days} days"),
            };
            let staples = match &certificate.staples {
                None => String::new(),
                Some(from) => format!(", staples from {from}"),
            };
            let attempt = match &certificate.last_attempt {
                None => String::new(),
                Some(attempt) => format!(", the last attempt to get one {attempt}"),
            };
            let (key, file) = (certificate.key, &certificate.file);
            self.line(format!(
                "    certificate {key} {file}: {end}{staples}{attempt}"
            ));
        }
    }

    /// A blank line and a heading.
    fn heading(&mut self, text: &str) {
        let text = self.paint(Colour::Bold, text);
        self.line("");
        self.line(text);
    }

    /// A label and what belongs to it.
    fn row(&mut self, label: &str, value: impl Display) {
        let width = LABEL_COLUMNS - 2;
        self.line(format!("  {label:<width$}{value}"));
    }

    fn yes_no(&self, answer: &Answer, width: usize) -> String {
        match answer.works {
            true => self.cell(Colour::Green, "yes", width),
            false => self.cell(Colour::Red, "no", width),
        }
    }

    fn line(&mut self, text: impl AsRef<str>) {
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Text in colour, filled up with plain blanks.
    fn cell(&self, colour: Colour, text: &str, width: usize) -> String {
        let blanks = " ".repeat(width.saturating_sub(text.len()));
        format!("{}{blanks}", self.paint(colour, text))
    }

    fn paint(&self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Bold => 1,
            Colour::Green => 32,
            Colour::Yellow => 33,
            Colour::Red => 31,
            Colour::Plain => return text.to_owned(),
        };
        if self.colours {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Text of the configuration or the kernel, which must not steer the terminal.
fn harmless(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(shown).collect()
}

/// Lines of at most [`TEXT_COLUMNS`], broken at blanks.
fn wrap(text: &str) -> Vec<String> {
    fill(text.split_whitespace())
}

/// The same, broken at semicolons where possible, so that a command can be
/// copied as a whole.
fn wrap_commands(text: &str) -> Vec<String> {
    fill(text.split_inclusive("; ").flat_map(|part| {
        let part = part.trim();
        let whole = part.chars().count() <= TEXT_COLUMNS;
        let words = (!whole).then(|| part.split_whitespace());
        let whole = whole.then_some(part);
        whole.into_iter().chain(words.into_iter().flatten())
    }))
}

/// Puts pieces into lines, a blank between them.
fn fill<'a>(pieces: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces.map(harmless) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + piece.chars().count() < TEXT_COLUMNS => {
                line.push(' ');
                line.push_str(&piece);
            }
            _ => lines.push(piece),
        }
    }
    lines
}

#[cfg(test)]
mod tests;
