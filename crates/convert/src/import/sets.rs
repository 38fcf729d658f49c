//! Plugin sets: those of a profile laid over the default ones, and what comes of it at each extension point.

use super::catalogue::{PLUGINS, Plugin, Point, REMOVED, find};
use super::loss::Report;
use super::node::{ImportError, Node};

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) plugin: &'static Plugin,
    /// 0 where none is written.
    weight: i32,
    /// The path in the document; empty for a plugin of the default profile.
    pub(super) field: String,
}

#[derive(Debug, Default)]
struct Set {
    enabled: Vec<Entry>,
    disabled: Vec<String>,
}

impl Set {
    fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|d| d == name || d == "*")
    }
}

/// The plugins of a profile, merged and expanded.
#[derive(Debug)]
pub(super) struct Plugins {
    points: Vec<(Point, Vec<Entry>)>,
    /// Names in the order in which the queue-sort plugins are switched, which all profiles share.
    pub(super) queue_sort: (Vec<&'static str>, Vec<String>),
    /// Where the weights of scores are looked up: the entries of the score point first, then those of multiPoint.
    weights: Vec<Entry>,
}

impl Plugins {
    /// Reads the field `plugins` of a profile; without one the default profile's plugins stand.
    pub(super) fn read(plugins: Option<&Node<'_>>, report: &mut Report) -> Result<Self, ImportError> {
        let known: Vec<&str> = Point::ALL.iter().map(|(_, field)| *field).chain(["multiPoint"]).collect();
        let fields = plugins.map(|plugins| plugins.fields(&known)).transpose()?;
        let mut read = |field: &str| match fields.as_ref().and_then(|f| f.get(field)) {
            Some(set) => read_set(&set, report),
            None => Ok(Set::default()),
        };
        let multi = with_defaults(read("multiPoint")?)?;
        let (mut points, mut weights, mut queue_sort) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
        for (point, field) in Point::ALL {
            let own = read(field)?;
            check(&own, point)?;
            if point == Point::Score {
                weights.clone_from(&own.enabled);
            }
            if point == Point::QueueSort {
                queue_sort = (own.enabled.iter().map(|e| e.plugin.name).collect(), own.disabled.clone());
            }
            points.push((point, expand(&own, &multi, point)));
        }
        weights.extend(multi);
        Ok(Self { points, queue_sort, weights })
    }

    /// The plugins that run at `point`, in their order.
    pub(super) fn at(&self, point: Point) -> &[Entry] {
        self.points.iter().find(|(p, _)| *p == point).map_or(&[], |(_, entries)| entries)
    }

    /// Whether `plugin` runs at `point`.
    pub(super) fn runs(&self, plugin: &Plugin, point: Point) -> bool {
        self.at(point).iter().any(|entry| entry.plugin == plugin)
    }

    /// The weight of a score, and where it is written. No weight, and 0, mean 1.
    pub(super) fn weight(&self, plugin: &Plugin) -> (i32, &str) {
        let entry = self.weights.iter().find(|entry| entry.plugin == plugin);
        entry.map_or((1, ""), |e| (if e.weight == 0 { 1 } else { e.weight }, e.field.as_str()))
    }
}

fn read_set(set: &Node<'_>, report: &mut Report) -> Result<Set, ImportError> {
    let fields = set.fields(&["enabled", "disabled"])?;
    let mut read = Set::default();
    for item in fields.list("enabled")? {
        let entry = item.fields(&["name", "weight"])?;
        let name = entry.need("name", "name a plugin")?;
        let weight = entry.int_or("weight", 0)?;
        read.enabled.push(Entry { plugin: known_plugin(&name)?, weight, field: item.path().to_owned() });
    }
    for item in fields.list("disabled")? {
        // A weight is part of the type, but has no effect here.
        let name = item.fields(&["name", "weight"])?.need("name", "name a plugin, or \"*\" for all")?;
        let text = name.text()?;
        if text != "*" && find(text).is_none() {
            report.note(name.path(), format!("no plugin is named {text}: there is nothing to disable"));
        }
        read.disabled.push(text.to_owned());
    }
    Ok(read)
}

fn known_plugin(name: &Node<'_>) -> Result<&'static Plugin, ImportError> {
    let text = name.text()?;
    find(text).ok_or_else(|| {
        let (message, fix) = if REMOVED.contains(&text) {
            ("was removed from kube-scheduler", "remove it: NodeVolumeLimits does its work")
        } else {
            (
                "is not a plugin of kube-scheduler 1.36",
                "correct its spelling or remove it; plugins built elsewhere cannot run here",
            )
        };
        name.bad(format!("{text:?} {message}"), fix)
    })
}

/// Lays multiPoint over the default profile's plugins. A plugin of the default profile keeps its place in the order.
fn with_defaults(own: Set) -> Result<Vec<Entry>, ImportError> {
    let Set { mut enabled, disabled } = own;
    let mut merged = Vec::new();
    for plugin in PLUGINS.iter().filter(|plugin| plugin.default.is_some()) {
        if disabled.iter().any(|d| d == plugin.name || d == "*") {
            continue;
        }
        // If a plugin is listed twice, the last replaces the default; the other stays and is refused as a double.
        match enabled.iter().rposition(|entry| entry.plugin == plugin) {
            Some(at) => merged.push(enabled.remove(at)),
            None => merged.push(Entry { plugin, weight: plugin.default.unwrap_or_default(), field: String::new() }),
        }
    }
    merged.extend(enabled);
    no_doubles(&merged)?;
    Ok(merged)
}

/// Refuses plugins that do not take part at `point`, or that are enabled there twice.
fn check(own: &Set, point: Point) -> Result<(), ImportError> {
    if let Some(entry) = own.enabled.iter().find(|entry| !entry.plugin.points.contains(&point)) {
        let points: Vec<&str> = entry.plugin.points.iter().map(|p| p.field()).collect();
        return Err(ImportError::new(
            &entry.field,
            format!("{} has no {}", entry.plugin.name, point.field()),
            format!("remove it here; it takes part in {}", points.join(", ")),
        ));
    }
    no_doubles(&own.enabled)
}

fn no_doubles(entries: &[Entry]) -> Result<(), ImportError> {
    let double = |i: &usize| entries[..*i].iter().any(|e| e.plugin == entries[*i].plugin);
    match (0..entries.len()).find(double) {
        None => Ok(()),
        Some(i) => Err(ImportError::new(
            &entries[i].field,
            format!("{} is enabled twice", entries[i].plugin.name),
            "keep one of the entries",
        )),
    }
}

/// What runs at `point`: what is enabled there and for all points, in the order given there; then what is enabled for
/// all points and not disabled there; then what is enabled there alone.
fn expand(own: &Set, multi: &[Entry], point: Point) -> Vec<Entry> {
    if own.disabled.iter().any(|d| d == "*") {
        return own.enabled.clone();
    }
    let general: Vec<&Entry> =
        multi.iter().filter(|e| e.plugin.points.contains(&point) && !own.disables(e.plugin.name)).collect();
    let (overriding, alone): (Vec<&Entry>, Vec<&Entry>) =
        own.enabled.iter().partition(|e| general.iter().any(|g| g.plugin == e.plugin));
    let rest = general.into_iter().filter(|g| !own.enabled.iter().any(|e| e.plugin == g.plugin));
    overriding.into_iter().chain(rest).chain(alone).cloned().collect()
}
