//! The seccomp filter: which system calls of a program stop it.

use super::Trap;

/// The calls that stop a program: each may change a file, its name or its durability.
const STOPPING: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_openat2,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_symlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
    libc::SYS_munmap,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    libc::SYS_renameat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
];

/// Calls that change the protection of mappings.
const PROTECTING: &[libc::c_long] = &[libc::SYS_mprotect, libc::SYS_mremap];

/// Calls that stop a program, besides those that change files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stops {
    /// Those that read.
    pub reads: bool,
    /// Those that mappings depend on whose stores are seen one by one.
    pub stores: bool,
}

/// Calls that read files.
const READING: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_mmap,
];

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xc000_00b7;

/// Calls of the x32 ABI carry this bit.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

/// `FICLONE` and `FICLONERANGE`: the two requests of `ioctl` that change a file's content.
const FICLONE: u32 = 0x4004_9409;
/// See [`FICLONE`].
const FICLONERANGE: u32 = 0x4020_940d;

/// Offsets in `struct seccomp_data`.
const DATA_NUMBER: u32 = 0;
const DATA_ARCH: u32 = 4;
const fn data_arg(index: u32) -> u32 {
    16 + 8 * index
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The filter: calls of [`STOPPING`] stop, opens only where they may create or cut,
/// mappings only where they are shared; asynchronous calls are refused, so that programs use ordinary ones.
/// With [`Stops::reads`], reads of files and all their mappings stop as well, with [`Stops::stores`] what changes the
/// protection of mappings.
pub(super) fn filter(stops: Stops) -> Vec<libc::sock_filter> {
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let stop = libc::SECCOMP_RET_TRACE | Trap::Call as u32;
    let mut program = vec![
        step(LOAD, DATA_ARCH, 0, 0),
        step(EQUAL, AUDIT_ARCH, 1, 0),
        step(RETURN, libc::SECCOMP_RET_TRACE | Trap::Foreign as u32, 0, 0),
        step(LOAD, DATA_NUMBER, 0, 0),
    ];
    #[cfg(target_arch = "x86_64")]
    program.extend([
        step(ANY_BIT, X32_BIT, 0, 1),
        step(RETURN, libc::SECCOMP_RET_TRACE | Trap::Foreign as u32, 0, 0),
    ]);
    let reading = if stops.reads || stops.stores { READING } else { &[] };
    let protecting = if stops.stores { PROTECTING } else { &[] };
    for &call in STOPPING.iter().chain(reading).chain(protecting) {
        program.push(step(EQUAL, call as u32, 0, 1));
        program.push(step(RETURN, stop, 0, 0));
    }
    for call in [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_io_setup,
    ] {
        program.push(step(EQUAL, call as u32, 0, 1));
        program.push(step(RETURN, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0, 0));
    }
    let unnamed = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let opening = (libc::O_CREAT | libc::O_TRUNC | unnamed) as u32;
    let mut with_bits = |call: libc::c_long, argument, bits| {
        program.push(step(EQUAL, call as u32, 0, 4));
        program.push(step(LOAD, data_arg(argument), 0, 0));
        program.push(step(ANY_BIT, bits, 0, 1));
        program.push(step(RETURN, stop, 0, 0));
        program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    };
    with_bits(libc::SYS_openat, 2, opening);
    #[cfg(target_arch = "x86_64")]
    with_bits(libc::SYS_open, 1, opening);
    // MAP_SHARED and MAP_SHARED_VALIDATE have the lowest bit, MAP_PRIVATE has not.
    with_bits(libc::SYS_mmap, 3, libc::MAP_SHARED as u32);
    program.extend([
        step(EQUAL, libc::SYS_ioctl as u32, 0, 4),
        step(LOAD, data_arg(1), 0, 0),
        step(EQUAL, FICLONE, 1, 0),
        step(EQUAL, FICLONERANGE, 0, 1),
        step(RETURN, stop, 0, 0),
        step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]);
    program
}
