//! Expressions that select devices: whatever the text, evaluating it ends within its steps, says the same twice, and holds a bounded amount of
//! memory, as compiling it does.

use crate::SEED;
use crate::choices::{Choices, strings};
use berth_cel::{Attribute, Device, Program, QualifiedName};
use berth_core::model::Quantity;
use berth_counting::measure;

/// What an API server takes of one expression.
const LONGEST: usize = 10 << 10;

/// What an evaluation may do: as much as upstream's cost limit allows.
const STEPS: u64 = 1_000_000;

/// What compiling an expression, and evaluating it, may hold at once: a step makes one pair of values at most, of 80 bytes, in a list that may be
/// half empty.
const MOST_BYTES: usize = 160 << 20;

const WORDS: [&str; 64] = [
    "device",
    ".",
    "attributes",
    "[",
    "]",
    "\"gpu.example.com\"",
    ".model",
    " == ",
    "'A100'",
    " && ",
    " || ",
    "!",
    "(",
    ")",
    "1",
    "2.5",
    "3u",
    "-",
    " + ",
    " * ",
    " % ",
    " in ",
    " ? ",
    " : ",
    ",",
    "{",
    "}",
    "has(",
    ".all(x, ",
    ".exists(x, ",
    "x",
    ".map(x, ",
    "cel.bind(v, ",
    "optional.of(",
    "optional.none()",
    "size(",
    "quantity('8Gi')",
    ".isGreaterThan(",
    ".split('a')",
    "null",
    "b'a'",
    ".?",
    "[?",
    "string(",
    "'%s %d'.format(",
    ".matches('(a+)+')",
    ".sortBy(x, x)",
    "lists.range(",
    "[1, 2, 3]",
    "device.capacity",
    "semver('1.2.3')",
    ".join(',')",
    ".replace('a', 'aa')",
    "'aaaa'",
    ".flatten()",
    "device.driver",
    "device.allowMultipleAllocations",
    "int(",
    "v",
    "'a': ",
    "9223372036854775807",
    "duration('1h')",
    "true",
    "false",
];

pub(crate) fn target(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let text = draw(&mut choices);
    let (answers, taken) = measure(|| {
        let program = Program::compile(&text).ok()?;
        Some([evaluate(&program), evaluate(&program)])
    });
    if let Some([(first, left), (second, _)]) = answers {
        assert_eq!(first, second, "{text:?}");
        assert!(left < STEPS, "it was for nothing: {text:?}");
        assert!(first != "Err(Budget)" || left == 0, "{left} are left: {text:?}");
    }
    assert!(taken.peak <= MOST_BYTES, "{} bytes for {text:?}", taken.peak);
}

/// Else nothing would be fuzzed but the parser's complaints.
#[test]
fn drawn_expressions_compile_are_answered_and_use_up_their_steps() {
    let (mut compiled, mut answered, mut endless) = (0, 0, 0);
    for bytes in strings(SEED, 2_000) {
        let Ok(program) = Program::compile(&draw(&mut Choices::new(&bytes))) else { continue };
        compiled += 1;
        match &*evaluate(&program).0 {
            "Err(Budget)" => endless += 1,
            answer => answered += usize::from(answer.starts_with("Ok")),
        }
    }
    println!("{compiled} of 2,000 compile, {answered} are true or false, {endless} use up their steps");
    assert!(compiled > 400 && answered > 100 && endless > 20);
}

/// The answer, and the steps that are left.
fn evaluate(program: &Program) -> (String, u64) {
    let name = |text| QualifiedName::parse(text);
    let attributes = [
        (name("model"), Attribute::Text("A100".into())),
        (name("other.example.com/x"), Attribute::Int(1)),
        (name("version"), Attribute::Version("1.2.3".into())),
    ];
    let capacity = [(name("memory"), Quantity::parse("80Gi").unwrap())];
    let device = Device {
        driver: "gpu.example.com",
        allow_multiple_allocations: false,
        attributes: &attributes,
        capacity: &capacity,
    };
    let mut steps = STEPS;
    let answer = program.matches(&device, &mut steps);
    (format!("{answer:?}"), steps)
}

/// Words in any order; some of them again and again, or each value made of the one before.
fn draw(choices: &mut Choices<'_>) -> String {
    let mut text = match choices.below(4) {
        0 => {
            let part = words(choices, 4);
            part.repeat((LONGEST / part.len().max(1)).min(1 + choices.below(1_000)))
        }
        1 => {
            let (init, depth) =
                (choices.pick(&["'aaaa'", "[1, 2]", "{1: 1}", "optional.of(1)", "b'aa'"]), 1 + choices.below(120));
            let step = choices.pick(&[
                "$ + $",
                "[$, $]",
                "{1: $}",
                "$.replace('', $)",
                "[$, $].flatten()",
                "'%s'.format([$])",
            ]);
            let binding = |n: usize| format!("cel.bind(v{n}, {}, ", step.replace('$', &format!("v{}", n - 1)));
            let bindings = (1..depth).map(binding).collect::<Vec<_>>().concat();
            let last = format!("v{}", depth - 1);
            let end = choices
                .pick(&["size($) > 0", "$ == $", "'%s'.format([$]) == ''", "string($) == ''"])
                .replace('$', &last);
            format!("cel.bind(v0, {init}, {bindings}{end}{}", ")".repeat(depth))
        }
        2 => {
            let (depth, range) =
                (1 + choices.below(40), choices.pick(&["lists.range(1000)", "[1, 2, 3, 4]", "device.attributes"]));
            let begin = (0..depth).map(|n| format!("{range}.all(x{n}, ")).collect::<Vec<_>>();
            begin.concat() + "true" + &")".repeat(depth)
        }
        _ => words(choices, 60),
    };
    text.truncate(LONGEST);
    text
}

fn words(choices: &mut Choices<'_>, most: usize) -> String {
    (0..=choices.below(most)).map(|_| choices.pick(&WORDS)).collect()
}
