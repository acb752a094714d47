//! The description of the API: what there is, for programs. It lies beside the handlers, and a test walks both.

use zaro::meta::Json;

/// Paths with what they are, their parameters, and the name of the schema of their answer, if they do not redirect.
const PATHS: [(&str, &str, &[&str], Option<&str>); 9] = [
    ("/api/openapi.json", "This description", &[], None),
    (
        "/api/zarr/",
        "All Zarrs, each with its newest version",
        &["name", "page", "page_size"],
        Some("ZarrPage"),
    ),
    ("/api/zarr/{zarr_id}/", "A Zarr with its newest version", &[], Some("Zarr")),
    ("/api/zarr/{zarr_id}/files/", "The files of the newest version", FILES, Some("FilePage")),
    (
        "/api/zarr/{zarr_id}/versions/",
        "The versions of a Zarr, newest first",
        &["page", "page_size"],
        Some("VersionPage"),
    ),
    (
        "/api/zarr/{zarr_id}/versions/{version_id}/",
        "A version, with the statistics of its manifest",
        &[],
        Some("Version"),
    ),
    ("/api/zarr/{zarr_id}/versions/{version_id}/files/", "The files of a version", FILES, Some("FilePage")),
    (
        "/api/zarr/{zarr_id}/versions/{version_id}/diff/{other_version_id}/",
        "What changed from one version to another",
        &["page", "page_size"],
        Some("DiffPage"),
    ),
    ("/api/zarr/{zarr_id}/at/{time}/", "Redirects to the version in force at a time", &[], None),
];

const FILES: &[&str] = &["prefix", "after", "limit", "download"];

/// The description.
pub(super) fn document() -> Json {
    let paths = PATHS.iter().map(|(path, summary, parameters, schema)| {
        let get = operation(path, summary, parameters, *schema);
        ((*path).to_owned(), object([("get", get)]))
    });
    object([
        ("openapi", text("3.1.0")),
        (
            "info",
            object([
                ("title", text("Versions of Zarrs")),
                ("version", text(env!("CARGO_PKG_VERSION"))),
                ("description", text("Zarrs of an archive with all their versions, read-only.")),
            ]),
        ),
        ("paths", Json::Object(paths.collect())),
        ("components", object([("schemas", schemas()), ("parameters", parameters())])),
    ])
}

fn operation(path: &str, summary: &str, query: &[&str], schema: Option<&str>) -> Json {
    let in_path = path.split(['{', '}']).skip(1).step_by(2);
    let refs = in_path.chain(query.iter().copied()).map(|name| reference("parameters", name));
    let mut responses = Json::object();
    match schema {
        Some(schema) => responses.set("200", answer("The answer", reference("schemas", schema))),
        None if path.ends_with(".json") => {
            responses.set("200", answer("The description", object([("type", text("object"))])));
        }
        None => {}
    }
    if query.contains(&"download") {
        responses.set("302", redirect("The bytes of the file at `prefix`"));
    }
    if path.contains("/at/") {
        responses.set("302", redirect("The version"));
    }
    let has_values = path.contains('{') || !query.is_empty();
    if has_values {
        responses.set("400", answer("A value is not valid", reference("schemas", "Invalid")));
        responses.set(
            "404",
            answer("There is no such Zarr, version, file or page", reference("schemas", "Detail")),
        );
    }
    responses.set("502", answer("The archive could not be read", reference("schemas", "Detail")));
    let mut out = object([("summary", text(summary)), ("responses", responses)]);
    out.set("parameters", Json::Array(refs.collect()));
    out
}

fn answer(description: &str, schema: Json) -> Json {
    let content = object([("application/json", object([("schema", schema)]))]);
    object([("description", text(description)), ("content", content)])
}

fn redirect(description: &str) -> Json {
    let location = object([("schema", object([("type", text("string"))]))]);
    object([("description", text(description)), ("headers", object([("Location", location)]))])
}

/// A checksum: digest, number of files, bytes.
const CHECKSUM: &str = "^[0-9a-f]{32}-[0-9]+--[0-9]+$";

fn parameters() -> Json {
    let parameter = |name: &str, place: &str, description: &str, schema: Json| {
        let own = object([
            ("name", text(name)),
            ("in", text(place)),
            ("required", Json::from(place == "path")),
            ("description", text(description)),
            ("schema", schema),
        ]);
        (name.to_owned(), own)
    };
    let integer = |minimum: u64| object([("type", text("integer")), ("minimum", Json::from(minimum))]);
    let mut limit = integer(0);
    limit.set("maximum", 1000u64);
    limit.set("default", 1000u64);
    let filled = object([("type", text("string")), ("minLength", Json::from(1u64))]);
    let checksum = object([("type", text("string")), ("pattern", text(CHECKSUM))]);
    let id = object([("type", text("string")), ("pattern", text("^[A-Za-z0-9_-][A-Za-z0-9_.-]{5,}$"))]);
    let time = object([("type", text("string"))]);
    Json::Object(vec![
        parameter("zarr_id", "path", "The id of a Zarr", id),
        parameter("version_id", "path", "The checksum of a version", checksum.clone()),
        parameter("other_version_id", "path", "The checksum of the version to compare with", checksum),
        parameter("time", "path", "A date, which is its beginning in UTC, or a date and a time", time),
        parameter("name", "query", "Only the Zarr of this name, which is its id", filled.clone()),
        parameter("page", "query", "The number of a page, from 1 on", integer(1)),
        parameter("page_size", "query", "Results on a page, 1000 at most; 100 by default", integer(1)),
        parameter("prefix", "query", "What the keys of the files begin with", filled.clone()),
        parameter("after", "query", "The key that the files come after", filled),
        parameter("limit", "query", "How many files", limit),
        parameter(
            "download",
            "query",
            "Redirect to the bytes of the file at `prefix`",
            object([("type", text("boolean"))]),
        ),
    ])
}

fn schemas() -> Json {
    let kind = |name: &str| object([("type", text(name))]);
    let or_null = |name: &str| object([("type", Json::from(vec![text(name), text("null")]))]);
    let checksum = || object([("type", text("string")), ("pattern", text(CHECKSUM))]);
    let status = object([("type", text("string")), ("enum", Json::from(vec![text("Complete")]))]);
    let sum = || record(&[("count", kind("integer")), ("size", kind("integer"))]);
    let detail = record(&[("detail", kind("string"))]);
    let fields = object([
        ("type", text("object")),
        ("additionalProperties", object([("type", text("array")), ("items", kind("string"))])),
    ]);
    let invalid = object([("anyOf", Json::from(vec![fields, detail.clone(), kind("string")]))]);
    let pages = |item: &str| paged(item, &[]);
    let statistics = record(&[
        ("entries", or_null("integer")),
        ("depth", or_null("integer")),
        ("totalSize", or_null("integer")),
        ("lastModified", or_null("string")),
        ("zarrChecksum", or_null("string")),
    ]);
    let mut version = record(&[
        ("version_id", checksum()),
        ("zarr_id", kind("string")),
        ("checksum", checksum()),
        ("file_count", kind("integer")),
        ("size", kind("integer")),
        ("depth", or_null("integer")),
        ("last_modified", or_null("string")),
        ("manifest_url", kind("string")),
        ("webdav_url", kind("string")),
        ("latest", kind("boolean")),
    ]);
    if let Some(properties) = version.get_mut("properties") {
        properties.set(
            "statistics",
            object([("anyOf", Json::from(vec![statistics, object([("type", text("null"))])]))]),
        );
    }
    object([
        (
            "Zarr",
            record(&[
                ("name", kind("string")),
                ("zarr_id", kind("string")),
                ("status", status),
                ("checksum", checksum()),
                ("file_count", kind("integer")),
                ("size", kind("integer")),
            ]),
        ),
        ("ZarrPage", pages("Zarr")),
        ("Version", version),
        ("VersionPage", pages("Version")),
        (
            "File",
            record(&[
                ("Key", kind("string")),
                ("LastModified", or_null("string")),
                ("ETag", or_null("string")),
                ("Size", kind("integer")),
                ("VersionId", or_null("string")),
            ]),
        ),
        ("FilePage", record(&[("next", or_null("string")), ("results", list_of("File"))])),
        (
            "Difference",
            record(&[
                ("Key", kind("string")),
                (
                    "Change",
                    object([
                        ("type", text("string")),
                        ("enum", Json::from(vec![text("added"), text("changed"), text("removed")])),
                    ]),
                ),
                ("Size", or_null("integer")),
                ("SizeBefore", or_null("integer")),
            ]),
        ),
        ("DiffPage", paged("Difference", &[("added", sum()), ("changed", sum()), ("removed", sum())])),
        ("Detail", detail),
        ("Invalid", invalid),
    ])
}

/// A page of a list by number, with more members.
fn paged(item: &str, more: &[(&str, Json)]) -> Json {
    let link = || object([("type", Json::from(vec![text("string"), text("null")]))]);
    let mut members = vec![
        ("count", object([("type", text("integer"))])),
        ("next", link()),
        ("previous", link()),
        ("results", list_of(item)),
    ];
    members.extend(more.iter().cloned());
    record(&members)
}

fn list_of(item: &str) -> Json {
    object([("type", text("array")), ("items", reference("schemas", item))])
}

/// An object with these members, all of which are there.
fn record(members: &[(&str, Json)]) -> Json {
    let properties = members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone()));
    let required: Vec<Json> = members.iter().map(|(name, _)| text(name)).collect();
    object([
        ("type", text("object")),
        ("properties", Json::Object(properties.collect())),
        ("required", Json::Array(required)),
    ])
}

fn reference(kind: &str, name: &str) -> Json {
    object([("$ref", Json::from(format!("#/components/{kind}/{name}")))])
}

fn text(text: &str) -> Json {
    Json::from(text)
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::from(members)
}
