//! The reference pages that come from the code: commands, keys of suites, outcomes.

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path};

use clap::{Arg, Args, Command, CommandFactory as _};
use serde_json::{Map, Value};

use crate::{
    Cli,
    cli::{SourceArgs, history::SeriesArgs},
};

#[track_caller]
fn check(page: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(page);
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == text,
        "docs/{page} is outdated; run UPDATE_DOCS=1 cargo test -p torchgauge reference"
    );
}

#[test]
fn commands_are_those_of_the_page() {
    let mut text = "# Commands\n\nEvery command and option, generated from `xtask/src`: change \
        them there and run `UPDATE_DOCS=1 cargo test -p torchgauge reference`. In a checkout, type \
        `cargo xtask` in place of `torchgauge`.\n"
        .to_owned();
    let mut command = Cli::command().bin_name("torchgauge");
    command.build();
    let codes = command.get_after_help().map(ToString::to_string);
    text = format!("{text}\n{}\n", codes.unwrap_or_default());
    for one in command
        .get_subcommands()
        .filter(|one| one.get_name() != "help" && !one.is_hide_set())
    {
        describe(one, "torchgauge", &mut text);
    }
    for group in groups() {
        let Shared { title, rows, .. } = group;
        let _ = write!(
            text,
            "\n## {title}\n\n| argument | what |\n|---|---|\n{rows}"
        );
    }
    check("commands.md", &text);
}

/// Options that several commands take: they stand once, in a section that the commands refer to.
struct Shared {
    title: &'static str,
    rows: String,
    /// What stands in a command's table in place of the rows.
    reference: String,
}

fn groups() -> [Shared; 2] {
    [
        shared::<SourceArgs>("Options for the parts of images"),
        shared::<SeriesArgs>("Options that choose series"),
    ]
}

fn shared<A: Args>(title: &'static str) -> Shared {
    let mut command = A::augment_args(Command::new("shared"));
    command.build();
    let names = arguments(&command).filter_map(Arg::get_long);
    let names: Vec<String> = names.map(|name| format!("`--{name}`")).collect();
    let anchor = title.to_lowercase().replace(' ', "-");
    Shared {
        title,
        rows: rows(&command),
        reference: format!("| [{title}](#{anchor}) | {}. |\n", names.join(", ")),
    }
}

fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_own = |arg: &&Arg| !matches!(arg.get_id().as_str(), "help" | "version");
    let own = move |arg: &&Arg| is_own(arg) && !arg.is_hide_set();
    command.get_arguments().filter(own)
}

fn rows(command: &Command) -> String {
    let row = |arg| format!("| `{}` | {} |\n", form(arg), meaning(arg));
    let rows: Vec<String> = arguments(command).map(row).collect();
    rows.concat()
}

fn describe(command: &Command, parent: &str, text: &mut String) {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_about().map(ToString::to_string);
    let _ = write!(text, "\n## {name}\n\n{}.\n", about.unwrap_or_default());
    let inner: Vec<&Command> = command
        .get_subcommands()
        .filter(|one| one.get_name() != "help")
        .collect();
    if inner.is_empty() {
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ");
        let _ = write!(text, "\n    {}\n", usage.replace('\n', "\n    "));
    }
    let rows = groups().iter().fold(rows(command), |rows, group| {
        rows.replace(&group.rows, &group.reference)
    });
    if !rows.is_empty() {
        let _ = write!(text, "\n| argument | what |\n|---|---|\n{rows}");
    }
    if let Some(after) = command.get_after_help().map(ToString::to_string)
        && let Some(first) = after.split("Exit codes:").next()
        && !first.trim().is_empty()
    {
        let _ = write!(text, "\n{}\n", first.trim());
    }
    for one in inner {
        describe(one, &name, text);
    }
}

/// As it is given: `--engine <ENGINE>`.
fn form(arg: &Arg) -> String {
    let form = arg.to_string();
    let form = form.split(" [default").next().unwrap_or_default();
    form.replace('|', "\\|")
}

fn meaning(arg: &Arg) -> String {
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    let values: Vec<String> = values
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({help})", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    let takes_values = arg.get_action().takes_values();
    if takes_values && !values.is_empty() {
        let _ = write!(text, ": {}", values.join(", "));
    }
    let defaults: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if takes_values && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(text, "; default: {}", defaults.join(", "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, "; or the variable `{}`", variable.to_string_lossy());
    }
    text.replace('|', "\\|").replace('\n', " ") + "."
}

#[test]
fn keys_of_suites_are_those_of_the_page() {
    let schema: Value = serde_json::from_str(&bench_suite::suite::schema()).unwrap();
    let mut text =
        "# Keys of suites\n\nEvery key that a suite may have, generated from its schema \
        ([`suite.schema.json`](../scenarios/suite.schema.json)): run `UPDATE_DOCS=1 cargo test -p \
        torchgauge reference`. [`suites.md`](../scenarios/suites.md) explains them with examples.\n"
            .to_owned();
    let mut seen = BTreeMap::new();
    keys(&schema, &schema, "", &mut seen, &mut text);
    check("suite-keys.md", &text);
}

/// The keys of an object and, below them, those of the objects in it that have no section yet.
fn keys(
    root: &Value,
    object: &Value,
    path: &str,
    seen: &mut BTreeMap<String, String>,
    text: &mut String,
) {
    let Some(properties) = object["properties"].as_object() else {
        return;
    };
    let title = if path.is_empty() { "The suite" } else { path };
    let _ = write!(text, "\n## {title}\n\n");
    if let Some(about) = object["description"].as_str().filter(|_| !path.is_empty()) {
        let _ = write!(text, "{}\n\n", cell(about));
    }
    text.push_str("| key | what | value |\n|---|---|---|\n");
    let required = object["required"].as_array();
    let mut inner = Vec::new();
    for (key, schema) in properties {
        let (about, mut value) = (described(root, schema), valued(root, schema));
        let objects = objects(root, schema);
        if let Some(section) = objects.iter().find_map(|(name, _)| seen.get(name)) {
            value = value.replace(", see below", &format!(" (see `{section}`)"));
        }
        let must = required.is_some_and(|required| required.iter().any(|one| one == key));
        let must = if must { " Required." } else { "" };
        let _ = writeln!(
            text,
            "| `{key}` | {}{must} | {} |",
            cell(&about),
            cell(&value)
        );
        let place = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        inner.extend(objects.into_iter().map(|found| (place.clone(), found)));
    }
    for (place, (name, object)) in inner {
        if seen.contains_key(&name) {
            continue;
        }
        seen.insert(name, place.clone());
        keys(root, object, &place, seen, text);
    }
}

/// What a schema refers to, and the name of its definition.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> (String, &'a Value) {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let name = reference.trim_start_matches("#/$defs/").to_owned();
            let found = &root["$defs"][name.as_str()];
            (name, found)
        }
        None => (String::new(), schema),
    }
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter();
    lists
        .filter_map(|list| schema[list].as_array())
        .flatten()
        .filter(|choice| choice["type"] != "null")
}

/// The objects with keys that a value may be or hold, each with its name; one that is described where
/// it is used has none, and goes by what it is.
fn objects<'a>(root: &'a Value, schema: &'a Value) -> Vec<(String, &'a Value)> {
    let (name, schema) = resolved(root, schema);
    if schema["properties"].is_object() {
        let name = Some(name).filter(|name| !name.is_empty());
        return vec![(name.unwrap_or_else(|| schema.to_string()), schema)];
    }
    let mut found = Vec::new();
    if schema["items"].is_object() {
        found.extend(objects(root, &schema["items"]));
    }
    found.extend(choices(schema).flat_map(|choice| objects(root, choice)));
    found
}

fn described(root: &Value, schema: &Value) -> String {
    let own = schema["description"].as_str();
    let of = |schema: &Value| {
        resolved(root, schema).1["description"]
            .as_str()
            .map(str::to_owned)
    };
    own.map(str::to_owned)
        .or_else(|| of(schema))
        .or_else(|| {
            choices(schema).find_map(|choice| {
                choice["description"]
                    .as_str()
                    .map(str::to_owned)
                    .or_else(|| of(choice))
            })
        })
        .unwrap_or_default()
}

/// What a value may be, in words.
fn valued(root: &Value, schema: &Value) -> String {
    let (_, schema) = resolved(root, schema);
    let quoted = |value: &Value| format!("`{}`", value.to_string().trim_matches('"'));
    if let Some(words) = schema["enum"].as_array() {
        return words
            .iter()
            .filter(|word| !word.is_null())
            .map(quoted)
            .collect::<Vec<_>>()
            .join(", ");
    }
    if !schema["const"].is_null() {
        return quoted(&schema["const"]);
    }
    let mut all: Vec<String> = Vec::new();
    for choice in choices(schema) {
        let value = valued(root, choice);
        if !value.is_empty() && !all.contains(&value) {
            all.push(value);
        }
    }
    if !all.is_empty() {
        return all.join(" or ");
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null"),
        kind => Some(kind),
    };
    match kind.and_then(Value::as_str).unwrap_or_default() {
        "array" => match valued(root, &schema["items"]) {
            item if item.is_empty() => "list".to_owned(),
            item => format!("list of {item}"),
        },
        "object" if schema["properties"].is_object() => "keys, see below".to_owned(),
        "object" => "keys and values".to_owned(),
        "string" => match schema["pattern"].as_str() {
            Some(pattern) => format!("text `{pattern}`"),
            None => "text".to_owned(),
        },
        "boolean" => "`true`, `false`".to_owned(),
        kind @ ("integer" | "number") => match (&schema["minimum"], &schema["maximum"]) {
            (Value::Null, Value::Null) => kind.to_owned(),
            (least, Value::Null) => format!("{kind} from {least}"),
            (Value::Null, most) => format!("{kind} up to {most}"),
            (least, most) => format!("{kind} from {least} to {most}"),
        },
        other => other.to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn outcomes_are_those_of_the_page() {
    let schema = schemars::schema_for!(record::Reason).to_value();
    let no = Map::new();
    let definition = schema.as_object().unwrap_or(&no);
    let reasons = definition["oneOf"].as_array().expect("one of its words");
    let mut text = "# Outcomes\n\nHow a run ends: `ok`, or `failed` with one of these reasons, which \
        records, reports and JUnit XML name. Generated from `bench-suite/record`: run \
        `UPDATE_DOCS=1 cargo test -p torchgauge reference`. A failed run is a record like any other, and the \
        session goes on; [`faults.md`](faults.md) lists what causes each and what is done about \
        it.\n\n| reason | what happened |\n|---|---|\n"
        .to_owned();
    for reason in reasons {
        let (word, about) = (&reason["const"], reason["description"].as_str());
        let word = word.as_str().expect("a word");
        let _ = writeln!(
            text,
            "| `{word}` | {} |",
            cell(about.expect("a description"))
        );
    }
    check("outcomes.md", &text);
}
