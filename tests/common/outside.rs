//! What happens to a small mount from outside the node, and waiting for what follows.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Takes the last byte of the file system, the share kept for root included, with files beside `path`: its name, and a number
/// as the extension.
pub(crate) fn fill(path: &Path) {
    // Several files: XFS refuses to make one longer while it still has blocks for another.
    for number in 0..10_000 {
        let path = path.with_extension(number.to_string());
        let Ok(mut file) = File::create_new(path) else { break };
        let mut bytes = 0;
        for step in [1 << 20, 1 << 16, 1 << 12, 1 << 8, 1] {
            while let Ok(written) = file.write(&vec![0xa5; step]) {
                bytes += written;
            }
            let _ = file.sync_all();
        }
        if bytes == 0 {
            break;
        }
    }
}

/// Waits until `done` answers; how long is nobody's business but a hanging test's.
pub(crate) fn wait_for<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = done() {
            return answer;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(10));
    }
}
