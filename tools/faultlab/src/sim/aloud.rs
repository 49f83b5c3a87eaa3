//! Whether what happens is said: for whoever replays a case.

use plimsoll::fs::sim::{Op, OpKind};
use std::cell::Cell;
use std::fmt;
use std::io::Write;

thread_local! {
    static ALOUD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `run` with everything said that it does in this thread.
pub fn aloud<T>(run: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            ALOUD.set(self.0);
        }
    }
    let _back = Back(ALOUD.replace(true));
    run()
}

/// Whether to say it.
pub fn is_aloud() -> bool {
    ALOUD.get()
}

/// Says a line. A reader that went away is no fault of the engine.
pub fn say(line: fmt::Arguments<'_>) {
    if is_aloud() {
        let _ = writeln!(std::io::stdout(), "{line}");
    }
}

/// One operation in words.
pub fn words(op: &Op) -> String {
    let path = op.path.display();
    let place = format_args!("{path}, {} bytes at {}", op.len, op.position);
    match (op.kind, &op.to) {
        (OpKind::Read | OpKind::Write, _) => format!("{:?} {place}", op.kind),
        (OpKind::Allocate | OpKind::SetLen, _) => format!("{:?} {path}, {} bytes", op.kind, op.len),
        (_, Some(to)) => format!("{:?} {path} to {}", op.kind, to.display()),
        (OpKind::Random, None) => "Random".to_owned(),
        _ => format!("{:?} {path}", op.kind),
    }
}
