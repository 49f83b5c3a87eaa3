//! How a subcommand ends when it does not end well: one sentence, the fields of it, and an exit code.

use crate::output;

use plimsoll::error::{
    AppendError, CommitError, CommitFailure, Damage, DiskError, OpenError, Outcome, PublishError,
    ReadError, Stopped, TruncateError,
};
use plimsoll::format::name::LogNameError;
use plimsoll::permit::Limited;
use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The exit codes, 0 aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Bytes that were known durable are damaged.
    Damage,
    /// The command line or the input is wrong.
    Usage,
    /// Something cannot be read or written.
    Io,
    /// Refused for pressure; trying again later is safe.
    Limited,
    /// Ended by this signal before the work was done.
    Signal(i32),
}

impl Exit {
    /// The number for the shell.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Damage => 1,
            Self::Usage => 2,
            Self::Io => 3,
            Self::Limited => 75,
            Self::Signal(signal) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(0)),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Damage => "ERR_DAMAGED",
            Self::Usage => "ERR_USAGE",
            Self::Io => "ERR_IO",
            Self::Limited => "ERR_LIMITED",
            Self::Signal(_) => "ERR_INTERRUPTED",
        }
    }
}

/// Why a subcommand did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// Empty where the reason is that nobody reads the output: then there is nobody to tell.
    message: String,
    /// What the sentence names, for programs.
    fields: Map<String, Value>,
}

impl Failure {
    /// A failure with its sentence.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), fields: Map::new() }
    }

    /// Wrong use.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// An error of reading or writing something that is not the engine's.
    pub(crate) fn io(doing: &str, path: impl Display, error: &io::Error) -> Self {
        Self::new(Exit::Io, format!("cannot {doing} {path}: {error}"))
            .with("file", path.to_string())
    }

    /// An error of writing to standard output; a reader that has gone away is no error worth a word.
    pub(crate) fn output(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Exit::Io, "");
        }
        Self::io("write to", "standard output", error)
    }

    /// Adds a field for programs.
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(field.to_owned(), value.into());
        self
    }

    /// Adds to the end of the sentence.
    pub(crate) fn and(mut self, more: impl Display) -> Self {
        if !self.message.is_empty() {
            self.message = format!("{}{more}", self.message);
        }
        self
    }

    /// Puts something before the sentence.
    pub(crate) fn within(mut self, context: impl Display) -> Self {
        if !self.message.is_empty() {
            self.message = format!("{context}{}", self.message);
        }
        self
    }

    /// The sentence.
    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What a field says, where it is text.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }

    /// Whether the output's reader has gone away.
    pub(crate) fn is_quiet(&self) -> bool {
        self.message.is_empty()
    }

    /// Tells standard error and gives the exit code. With `as_json` the last line is an object.
    pub(crate) fn report(&self, as_json: bool) -> ExitCode {
        if !self.is_quiet() {
            output::error_line(&self.message);
        }
        if as_json && !self.is_quiet() {
            let mut object = json!({
                "error": self.exit.name(), "exit": self.exit.code(), "message": self.message,
            });
            if let Some(object) = object.as_object_mut() {
                object.extend(self.fields.clone());
            }
            output::plain_error_line(&object.to_string());
        }
        ExitCode::from(self.exit.code())
    }
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Self {
        let failure = Self::new(Exit::Damage, damage.to_string())
            .with("file", path_text(&damage.file))
            .with("position", damage.position)
            .with("detail", &*damage.detail);
        match damage.offset {
            Some(offset) => failure.with("offset", offset.0),
            None => failure,
        }
    }
}

/// What to do about the errors that people meet; anything else is left as the system says it.
fn advice(error: &DiskError) -> &'static str {
    const EROFS: i32 = 30;
    if error.is_no_space() {
        return "; free space there, or free segments with `plimsoll truncate`";
    }
    match error.io().raw_os_error() {
        Some(EROFS) => "; the file system is mounted read-only",
        _ if error.io().kind() == io::ErrorKind::PermissionDenied => {
            "; this user lacks the permission"
        }
        _ => "",
    }
}

impl From<DiskError> for Failure {
    fn from(error: DiskError) -> Self {
        let failure = Self::new(Exit::Io, error.to_string())
            .and(advice(&error))
            .with("file", path_text(error.path()));
        match error.io().raw_os_error() {
            Some(errno) => failure.with("errno", errno),
            None => failure,
        }
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        let sentence = stopped.to_string();
        match stopped {
            Stopped::Damaged(damage) => Self { message: sentence, ..damage.into() },
            _ => Self::new(Exit::Io, sentence),
        }
    }
}

impl From<TruncateError> for Failure {
    fn from(error: TruncateError) -> Self {
        let sentence = error.to_string();
        match error {
            TruncateError::Stopped(stopped) => stopped.into(),
            TruncateError::Disk(disk) => disk.into(),
            _ => Self::new(Exit::Io, sentence),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let sentence = error.to_string();
        match error {
            OpenError::Disk(error) => error.into(),
            OpenError::NameTaken { name, .. } => Self::usage(sentence).with("log", name.as_str()),
            OpenError::Missing(name) => Self::new(Exit::Io, sentence).with("log", name.as_str()),
            OpenError::Setting { field, .. } => Self::usage(sentence).with("field", field),
            OpenError::Foreign { path, .. } => {
                Self::new(Exit::Io, sentence).with("file", path_text(&path))
            }
            OpenError::Locked { path } => Self::new(Exit::Io, sentence)
                .and("; only one process at a time may append, truncate, delete or repair")
                .with("file", path_text(&path)),
            _ => Self::new(Exit::Io, sentence),
        }
    }
}

impl From<Limited> for Failure {
    fn from(limited: Limited) -> Self {
        let device = limited.device.as_ref().map(|dir| dir.display().to_string());
        let forecast = limited.forecast.map(|time| time.as_secs());
        Self::new(Exit::Limited, limited.to_string())
            .with("reason", limited.reason.name())
            .with("level", limited.level.name())
            .with("retry_after_ms", limited.retry_after_ms())
            .with("device", device)
            .with("free_bytes", limited.free)
            .with("threshold_bytes", limited.threshold)
            .with("hard_in_seconds", forecast)
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let sentence = error.to_string();
        let failure = match error {
            AppendError::Stopped(stopped) => stopped.into(),
            AppendError::Disk(disk) => Self::from(disk).within("not written: "),
            AppendError::RecordTooLarge { len, max, .. } => {
                Self::usage(sentence).with("bytes", len).with("max_bytes", max)
            }
            AppendError::HeadersTooLarge { .. } | AppendError::BatchTooLarge { .. } => {
                Self::usage(sentence)
            }
            _ => Self::new(Exit::Io, sentence),
        };
        failure.with("outcome", "not written")
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        let outcome = match error.outcome {
            Outcome::NotWritten => "not written",
            Outcome::Unknown => "unknown",
        };
        let failure = match error.reason {
            CommitFailure::Disk(disk) => disk.into(),
            CommitFailure::Stopped(stopped) => stopped.into(),
            other => Self::new(Exit::Io, other.to_string()),
        };
        failure.within(format_args!("{}: ", error.outcome)).with("outcome", outcome)
    }
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        let sentence = error.to_string();
        match error {
            PublishError::Limited(limited) => limited.into(),
            PublishError::Append(error) => error.into(),
            PublishError::Commit(error) => error.into(),
            _ => Self::new(Exit::Io, sentence),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let sentence = error.to_string();
        match error {
            ReadError::Damaged(damage) => damage.into(),
            ReadError::Stopped(stopped) => stopped.into(),
            ReadError::Disk(disk) => disk.into(),
            ReadError::Beyond { wanted, end } => {
                Self::new(Exit::Io, sentence).with("offset", wanted.0).with("end", end.0)
            }
            ReadError::Gone { wanted, next } => {
                Self::new(Exit::Io, sentence).with("offset", wanted.0).with("next", next.0)
            }
            _ => Self::new(Exit::Io, sentence),
        }
    }
}

impl From<LogNameError> for Failure {
    fn from(error: LogNameError) -> Self {
        Self::usage(error.to_string()).with("log", error.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll::{Level, LimitReason, WriteClass};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_refusal_for_pressure_is_75_with_its_reason_and_its_hint() {
        let (disk, hint) = (LimitReason::Disk, Duration::from_millis(1250));
        let limited = Limited::new(disk, WriteClass::Publish, Level::Hard, hint, "it is full");
        for failure in [Failure::from(limited.clone()), PublishError::from(limited).into()] {
            assert_eq!(failure.exit.code(), 75);
            assert_eq!(failure.exit.name(), "ERR_LIMITED");
            assert_eq!(
                failure.message(),
                "ERR_LIMITED: publish refused for disk: it is full; try again in 1250 ms"
            );
            assert_eq!(failure.fields["reason"], "disk");
            assert_eq!(failure.fields["retry_after_ms"], 1250);
        }
    }

    #[test]
    fn damage_is_1_wherever_it_comes_from() {
        let damage = Damage {
            file: "/data/logs/a/0.seg".into(),
            position: 8232,
            offset: Some(plimsoll::Offset(7)),
            detail: "field body CRC32".into(),
        };
        let stopped = Stopped::from(damage.clone());
        let failures = [
            Failure::from(damage.clone()),
            stopped.clone().into(),
            AppendError::from(stopped.clone()).into(),
            ReadError::from(damage).into(),
            CommitError { outcome: Outcome::NotWritten, reason: CommitFailure::Stopped(stopped) }
                .into(),
        ];
        for failure in failures {
            assert_eq!(failure.exit, Exit::Damage, "{}", failure.message());
            assert!(
                failure.message().contains("/data/logs/a/0.seg: damaged at byte 8232 (record 7)")
            );
            assert_eq!(
                (&failure.fields["position"], &failure.fields["offset"]),
                (&json!(8232), &json!(7))
            );
        }
    }

    #[test]
    fn what_else_stops_a_log_is_no_damage() {
        for stopped in [
            Stopped::ReadOnly(Arc::from("why")),
            Stopped::Failed(Arc::from("why")),
            Stopped::Closed,
        ] {
            assert_eq!(Failure::from(stopped).exit.code(), 3);
        }
    }

    #[test]
    fn a_reader_of_the_output_that_has_gone_is_not_worth_a_word() {
        assert!(Failure::output(&io::ErrorKind::BrokenPipe.into()).and("more").is_quiet());
        assert!(!Failure::output(&io::ErrorKind::StorageFull.into()).is_quiet());
    }
}
