//! Default paths of files.

use crate::arguments::Arguments;
use std::path::{Path, PathBuf};

/// nginx's own configuration, used when neither `-c` nor `-p` is given and there is no other:
/// changing the binary must be enough.
const NGINX_CONF: &str = "/etc/nginx/nginx.conf";

/// Where an installation has its files, as nginx's `configure` is told: relative ones start from
/// the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// `--prefix`.
    pub(crate) prefix: &'static str,
    /// `--conf-path`: the configuration file, unless `-c` names one.
    pub(crate) conf: &'static str,
    /// `--error-log-path`: the error log until the configuration is read, unless `-e` names one.
    pub(crate) error_log: &'static str,
    /// `--http-log-path`.
    pub(crate) access_log: &'static str,
    /// `--pid-path`.
    pub(crate) pid: &'static str,
    /// Where directories for temporary files are.
    pub(crate) temp: &'static str,
}

/// Everything below one directory. Set `SEALANE_PREFIX` when building to change it.
pub(crate) const ONE_DIRECTORY: Layout = Layout {
    prefix: match option_env!("SEALANE_PREFIX") {
        Some(prefix) => prefix,
        None => "/usr/local/sealane",
    },
    conf: "conf/nginx.conf",
    error_log: "logs/error.log",
    access_log: "logs/access.log",
    pid: "logs/sealane.pid",
    temp: "",
};

/// That of the packages. It holds where their configuration file is and there is none below the
/// prefix of [`ONE_DIRECTORY`]: one binary is in the archive and in all packages.
pub(crate) const PACKAGE: Layout = Layout {
    prefix: "/usr/share/sealane",
    conf: "/etc/sealane/nginx.conf",
    error_log: "/var/log/sealane/error.log",
    access_log: "/var/log/sealane/access.log",
    pid: "/run/sealane.pid",
    temp: "/var/lib/sealane",
};

/// Where everything is for a command line; all paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// How the others were chosen.
    pub(crate) layout: Layout,
    /// Relative paths of the configuration start here.
    pub(crate) prefix: PathBuf,
    /// The configuration file.
    pub(crate) conf_file: PathBuf,
    /// How it was chosen.
    pub(crate) conf_choice: ConfChoice,
    /// Where errors go until the configuration is read.
    pub(crate) error_log: FirstLog,
    /// The access log, the pid file and the directory for temporary files of a configuration that
    /// names none.
    pub(crate) access_log: PathBuf,
    pub(crate) pid: PathBuf,
    pub(crate) temp: PathBuf,
}

/// How the configuration file was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfChoice {
    /// By `-c`.
    Given,
    /// That of the layout.
    Default,
    /// nginx's.
    Nginx,
}

/// The error log until the configuration is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FirstLog {
    /// `-e stderr`, or `-e ""`.
    Stderr,
    /// A file named with `-e`.
    Given(PathBuf),
    /// The default, which need not exist.
    Default(PathBuf),
}

impl Places {
    /// Places for a command line.
    pub(crate) fn new(arguments: &Arguments) -> Places {
        let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        Places::in_directory(arguments, &directory, |path| path.exists())
    }

    fn in_directory(
        arguments: &Arguments,
        directory: &Path,
        exists: impl Fn(&Path) -> bool,
    ) -> Places {
        let own_conf = Path::new(ONE_DIRECTORY.prefix).join(ONE_DIRECTORY.conf);
        let layout = match &arguments.prefix {
            None if !exists(&own_conf) && exists(PACKAGE.conf.as_ref()) => PACKAGE,
            _ => ONE_DIRECTORY,
        };
        let given = arguments.prefix.as_deref();
        let prefix = directory.join(given.unwrap_or(layout.prefix.as_ref()));
        let default_conf = prefix.join(layout.conf);
        let may_be_nginx_s = given.is_none() && !exists(&default_conf);
        let (conf_file, conf_choice) = match &arguments.conf_file {
            Some(given) => (prefix.join(given), ConfChoice::Given),
            None if may_be_nginx_s && exists(NGINX_CONF.as_ref()) => {
                (NGINX_CONF.into(), ConfChoice::Nginx)
            }
            None => (default_conf, ConfChoice::Default),
        };
        let error_log = match &arguments.error_log {
            Some(given) if given.as_os_str().is_empty() || given.as_os_str() == "stderr" => {
                FirstLog::Stderr
            }
            Some(given) => FirstLog::Given(prefix.join(given)),
            None => FirstLog::Default(prefix.join(layout.error_log)),
        };
        Places {
            layout,
            conf_file,
            conf_choice,
            error_log,
            access_log: prefix.join(layout.access_log),
            pid: prefix.join(layout.pid),
            temp: prefix.join(layout.temp),
            prefix,
        }
    }

    /// The first error log as a path, for the configuration's defaults.
    pub(crate) fn error_log_path(&self) -> PathBuf {
        match &self.error_log {
            FirstLog::Stderr => "stderr".into(),
            FirstLog::Given(path) | FirstLog::Default(path) => path.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NGINX: &str = NGINX_CONF;

    fn places(arguments: &Arguments, existing: &[&str]) -> Places {
        let exists = |path: &Path| existing.iter().any(|it| Path::new(it) == path);
        Places::in_directory(arguments, Path::new("/work"), exists)
    }

    fn with_prefix(prefix: &str) -> Arguments {
        Arguments {
            prefix: Some(prefix.into()),
            ..Arguments::default()
        }
    }

    #[test]
    fn relative_paths_start_from_the_prefix_and_the_prefix_from_the_directory() {
        let arguments = Arguments {
            conf_file: Some("my.conf".into()),
            error_log: Some("e.log".into()),
            ..with_prefix("site")
        };
        let places = places(&arguments, &[PACKAGE.conf]);
        assert_eq!(places.prefix, Path::new("/work/site"));
        assert_eq!(places.conf_file, Path::new("/work/site/my.conf"));
        assert_eq!(places.error_log, FirstLog::Given("/work/site/e.log".into()));
        assert_eq!(places.conf_choice, ConfChoice::Given);
        assert_eq!(places.pid, Path::new("/work/site/logs/sealane.pid"));
        assert_eq!(places.temp, Path::new("/work/site"));
    }

    #[test]
    fn nginx_s_configuration_is_the_last_resort() {
        let default = Arguments::default();
        assert_eq!(places(&default, &[NGINX]).conf_choice, ConfChoice::Nginx);
        let found = places(&default, &[NGINX, PACKAGE.conf]);
        assert_eq!(found.conf_choice, ConfChoice::Default);
        assert_eq!(places(&default, &[]).conf_choice, ConfChoice::Default);
        assert_eq!(
            places(&with_prefix("/srv"), &[NGINX]).conf_file,
            Path::new("/srv/conf/nginx.conf")
        );
    }

    #[test]
    fn the_layout_of_the_package_holds_where_its_file_is_and_no_other() {
        let default = Arguments::default();
        let found = places(&default, &[PACKAGE.conf]);
        assert_eq!(found.conf_file, Path::new("/etc/sealane/nginx.conf"));
        assert_eq!(found.pid, Path::new("/run/sealane.pid"));
        assert_eq!(found.temp, Path::new("/var/lib/sealane"));
        assert_eq!(
            found.error_log,
            FirstLog::Default("/var/log/sealane/error.log".into())
        );
        let own = format!("{}/{}", ONE_DIRECTORY.prefix, ONE_DIRECTORY.conf);
        let found = places(&default, &[PACKAGE.conf, &own]);
        assert_eq!(found.layout, ONE_DIRECTORY);
        assert_eq!(found.conf_file, Path::new(&own));
        let given = Arguments {
            conf_file: Some("/c".into()),
            ..Arguments::default()
        };
        assert_eq!(places(&given, &[PACKAGE.conf]).layout, PACKAGE);
    }

    #[test]
    fn stderr_is_not_a_file() {
        for word in ["stderr", ""] {
            let arguments = Arguments {
                error_log: Some(word.into()),
                ..Arguments::default()
            };
            assert_eq!(places(&arguments, &[]).error_log, FirstLog::Stderr);
        }
    }
}
