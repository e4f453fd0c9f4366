//! The kernels that guests boot, as `scripts/vm/fetch-kernels.sh` leaves them.

use std::path::{Path, PathBuf};

/// One kernel with its modules.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `bookworm` or `backports`.
    pub label: &'static str,
    /// Its version, as `uname -r` prints it.
    pub release: String,
    directory: PathBuf,
}

impl Kernel {
    /// Debian 12's kernel: Linux 6.1. Every machine that runs the tests has it.
    ///
    /// # Errors
    ///
    /// What is missing and how to get it.
    pub fn bookworm() -> Result<Kernel, String> {
        Kernel::fetched("bookworm")
    }

    /// The newest kernel of Debian's backports, at least 6.14, which can change the keys of a
    /// TLS 1.3 connection.
    ///
    /// # Errors
    ///
    /// Why there is none; a mirror need not have it.
    pub fn backports() -> Result<Kernel, String> {
        let kernel = Kernel::fetched("backports").map_err(|missing| {
            std::fs::read_to_string(kernels().join("backports.missing")).unwrap_or(missing)
        })?;
        match version(&kernel.release) {
            found if found >= (6, 14) => Ok(kernel),
            _ => Err(format!("{} is older than Linux 6.14", kernel.release)),
        }
    }

    fn fetched(label: &'static str) -> Result<Kernel, String> {
        let directory = kernels().join(label);
        match std::fs::read_to_string(directory.join("release")) {
            Ok(release) => Ok(Kernel {
                label,
                release: release.trim().to_owned(),
                directory,
            }),
            Err(error) => Err(format!(
                "{}: {error}; run scripts/install-vm-deps.sh",
                directory.join("release").display()
            )),
        }
    }

    /// The compressed kernel.
    pub fn vmlinuz(&self) -> PathBuf {
        self.directory.join("vmlinuz")
    }

    /// `lib/modules/RELEASE`.
    pub fn modules(&self) -> PathBuf {
        self.directory.join("lib/modules").join(&self.release)
    }
}

/// The major and minor number of a kernel release; zeroes for what is none.
pub fn version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// Where downloads and builds that outlive `cargo clean` are kept.
pub fn cache() -> PathBuf {
    std::env::var_os("SEALANE_CACHE")
        .map_or_else(|| sealane_tests::repository().join(".cache"), PathBuf::from)
}

fn kernels() -> PathBuf {
    cache().join(Path::new("vm/kernels"))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn releases_compare_by_number() {
        assert_eq!(version("6.1.0-50-cloud-amd64"), (6, 1));
        assert_eq!(version("7.3.4+deb13-cloud-amd64"), (7, 3));
        assert!(version("6.14.1") > version("6.2.0"));
    }
}
