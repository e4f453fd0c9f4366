//! What the packages contain, checked without making one; `make package-test` installs one.

use sealane_tests::{command, repository, sealane_binary};
use std::fs;
use std::path::{Path, PathBuf};

fn packaging(name: &str) -> PathBuf {
    repository().join("packaging").join(name)
}

#[track_caller]
fn read(name: &str) -> String {
    let path = packaging(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("readable").path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

/// The text of `sealane ...` on standard output.
#[track_caller]
fn says(arguments: &[&str]) -> String {
    let outcome = command(&sealane_binary().display().to_string(), arguments, b"");
    outcome.success().text()
}

/// Words of a help text that are options: `-x` at its beginning, and `--xyz` anywhere.
fn options(help: &str) -> Vec<String> {
    let lines = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-'));
    let words = lines.flat_map(|line| {
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | ':' | '=' | '[');
        let mut words: Vec<&str> = line.split(ends).collect();
        words.retain(|word| word.len() > 1 && word.starts_with('-'));
        words
            .into_iter()
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    words.filter(|word| word != "-?").collect()
}

#[test]
fn manual_page_and_completions_name_all_that_the_program_takes() {
    let help = says(&["--help"]);
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let names = commands.lines().filter_map(|line| line.split_once(':'));
    let names: Vec<&str> = names.map(|(name, _)| name.trim()).collect();
    assert!(
        names.contains(&"doctor") && names.contains(&"takeover"),
        "{names:?}"
    );
    let page = read("man/sealane.8").replace('\\', "");
    let completions = ["sealane.bash", "_sealane", "sealane.fish"];
    let completions = completions.map(|name| (name, read(&format!("completions/{name}"))));
    for name in &names {
        assert!(
            page.contains(&format!(".SS {name}\n")),
            "{name} in the manual page"
        );
        for (file, text) in &completions {
            assert!(text.contains(name), "{name} in {file}");
        }
    }
    let mut all = options(&help);
    assert!(
        all.contains(&"-t".to_owned()) && all.contains(&"--version".to_owned()),
        "{all:?}"
    );
    for name in names
        .into_iter()
        .filter(|name| !["bench", "ech-key"].contains(name))
    {
        all.extend(options(&says(&[name, "--help"])));
    }
    assert!(all.contains(&"--dry-run".to_owned()), "{all:?}");
    for option in all {
        assert!(page.contains(&option), "{option} in the manual page");
        for (file, text) in &completions {
            // fish: `-s x` and `-l xyz`.
            let long = option.strip_prefix("--").map(|name| format!("-l {name}"));
            let short = option
                .strip_prefix('-')
                .map(|letter| format!("-s {letter}"));
            let fish = long.or(short).expect("an option");
            let wanted = if *file == "sealane.fish" {
                &fish
            } else {
                &option
            };
            assert!(text.contains(wanted.as_str()), "{wanted} in {file}");
        }
    }
}

#[test]
fn the_unit_is_hardened() {
    let unit = packaging("systemd/sealane.service").display().to_string();
    let arguments = [
        "security",
        "--offline=true",
        "--no-pager",
        "--threshold=25",
        &unit,
    ];
    let outcome = command("systemd-analyze", &arguments, b"");
    assert_eq!(outcome.status, 0, "{}{}", outcome.text(), outcome.stderr);
    // A name of a system call that systemd does not know would not be allowed.
    assert!(!outcome.stderr.contains("ignoring"), "{}", outcome.stderr);
}

/// The default configuration as it is installed, below another directory.
fn installed() -> sealane_tests::Site {
    let site = sealane_tests::Site::new();
    let source = packaging("config");
    for file in files_below(&source) {
        let name = file.strip_prefix(&source).expect("below it").to_owned();
        let mut text = fs::read_to_string(&file).expect("text");
        let is_tls = name.ends_with("example-tls");
        for (from, to) in [
            ("/var/log/sealane/", "logs/"),
            ("/run/sealane.pid", "logs/pid"),
            ("user sealane;", "user nobody nogroup;"),
            (
                "/etc/ssl/certs/example.com.pem",
                "../certificates/example.pem",
            ),
            (
                "/etc/ssl/private/example.com.key",
                "../certificates/example.key",
            ),
            ("80 default_server", "127.0.0.1:%plain% default_server"),
            ("[::]:127.0.0.1:%plain%", "127.0.0.1:%other%"),
        ] {
            text = text.replace(from, to);
        }
        if is_tls {
            text = text.replace("listen 80;", "listen 127.0.0.1:%plain%;");
            text = text.replace("listen [::]:80;", "");
            text = text.replace("listen 443 ssl;", "listen 127.0.0.1:%tls% ssl;");
            text = text.replace("listen [::]:443 ssl;", "");
        }
        site.write(Path::new("conf").join(&name), site.fill_in(&text));
    }
    fs::create_dir_all(site.path("conf/sites-enabled")).expect("writable");
    site
}

#[test]
fn the_default_configuration_works_in_its_layout() {
    let site = installed();
    let certificate =
        sealane_tests::Certificate::localhost("example", sealane_tests::CertificateKey::P256);
    site.certificate(&certificate);
    for name in ["default", "example-tls"] {
        let link = site.path("conf/sites-enabled").join(name);
        std::os::unix::fs::symlink(format!("../sites-available/{name}"), link).expect("writable");
    }
    // What sites include.
    site.write(
        "conf/conf.d/included.conf",
        site.fill_in(
            "include koi-utf; include koi-win; include win-utf;
             server { listen 127.0.0.1:%more%; server_name more;
                 location /a { include fastcgi.conf; fastcgi_pass 127.0.0.1:1; }
                 location /b { include fastcgi_params; fastcgi_pass 127.0.0.1:1; }
                 location /c { include uwsgi_params; uwsgi_pass 127.0.0.1:1; }
                 location /d { include scgi_params; scgi_pass 127.0.0.1:1; }
                 location /e { include proxy_params; proxy_pass http://127.0.0.1:1; } }",
        ),
    );
    let prefix = site.path("").display().to_string();
    let program = sealane_binary().display().to_string();
    let outcome = command(
        &program,
        &["-t", "-p", &prefix, "-c", "conf/nginx.conf"],
        b"",
    );
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("[warn]"), "{}", outcome.stderr);
    // nginx takes it, too: a configuration that began here can go back. Debian's does not know this
    // directive yet.
    let tls = site.path("conf/sites-available/example-tls");
    fs::write(&tls, read_path(&tls).replace("http2 on;", "")).expect("writable");
    let nginx = sealane_tests::nginx_binary().display().to_string();
    let arguments = ["-t", "-p", &prefix, "-e", "logs/e", "-c", "conf/nginx.conf"];
    let outcome = command(&nginx, &arguments, b"");
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
}

#[test]
fn scripts_of_the_package_are_shell() {
    let mut scripts = files_below(&packaging("debian"));
    scripts.extend(["upgrade.sh", "stop.sh"].map(packaging));
    assert!(scripts.len() >= 5);
    let mut shells: Vec<Vec<&str>> = vec![vec!["sh", "-n"], vec!["bash", "-n"]];
    if command("bash", &["-c", "command -v shellcheck"], b"").status == 0 {
        shells.push(vec!["shellcheck", "--shell=sh"]);
    }
    for script in scripts {
        let path = script.display().to_string();
        assert!(read_path(&script).starts_with("#!/bin/sh\n"), "{path}");
        for shell in &shells {
            let arguments: Vec<&str> = shell[1..].iter().copied().chain([path.as_str()]).collect();
            command(shell[0], &arguments, b"").success();
        }
    }
    let completion = packaging("completions/sealane.bash").display().to_string();
    command("bash", &["-n", &completion], b"").success();
}

fn read_path(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

#[test]
fn every_file_of_the_configuration_is_kept_on_upgrades() {
    let manifest = fs::read_to_string(repository().join("crates/sealane/Cargo.toml"));
    let manifest = manifest.expect("it is there");
    let source = packaging("config");
    for file in files_below(&source) {
        let name = file.strip_prefix(&source).expect("below it").display();
        let listed = format!("\"/etc/sealane/{name}\"");
        assert!(
            manifest.contains(&listed),
            "{listed} is missing in conf-files"
        );
    }
}
