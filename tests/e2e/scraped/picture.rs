//! A picture of the dashboard's panels, where they stand, with the curves, units and legends that Grafana would show.

use std::fmt::Write as _;

use serde_json::Value;

/// Width and height of one unit of Grafana's grid, which has 24 columns.
const UNIT: (f64, f64) = (45.0, 20.0);

/// Colours of curves, light and dark: told apart by who cannot tell red from green, too.
const COLOURS: [(&str, &str); 8] = [
    ("#2268a9", "#4a8fc7"),
    ("#d98a1f", "#f2a33c"),
    ("#2a8f6d", "#3fb68e"),
    ("#a64d79", "#d07ba6"),
    ("#6b5fb5", "#978ce0"),
    ("#7a7f29", "#b5bb4a"),
    ("#b8433b", "#e3766e"),
    ("#5a606a", "#a4acb7"),
];

/// Rows of a legend, and how wide its letters are.
const LEGEND_ROWS: usize = 2;
const LETTER: f64 = 5.6;

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// One curve: its legend, and seconds and values.
struct Curve {
    legend: String,
    points: Vec<(f64, f64)>,
}

/// A rectangle of the picture.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

impl Place {
    fn of(panel: &Value) -> Self {
        let at = |side: &str| panel["gridPos"][side].as_f64().unwrap();
        Self { x: at("x") * UNIT.0, y: at("y") * UNIT.1, width: at("w") * UNIT.0, height: at("h") * UNIT.1 }
    }
}

/// The picture of `dashboard`; `ask` has the series that a query found.
pub(super) fn draw(dashboard: &Value, ask: impl Fn(&str) -> Vec<Value>) -> String {
    let panels = dashboard["panels"].as_array().unwrap();
    let drawn: Vec<(&Value, Vec<Curve>)> = panels.iter().map(|panel| (panel, curves(panel, &ask))).collect();
    let times = drawn.iter().flat_map(|(_, curves)| curves.iter().flat_map(|curve| curve.points.iter().map(|at| at.0)));
    let (begin, end) = times.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let bottom = panels.iter().map(Place::of).map(|place| place.y + place.height).fold(0.0, f64::max);
    let mut svg = head(24.0 * UNIT.0, bottom);
    for (panel, curves) in &drawn {
        let (place, title) = (Place::of(panel), panel["title"].as_str().unwrap());
        if panel["type"] == "row" {
            text(&mut svg, place.x + 6.0, place.y + 15.0, "t", title);
        } else {
            let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap();
            drawn_panel(&mut svg, place, (title, unit), curves, (begin, end));
        }
    }
    svg + "</svg>\n"
}

/// What the queries of a panel find.
fn curves(panel: &Value, ask: impl Fn(&str) -> Vec<Value>) -> Vec<Curve> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    let found = targets.flat_map(|target| {
        let format = target["legendFormat"].as_str().unwrap();
        ask(target["expr"].as_str().unwrap()).into_iter().map(move |series| Curve {
            legend: legend(format, &series["metric"]),
            points: series["values"].as_array().unwrap().iter().filter_map(point).collect(),
        })
    });
    found.filter(|curve| !curve.points.is_empty()).collect()
}

/// A time and a value, unless that is no number.
fn point(at: &Value) -> Option<(f64, f64)> {
    let value: f64 = at[1].as_str()?.parse().ok()?;
    value.is_finite().then_some((at[0].as_f64()?, value))
}

/// `{{label}}` filled in.
fn legend(format: &str, labels: &Value) -> String {
    let labels = labels.as_object().unwrap().iter();
    labels.fold(format.to_owned(), |text, (label, value)| {
        text.replace(&format!("{{{{{label}}}}}"), value.as_str().unwrap_or_default())
    })
}

fn head(width: f64, height: f64) -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    for (i, colours) in COLOURS.iter().enumerate() {
        write!(light, ".c{i}{{stroke:{}}}", colours.0).unwrap();
        write!(dark, ".c{i}{{stroke:{}}}", colours.1).unwrap();
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"The panels of the dashboard, of a run of three minutes\">\n<style>\n\
         text{{font:11px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Noto Sans\",sans-serif;fill:#1c1e22}}\n\
         .t{{font-weight:600;font-size:12px}}.m{{fill:#5a606a;font-size:10px}}.e{{fill:#5a606a;font-size:10px;text-anchor:end}}\
         .bg{{fill:#fff}}.p{{fill:#f6f7f9;stroke:#dfe2e7}}.g{{stroke:#dfe2e7}}path{{fill:none;stroke-width:1.5;stroke-linejoin:round}}\n{light}\n\
         @media(prefers-color-scheme:dark){{text{{fill:#e9ebee}}.m,.e{{fill:#a4acb7}}.bg{{fill:#1a1d22}}.p{{fill:#22262c;stroke:#343a43}}\
         .g{{stroke:#343a43}}{dark}}}\n</style>\n<rect class=\"bg\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
    )
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    writeln!(svg, "<text x=\"{x:.0}\" y=\"{y:.0}\" class=\"{class}\">{escaped}</text>").unwrap();
}

fn drawn_panel(svg: &mut String, at: Place, (title, unit): (&str, &str), curves: &[Curve], (begin, end): (f64, f64)) {
    let Place { x, y, width, height } = at;
    let frame = (x + 3.0, y + 3.0, width - 6.0, height - 6.0);
    writeln!(
        svg,
        "<rect class=\"p\" x=\"{:.0}\" y=\"{:.0}\" width=\"{:.0}\" height=\"{:.0}\" rx=\"3\"/>",
        frame.0, frame.1, frame.2, frame.3
    )
    .unwrap();
    text(svg, x + 12.0, y + 20.0, "t", title);
    let plot = Place { x: x + 58.0, y: y + 30.0, width: width - 72.0, height: height - 80.0 };
    let highest = curves.iter().flat_map(|curve| curve.points.iter().map(|at| at.1)).fold(0.0, f64::max);
    let scale = if unit == "bytes" { MIB } else { 1.0 };
    let top = round_up(highest / scale) * scale;
    for part in 0..=2 {
        let level = plot.y + plot.height * (1.0 - f64::from(part) / 2.0);
        writeln!(svg, "<path class=\"g\" d=\"M{:.0} {level:.0}h{:.0}\"/>", plot.x, plot.width).unwrap();
        text(svg, plot.x - 5.0, level + 3.0, "e", &shown(top * f64::from(part) / 2.0, unit));
    }
    for (part, class) in [(0.0, "m"), (1.0, "e")] {
        let seconds = (end - begin) * part;
        let clock = format!("{:.0}:{:02.0}", (seconds / 60.0).floor(), seconds % 60.0);
        text(svg, plot.x + plot.width * part, plot.y + plot.height + 12.0, class, &clock);
    }
    for (i, curve) in curves.iter().enumerate() {
        let place = |(time, value): (f64, f64)| {
            let along = plot.x + (time - begin) / (end - begin) * plot.width;
            (along, plot.y + plot.height * (1.0 - value / top))
        };
        let step = if end > begin { (end - begin) / 60.0 } else { 1.0 };
        line(svg, i % COLOURS.len(), curve.points.iter().map(|at| (at.0, place(*at))), step);
    }
    legends(svg, Place { x: x + 12.0, y: plot.y + plot.height + 28.0, width: width - 24.0, height: 0.0 }, curves);
}

/// A curve, interrupted where nothing was found for longer than `gap` seconds.
fn line(svg: &mut String, colour: usize, points: impl Iterator<Item = (f64, (f64, f64))>, gap: f64) {
    let (mut path, mut last) = (String::new(), f64::MIN);
    for (time, (x, y)) in points {
        let pen = if time - last > gap { 'M' } else { 'L' };
        write!(path, "{pen}{x:.0} {y:.1}").unwrap();
        if pen == 'M' {
            // A point alone is seen.
            path.push_str("h1");
        }
        last = time;
    }
    writeln!(svg, "<path class=\"c{colour}\" d=\"{path}\"/>").unwrap();
}

/// The legends that there is room for, and how many more there are.
fn legends(svg: &mut String, at: Place, curves: &[Curve]) {
    let (mut x, mut row) = (at.x, 0);
    for (i, curve) in curves.iter().enumerate() {
        let wide = 22.0 + LETTER * curve.legend.chars().count() as f64;
        let more = format!("and {} more", curves.len() - i);
        let kept = if i + 1 < curves.len() && row + 1 == LEGEND_ROWS { LETTER * more.len() as f64 } else { 0.0 };
        if x > at.x && x + wide + kept > at.x + at.width {
            if row + 1 == LEGEND_ROWS {
                return text(svg, x, at.y + 14.0 * row as f64, "m", &more);
            }
            (x, row) = (at.x, row + 1);
        }
        let y = at.y + 14.0 * row as f64;
        writeln!(svg, "<path class=\"c{}\" d=\"M{x:.0} {:.0}h10\"/>", i % COLOURS.len(), y - 3.5).unwrap();
        text(svg, x + 14.0, y, "m", &curve.legend);
        x += wide;
    }
}

/// The next of 1, 2, 5, 10, 20, …; 1 for nothing.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|round| *round >= value * 0.999).unwrap_or(value)
}

/// A value as Grafana writes it in this unit.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "s" if value == 0.0 => "0 s".to_owned(),
        "s" if value < 1e-3 => format!("{} µs", short(value * 1e6)),
        "s" if value < 1.0 => format!("{} ms", short(value * 1e3)),
        "s" => format!("{} s", short(value)),
        "ops" => format!("{}/s", short(value)),
        "percentunit" => format!("{}%", short(value * 100.0)),
        "bytes" => format!("{} MiB", short(value / MIB)),
        _ => short(value),
    }
}

/// Three digits at most behind the point, and no zeros there.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
