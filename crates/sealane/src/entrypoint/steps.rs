//! What is done before the server starts.

use crate::templates;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the steps and the server find in their environment.
pub(crate) type Environment = BTreeMap<OsString, OsString>;

/// Nothing but errors is said.
const QUIET: &str = "NGINX_ENTRYPOINT_QUIET_LOGS";
/// Asks for the next one.
const WANTS_RESOLVERS: &str = "NGINX_ENTRYPOINT_LOCAL_RESOLVERS";
/// The name servers of the container, for `resolver`.
const RESOLVERS: &str = "NGINX_LOCAL_RESOLVERS";
const RESOLV_CONF: &str = "/etc/resolv.conf";
const SHELL: &str = "/bin/sh";

/// One of them, by its name.
#[derive(Debug, PartialEq, Eq)]
enum Preparation {
    /// As nginx's file with this name.
    LocalResolvers,
    /// The same.
    Templates,
    /// Of the image's user.
    File(PathBuf),
}

/// Does all of them.
pub(crate) fn run(directory: &Path, environment: &mut Environment) -> Result<(), String> {
    let is_quiet = environment.contains_key(OsStr::new(QUIET));
    let say = |text: &str| {
        if !is_quiet {
            println!("sealane-entrypoint: {text}");
        }
    };
    for step in steps(directory)? {
        match step {
            Preparation::LocalResolvers => add_resolvers(environment),
            Preparation::Templates => templates::fill_in(environment, &say)?,
            Preparation::File(path) => run_file(&path, environment, &say)?,
        }
    }
    Ok(())
}

/// In the order of their names. A file with the name of one of our own takes its place.
fn steps(directory: &Path) -> Result<Vec<Preparation>, String> {
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    let mut named = BTreeMap::from([
        (
            sort_key(OsStr::new("15-local-resolvers.envsh")),
            Preparation::LocalResolvers,
        ),
        (
            sort_key(OsStr::new("20-envsubst-on-templates.sh")),
            Preparation::Templates,
        ),
    ]);
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed(error)),
    };
    for entry in entries.into_iter().flatten() {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_file() && !name.as_bytes().starts_with(b".") {
            named.insert(sort_key(name), Preparation::File(path));
        }
    }
    Ok(named.into_values().collect())
}

/// As `sort -V`: numbers by their value.
fn sort_key(name: &OsStr) -> Vec<(u64, Vec<u8>)> {
    let mut parts = Vec::new();
    let mut rest = name.as_bytes();
    while !rest.is_empty() {
        let text = rest
            .iter()
            .take_while(|byte| !byte.is_ascii_digit())
            .count();
        let (before, behind) = rest.split_at(text);
        let digits = behind
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let (number, behind) = behind.split_at(digits);
        let number = std::str::from_utf8(number).unwrap_or_default();
        parts.push((0, before.to_vec()));
        parts.push((number.parse().unwrap_or(u64::MAX), Vec::new()));
        rest = behind;
    }
    parts
}

fn run_file(path: &Path, environment: &mut Environment, say: &dyn Fn(&str)) -> Result<(), String> {
    let shown = path.display();
    let mode = path
        .metadata()
        .map_or(0, |facts| facts.permissions().mode());
    let extension = path.extension().unwrap_or_default();
    if mode & 0o111 == 0 {
        say(&format!("ignoring {shown}, which is not executable"));
        return Ok(());
    }
    if extension == "envsh" {
        say(&format!("sourcing {shown}"));
        return source(path, environment);
    }
    say(&format!("running {shown}"));
    let status = Command::new(path).env_clear().envs(&*environment).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} has failed ({status})")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(format!(
            "{shown} needs a program that this image does not have, probably a shell: add a \
             program that needs none, or build the image on one with a shell"
        )),
        Err(error) => Err(format!("cannot run {shown}: {error}")),
    }
}

/// Lets a shell read the file, and takes over what the environment is afterwards.
fn source(path: &Path, environment: &mut Environment) -> Result<(), String> {
    let shown = path.display();
    if !Path::new(SHELL).exists() {
        return Err(format!(
            "{shown} can only be read by a shell, which this image does not have: set the \
             variables of the container instead"
        ));
    }
    let mut shell = Command::new(SHELL);
    // The directory with a slash: names without one are looked for in PATH.
    shell.args(["-c", ". \"$0\" >&2 && exec env -0"]).arg(path);
    let answer = shell.env_clear().envs(&*environment).output();
    let answer = answer.map_err(|error| format!("cannot run {SHELL}: {error}"))?;
    if !answer.status.success() {
        let why = String::from_utf8_lossy(&answer.stderr);
        return Err(format!(
            "{shown} has failed ({}): {}",
            answer.status,
            why.trim()
        ));
    }
    let variables = answer.stdout.split(|byte| *byte == 0);
    let variables = variables.filter_map(|text| {
        let at = text.iter().position(|byte| *byte == b'=')?;
        let word = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((word(&text[..at]), word(&text[at + 1..])))
    });
    *environment = variables.collect();
    Ok(())
}

fn add_resolvers(environment: &mut Environment) {
    if !environment.contains_key(OsStr::new(WANTS_RESOLVERS)) {
        return;
    }
    let text = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    environment.insert(RESOLVERS.into(), resolvers(&text).into());
}

/// The name servers of a `resolv.conf`, as `resolver` takes them.
fn resolvers(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let addresses = lines.filter_map(|words| match words[..] {
        ["nameserver", address, ..] if address.contains(':') => Some(format!("[{address}]")),
        ["nameserver", address, ..] => Some(address.to_owned()),
        _ => None,
    });
    addresses.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sealane-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("writable");
        path
    }

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).expect("writable");
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode).expect("ours");
    }

    #[test]
    fn steps_are_in_the_order_of_their_numbers() {
        let directory = directory("order");
        for name in [
            "9-a.sh",
            "10-b.sh",
            "16-c.sh",
            "100-d",
            ".hidden",
            "20-envsubst-on-templates.sh",
        ] {
            write(&directory.join(name), "", 0o755);
        }
        let file = |name: &str| Preparation::File(directory.join(name));
        assert_eq!(
            steps(&directory).expect("readable"),
            [
                file("9-a.sh"),
                file("10-b.sh"),
                Preparation::LocalResolvers,
                file("16-c.sh"),
                file("20-envsubst-on-templates.sh"),
                file("100-d"),
            ]
        );
        std::fs::remove_dir_all(&directory).expect("ours");
        let own = steps(&directory).expect("a directory that is missing is empty");
        assert_eq!(own, [Preparation::LocalResolvers, Preparation::Templates]);
    }

    #[test]
    fn files_run_with_the_environment_and_those_to_be_sourced_change_it() {
        let directory = directory("run");
        let out = directory.join("out");
        let path = |name: &str| directory.join(name);
        write(
            &path("1-set.envsh"),
            "export GREETING=\"hello $NAME\"; echo said\n",
            0o755,
        );
        let echo = format!("#!/bin/sh\necho \"$GREETING\" >{}\n", out.display());
        write(&path("2-use.sh"), &echo, 0o755);
        write(&path("3-not.sh"), "#!/bin/sh\nexit 1\n", 0o644);
        let path_variable = ("PATH".into(), std::env::var_os("PATH").unwrap_or_default());
        let mut environment = Environment::from([
            path_variable,
            ("NAME".into(), "you\nand me".into()),
            (QUIET.into(), "1".into()),
            ("NGINX_ENVSUBST_TEMPLATE_DIR".into(), path("none").into()),
        ]);
        run(&directory, &mut environment).expect("all are well");
        assert_eq!(
            std::fs::read_to_string(&out).expect("written"),
            "hello you\nand me\n"
        );
        write(&path("4-bad.sh"), "#!/bin/sh\nexit 3\n", 0o755);
        let message = run(&directory, &mut environment).expect_err("a step fails");
        assert!(
            message.contains("4-bad.sh has failed (exit status: 3)"),
            "{message}"
        );
        write(&path("4-bad.sh"), "#!/nonexistent/sh\n", 0o755);
        let message = run(&directory, &mut environment).expect_err("there is no such shell");
        assert!(message.contains("probably a shell"), "{message}");
        std::fs::remove_dir_all(&directory).expect("ours");
    }

    #[test]
    fn name_servers_are_written_as_resolver_takes_them() {
        let text = "# a\nsearch x\nnameserver 10.0.0.2\nnameserver fd00::2\noptions ndots:5\n";
        assert_eq!(resolvers(text), "10.0.0.2 [fd00::2]");
    }
}
