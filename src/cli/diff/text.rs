use super::Difference;
use crate::cli::compared::{write_comparison, write_list};
use crate::cli::output::Align::{Left, Right};
use crate::cli::output::{Table, bytes, counted, cpu};
use berth_simulate::{Figures, Lost, ReplayDifference, Share};
use std::io::{self, Write};

pub(super) fn write(out: &mut dyn Write, difference: &Difference) -> io::Result<()> {
    let Difference { waiting, placed, crossed } = difference;
    writeln!(out, "WAITING PODS")?;
    writeln!(out)?;
    write_comparison(out, waiting)?;
    writeln!(out)?;
    writeln!(out, "PLACED PODS, PLACED ANEW AS THEY CAME")?;
    writeln!(out)?;
    write_placed(out, placed)?;
    if !crossed.is_empty() {
        writeln!(out)?;
        writeln!(out, "limits crossed:")?;
        for limit in crossed {
            writeln!(out, "  {limit}")?;
        }
    }
    Ok(())
}

fn write_placed(out: &mut dyn Write, placed: &ReplayDifference) -> io::Result<()> {
    let ReplayDifference { pods, stay, same, moved, no_longer_fit, fit_now, as_it_is, first, second } = placed;
    let columns = [("", Left), ("AS IT IS", Right), ("PRESENT", Right), ("CHANGED", Right)];
    let mut table = Table::new(0, columns);
    let without = [first, second].map(|side| side.without_a_node.to_string());
    table.row(["without a node".to_owned(), "-".to_owned()].into_iter().chain(without));
    let mut row = |what: &str, value: &dyn Fn(&Figures) -> String| {
        table.row(std::iter::once(what.to_owned()).chain([as_it_is, &first.figures, &second.figures].map(value)));
    };
    row("nodes used", &|f| of(f.nodes_used));
    row("CPU requested, of used nodes", &|f| percent(f.requested.cpu));
    row("memory requested, of used nodes", &|f| percent(f.requested.memory));
    row("workloads on one node", &|f| of(f.on_one_node));
    row("workloads in one zone", &|f| of(f.in_one_zone));
    row("free CPU stranded", &|f| percent(f.stranded.cpu));
    row("free memory stranded", &|f| percent(f.stranded.memory));
    table.write(out)?;
    writeln!(out)?;
    writeln!(
        out,
        "{}: with the changed profiles {same} on the same node as with the present ones, {moved} on another; {stay} stay where they are",
        counted(*pods, "pod")
    )?;
    if *pods > 0 {
        let typical = as_it_is.typical;
        writeln!(
            out,
            "stranded: on nodes without room for {} CPU and {} of memory, which nine of ten pods do not exceed",
            cpu(typical.cpu),
            bytes(typical.memory)
        )?;
    }
    write_lost(out, "without a node now", no_longer_fit)?;
    write_lost(out, "placed now", fit_now)
}

fn write_lost(out: &mut dyn Write, what: &str, pods: &[Lost]) -> io::Result<()> {
    let rows = pods.iter().map(|pod| [format!("{}/{}", pod.namespace, pod.name), pod.message.clone()]);
    write_list(out, (pods.len(), "placed pod", what), ["POD", "WHY NOT"], rows)
}

fn of(share: Share) -> String {
    format!("{}/{}", share.part, share.of)
}

/// `12.3 %`; a dash of nothing.
pub(super) fn percent(share: Share) -> String {
    if share.of == 0 {
        return "-".to_owned();
    }
    let permille = share.permille();
    format!("{}.{} %", permille / 10, permille % 10)
}
