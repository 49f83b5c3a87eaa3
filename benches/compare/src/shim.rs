//! Where the library is that makes syncs slower.

use std::path::PathBuf;
use std::process::Command;

const NAME: &str = "libslowsync.so";

/// It is built beside this program; `cargo run` builds the program alone, so that it is made up for here.
pub(crate) fn path() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let path = program.with_file_name(NAME);
    if !path.exists()
        && let Some(cargo) = std::env::var_os("CARGO")
    {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--package", "slowsync", "--manifest-path", manifest]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // What it says on its standard output is not ours.
        let _ = build.status();
    }
    if path.exists() {
        return Ok(path);
    }
    Err(format!("{} is not there: build it with `cargo build --release`", path.display()))
}
