//! Default paths of files.

use crate::arguments::Arguments;
use std::path::{Path, PathBuf};

/// The prefix, unless `-p` names one. Set `SEALANE_PREFIX` when building to
/// change it.
pub(crate) const DEFAULT_PREFIX: &str = match option_env!("SEALANE_PREFIX") {
    Some(prefix) => prefix,
    None => "/usr/local/sealane",
};

/// The configuration file below the prefix, unless `-c` names one.
pub(crate) const DEFAULT_CONF: &str = "conf/nginx.conf";

/// nginx's own configuration, used when neither `-c` nor `-p` is given and
/// there is no [`DEFAULT_CONF`]: changing the binary must be enough.
const NGINX_CONF: &str = "/etc/nginx/nginx.conf";

/// The error log below the prefix until the configuration is read.
pub(crate) const DEFAULT_ERROR_LOG: &str = "logs/error.log";

/// Prefix, configuration file and first error log, all absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Relative paths of the configuration start here.
    pub(crate) prefix: PathBuf,
    /// The configuration file.
    pub(crate) conf_file: PathBuf,
    /// How it was chosen.
    pub(crate) conf_choice: ConfChoice,
    /// Where errors go until the configuration is read.
    pub(crate) error_log: FirstLog,
}

/// How the configuration file was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfChoice {
    /// By `-c`.
    Given,
    /// [`DEFAULT_CONF`].
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
        Places::in_directory(arguments, &directory, Path::new(NGINX_CONF))
    }

    fn in_directory(arguments: &Arguments, directory: &Path, nginx_conf: &Path) -> Places {
        let prefix = directory.join(
            arguments
                .prefix
                .as_deref()
                .unwrap_or(DEFAULT_PREFIX.as_ref()),
        );
        let default_conf = prefix.join(DEFAULT_CONF);
        let may_be_nginx_s = arguments.prefix.is_none() && !default_conf.exists();
        let (conf_file, conf_choice) = match &arguments.conf_file {
            Some(given) => (prefix.join(given), ConfChoice::Given),
            None if may_be_nginx_s && nginx_conf.exists() => {
                (nginx_conf.to_owned(), ConfChoice::Nginx)
            }
            None => (default_conf, ConfChoice::Default),
        };
        let error_log = match &arguments.error_log {
            Some(given) if given.as_os_str().is_empty() || given.as_os_str() == "stderr" => {
                FirstLog::Stderr
            }
            Some(given) => FirstLog::Given(prefix.join(given)),
            None => FirstLog::Default(prefix.join(DEFAULT_ERROR_LOG)),
        };
        Places {
            prefix,
            conf_file,
            conf_choice,
            error_log,
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

    fn places(arguments: &Arguments, nginx_conf: &str) -> Places {
        Places::in_directory(arguments, Path::new("/work"), Path::new(nginx_conf))
    }

    #[test]
    fn relative_paths_start_from_the_prefix_and_the_prefix_from_the_directory() {
        let arguments = Arguments {
            prefix: Some("site".into()),
            conf_file: Some("my.conf".into()),
            error_log: Some("e.log".into()),
            ..Arguments::default()
        };
        let places = places(&arguments, "/nonexistent");
        assert_eq!(places.prefix, Path::new("/work/site"));
        assert_eq!(places.conf_file, Path::new("/work/site/my.conf"));
        assert_eq!(places.error_log, FirstLog::Given("/work/site/e.log".into()));
        assert_eq!(places.conf_choice, ConfChoice::Given);
    }

    #[test]
    fn nginx_s_configuration_is_the_last_resort() {
        let exists = "/proc/self/status"; // a file that is always there
        let default = Arguments::default();
        assert_eq!(places(&default, exists).conf_choice, ConfChoice::Nginx);
        assert_eq!(
            places(&default, "/nonexistent").conf_choice,
            ConfChoice::Default
        );
        let with_prefix = Arguments {
            prefix: Some("/srv".into()),
            ..Arguments::default()
        };
        assert_eq!(
            places(&with_prefix, exists).conf_file,
            Path::new("/srv/conf/nginx.conf")
        );
    }

    #[test]
    fn stderr_is_not_a_file() {
        for word in ["stderr", ""] {
            let arguments = Arguments {
                error_log: Some(word.into()),
                ..Arguments::default()
            };
            assert_eq!(
                places(&arguments, "/nonexistent").error_log,
                FirstLog::Stderr
            );
        }
    }
}
