//! What Linux says of this process.

use std::collections::BTreeMap;

/// Bytes of memory that it holds and that could not be had back: anonymous and shared.
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

pub(crate) fn descriptors() -> usize {
    // The one that lists is among them.
    std::fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// `/proc/self/io`: bytes through read calls are `rchar`, from the disk `read_bytes`.
pub(crate) fn io() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = |line: &str| {
        let (name, count) = line.split_once(": ").unwrap();
        (name.to_owned(), count.parse().unwrap())
    };
    text.lines().map(line).collect()
}
