//! Draws the model and the user's place in it. Pure: into a buffer.

use super::model::Model;
use super::pane::{Pane, Row, Tone};
use super::state::State;
use crate::cli::output::Align;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table, Wrap};

/// The least screen on which anything can be read.
const LEAST: (u16, u16) = (40, 10);

/// Below header and notes: from here on all panes have room beside each other.
const WIDE: (u16, u16) = (140, 32);

/// Columns of a cell that may be long; the last column of a pane gets the rest.
const CELL: usize = 44;

/// Characters between columns.
const SPACING: u16 = 2;

/// Characters of a bar.
const BAR: usize = 10;

const HELP: [&str; 13] = [
    "Tab, Shift-Tab, ← →   the next pane, the one before",
    "↑ ↓, j k              choose a row; Page Up, Page Down, Home, End",
    "Enter                 of a pod or a profile: what berth explain says",
    "                      of a reason: the pods that wait for it",
    "/                     filter the pane: Enter keeps the filter, Esc drops it",
    "Esc                   drop the filter of the pane, leave a text",
    "?                     this help",
    "q, Ctrl-C             end",
    "",
    "BOUND/S, TRIED/S      over the last looks, by the leader's metrics; without them BOUND/S is",
    "                      what the watches see",
    "FILL, OF              the share of the scarcest resource that pods request, and which it is",
    "any key               leaves the help",
];

/// Whether colours are used. Everything is readable without them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colours(pub(super) bool);

impl Colours {
    fn of(self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }

    fn tone(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Note => self.of(Color::Yellow),
            Tone::Bad => self.of(Color::Red),
        }
    }
}

/// Draws everything, and notes in `state` how much fits.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, state: &mut State, colours: Colours) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("berth top needs {} columns and {} lines", LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let notes = u16::try_from(model.notes.len()).unwrap_or(u16::MAX).min(3);
    let parts = [Constraint::Length(2), Constraint::Length(notes), Constraint::Min(3), Constraint::Length(1)];
    let [header, noted, body, footer] = Layout::vertical(parts).areas(area);
    let [first, second] = &model.header;
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let lines = vec![Line::styled(first.as_str(), bold), Line::from(second.as_str())];
    frame.render_widget(Paragraph::new(lines), header);
    let lines: Vec<Line<'_>> = model.notes.iter().map(|note| Line::from(format!("! {note}"))).collect();
    frame.render_widget(Paragraph::new(lines).style(colours.of(Color::Yellow)), noted);
    if state.help {
        text(frame, body, "Keys", &HELP.map(str::to_owned), 0);
    } else if let Some(detail) = &state.detail {
        state.page = usize::from(body.height.saturating_sub(2)).max(1);
        text(frame, body, &detail.title, &detail.lines, detail.from);
    } else {
        for (pane, area) in areas(body, state.lower) {
            let page = usize::from(area.height.saturating_sub(3)).max(1);
            if pane == state.focus {
                state.page = page;
            }
            draw_pane(frame, area, pane, model, state, page, colours);
        }
    }
    frame.render_widget(Paragraph::new(foot(state)), footer);
}

fn foot(state: &State) -> Line<'static> {
    if state.typing {
        return Line::from(format!("/{}▏", state.filters[state.focus as usize]));
    }
    let hint = match (state.help, &state.detail) {
        (true, _) => "any key goes back",
        (false, Some(_)) => "↑ ↓ Page Up Page Down scroll   Esc q back",
        (false, None) => "Tab pane   ↑ ↓ choose   Enter open   / filter   ? help   q quit",
    };
    Line::styled(hint, Style::new().add_modifier(Modifier::DIM))
}

/// Which panes are drawn, and where: all of them on a large screen, else the profiles and one more.
fn areas(area: Rect, lower: Pane) -> Vec<(Pane, Rect)> {
    if area.width < WIDE.0 || area.height < WIDE.1 {
        let [upper, rest] = Layout::vertical([Constraint::Percentage(35), Constraint::Min(5)]).areas(area);
        return vec![(Pane::Profiles, upper), (lower, rest)];
    }
    let rows = [Constraint::Percentage(28), Constraint::Percentage(38), Constraint::Min(5)];
    let [upper, middle, last] = Layout::vertical(rows).areas(area);
    let halves = Layout::horizontal([Constraint::Percentage(60), Constraint::Min(20)]);
    let ([pods, reasons], [nodes, extenders]) = (halves.areas(middle), halves.areas(last));
    vec![
        (Pane::Profiles, upper),
        (Pane::Pods, pods),
        (Pane::Reasons, reasons),
        (Pane::Nodes, nodes),
        (Pane::Extenders, extenders),
    ]
}

fn frame_of(title: &str, is_focus: bool) -> Block<'static> {
    let style = if is_focus { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    Block::bordered().title(Span::styled(format!(" {title} "), style)).border_style(style)
}

fn text(frame: &mut Frame<'_>, area: Rect, title: &str, lines: &[String], from: usize) {
    let block = frame_of(title, true);
    let height = usize::from(area.height.saturating_sub(2));
    let shown: Vec<Line<'_>> = lines.iter().skip(from).take(height).map(|line| Line::from(line.as_str())).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(shown).block(block), area);
}

/// Draws the page of rows on which the chosen one is.
fn draw_pane(
    frame: &mut Frame<'_>,
    area: Rect,
    pane: Pane,
    model: &Model,
    state: &State,
    page: usize,
    colours: Colours,
) {
    let section = model.section(pane);
    let (is_focus, filter) = (pane == state.focus, &state.filters[pane as usize]);
    let mark = if is_focus { "▸ " } else { "" };
    let filtered = if filter.is_empty() { String::new() } else { format!(" /{filter}") };
    let title = format!("{mark}{} ({}){filtered}", pane.title(), section.count);
    let from = state.chosen(pane) / page * page;
    let shown = &section.rows[from.min(section.rows.len())..section.rows.len().min(from + page)];
    let columns = pane.columns();
    let cells: Vec<Vec<String>> = shown.iter().map(|row| cells(row, pane)).collect();
    let rows = shown.iter().zip(&cells).enumerate().map(|(i, (row, cells))| {
        let is_chosen = is_focus && from + i == state.chosen(pane);
        let style = colours.tone(row.tone);
        let style = if is_chosen { style.add_modifier(Modifier::REVERSED) } else { style };
        TableRow::new(columns.iter().zip(cells).map(|((_, align), cell)| aligned(cell, *align))).style(style)
    });
    let heads = columns.iter().map(|(name, align)| aligned(name, *align));
    let heads = TableRow::new(heads).style(Style::new().add_modifier(Modifier::BOLD));
    let widths = widths(pane, &cells, area.width.saturating_sub(2));
    let table = Table::new(rows, widths).header(heads).column_spacing(SPACING).block(frame_of(&title, is_focus));
    frame.render_widget(table, area);
}

fn aligned(text: &str, align: Align) -> Cell<'_> {
    let line = Line::from(text);
    Cell::from(if align == Align::Right { line.right_aligned() } else { line.left_aligned() })
}

/// The cells of a row, a bar before what has a share.
fn cells(row: &Row, pane: Pane) -> Vec<String> {
    let mut cells = row.cells.clone();
    let fill = pane.columns().iter().position(|(name, _)| *name == "FILL");
    if let (Some(share), Some(fill)) = (row.share, fill) {
        let full = usize::try_from(share.clamp(0, 100)).unwrap_or_default() * BAR / 100;
        cells[fill] = format!("{}{} {:>5}", "█".repeat(full), "░".repeat(BAR - full), cells[fill]);
    }
    cells
}

/// Of the first columns that have room in `width` cells, at least of one: as wide as what is shown, long cells cut. The last of all
/// columns takes what is left.
fn widths(pane: Pane, rows: &[Vec<String>], width: u16) -> Vec<Constraint> {
    let columns = pane.columns();
    let (mut taken, mut widths) = (0, Vec::new());
    for (i, (name, _)) in columns.iter().enumerate() {
        let cells = rows.iter().filter_map(|row| row.get(i)).map(|cell| Line::from(cell.as_str()).width());
        let is_last = i + 1 == columns.len();
        let wants = if is_last { name.len() } else { cells.chain([name.len()]).max().unwrap_or_default().min(CELL) };
        taken += wants + usize::from(i > 0) * usize::from(SPACING);
        if i > 0 && taken > usize::from(width) {
            break;
        }
        let wants = u16::try_from(wants).unwrap_or(u16::MAX);
        widths.push(if is_last { Constraint::Fill(1) } else { Constraint::Length(wants) });
    }
    widths
}

#[cfg(test)]
mod tests;
