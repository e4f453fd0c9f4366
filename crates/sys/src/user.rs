//! The user and group databases (getpwnam_r(3), getgrnam_r(3)).

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A user in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserEntry {
    /// User id.
    pub uid: u32,
    /// Id of the user's own group.
    pub gid: u32,
}

/// Looks a user up by name; `None` when there is none.
///
/// # Errors
///
/// `InvalidInput` when the name contains a NUL byte, or the errno of `getpwnam_r`.
pub fn user_by_name(name: &str) -> io::Result<Option<UserEntry>> {
    let name = CString::new(name)?;
    lookup(|buf: &mut [u8]| {
        let mut entry = MaybeUninit::<libc::passwd>::zeroed();
        let mut found = ptr::null_mut();
        // SAFETY: all pointers are valid for the sizes given; the strings that
        // `entry` refers to lie in `buf` and are not used.
        let code = unsafe {
            libc::getpwnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buf.as_mut_ptr().cast(),
                buf.len(),
                &raw mut found,
            )
        };
        // SAFETY: plain old data, zeroed and then perhaps filled.
        let entry = unsafe { entry.assume_init() };
        (
            code,
            (!found.is_null()).then_some(UserEntry {
                uid: entry.pw_uid,
                gid: entry.pw_gid,
            }),
        )
    })
}

/// Looks the id of a group up by name; `None` when there is none.
///
/// # Errors
///
/// `InvalidInput` when the name contains a NUL byte, or the errno of `getgrnam_r`.
pub fn group_by_name(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    lookup(|buf: &mut [u8]| {
        let mut entry = MaybeUninit::<libc::group>::zeroed();
        let mut found = ptr::null_mut();
        // SAFETY: as in `user_by_name`.
        let code = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buf.as_mut_ptr().cast(),
                buf.len(),
                &raw mut found,
            )
        };
        // SAFETY: plain old data, zeroed and then perhaps filled.
        let entry = unsafe { entry.assume_init() };
        (code, (!found.is_null()).then_some(entry.gr_gid))
    })
}

/// The largest answer accepted, in bytes: a group may have very many members.
const MAX_ENTRY_BYTES: usize = 16 << 20;

/// Repeats `ask` with a growing buffer until the answer fits.
fn lookup<T>(ask: impl Fn(&mut [u8]) -> (i32, Option<T>)) -> io::Result<Option<T>> {
    let mut buf = vec![0; 4096];
    loop {
        match ask(&mut buf) {
            (0, answer) => return Ok(answer),
            (libc::EINTR, _) => {}
            (libc::ERANGE, _) if buf.len() < MAX_ENTRY_BYTES => buf.resize(buf.len() * 4, 0),
            // Databases that report "not found" as an error, as listed in the manual page.
            (libc::ENOENT | libc::ESRCH, _) => return Ok(None),
            (code, _) => return Err(io::Error::from_raw_os_error(code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known() {
        assert_eq!(
            user_by_name("root").expect("database"),
            Some(UserEntry { uid: 0, gid: 0 })
        );
        assert_eq!(group_by_name("root").expect("database"), Some(0));
    }

    #[test]
    fn unknown_names_are_none() {
        assert_eq!(user_by_name("no-such-user-here").expect("database"), None);
        assert_eq!(group_by_name("no-such-group-here").expect("database"), None);
    }

    #[test]
    fn a_name_with_nul_is_an_error() {
        assert!(user_by_name("ro\0ot").is_err());
    }

    #[test]
    fn large_answers_get_a_larger_buffer() {
        let answer = lookup(|buf| {
            if buf.len() < 100_000 {
                (libc::ERANGE, None)
            } else {
                (0, Some(buf.len()))
            }
        });
        assert!(answer.expect("fits in the end").expect("found") >= 100_000);
        let never = lookup::<()>(|_| (libc::ERANGE, None));
        assert_eq!(
            never.expect_err("bounded").raw_os_error(),
            Some(libc::ERANGE)
        );
    }
}
