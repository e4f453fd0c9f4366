//! What `-v`, `-V` and `-h` print.

use crate::SUBCOMMANDS;
use crate::paths::{ConfChoice, PACKAGE, Places};
use std::path::Path;

/// Name and version, as `Server` headers and logs have it.
pub(crate) const NAME_AND_VERSION: &str = concat!("sealane/", env!("CARGO_PKG_VERSION"));

/// The answer to `-v`.
pub(crate) const LINE: &str = concat!("sealane version: sealane/", env!("CARGO_PKG_VERSION"), "\n");

/// The compiler.
pub(crate) const COMPILER: &str = env!("SEALANE_RUSTC_VERSION");

/// Modules of nginx that its `configure` has to be asked for, each with a directive of its own.
const MODULES: &[(&str, &str)] = &[
    ("http_addition", "add_before_body"),
    ("http_auth_request", "auth_request"),
    ("http_dav", "dav_methods"),
    ("http_flv", "flv"),
    ("http_gunzip", "gunzip"),
    ("http_gzip_static", "gzip_static"),
    ("http_mp4", "mp4"),
    ("http_random_index", "random_index"),
    ("http_realip", "real_ip_header"),
    ("http_secure_link", "secure_link"),
    ("http_slice", "slice"),
    ("http_ssl", "ssl_certificate"),
    ("http_stub_status", "stub_status"),
    ("http_sub", "sub_filter"),
    ("http_v2", "http2"),
    ("http_v3", "http3"),
];

/// Those whose directives work here, in the notation of nginx's `configure`, for scripts that
/// look for them.
fn modules() -> String {
    let here = MODULES
        .iter()
        .filter(|(_, directive)| sealane_conf::directives::works(directive));
    let options = here.map(|(module, _)| format!("--with-{module}_module"));
    options.collect::<Vec<_>>().join(" ")
}

/// The answer to `-h`, below [`LINE`].
pub(crate) fn help(places: &Places) -> String {
    let layout = &places.layout;
    let (prefix, conf, error_log) = (layout.prefix, layout.conf, layout.error_log);
    format!(
        "Usage: sealane [-?hvVtTq] [-s signal] [-p prefix]
               [-e filename] [-c filename] [-g directives]
       sealane command ... (sealane command --help)

Options:
  -?,-h,--help  : this help
  -v,--version  : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: {prefix}/)
  -e filename   : set error log file (default: {error_log})
  -c filename   : set configuration file (default: {conf})
  -g directives : set global directives out of configuration file

Commands:
{}
",
        commands()
    )
}

/// The named commands, in the layout of the options.
fn commands() -> String {
    let mut lines = String::new();
    for subcommand in SUBCOMMANDS {
        let about = (subcommand.describe)().get_about().map(ToString::to_string);
        let about = about.unwrap_or_default();
        let mut name = subcommand.name;
        for line in wrapped(&about, ABOUT_COLUMNS) {
            let colon = if name.is_empty() { ' ' } else { ':' };
            lines.push_str(&format!("  {name:<14}{colon} {line}\n"));
            name = "";
        }
    }
    lines
}

/// Behind a command's name, in 80 columns.
const ABOUT_COLUMNS: usize = 61;

/// Lines of at most so many columns; a word alone may be longer.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The answer to `-V`, below [`LINE`].
pub(crate) fn build(places: &Places) -> String {
    let conf = places.conf_file.display();
    let layout = &places.layout;
    let why = match places.conf_choice {
        ConfChoice::Given => "given with -c",
        ConfChoice::Default if *layout == PACKAGE => "the package's",
        ConfChoice::Default => "default",
        ConfChoice::Nginx => "nginx's, because there is no other",
    };
    // As they were chosen for this machine, whatever `-p` and `-c` say.
    let under_prefix = |path: &str| Path::new(layout.prefix).join(path).display().to_string();
    let paths = [
        ("prefix", layout.prefix.to_owned()),
        ("conf-path", under_prefix(layout.conf)),
        ("error-log-path", under_prefix(layout.error_log)),
        ("http-log-path", under_prefix(layout.access_log)),
        ("pid-path", under_prefix(layout.pid)),
    ];
    let paths = paths
        .map(|(name, path)| format!("--{name}={path}"))
        .join(" ");
    format!(
        "built by {COMPILER}
built with {}
TLS SNI support enabled
configuration file: {conf} ({why})
configure arguments: {paths} {}\n",
        sealane_tls::library_version(),
        modules()
    )
}
