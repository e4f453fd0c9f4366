//! `thread_pool` and `aio`: their words are checked as in nginx, and have no effect. There is one
//! pool for the disk, whose size follows the load.

use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::model::Origin;
use crate::template;
use crate::values;

/// The pool that needs no definition.
const DEFAULT: &[u8] = b"default";

/// The names of a configuration's pools.
#[derive(Debug, Default)]
pub(crate) struct ThreadPools {
    defined: Vec<Box<[u8]>>,
    used: Vec<(Box<[u8]>, Origin)>,
}

/// `thread_pool NAME threads=N [max_queue=N]`.
pub(super) fn thread_pool(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let pools = &mut b.http.thread_pools;
    if pools.defined.iter().any(|name| **name == *c.arg(1)) {
        return Err(Fault::at(
            1,
            format!("duplicate thread pool \"{}\"", c.shown(1)),
        ));
    }
    let mut has_threads = false;
    for (index, word) in c.args().skip(1) {
        let invalid = |what| Fault::at(index, format!("invalid {what} value \"{}\"", shown(word)));
        if let Some(threads) = word.strip_prefix(b"threads=") {
            let threads = values::number(threads).filter(|threads| *threads > 0);
            has_threads = threads.ok_or_else(|| invalid("threads"))? > 0;
        } else if let Some(queue) = word.strip_prefix(b"max_queue=") {
            values::number(queue).ok_or_else(|| invalid("max_queue"))?;
        }
    }
    if !has_threads {
        let message = "\"thread_pool\" must have \"threads\" parameter";
        return Err(Fault::new(message));
    }
    pools.defined.push(c.arg(1).into());
    Ok(())
}

/// `aio on|off|threads[=POOL]`.
pub(super) fn aio(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if !b.first_here(c.row.name) {
        return Err(c.refuse("is duplicate"));
    }
    let pool = match c.arg(1) {
        b"on" | b"off" => return Ok(()),
        b"threads" => DEFAULT,
        word => word
            .strip_prefix(b"threads=")
            .ok_or_else(|| c.refuse_arg(1, "invalid value"))?,
    };
    // The name of a pool may depend on the request.
    let name = template::compile(&mut b.names, pool, 1, &c.origin)?;
    if name.as_literal().is_some() {
        let used = (pool.into(), c.origin.clone());
        b.http.thread_pools.used.push(used);
    }
    Ok(())
}

/// Pools that are used and not defined anywhere.
pub(crate) fn check_thread_pools(b: &Build<'_>) -> Option<Fault> {
    let pools = &b.http.thread_pools;
    let is_known =
        |name: &[u8]| name == DEFAULT || pools.defined.iter().any(|known| **known == *name);
    let (name, origin) = pools.used.iter().find(|(name, _)| !is_known(name))?;
    let name = shown(name);
    let Origin { file, line } = origin;
    let message = format!(
        "unknown thread pool \"{name}\" in {}:{line}",
        file.display()
    );
    let help = format!("write \"thread_pool {name} threads=N;\" outside of \"http\"");
    Some(Fault::whole(message).help(help))
}
