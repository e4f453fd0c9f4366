//! The user and groups that the worker process runs as.

use sealane_conf::model::{Main, User};
use sealane_log::OsError;
use sealane_sys::guard::{Guard, Guest};
use sealane_sys::{process, user};
use std::ffi::CString;

/// The default user, and its possible groups:
/// which one exists depends on the distribution.
const DEFAULT_USER: &str = "nobody";
const DEFAULT_GROUPS: [&str; 2] = ["nobody", "nogroup"];

/// A user and group that exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    name: CString,
    uid: u32,
    gid: u32,
}

impl Identity {
    /// Finds the user and group of `user`, if this process has the privileges
    /// to become them; `None` when the worker keeps its user.
    ///
    /// # Errors
    /// nginx's message for a name that does not exist.
    pub(crate) fn find(main: &Main) -> Result<Option<Identity>, String> {
        if process::effective_uid() != 0 {
            return Ok(None);
        }
        let Some(user) = &main.user else {
            return Identity::default_user().map(Some);
        };
        Identity::of_user(user).map(Some)
    }

    /// The user and group of `user`.
    ///
    /// # Errors
    /// nginx's message for a name that does not exist.
    pub(crate) fn of_user(user: &User) -> Result<Identity, String> {
        // As in nginx the user comes first: its group has the same name if none is given.
        let identity = Identity::new(&user.name, None)?;
        let gid = group(&user.group)?;
        Ok(Identity { gid, ..identity })
    }

    fn default_user() -> Result<Identity, String> {
        let existing = DEFAULT_GROUPS.into_iter().find_map(|name| group(name).ok());
        let gid = existing.ok_or_else(|| {
            format!(
                "neither group \"{}\" nor \"{}\" exists; name a user and group \
                 with the \"user\" directive",
                DEFAULT_GROUPS[0], DEFAULT_GROUPS[1]
            )
        })?;
        Identity::new(DEFAULT_USER, Some(gid))
    }

    /// Without a group, the user's own.
    fn new(name: &str, gid: Option<u32>) -> Result<Identity, String> {
        let entry = user::user_by_name(name)
            .map_err(|error| format!("getpwnam(\"{name}\") failed ({})", OsError(&error)))?
            .ok_or_else(|| format!("getpwnam(\"{name}\") failed: no such user"))?;
        let name = CString::new(name).map_err(|_| "a user name with a NUL byte".to_owned())?;
        Ok(Identity {
            name,
            uid: entry.uid,
            gid: gid.unwrap_or(entry.gid),
        })
    }

    /// A user with its own group.
    ///
    /// # Errors
    /// nginx's message for a name that does not exist.
    pub(crate) fn named(name: &str) -> Result<Identity, String> {
        Identity::new(name, None)
    }

    /// A user and its group, for tests.
    #[cfg(test)]
    pub(crate) fn of(name: &str) -> Option<Identity> {
        Identity::new(name, Some(0)).ok()
    }

    /// The group's number.
    pub(crate) fn gid(&self) -> u32 {
        self.gid
    }

    /// The user's number: whom the worker's files belong to.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Keeps the master from opening for this user what the user itself could not open.
    ///
    /// # Errors
    /// When the groups of the user cannot be determined.
    pub(crate) fn guard(&self) -> Result<Guard, String> {
        let guest = Guest::new(&self.name, self.uid, self.gid).map_err(|error| {
            let (name, error) = (self.name.to_string_lossy(), OsError(&error));
            format!("getgrouplist(\"{name}\") failed ({error})")
        })?;
        Ok(Guard::against([guest]))
    }

    /// Becomes this user, for good.
    ///
    /// # Errors
    /// Which step failed, and why.
    pub(crate) fn assume(&self) -> Result<(), String> {
        process::become_user(&self.name, self.uid, self.gid)
            .map_err(|(call, error)| format!("{call} ({})", OsError(&error)))
    }
}

fn group(name: &str) -> Result<u32, String> {
    user::group_by_name(name)
        .map_err(|error| format!("getgrnam(\"{name}\") failed ({})", OsError(&error)))?
        .ok_or_else(|| format!("getgrnam(\"{name}\") failed: no such group"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up() {
        let root = Identity::new("root", None).expect("there");
        assert_eq!((root.uid, root.gid), (0, 0));
        let error = Identity::new("no-such-user-here", None).expect_err("unknown");
        assert_eq!(
            error,
            "getpwnam(\"no-such-user-here\") failed: no such user"
        );
        assert!(
            group("no-such-group-here")
                .expect_err("unknown")
                .starts_with("getgrnam(")
        );
    }

    #[test]
    fn the_default_user_exists_everywhere() {
        let nobody = Identity::default_user().expect("every distribution has one");
        assert_ne!(nobody.uid, 0);
        assert_ne!(nobody.gid, 0);
    }
}
