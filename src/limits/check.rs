//! Which limits make sense together.

use super::{DiskLimits, InodeLimits, Limits, MemoryLimits, PoolLimits, RetryLimits, Size};
use crate::permit::PERMIT_LIFE;
use crate::types::Fraction;
use std::time::Duration;

/// A limit that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct LimitsError {
    /// The field, by its path: `limits.disk.hard.share`.
    pub field: &'static str,
    /// What it is, and what is allowed.
    pub reason: String,
}

type Checked = Result<(), LimitsError>;

/// The longest time that makes sense for any of the durations.
const LONGEST: Duration = Duration::from_secs(3600);
const WHOLE: Fraction = Fraction::percent(100);
const NOTHING: Fraction = Fraction::percent(0);

fn refuse(field: &'static str, reason: String) -> Checked {
    Err(LimitsError { field, reason })
}

/// A share that may be none.
fn share(field: &'static str, share: Fraction) -> Checked {
    if share > WHOLE {
        return refuse(field, format!("is {share}; 100% at most"));
    }
    Ok(())
}

/// A share that may not be none.
fn some(field: &'static str, of: Fraction) -> Checked {
    share(field, of)?;
    if of == NOTHING {
        return refuse(field, "is 0%; more than 0% and at most 100%".into());
    }
    Ok(())
}

/// `lower` must be less than `upper`: a level between two equal lines would be jumped over.
fn below(
    (field, lower): (&'static str, Fraction),
    (above, upper): (&'static str, Fraction),
) -> Checked {
    if lower >= upper {
        return refuse(
            field,
            format!("is {lower}; it must be less than {above}, which is {upper}"),
        );
    }
    Ok(())
}

/// The same for floors, where both may be 0: the shares alone count then.
fn floors((field, lower): (&'static str, Size), (above, upper): (&'static str, Size)) -> Checked {
    if lower >= upper && upper > Size(0) || lower > upper {
        return refuse(
            field,
            format!("is {lower}; it must be less than {above}, which is {upper} (or both 0B)"),
        );
    }
    Ok(())
}

fn disk(disk: &DiskLimits) -> Checked {
    let soft = ("limits.disk.soft.share", disk.soft.share);
    let hard = ("limits.disk.hard.share", disk.hard.share);
    let reserve = ("limits.disk.reserve.share", disk.reserve.share);
    let clear = ("limits.disk.clear", disk.clear);
    for (field, value) in [soft, hard, reserve, clear] {
        some(field, value)?;
    }
    below(hard, soft)?;
    below(reserve, hard)?;
    if disk.soft.share.plus(disk.clear) >= WHOLE {
        let reason =
            format!("is {}; with limits.disk.soft.share it must be less than 100%", disk.clear);
        return refuse(clear.0, reason);
    }
    floors(
        ("limits.disk.hard.floor", disk.hard.floor),
        ("limits.disk.soft.floor", disk.soft.floor),
    )?;
    floors(
        ("limits.disk.reserve.floor", disk.reserve.floor),
        ("limits.disk.hard.floor", disk.hard.floor),
    )
}

fn inodes(inodes: &InodeLimits) -> Checked {
    let soft = ("limits.inodes.soft", inodes.soft);
    let hard = ("limits.inodes.hard", inodes.hard);
    let reserve = ("limits.inodes.reserve", inodes.reserve);
    for (field, value) in [soft, hard, reserve] {
        some(field, value)?;
    }
    if inodes.soft == WHOLE {
        return refuse(soft.0, "is 100%; less than 100%, or it would never end".into());
    }
    below(hard, soft)?;
    below(reserve, hard)
}

fn time(field: &'static str, time: Duration) -> Checked {
    if time.is_zero() || time > LONGEST {
        let time = humantime::format_duration(time);
        return refuse(field, format!("is {time}; more than 0s and at most 1h"));
    }
    Ok(())
}

fn memory(memory: &MemoryLimits) -> Checked {
    if memory.limit == Some(Size(0)) {
        return refuse("limits.memory.limit", "is 0B; more than that, or left out".into());
    }
    let soft = ("limits.memory.soft", memory.soft);
    let hard = ("limits.memory.hard", memory.hard);
    let clear = ("limits.memory.clear", memory.clear);
    for (field, value) in [soft, hard, clear] {
        some(field, value)?;
    }
    below(soft, hard)?;
    // Or use could never be so low.
    below(clear, soft)?;
    time("limits.memory.hold", memory.hold)
}

fn retry(retry: &RetryLimits) -> Checked {
    time("limits.retry.first", retry.first)?;
    time("limits.retry.max", retry.max)?;
    if retry.max < retry.first {
        let [max, first] = [retry.max, retry.first].map(humantime::format_duration);
        let reason = format!("is {max}; at least limits.retry.first, which is {first}");
        return refuse("limits.retry.max", reason);
    }
    Ok(())
}

fn pool(pool: &PoolLimits) -> Checked {
    share("limits.pool.budget", pool.budget)?;
    share("limits.pool.kept_back_share", pool.kept_back_share)
}

impl Limits {
    /// Holds all fields against what is allowed and against each other.
    ///
    /// # Errors
    /// The first field that is refused, and what is allowed.
    pub fn check(&self) -> Result<(), LimitsError> {
        disk(&self.disk)?;
        inodes(&self.inodes)?;
        memory(&self.memory)?;
        // A delayed permit must still be good when its delay is over.
        if self.slow.max_delay >= PERMIT_LIFE {
            let [delay, life] = [self.slow.max_delay, PERMIT_LIFE].map(humantime::format_duration);
            let reason = format!("is {delay}; less than {life}, which is how long a permit lives");
            return refuse("limits.slow.max_delay", reason);
        }
        retry(&self.retry)?;
        pool(&self.pool)
    }

    /// Checks limits that are to take the place of these in a running node.
    ///
    /// # Errors
    /// As [`Limits::check`], and where a field differs that is read at the start only.
    pub fn changed_live(&self, new: &Self) -> Result<(), LimitsError> {
        new.check()?;
        if new.memory.limit != self.memory.limit {
            let reason = "is read at the start only; restart to change it".into();
            return refuse("limits.memory.limit", reason);
        }
        Ok(())
    }
}
