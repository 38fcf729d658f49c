//! From tokens to the tree, by the precedence of operators.

use crate::error::CompileError;
use crate::lex::{self, Token};
use crate::macros;
use crate::syntax::{Access, Expr, Id, Literal, Tree};

/// The longest expression that an API server takes.
const MAX_LENGTH: usize = 10 * 1024;

/// Brackets and branches within each other; upstream's limit is 250.
const MAX_NESTING: u32 = 256;

/// Words that no variable may have as its name.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn parse(text: &str) -> Result<(Tree, Id), CompileError> {
    if text.len() > MAX_LENGTH {
        return Err(CompileError::unsupported(format!("an expression of more than {MAX_LENGTH} bytes")));
    }
    let mut parser = Parser { tokens: lex::tokens(text)?, at: 0, tree: Tree::default(), nesting: 0 };
    let root = parser.expr()?;
    match parser.peek() {
        Token::End => Ok((parser.tree, root)),
        _ => Err(parser.unexpected()),
    }
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    tree: Tree,
    nesting: u32,
}

/// The operators between two operands, the weakest first; each row binds to the left.
const RELATIONS: [(&str, &str); 7] =
    [("<", "_<_"), ("<=", "_<=_"), (">=", "_>=_"), (">", "_>_"), ("==", "_==_"), ("!=", "_!=_"), ("in", "@in")];
const SUMS: [(&str, &str); 2] = [("+", "_+_"), ("-", "_-_")];
const PRODUCTS: [(&str, &str); 3] = [("*", "_*_"), ("/", "_/_"), ("%", "_%_")];
const LEVELS: [&[(&str, &str)]; 3] = [&RELATIONS, &SUMS, &PRODUCTS];

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn peek_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let found = self.peek_sign(sign);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: &str) -> Result<(), CompileError> {
        if self.take_sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected(&self) -> CompileError {
        CompileError::refused(match self.tokens.get(self.at) {
            None => "Syntax error: mismatched input '<EOF>'".to_owned(),
            Some((token, offset)) => format!("Syntax error: unexpected {token:?} at byte {offset}"),
        })
    }

    fn add(&mut self, expr: Expr) -> Result<Id, CompileError> {
        self.tree.add(expr)
    }

    fn call(&mut self, name: &str, args: &[Id]) -> Result<Id, CompileError> {
        self.add(Expr::Call { name: name.into(), target: None, args: args.into() })
    }

    fn expr(&mut self) -> Result<Id, CompileError> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(CompileError::refused("expression recursion limit exceeded: 250"));
        }
        let condition = self.chain(true)?;
        let whole = if self.take_sign("?") {
            let yes = self.chain(true)?;
            self.expect(":")?;
            let no = self.expr()?;
            self.add(Expr::Conditional { condition, yes, no })?
        } else {
            condition
        };
        self.nesting -= 1;
        Ok(whole)
    }

    /// `a || b || …`, or within it `a && b && …`.
    fn chain(&mut self, or: bool) -> Result<Id, CompileError> {
        let sign = if or { "||" } else { "&&" };
        let first = if or { self.chain(false)? } else { self.level(0)? };
        if !self.peek_sign(sign) {
            return Ok(first);
        }
        let mut terms = vec![first];
        while self.take_sign(sign) {
            terms.push(if or { self.chain(false)? } else { self.level(0)? });
        }
        let terms = terms.into();
        self.add(if or { Expr::Or(terms) } else { Expr::And(terms) })
    }

    fn level(&mut self, level: usize) -> Result<Id, CompileError> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            let Token::Sign(sign) = *self.peek() else { return Ok(left) };
            let Some((_, name)) = operators.iter().find(|(text, _)| *text == sign) else { return Ok(left) };
            self.at += 1;
            let right = self.level(level + 1)?;
            left = self.call(name, &[left, right])?;
        }
    }

    fn unary(&mut self) -> Result<Id, CompileError> {
        for (sign, name) in [("!", "!_"), ("-", "-_")] {
            let begin = self.at;
            while self.take_sign(sign) {}
            let count = self.at - begin;
            if count == 0 {
                continue;
            }
            // The sign of a number belongs to it: the smallest int has no positive counterpart.
            if sign == "-" && count == 1 && matches!(self.peek(), Token::Int(..) | Token::Literal(Literal::Double(_))) {
                return self.member(true);
            }
            let operand = self.member(false)?;
            return if count.is_multiple_of(2) { Ok(operand) } else { self.call(name, &[operand]) };
        }
        self.member(false)
    }

    fn member(&mut self, negative: bool) -> Result<Id, CompileError> {
        let mut operand = self.primary(negative)?;
        loop {
            if self.take_sign(".") {
                operand = self.selection(operand)?;
            } else if self.take_sign("[") {
                let optional = self.take_sign("?");
                let index = self.expr()?;
                self.expect("]")?;
                operand = self.add(Expr::Index { operand, index, optional })?;
            } else {
                return Ok(operand);
            }
        }
    }

    /// What follows a dot.
    fn selection(&mut self, operand: Id) -> Result<Id, CompileError> {
        let optional = self.take_sign("?");
        let field = self.ident()?;
        if !optional && self.take_sign("(") {
            let args = self.list(")", Self::expr)?;
            return macros::member(&mut self.tree, &field, operand, &args)?
                .map_or_else(|| self.add(Expr::Call { name: field, target: Some(operand), args: args.into() }), Ok);
        }
        let access = if optional { Access::Optional } else { Access::Plain };
        self.add(Expr::Select { operand, field, access })
    }

    fn ident(&mut self) -> Result<Box<str>, CompileError> {
        let Token::Ident(name) = self.peek() else { return Err(self.unexpected()) };
        let name = name.clone();
        self.at += 1;
        Ok(name)
    }

    /// What `one` reads, separated by commas, up to the sign that closes the list.
    fn list<T>(&mut self, close: &str, one: fn(&mut Self) -> Result<T, CompileError>) -> Result<Vec<T>, CompileError> {
        let mut found = Vec::new();
        if self.take_sign(close) {
            return Ok(found);
        }
        loop {
            found.push(one(self)?);
            if self.take_sign(close) {
                return Ok(found);
            }
            self.expect(",")?;
            // Lists and maps may end with a comma, calls not.
            if close != ")" && self.take_sign(close) {
                return Ok(found);
            }
        }
    }

    fn primary(&mut self, negative: bool) -> Result<Id, CompileError> {
        match self.peek().clone() {
            Token::Int(digits, base) => {
                self.at += 1;
                let signed = if negative { format!("-{digits}") } else { digits.into() };
                let value =
                    i64::from_str_radix(&signed, base).map_err(|_| CompileError::refused("invalid int literal"))?;
                self.add(Expr::Literal(Literal::Int(value)))
            }
            Token::Literal(Literal::Double(value)) => {
                self.at += 1;
                self.add(Expr::Literal(Literal::Double(if negative { -value } else { value })))
            }
            Token::Literal(literal) => {
                self.at += 1;
                self.add(Expr::Literal(literal))
            }
            Token::Sign("(") => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.at += 1;
                if self.lone_comma("]") {
                    return self.add(Expr::List(Box::default()));
                }
                let items = self.list("]", Self::item)?;
                self.add(Expr::List(items.into()))
            }
            Token::Sign("{") => {
                self.at += 1;
                if self.lone_comma("}") {
                    return self.add(Expr::Map(Box::default()));
                }
                let entries = self.list("}", Self::entry)?;
                self.add(Expr::Map(entries.into()))
            }
            Token::Ident(_) | Token::Sign(".") => self.name(),
            _ => Err(self.unexpected()),
        }
    }

    /// `[,]` is an empty list.
    fn lone_comma(&mut self, close: &str) -> bool {
        let next = self.tokens.get(self.at + 1).map(|(token, _)| token);
        let is_lone = self.peek_sign(",") && matches!(next, Some(Token::Sign(sign)) if *sign == close);
        self.at += if is_lone { 2 } else { 0 };
        is_lone
    }

    fn item(&mut self) -> Result<(Id, bool), CompileError> {
        let optional = self.take_sign("?");
        Ok((self.expr()?, optional))
    }

    fn entry(&mut self) -> Result<(Id, Id, bool), CompileError> {
        let optional = self.take_sign("?");
        let key = self.expr()?;
        self.expect(":")?;
        Ok((key, self.expr()?, optional))
    }

    /// An identifier, a call, or the fields of a message.
    fn name(&mut self) -> Result<Id, CompileError> {
        let is_global = self.take_sign(".");
        let name = self.ident()?;
        if let Some(message) = self.message(&name) {
            return Err(CompileError::undeclared(&message));
        }
        if RESERVED.contains(&&*name) {
            return Err(CompileError::refused(format!("reserved identifier: {name}")));
        }
        if !self.take_sign("(") {
            // The dot stays, so that no macro takes it for a variable of its own.
            return self.add(Expr::Ident(if is_global { format!(".{name}").into() } else { name }));
        }
        let args = self.list(")", Self::expr)?;
        let expanded = if is_global { None } else { macros::global(&mut self.tree, &name, &args)? };
        expanded.map_or_else(|| self.add(Expr::Call { name, target: None, args: args.into() }), Ok)
    }

    /// The whole name if `{` follows it: that of a message, of which none is declared.
    fn message(&self, first: &str) -> Option<Box<str>> {
        let mut name = first.to_owned();
        let mut rest = self.tokens.get(self.at..)?.iter().map(|(token, _)| token);
        loop {
            match rest.next()? {
                Token::Sign("{") => return Some(name.into()),
                Token::Sign(".") => match rest.next()? {
                    Token::Ident(part) => {
                        name.push('.');
                        name.push_str(part);
                    }
                    _ => return None,
                },
                _ => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree with a bracket around everything.
    fn shown(tree: &Tree, id: Id) -> String {
        let all = |ids: &[Id], sep: &str| ids.iter().map(|id| shown(tree, *id)).collect::<Vec<_>>().join(sep);
        match tree.get(id) {
            Expr::Literal(Literal::Int(n)) => n.to_string(),
            Expr::Literal(literal) => format!("{literal:?}"),
            Expr::Ident(name) => name.to_string(),
            Expr::Select { operand, field, access } => format!("{}.{access:?}.{field}", shown(tree, *operand)),
            Expr::Index { operand, index, optional } => {
                format!("{}[{}{}]", shown(tree, *operand), if *optional { "?" } else { "" }, shown(tree, *index))
            }
            Expr::Call { name, target, args } => {
                let target = target.map(|id| shown(tree, id) + ".").unwrap_or_default();
                format!("{target}{name}({})", all(args, ", "))
            }
            Expr::And(terms) => format!("({})", all(terms, " && ")),
            Expr::Or(terms) => format!("({})", all(terms, " || ")),
            Expr::Conditional { condition, yes, no } => {
                format!("({} ? {} : {})", shown(tree, *condition), shown(tree, *yes), shown(tree, *no))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn operators_bind_as_in_the_grammar() {
        for (text, expected) in [
            ("1 + 2 * 3 - 4", "_-_(_+_(1, _*_(2, 3)), 4)"),
            ("a || b && c || d", "(a || (b && c) || d)"),
            ("a == b < c", "_<_(_==_(a, b), c)"),
            ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
            ("!!a", "a"),
            ("!!!a", "!_(a)"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("- 1", "-1"),
            ("1 - -1", "_-_(1, -1)"),
            ("-a.b", "-_(a.Plain.b)"),
            ("-(1)", "-_(1)"),
            ("--1", "1"),
            ("a.?b[?c].d()", "a.Optional.b[?c].d()"),
            ("x in [1,]", "@in(x, List([(Id(1), false)]))"),
            ("(a)", "a"),
            (".a", ".a"),
            ("[,]", "List([])"),
        ] {
            let (tree, root) = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(shown(&tree, root), expected, "{text}");
        }
    }

    #[test]
    fn what_does_not_parse_is_refused() {
        for text in [
            "",
            "1 +",
            "a b",
            "(a",
            "a)",
            "[1",
            "{1}",
            "{1:}",
            "f(a,)",
            "a.",
            "a.1",
            "a ? b",
            "a ? b : ",
            "a ? b ? c : d : e",
            "if",
            "for(1)",
            "9223372036854775808",
            "a.`b`",
            "1.5.",
            "a && && b",
            "- - ",
            "a.?b()",
            "a in",
            "&& a",
            "[,1]",
        ] {
            assert!(matches!(parse(text), Err(CompileError::Refused(_))), "{text}");
        }
    }

    #[test]
    fn nothing_nests_too_deep() {
        let deep = 2_000;
        for text in [
            "(".repeat(deep),
            "[".repeat(deep),
            format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
            format!("{}1{}", "[".repeat(deep), "]".repeat(deep)),
            format!("a{}", ".b".repeat(deep)),
            format!("a{}", "[0]".repeat(deep)),
            format!("1{}", "+1".repeat(deep)),
            format!("1{}", "<1".repeat(deep)),
            format!("{}1", "a?1:".repeat(deep)),
            format!("{}1", "-(".repeat(deep)),
            format!("{}1", "{1:".repeat(deep)),
        ] {
            assert!(matches!(parse(&text), Err(CompileError::Refused(_))), "{}", &text[..10]);
        }
        assert!(parse(&format!("true{}", "&&true".repeat(1_500))).is_ok(), "a chain is flat");
        assert!(parse(&"a".repeat(MAX_LENGTH + 1)).is_err_and(|error| error.is_unsupported()));
    }
}
