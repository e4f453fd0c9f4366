//! Accesses files with another user's rights.

use crate::CheckReturn;
use std::ffi::CStr;
use std::io;

/// A user with fewer rights than this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    pub(super) uid: u32,
    /// The primary one first.
    pub(super) groups: Vec<u32>,
    /// Stands for everybody except root.
    pub(super) anyone: bool,
}

/// A user without rights, whose number exists on all systems.
const NOBODY: u32 = 65534;

/// The file system ids can only be read by trying to set an invalid id, such as this one.
const NO_ID: u32 = u32::MAX;

/// More groups than a user can have (`NGROUPS_MAX`).
const MAX_GROUPS: usize = 65_536;

impl Guest {
    /// Everybody except root, with nobody's rights: for names used before it is known whom to guard
    /// them against.
    pub fn anyone() -> Guest {
        Guest {
            uid: NOBODY,
            groups: vec![NOBODY],
            anyone: true,
        }
    }

    /// Whether files with this owner belong to this user.
    pub(super) fn is(&self, owner: u32) -> bool {
        if self.anyone {
            owner != 0
        } else {
            owner == self.uid
        }
    }

    /// Whether this user is in a group.
    pub(super) fn is_in(&self, group: u32) -> bool {
        if self.anyone {
            group != 0
        } else {
            self.groups.contains(&group)
        }
    }

    /// A user with its group and the other groups in the database.
    ///
    /// # Errors
    /// When the database does not answer.
    pub fn new(name: &CStr, uid: u32, gid: u32) -> io::Result<Guest> {
        let mut groups = vec![0; 64];
        loop {
            let mut count = i32::try_from(groups.len()).expect("at most 65,536");
            // SAFETY: the name ends with NUL; the list has room for `count` groups.
            let found = unsafe {
                libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count)
            };
            if found >= 0 {
                groups.truncate(usize::try_from(count).unwrap_or(0));
                return Ok(Guest {
                    uid,
                    groups,
                    anyone: false,
                });
            }
            if groups.len() >= MAX_GROUPS {
                return Err(io::Error::other("too many groups"));
            }
            groups.resize(groups.len() * 4, 0);
        }
    }

    /// Runs `call` with this user's file access rights, in this thread only, and then restores the
    /// process's own. Meanwhile it has no file-related capabilities (capabilities(7)).
    ///
    /// # Errors
    /// When this process may not; `call` was not run then.
    pub(super) fn with_rights<T>(&self, call: impl FnOnce() -> T) -> io::Result<T> {
        let own = Own::put_off()?;
        set_groups(&self.groups)?;
        set_id(
            libc::SYS_setfsgid,
            self.groups.first().copied().unwrap_or(NO_ID - 1),
        )?;
        set_id(libc::SYS_setfsuid, self.uid)?;
        let answer = call();
        drop(own);
        Ok(answer)
    }
}

/// The rights of this process, which are restored on drop.
struct Own {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

impl Own {
    fn put_off() -> io::Result<Own> {
        // SAFETY: neither call takes a pointer.
        let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
        // SAFETY: with a length of 0 nothing is written.
        let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) }.check()?;
        let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has room for `count` groups.
        let count = unsafe { libc::getgroups(count, groups.as_mut_ptr()) }.check()?;
        groups.truncate(usize::try_from(count).unwrap_or(0));
        Ok(Own { uid, gid, groups })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let back = set_id(libc::SYS_setfsuid, self.uid)
            .and_then(|()| set_id(libc::SYS_setfsgid, self.gid))
            .and_then(|()| set_groups(&self.groups));
        if back.is_err() {
            // Continuing as another user would be worse than ending.
            std::process::abort();
        }
    }
}

/// Sets the groups of the calling thread only; the C library would change them for all threads.
fn set_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the kernel reads that many numbers.
    unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) }.check()?;
    Ok(())
}

/// The calls return the previous id and do not report errors.
fn set_id(call: libc::c_long, id: u32) -> io::Result<()> {
    // SAFETY: no pointer is involved; an id that there is not changes nothing.
    let now = unsafe {
        libc::syscall(call, id);
        libc::syscall(call, NO_ID)
    };
    if now == i64::from(id) {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
