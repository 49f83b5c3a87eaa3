//! Any sequence of operations, crashes and faults: see `plimsoll_fuzz::operations`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_fuzz::operations::{Scenario, run};

fuzz_target!(|scenario: Scenario| run(&scenario));
