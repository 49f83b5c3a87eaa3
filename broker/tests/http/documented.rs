//! The page beside the crate says what the code does.

use crate::client::Served;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_names_every_route_header_and_code() {
    let page = include_str!("../../HTTP.md");
    let document = Served::new().await.ask("GET", "/openapi.json", "").await.json();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let line = format!("{} {path}", method.to_uppercase());
            assert!(page.contains(&format!("`{line}`")), "{line}");
            for parameter in operation["parameters"].as_array().unwrap() {
                let name = parameter["name"].as_str().unwrap();
                assert!(page.contains(name), "{line}: {name}");
            }
        }
    }
    for (code, of) in document["x-codes"].as_object().unwrap() {
        let status = &of["status"];
        assert!(page.contains(&format!("| {status} | `{code}` |")), "{status} {code}");
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for (name, schema) in schemas {
        for field in schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys()) {
            assert!(page.contains(&format!("`{field}`")), "{name}: {field}");
        }
    }
}
