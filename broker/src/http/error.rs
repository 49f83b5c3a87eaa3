//! Whatever goes wrong, as it is answered.

use crate::api::{Fault, FaultKind, Full};
use http::StatusCode;
use plimsoll::{Level, LimitReason, Limited, WriteClass};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// What programs go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Code {
    /// Said by the broker.
    Fault(FaultKind),
    /// No such path.
    NotFound,
    /// The path has other methods.
    MethodNotAllowed,
    /// None, several or an unreadable `Host`.
    BadHost,
    /// A `Host` that is not this server's.
    Misdirected,
    /// A page of somebody else asked a browser to change something.
    ForeignOrigin,
    /// A body over its limit, no payload.
    BodyTooLarge,
    /// A body that came too slowly.
    BodyTooSlow,
    /// A body in an encoding that would be lost.
    Encoding,
    /// The delivery is another's by now.
    Gone,
    /// No receipt of this queue.
    ReceiptForeign,
    /// This connection is one of those that are kept for acks and administration.
    Connections,
    /// A mistake in the server.
    Internal,
}

impl Code {
    /// All of them, for the documents.
    pub(super) const ALL: [Self; 24] = [
        Self::Fault(FaultKind::Name),
        Self::Fault(FaultKind::Invalid),
        Self::Fault(FaultKind::NoQueue),
        Self::Fault(FaultKind::OtherSettings),
        Self::Fault(FaultKind::OtherRevision),
        Self::Fault(FaultKind::KeyReused),
        Self::Fault(FaultKind::PayloadTooLarge),
        Self::Fault(FaultKind::HeadersTooLarge),
        Self::Fault(FaultKind::Limited),
        Self::Fault(FaultKind::Full),
        Self::Fault(FaultKind::Unavailable),
        Self::Fault(FaultKind::Unknown),
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::BadHost,
        Self::Misdirected,
        Self::ForeignOrigin,
        Self::BodyTooLarge,
        Self::BodyTooSlow,
        Self::Encoding,
        Self::Gone,
        Self::ReceiptForeign,
        Self::Connections,
        Self::Internal,
    ];

    /// The name as it goes over the wire.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Fault(kind) => kind.code(),
            Self::NotFound => "NOT_FOUND",
            Self::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Self::BadHost => "BAD_HOST",
            Self::Misdirected => "MISDIRECTED",
            Self::ForeignOrigin => "FOREIGN_ORIGIN",
            Self::BodyTooLarge => "BODY_TOO_LARGE",
            Self::BodyTooSlow => "BODY_TOO_SLOW",
            Self::Encoding => "UNSUPPORTED_ENCODING",
            Self::Gone => "GONE",
            Self::ReceiptForeign => "RECEIPT_FOREIGN",
            Self::Connections => "CONNECTIONS_KEPT",
            Self::Internal => "ERR_INTERNAL",
        }
    }

    /// The status.
    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Fault(kind) => kind.status(),
            Self::BadHost => 400,
            Self::ForeignOrigin => 403,
            Self::NotFound | Self::ReceiptForeign => 404,
            Self::MethodNotAllowed => 405,
            Self::BodyTooSlow => 408,
            Self::Gone => 410,
            Self::BodyTooLarge => 413,
            Self::Encoding => 415,
            Self::Misdirected => 421,
            Self::Internal => 500,
            Self::Connections => 503,
        }
    }

    /// What it means, and what to do.
    pub(super) const fn meaning(self) -> &'static str {
        match self {
            Self::Fault(kind) => match kind {
                FaultKind::Name => {
                    "A name that cannot be one: 1 to 255 bytes of UTF-8 without control characters, not `.` or `..`."
                }
                FaultKind::Invalid => {
                    "The request makes no sense; the message says where. Nothing was done."
                }
                FaultKind::NoQueue => "There is no such queue.",
                FaultKind::OtherSettings => {
                    "The queue is declared with other settings; to change them, send its revision as `If-Match`."
                }
                FaultKind::OtherRevision => "`If-Match` names another revision than the queue has.",
                FaultKind::KeyReused => {
                    "The idempotency key was used for other content within its window."
                }
                FaultKind::PayloadTooLarge => {
                    "A payload has more than 262,144 bytes. Nothing was stored."
                }
                FaultKind::HeadersTooLarge => {
                    "A message's headers, content type, correlation id and key have more than 4,096 bytes together. Nothing was stored."
                }
                FaultKind::Limited => {
                    "Refused for disk or memory (`reason`). Nothing was stored; try again after `retry_after_ms`."
                }
                FaultKind::Full => {
                    "Refused because the queue is full. Nothing was stored; try again after `retry_after_ms`."
                }
                FaultKind::Unavailable => {
                    "Not done: the storage cannot, or the broker is starting or stopping. Nothing was applied."
                }
                FaultKind::Unknown => "It is not known whether this was done.",
            },
            Self::NotFound => "There is nothing at this path.",
            Self::MethodNotAllowed => "The path has other methods; `Allow` lists them.",
            Self::BadHost => "`Host` is missing, comes twice or cannot be read.",
            Self::Misdirected => "`Host` is no name of this server.",
            Self::ForeignOrigin => "A page of another origin may change nothing.",
            Self::BodyTooLarge => "The body is longer than this route takes. Nothing was done.",
            Self::BodyTooSlow => {
                "The body came too slowly, and the connection is closed. Nothing was done."
            }
            Self::Encoding => "`Content-Encoding` is not supported. Nothing was done.",
            Self::Gone => "The message was delivered again since, or is finished in another way.",
            Self::ReceiptForeign => "This is no receipt of this queue.",
            Self::Connections => {
                "So many connections are open that this one is kept for everything but publishes. Nothing was stored."
            }
            Self::Internal => "A mistake in the server. A change may have been made or not.",
        }
    }
}

/// What a refusal says beside the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: LimitReason,
    pub(super) retry_after: Duration,
}

/// An answer that something was not done, or perhaps not.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) refusal: Option<Refusal>,
    pub(super) details: Option<Value>,
    /// The methods that there are, for 405.
    pub(super) allow: Option<String>,
}

/// The body of every answer that is no success.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(super) struct ProblemBody {
    /// What programs go by.
    pub(super) code: &'static str,
    /// `ERR_LIMITED` for every refusal that ends by itself (429).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<&'static str>,
    /// Of a refusal: `disk`, `memory` or `queue_full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
    /// A sentence for people.
    pub(super) message: String,
    /// The same as the header `X-Request-Id`.
    pub(super) request_id: String,
    /// Of a refusal: when to try again, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_after_ms: Option<u64>,
    /// Of a refusal for disk or memory: `level`, `free`, `threshold`, `device`; of a full queue: `queue`, `depth`, `limit`,
    /// `setting`; of a conflict: `queue`, `revision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Value>,
}

impl Refusal {
    fn as_limited(self) -> Limited {
        Limited::new(self.reason, WriteClass::Publish, Level::Hard, self.retry_after, "")
    }

    /// Rounded up, never 0.
    pub(super) fn millis(self) -> u64 {
        self.as_limited().retry_after_ms()
    }

    /// Rounded up, never 0.
    pub(super) fn seconds(self) -> u64 {
        self.as_limited().retry_after_secs()
    }
}

impl Problem {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), refusal: None, details: None, allow: None }
    }

    /// A request that makes no sense.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::Fault(FaultKind::Invalid), message)
    }

    /// The broker is on its way out.
    pub(super) fn stopping() -> Self {
        Self::new(Code::Fault(FaultKind::Unavailable), "the broker is stopping")
    }

    /// The budget of bodies is used up.
    pub(super) fn no_memory(free: u64, wanted: u64) -> Self {
        let detail = format!("bodies of requests have {free} bytes left, this one needs {wanted}");
        let (reason, class) = (LimitReason::Memory, WriteClass::Publish);
        let mut limited = Limited::new(reason, class, Level::Hard, Duration::from_secs(1), detail);
        (limited.free, limited.threshold) = (Some(free), Some(wanted));
        Fault::Limited(limited).into()
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(super) fn body(&self, request_id: &str) -> ProblemBody {
        ProblemBody {
            code: self.code.name(),
            error: self.refusal.map(|_| Limited::CODE),
            reason: self.refusal.map(|refusal| refusal.reason.name()),
            message: self.message.clone(),
            request_id: request_id.to_owned(),
            retry_after_ms: self.refusal.map(Refusal::millis),
            details: self.details.clone(),
        }
    }
}

fn details(fault: &Fault) -> Option<Value> {
    Some(match fault {
        Fault::Limited(limited) => json!({
            "level": limited.level.name(),
            "free": limited.free,
            "threshold": limited.threshold,
            "device": limited.device.as_ref().map(|dir| dir.display().to_string()),
        }),
        Fault::Full(full) => {
            let Full { queue, limit, depth, max, .. } = &**full;
            json!({ "queue": queue.as_str(), "depth": depth, "limit": max, "setting": limit })
        }
        Fault::OtherSettings { queue, revision } | Fault::OtherRevision { queue, revision } => {
            json!({ "queue": queue.as_str(), "revision": revision })
        }
        Fault::KeyReused(seq) => json!({ "id": seq.to_string() }),
        Fault::PayloadTooLarge { len, max } | Fault::HeadersTooLarge { len, max } => {
            json!({ "bytes": len, "max": max })
        }
        _ => return None,
    })
}

impl From<&Fault> for Problem {
    fn from(fault: &Fault) -> Self {
        let refusal = match fault {
            Fault::Limited(Limited { reason, retry_after, .. }) => {
                Some(Refusal { reason: *reason, retry_after: *retry_after })
            }
            Fault::Full(full) => {
                let (reason, retry_after) = (LimitReason::QueueFull, full.retry_after);
                Some(Refusal { reason, retry_after })
            }
            _ => None,
        };
        let (code, details) = (Code::Fault(fault.kind()), details(fault));
        Self { code, message: fault.to_string(), refusal, details, allow: None }
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Self::from(&fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Seq;
    use crate::name::QueueName;

    #[test]
    fn a_refusal_has_all_its_fields_and_a_hint_that_is_never_nothing() {
        let hint = Duration::from_millis(1_200);
        let (class, level) = (WriteClass::Publish, Level::Hard);
        let mut limited = Limited::new(LimitReason::Disk, class, level, hint, "it is full");
        (limited.free, limited.threshold) = (Some(5), Some(7));
        limited.device = Some("/data".into());
        let problem = Problem::from(Fault::Limited(limited));
        assert_eq!(problem.status(), 429);
        assert_eq!(problem.refusal.map(Refusal::seconds), Some(2));
        let body = serde_json::to_value(problem.body("r1")).unwrap();
        let message = "ERR_LIMITED: publish refused for disk: it is full; try again in 1200 ms";
        let details = json!({ "level": "hard", "free": 5, "threshold": 7, "device": "/data" });
        let whole = json!({
            "code": "ERR_LIMITED", "error": "ERR_LIMITED", "reason": "disk", "message": message,
            "request_id": "r1", "retry_after_ms": 1200, "details": details,
        });
        assert_eq!(body, whole);
    }

    #[test]
    fn a_full_queue_says_how_full_and_when_to_come_back() {
        let full = Full {
            queue: QueueName::new("jobs").unwrap(),
            limit: "max_queue_depth",
            depth: 12,
            max: 10,
            retry_after: Duration::from_secs(5),
        };
        let problem = Problem::from(Fault::Full(Box::new(full)));
        let body = serde_json::to_value(problem.body("r1")).unwrap();
        assert_eq!((&body["code"], &body["reason"]), (&json!("QUEUE_FULL"), &json!("queue_full")));
        let details =
            json!({ "queue": "jobs", "depth": 12, "limit": 10, "setting": "max_queue_depth" });
        assert_eq!(body["details"], details);
        assert_eq!(problem.refusal.map(Refusal::seconds), Some(5));
    }

    #[test]
    fn what_is_no_refusal_has_no_hint() {
        let body = serde_json::to_value(Problem::from(Fault::KeyReused(Seq(7))).body("r")).unwrap();
        for field in ["error", "reason", "retry_after_ms"] {
            assert!(body.get(field).is_none(), "{field}");
        }
    }

    #[test]
    fn codes_are_told_apart_by_name() {
        let mut names = Code::ALL.map(Code::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!(StatusCode::from_u16(code.status()).is_ok_and(|status| status.as_u16() >= 400));
        }
    }
}
