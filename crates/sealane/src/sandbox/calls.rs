//! The system calls that a worker process needs, by purpose.
//!
//! A new call comes with a note of which part of the server makes it. Any other call fails with
//! `ENOSYS` and is logged in the error log.

use libc::*;
use sealane_sys::process::Pid;

/// Number of a system call.
pub(super) type Number = c_long;

/// What `clone3` gets for an answer.
pub(super) const ENOSYS: u32 = libc::ENOSYS as u32;

/// Starting threads, in a form that no filter can look into.
pub(super) const CLONE3: Number = SYS_clone3;

/// What rename(3) calls where there is no system call of that name.
#[cfg(target_arch = "x86_64")]
const RENAMEAT: Number = SYS_renameat;

/// The same; `libc` leaves it out on other machines, whose common numbers these are.
#[cfg(not(target_arch = "x86_64"))]
const RENAMEAT: Number = 38;

/// A condition on one argument.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    /// Position of the argument, from 0.
    pub(super) argument: u8,
    pub(super) test: Test,
}

/// What an argument is compared with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Test {
    /// Its lower 32 bits are this number.
    Is(u64),
    /// Its lower 32 bits are another number.
    IsNot(u64),
    /// It has all of these bits.
    HasBits(u64),
    /// It has none of these bits.
    LacksBits(u64),
    /// Of the first bits, its own are the second.
    HasOf(u64, u64),
    /// It is a null pointer.
    IsNull,
}

/// Allowed whatever the arguments.
pub(super) const ALLOWED: &[Number] = &[
    // Sockets: accepting, clients, other servers, name servers, syslog. No listen: listening
    // sockets come from the master.
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_connect,
    SYS_getpeername,
    SYS_getsockname,
    SYS_getsockopt,
    SYS_recvfrom,
    SYS_recvmmsg,
    SYS_recvmsg,
    SYS_sendfile,
    SYS_sendmmsg,
    SYS_sendmsg,
    SYS_sendto,
    SYS_shutdown,
    // Waiting.
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_ppoll,
    SYS_pselect6,
    SYS_signalfd4,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    // Files that are served, temporary files, logs.
    SYS_close,
    SYS_close_range,
    SYS_copy_file_range,
    SYS_dup,
    SYS_dup3,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_fadvise64,
    SYS_fallocate,
    SYS_fdatasync,
    SYS_flock,
    SYS_fstat,
    SYS_fstatfs,
    SYS_fsync,
    SYS_ftruncate,
    SYS_getcwd,
    SYS_getdents64,
    SYS_lseek,
    SYS_memfd_create,
    SYS_mkdirat,
    SYS_newfstatat,
    SYS_openat,
    SYS_openat2,
    SYS_pipe2,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_read,
    SYS_readahead,
    SYS_readlinkat,
    SYS_readv,
    RENAMEAT,
    SYS_renameat2,
    SYS_splice,
    SYS_statfs,
    SYS_statx,
    SYS_unlinkat,
    SYS_write,
    SYS_writev,
    // Memory. Regular expressions are compiled to machine code, so mappings may be executable.
    SYS_brk,
    SYS_madvise,
    SYS_membarrier,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_mmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_munlock,
    SYS_munmap,
    // Threads and their scheduling.
    SYS_clone3, // refused with ENOSYS by the other filter
    SYS_exit,
    SYS_exit_group,
    SYS_futex,
    SYS_get_robust_list,
    SYS_getcpu,
    SYS_rseq,
    SYS_sched_getaffinity,
    SYS_sched_getattr,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_yield,
    SYS_set_robust_list,
    SYS_set_tid_address,
    // Signals: reading them, and the report of a crash.
    SYS_restart_syscall,
    SYS_rt_sigaction,
    SYS_rt_sigpending,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_setitimer,
    SYS_sigaltstack,
    // Clocks, where the kernel's page of them does not serve.
    SYS_clock_getres,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_gettimeofday,
    SYS_nanosleep,
    SYS_times,
    // Who and where we are.
    SYS_getegid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getgroups,
    SYS_getpid,
    SYS_getppid,
    SYS_getpriority,
    SYS_getrandom,
    SYS_getresgid,
    SYS_getresuid,
    SYS_getrusage,
    SYS_gettid,
    SYS_getuid,
    SYS_sysinfo,
    SYS_uname,
    // Calls of old that only this architecture has; C libraries still use them.
    #[cfg(target_arch = "x86_64")]
    SYS_access,
    #[cfg(target_arch = "x86_64")]
    SYS_arch_prctl,
    #[cfg(target_arch = "x86_64")]
    SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_create,
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    SYS_eventfd,
    #[cfg(target_arch = "x86_64")]
    SYS_getdents,
    #[cfg(target_arch = "x86_64")]
    SYS_getrlimit,
    #[cfg(target_arch = "x86_64")]
    SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    SYS_open,
    #[cfg(target_arch = "x86_64")]
    SYS_pause,
    #[cfg(target_arch = "x86_64")]
    SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    SYS_poll,
    #[cfg(target_arch = "x86_64")]
    SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    SYS_rename,
    #[cfg(target_arch = "x86_64")]
    SYS_select,
    #[cfg(target_arch = "x86_64")]
    SYS_stat,
    #[cfg(target_arch = "x86_64")]
    SYS_time,
    #[cfg(target_arch = "x86_64")]
    SYS_unlink,
];

/// Allowed as well where clients or upstream servers may change files (`dav_methods`,
/// `proxy_store`). Renaming, removing files and
/// making directories are needed for temporary files anyway.
pub(super) const CHANGING_FILES: &[Number] = &[
    SYS_fchmod,
    SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    SYS_rmdir,
];

/// The operations of prctl that threads and the allocator use.
const PRCTL_OPTIONS: [c_int; 5] = [
    PR_SET_NAME,
    PR_GET_NAME,
    PR_SET_VMA,
    PR_GET_DUMPABLE,
    PR_GET_THP_DISABLE,
];

/// Families, types and protocols of the sockets that a server uses: to clients, other servers,
/// name servers and the system's log. The C library queries the machine's addresses before it
/// looks up a name.
const SOCKETS: [(c_int, c_int, c_int); 12] = [
    (AF_UNIX, SOCK_STREAM, 0),
    (AF_UNIX, SOCK_DGRAM, 0),
    (AF_UNIX, SOCK_SEQPACKET, 0),
    (AF_INET, SOCK_STREAM, 0),
    (AF_INET, SOCK_STREAM, IPPROTO_TCP),
    (AF_INET, SOCK_DGRAM, 0),
    (AF_INET, SOCK_DGRAM, IPPROTO_UDP),
    (AF_INET6, SOCK_STREAM, 0),
    (AF_INET6, SOCK_STREAM, IPPROTO_TCP),
    (AF_INET6, SOCK_DGRAM, 0),
    (AF_INET6, SOCK_DGRAM, IPPROTO_UDP),
    (AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
];

/// The bits of a socket's type among its flags.
const SOCKET_TYPE_BITS: u64 = 0xf;

/// Levels of which every option may be set: the server's own, kernel TLS as well.
const OPTION_LEVELS: [c_int; 2] = [IPPROTO_TCP, SOL_TLS];

/// Options of the socket itself that hand the kernel a program.
const PROGRAM_OPTIONS: [c_int; 4] = [
    SO_ATTACH_FILTER,
    SO_ATTACH_BPF,
    SO_ATTACH_REUSEPORT_CBPF,
    SO_ATTACH_REUSEPORT_EBPF,
];

/// Options of IP: `proxy_bind`, `listen ... udp` and QUIC, and what the C library sets for its
/// queries to name servers. Others lead to packet filters.
const IP_OPTIONS: [(c_int, c_int); 13] = [
    (IPPROTO_IP, IP_MTU_DISCOVER),
    (IPPROTO_IP, IP_RECVERR),
    (IPPROTO_IP, IP_TRANSPARENT),
    (IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT),
    (IPPROTO_IPV6, IPV6_MTU_DISCOVER),
    (IPPROTO_IPV6, IPV6_RECVERR),
    (IPPROTO_IPV6, IPV6_V6ONLY),
    (IPPROTO_IPV6, IPV6_TRANSPARENT),
    (IPPROTO_IP, IP_PKTINFO),
    (IPPROTO_IPV6, IPV6_RECVPKTINFO),
    (IPPROTO_IP, IP_RECVTOS),
    (IPPROTO_IPV6, IPV6_RECVTCLASS),
    (SOL_UDP, UDP_GRO),
];

/// Commands of fcntl. Not those that set who gets a signal when a descriptor is ready, which would
/// have the kernel send signals to other processes, nor leases and notifications. Pipes that bytes
/// of layer 4 pass through are made larger.
const FCNTL_COMMANDS: [c_int; 9] = [
    F_DUPFD,
    F_DUPFD_CLOEXEC,
    F_GETFD,
    F_SETFD,
    F_GETFL,
    F_ADD_SEALS,
    F_GET_SEALS,
    F_SETPIPE_SZ,
    F_GETPIPE_SZ,
];

/// Threads share all of these with the process, and are in no namespace of their own.
const THREAD: c_int = CLONE_THREAD | CLONE_VM | CLONE_SIGHAND;
const NAMESPACES: c_int = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

/// What the standard library does with descriptors.
const IOCTL_REQUESTS: [Ioctl; 4] = [FIONBIO, FIONREAD, FIOCLEX, TCGETS];

/// A call is allowed if all conditions of one of its rows hold. `own` is the process
/// under the filter.
pub(super) fn conditional(own: Pid) -> Vec<(Number, Vec<Condition>)> {
    let on = |argument, test| Condition { argument, test };
    let is = |argument, value: u64| on(argument, Test::Is(value));
    let mut rules = vec![
        // Threads, but no processes.
        (
            SYS_clone,
            vec![
                on(0, Test::HasBits(THREAD as u64)),
                on(0, Test::LacksBits(NAMESPACES as u64)),
            ],
        ),
        // Signals to itself only: abort(3) and the report of a crash.
        (SYS_tgkill, vec![is(0, own as u64)]),
        // Time slices and processors of the calling thread.
        (SYS_sched_setattr, vec![is(0, 0)]),
        (SYS_sched_setaffinity, vec![is(0, 0)]),
        // Reading limits of its own, not changing them.
        (SYS_prlimit64, vec![is(0, 0), on(2, Test::IsNull)]),
        (SYS_socketpair, vec![is(0, AF_UNIX as u64)]),
        // No signals when a descriptor is ready.
        (
            SYS_fcntl,
            vec![
                is(1, F_SETFL as u64),
                on(2, Test::LacksBits(O_ASYNC as u64)),
            ],
        ),
        // Options of the socket itself, without programs.
        (
            SYS_setsockopt,
            std::iter::once(is(1, SOL_SOCKET as u64))
                .chain(PROGRAM_OPTIONS.map(|option| on(2, Test::IsNot(option as u64))))
                .collect(),
        ),
    ];
    let sockets = SOCKETS.map(|(family, kind, protocol)| {
        let kind = Test::HasOf(SOCKET_TYPE_BITS, kind as u64);
        let conditions = vec![is(0, family as u64), on(1, kind), is(2, protocol as u64)];
        (SYS_socket, conditions)
    });
    let levels = OPTION_LEVELS.map(|level| (SYS_setsockopt, vec![is(1, level as u64)]));
    let of_ip = IP_OPTIONS.map(|(level, option)| {
        let conditions = vec![is(1, level as u64), is(2, option as u64)];
        (SYS_setsockopt, conditions)
    });
    let commands = FCNTL_COMMANDS.map(|command| (SYS_fcntl, vec![is(1, command as u64)]));
    let options = PRCTL_OPTIONS.map(|option| (SYS_prctl, vec![is(0, option as u64)]));
    let requests =
        IOCTL_REQUESTS.map(|request| (SYS_ioctl, vec![is(1, u64::from(request as u32))]));
    rules.extend(sockets);
    rules.extend(levels);
    rules.extend(of_ip);
    rules.extend(commands);
    rules.extend(options);
    rules.extend(requests);
    rules
}
