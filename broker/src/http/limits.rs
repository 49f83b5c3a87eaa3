//! The engine's limits, read and changed.

use super::answer::Answer;
use super::backend::Backend;
use super::error::Problem;
use plimsoll::Limits;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Puts a merge patch into a value (RFC 7396).
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        patch.clone_into(into);
        return;
    };
    if !into.is_object() {
        *into = Value::Object(Map::new());
    }
    let Value::Object(fields) = into else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

fn patched(now: &Limits, patch: &Value) -> Result<Limits, Problem> {
    if !patch.is_object() {
        return Err(Problem::invalid("the body is no object of limits"));
    }
    let mut value = serde_json::to_value(now)
        .map_err(|error| Problem::invalid(format!("the limits cannot be shown: {error}")))?;
    merge(&mut value, patch);
    let new: Limits =
        serde_json::from_value(value).map_err(|error| Problem::invalid(error.to_string()))?;
    now.changed_live(&new).map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(new)
}

/// The limits in force, which all data directories share.
pub(super) fn show(backend: &impl Backend) -> Answer {
    let limits = backend.nodes().first().map_or_else(Limits::default, plimsoll::Node::limits);
    Answer::json(200, &limits)
}

/// Changes them: none if one is refused. May wait for locks that are held during disk calls.
pub(super) fn change(backend: &impl Backend, patch: &Value) -> Result<Answer, Problem> {
    let nodes = backend.nodes();
    for node in nodes {
        patched(&node.limits(), patch)?;
    }
    for node in nodes {
        let new = patched(&node.limits(), patch)?;
        node.set_limits(new).map_err(|error| Problem::invalid(error.to_string()))?;
    }
    Ok(show(backend))
}

/// The shape of a value.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect();
            json!({ "type": "object", "properties": fields, "additionalProperties": false })
        }
        Value::Number(_) => json!({ "type": "integer", "minimum": 0 }),
        value => json!({ "type": "string", "default": value }),
    }
}

/// The schema of all limits, from the defaults: the engine's type knows no schemas.
pub(super) fn schema(_: &mut SchemaGenerator) -> Schema {
    let mut limits = serde_json::to_value(Limits::default()).unwrap_or_default();
    if let Some(Value::Object(memory)) = limits.get_mut("memory") {
        // Not shown where there is none.
        memory.entry("limit").or_insert_with(|| json!(""));
    }
    let mut shape = shape(&limits);
    if let Some(limit) = shape.pointer_mut("/properties/memory/properties/limit") {
        *limit = json!({ "type": "string" });
    }
    Schema::try_from(shape).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_changes_what_it_names_and_null_is_the_default() {
        let now = Limits::default();
        let patch =
            json!({ "disk": { "soft": { "share": "20%" } }, "slow": { "max_delay": "5ms" } });
        let new = patched(&now, &patch).unwrap();
        assert_eq!(new.disk.soft.share.to_string(), "20%");
        assert_eq!((new.disk.soft.floor, new.disk.hard), (now.disk.soft.floor, now.disk.hard));
        let back = patched(&new, &json!({ "disk": null, "slow": { "max_delay": null } })).unwrap();
        assert_eq!(back, now);
    }

    #[test]
    fn a_patch_that_makes_no_sense_names_the_field() {
        let refused = |patch: Value| patched(&Limits::default(), &patch).unwrap_err().message;
        assert!(refused(json!({ "disk": { "sofd": 1 } })).contains("disk"));
        assert!(refused(json!({ "disk": { "soft": { "share": "1%" } } })).contains("limits.disk"));
        assert!(refused(json!({ "memory": { "limit": "1GiB" } })).contains("memory.limit"));
        assert!(refused(json!([])).contains("object"));
    }
}
