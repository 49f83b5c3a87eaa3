//! Names that users give. They are never part of a path: directories are named by [`QueueId`](crate::api::QueueId).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The most bytes of a name.
const NAME_MAX: usize = 255;

/// A queue's name: 1 to 255 bytes of UTF-8 without control characters, not `.` or `..`. Compared byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

/// A name that cannot be one, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} cannot be a {what}'s name: {reason}")]
pub struct BadName {
    /// What was asked for, shortened.
    pub name: String,
    /// What it was to name.
    pub what: &'static str,
    /// Which rule it breaks.
    pub reason: &'static str,
}

fn check(what: &'static str, name: &str) -> Result<Arc<str>, BadName> {
    let refuse = |reason| {
        let name = name.chars().take(80).collect();
        Err(BadName { name, what, reason })
    };
    if name.is_empty() {
        return refuse("it is empty");
    }
    if name.len() > NAME_MAX {
        return refuse("it is longer than 255 bytes");
    }
    if name.chars().any(char::is_control) {
        return refuse("it has a control character");
    }
    if matches!(name, "." | "..") {
        return refuse("it would be a directory");
    }
    Ok(name.into())
}

impl QueueName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadName`] says which rule it breaks.
    pub fn new(name: &str) -> Result<Self, BadName> {
        Ok(Self(check("queue", name)?))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// As text they are equal, ordered and hashed the same: a map of names can be asked for a range of texts.
impl Borrow<str> for QueueName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A consumer's name, given by itself: for looking at who holds what. Same rule as queues.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerName(Arc<str>);

impl ConsumerName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadName`] says which rule it breaks.
    pub fn new(name: &str) -> Result<Self, BadName> {
        Ok(Self(check("consumer", name)?))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConsumerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
