//! `--settings FILE`: the limits that a command works with.

use crate::failure::Failure;
use clap::Args;
use plimsoll::{Limits, NodeOptions};
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// No settings are longer; a file that is one is something else.
const LEN_MAX: u64 = 1 << 20;

/// The option.
#[derive(Args, Debug, Default)]
pub(crate) struct SettingsFile {
    /// Take the limits from the section `limits` of this file: TOML, or JSON if its name ends in .json
    #[arg(long = "settings", value_name = "FILE")]
    path: Option<PathBuf>,
}

/// Settings, and where they are from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    from: Option<PathBuf>,
}

/// The section `broker`, which may be missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct BrokerSettings {
    /// Names under which the server is reached beside loopback ones.
    pub(crate) hosts: Vec<String>,
    /// The most messages in flight in all queues together.
    pub(crate) in_flight_max: Option<u64>,
}

impl SettingsFile {
    /// Reads the file, if one is given, and checks all that is in its section.
    pub(crate) fn read(&self) -> Result<Settings, Failure> {
        let Some(path) = &self.path else { return Ok(Settings::default()) };
        let text = text(path)?;
        let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let limits = if is_json { from_json(path, &text) } else { from_toml(path, &text) }?;
        limits.check().map_err(|error| wrong(path, &error).with("field", error.field))?;
        Ok(Settings { limits, from: Some(path.clone()) })
    }
}

impl SettingsFile {
    /// Reads the file once more, for its section `broker`.
    pub(crate) fn read_broker(&self) -> Result<BrokerSettings, Failure> {
        let Some(path) = &self.path else { return Ok(BrokerSettings::default()) };
        let text = text(path)?;
        let is_json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        broker(is_json, &text).map_err(|error| {
            let message = error.lines().next().unwrap_or_default();
            wrong(path, format_args!("broker: {message}")).with("field", "broker")
        })
    }
}

fn broker(is_json: bool, text: &str) -> Result<BrokerSettings, String> {
    #[derive(Default, Deserialize)]
    struct All {
        #[serde(default)]
        broker: BrokerSettings,
    }
    let all: Result<All, String> = if is_json {
        serde_json::from_str(text).map_err(|error| error.to_string())
    } else {
        toml::from_str(text).map_err(|error: toml::de::Error| error.message().to_owned())
    };
    Ok(all?.broker)
}

impl Settings {
    /// The options of a node with these settings.
    pub(crate) fn options(&self) -> NodeOptions {
        let mut options = NodeOptions::default();
        options.limits = self.limits.clone();
        options
    }

    /// Where they are from, for people.
    pub(crate) fn source(&self) -> String {
        let note = "a running node may have others";
        match &self.from {
            Some(path) => format!("{}; {note}", path.display()),
            None => format!("the defaults; {note}"),
        }
    }

    /// And for programs: the file, or `default`.
    pub(crate) fn name(&self) -> String {
        self.from.as_ref().map_or_else(|| "default".to_owned(), |path| path.display().to_string())
    }
}

fn text(path: &Path) -> Result<String, Failure> {
    let fail = |error: &io::Error| Failure::io("read the settings in", path.display(), error);
    let mut bytes = Vec::new();
    // Not all of it: a device or a pipe may have no end.
    let mut file = File::open(path).map_err(|error| fail(&error))?.take(LEN_MAX + 1);
    file.read_to_end(&mut bytes).map_err(|error| fail(&error))?;
    if bytes.len() as u64 > LEN_MAX {
        return Err(wrong(path, "is longer than 1 MiB; expected a file of settings"));
    }
    String::from_utf8(bytes).map_err(|_| wrong(path, "is no text in UTF-8"))
}

fn wrong(path: &Path, what: impl Display) -> Failure {
    let file = path.display();
    Failure::usage(format!("{file}: {what}")).with("file", file.to_string())
}

fn from_toml(path: &Path, text: &str) -> Result<Limits, Failure> {
    let mut all: toml::Table = toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        wrong(path, format_args!("line {line}: {}", error.message())).with("line", line)
    })?;
    let section = section(path, all.keys().map(String::as_str))?;
    let limits = all.remove(section).map_or_else(|| Ok(Limits::default()), read);
    limits.map_err(|error| refused(path, error.message()))
}

fn from_json(path: &Path, text: &str) -> Result<Limits, Failure> {
    let all: Result<serde_json::Map<_, _>, _> = serde_json::from_str(text);
    let mut all = all.map_err(|error| wrong(path, &error).with("line", error.line()))?;
    let section = section(path, all.keys().map(String::as_str))?;
    let limits = all.remove(section).map_or_else(|| Ok(Limits::default()), read);
    limits.map_err(|error| refused(path, error.to_string().trim_end()))
}

/// By the trait, whose errors begin with the field's path: there is a function of that name which the trait is made of.
fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Limits, D::Error> {
    <Limits as Deserialize>::deserialize(from)
}

/// The name of the section, which must be there. The file may be a broker's with sections of its own, but one that was
/// meant to be this one would be passed over in silence.
fn section<'a>(path: &Path, names: impl Iterator<Item = &'a str>) -> Result<&'static str, Failure> {
    const LIMITS: &str = "limits";
    let near = |name: &str| strsim::jaro_winkler(&name.to_lowercase(), LIMITS) > 0.85;
    let names: Vec<&str> = names.collect();
    let same = |name: &str| name.eq_ignore_ascii_case(LIMITS);
    let mistaken = |name: &&&str| {
        // Beside the section itself only one that differs in nothing but case is surely meant for it.
        **name != LIMITS && (same(name) || near(name) && !names.contains(&LIMITS))
    };
    if let Some(name) = names.iter().find(mistaken) {
        let what = format!("{name}: no such section; is `{LIMITS}` meant?");
        return Err(wrong(path, what).with("field", *name));
    }
    if names.contains(&LIMITS) {
        return Ok(LIMITS);
    }
    Err(wrong(path, format_args!("has no section `{LIMITS}`, which is all that is taken from it")))
}

/// An error that begins with the field's path.
fn refused(path: &Path, message: &str) -> Failure {
    // TOML names the field once more in a second line.
    let message = message.lines().next().unwrap_or_default();
    let field = message.split_once(": ").map_or("limits", |(field, _)| field);
    wrong(path, message).with("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(name: &str, text: &str) -> Result<Limits, String> {
        let path = Path::new(name);
        let read = if name.ends_with("json") { from_json } else { from_toml };
        read(path, text).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn both_formats_give_the_same_and_other_sections_are_left_alone() {
        let toml =
            read_text("a.toml", "[broker]\nport = 1\n[limits.disk]\nclear = \"2%\"\n").unwrap();
        let json = read_text("a.json", r#"{"broker": {}, "limits": {"disk": {"clear": "2%"}}}"#);
        assert_eq!(json, Ok(toml.clone()));
        assert_eq!(toml.disk.clear.to_string(), "2%");
        assert_eq!(read_text("a.toml", "[limits]"), Ok(Limits::default()));
    }

    #[test]
    fn the_brokers_section_may_be_missing_but_not_wrong() {
        let hosts = vec!["queue.example".to_owned()];
        let wanted = BrokerSettings { hosts, in_flight_max: Some(5) };
        let toml = "[broker]\nhosts = [\"queue.example\"]\nin_flight_max = 5\n[limits]\n";
        assert_eq!(broker(false, toml), Ok(wanted.clone()));
        let json = r#"{"broker": {"hosts": ["queue.example"], "in_flight_max": 5}, "limits": {}}"#;
        assert_eq!(broker(true, json), Ok(wanted));
        assert_eq!(broker(false, "[limits]"), Ok(BrokerSettings::default()));
        for text in ["[broker]\nport = 1", "[broker]\nhosts = 1", "broker = 1"] {
            assert!(broker(false, text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_file_and_field_or_line() {
        for (name, text, said) in [
            ("a.toml", "[limits.disk\n", "a.toml: line 1: "),
            ("a.toml", "[limits]\n\nx = = 1\n", "a.toml: line 3: "),
            ("a.json", "{\n\"limits\": {\n,", "at line 3 column 1"),
            ("a.json", "[]", "a.json: invalid type"),
            ("a.toml", "", "a.toml: has no section `limits`"),
            ("a.toml", "[limit.disk]\n", "a.toml: limit: no such section; is `limits` meant?"),
            ("a.toml", "[limits]\n[Limits]\n", "a.toml: Limits: no such section"),
            ("a.toml", "limits = 5", "a.toml: limits: invalid type: integer `5`"),
            ("a.toml", "[limits.disc]\n", "a.toml: limits.disc: unknown field `disc`, expected"),
            ("a.toml", "[limits.disk]\nhard = { share = 5 }", "a.toml: limits.disk.hard.share: "),
            ("a.json", r#"{"limits": {"slow": {"max_delay": "5"}}}"#, "limits.slow.max_delay: "),
        ] {
            let error = read_text(name, text).unwrap_err();
            assert!(error.contains(said), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
}
