//! The panes, and what a row of one is. Each cell has passed [`plain`]: no name moves the cursor.

use crate::cli::output::Align::{self, Left, Right};
use crate::cli::output::plain;
use berth_core::model::PodKey;

/// Rows of one pane: whoever looks for more uses the filter.
pub(super) const MOST_ROWS: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pane {
    Profiles,
    Pods,
    Reasons,
    Extenders,
    Nodes,
}

impl Pane {
    pub(super) const ALL: [Self; 5] = [Self::Profiles, Self::Pods, Self::Reasons, Self::Extenders, Self::Nodes];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Profiles => "Profiles",
            Self::Pods => "Waiting pods",
            Self::Reasons => "Why pods wait",
            Self::Extenders => "Extenders",
            Self::Nodes => "Nodes by fill",
        }
    }

    pub(super) const fn columns(self) -> &'static [(&'static str, Align)] {
        match self {
            Self::Profiles => &[
                ("PROFILE", Left),
                ("STATE", Left),
                ("ACTIVE", Right),
                ("BACKOFF", Right),
                ("UNSCHED", Right),
                ("GATED", Right),
                ("HELD", Right),
                ("OLDEST", Right),
                ("BOUND/S", Right),
                ("TRIED/S", Right),
                ("NODES", Right),
                ("MOST REFUSED BY", Left),
            ],
            Self::Pods => &[("POD", Left), ("PROFILE", Left), ("WAITS", Right), ("STATE", Left), ("WHY", Left)],
            Self::Reasons => &[("PODS", Right), ("PROFILE", Left), ("REASON", Left)],
            Self::Extenders => &[
                ("EXTENDER", Left),
                ("PROFILE", Left),
                ("STATE", Left),
                ("CIRCUIT", Left),
                ("P99", Right),
                ("CALLS/S", Right),
                ("FAILED/S", Right),
                ("IN FLIGHT", Right),
                ("LAST ERROR", Left),
            ],
            Self::Nodes => &[
                ("NODE", Left),
                ("ZONE", Left),
                ("FILL", Right),
                ("OF", Left),
                ("CPU", Right),
                ("MEMORY", Right),
                ("PODS", Right),
                ("STATE", Left),
            ],
        }
    }
}

/// How a row is meant, for terminals with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Tone {
    #[default]
    Plain,
    Note,
    Bad,
}

/// What Enter opens on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Profile(String),
    Pod(PodKey),
    /// The pods of a profile that wait for a reason.
    Reason(String, String),
    /// Nothing; it tells the row from others.
    Node(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    pub(super) tone: Tone,
    pub(super) target: Target,
    /// What is drawn as a bar, in percent.
    pub(super) share: Option<i64>,
}

impl Row {
    pub(super) fn new(tone: Tone, target: Target, cells: impl IntoIterator<Item = String>) -> Self {
        let cells = cells.into_iter().map(|cell| plain(&cell).into_owned()).collect();
        Self { cells, tone, target, share: None }
    }
}

/// The rows of a pane that pass its filter, [`MOST_ROWS`] at most.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) rows: Vec<Row>,
    /// Rows that pass the filter, shown or not.
    pub(super) count: usize,
}

impl Section {
    /// Of rows in their order, those in which `filter` occurs. Without one, rows that are not shown are not made.
    pub(super) fn of(rows: impl ExactSizeIterator<Item = Row>, filter: &str) -> Self {
        if filter.is_empty() {
            return Self { count: rows.len(), rows: rows.take(MOST_ROWS).collect() };
        }
        let (filter, mut section) = (filter.to_lowercase(), Self::default());
        for row in rows.filter(|row| row.cells.iter().any(|cell| cell.to_lowercase().contains(&filter))) {
            section.count += 1;
            if section.rows.len() < MOST_ROWS {
                section.rows.push(row);
            }
        }
        section
    }
}

/// A filter for each pane; an empty one lets everything pass.
pub(super) type Filters = [String; 5];
