//! What is to be done with each file of a log, and with the place where its last file stops: tables, no I/O.
//!
//! # Files
//!
//! The facts about a file are what its header says, whether it is *trailing* (no file after it is kept), whether a
//! valid record of its generation stands behind the header, and whether one of them, or a checkpoint, *claims* that
//! bytes of this file were durable.
//!
//! - **A** A newer release wrote it. Nothing is known of its rules: the log is refused and left alone.
//! - **B** The log's own. Kept, with records or without: an empty last file holds the log's next offset (I8).
//! - **C** The right base, but another log's identity. A header is one sector, so a crash leaves the old one or the new
//!   one; a file gets the header of the log whose directory it is in. Only a copy or a misdirected write makes this.
//! - **D** The header's checksum, magic or a field is wrong. The same reason: no crash tears a sector.
//! - **E** No header of this log, but a later file is kept. Files get their headers in the order of their bases, each
//!   durable before the next is written, so this one had a header and lost it.
//! - **F** Trailing and empty. The pool makes files whole before it gives them a name, so nothing of ours was ever in it:
//!   a roll of some other tool, or a file system that lost a length never synced. Removed.
//! - **G** Trailing, a header of zeroes and no record: the same.
//! - **H** Trailing, a header of zeroes, and records (an empty file cannot have them, but the table is total): the
//!   header was there and is lost.
//! - **I** Trailing, a spare. It was being taken at the crash: its name reached the disk, its header did not. Records
//!   behind it are those of a first commit that was never confirmed. Back to the pool.
//! - **J** Trailing, a spare, but vouched: a commit in it was confirmed, and that is done only after the header is
//!   durable. The header's write was lost.
//! - **K**, **L** The same for a header that names another base than the file's name. It decides before the identity
//!   does: a file given another name is not read as what the name says, whoever wrote it.
//! - **M** Trailing, not empty and shorter than a header. A file has its length, durable, before it has its name, so no
//!   crash makes it: it was cut, and with it went its records, and the log's next offset (I4, I8).
//!
//! # Tail
//!
//! *Stop* is the first position of a file without a valid record at the expected offset, whatever stands there [R]: a
//! crash can leave zeroes, an old generation, half a sector row, anything, and so can damage. What is beyond decides.

use crate::format::header::{Header, HeaderError};
use crate::types::{LogId, Offset};

/// What the header of a file says, seen from the log in whose directory the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFact {
    /// The file has no byte.
    Empty,
    /// The file is shorter than a header, but not empty.
    Short,
    /// All zeroes.
    Zero,
    /// Magic, checksum or a field is wrong.
    Bad,
    /// Of a newer layout.
    Newer,
    /// A spare.
    Spare,
    /// In use, with another base than the name says.
    OtherBase,
    /// In use, with the right base, by another log.
    OtherLog,
    /// This log's.
    Here,
}

impl HeaderFact {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 9] = [
        Self::Empty,
        Self::Short,
        Self::Zero,
        Self::Bad,
        Self::Newer,
        Self::Spare,
        Self::OtherBase,
        Self::OtherLog,
        Self::Here,
    ];

    /// The fact for a header, given the base in the file's name and the log's identity, where that is known.
    pub(crate) fn of(
        header: &Result<Header, HeaderError>,
        name: Offset,
        log: Option<LogId>,
    ) -> Self {
        let header = match header {
            Ok(header) => header,
            Err(HeaderError::Short(0)) => return Self::Empty,
            Err(HeaderError::Short(_)) => return Self::Short,
            Err(HeaderError::Zero) => return Self::Zero,
            Err(HeaderError::Newer(_)) => return Self::Newer,
            Err(HeaderError::Magic(_) | HeaderError::Crc { .. } | HeaderError::Field { .. }) => {
                return Self::Bad;
            }
        };
        match &header.in_use {
            None => Self::Spare,
            Some(in_use) if in_use.base != name => Self::OtherBase,
            Some(in_use) if log.is_some_and(|log| log != in_use.log) => Self::OtherLog,
            Some(_) => Self::Here,
        }
    }
}

/// What a file is, as far as it decides the file's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) header: HeaderFact,
    /// No file after it is kept.
    pub(crate) trailing: bool,
    /// A valid record of the file's generation stands behind the header.
    pub(crate) valid: bool,
    /// A record or a checkpoint of the file's generation says that bytes of this use of the file were durable.
    pub(crate) claims: bool,
}

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A segment of the log.
    Keep,
    /// Given up; the pool may use it again.
    BackToPool,
    /// Given up and deleted.
    Remove,
    /// Damage; nothing in the log is changed.
    Corrupt(&'static str),
    /// The log is refused and left alone.
    Refuse,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
enum Is {
    Yes,
    No,
    Any,
}

impl Is {
    const fn fits(self, fact: bool) -> bool {
        match self {
            Self::Yes => fact,
            Self::No => !fact,
            Self::Any => true,
        }
    }
}

struct Case {
    letter: char,
    headers: &'static [HeaderFact],
    trailing: Is,
    valid: Is,
    claims: Is,
    verdict: Verdict,
}

impl Case {
    fn fits(&self, facts: &FileFacts) -> bool {
        self.headers.contains(&facts.header)
            && self.trailing.fits(facts.trailing)
            && self.valid.fits(facts.valid)
            && self.claims.fits(facts.claims)
    }
}

const fn case(
    letter: char,
    headers: &'static [HeaderFact],
    [trailing, valid, claims]: [Is; 3],
    verdict: Verdict,
) -> Case {
    Case { letter, headers, trailing, valid, claims, verdict }
}

const FILE_CASES: &[Case] = {
    use HeaderFact::{Bad, Empty, Here, Newer, OtherBase, OtherLog, Short, Spare, Zero};
    use Is::{Any, No, Yes};
    use Verdict::{BackToPool, Corrupt, Keep, Refuse, Remove};
    &[
        //                                  trailing, valid, claims
        case('A', &[Newer], [Any, Any, Any], Refuse),
        case('B', &[Here], [Any, Any, Any], Keep),
        case('C', &[OtherLog], [Any, Any, Any], Corrupt("the header is another log's")),
        case('D', &[Bad], [Any, Any, Any], Corrupt("the header is not valid")),
        case(
            'E',
            &[Empty, Short, Zero, Spare, OtherBase],
            [No, Any, Any],
            Corrupt("a later file is not given up, so this one's header was durable and is lost"),
        ),
        case('F', &[Empty], [Yes, No, No], Remove),
        case('G', &[Zero], [Yes, No, No], Remove),
        case('H', &[Empty, Zero], [Yes, Yes, No], Corrupt("the header is lost, records are there")),
        case(
            'H',
            &[Empty, Zero],
            [Yes, Any, Yes],
            Corrupt("the header is lost, records are there"),
        ),
        case('I', &[Spare], [Yes, Any, No], BackToPool),
        case(
            'J',
            &[Spare],
            [Yes, Any, Yes],
            Corrupt(
                "a spare header before records that were confirmed: the header's write was lost",
            ),
        ),
        case('K', &[OtherBase], [Yes, Any, No], BackToPool),
        case(
            'L',
            &[OtherBase],
            [Yes, Any, Yes],
            Corrupt(
                "the header names another base than the file's name, and records were confirmed",
            ),
        ),
        case(
            'M',
            &[Short],
            [Yes, Any, Any],
            Corrupt("the file was cut: it had its full length before it had its name"),
        ),
    ]
};

/// The fate of a file, and the letter of the case.
pub(crate) fn file(facts: &FileFacts) -> (char, Verdict) {
    // The table is total, which a test shows by trying every combination; were it not, nothing would be touched.
    FILE_CASES
        .iter()
        .find(|case| case.fits(facts))
        .map_or(('?', Verdict::Corrupt("no case of the recovery table fits")), |case| {
            (case.letter, case.verdict)
        })
}

/// What reaches beyond Stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopFacts {
    /// The file's checkpoint.
    pub(crate) checkpoint: bool,
    /// The claim of a valid record within the window.
    pub(crate) claim: bool,
    /// The next segment's *previous end*.
    pub(crate) next_segment: bool,
}

/// What Stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopVerdict {
    /// The end of the log, or of the segment.
    End,
    /// Damage to bytes that were durable.
    Corrupt(&'static str),
}

struct StopCase {
    checkpoint: Is,
    claim: Is,
    next_segment: Is,
    verdict: StopVerdict,
}

const STOP_CASES: [StopCase; 4] = {
    use Is::{Any, No, Yes};
    use StopVerdict::{Corrupt, End};
    [
        // What a crash makes: nothing that was known durable is beyond it.
        StopCase { checkpoint: No, claim: No, next_segment: No, verdict: End },
        StopCase {
            checkpoint: Yes,
            claim: Any,
            next_segment: Any,
            verdict: Corrupt("the file's checkpoint says that bytes behind it were durable"),
        },
        StopCase {
            checkpoint: No,
            claim: Yes,
            next_segment: Any,
            verdict: Corrupt("a later record says that bytes behind it were durable"),
        },
        StopCase {
            checkpoint: No,
            claim: No,
            next_segment: Yes,
            verdict: Corrupt("the next segment says that this one reached further"),
        },
    ]
};

/// Whether Stop is the end or damage.
pub(crate) fn stop(facts: StopFacts) -> StopVerdict {
    let fits = |case: &&StopCase| {
        case.checkpoint.fits(facts.checkpoint)
            && case.claim.fits(facts.claim)
            && case.next_segment.fits(facts.next_segment)
    };
    STOP_CASES
        .iter()
        .find(fits)
        .map_or(StopVerdict::Corrupt("no case of the recovery table fits"), |case| case.verdict)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    fn every_file() -> impl Iterator<Item = FileFacts> {
        let flags = (0..8u8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0));
        HeaderFact::ALL.into_iter().flat_map(move |header| {
            flags.clone().map(move |(trailing, valid, claims)| FileFacts {
                header,
                trailing,
                valid,
                claims,
            })
        })
    }

    #[test]
    fn exactly_one_case_answers_for_every_file() {
        let mut seen = 0;
        for facts in every_file() {
            let fitting = FILE_CASES.iter().filter(|case| case.fits(&facts)).count();
            assert_eq!(fitting, 1, "{facts:?}");
            seen += 1;
        }
        assert_eq!(seen, 72);
        for letter in 'A'..='M' {
            let used = every_file().any(|facts| file(&facts).0 == letter);
            assert!(used, "case {letter} never answers");
        }
    }

    #[test]
    fn i4_nothing_vouched_and_nothing_in_the_middle_is_ever_given_up() {
        for facts in every_file() {
            let (letter, verdict) = file(&facts);
            let given_up = matches!(verdict, Verdict::BackToPool | Verdict::Remove);
            assert!(!given_up || !facts.claims, "{letter}: {facts:?}");
            assert!(!given_up || facts.trailing, "{letter}: {facts:?}");
            // A file whose header does not say so is never read as the log's own.
            assert_eq!(verdict == Verdict::Keep, facts.header == HeaderFact::Here);
            // Deleting is for what holds no record at all.
            assert!(!(verdict == Verdict::Remove && facts.valid), "{letter}: {facts:?}");
            // A file with a length below a header's was cut.
            let short = facts.header == HeaderFact::Short;
            assert!(!short || matches!(verdict, Verdict::Corrupt(_)), "{letter}: {facts:?}");
        }
    }

    #[test]
    fn exactly_one_case_answers_for_every_stop() {
        for bits in 0..8u8 {
            let facts = StopFacts {
                checkpoint: bits & 1 != 0,
                claim: bits & 2 != 0,
                next_segment: bits & 4 != 0,
            };
            let fitting = STOP_CASES.iter().filter(|case| {
                case.checkpoint.fits(facts.checkpoint)
                    && case.claim.fits(facts.claim)
                    && case.next_segment.fits(facts.next_segment)
            });
            assert_eq!(fitting.count(), 1, "{facts:?}");
            assert_eq!(stop(facts) == StopVerdict::End, bits == 0, "{facts:?}");
        }
    }

    #[test]
    fn a_base_that_differs_wins_over_a_foreign_identity() {
        use crate::format::header::{InUse, Origin};
        use crate::types::{Generation, SizeClass};
        let header = |base, log| {
            Ok(Header {
                generation: Generation::FIRST,
                class: SizeClass::Tiny,
                capacity: 65536,
                created_millis: 0,
                in_use: Some(InUse {
                    log: LogId([log; 16]),
                    base: Offset(base),
                    previous_end: Offset(base),
                    previous_millis: 0,
                    origin: Origin::Roll,
                }),
            })
        };
        let of = |base, log| HeaderFact::of(&header(base, log), Offset(7), Some(LogId([1; 16])));
        assert_eq!(of(7, 1), HeaderFact::Here);
        assert_eq!(of(7, 2), HeaderFact::OtherLog);
        assert_eq!(of(8, 1), HeaderFact::OtherBase);
        assert_eq!(of(8, 2), HeaderFact::OtherBase);
    }
}
