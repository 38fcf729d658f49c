use crate::check;
use crate::code::Code;
use crate::compile;
use crate::device::Device;
use crate::error::{CompileError, EvalError};
use crate::evaluate::Machine;
use crate::meter::Meter;
use crate::parse;
use crate::types::Type;
use crate::validate;
use crate::view;
use std::sync::Arc;

/// A selector, compiled once to be asked about many devices. A copy shares it.
#[derive(Debug, Clone)]
pub struct Program {
    code: Arc<Code>,
}

impl Program {
    pub fn compile(text: &str) -> Result<Self, CompileError> {
        let (tree, root) = parse::parse(text)?;
        let mut checked = check::check(&tree, root)?;
        validate::validate(&tree, &mut checked, root)?;
        match &checked.types[root.0 as usize] {
            Type::Bool | Type::Any => {}
            other => return Err(CompileError::Result(other.to_string().into())),
        }
        let code = compile::compile(&tree, &checked, root)?;
        Ok(Self { code: Arc::new(code) })
    }

    /// Whether the device matches. `steps` is what the evaluation may do, and counted down to what it leaves; an evaluation that
    /// needs more ends with [`EvalError::Budget`].
    pub fn matches(&self, device: &Device<'_>, steps: &mut u64) -> Result<bool, EvalError> {
        view::check(device)?;
        Machine::new(&self.code, device, Meter::new(steps)).run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Attribute, QualifiedName};
    use berth_quantity::Quantity;

    /// `true`, `false`, or the error, which begins with `?` if it is one of compiling.
    fn answer(text: &str) -> String {
        let name = |text| QualifiedName::parse(text);
        let attributes = [
            (name("fast"), Attribute::Bool(true)),
            (name("model"), Attribute::Text("A100".into())),
            (name("n"), Attribute::Int(3)),
            (name("version"), Attribute::Version("1.2.3+b".into())),
            (name("other.example.com/n"), Attribute::Int(4)),
        ];
        let capacity = [(name("memory"), Quantity::parse("1Gi").unwrap())];
        let device =
            Device { driver: "d", allow_multiple_allocations: true, attributes: &attributes, capacity: &capacity };
        match Program::compile(text) {
            Err(error) => format!("?{error}"),
            Ok(program) => match program.matches(&device, &mut 10_000) {
                Ok(matches) => matches.to_string(),
                Err(error) => error.to_string(),
            },
        }
    }

    /// Each answer is upstream's own.
    #[test]
    fn selectors_mean_what_they_mean_upstream() {
        for (text, expected) in [
            ("device.driver == 'd'", "true"),
            ("device.allowMultipleAllocations", "true"),
            ("device.attributes['d'].model == 'A100'", "true"),
            ("device.attributes['d'].fast", "true"),
            ("device.attributes['d'].model", "CEL result of type string"),
            ("device.attributes['no.such'].x == 1 || true", "true"),
            ("true || device.attributes['no.such'].x == 1", "true"),
            ("device.attributes['no.such'].x == 1 && false", "false"),
            ("device.attributes['no.such'].x == 1 && true", "no such key: x"),
            ("device.attributes[''].model == 'A100'", "no such key: model"),
            ("'no.such' in device.attributes", "false"),
            ("'other.example.com' in device.attributes", "true"),
            ("has(device.attributes['no.such'].x)", "false"),
            ("has(device.attributes.no)", "true"),
            ("device.attributes[?'no.such'].hasValue()", "true"),
            ("device.attributes['no.such'].?x.orValue(true)", "true"),
            ("size(device.attributes) == 2", "true"),
            ("size(device.attributes['no.such']) == 0", "true"),
            ("device.attributes[device.attributes['d'].n].all(x, false)", "true"),
            ("device.attributes['d'].model > 0", "no such overload"),
            ("device.attributes['d'].n == 3.0", "true"),
            ("device.attributes['d'].n == '3'", "false"),
            ("device.attributes['d'].n in [1.0, 3.0]", "true"),
            ("device.attributes['d'].version == semver('1.2.3')", "true"),
            ("device.attributes['d'].version == '1.2.3'", "no such overload"),
            ("device.attributes['d'].version != '1.2.3'", "true"),
            ("'1.2.3' == device.attributes['d'].version", "false"),
            ("device.attributes['d'].version in ['1.2.3'] || true", "internal error"),
            ("device.capacity['d'].memory == quantity('1024Mi')", "true"),
            ("quantity('2') == quantity('1').add(1)", "no such overload"),
            ("quantity('1').add(1) == quantity('2')", "true"),
            ("quantity('1000m').isInteger()", "false"),
            ("quantity('x').isInteger() || true", "true"),
            ("cel.bind(m, device.capacity['d'].?memory, m.hasValue())", "true"),
            ("cel.bind(m, device.capacity['d'].?memory, m.value() == quantity('1Gi'))", "unsupported conversion"),
            ("cel.bind(x, 1 / 0, true)", "true"),
            ("[1, 2, 0].exists(x, 4 / x == 2)", "true"),
            ("[0, 1].all(x, 4 / x == 2)", "false"),
            ("[0, 2].all(x, 4 / x == 2)", "division by zero"),
            ("9223372036854775807 + device.attributes['d'].n > 0", "integer overflow"),
            ("device.driver == 'd' ? true : 1 / 0 == 1", "true"),
            ("'A100'.matches('^A[0-9]+$')", "true"),
            ("1", "?must evaluate to bool or the unknown type, not int"),
            ("dyn(true)", "?must evaluate to bool or the unknown type, not dyn"),
            ("device.model == ''", "?compilation failed: undefined field 'model'"),
            ("x == 1", "?compilation failed: undeclared reference to 'x'"),
            ("'a'.size(1) == 1", "?compilation failed: found no matching overload"),
            ("[1, 'a'].size() == 2", "?compilation failed: expected type 'int' but found 'string'"),
            ("int('a') == 1 || true", "?program instantiation failed"),
            ("'a'.matches('(')", "?program instantiation failed"),
            ("google.protobuf.Struct{} == null", "?google.protobuf.Struct: this version does not support that"),
            ("dyn(1).allowed()", "?allowed: this version does not support that"),
        ] {
            assert!(answer(text).starts_with(expected), "{text}: {}", answer(text));
        }
    }

    #[test]
    fn a_device_that_nothing_can_look_at_fails_every_selector() {
        let program = Program::compile("true").unwrap();
        for (attribute, cause) in [
            (Attribute::Unknown, "unsupported attribute value"),
            (Attribute::Version("1".into()), "parse semantic version"),
        ] {
            let attributes = [(QualifiedName::parse("a/b"), attribute)];
            let device =
                Device { driver: "d", allow_multiple_allocations: false, attributes: &attributes, capacity: &[] };
            let error = program.matches(&device, &mut 100).unwrap_err();
            assert_eq!(error.to_string(), format!("attribute a/b: {cause}"));
        }
    }
}
