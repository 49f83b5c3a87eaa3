//! For `LD_PRELOAD`: stands before the C library's syncing calls, counts them, and makes each slower by as many
//! microseconds as `SLOWSYNC_MICROS` says.
//!
//! What reaches the kernel in other ways (a bare `syscall`, io_uring) is not seen. Whoever has no hits is left out of the
//! slow workloads.
#![allow(clippy::missing_safety_doc, reason = "as the C library's")]
#![allow(clippy::disallowed_methods, reason = "not the engine: it is told by its environment")]

use libc::{c_int, c_long, c_void, iovec, off_t, size_t, ssize_t};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static HITS: AtomicU64 = AtomicU64::new(0);
/// Negative until the environment was asked.
static MICROS: AtomicI64 = AtomicI64::new(-1);

/// How many syncs this process has done.
#[unsafe(no_mangle)]
pub extern "C" fn slowsync_hits() -> u64 {
    HITS.load(Ordering::Relaxed)
}

fn micros() -> i64 {
    match MICROS.load(Ordering::Relaxed) {
        -1 => {
            let said = std::env::var("SLOWSYNC_MICROS").ok();
            let micros = said.and_then(|said| said.parse().ok()).unwrap_or(0);
            MICROS.store(micros, Ordering::Relaxed);
            micros
        }
        micros => micros,
    }
}

/// After the real call. `errno` is the call's, and stays.
fn after<T>(result: T) -> T {
    HITS.fetch_add(1, Ordering::Relaxed);
    let micros = micros();
    if micros > 0 {
        // SAFETY: the address of this thread's errno, and a sleep with two valid pointers.
        unsafe {
            let errno = *libc::__errno_location();
            let mut left =
                libc::timespec { tv_sec: micros / 1_000_000, tv_nsec: (micros % 1_000_000) * 1000 };
            while libc::nanosleep(&left, &mut left) != 0 {}
            *libc::__errno_location() = errno;
        }
    }
    result
}

/// Whether each write to it is a sync. A wrong descriptor is not; the call that follows says so.
fn syncs(fd: c_int) -> bool {
    // SAFETY: takes no pointer.
    unsafe {
        let errno = *libc::__errno_location();
        let flags = libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL);
        *libc::__errno_location() = errno;
        flags > 0 && flags & c_long::from(libc::O_DSYNC) != 0
    }
}

fn counted<T>(is_sync: bool, result: T) -> T {
    if is_sync { after(result) } else { result }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    after(unsafe { libc::syscall(libc::SYS_fsync, fd) } as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    after(unsafe { libc::syscall(libc::SYS_fdatasync, fd) } as c_int)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn msync(address: *mut c_void, len: size_t, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { libc::syscall(libc::SYS_msync, address, len, flags) } as c_int;
    // MS_ASYNC waits for nothing.
    counted(flags & libc::MS_SYNC != 0, result)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn sync_file_range(
    fd: c_int,
    offset: off_t,
    len: off_t,
    flags: libc::c_uint,
) -> c_int {
    // SAFETY: the caller's arguments, passed on.
    let result =
        unsafe { libc::syscall(libc::SYS_sync_file_range, fd, offset, len, flags) } as c_int;
    counted(flags & libc::SYNC_FILE_RANGE_WAIT_AFTER != 0, result)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(
    fd: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    let is_sync = flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0 || syncs(fd);
    // SAFETY: the caller's arguments, passed on. The upper half of the offset counts on 32-bit machines only.
    let result =
        unsafe { libc::syscall(libc::SYS_pwritev2, fd, vectors, count, offset, 0_i64, flags) };
    counted(is_sync, result as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the same call.
    unsafe { pwritev2(fd, vectors, count, offset, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(
    fd: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { libc::syscall(libc::SYS_pwritev, fd, vectors, count, offset, 0_i64) };
    counted(syncs(fd), result as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(
    fd: c_int,
    vectors: *const iovec,
    count: c_int,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the same call.
    unsafe { pwritev(fd, vectors, count, offset) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, len, offset) };
    counted(syncs(fd), result as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    offset: off_t,
) -> ssize_t {
    // SAFETY: the same call.
    unsafe { pwrite(fd, bytes, len, offset) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { libc::syscall(libc::SYS_write, fd, bytes, len) };
    counted(syncs(fd), result as ssize_t)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments, passed on.
    let result = unsafe { libc::syscall(libc::SYS_writev, fd, vectors, count) };
    counted(syncs(fd), result as ssize_t)
}
