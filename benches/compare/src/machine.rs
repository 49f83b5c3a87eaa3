//! Where it runs.

use crate::quiet;
use crate::results::Machine;
use std::path::Path;

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// Type, options and source of the mount that a directory is on: the longest one that is above it.
fn mount(dir: &Path) -> (String, String, String) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of = mounts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [source, point, kind, options, ..] = fields[..] else { return None };
        dir.starts_with(point).then_some((point.len(), kind, options, source))
    });
    // Of two at the same place the later one is what is seen.
    let (_, kind, options, source) = of.max_by_key(|(len, ..)| *len).unwrap_or_default();
    (kind.to_owned(), options.to_owned(), source.to_owned())
}

pub(crate) fn look(dir: &Path) -> Machine {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processor = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let memory = first_line("/proc/meminfo");
    let kib: u64 = memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0);
    let (file_system, mount_options, device) = mount(&dir.canonicalize().unwrap());
    let load_before = quiet::load();
    Machine {
        processor: processor.map_or_else(|| "processor".to_owned(), |(_, name)| name.to_owned()),
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: kib * 1024,
        kernel: first_line("/proc/sys/kernel/osrelease"),
        file_system,
        mount_options,
        device,
        load_before,
        note: quiet::load_note(load_before),
    }
}
