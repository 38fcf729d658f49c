use super::Answered;
use crate::cli::output::Align::{Left, Right};
use crate::cli::output::{Table, amount, counted};
use berth_simulate::{Headroom, Scarcest, Stop};
use std::io::{self, Write};

/// Rows of a table before the rest is only counted. JSON has all.
const ROWS: usize = 20;

pub(super) fn write(out: &mut dyn Write, answered: &Answered) -> io::Result<()> {
    let Answered { like, headroom } = answered;
    writeln!(out, "{}", headline(like, headroom))?;
    write_counts(out, headroom)?;
    if let Some(Stop { reason, message }) = &headroom.stop {
        writeln!(out)?;
        writeln!(out, "the next one: {reason}")?;
        writeln!(out, "  {message}")?;
    }
    if let Some(scarcest) = &headroom.scarcest {
        writeln!(out)?;
        writeln!(out, "{}", in_words(scarcest))?;
    }
    Ok(())
}

fn headline(like: &str, headroom: &Headroom) -> String {
    let count = headroom.count;
    let fit = match (headroom.limit_reached, count) {
        (true, _) => format!("at least {count} more fit (--limit)"),
        (false, 1) => "1 more fits".to_owned(),
        (false, _) => format!("{count} more fit"),
    };
    let mut line = format!("{fit}, {like}");
    if let Some(profile) = &headroom.profile {
        line.extend([" · profile ", profile]);
    }
    if headroom.placed_before > 0 {
        line.extend(["; ", &counted(headroom.placed_before, "pending pod"), " placed first"]);
    }
    if headroom.waiting > 0 {
        line.extend(["; ", &counted(headroom.waiting, "pending pod"), " left aside, which fit nowhere"]);
    }
    line
}

fn write_counts(out: &mut dyn Write, headroom: &Headroom) -> io::Result<()> {
    if headroom.zones.len() > 1 || headroom.zones.iter().any(|of| of.zone.is_some()) {
        let mut table = Table::new(0, [("ZONE", Left), ("MORE", Right)]);
        for of in headroom.zones.iter().take(ROWS) {
            table.row([of.zone.as_deref().unwrap_or("-").to_owned(), of.count.to_string()]);
        }
        write_table(out, &table, headroom.zones.len())?;
    }
    let mut table = Table::new(0, [("NODE", Left), ("ZONE", Left), ("MORE", Right)]);
    for of in headroom.nodes.iter().take(ROWS) {
        table.row([of.node.to_string(), of.zone.as_deref().unwrap_or("-").to_owned(), of.count.to_string()]);
    }
    write_table(out, &table, headroom.nodes.len())
}

fn write_table(out: &mut dyn Write, table: &Table, count: usize) -> io::Result<()> {
    if count == 0 {
        return Ok(());
    }
    writeln!(out)?;
    table.write(out)?;
    if count > ROWS { writeln!(out, "and {} more", count - ROWS) } else { Ok(()) }
}

fn in_words(scarcest: &Scarcest) -> String {
    let Scarcest { resource, nodes_lacking, nodes, requested, most_free, most_free_on, used, allocatable } = scarcest;
    let of = |value: i64| amount(resource, value);
    let percent = i128::from(*used) * 100 / i128::from((*allocatable).max(1));
    format!(
        "scarcest: {resource}, which {nodes_lacking} of {nodes} nodes lack: one asks for {}, most free of these {} on {most_free_on}; \
         {percent} % of {} in use",
        of(*requested),
        of(*most_free),
        of(*allocatable)
    )
}
