//! See [`ROUTES`].

use super::{Content, Endpoint, Field, Route, SchemaOf, Success, Verb};
use crate::api::{Deleted, FaultKind, Paused, Purged, QueueSettings};
use crate::http::error::Code;
use crate::http::node_view::NodeGive;
use crate::http::wire::{
    AttentionGive, ConsumersGive, DeclaredGive, ExplainedGive, ExtendAsk, LineIn, LinesGive,
    MessagesGive, PurgeAsk, QueueGive, QueuesGive, ReceiveAsk, ReceivedGive, ResultsGive,
    SettleAsk, StoredGive,
};
use crate::http::{limits, wire};

const fn field(name: &'static str, meaning: &'static str) -> Field {
    Field { name, meaning, number: false }
}

const fn number(name: &'static str, meaning: &'static str) -> Field {
    Field { name, meaning, number: true }
}

const fn json(schema: SchemaOf) -> Content {
    Content { media: "application/json", schema: Some(schema) }
}

const TEXT: Content = Content { media: "text/plain", schema: None };
const ETAG: Field = field("ETag", "The revision, in quotation marks.");
const RETRY_AFTER: Field = number("Retry-After", "Seconds to wait, at least 1.");
const IF_MATCH: Field =
    field("If-Match", "The revision that the queue must have: as in `ETag`, or as a bare number.");

const fn ok(meaning: &'static str, content: Content) -> Success {
    Success { status: 200, meaning, content, headers: &[] }
}

const NO_HEADERS: &[Field] = &[];
const NO_QUERY: &[Field] = &[];
const NO_BODY: &[Content] = &[];
const GONE: &[Code] = &[Code::Gone, Code::ReceiptForeign, Code::Fault(FaultKind::Unknown)];
const SETTLE: &[Content] = &[json(|schemas| schemas.subschema_for::<SettleAsk>())];
const SETTLED: &[Success] = &[ok(
    "What became of each receipt; of a single one as `result`.",
    json(|schemas| {
        let all = schemas.subschema_for::<ResultsGive>();
        let one = schemas.subschema_for::<wire::ResultGive>();
        schemars::json_schema!({ "oneOf": [all, one] })
    }),
)];
const PAUSED: &[Success] =
    &[ok("How it is now.", json(|schemas| schemas.subschema_for::<Paused>()))];

const fn settle(path: &'static str, endpoint: Endpoint, summary: &'static str) -> Route {
    Route {
        method: Verb::Post,
        path,
        endpoint,
        summary,
        query: NO_QUERY,
        headers: NO_HEADERS,
        body: SETTLE,
        successes: SETTLED,
        errors: GONE,
    }
}

const fn get(
    path: &'static str,
    endpoint: Endpoint,
    summary: &'static str,
    query: &'static [Field],
    successes: &'static [Success],
) -> Route {
    let (headers, body, errors) = (NO_HEADERS, NO_BODY, &[]);
    let method = Verb::Get;
    Route { method, path, endpoint, summary, query, headers, body, successes, errors }
}

/// All routes.
pub(in crate::http) static ROUTES: &[Route] = &[
    get(
        "/",
        Endpoint::Index,
        "A short page: what this is, and where to go on.",
        NO_QUERY,
        &[ok("The page.", TEXT)],
    ),
    get(
        "/healthz",
        Endpoint::Health,
        "The process answers. Looks at nothing and waits for nothing.",
        NO_QUERY,
        &[ok("`ok`.", TEXT)],
    ),
    Route {
        errors: &[Code::Fault(FaultKind::Unavailable)],
        ..get(
            "/readyz",
            Endpoint::Ready,
            "The broker takes work. Pressure does not count: at every level there is work that it takes.",
            NO_QUERY,
            &[ok("`ready`.", TEXT)],
        )
    },
    get(
        "/metrics",
        Endpoint::Metrics,
        "Numbers for Prometheus.",
        NO_QUERY,
        &[ok("Text format 0.0.4.", TEXT)],
    ),
    get(
        "/openapi.json",
        Endpoint::OpenApi,
        "This document.",
        NO_QUERY,
        &[ok("OpenAPI 3.1.", json(|_| schemars::json_schema!({ "type": "object" })))],
    ),
    get(
        "/api/v1/queue",
        Endpoint::Queues,
        "Lists queues by name, byte for byte.",
        &[
            field("after", "Begin after this name."),
            number("limit", "At most so many, 1 to 1000; 100 by default."),
        ],
        &[ok("Queues.", json(|schemas| schemas.subschema_for::<QueuesGive>()))],
    ),
    Route {
        method: Verb::Put,
        path: "/api/v1/queue/{queue}",
        endpoint: Endpoint::Declare,
        summary: "Declares a queue. Fields that are left out have their defaults, and so has a missing body.",
        query: NO_QUERY,
        headers: &[IF_MATCH],
        body: &[json(|schemas| schemas.subschema_for::<QueueSettings>())],
        successes: &[
            Success {
                status: 200,
                meaning: "It is there with these settings; with `If-Match` they may have been changed.",
                content: json(|schemas| schemas.subschema_for::<DeclaredGive>()),
                headers: &[ETAG],
            },
            Success {
                status: 201,
                meaning: "There is a new queue.",
                content: json(|schemas| schemas.subschema_for::<DeclaredGive>()),
                headers: &[ETAG],
            },
        ],
        errors: &[
            Code::Fault(FaultKind::OtherSettings),
            Code::Fault(FaultKind::OtherRevision),
            Code::Fault(FaultKind::Unknown),
        ],
    },
    get(
        "/api/v1/queue/{queue}",
        Endpoint::Show,
        "Shows a queue.",
        NO_QUERY,
        &[Success {
            status: 200,
            meaning: "The queue.",
            content: json(|schemas| schemas.subschema_for::<QueueGive>()),
            headers: &[ETAG],
        }],
    ),
    Route {
        method: Verb::Delete,
        path: "/api/v1/queue/{queue}",
        endpoint: Endpoint::Delete,
        summary: "Deletes a queue with all that it holds.",
        query: NO_QUERY,
        headers: &[IF_MATCH],
        body: NO_BODY,
        successes: &[ok(
            "It is gone; what it held.",
            json(|schemas| schemas.subschema_for::<Deleted>()),
        )],
        errors: &[Code::Fault(FaultKind::OtherRevision), Code::Fault(FaultKind::Unknown)],
    },
    Route {
        method: Verb::Post,
        path: "/api/v1/queue/{queue}/messages",
        endpoint: Endpoint::Publish,
        summary: "Publishes the body as one message; with `Content-Type: application/x-ndjson` each line as one, at most \
                  1,000 lines and 4 MiB.",
        query: NO_QUERY,
        headers: &[
            field("Content-Type", "Of one payload: kept, and given back as it came."),
            field(
                "Idempotency-Key",
                "Of one payload: 1 to 255 bytes; the same key and content within 5 minutes is stored once.",
            ),
            field("Plimsoll-Correlation-Id", "Of one payload: kept, and given back as it came."),
            field("Plimsoll-Headers", "Of one payload: a JSON object of strings."),
        ],
        body: &[
            Content { media: "*/*", schema: None },
            Content {
                media: "application/x-ndjson",
                schema: Some(|schemas| schemas.subschema_for::<LineIn>()),
            },
        ],
        successes: &[
            Success {
                status: 200,
                meaning: "One payload: it was stored before. Lines: all are stored.",
                content: json(|schemas| {
                    let one = schemas.subschema_for::<StoredGive>();
                    let lines = schemas.subschema_for::<LinesGive>();
                    schemars::json_schema!({ "oneOf": [one, lines] })
                }),
                headers: &[],
            },
            Success {
                status: 201,
                meaning: "One payload: it is stored and synced.",
                content: json(|schemas| schemas.subschema_for::<StoredGive>()),
                headers: &[],
            },
            Success {
                status: 207,
                meaning: "Lines: not all ended alike, see `results`.",
                content: json(|schemas| schemas.subschema_for::<LinesGive>()),
                headers: &[RETRY_AFTER],
            },
        ],
        errors: &[
            Code::Fault(FaultKind::KeyReused),
            Code::Fault(FaultKind::PayloadTooLarge),
            Code::Fault(FaultKind::HeadersTooLarge),
            Code::Fault(FaultKind::Limited),
            Code::Fault(FaultKind::Full),
            Code::Fault(FaultKind::Unknown),
            Code::Connections,
        ],
    },
    get(
        "/api/v1/queue/{queue}/messages",
        Endpoint::Peek,
        "Shows ready messages in the order of delivery, without leasing them.",
        &[number("max", "At most so many, 1 to 32; 1 by default.")],
        &[ok("Messages.", json(|schemas| schemas.subschema_for::<MessagesGive<'static>>()))],
    ),
    Route {
        method: Verb::Post,
        path: "/api/v1/queue/{queue}/receive",
        endpoint: Endpoint::Receive,
        summary: "Leases messages, and waits for them if asked to. A client that leaves gets nothing leased.",
        query: NO_QUERY,
        headers: NO_HEADERS,
        body: &[json(|schemas| schemas.subschema_for::<ReceiveAsk>())],
        successes: &[ok(
            "Messages, or why there is none.",
            json(|schemas| schemas.subschema_for::<ReceivedGive<'static>>()),
        )],
        errors: &[Code::Fault(FaultKind::Unknown)],
    },
    settle(
        "/api/v1/queue/{queue}/ack",
        Endpoint::Ack,
        "Finishes deliveries: their messages go for good.",
    ),
    settle(
        "/api/v1/queue/{queue}/nack",
        Endpoint::Nack,
        "Gives deliveries back: their messages are delivered again, before newer ones, or are dead after their last attempt.",
    ),
    settle(
        "/api/v1/queue/{queue}/reject",
        Endpoint::Reject,
        "Rejects deliveries: their messages are dead at once.",
    ),
    Route {
        body: &[json(|schemas| schemas.subschema_for::<ExtendAsk>())],
        ..settle(
            "/api/v1/queue/{queue}/extend",
            Endpoint::Extend,
            "Lets leases run longer, from now.",
        )
    },
    Route {
        method: Verb::Post,
        path: "/api/v1/queue/{queue}/purge",
        endpoint: Endpoint::Purge,
        summary: "Deletes ready messages, those that are to be delivered again included, and dead ones if asked; what is in \
                  flight stays.",
        query: NO_QUERY,
        headers: NO_HEADERS,
        body: &[json(|schemas| schemas.subschema_for::<PurgeAsk>())],
        successes: &[ok(
            "What went and what stays.",
            json(|schemas| schemas.subschema_for::<Purged>()),
        )],
        errors: &[Code::Fault(FaultKind::Unknown)],
    },
    Route {
        method: Verb::Post,
        path: "/api/v1/queue/{queue}/pause",
        endpoint: Endpoint::Pause,
        summary: "Stops delivery; publishes and acknowledgements go on. Survives a restart.",
        query: NO_QUERY,
        headers: NO_HEADERS,
        body: NO_BODY,
        successes: PAUSED,
        errors: &[Code::Fault(FaultKind::Unknown)],
    },
    Route {
        method: Verb::Post,
        path: "/api/v1/queue/{queue}/resume",
        endpoint: Endpoint::Resume,
        summary: "Lets delivery go on.",
        query: NO_QUERY,
        headers: NO_HEADERS,
        body: NO_BODY,
        successes: PAUSED,
        errors: &[Code::Fault(FaultKind::Unknown)],
    },
    get(
        "/api/v1/queue/{queue}/explain",
        Endpoint::Explain,
        "Says why publishers and receivers of a queue wait, and when that may end.",
        NO_QUERY,
        &[ok("Reasons.", json(|schemas| schemas.subschema_for::<ExplainedGive>()))],
    ),
    get(
        "/api/v1/queue/{queue}/consumers",
        Endpoint::Consumers,
        "Shows who received lately, at most 1,000.",
        NO_QUERY,
        &[ok("Consumers.", json(|schemas| schemas.subschema_for::<ConsumersGive>()))],
    ),
    get(
        "/api/v1/node",
        Endpoint::Node,
        "Shows the broker: levels, space and memory of each data directory, and what it did since its start.",
        NO_QUERY,
        &[ok("The node.", json(|schemas| schemas.subschema_for::<NodeGive>()))],
    ),
    get(
        "/api/v1/limits",
        Endpoint::Limits,
        "Shows the limits in force.",
        NO_QUERY,
        &[ok("All limits.", json(limits::schema))],
    ),
    Route {
        method: Verb::Patch,
        path: "/api/v1/limits",
        endpoint: Endpoint::SetLimits,
        summary: "Changes limits of all data directories at once, until the next start: a JSON merge patch (RFC 7396), in \
                  which null is the default. `memory.limit` cannot be changed.",
        query: NO_QUERY,
        headers: NO_HEADERS,
        body: &[json(limits::schema)],
        successes: &[ok("All limits, as they are now.", json(limits::schema))],
        errors: &[],
    },
    get(
        "/api/v1/attention",
        Endpoint::Attention,
        "Shows what an operator should know now: each disk, and the memory, at level soft or above.",
        NO_QUERY,
        &[ok("Items.", json(|schemas| schemas.subschema_for::<AttentionGive>()))],
    ),
];
