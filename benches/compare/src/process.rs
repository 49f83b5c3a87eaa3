//! What Linux says of this process and of this machine.

use std::path::Path;

/// Bytes of memory that this process holds and that could not be had back: anonymous and shared.
pub(crate) fn memory() -> u64 {
    // What was freed and not given back would hide as much of what is taken later.
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes no pointer and may be called at any time, by any thread.
    unsafe {
        libc::malloc_trim(0);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kib = |field: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (kib("RssAnon:") + kib("RssShmem:")) * 1024
}

/// Bytes that this process has written through system calls.
pub(crate) fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

/// As many descriptors as are allowed.
pub(crate) fn raise_descriptors() {
    // SAFETY: both calls take a pointer to a local.
    unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Writes out what the file system still has in memory, so that nobody's preparations are another's load.
pub(crate) fn sync_file_system(dir: &Path) {
    use std::os::fd::AsRawFd;
    let dir = std::fs::File::open(dir).unwrap();
    // SAFETY: a descriptor that is open.
    unsafe { libc::syncfs(dir.as_raw_fd()) };
}

/// Bytes of the file system that are free for us.
pub(crate) fn free_space(dir: &Path) -> u64 {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(dir.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path with its zero, and a local of the right type, which is all numbers.
    unsafe {
        let mut about: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::statvfs(path.as_ptr(), &raw mut about), 0);
        about.f_bavail * about.f_frsize
    }
}

/// Syncs that the shim has seen of this process, or `None` where it is not loaded.
pub(crate) fn syncs() -> Option<u64> {
    // SAFETY: a name with its zero; the symbol is the shim's, which has this type.
    unsafe {
        let hits = libc::dlsym(libc::RTLD_DEFAULT, c"slowsync_hits".as_ptr());
        if hits.is_null() {
            return None;
        }
        let hits: extern "C" fn() -> u64 = std::mem::transmute(hits);
        Some(hits())
    }
}
