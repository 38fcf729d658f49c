//! `berth top --once`: what the screen would show, as lines.

use super::model::Model;
use super::pane::Pane;
use crate::cli::output::Table;
use std::io::{self, Write};

/// Rows of pods and of nodes: a script that wants all of them asks `kubectl`.
const MOST: usize = 20;

/// Writes all panes, one below the other.
pub(super) fn write(out: &mut dyn Write, model: &Model) -> io::Result<()> {
    for line in &model.header {
        writeln!(out, "{line}")?;
    }
    for note in &model.notes {
        writeln!(out, "note: {note}")?;
    }
    for pane in Pane::ALL {
        let section = model.section(pane);
        // What is not there needs no heading; of profiles and pods that is an answer.
        if section.count == 0 && matches!(pane, Pane::Reasons | Pane::Extenders) {
            continue;
        }
        writeln!(out)?;
        writeln!(out, "{} ({})", pane.title(), section.count)?;
        if section.count == 0 {
            continue;
        }
        let shown = if pane == Pane::Profiles { section.rows.len() } else { section.rows.len().min(MOST) };
        let mut table = Table::new(2, pane.columns().iter().copied());
        for row in &section.rows[..shown] {
            table.row(row.cells.iter().cloned());
        }
        table.write(out)?;
        if section.count > shown {
            writeln!(out, "  … and {} more", section.count - shown)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NOW_US, apply, facts, node, pod, refused, scraped};
    use super::*;
    use crate::cli::output;

    fn text(facts: &super::super::facts::Facts) -> String {
        let model = Model::of(facts, &Default::default(), NOW_US);
        output::lines(|out| write(out, &model)).unwrap().join("\n")
    }

    /// The cells of the row that begins with `first`.
    fn row<'t>(text: &'t str, first: &str) -> Vec<&'t str> {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{first} ")));
        let line = line.unwrap_or_else(|| panic!("no row of {first} in\n{text}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
    }

    #[tokio::test]
    async fn everything_is_printed() {
        let mut facts = facts();
        scraped(&mut facts).await;
        let text = text(&facts);
        assert!(text.starts_with("berth top · https://10.0.0.1 · berth-0_1-2 leads\n"), "{text}");
        let second = "1 profile · 3 pods wait · 1 on 2 nodes · 15 % of cpu, 0 % of memory taken · 12.0 bound/s";
        assert_eq!(text.lines().nth(1), Some(second));
        let profile = ["batch", "Serving", "1", "-", "2", "-", "-", "5m", "12.0", "12.0", "1/2", "TaintToleration 2"];
        assert_eq!(row(&text, "batch"), profile);
        let train = row(&text, "ci/train");
        assert_eq!(train[..4], ["ci/train", "batch", "10m", "Unschedulable"]);
        assert!(train[4].contains("Insufficient cpu"), "{train:?}");
        assert_eq!(row(&text, "ci/later")[3], "Gated");
        assert_eq!(row(&text, "ci/lost")[1..4], ["-", "10m", "NoProfile"]);
        assert!(!text.contains("ci/others"), "kube-scheduler's\n{text}");
        assert!(text.contains("batch    node(s) were unschedulable"), "{text}");
        let gpu = ["gpu", "batch", "Degraded", "Open", "12ms", "5.0", "0.0", "0", "filter: Timeout: nothing within 2s"];
        assert_eq!(row(&text, "gpu"), gpu);
        assert_eq!(row(&text, "small")[..7], ["small", "zone-a", "75 %", "cpu", "3/4", "0/16Gi", "1/110"]);
        assert_eq!(row(&text, "large").last(), Some(&"cordoned"));
        let (small, large) = (text.find("small").unwrap(), text.find("large").unwrap());
        assert!(small < large, "fullest first\n{text}");
    }

    #[test]
    fn without_metrics_status_and_watches_answer_and_it_is_said() {
        let mut facts = facts();
        facts.not_scraped("may not get pods/proxy".to_owned());
        facts.count(std::time::Duration::from_secs(1));
        apply(&mut facts, pod("train", "1", "large"), "Pod");
        facts.count(std::time::Duration::from_secs(3));
        let text = text(&facts);
        let note = "note: metrics not read: may not get pods/proxy. Queues are from status, rates from watches";
        assert!(text.contains(note), "{text}");
        let profile = ["batch", "Serving", "0", "0", "7", "0", "0", "5m", "0.5", "-", "1/2", "NodeResourcesFit 7"];
        assert_eq!(row(&text, "batch"), profile);
    }

    #[test]
    fn many_rows_are_counted_and_hostile_names_are_only_shown() {
        let mut facts = facts();
        for i in 0..MOST + 30 {
            apply(
                &mut facts,
                refused(pod(&format!("p{i:03}"), "1", ""), "x\u{1b}]52;c;eA==\u{7}\nerror: all is lost"),
                "Pod",
            );
            apply(&mut facts, node(&format!("n{i:03}"), "1"), "Node");
        }
        let text = text(&facts);
        assert!(text.contains("  … and 33 more\n"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.lines().any(|line| line.starts_with("error:")), "{text}");
        assert!(text.contains("x\\u{1b}]52"), "{text}");
    }

    #[test]
    fn what_is_not_read_yet_is_said() {
        let text = text(&super::super::facts::Facts::default());
        assert!(text.contains("who leads is not known\nreading pods and nodes …\n"), "{text}");
        assert!(text.contains("Profiles (0)\n"), "{text}");
    }
}
