//! The guest's initial file system: a cpio archive of the format `newc`, written
//! here so that no root is needed for device nodes and owners.

use crate::kernels::Kernel;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The script that the kernel starts: it mounts what programs expect, runs the
/// driver and switches the machine off, whatever happened.
const INIT: &str = r#"#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin SSLKEYLOGFILE=/tmp/keys.log
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
exec </dev/null >/dev/ttyS0 2>&1
/bin/busybox mount -t tmpfs tmpfs /tmp
/bin/busybox ifconfig lo 127.0.0.1 up
/bin/sealane-vm-guest || echo "init: the driver ended with status $?"
/bin/busybox sync
/bin/busybox poweroff -f
"#;

/// The kernel's directories of modules that a guest may load: encryption and
/// what it depends on, kernel TLS, and a disk in memory.
const MODULES: [&str; 5] = [
    "kernel/arch/x86/crypto",
    "kernel/crypto",
    "kernel/lib",
    "kernel/net/tls",
    "kernel/drivers/block/brd.ko",
];

/// Programs of this machine that the guest uses, by name.
const PROGRAMS: [&str; 7] = [
    "busybox", "curl", "openssl", "strace", "tcpdump", "kmod", "mke2fs",
];

/// The bytes of a program without its debug information, which is most of a test's build: an
/// emulated processor takes long to unpack it.
fn without_debug_information(program: &Path) -> Result<Vec<u8>, String> {
    let stripped = std::env::temp_dir().join(format!("sealane-vm-{}", std::process::id()));
    let status = Command::new("strip")
        .args(["--strip-debug", "-o"])
        .args([&stripped, program])
        .stderr(std::process::Stdio::null())
        .status();
    let content = match status {
        Ok(status) if status.success() => read(&stripped),
        // A script, or a program of another kind.
        _ => read(program),
    };
    let _ = std::fs::remove_file(stripped);
    content
}

#[derive(Clone, Debug)]
enum Entry {
    Directory,
    File {
        content: Vec<u8>,
        mode: u32,
    },
    Link(String),
    /// A character device.
    Device {
        major: u32,
        minor: u32,
    },
}

/// A file system in the making. Paths are relative to its root.
#[derive(Clone, Debug, Default)]
pub struct Image(BTreeMap<PathBuf, Entry>);

impl Image {
    /// What every guest has: the programs with their libraries, the kernel's
    /// modules, the driver, and the server under test as `/bin/sealane`.
    ///
    /// # Errors
    ///
    /// What is missing on this machine, and how to get it.
    pub fn of_guest(kernel: &Kernel, sealane: &Path, driver: &Path) -> Result<Image, String> {
        let mut image = Image::default();
        for directory in ["proc", "sys", "dev", "tmp", "run", "root", "data"] {
            image.add(directory, Entry::Directory);
        }
        // The kernel opens it for init before anything is mounted.
        image.add("dev/console", Entry::Device { major: 5, minor: 1 });
        image.add_file("init", INIT.as_bytes().to_vec(), 0o755);
        image.add_file(
            "etc/passwd",
            b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n".to_vec(),
            0o644,
        );
        image.add_file(
            "etc/group",
            b"root:x:0:\nnogroup:x:65534:\nnobody:x:65533:\n".to_vec(),
            0o644,
        );
        for program in PROGRAMS {
            let found = find_program(program)?;
            image.add_program(&found, &format!("bin/{program}"))?;
        }
        for applet in ["kill", "sh"] {
            image.add(format!("bin/{applet}"), Entry::Link("busybox".into()));
        }
        // The path that the kernel's own requests for modules use.
        image.add("sbin/modprobe", Entry::Link("/bin/kmod".into()));
        image.add("bin/modprobe", Entry::Link("kmod".into()));
        image.add("bin/rmmod", Entry::Link("kmod".into()));
        image.add_program(sealane, "bin/sealane")?;
        image.add_program(driver, "bin/sealane-vm-guest")?;
        image.add_modules(kernel)?;
        Ok(image)
    }

    /// Adds a program under another name, with the libraries that it needs.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or a library is missing.
    pub fn add_program(&mut self, program: &Path, name: &str) -> Result<(), String> {
        self.add_file(name, without_debug_information(program)?, 0o755);
        for library in libraries(program)? {
            let inside = library.strip_prefix("/").unwrap_or(&library).to_path_buf();
            if !self.0.contains_key(&inside) {
                self.add_file(inside, read(&library)?, 0o755);
            }
        }
        Ok(())
    }

    /// Adds a file.
    pub fn add_file(&mut self, path: impl Into<PathBuf>, content: Vec<u8>, permissions: u32) {
        let mode = 0o100_000 | permissions;
        self.add(path, Entry::File { content, mode });
    }

    fn add(&mut self, path: impl Into<PathBuf>, entry: Entry) {
        let path = path.into();
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        if let Some(parent) = parent.filter(|parent| !self.0.contains_key(*parent)) {
            self.add(parent.to_path_buf(), Entry::Directory);
        }
        self.0.insert(path, entry);
    }

    /// The chosen modules, and the lists that modprobe reads.
    fn add_modules(&mut self, kernel: &Kernel) -> Result<(), String> {
        let from = kernel.modules();
        let inside = Path::new("lib/modules").join(&kernel.release);
        let mut found = 0;
        for line in text(&from.join("modules.dep"))?.lines() {
            let module = line.split(':').next().unwrap_or_default();
            if MODULES.iter().any(|part| module.starts_with(part)) {
                self.add_file(inside.join(module), read(&from.join(module))?, 0o644);
                found += 1;
            }
        }
        if found == 0 {
            return Err(format!("{}: no modules", from.display()));
        }
        for entry in
            std::fs::read_dir(&from).map_err(|error| format!("{}: {error}", from.display()))?
        {
            let entry = entry.map_err(|error| format!("{}: {error}", from.display()))?;
            let name = entry.file_name();
            if name.to_string_lossy().starts_with("modules.") {
                self.add_file(inside.join(&name), read(&entry.path())?, 0o644);
            }
        }
        Ok(())
    }

    /// The archive.
    pub fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        for (number, (path, entry)) in (1..).zip(&self.0) {
            let path = path.to_str().expect("the names of an image are text");
            let (mode, content, device) = match entry {
                Entry::Directory => (0o040_755, &[][..], (0, 0)),
                Entry::File { content, mode } => (*mode, content.as_slice(), (0, 0)),
                Entry::Link(target) => (0o120_777, target.as_bytes(), (0, 0)),
                Entry::Device { major, minor } => (0o020_600, &[][..], (*major, *minor)),
            };
            append(&mut archive, number, path, mode, content, device);
        }
        append(&mut archive, 0, "TRAILER!!!", 0, &[], (0, 0));
        archive
    }
}

/// Appends one entry: a header of numbers in hexadecimal, the name and the
/// content, each padded to four bytes.
fn append(
    archive: &mut Vec<u8>,
    inode: u32,
    name: &str,
    mode: u32,
    content: &[u8],
    device: (u32, u32),
) {
    let length = |bytes: usize| u32::try_from(bytes).expect("files of a guest are small");
    let fields = [
        inode,
        mode,
        0, // owner
        0, // group
        1, // links
        0, // time of modification
        length(content.len()),
        0, // the device that the file lies on
        0,
        device.0,
        device.1,
        length(name.len() + 1),
        0, // checksum, of another variant of the format
    ];
    archive.extend_from_slice(b"070701");
    for field in fields {
        archive.extend_from_slice(format!("{field:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(4), 0);
}

fn find_program(name: &str) -> Result<PathBuf, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let directories = path
        .split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"]);
    directories
        .map(|directory| Path::new(directory).join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| format!("{name} is not installed; run scripts/install-vm-deps.sh"))
}

/// The libraries and the loader of a program, as `ldd` finds them; none for
/// one that is linked statically.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(|error| format!("ldd: {error}"))?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let mut found = Vec::new();
    for line in listed.lines().map(str::trim) {
        if line.contains("not found") {
            return Err(format!("{}: {line}", program.display()));
        }
        // `libz.so.1 => /lib/libz.so.1 (0x…)`, or `/lib64/ld-linux-x86-64.so.2 (0x…)`
        let path = line.split_whitespace().find(|word| word.starts_with('/'));
        found.extend(path.map(PathBuf::from));
    }
    Ok(found)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_laid_out_as_the_kernel_reads_it() {
        let mut image = Image::default();
        image.add_file("bin/a", b"hello".to_vec(), 0o755);
        image.add("bin/b", Entry::Link("a".into()));
        let archive = image.archive();
        assert_eq!(archive.len() % 4, 0);
        let names: Vec<usize> = ["bin\0", "bin/a\0", "bin/b\0", "TRAILER!!!\0"]
            .iter()
            .map(|name| {
                let at = archive
                    .windows(name.len())
                    .position(|window| window == name.as_bytes());
                at.unwrap_or_else(|| panic!("no {name:?}"))
            })
            .collect();
        assert!(names.is_sorted(), "parents come first: {names:?}");
        for at in &names {
            assert_eq!(&archive[at - 110..at - 104], b"070701");
        }
        // Mode and length of the file, then its bytes behind the padded name.
        let header = &archive[names[1] - 110..names[1]];
        assert_eq!(&header[14..22], b"000081ed");
        assert_eq!(&header[54..62], b"00000005");
        let end = names[1] + "bin/a\0".len();
        let content = (end..end + 4).find(|&at| archive[at..].starts_with(b"hello"));
        assert!(content.is_some_and(|at| at % 4 == 0));
    }
}
