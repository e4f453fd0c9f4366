//! `sealane ech-key`: makes a key for `ssl_ech_file` and says what to publish about it.

use crate::terminal::say;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Arg, ValueHint};
use sealane_log::OsError;
use sealane_tls::{NewEchKey, Secret};
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use zeroize::Zeroizing;

const USAGE: &str = "usage: sealane ech-key --public-name NAME FILE

Writes a new key for \"ssl_ech_file\" to FILE, which must not exist yet, and prints the DNS record
that tells clients of it. NAME is what clients ask for in the open: a host name whose server, with a
valid certificate, is this one.
";

/// Digits in a line of PEM.
const PEM_LINE: usize = 64;

/// What the command takes.
pub(crate) fn describe() -> clap::Command {
    let name = Arg::new("public-name").long("public-name");
    let name = name.value_name("NAME").required(true);
    let file = Arg::new("file").value_name("FILE").required(true);
    clap::Command::new("sealane ech-key")
        .about("Makes a key for Encrypted Client Hello (ssl_ech_file) and prints its DNS record")
        .arg(name.help("What clients ask for in the open"))
        .arg(
            file.value_hint(ValueHint::FilePath)
                .help("The new file of the key"),
        )
}

/// Runs the command; `arguments` begin with `ech-key`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let Some((public_name, path)) = parse(&arguments[1..]) else {
        say(USAGE);
        return ExitCode::FAILURE;
    };
    match make(public_name, Path::new(path)) {
        Ok(record) => match io::stdout().write_all(record.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(why) => {
            say(&format!("sealane ech-key: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The public name and the file.
fn parse(arguments: &[OsString]) -> Option<(&str, &OsStr)> {
    match arguments {
        [option, name, path] if option == "--public-name" => Some((name.to_str()?, path)),
        [path, option, name] if option == "--public-name" => Some((name.to_str()?, path)),
        _ => None,
    }
}

/// Writes the key and returns the record.
fn make(public_name: &str, path: &Path) -> Result<String, String> {
    let key = sealane_tls::new_ech_key(public_name).map_err(|error| error.to_string())?;
    write(path, pem(&key).as_bytes()).map_err(|error| {
        let error = OsError(&error);
        format!("cannot write \"{}\" ({error})", path.display())
    })?;
    Ok(format!(
        "@ IN HTTPS 1 . ech={}\n",
        BASE64_STANDARD.encode(&key.config_list)
    ))
}

/// Nobody else may read it, and none is overwritten.
fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Both blocks, as OpenSSL's `openssl ech` writes them.
fn pem(key: &NewEchKey) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(1024));
    append(&mut text, "PRIVATE KEY", &key.pkcs8);
    append(
        &mut text,
        "ECHCONFIG",
        &Secret::new(key.config_list.clone()),
    );
    text
}

fn append(text: &mut String, label: &str, der: &Secret) {
    let digits = Zeroizing::new(BASE64_STANDARD.encode(der.expose()));
    text.push_str(&format!("-----BEGIN {label}-----\n"));
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, later) = rest.split_at(rest.len().min(PEM_LINE));
        text.push_str(line);
        text.push('\n');
        rest = later;
    }
    text.push_str(&format!("-----END {label}-----\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_name_and_a_file_are_needed() {
        let of = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for line in ["--public-name a.test f", "f --public-name a.test"] {
            let arguments = of(line);
            assert_eq!(
                parse(&arguments),
                Some(("a.test", OsStr::new("f"))),
                "{line}"
            );
        }
        for line in ["f", "--public-name a.test", "--name a.test f", "a b c d"] {
            assert_eq!(parse(&of(line)), None, "{line}");
        }
    }

    #[test]
    fn a_name_that_clients_refuse_is_refused() {
        for name in ["", "a b", "-a.test", "a..test", "127.0.0.1"] {
            let why = make(name, Path::new("/nonexistent/key")).err();
            let why = why.unwrap_or_default();
            assert!(why.contains("cannot be the public name"), "{name}: {why}");
        }
    }
}
