//! Whatever somebody writes as a selector, compiling and evaluating it ends, without a panic and within its steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::format_push_string, clippy::format_collect)]

use berth_cel::{Attribute, Device, EvalError, Program, QualifiedName};
use berth_quantity::Quantity;
use proptest::prelude::*;
use std::time::Instant;

/// What an evaluation may do here.
const STEPS: u64 = 1_000_000;

fn with_device<T>(ask: impl FnOnce(&Device<'_>) -> T) -> T {
    let name = |text| QualifiedName::parse(text);
    let mut attributes = [
        (name("model"), Attribute::Text("A100".into())),
        (name("version"), Attribute::Version("1.2.3".into())),
        (name("other.example.com/x"), Attribute::Int(1)),
    ];
    attributes.sort_by(|a, b| a.0.cmp(&b.0));
    let capacity = [(name("memory"), Quantity::parse("80Gi").unwrap())];
    ask(&Device {
        driver: "gpu.example.com",
        allow_multiple_allocations: false,
        attributes: &attributes,
        capacity: &capacity,
    })
}

/// On a small stack, as threads of a runtime have it; `None` if it does not compile.
fn asked(text: String) -> Option<Result<bool, EvalError>> {
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let run = move || {
        let program = Program::compile(&text).ok()?;
        Some(with_device(|device| program.matches(device, &mut STEPS.clone())))
    };
    thread.spawn(run).unwrap().join().unwrap()
}

/// Repeats a text until the whole has the length that an API server takes.
fn up_to(length: usize, part: &str) -> String {
    part.repeat(length / part.len())
}

#[test]
fn what_is_too_large_ends_in_time() {
    let doubled = |init: &str, step: &str, end: &str| {
        let mut text = format!("cel.bind(v0, {init}, ");
        for n in 1..200 {
            text += &format!("cel.bind(v{n}, {}, ", step.replace('$', &format!("v{}", n - 1)));
        }
        text + &end.replace('$', "v199") + &")".repeat(200)
    };
    let nested = |range: &str, depth: usize, end: &str| {
        let begin: String = (0..depth).map(|n| format!("{range}.all(x{n}, ")).collect();
        begin + end + &")".repeat(depth)
    };
    for text in [
        up_to(10_000, "("),
        up_to(10_000, "!"),
        up_to(10_000, "-"),
        up_to(10_000, "'''"),
        up_to(10_000, "[["),
        up_to(10_000, "a.b"),
        format!("{}true{}", "(".repeat(250), ")".repeat(250)),
        format!("{}1{} == []", "[".repeat(240), "]".repeat(240)),
        format!("true{}", up_to(10_000, " && true")),
        format!("true{}", up_to(10_000, " ? true : true")),
        format!("size('a{}') == 0", up_to(9_000, "' + 'a")),
        format!("[{}1].all(x, true)", up_to(10_000, "1,")),
        doubled("'aaaaaaaaaa'", "$ + $", "size($) > 0"),
        doubled("[1, 2]", "$ + $", "size($) > 0"),
        doubled("[1, 2]", "[$, $]", "$ == $"),
        doubled("[1, 2]", "[$, $]", "'%s'.format([$]) == ''"),
        doubled("{1: 1}", "{$: $}", "$ == $"),
        doubled("{'a': 1}", "{'a': $, 'b': $}", "$ == $"),
        doubled("[1, 2]", "[$, $].flatten()", "size($) > 0"),
        doubled("'ab'", "$.replace('', $)", "size($) > 0"),
        doubled("'a,b'", "[$, $].join(',')", "$.split(',').size() > 0"),
        doubled("optional.of(1)", "$.optMap(x, x + 1)", "$.hasValue()"),
        doubled("[]", "[$, $]", "$ == $"),
        nested("lists.range(1000)", 20, "true"),
        nested("[1, 2, 3, 4, 5, 6, 7, 8]", 40, "true"),
        nested("lists.range(9223372036854775807)", 1, "true"),
        "lists.range(1000).map(x, lists.range(1000).map(y, lists.range(1000))).size() > 0".to_owned(),
        format!("optional.of(1){}.hasValue()", up_to(9_000, ".optMap(x, x)")),
        "'a'.matches('((a{1,100}){1,100}){1,100}')".to_owned(),
        format!("'{}'.matches('(a*)*b')", up_to(9_000, "a")),
        "lists.range(500).all(x, 'a'.matches('a{' + string(x + 1) + '}') || true)".to_owned(),
        format!("'%.{}f'.format([1.0]) == ''", "9".repeat(30)),
        "'%.999999999f'.format([1.0]) == ''".to_owned(),
        format!("'{}'.lastIndexOf('{}b') == 0", up_to(4_000, "a"), up_to(4_000, "a")),
    ] {
        let begun = Instant::now();
        let answer = asked(text.clone());
        let took = begun.elapsed();
        println!("{:>9.2?} {answer:?} {}", took, text.chars().take(60).collect::<String>());
        // Generous, and far from what any of these would take without bounds.
        assert!(took.as_secs() < 20, "{took:?} for {}", &text[..60.min(text.len())]);
    }
}

#[test]
fn steps_are_counted_down_and_end_an_evaluation() {
    let program = Program::compile("lists.range(100).all(x, x >= 0)").unwrap();
    with_device(|device| {
        let mut steps = STEPS;
        assert_eq!(program.matches(device, &mut steps), Ok(true));
        let used = STEPS - steps;
        assert!((100..2_000).contains(&used), "{used}");
        assert_eq!(program.matches(device, &mut (used - 1)), Err(EvalError::Budget));
        let absorbed = Program::compile("lists.range(100).all(x, x >= 0) || true").unwrap();
        assert_eq!(absorbed.matches(device, &mut 50), Err(EvalError::Budget), "no operator saves it");
    });
}

/// The selector of the target below.
const ORDINARY: &str = "device.attributes[\"gpu.example.com\"].model == \"A100\" && \
                        device.capacity[\"gpu.example.com\"].memory.isGreaterThan(quantity(\"40Gi\"))";

/// `cargo test --release -p berth-cel --test hostile -- --ignored --nocapture`: at most 200 ns a device are wanted.
#[test]
#[ignore = "measures"]
fn time_a_device() {
    for text in [
        ORDINARY,
        "device.attributes[\"gpu.example.com\"].version.isGreaterThan(semver(\"1.0.0\"))",
        "device.driver == \"x\"",
    ] {
        let program = Program::compile(text).unwrap();
        with_device(|device| {
            let rounds = 1_000_000;
            let begun = Instant::now();
            let found = (0..rounds).filter(|_| program.matches(device, &mut 10_000) == Ok(true)).count();
            println!("{:?} a device, {found} of {rounds} match: {text}", begun.elapsed() / rounds);
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_has_an_answer(text in "\\PC{0,60}") {
        if let Ok(program) = Program::compile(&text) {
            let _ = with_device(|device| program.matches(device, &mut 10_000));
        }
    }

    #[test]
    fn words_in_any_order_have_an_answer(words in prop::collection::vec(prop::sample::select(vec![
        "device", ".", "attributes", "[", "]", "\"gpu.example.com\"", "model", "==", "'A100'", "&&", "||", "!", "(", ")", "1", "2.0", "3u", "-",
        "+", "*", "in", "?", ":", ",", "{", "}", "has", "all", "exists", "x", "map", "cel", "bind", "optional", "of", "none", "size", "quantity",
        "isGreaterThan", "split", "null", "b'a'", ".?", "[?", "string", "format", "'%s %d'", "matches", "sortBy", "lists", "range",
    ]), 0..40)) {
        if let Ok(program) = Program::compile(&words.concat()) {
            let _ = with_device(|device| program.matches(device, &mut 10_000));
        }
    }
}
