//! The positions of every key and value, and the limits of what is read at all.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScanError, Span, StrInput};

use crate::{KeyPath, MAX_DEPTH, MAX_NODES, Segment};

/// A stretch of the text, in lines (from 1) and letters (from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
    /// Letters on the first line.
    pub(crate) length: usize,
}

impl Place {
    fn of(span: Span) -> Self {
        let length = if span.start.line() == span.end.line() {
            span.end.col().saturating_sub(span.start.col())
        } else {
            1
        };
        Self {
            line: span.start.line(),
            column: span.start.col(),
            length,
        }
    }

    fn at(mark: Marker) -> Self {
        Self::of(Span::empty(mark))
    }
}

/// What stops a document from being read, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: KeyPath,
    pub(crate) place: Place,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

/// All values of a document.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

#[derive(Debug, Clone)]
struct Node {
    place: Place,
    content: Content,
    /// Values in it once every alias is written out, itself included.
    weight: usize,
}

#[derive(Debug, Clone)]
enum Content {
    Scalar,
    List(Vec<usize>),
    Map(Vec<(String, Place, usize)>),
    Alias(usize),
}

/// Places of a value and of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) value: Place,
    pub(crate) key: Option<Place>,
}

impl Tree {
    /// Reads the positions; refuses what no hand-written file has.
    pub(crate) fn read(text: &str) -> Result<Self, Fault> {
        let mut builder = Builder::new(text);
        builder.document()?;
        Ok(Self {
            nodes: builder.nodes,
        })
    }

    /// The places of the value at `path`, or of the last value on the way that there is.
    pub(crate) fn find(&self, path: &KeyPath) -> Found {
        // The root is the last value to be finished.
        let mut node = self.nodes.len() - 1;
        let mut key = None;
        for segment in path.segments() {
            let next = match (&self.nodes[self.target(node)].content, segment) {
                (Content::Map(entries), Segment::Key(wanted)) => entries
                    .iter()
                    .find(|(name, ..)| name == wanted)
                    .map(|(_, place, child)| (Some(*place), *child)),
                (Content::List(items), Segment::Index(index)) => {
                    items.get(*index).map(|child| (None, *child))
                }
                _ => None,
            };
            let Some((place, child)) = next else { break };
            (key, node) = (place, child);
        }
        let value = match &self.nodes[node].content {
            // A block map or list begins with its first key or entry; that is what to mark.
            Content::Map(entries) => entries.first().map(|(_, place, _)| *place),
            _ => None,
        };
        Found {
            value: value.unwrap_or(self.nodes[node].place),
            key,
        }
    }

    fn target(&self, node: usize) -> usize {
        match self.nodes[node].content {
            Content::Alias(target) => target,
            _ => node,
        }
    }
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    nodes: Vec<Node>,
    anchors: HashMap<usize, usize>,
    path: KeyPath,
    depth: usize,
    last: Span,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            nodes: Vec::new(),
            anchors: HashMap::new(),
            path: KeyPath::root(),
            depth: 0,
            last: Span::empty(Marker::new(0, 1, 0)),
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                self.last = span;
                Ok((event, span))
            }
            Some(Err(error)) => Err(self.scan_fault(&error)),
            None => Ok((Event::StreamEnd, self.last)),
        }
    }

    fn scan_fault(&self, error: &ScanError) -> Fault {
        let info = error.info();
        let help = if info.contains("tab") {
            Some("indent with spaces; YAML takes no tabs there".to_owned())
        } else if info.contains("unknown anchor") {
            Some("write the value out; aliases must follow their anchor".to_owned())
        } else {
            None
        };
        let what = if info.contains("recursion limit") {
            "nested too deep"
        } else {
            "not valid YAML"
        };
        Fault {
            path: self.path.clone(),
            place: Place::at(*error.marker()),
            message: format!("{what}: {info}"),
            help,
        }
    }

    fn fault(&self, span: Span, message: impl Into<String>, help: &str) -> Fault {
        Fault {
            path: self.path.clone(),
            place: Place::of(span),
            message: message.into(),
            help: Some(help.to_owned()),
        }
    }

    fn document(&mut self) -> Result<(), Fault> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => {
                    return Err(self.fault(
                        Span::empty(Marker::new(0, 1, 0)),
                        "the document is empty",
                        "write at least its required keys",
                    ));
                }
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                event => {
                    self.node(&event, span)?;
                    break;
                }
            }
        }
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(()),
                Event::DocumentEnd | Event::Nothing => {}
                _ => {
                    return Err(self.fault(
                        span,
                        "a second document begins here",
                        "keep one document in a file",
                    ));
                }
            }
        }
    }

    fn node(&mut self, event: &Event<'a>, span: Span) -> Result<usize, Fault> {
        let (anchor, tag) = match event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(anchor, tag)
            | Event::MappingStart(anchor, tag) => (*anchor, tag.as_deref()),
            _ => (0, None),
        };
        if let Some(tag) = tag {
            let message = format!("the tag `{tag}` is not read");
            return Err(self.fault(span, message, "write the plain value; drop the tag"));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(self.fault(span, message, "flatten it"));
        }
        let content = match event {
            Event::SequenceStart(..) => self.list()?,
            Event::MappingStart(..) => self.map()?,
            Event::Alias(anchor) => match self.anchors.get(anchor) {
                Some(target) => Content::Alias(*target),
                None => {
                    return Err(self.fault(
                        span,
                        "an alias to a value that contains it",
                        "write the value out",
                    ));
                }
            },
            _ => Content::Scalar,
        };
        self.depth -= 1;
        let node = self.finish(span, content)?;
        if anchor != 0 {
            self.anchors.insert(anchor, node);
        }
        Ok(node)
    }

    fn finish(&mut self, span: Span, content: Content) -> Result<usize, Fault> {
        let weigh = |node: &usize| self.nodes[*node].weight;
        let weight = match &content {
            Content::Scalar => 1,
            Content::List(items) => 1 + items.iter().map(weigh).sum::<usize>(),
            Content::Map(entries) => 1 + entries.iter().map(|(.., n)| 1 + weigh(n)).sum::<usize>(),
            Content::Alias(target) => weigh(target),
        };
        // Bounded at every value, so that no sum of bounded weights can overflow.
        if weight > MAX_NODES || self.nodes.len() >= MAX_NODES {
            let message = format!("more than {MAX_NODES} values once every alias is written out");
            return Err(self.fault(span, message, "split the file, or use fewer aliases"));
        }
        self.nodes.push(Node {
            place: Place::of(span),
            content,
            weight,
        });
        Ok(self.nodes.len() - 1)
    }

    fn list(&mut self) -> Result<Content, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Content::List(items));
            }
            let outside = self.path.clone();
            self.path = outside.clone().index(items.len());
            items.push(self.node(&event, span)?);
            self.path = outside;
        }
    }

    fn map(&mut self) -> Result<Content, Fault> {
        let mut entries: Vec<(String, Place, usize)> = Vec::new();
        let mut lines: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            let key = match event {
                Event::MappingEnd => return Ok(Content::Map(entries)),
                Event::Scalar(key, _, _, None) => key.into_owned(),
                _ => {
                    return Err(self.fault(
                        span,
                        "a key that is not a plain word",
                        "keys are words, without tags, lists, maps or aliases",
                    ));
                }
            };
            let outside = self.path.clone();
            self.path = outside.clone().key(key.as_str());
            if let Some(line) = lines.insert(key.clone(), span.start.line()) {
                let message = format!("the key `{key}` stands here for the second time");
                let help = format!("it stands in line {line} already; drop one of the two");
                return Err(self.fault(span, message, &help));
            }
            let (event, value_span) = self.next()?;
            let node = self.node(&event, value_span)?;
            entries.push((key, Place::of(span), node));
            self.path = outside;
        }
    }
}
