//! `-t -T -q -v -V -h -s -e`: what is printed where, and the exit code.

use crate::site::{Site, is_root, stderr};
use std::fs;

#[test]
fn a_good_configuration_is_called_so() {
    let site = Site::serving("");
    let conf = site.path("conf/nginx.conf");
    let output = site.run(&["-t"]);
    let expected = format!(
        "sealane: the configuration file {0} syntax is ok\n\
         sealane: configuration file {0} test is successful\n\
         sealane: all 10 directives work\n",
        conf.display()
    );
    assert_eq!(stderr(&output), expected);
    assert!(output.stdout.is_empty() && output.status.success());
    assert!(
        !site.path("logs/sealane.pid").exists(),
        "testing leaves no pid file"
    );

    let output = site.run(&["-qt"]);
    assert_eq!(stderr(&output), "");
    assert!(output.status.success());
}

#[test]
fn a_bad_configuration_is_named_with_file_line_and_caret() {
    let site = Site::new("events {}\nhttp {\n    rot /data;\n}\n");
    let conf = site.path("conf/nginx.conf");
    let output = site.run(&["-tq"]);
    let text = stderr(&output);
    let first = format!(
        "sealane: [emerg] unknown directive \"rot\" in {}:3\n",
        conf.display()
    );
    assert!(text.starts_with(&first), "{text}");
    assert!(
        text.contains("rot /data;\n") && text.contains('^'),
        "{text}"
    );
    let last = format!(
        "sealane: configuration file {} test failed\n",
        conf.display()
    );
    assert!(text.ends_with(&last), "{text}");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        site.text("logs/error.log").contains("[emerg]"),
        "the default error log has it as well"
    );

    let output = site.run(&[]);
    assert_eq!(output.status.code(), Some(1), "it does not start");
    assert!(!stderr(&output).contains("test failed"));
}

#[test]
fn a_dump_shows_every_file_and_only_on_stdout() {
    let site = Site::serving("include extra/*.conf;");
    fs::create_dir(site.path("conf/extra")).unwrap();
    fs::write(site.path("conf/extra/b.conf"), "# second\n").unwrap();
    fs::write(site.path("conf/extra/a.conf"), "# first\n").unwrap();
    let output = site.run(&["-Tq"]);
    assert_eq!(stderr(&output), "");
    let text = String::from_utf8(output.stdout).unwrap();
    let place = |name: &str| {
        let header = format!("# configuration file {}:\n", site.path(name).display());
        text.find(&header)
            .unwrap_or_else(|| panic!("no {header} in\n{text}"))
    };
    assert_eq!(place("conf/nginx.conf"), 0);
    assert!(place("conf/extra/a.conf") < place("conf/extra/b.conf"));
    assert!(text.ends_with("# second\n\n"), "{text}");
}

#[test]
fn versions_and_help_are_on_stderr() {
    let site = Site::serving("");
    let version = format!("sealane version: sealane/{}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(stderr(&site.run(&["-v"])), version);

    let output = site.run(&["-V"]);
    let text = stderr(&output);
    assert!(output.status.success() && output.stdout.is_empty());
    assert!(
        text.starts_with(&format!("{version}built by rustc ")),
        "{text}"
    );
    assert!(text.contains("\nbuilt with AWS-LC"), "{text}");
    assert!(text.contains("\nTLS SNI support enabled\n"), "{text}");
    let arguments = text.lines().last().unwrap();
    assert!(
        arguments.starts_with("configure arguments: --prefix="),
        "{text}"
    );
    assert!(arguments.contains(" --with-http_ssl_module"), "{text}");

    for letter in ["-h", "-?"] {
        let text = stderr(&site.run(&[letter]));
        assert!(text.starts_with(&format!("{version}Usage: sealane [-?hvVtTq] [-s signal]")));
        assert!(
            text.contains("\n  -t            : test configuration and exit\n"),
            "{text}"
        );
    }
    for (option, start) in [
        ("--version", version.to_string()),
        ("--help", format!("{version}Usage: sealane ")),
    ] {
        let binary = env!("CARGO_BIN_EXE_sealane");
        let output = std::process::Command::new(binary).arg(option).output();
        let output = output.unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with(&start), "{text}");
    }
}

#[test]
fn mistakes_on_the_command_line_end_with_code_1() {
    let site = Site::serving("");
    for (arguments, message) in [
        (&["-x"][..], "sealane: invalid option: \"x\"\n"),
        (&["start"], "sealane: invalid option: \"start\"\n"),
        (&["-s"], "sealane: option \"-s\" requires parameter\n"),
        (
            &["-s", "restart"],
            "sealane: invalid option: \"-s restart\"\n",
        ),
        (&["-c"], "sealane: option \"-c\" requires file name\n"),
    ] {
        let output = site.run(arguments);
        assert_eq!(
            (stderr(&output).as_str(), output.status.code()),
            (message, Some(1))
        );
    }
}

#[test]
fn signals_need_a_pid_file_with_the_pid_of_a_process() {
    let site = Site::serving("");
    let pid_file = site.path("logs/sealane.pid");
    let expect = |message: &str| {
        let output = site.run(&["-s", "quit"]);
        assert_eq!(stderr(&output), format!("sealane: {message}\n"));
        assert_eq!(output.status.code(), Some(1));
    };
    // nginx shows only warnings and worse on stderr; these are errors.
    let path = pid_file.display();
    expect(&format!(
        "[error] open() \"{path}\" failed (2: No such file or directory)"
    ));
    fs::write(&pid_file, "\n").unwrap();
    expect(&format!("[error] invalid PID number \"\" in \"{path}\""));
    fs::write(&pid_file, "-1\n").unwrap();
    expect(&format!("[error] invalid PID number \"-1\" in \"{path}\""));
    // The largest pid that Linux can have is 2^22.
    fs::write(&pid_file, "4194304\n").unwrap();
    expect("[alert] kill(4194304, 3) failed (3: No such process)");
    fs::remove_file(&pid_file).unwrap();
}

#[test]
fn an_error_log_that_was_asked_for_and_cannot_be_opened_is_mentioned() {
    let site = Site::serving("");
    let output = site.run(&["-t", "-q", "-e", "none/e.log"]);
    let expected = format!(
        "sealane: [alert] could not open error log file: open() \"{}\" failed \
         (2: No such file or directory)\n",
        site.path("none/e.log").display()
    );
    assert_eq!(stderr(&output), expected);
    assert!(
        output.status.success(),
        "the configuration names another one"
    );
}

#[test]
fn a_log_that_cannot_be_opened_stops_the_start() {
    let site = Site::serving("");
    let conf = fs::read_to_string(site.path("conf/nginx.conf")).unwrap();
    site.configure(&conf.replace("access_log logs/", "access_log none/"));
    let output = site.run(&[]);
    let expected = format!(
        "sealane: [emerg] open() \"{}\" failed (2: No such file or directory)\n",
        site.path("none/access.log").display()
    );
    assert_eq!(stderr(&output), expected);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_certificate_that_cannot_be_read_stops_the_start() {
    let site = Site::new(
        "error_log stderr;
        events {}
        http { server {
            listen 127.0.0.1:PORT ssl;
            ssl_certificate missing.pem;
            ssl_certificate_key missing.key;
        } }",
    );
    let output = site.run(&["-tq"]);
    let text = stderr(&output);
    let expected = format!(
        "[emerg] cannot load certificate \"{}\": open() failed (2: No such file or directory)",
        site.path("conf/missing.pem").display()
    );
    assert!(text.contains(&expected), "{text}");
    assert_eq!(output.status.code(), Some(1));
    fs::write(site.path("conf/missing.pem"), "no PEM at all").unwrap();
    fs::write(site.path("conf/missing.key"), "no PEM at all").unwrap();
    let text = stderr(&site.run(&["-tq"]));
    assert!(text.contains("[emerg] cannot load certificate "), "{text}");
}

#[test]
fn the_user_directive_means_nothing_without_privileges_and_an_existing_user_with() {
    let site = Site::serving("user no-such-user-here;");
    let text = stderr(&site.run(&["-tq"]));
    if is_root() {
        assert!(text.contains("[emerg] get"), "{text}");
        assert!(text.contains("(\"no-such-user-here\") failed"), "{text}");
    } else {
        assert!(
            text.contains("[warn] the \"user\" directive makes sense only if"),
            "{text}"
        );
    }
}
