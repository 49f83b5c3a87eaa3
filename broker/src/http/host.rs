//! Who was meant, and who asks: a page in a browser must not reach this server under a name of its own, nor change anything.

use super::error::{Code, Problem};
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, Version, request::Parts};
use std::net::{IpAddr, SocketAddr};

/// The names under which the server is reached.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    listen: IpAddr,
    names: Vec<String>,
}

fn ip(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse().ok()
}

/// Exactly one value, as text; `Err` for several or none that can be read.
fn one<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() { Err(()) } else { value.to_str().map(Some).map_err(drop) }
}

impl Hosts {
    /// Names of a server that listens at `listen`, with those that were configured.
    pub(super) fn new(listen: SocketAddr, names: &[String]) -> Self {
        let names = names.iter().map(|name| name.trim_end_matches('.').to_ascii_lowercase());
        Self { listen: listen.ip(), names: names.collect() }
    }

    fn knows(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        match ip(&host) {
            Some(ip) => ip.to_canonical().is_loopback() || ip == self.listen,
            None => host == "localhost" || self.names.contains(&host),
        }
    }

    /// Checks who was meant, and gives it. Any port will do: there may be a forwarder in between.
    ///
    /// # Errors
    /// 400 or 421.
    pub(super) fn check(&self, parts: &Parts) -> Result<Authority, Problem> {
        let bad = |what| Problem::new(Code::BadHost, what);
        let said = one(&parts.headers, &HOST)
            .map_err(|()| bad("Host comes more than once, or cannot be read"))?;
        let said = said.map(str::parse::<Authority>).transpose();
        let said = said.map_err(|_| bad("Host is no host"))?;
        let asked = parts.uri.authority().cloned();
        if let (Some(said), Some(asked)) = (&said, &asked)
            && said != asked
        {
            return Err(bad("Host differs from what the request names"));
        }
        let authority = asked.or(said).filter(|authority| !authority.host().is_empty());
        let Some(authority) = authority else {
            // What came before HTTP/1.1 cannot know better.
            if parts.version < Version::HTTP_11 {
                return Err(Problem::new(Code::Misdirected, "Host is missing"));
            }
            return Err(bad("Host is missing"));
        };
        if authority.as_str().contains('@') {
            return Err(bad("Host has a user's name"));
        }
        if !self.knows(authority.host()) {
            let host = authority.host();
            return Err(Problem::new(
                Code::Misdirected,
                format!("{host:?} is no name of this server"),
            ));
        }
        Ok(authority)
    }
}

/// Lets no other page's script change anything. `authority` is who was meant.
///
/// # Errors
/// 403.
pub(super) fn check_origin(
    method: &Method,
    headers: &HeaderMap,
    authority: &Authority,
) -> Result<(), Problem> {
    if method.is_safe() {
        return Ok(());
    }
    let foreign = |what: &str| {
        Err(Problem::new(Code::ForeignOrigin, format!("{what}: only this server's own pages may")))
    };
    if headers.get_all("sec-fetch-site").iter().any(|site| site == "cross-site") {
        return foreign("a page of another site asks for a change");
    }
    let own = |origin: &str| {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| rest.eq_ignore_ascii_case(authority.as_str()))
    };
    match one(headers, &ORIGIN) {
        Ok(None) => Ok(()),
        Ok(Some(origin)) if own(origin) => Ok(()),
        Ok(Some(_)) | Err(()) => foreign("a page of another origin asks for a change"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(version: Version, uri: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().version(version).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_names_of_this_server_are_answered() {
        let hosts = Hosts::new("127.0.0.1:7272".parse().unwrap(), &["Queue.Example".into()]);
        let status = |version, uri: &str, names: &[&str]| {
            hosts.check(&parts(version, uri, names)).map_or_else(|no| no.code.status(), |_| 200)
        };
        let with = |name: &str| status(Version::HTTP_11, "/", &[name]);
        for name in [
            "localhost",
            "LocalHost:7272",
            "localhost.",
            "127.0.0.1:7272",
            "127.1.2.3",
            "[::1]:80",
            "queue.example:443",
        ] {
            assert_eq!(with(name), 200, "{name}");
        }
        for name in ["evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "0.0.0.0"] {
            assert_eq!(with(name), 421, "{name}");
        }
        for name in ["", "user@localhost", "a b", "local host", "localhost/x"] {
            assert_eq!(with(name), 400, "{name}");
        }
        assert_eq!(status(Version::HTTP_11, "/", &[]), 400);
        assert_eq!(status(Version::HTTP_10, "/", &[]), 421);
        assert_eq!(status(Version::HTTP_11, "/", &["localhost", "localhost"]), 400);
        assert_eq!(status(Version::HTTP_11, "http://evil.example/", &["localhost"]), 400);
        assert_eq!(status(Version::HTTP_2, "http://localhost:1/", &[]), 200);
        assert_eq!(status(Version::HTTP_2, "http://evil.example/", &[]), 421);
    }

    #[test]
    fn a_foreign_page_changes_nothing() {
        let authority: Authority = "localhost:7272".parse().unwrap();
        let check = |method: Method, name: &'static str, value: &str| {
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_str(value).unwrap(),
            )]);
            check_origin(&method, &headers, &authority).is_ok()
        };
        for origin in ["http://localhost:7272", "https://LOCALHOST:7272"] {
            assert!(check(Method::POST, "origin", origin), "{origin}");
        }
        for origin in [
            "null",
            "http://localhost:3000",
            "http://localhost",
            "http://evil.example",
            "",
            "localhost:7272",
        ] {
            assert!(!check(Method::POST, "origin", origin), "{origin}");
            assert!(!check(Method::DELETE, "origin", origin), "{origin}");
            assert!(check(Method::GET, "origin", origin), "{origin}");
        }
        assert!(!check(Method::PUT, "sec-fetch-site", "cross-site"));
        assert!(check(Method::PUT, "sec-fetch-site", "same-origin"));
        assert!(check(Method::PUT, "sec-fetch-site", "none"));
    }
}
