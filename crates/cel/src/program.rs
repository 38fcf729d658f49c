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
use crate::value::Value;
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
        match Machine::new(&self.code, device, Meter::new(steps)).run()? {
            Value::Bool(matches) => Ok(matches),
            other => Err(EvalError::NotBool(other.type_name())),
        }
    }
}
