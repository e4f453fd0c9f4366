//! What a process cannot change about itself.

use crate::startup::Server;
use crate::{key_process, limits, sandbox};
use sealane_conf::model::Main;
use sealane_server::HandshakeThreads;
use sealane_sys::process;
use std::sync::Arc;

/// Why `after` needs another worker process than the one that serves `before`: the directive
/// that differs. `None` when that one can continue.
pub(crate) fn needs_new_process(before: &Server, after: &Server) -> Option<&'static str> {
    if before.threads != after.threads {
        return Some("worker_processes");
    }
    if before.identity != after.identity {
        return Some("user");
    }
    let cpus = process::available_cpus();
    let pool = |server: &Server| HandshakeThreads::of(&server.config).on(cpus);
    if pool(before) != pool(after) {
        return Some("ssl_async_threads");
    }
    // Keys that a worker has had in its memory may stay there; and other processes have the
    // numbers of those that it knows.
    let are_others = match (&before.keys, &after.keys) {
        (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
        (None, Some(after)) => key_process::lock(after).has_processor(),
        (_, None) => before.keys.is_some(),
    };
    // What a worker may have of them was said when it began.
    let limits = |server: &Server| {
        let http = server.config.http.as_ref();
        http.map(|http| {
            (
                http.key_process.decryptions,
                key_process::max_loaded_keys(http),
            )
        })
    };
    let are_others = are_others || (after.keys.is_some() && limits(before) != limits(after));
    if are_others {
        return Some("ssl_key_process");
    }
    // What the kernel can do was not known when the worker gave its privileges up.
    if before.kernel_tls.is_none() && after.kernel_tls.is_some() {
        return Some("ssl_ktls");
    }
    // Its memory is shared with the workers that come after, so the master makes it.
    let has_register = |server: &Server| server.sessions.known_register().is_some();
    if !has_register(before) && has_register(after) {
        return Some("ssl_early_data");
    }
    // Threads that run have one socket of each address.
    let more_sockets = after.sockets.bound.iter().any(|bound| {
        let known: Vec<_> = before.sockets.bound.iter().collect();
        bound.has_address_of(&before.sockets.bound) && !bound.is_among(&known)
    });
    if more_sockets {
        return Some("reuseport");
    }
    let (old, new) = (&before.config, &after.config);
    of_main(&old.main, &new.main)
        .or_else(|| before.file_rules.lack(&after.file_rules))
        .or_else(|| sandbox::needs_more(old, new, after.identity.as_ref()))
        .or_else(|| {
            let are_too_few = limits::are_too_few(old, new, after.threads);
            are_too_few.then_some("worker_connections")
        })
}

fn of_main(before: &Main, after: &Main) -> Option<&'static str> {
    if before.worker_rlimit_nofile != after.worker_rlimit_nofile {
        return Some("worker_rlimit_nofile");
    }
    if before.worker_rlimit_core != after.worker_rlimit_core {
        return Some("worker_rlimit_core");
    }
    if before.worker_cpu_affinity != after.worker_cpu_affinity {
        return Some("worker_cpu_affinity");
    }
    if before.worker_priority != after.worker_priority {
        return Some("worker_priority");
    }
    if before.worker_seccomp != after.worker_seccomp {
        return Some("worker_seccomp");
    }
    if before.worker_landlock != after.worker_landlock {
        return Some("worker_landlock");
    }
    if before.worker_landlock_read != after.worker_landlock_read {
        return Some("worker_landlock_read");
    }
    if before.working_directory != after.working_directory {
        return Some("working_directory");
    }
    (before.env != after.env).then_some("env")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_conf::{Config, MemoryLoader, Options};

    fn config(text: &str) -> Config {
        let mut loader = MemoryLoader::new().with("/nginx.conf", format!("events {{}} {text}"));
        let options = Options::new("/nginx.conf", "/");
        sealane_conf::parse(&options, &mut loader).expect("a good one")
    }

    fn main(text: &str) -> Main {
        config(text).main
    }

    #[test]
    fn calls_that_were_given_up_do_not_come_back() {
        let needs_more = |before: &str, after: &str| {
            let dav = "server { location / { location /put/ { dav_methods PUT; } } }";
            let config = |text: &str| config(&text.replace("DAV", dav));
            sandbox::needs_more(&config(before), &config(after), None)
        };
        assert_eq!(needs_more("http {}", "http { DAV }"), Some("dav_methods"));
        assert_eq!(needs_more("", "http { DAV }"), Some("dav_methods"));
        assert_eq!(needs_more("http { DAV }", "http { DAV }"), None);
        assert_eq!(needs_more("http { DAV }", "http {}"), None);
        // Without a filter nothing was given up; another one makes another process anyway.
        let off = "worker_seccomp off; http";
        assert_eq!(
            needs_more(&format!("{off} {{}}"), &format!("{off} {{ DAV }}")),
            None
        );
    }

    #[test]
    fn what_belongs_to_the_process_is_named() {
        let before = main("");
        for (text, expected) in [
            ("", None),
            ("pid other; error_log other;", None),
            ("worker_shutdown_timeout 5s;", None),
            ("worker_rlimit_nofile 100;", Some("worker_rlimit_nofile")),
            ("worker_rlimit_core 1m;", Some("worker_rlimit_core")),
            ("worker_priority 5;", Some("worker_priority")),
            ("worker_cpu_affinity auto;", Some("worker_cpu_affinity")),
            ("worker_seccomp off;", Some("worker_seccomp")),
            ("worker_landlock off;", Some("worker_landlock")),
            ("worker_landlock_read on;", Some("worker_landlock_read")),
            ("working_directory /tmp;", Some("working_directory")),
            ("env A=1;", Some("env")),
        ] {
            assert_eq!(of_main(&before, &main(text)), expected, "{text}");
        }
    }
}
