//! The `main` context: ngx_core_module and its neighbours.

use super::{ANYWHERE, Arity, Check, MAIN, Module, ONE, Row, modules};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::model::{CpuAffinity, EnvVar, Landlock, Seccomp, User, WorkerCount};
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "Core",
    doc: "Processes, users, and the blocks that everything else stands in.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "include",
        ANYWHERE,
        ONE,
        "",
        "Reads another file, or all files that match a pattern in sorted order, as if their text \
         stood here. A relative name starts from the directory of the configuration file. A file \
         that includes itself is an error.",
        |_, _| unreachable!("the parser reads included files itself"),
    ),
    Row::new(
        "daemon",
        MAIN,
        ONE,
        "on",
        "Whether the process detaches from the terminal.",
        |b, c| c.flag(&mut b.main.daemon),
    ),
    Row::new(
        "master_process",
        MAIN,
        ONE,
        "on",
        "Whether a master process starts the worker; `off` is meant for debugging.",
        |b, c| c.flag(&mut b.main.master_process),
    ),
    Row::new(
        "user",
        MAIN,
        Arity::Between(1, 2),
        "",
        "User and group of the worker; the group is that of the same name unless given. Has an \
         effect only when the master runs as root.",
        user,
    ),
    Row::new(
        "pid",
        MAIN,
        ONE,
        "logs/sealane.pid",
        "File that holds the master's process number.",
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
        "Number of worker threads, or `auto` for one per CPU. Sealane has one worker process; its \
         threads take the place of nginx's worker processes.",
        worker_processes,
    ),
    Row::new(
        "worker_rlimit_nofile",
        MAIN,
        ONE,
        "",
        "Largest number of open files, per worker thread: the process gets this times the threads.",
        |b, c| c.number(&mut b.main.worker_rlimit_nofile),
    ),
    Row::new(
        "worker_rlimit_core",
        MAIN,
        ONE,
        "",
        "Largest core file of the worker process.",
        |b, c| c.offset(&mut b.main.worker_rlimit_core),
    ),
    Row::new(
        "worker_cpu_affinity",
        MAIN,
        Arity::AtLeast(1),
        "",
        "CPUs that worker threads run on: one mask of binary digits for each thread, the last CPU \
         first, or `auto` and perhaps one mask to bind each thread to a CPU of its own. Threads \
         for handshakes, disks and logs are not bound. CPUs that the machine or the service's \
         limits do not have are reported, and the thread stays unbound.",
        worker_cpu_affinity,
    ),
    Row::new(
        "worker_landlock",
        MAIN,
        ONE,
        "on",
        "Whether the kernel confines the worker process to changing files where the configuration \
         has it do that (`on`): directories for temporary files, `root` and `alias` of locations with \
         `dav_methods`, directories of logs with variables in their paths, of core dumps. Files \
         are read as ever. With `strict` other files cannot be emptied, either, which costs \
         something whenever a file is opened (5 to 10% of a small response without \
         `open_file_cache`). The process cannot look into others of its user, or signal them, \
         either. A directory that is replaced needs a reload. Takes Linux 5.19 or later with \
         Landlock; without, the error log says so at level `notice`. Has no effect with \
         `master_process off`.",
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
        "worker_priority",
        MAIN,
        ONE,
        "",
        "Priority of the worker process as a nice value from -20, the most favourable, to 19. \
         Negative ones need a master that runs as root.",
        worker_priority,
    ),
    Row::new(
        "worker_seccomp",
        MAIN,
        ONE,
        "on",
        "Whether the worker process may make only those system calls that the server needs. With \
         `on` any other one fails as in a kernel that lacks it, and the error log says which one \
         it was; `kill` ends the worker, and the master starts another one; `off` allows all. Has \
         no effect with `master_process off`.",
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
        "How long a graceful shutdown may take before open connections are closed.",
        |b, c| c.time(&mut b.main.worker_shutdown_timeout),
    ),
    Row::new(
        "working_directory",
        MAIN,
        ONE,
        "",
        "Current directory of the worker, where a core file would be written. Unlike with nginx a \
         directory that is not there is an error of the configuration.",
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
        "Environment variable that the worker keeps (`NAME`) or gets (`NAME=value`).",
        env,
    ),
    Row::new(
        "load_module",
        MAIN,
        ONE,
        "",
        "Sealane has no loadable modules. The line is accepted, as distributions put such lines into \
         their default configuration, with a warning where the module is not built in: its \
         directives are errors where they stand.",
        load_module,
    ),
    Row::block(
        "http",
        MAIN,
        Arity::Between(0, 0),
        "The HTTP server.",
        |b, c| {
            if b.http_seen {
                return Err(c.refuse("is duplicate"));
            }
            b.opening = Some(Opening::Http);
            Ok(())
        },
    ),
    Row::meaningless(
        "lock_file",
        MAIN,
        ONE,
        Check::Text,
        "No lock is taken around accepting connections.",
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
        "For debugging nginx itself.",
    ),
    Row::meaningless(
        "pcre_jit",
        MAIN,
        ONE,
        Check::Flag,
        "Regular expressions always use the JIT where there is one.",
    ),
    Row::meaningless(
        "thread_pool",
        MAIN,
        Arity::Between(2, 3),
        Check::Any,
        "Disk work that could block always goes to a small thread pool of its own.",
    ),
    Row::meaningless(
        "ssl_object_cache_inheritable",
        MAIN,
        ONE,
        Check::Flag,
        "Certificates and keys that did not change are never read twice.",
    ),
    Row::meaningless(
        "quic_bpf",
        MAIN,
        ONE,
        Check::Flag,
        "There is no HTTP/3 yet.",
    ),
    Row::unsupported(
        "ssl_engine",
        MAIN,
        ONE,
        "OpenSSL engines do not exist in AWS-LC; keys in hardware are planned through PKCS#11",
    ),
    Row::unsupported(
        "google_perftools_profiles",
        MAIN,
        ONE,
        "use perf on the running process",
    ),
    Row::unsupported_block(
        "stream",
        MAIN,
        Arity::Between(0, 0),
        "only http is served so far; leave the block to nginx",
    ),
    Row::unsupported_block(
        "mail",
        MAIN,
        Arity::Between(0, 0),
        "only http is served so far; leave the block to nginx",
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
            .help("there must be at least one worker thread"));
    }
    b.main.worker_processes = Some(WorkerCount::Count(count));
    Ok(())
}

/// `CPU_SETSIZE`.
const MAX_CPUS: usize = 1024;

fn worker_cpu_affinity(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.main.worker_cpu_affinity)?;
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
    b.main.worker_cpu_affinity = Some(affinity);
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
                .help("a mask has one binary digit for each CPU, the last CPU first"));
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

/// A module does nothing until one of its directives asks it to, and those
/// directives are unknown here: the line itself can be let through.
fn load_module(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if b.events.is_some() || b.http_seen {
        return Err(c.refuse("is specified too late"));
    }
    let name = shown(c.arg(1));
    if modules::is_built_in(&name) {
        return Ok(());
    }
    b.warn(format!(
        "the module \"{name}\" is not loaded, and its directives are errors"
    ));
    Ok(())
}
