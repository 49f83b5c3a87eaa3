//! The table of routes. The router, the documents and the tests are made from it.

mod table;

use super::error::Code;
use super::path;
use http::Method;
use schemars::{Schema, SchemaGenerator};

pub(super) use table::ROUTES;

/// The methods that there are; [`http::Method`] cannot stand in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Put,
    Post,
    Patch,
    Delete,
}

impl Verb {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    Index,
    Health,
    Ready,
    Metrics,
    OpenApi,
    Queues,
    Declare,
    Show,
    Delete,
    Publish,
    Peek,
    Receive,
    Ack,
    Nack,
    Reject,
    Extend,
    Purge,
    Pause,
    Resume,
    Explain,
    Consumers,
    Node,
    Limits,
    SetLimits,
    Attention,
}

/// Gives the schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// A field of the query, or a header of the request or of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) number: bool,
}

/// A body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Content {
    pub(super) media: &'static str,
    /// None for bytes and text.
    pub(super) schema: Option<SchemaOf>,
}

/// An answer that is a success.
#[derive(Clone, Copy, Debug)]
pub(super) struct Success {
    pub(super) status: u16,
    pub(super) meaning: &'static str,
    pub(super) content: Content,
    pub(super) headers: &'static [Field],
}

/// One row of the table.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: Verb,
    /// `{queue}` stands for a queue's name, percent-encoded as one segment.
    pub(super) path: &'static str,
    pub(super) endpoint: Endpoint,
    pub(super) summary: &'static str,
    pub(super) query: &'static [Field],
    pub(super) headers: &'static [Field],
    pub(super) body: &'static [Content],
    pub(super) successes: &'static [Success],
    /// Beside those that every route has, see [`Route::codes`].
    pub(super) errors: &'static [Code],
}

/// What the table has for a request.
#[derive(Clone, Debug)]
pub(super) enum Found<'a> {
    /// A route, and the queue's segment.
    Route(&'static Route, Option<&'a str>),
    /// The path has other methods: the value of `Allow`.
    OtherMethods(String),
    /// Nothing.
    Nothing,
}

const QUEUE: &str = "{queue}";

impl Route {
    /// The queue's segment, `Some(None)` where the path has none; `None` if it is not this path.
    fn matches<'a>(&self, segments: &[&'a str]) -> Option<Option<&'a str>> {
        let mut queue = None;
        let mut pattern = self.path.split('/').skip(1).filter(|part| !part.is_empty());
        for segment in segments {
            match pattern.next()? {
                QUEUE => queue = Some(*segment),
                exact if exact == *segment => {}
                _ => return None,
            }
        }
        pattern.next().is_none().then_some(queue)
    }

    pub(super) fn has_queue(&self) -> bool {
        self.path.contains(QUEUE)
    }

    /// All errors that it may answer with.
    pub(super) fn codes(&self) -> Vec<Code> {
        use crate::api::FaultKind;
        let mut codes = self.errors.to_vec();
        codes.extend([
            Code::Fault(FaultKind::Invalid),
            Code::BadHost,
            Code::Misdirected,
            Code::Internal,
        ]);
        if self.has_queue() {
            let kinds = [FaultKind::Name, FaultKind::NoQueue, FaultKind::Unavailable];
            codes.extend(kinds.map(Code::Fault));
        }
        if self.method != Verb::Get {
            codes.push(Code::ForeignOrigin);
        }
        if !self.body.is_empty() {
            codes.extend([Code::BodyTooSlow, Code::BodyTooLarge, Code::Encoding]);
        }
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}

/// Looks a request up. `HEAD` is answered as `GET` is, without the body.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> Found<'a> {
    let Some(segments) = path::segments(path) else { return Found::Nothing };
    let wanted = if *method == Method::HEAD { "GET" } else { method.as_str() };
    let mut others: Vec<&str> = Vec::new();
    for route in ROUTES {
        let Some(queue) = route.matches(&segments) else { continue };
        if route.method.name() == wanted {
            return Found::Route(route, queue);
        }
        others.push(route.method.name());
        if route.method == Verb::Get {
            others.push("HEAD");
        }
    }
    if others.is_empty() { Found::Nothing } else { Found::OtherMethods(others.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(method: Method, path: &str) -> Option<Endpoint> {
        match find(&method, path) {
            Found::Route(route, _) => Some(route.endpoint),
            _ => None,
        }
    }

    fn method(route: &Route) -> Method {
        route.method.name().parse().unwrap()
    }

    #[test]
    fn each_route_is_found_and_found_once() {
        for route in ROUTES {
            let path = route.path.replace(QUEUE, "a%2Fb");
            assert_eq!(endpoint(method(route), &path), Some(route.endpoint), "{path}");
            let same = |other: &&Route| {
                (other.method, other.path) == (route.method, route.path)
                    || other.endpoint == route.endpoint
            };
            assert_eq!(ROUTES.iter().filter(same).count(), 1, "{path}");
        }
    }

    #[test]
    fn case_j4_another_spelling_finds_nothing() {
        for route in ROUTES {
            let path = route.path.replace(QUEUE, "jobs");
            let mut variants = vec![
                format!("{path}/."),
                format!("{path}/.."),
                format!("{path};a=b"),
                format!("{path};"),
                format!("/.{path}"),
                format!("/x/..{path}"),
                format!("/{path}"),
                path.replacen("/api/v1", "/api/v1/", 1).replacen("/api/v1//", "/api//v1/", 1),
                path.replace("/queue/", "/queue/./"),
                path.replace("/queue/", "//queue/"),
                path.replace("/api/", "/api%2f"),
                path.replace("/v1/", "/v1/x/../"),
                path.replace("/v1/", "/V1/"),
                path.replace("/api/", "/%61pi/"),
            ];
            if path != "/" {
                variants.push(format!("{path}/"));
                variants.push(format!("{path}//"));
            }
            // Those that no replacement changed are the path itself.
            for variant in variants.iter().filter(|variant| **variant != path) {
                let found = find(&method(route), variant);
                assert!(matches!(found, Found::Nothing), "{variant}: {found:?}");
            }
        }
        for path in ["/api/v1/queue//messages", "/api/v1/queue/./messages", "*", ""] {
            assert!(matches!(find(&Method::GET, path), Found::Nothing), "{path}");
        }
    }

    #[test]
    fn other_methods_are_named() {
        let allow = |method: Method, path| match find(&method, path) {
            Found::OtherMethods(allow) => allow,
            other => panic!("{other:?}"),
        };
        assert_eq!(allow(Method::OPTIONS, "/healthz"), "GET, HEAD");
        assert_eq!(allow(Method::POST, "/api/v1/queue/x"), "PUT, GET, HEAD, DELETE");
        assert_eq!(allow(Method::HEAD, "/api/v1/queue/x/ack"), "POST");
        assert_eq!(endpoint(Method::HEAD, "/"), Some(Endpoint::Index));
    }
}
