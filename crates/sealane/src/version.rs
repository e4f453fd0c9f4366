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

/// Options of nginx's `configure` that it has to be asked for, each with a directive that is there
/// with it.
const MODULES: &[(&str, &str)] = &[
    ("--with-http_addition_module", "add_before_body"),
    ("--with-http_auth_request_module", "auth_request"),
    ("--with-http_dav_module", "dav_methods"),
    ("--with-http_flv_module", "flv"),
    ("--with-http_gunzip_module", "gunzip"),
    ("--with-http_gzip_static_module", "gzip_static"),
    ("--with-http_mp4_module", "mp4"),
    ("--with-http_random_index_module", "random_index"),
    ("--with-http_realip_module", "real_ip_header"),
    ("--with-http_secure_link_module", "secure_link"),
    ("--with-http_slice_module", "slice"),
    ("--with-http_ssl_module", "ssl_certificate"),
    ("--with-http_stub_status_module", "stub_status"),
    ("--with-http_sub_module", "sub_filter"),
    ("--with-http_v2_module", "http2"),
    ("--with-http_v3_module", "http3"),
    ("--with-mail", "mail"),
    ("--with-mail_ssl_module", "starttls"),
    ("--with-stream", "stream"),
    ("--with-stream_realip_module", "set_real_ip_from"),
    ("--with-stream_ssl_module", "proxy_ssl"),
    ("--with-stream_ssl_preread_module", "ssl_preread"),
];

/// What `thread_pool` and `aio threads` need there; here reads that could block always run in
/// threads.
const THREADS: &str = "--with-threads";

/// Those whose directives work here, in the notation of nginx's `configure`, for scripts that
/// look for them.
fn modules() -> String {
    let here = MODULES
        .iter()
        .filter(|(_, directive)| sealane_conf::directives::works(directive));
    let options = here.map(|(option, _)| *option).chain([THREADS]);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_find_every_part_of_nginx_in_the_arguments() {
        let options = modules();
        let options: Vec<&str> = options.split(' ').collect();
        for option in [
            "--with-http_ssl_module",
            "--with-http_v3_module",
            "--with-mail",
            "--with-mail_ssl_module",
            "--with-stream",
            "--with-stream_realip_module",
            "--with-stream_ssl_module",
            "--with-stream_ssl_preread_module",
            "--with-threads",
        ] {
            assert!(options.contains(&option), "{option}");
        }
        assert_eq!(options.len(), MODULES.len() + 1, "all of them are here");
    }
}
