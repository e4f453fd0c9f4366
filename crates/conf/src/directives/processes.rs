//! Tengine's ngx_procs_module, with a program in the place of a module.

use super::{Arity, MAIN, Module, ONE, PROCESS, PROCESSES, Row};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault};
use crate::draft::StandAloneDraft;
use crate::listen;
use crate::model::{Respawn, StandAlone, User};
use crate::values;
use std::time::Duration;

/// Copies of a process.
const MAX_COUNT: u64 = 64;
/// Sockets of a process.
const MAX_LISTEN: usize = 64;
/// No argument.
const NONE: Arity = Arity::Between(0, 0);
/// Tengine's default.
const DELAY: Duration = Duration::from_millis(300);

pub(super) const MODULE: Module = Module {
    title: "Processes",
    doc: "Programs that the master runs beside the workers, such as `processes { process feed { \
          command /usr/local/bin/feed --quiet; listen 127.0.0.1:8889; } }`. In Tengine a process \
          runs a module that was compiled in; here it runs a program. See \
          [processes.md](processes.md#stand-alone-processes).",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "processes",
        MAIN,
        NONE,
        "The programs, one `process` block each.",
        |b, _| {
            b.opening = Some(Opening::Processes);
            Ok(())
        },
    )
    .own(),
    Row::block(
        "process",
        PROCESSES,
        ONE,
        "A program, by a name for the log.",
        process,
    )
    .own(),
    Row::new(
        "command",
        PROCESS,
        Arity::AtLeast(1),
        "",
        "The program, as an absolute path, and its arguments. It is executed without a shell, with \
         the environment that `env` leaves to workers, no input, and its standard error in the \
         main error log. Required.",
        command,
    )
    .own(),
    Row::new(
        "user",
        PROCESS,
        Arity::Between(1, 2),
        "",
        "User and group of the program; by default those of the workers. Takes effect only if the \
         master runs as root.",
        |b, c| {
            let (name, group) = (c.text(1)?, c.text(if c.count() == 2 { 2 } else { 1 })?);
            let user = User {
                name: name.to_owned(),
                group: group.to_owned(),
            };
            c.once(&b.stand_alone().user)?;
            b.stand_alone().user = Some(user);
            Ok(())
        },
    )
    .own(),
    Row::new(
        "listen",
        PROCESS,
        ONE,
        "",
        "Address of a socket that the program inherits, from descriptor 3 on in the order of the \
         lines, with `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES` as systemd sets them. The \
         master keeps it open while programs are started again, also over reloads and upgrades of \
         the binary.",
        listen,
    )
    .own(),
    Row::new(
        "count",
        PROCESS,
        ONE,
        "1",
        "How many of the program run, at most 64. They share the sockets.",
        |b, c| {
            let count = &mut b.stand_alone().count;
            c.number(count)?;
            match count {
                Some(1..=MAX_COUNT) => Ok(()),
                _ => Err(Fault::at(
                    1,
                    format!("value must be between 1 and {MAX_COUNT}"),
                )),
            }
        },
    )
    .own(),
    Row::new(
        "priority",
        PROCESS,
        ONE,
        "",
        "The nice value, from -20 to 20; by default that of the master.",
        |b, c| {
            c.once(&b.stand_alone().priority)?;
            let written = c.text(1)?;
            let nice = written
                .parse()
                .ok()
                .filter(|nice| (-20..=20).contains(nice));
            let fault = || Fault::at(1, "value must be between -20 and 20");
            b.stand_alone().priority = Some(nice.ok_or_else(fault)?);
            Ok(())
        },
    )
    .own(),
    Row::new(
        "delay_start",
        PROCESS,
        ONE,
        "300ms",
        "How long the program is started after the server, or after the reload that brings it.",
        |b, c| c.time(&mut b.stand_alone().delay),
    )
    .own(),
    Row::new(
        "respawn",
        PROCESS,
        ONE,
        "on",
        "Whether the program is started again when it has ended: `on`, which waits longer and \
         longer, up to 30 s, while it ends within 10 s; `off`; or a time to wait.",
        |b, c| {
            c.once(&b.stand_alone().respawn)?;
            b.stand_alone().respawn = Some(match c.arg(1) {
                b"on" => Respawn::Soon,
                b"off" => Respawn::Never,
                time => {
                    let wait = values::time(time).filter(|wait| !wait.is_zero());
                    let help = "it is \"on\", \"off\" or a time";
                    Respawn::After(wait.ok_or_else(|| c.invalid(1).help(help))?)
                }
            });
            Ok(())
        },
    )
    .own(),
];

fn process(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    if b.main.processes.iter().any(|known| known.name == name) {
        return Err(Fault::at(1, format!("duplicate process \"{name}\"")));
    }
    // It becomes a part of LISTEN_FDNAMES.
    let is_plain = |c: char| !c.is_control() && c != ':';
    if name.is_empty() || name.len() > 255 || !name.chars().all(is_plain) {
        let help = "a name has 1 to 255 bytes, no colon and no control character";
        return Err(c.invalid(1).help(help));
    }
    b.opening = Some(Opening::Process(Box::new(StandAloneDraft {
        name: name.to_owned(),
        command: None,
        user: None,
        listen: Vec::new(),
        count: None,
        priority: None,
        delay: None,
        respawn: None,
        origin: c.origin.clone(),
    })));
    Ok(())
}

fn command(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.stand_alone().command)?;
    let mut words = Vec::new();
    for (index, _) in c.args() {
        words.push(c.text(index)?.to_owned());
    }
    let program = words.remove(0);
    if !program.starts_with('/') {
        let message = format!("\"{program}\" of \"command\" is not an absolute path");
        return Err(Fault::at(1, message));
    }
    b.stand_alone().command = Some((program.into(), words));
    Ok(())
}

fn listen(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let addresses = listen::addresses(b, c.arg(1)).map_err(|reason| {
        let message = format!("{reason} in \"{}\" of the \"listen\" directive", c.shown(1));
        Fault::at(1, message)
    })?;
    for address in addresses {
        let mut others = b.main.processes.iter().flat_map(|known| &known.listen);
        let is_known = others.any(|known| *known == address);
        if is_known || b.stand_alone().listen.contains(&address) {
            return Err(Fault::at(1, format!("a duplicate listen {address}")));
        }
        b.stand_alone().listen.push(address);
    }
    match b.stand_alone().listen.len() > MAX_LISTEN {
        true => Err(Fault::new(format!("more than {MAX_LISTEN} addresses"))),
        false => Ok(()),
    }
}

/// At the end of a `process` block.
pub(crate) fn end_process(b: &mut Build<'_>) -> Result<(), Fault> {
    let Some(draft) = b.open_process.take() else {
        return Ok(());
    };
    let name = draft.name;
    let (program, arguments) = draft.command.ok_or_else(|| {
        let message = format!("process \"{name}\" has no \"command\"");
        Fault::earlier(&draft.origin, message)
            .help("modules cannot be compiled in: it says which program runs")
    })?;
    b.main.processes.push(StandAlone {
        name,
        program,
        arguments,
        user: draft.user,
        listen: draft.listen,
        count: draft.count.unwrap_or(1) as u32, // at most MAX_COUNT
        priority: draft.priority,
        delay: draft.delay.unwrap_or(DELAY),
        respawn: draft.respawn.unwrap_or(Respawn::Soon),
    });
    Ok(())
}
