use super::*;
use sealane_conf::{MemoryLoader, Options};
use std::path::Path;

fn config(text: &str) -> Config {
    let mut loader = MemoryLoader::new().with(Path::new("/nginx.conf"), text);
    let options = Options::new(Path::new("/nginx.conf"), Path::new("/"));
    sealane_conf::parse(&options, &mut loader).expect("it can be used")
}

const PLAIN: &str =
    "events {} http { server { listen 80; location / { proxy_pass http://127.0.0.1; } } }";

#[test]
fn the_filters_fit_into_the_kernels_limit() {
    for program in programs(4711, true).expect("they compile") {
        assert!(program.len() < 4096, "{} instructions", program.len());
    }
}

#[test]
fn what_starts_programs_or_reaches_others_is_not_among_the_calls() {
    let never = [
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_listen,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_mount,
        libc::SYS_chroot,
        libc::SYS_setuid,
        libc::SYS_capset,
        libc::SYS_keyctl,
        libc::SYS_open_by_handle_at,
        libc::SYS_symlinkat,
        libc::SYS_linkat,
        libc::SYS_mknodat,
        libc::SYS_fchmodat,
        libc::SYS_fchownat,
    ];
    let conditional = calls::conditional(1);
    for call in never {
        assert!(!calls::ALLOWED.contains(&call), "{call}");
        assert!(!calls::CHANGING_FILES.contains(&call), "{call}");
        assert!(
            conditional.iter().all(|(number, _)| *number != call),
            "{call}"
        );
    }
    // What has conditions must not be allowed without them.
    for (call, _) in conditional {
        assert!(!calls::ALLOWED.contains(&call), "{call}");
    }
}

#[test]
fn capabilities_are_kept_for_what_needs_them_only() {
    let of = |text: &str, user: &str| {
        let config = config(&format!("user {user}; {text}"));
        let identity = Identity::of(user);
        kept_capabilities(&config, identity.as_ref())
    };
    assert_eq!(of(PLAIN, "nobody"), []);
    let transparent = PLAIN.replace(
        "proxy_pass",
        "proxy_bind $remote_addr transparent; proxy_pass",
    );
    assert_eq!(of(&transparent, "nobody"), [Capability::NetRaw]);
    assert_eq!(
        of(PLAIN, "root"),
        [Capability::DacOverride, Capability::DacReadSearch]
    );
    assert_eq!(kept_capabilities(&config(&transparent), None), []);
}

#[test]
fn files_are_changed_where_the_configuration_says_so_only() {
    for call in calls::CHANGING_FILES {
        assert!(!calls::ALLOWED.contains(call), "{call}");
    }
    assert!(!changes_files(&config(PLAIN)));
    for place in [
        "server { dav_methods PUT; }",
        "server { location / { location /x { dav_methods MKCOL; } } }",
        "server { location / { if ($arg_a) { root html; } dav_methods DELETE; } }",
        "server { location / { proxy_pass http://127.0.0.1:1; proxy_store on; } }",
    ] {
        assert!(
            changes_files(&config(&format!("events {{}} http {{ {place} }}"))),
            "{place}"
        );
    }
    let off = "events {} http { dav_methods off; server { create_full_put_path on; } }";
    assert!(!changes_files(&config(off)));
}
