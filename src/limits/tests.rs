use super::*;
use crate::types::Level;

/// The settings file of somebody who embeds the engine.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    limits: Limits,
}

const EXAMPLE: &str = include_str!("../../limits.example.toml");

fn toml(text: &str) -> Result<Limits, String> {
    toml::from_str::<File>(text).map(|file| file.limits).map_err(|error| error.to_string())
}

/// Reads `value` at `section.field`, and checks the whole.
fn with(path: &str, value: &str) -> Result<Limits, String> {
    let (section, field) = path.rsplit_once('.').unwrap();
    let limits = toml(&format!("[{section}]\n{field} = {value}\n"))?;
    limits.check().map_err(|error| error.to_string())?;
    Ok(limits)
}

#[test]
fn the_example_shows_every_field_with_its_default() {
    assert_eq!(toml(EXAMPLE), Ok(Limits::default()));
    let written = toml::Value::try_from(Limits::default()).unwrap();
    let shown: toml::Value = toml::from_str(EXAMPLE).unwrap();
    assert_eq!(shown["limits"], written);
    let limit = EXAMPLE.replace("#limit", "limit");
    assert_eq!(toml(&limit).unwrap().memory.limit, Some(Size(8 << 30)));
    assert_eq!(Limits::default().check(), Ok(()));
}

#[test]
fn what_is_left_out_has_its_default() {
    assert_eq!(toml("[limits]"), Ok(Limits::default()));
    // Also half of a threshold: that of its own level.
    let limits = with("limits.disk.hard", "{ share = \"6%\" }").unwrap();
    let hard = Threshold { share: Fraction::percent(6), ..DiskLimits::default().hard };
    assert_eq!(limits.disk, DiskLimits { hard, ..DiskLimits::default() });
    let limits = with("limits.disk.soft.floor", "\"5GiB\"").unwrap();
    assert_eq!(limits.disk.soft.share, Fraction::percent(10));
    assert_eq!(limits.disk.soft.floor, Size(5 << 30));
}

#[test]
fn what_is_written_reads_back_as_the_same() {
    let mut limits = Limits::default();
    limits.disk.soft.floor = Size((4 << 30) + 1);
    limits.disk.reserve.share = Fraction::millionths(1_234);
    limits.memory.limit = Some(Size(3 << 29));
    limits.memory.hold = Duration::from_millis(90_500);
    limits.slow.max_delay = Duration::ZERO;
    limits.pool.kept_back = Size(0);
    assert_eq!(limits.check(), Ok(()));
    let json = serde_json::to_string(&limits).unwrap();
    assert!(json.contains("\"1536MiB\"") && json.contains("\"0.1234%\""), "{json}");
    assert!(json.contains("\"1m 30s 500ms\"") && json.contains("\"0s\""), "{json}");
    assert_eq!(serde_json::from_str::<Limits>(&json).unwrap(), limits);
    let text = toml::to_string(&File { limits: limits.clone() }).unwrap();
    assert_eq!(toml(&text), Ok(limits));
}

/// For each field, values that it refuses; the message must name it.
const WRONG: &[(&str, &[&str])] = &[
    (
        "limits.disk.soft.share",
        &["\"0%\"", "\"101%\"", "\"-1%\"", "\"10\"", "10", "\"ten%\"", "\"99%\""],
    ),
    (
        "limits.disk.soft.floor",
        &["\"-1GiB\"", "\"4G\"", "\"4\"", "4", "\"GiB\"", "\"17EiB\"", "true"],
    ),
    ("limits.disk.hard.share", &["\"0%\"", "\"10%\"", "\"50%\"", "0.05", "\"\"", "[]"]),
    ("limits.disk.hard.floor", &["\"4GiB\"", "\"5GiB\"", "\"99999999999GiB\"", "\"1.0000001KiB\""]),
    ("limits.disk.reserve.share", &["\"0%\"", "\"5%\"", "\"1.00001%\"", "\"NaN%\""]),
    ("limits.disk.reserve.floor", &["\"2GiB\"", "\"3 GiB\"", "\"0x10MiB\"", "{}"]),
    ("limits.disk.clear", &["\"0%\"", "\"90%\"", "\"1000%\"", "1"]),
    ("limits.inodes.soft", &["\"0%\"", "\"100%\"", "\"100.0001%\"", "10", "\"10\""]),
    ("limits.inodes.hard", &["\"0%\"", "\"10%\"", "\"11%\"", "false"]),
    ("limits.inodes.reserve", &["\"0%\"", "\"5%\"", "\"6%\"", "\"1 percent\""]),
    ("limits.memory.limit", &["\"0B\"", "\"8G\"", "8589934592", "\"-8GiB\"", "\"80%\""]),
    ("limits.memory.soft", &["\"0%\"", "\"90%\"", "\"95%\"", "\"120%\"", "0.8"]),
    ("limits.memory.hard", &["\"0%\"", "\"101%\"", "90", "\"90 %%\""]),
    ("limits.memory.clear", &["\"0%\"", "\"80%\"", "\"-5%\"", "5"]),
    ("limits.memory.hold", &["\"0s\"", "\"10\"", "10", "\"-10s\"", "\"2h\"", "\"10%\""]),
    ("limits.slow.max_delay", &["\"5s\"", "\"50\"", "50", "\"-1ms\"", "\"soon\"", "\"0\""]),
    ("limits.retry.first", &["\"0s\"", "\"1\"", "1", "\"-1s\"", "\"61m\""]),
    ("limits.retry.max", &["\"0s\"", "\"999ms\"", "30", "\"2h\""]),
    ("limits.pool.budget", &["\"101%\"", "\"2\"", "2", "\"-2%\"", "\"1GiB\""]),
    ("limits.pool.budget_cap", &["\"1\"", "1073741824", "\"-1GiB\"", "\"1g\"", "\"2%\""]),
    ("limits.pool.prepared", &["-1", "\"2\"", "2.5", "true", "4294967296"]),
    ("limits.pool.kept_back", &["16", "\"16\"", "\"-16MiB\"", "\"16M\""]),
    ("limits.pool.kept_back_share", &["\"101%\"", "5", "\"5\"", "\"-5%\""]),
];

#[test]
fn each_field_that_is_wrong_is_named() {
    for (path, values) in WRONG {
        for value in *values {
            // A soft share of 99% leaves no room for the clear margin, which is what is named then.
            let blamed = if (*path, *value) == ("limits.disk.soft.share", "\"99%\"") {
                "limits.disk.clear"
            } else {
                path
            };
            // A share of 100% and less that is too low for the next lower one blames that one.
            let said = with(path, value).expect_err(&format!("{path} = {value}"));
            assert!(said.contains(&format!("{blamed}: ")), "{path} = {value}: {said}");
        }
    }
}

#[test]
fn the_table_of_wrong_values_has_every_field() {
    let all = toml::Value::try_from(Limits {
        memory: MemoryLimits { limit: Some(Size(1)), ..MemoryLimits::default() },
        ..Limits::default()
    });
    let (mut left, mut found) = (vec![("limits".to_owned(), all.unwrap())], Vec::new());
    while let Some((path, value)) = left.pop() {
        match value {
            toml::Value::Table(table) => {
                left.extend(
                    table.into_iter().map(|(name, value)| (format!("{path}.{name}"), value)),
                );
            }
            _ => found.push(path),
        }
    }
    found.sort();
    let mut table: Vec<_> = WRONG.iter().map(|(path, _)| (*path).to_owned()).collect();
    table.sort();
    assert_eq!(found, table);
}

#[test]
fn unknown_fields_and_sections_are_refused_by_name() {
    for (text, names) in [
        ("[limits.disk]\nsofter = \"1%\"", ["limits.disk", "softer"]),
        ("[limits.disk.soft]\nmargin = \"1%\"", ["limits.disk.soft", "margin"]),
        ("[limits.disc]\nsoft = \"1%\"", ["limits", "disc"]),
        ("[limits]\ndisk = 5", ["limits.disk", "5"]),
        ("[limits.disk]\nsoft = \"10%\"", ["limits.disk.soft", "share"]),
    ] {
        let said = toml(text).unwrap_err();
        assert!(names.iter().all(|name| said.contains(name)), "{text}: {said}");
    }
    let json = serde_json::from_str::<Limits>(r#"{"memory": {"soft": "101%"}}"#).unwrap_err();
    assert!(json.to_string().starts_with("limits.memory.soft: \"101%\" is more"), "{json}");
}

#[test]
fn floors_may_all_be_off_and_nothing_between() {
    let mut limits = Limits::default();
    for floor in
        [&mut limits.disk.soft.floor, &mut limits.disk.hard.floor, &mut limits.disk.reserve.floor]
    {
        *floor = Size(0);
    }
    assert_eq!(limits.check(), Ok(()));
    limits.disk.hard.floor = Size(1);
    assert_eq!(limits.check().unwrap_err().field, "limits.disk.hard.floor");
}

#[test]
fn the_start_up_field_is_not_changed_live_and_all_others_are() {
    let old = Limits::default();
    let mut new = with("limits.disk.soft.share", "\"20%\"").unwrap();
    assert_eq!(old.changed_live(&new), Ok(()));
    new.memory.limit = Some(Size(1 << 30));
    assert_eq!(old.changed_live(&new).unwrap_err().field, "limits.memory.limit");
    new.memory.limit = None;
    new.disk.clear = Fraction::percent(0);
    assert_eq!(old.changed_live(&new).unwrap_err().field, "limits.disk.clear");
}

#[test]
fn sizes_are_read_exactly_and_both_kinds_of_units_told_apart() {
    let read = |text: &str| text.parse::<Size>().map(|size| size.0).ok();
    assert_eq!(read("4GiB"), Some(4 << 30));
    assert_eq!(read(" 4 gib "), Some(4 << 30));
    assert_eq!(read("4GB"), Some(4_000_000_000));
    assert_eq!(read("1.5KiB"), Some(1536));
    assert_eq!(read("0.1kB"), Some(100));
    assert_eq!(read("0B"), Some(0));
    assert_eq!(read("16777215TiB"), Some(16_777_215 << 40));
    for wrong in ["16777216TiB", "0.1B", "1e3B", "1,5KiB", "+1B", "1..2B", ".5KiB", "5.KiB", ""] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
    assert_eq!(Size(u64::MAX).to_string(), format!("{}B", u64::MAX));
}

#[test]
fn levels_are_ordered_and_named() {
    assert!(Level::ALL.is_sorted());
    assert_eq!(Level::ALL.map(|level| level.to_string()), ["ok", "soft", "hard", "reserve"]);
}

proptest::proptest! {
    #[test]
    fn every_size_and_share_prints_as_itself(bytes: u64, millionths in 0_u32..=1_000_000) {
        assert_eq!(Size(bytes).to_string().parse(), Ok(Size(bytes)));
        let share = Fraction::millionths(millionths);
        assert_eq!(share.to_string().parse(), Ok(share));
    }

    #[test]
    fn no_text_makes_the_parsers_panic(text: String) {
        let _ = (text.parse::<Size>(), text.parse::<Fraction>());
        let _ = serde_json::from_value::<Limits>(serde_json::json!({ "memory": { "hold": text } }));
    }
}
