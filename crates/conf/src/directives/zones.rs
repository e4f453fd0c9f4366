//! Names of shared zones: each is for one thing, whatever directives name it.

use crate::build::Build;
use crate::call::Fault;
use crate::draft::ZoneUse;

/// Notes what a zone is for.
///
/// # Errors
/// nginx's message if it is for something else already.
pub(super) fn claim(b: &mut Build<'_>, name: &str, for_what: ZoneUse) -> Result<(), Fault> {
    let kind = b.kind();
    let uses = &mut b.http.zone_uses;
    match uses.get(name) {
        // Sessions of all servers may be in one zone: each belongs to the server that began it.
        Some((of, known)) if *known == for_what && (*of == kind || known.is_shared()) => Ok(()),
        Some(_) => Err(Fault::new(format!(
            "the shared memory zone \"{name}\" is already declared for a different use"
        ))),
        None => {
            uses.insert(name.to_owned(), (kind, for_what));
            Ok(())
        }
    }
}

/// nginx's message about a zone that has another size already.
pub(super) fn size_conflict(name: &str, bytes: u64, declared: u64) -> Fault {
    Fault::new(format!(
        "the size {bytes} of shared memory zone \"{name}\" conflicts with already declared size \
         {declared}"
    ))
}
