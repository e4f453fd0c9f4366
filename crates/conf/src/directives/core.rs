//! The `main` context: ngx_core_module and its neighbours.

use super::{ANYWHERE, Arity, Check, MAIN, Module, ONE, Row, SetterOf, modules, thread_pools};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::model::ServerKind;
use crate::model::{CpuAffinity, EnvVar, Landlock, Seccomp, User, WorkerCount};
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "Core",
    doc: "Processes, users, and the top-level blocks.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "include",
        ANYWHERE,
        ONE,
        "",
        "Includes another file, or all files that match a mask, in sorted order. A relative name \
         starts from the directory of the configuration file. A file that includes itself is an \
         error.",
        |_, _| unreachable!("the parser reads included files itself"),
    ),
    Row::new(
        "daemon",
        MAIN,
        ONE,
        "on",
        "Whether the process becomes a daemon.",
        |b, c| c.flag(&mut b.main.daemon),
    ),
    Row::new(
        "master_process",
        MAIN,
        ONE,
        "on",
        "Whether a master process starts the worker process. `off` is intended for debugging.",
        |b, c| c.flag(&mut b.main.master_process),
    ),
    Row::new(
        "user",
        MAIN,
        Arity::Between(1, 2),
        "",
        "User and group of the worker process. If the group is omitted, the group with the user's \
         name is used. Takes effect only if the master runs as root.",
        user,
    ),
    Row::new(
        "pid",
        MAIN,
        ONE,
        "logs/sealane.pid",
        "File that stores the process ID of the master process.",
        |b, c| {
            c.once(&b.main.pid)?;
            b.main.pid = Some(b.options.under_prefix(c.path(1)));
            Ok(())
        },
    ),
    Row::new(
        "worker_processes",
        MAIN,
        ONE,
        "1",
        "Number of worker threads, or `auto` for one per CPU that the process may use: its CPU set \
         and the limits of its cgroup (`cpu.max`) count. Sealane has one worker process; its \
         threads do the work of nginx's worker processes.",
        worker_processes,
    ),
    Row::new(
        "worker_rlimit_nofile",
        MAIN,
        ONE,
        "",
        "Maximum number of open files, per worker thread: the limit of the process is this number \
         times the number of threads.",
        |b, c| c.number(&mut b.main.worker_rlimit_nofile),
    ),
    Row::new(
        "worker_rlimit_core",
        MAIN,
        ONE,
        "",
        "Maximum size of a core file of the worker process.",
        |b, c| c.offset(&mut b.main.worker_rlimit_core),
    ),
    Row::new(
        "worker_cpu_affinity",
        MAIN,
        Arity::AtLeast(1),
        "",
        "Binds worker threads to CPUs. Takes one CPU mask per thread, in binary digits with the \
         last CPU first, or `auto` with an optional mask, which binds each thread to its own CPU, \
         or `off`. \
         Threads for handshakes, disks and logs are not bound. If the machine or the service's \
         limits lack a CPU of the mask, the error is logged and the thread stays unbound.",
        worker_cpu_affinity,
    ),
    Row::new(
        "worker_landlock",
        MAIN,
        ONE,
        "on",
        "Restricts the worker process with Landlock. With `on`, the kernel lets it change files \
         only where the configuration requires it: in directories for temporary files, in `root` \
         and `alias` of locations with `dav_methods`, where `proxy_store` and its like store files, \
         in directories of logs whose paths contain variables, in the directory of `quic_qlog`, and \
         in the directory for core dumps. Reading files is restricted by \
         `worker_landlock_read`. With \
         `strict`, the kernel also prevents it from truncating other files, which makes every \
         open slower (5 to 10% of a small response without `open_file_cache`). The worker process \
         can neither inspect nor signal other processes of its user. After such a directory is \
         replaced, reload the configuration. Requires Linux 5.19 or later with Landlock; without \
         it, the error log says so at level `notice`. Has no effect with `master_process off`.",
        |b, c| {
            let choices = [
                ("on", Landlock::On),
                ("off", Landlock::Off),
                ("strict", Landlock::Strict),
            ];
            c.choice(&mut b.main.worker_landlock, &choices)
        },
    )
    .own(),
    Row::new(
        "worker_landlock_read",
        MAIN,
        Arity::AtLeast(1),
        "off",
        "With `on`, the kernel (Landlock) also lets the worker process read only files that the \
         configuration has it read: below `root` and `alias`, up to the first variable; in the \
         directories of `auth_basic_user_file` and of certificates whose names have variables; \
         wherever `worker_landlock` lets it change files; and files of the system such as time \
         zones and CA certificates. Paths that follow `on` are readable as well, with all that \
         is below them: name there where symbolic links in a `root` lead outside of it, since \
         otherwise those files are answered with 403, and the error log says why. Where the path \
         of a `root` contains a symbolic link, its neighbours are readable too, so that the link \
         can be switched to another release without a reload; a directory that is created or \
         replaced otherwise takes a reload. If a `root` or \
         another such value begins with a variable, the paths have to name where it leads; \
         without paths, reading is not restricted, and the error log says so at level `warn`. \
         Cannot be combined with `worker_landlock off`.",
        worker_landlock_read,
    )
    .own(),
    Row::new(
        "worker_priority",
        MAIN,
        ONE,
        "",
        "Scheduling priority of the worker process, as a nice value from -20 (most favourable) to \
         19. Negative values require the master to run as root.",
        worker_priority,
    ),
    Row::new(
        "worker_seccomp",
        MAIN,
        ONE,
        "on",
        "Restricts the worker process to the system calls that the server needs (seccomp). With \
         `on`, any other call fails as if the kernel did not have it, and the error log names the \
         call. With `kill`, it ends the worker process, and the master starts another one. `off` \
         allows all calls. Has no effect with `master_process off`.",
        |b, c| {
            let choices = [
                ("on", Seccomp::On),
                ("off", Seccomp::Off),
                ("kill", Seccomp::Kill),
            ];
            c.choice(&mut b.main.worker_seccomp, &choices)
        },
    )
    .own(),
    Row::new(
        "worker_shutdown_timeout",
        MAIN,
        ONE,
        "",
        "Timeout for a graceful shutdown of the worker process. When it expires, open connections \
         are closed. After a reload, what still uses the replaced configuration when its timeout \
         expires is closed as well.",
        |b, c| c.time(&mut b.main.worker_shutdown_timeout),
    ),
    Row::new(
        "working_directory",
        MAIN,
        ONE,
        "",
        "Current working directory of the worker process, to which it writes a core file. Unlike \
         in nginx, a missing directory is a configuration error.",
        |b, c| {
            c.once(&b.main.working_directory)?;
            b.main.working_directory = Some(c.path(1).to_owned());
            Ok(())
        },
    ),
    Row::new(
        "env",
        MAIN,
        ONE,
        "TZ",
        "Environment variable that the worker process inherits (`NAME`) or that is set for it \
         (`NAME=value`).",
        env,
    ),
    Row::new(
        "load_module",
        MAIN,
        ONE,
        "",
        "Sealane has no loadable modules. The directive is accepted because the default \
         configurations of distributions contain it. If the module is not built in, the directive \
         gives a warning, and directives of the module are errors.",
        load_module,
    ),
    Row::block(
        "http",
        MAIN,
        Arity::Between(0, 0),
        "The HTTP server.",
        |b, c| {
            if b.has_block(ServerKind::Http) {
                return Err(c.refuse("is duplicate"));
            }
            b.opening = Some(Opening::Http);
            Ok(())
        },
    ),
    Row::new(
        "backtrace_log",
        MAIN,
        ONE,
        "",
        "File in which crashes are reported, as in Tengine; by default the main error log.",
        |b, c| {
            c.once(&b.main.backtrace_log)?;
            b.main.backtrace_log = Some(b.options.under_prefix(c.path(1)));
            Ok(())
        },
    )
    .own(),
    Row::meaningless(
        "backtrace_max_stack_size",
        MAIN,
        ONE,
        Check::Number,
        "Reports of crashes have as many frames as there are, up to a fixed number.",
    )
    .own(),
    Row::meaningless(
        "lock_file",
        MAIN,
        ONE,
        Check::Text,
        "Connections are accepted without a lock.",
    ),
    Row::meaningless(
        "timer_resolution",
        MAIN,
        ONE,
        Check::Time,
        "The clock is read without a system call.",
    ),
    Row::meaningless(
        "debug_points",
        MAIN,
        ONE,
        Check::OneOf(&["stop", "abort"]),
        "It is for debugging nginx itself.",
    ),
    Row::meaningless(
        "pcre_jit",
        MAIN,
        ONE,
        Check::Flag,
        "Regular expressions always use JIT compilation where it is available.",
    ),
    Row::meaningless(
        "thread_pool",
        MAIN,
        Arity::Between(2, 3),
        Check::By(SetterOf(thread_pools::thread_pool)),
        "Disk operations that could block always run in a small thread pool.",
    ),
    Row::meaningless(
        "ssl_object_cache_inheritable",
        MAIN,
        ONE,
        Check::Flag,
        "Certificates and keys are read again at every reload, changed or not.",
    ),
    Row::meaningless(
        "quic_bpf",
        MAIN,
        ONE,
        Check::Flag,
        "Datagrams reach the worker thread of their connection without it.",
    ),
    Row::unsupported(
        "ssl_engine",
        MAIN,
        ONE,
        "AWS-LC, like OpenSSL 4, has no engines; name a file with the key",
    ),
    Row::unsupported(
        "google_perftools_profiles",
        MAIN,
        ONE,
        "use perf on the running process",
    ),
];

fn user(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.user)?;
    if !b.options.privileged {
        b.warn(
            "the \"user\" directive makes sense only if the master process runs with super-user \
             privileges, ignored",
        );
        return Ok(());
    }
    let name = c.text(1)?.to_owned();
    let group = if c.count() == 2 {
        c.text(2)?.to_owned()
    } else {
        name.clone()
    };
    b.main.user = Some(User { name, group });
    Ok(())
}

fn worker_processes(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.worker_processes)?;
    if c.arg(1) == b"auto" {
        b.main.worker_processes = Some(WorkerCount::Auto);
        return Ok(());
    }
    let count = values::number(c.arg(1)).and_then(|count| u32::try_from(count).ok());
    let count = count.ok_or_else(|| c.refuse_arg(1, "invalid value"))?;
    if count == 0 {
        return Err(c
            .refuse_arg(1, "invalid value")
            .help("at least one worker thread is required"));
    }
    b.main.worker_processes = Some(WorkerCount::Count(count));
    Ok(())
}

/// `CPU_SETSIZE`.
const MAX_CPUS: usize = 1024;

fn worker_landlock_read(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.worker_landlock_read)?;
    let paths = 2..=c.count();
    b.main.worker_landlock_read = Some(match c.arg(1) {
        b"off" if paths.is_empty() => None,
        b"off" => return Err(Fault::at(2, "\"off\" takes no paths")),
        b"on" => Some(
            paths
                .map(|at| match b.options.under_prefix(c.path(at)) {
                    path if path.parent().is_some() => Ok(path),
                    _ => Err(c
                        .invalid(at)
                        .help("every file is below it: write \"worker_landlock_read off\"")),
                })
                .collect::<Result<_, _>>()?,
        ),
        _ => {
            return Err(c
                .invalid(1)
                .help("it can be \"on\", which paths may follow, or \"off\""));
        }
    });
    Ok(())
}

fn worker_cpu_affinity(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.worker_cpu_affinity)?;
    if c.count() == 1 && c.arg(1) == b"off" {
        b.main.worker_cpu_affinity = Some(None);
        return Ok(());
    }
    let affinity = if c.arg(1) == b"auto" {
        if c.count() > 2 {
            return Err(Fault::at(
                3,
                "invalid number of arguments in \"worker_cpu_affinity\" directive",
            ));
        }
        let set = (c.count() == 2).then(|| cpu_set(c, 2)).transpose()?;
        CpuAffinity::Auto(set)
    } else {
        let sets = (1..=c.count()).map(|index| cpu_set(c, index));
        CpuAffinity::Sets(sets.collect::<Result<_, _>>()?)
    };
    b.main.worker_cpu_affinity = Some(Some(affinity));
    Ok(())
}

/// The CPUs of a mask such as `0101`.
fn cpu_set(c: &Call<'_>, index: usize) -> Result<Vec<usize>, Fault> {
    let mask = c.arg(index);
    if mask.len() > MAX_CPUS {
        return Err(Fault::at(
            index,
            format!("\"worker_cpu_affinity\" supports up to {MAX_CPUS} CPUs only"),
        ));
    }
    let mut cpus = Vec::new();
    let digits = mask.iter().rev().filter(|digit| **digit != b' ');
    for (cpu, digit) in digits.enumerate() {
        match digit {
            b'0' => {}
            b'1' => cpus.push(cpu),
            _ => {
                let digit = shown(&[*digit]);
                return Err(Fault::at(
                    index,
                    format!("invalid character \"{digit}\" in \"worker_cpu_affinity\""),
                )
                .help("a mask has one binary digit per CPU, the last CPU first"));
            }
        }
    }
    Ok(cpus)
}

/// As in nginx, a number with or without sign; the kernel takes what is too large as its limit.
fn worker_priority(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.worker_priority)?;
    let text = c.arg(1);
    let (digits, sign) = match text.split_first() {
        Some((b'-', digits)) => (digits, -1),
        Some((b'+', digits)) => (digits, 1),
        _ => (text, 1),
    };
    let number = values::number(digits).and_then(|number| i32::try_from(number).ok());
    let number = number.ok_or_else(|| {
        c.refuse_arg(1, "invalid number")
            .help("it is a number from -20, the most favourable, to 19")
    })?;
    b.main.worker_priority = Some(sign * number);
    Ok(())
}

fn env(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let text = c.text(1)?;
    let variable = match text.split_once('=') {
        Some((name, value)) => EnvVar {
            name: name.to_owned(),
            value: Some(value.to_owned()),
        },
        None => EnvVar {
            name: text.to_owned(),
            value: None,
        },
    };
    b.main.env.push(variable);
    Ok(())
}

/// A module does nothing until one of its directives is used, and those
/// directives are unknown here: the line itself can be accepted.
fn load_module(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let blocks = [ServerKind::Http, ServerKind::Stream, ServerKind::Mail];
    if b.events.is_some() || blocks.into_iter().any(|kind| b.has_block(kind)) {
        return Err(c.refuse("is specified too late"));
    }
    let name = shown(c.arg(1));
    if modules::is_built_in(&name) {
        return Ok(());
    }
    b.warn(format!(
        "the module \"{name}\" is not built in, its directives are errors"
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Config, MemoryLoader, Options};
    use std::path::{Path, PathBuf};

    fn parse(main: &str) -> Result<Config, String> {
        let text = format!("{main} events {{}}");
        let mut files = MemoryLoader::new().with("/etc/s/nginx.conf", text);
        let options = Options::new("/etc/s/nginx.conf", "/srv");
        crate::parse(&options, &mut files).map_err(|failure| failure.error.message.clone())
    }

    #[test]
    fn what_is_read_beside_what_is_served_are_paths() {
        let paths = |main| parse(main).expect("valid").main.worker_landlock_read;
        assert_eq!(paths(""), None);
        assert_eq!(paths("worker_landlock_read off;"), None);
        assert_eq!(
            paths("worker_landlock off; worker_landlock_read off;"),
            None
        );
        assert_eq!(paths("worker_landlock_read on;"), Some(Vec::new()));
        let both: Vec<PathBuf> = vec![Path::new("/srv/more").into(), Path::new("/disk/").into()];
        assert_eq!(paths("worker_landlock_read on more /disk/;"), Some(both));
    }

    #[test]
    fn reading_is_not_confined_in_part_or_against_another_directive() {
        for (main, expected) in [
            ("worker_landlock_read;", "invalid number of arguments"),
            ("worker_landlock_read strict;", "invalid value \"strict\""),
            ("worker_landlock_read /srv;", "invalid value \"/srv\""),
            ("worker_landlock_read off /srv;", "\"off\" takes no paths"),
            ("worker_landlock_read on /srv /;", "invalid value \"/\""),
            (
                "worker_landlock_read on; worker_landlock_read on;",
                "is duplicate",
            ),
            (
                "worker_landlock off; worker_landlock_read on;",
                "remove one of the two",
            ),
            (
                "worker_landlock_read on; worker_landlock off;",
                "remove one of the two",
            ),
        ] {
            let message = parse(main).expect_err(main);
            assert!(message.contains(expected), "{main}: {message}");
        }
    }
}
