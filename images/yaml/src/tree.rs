//! One parse of a text: its values, and where each of them and its key stand.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use serde_saphyr::{
    Error, Location, MessageFormatter as _, Spanned, UserMessageFormatter,
    budget::BudgetBreach,
    options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy},
};

use crate::{KeyPath, MAX_DEPTH, MAX_NODES, Segment};

/// What is wrong, and the next step.
type Words = (String, Option<&'static str>);

/// The places of the values in a value and of their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// The value; what is in it has moved here out of the nodes below.
    pub(crate) value: Value,
    /// By the segments that the text has, whatever was taken out since.
    children: Vec<(Segment, Option<Location>, Spanned<Node>)>,
    /// Where a map's first key stands.
    first: Option<Location>,
    /// Keys that stand in a map for a second time, there or below; the first one counts.
    pub(crate) repeats: Vec<(String, Location)>,
}

pub(crate) struct Found {
    /// Where the value stands, or the last one on the way that there is.
    pub(crate) value: Location,
    pub(crate) key: Option<Location>,
    /// How many steps of the path there are.
    pub(crate) depth: usize,
    /// The path as it is in the text.
    pub(crate) path: KeyPath,
}

/// Reads a text; refuses what no hand-written file has.
pub(crate) fn read(text: &str) -> Result<Spanned<Node>, (Location, Words)> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH, max_nodes: MAX_NODES },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_NODES },
        merge_keys: MergeKeyPolicy::AsOrdinary,
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        // JSON has no such numbers; as texts they are refused where a number is wanted.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        reject_unsupported_tags: true,
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Node>>(text, options) {
        Ok(root) if root.value.value.is_null() => {
            let help = Some("write at least its required keys");
            Err((Location::UNKNOWN, ("the document is empty".into(), help)))
        }
        Ok(root) => Ok(root),
        Err(error) => {
            let place = error.location().unwrap_or(Location::UNKNOWN);
            Err((place, words(&error)))
        }
    }
}

fn words(error: &Error) -> Words {
    let (message, help) = match error {
        Error::AliasError { error, .. } => return words(error),
        Error::MultipleDocuments { .. } => (
            "a second document begins here".to_owned(),
            "keep one document in a file",
        ),
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => (
            format!("nested deeper than {MAX_DEPTH} levels"),
            "flatten it",
        ),
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => (
            format!("more than {MAX_NODES} values once every alias is written out"),
            "split the file, or use fewer aliases",
        ),
        Error::UnsupportedTag { tag, .. } => (
            format!("the tag `{tag}` is not read"),
            "write the plain value; drop the tag",
        ),
        other => {
            let message = UserMessageFormatter.format_message(other);
            let help = "indent with spaces; YAML takes no tabs there";
            let help = message.contains("tabs").then_some(help);
            return (format!("not valid YAML: {message}"), help);
        }
    };
    (message, Some(help))
}

impl Node {
    fn child(&self, segment: &Segment) -> Option<usize> {
        match (segment, self.children.first()) {
            (Segment::Index(place), Some((Segment::Index(_), ..))) => {
                Some(*place).filter(|place| *place < self.children.len())
            }
            _ => self.children.iter().position(|(at, ..)| at == segment),
        }
    }

    pub(crate) fn find(root: &Spanned<Self>, path: &KeyPath) -> Found {
        let (mut node, mut key, mut depth) = (root, None, 0);
        let mut path = path.clone();
        for segment in &mut path.0 {
            let Some(place) = node.value.child(segment) else {
                break;
            };
            let (at, key_place, child) = &node.value.children[place];
            *segment = at.clone();
            (node, key, depth) = (child, *key_place, depth + 1);
        }
        // A block map begins with its first key; that is what to mark.
        // An alias is marked where it stands.
        let first = node.value.first.filter(|_| node.referenced == node.defined);
        Found {
            value: first.unwrap_or(node.referenced),
            key,
            depth,
            path,
        }
    }

    /// Takes out the value at `path`, which there is.
    pub(crate) fn remove(root: &mut Spanned<Self>, path: &[Segment]) {
        let Some((end, way)) = path.split_last() else {
            return;
        };
        match (value_at(&mut root.value.value, way), end) {
            (Some(Value::Object(map)), Segment::Key(key)) => drop(map.remove(key)),
            (Some(Value::Array(list)), Segment::Index(place)) if *place < list.len() => {
                list.remove(*place);
            }
            _ => {}
        }
        let mut node = &mut root.value;
        for segment in way {
            let Some(place) = node.child(segment) else {
                return;
            };
            node = &mut node.children[place].2.value;
        }
        if let Some(place) = node.child(end) {
            node.children.remove(place);
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

/// The value that lies at this path in another.
pub(crate) fn value_at<'a>(root: &'a mut Value, path: &[Segment]) -> Option<&'a mut Value> {
    path.iter().try_fold(root, |value, segment| match segment {
        Segment::Key(key) => value.get_mut(key),
        Segment::Index(place) => value.get_mut(place),
    })
}

struct Nodes;

macro_rules! scalars {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E>(self, value: $kind) -> Result<Node, E> {
            Ok(Node { value: value.into(), ..Node::default() })
        })*
    };
}

impl<'de> Visitor<'de> for Nodes {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    scalars! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node {
            value: Value::Null,
            ..Node::default()
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let (mut values, mut children, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(mut item) = items.next_element::<Spanned<Node>>()? {
            values.push(item.value.value.take());
            repeats.append(&mut item.value.repeats);
            children.push((Segment::Index(children.len()), None, item));
        }
        Ok(Node {
            value: values.into(),
            children,
            first: None,
            repeats,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let (mut values, mut children) = (serde_json::Map::new(), Vec::new());
        let mut repeats = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let mut child = entries.next_value::<Spanned<Node>>()?;
            repeats.append(&mut child.value.repeats);
            if values.contains_key(&key.value) {
                repeats.push((key.value, key.referenced));
                continue;
            }
            values.insert(key.value.clone(), child.value.value.take());
            children.push((Segment::Key(key.value), Some(key.referenced), child));
        }
        Ok(Node {
            value: values.into(),
            first: children.first().and_then(|(_, key, _)| *key),
            children,
            repeats,
        })
    }
}
