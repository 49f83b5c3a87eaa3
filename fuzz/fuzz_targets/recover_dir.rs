//! Any data directory: see `plimsoll_fuzz::directory`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::directory::{Directory, run};

fuzz_target!(|directory: Directory| run(&directory));
