//! Lists of media types, as in `sub_filter_types` and similar directives.

use crate::build::Build;
use crate::call::{Call, shown};
use crate::draft::{LocationDraft, MediaTypesDraft};
use crate::model::List;

/// Adds the types of a line to the list of its level, which has `text/html` already
/// (nginx's `ngx_http_types_slot()`).
pub(super) fn add(
    b: &mut Build<'_>,
    c: &Call<'_>,
    slot: fn(&mut LocationDraft) -> &mut Option<MediaTypesDraft>,
) {
    add_to(b, c, b"text/html", slot);
}

/// The same where lists have another type already.
pub(super) fn add_to(
    b: &mut Build<'_>,
    c: &Call<'_>,
    first: &[u8],
    slot: fn(&mut LocationDraft) -> &mut Option<MediaTypesDraft>,
) {
    let mut twice = Vec::new();
    let first: List<Box<[u8]>> = vec![first.into()].into();
    let types = slot(b.location()).get_or_insert(MediaTypesDraft::Listed(first));
    for (_, name) in c.args() {
        let MediaTypesDraft::Listed(list) = types else {
            break;
        };
        let lower: Box<[u8]> = name.to_ascii_lowercase().into();
        if name == b"*" {
            *types = MediaTypesDraft::Any;
        } else if list.contains(&lower) {
            twice.push(shown(&lower));
        } else {
            list.push(lower);
        }
    }
    for name in twice {
        b.warn(format!("duplicate MIME type \"{name}\""));
    }
}
