//! The kinds of server programs: what each reads, how it is started, what it prints as its version.

use std::{path::Path, process::Command};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A server program, by the configuration that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Accepts nginx's command line and nginx.conf: nginx and Sealane.
    #[default]
    Nginx,
    /// H2O.
    H2o,
    /// HAProxy.
    Haproxy,
}

impl Kind {
    /// The name of the product whose command line and configuration it has.
    pub(crate) fn product(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::H2o => "H2O",
            Self::Haproxy => "HAProxy",
        }
    }

    /// The name of its configuration, here and in a server's directory.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx.conf",
            Self::H2o => "h2o.conf",
            Self::Haproxy => "haproxy.cfg",
        }
    }

    /// The configuration with `@NAMES@` as placeholders for ports and paths.
    pub(super) fn template(self) -> &'static str {
        match self {
            Self::Nginx => include_str!("../../../../bench/nginx.conf"),
            Self::H2o => include_str!("../../../../bench/h2o.conf"),
            Self::Haproxy => include_str!("../../../../bench/haproxy.cfg"),
        }
    }

    /// The setting that keeps a server which is started as root from switching to another user.
    pub(super) fn stay_root(self) -> &'static str {
        match self {
            Self::Nginx => "user root;",
            Self::H2o => "user: root",
            // It switches only if it is told to.
            Self::Haproxy => "",
        }
    }

    /// Adds the arguments that start a server in the foreground, with its files in `prefix`.
    pub(super) fn add_arguments(self, command: &mut Command, prefix: &Path, configuration: &Path) {
        match self {
            Self::Nginx => {
                command.arg("-p").arg(prefix).arg("-c").arg(configuration);
                command.arg("-e").arg(prefix.join("error.log"));
                command.args(["-g", "daemon off;"])
            }
            Self::H2o => command.arg("-c").arg(configuration),
            Self::Haproxy => command.arg("-db").arg("-f").arg(configuration),
        };
    }

    /// The argument that prints the versions of product and TLS library.
    pub(super) fn version_argument(self) -> &'static str {
        match self {
            Self::Nginx => "-V",
            Self::H2o => "--version",
            Self::Haproxy => "-vv",
        }
    }

    /// Parses what a server prints for [`Kind::version_argument`]: "nginx 1.30.0, OpenSSL 4.0.1".
    /// A library that was updated after the build is shown with its running version.
    pub(super) fn parse_version(self, text: &str) -> Option<String> {
        let after = |start| text.lines().find_map(|line: &str| line.strip_prefix(start));
        let first_word = |text: &str| text.split_ascii_whitespace().next().map(str::to_owned);
        let (product, library) = match self {
            Self::Nginx => {
                let mut versions = text
                    .lines()
                    .filter_map(|line| line.split_once(" version: "));
                let product = first_word(versions.next()?.1)?.replace('/', " ");
                let library = after("built with ").map(|built| {
                    let running = built.split_once("(running with ");
                    running.map_or(built, |(_, running)| running)
                });
                (product, library)
            }
            Self::H2o => {
                let version = first_word(after("h2o version ")?)?;
                (format!("H2O {version}"), after("OpenSSL: "))
            }
            Self::Haproxy => {
                let version = first_word(after("HAProxy version ")?)?;
                // Without Debian's revision.
                let version = version.split('-').next()?;
                let library = after("Running on OpenSSL version : ");
                (format!("HAProxy {version}"), library)
            }
        };
        let Some(library) = library else {
            return Some(product);
        };
        let library: Vec<_> = library.split_ascii_whitespace().take(2).collect();
        Some(format!("{product}, {}", library.join(" ")))
    }
}
