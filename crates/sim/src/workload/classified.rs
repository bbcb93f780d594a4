//! Classification of a trace's requests by rules, as in the server.

use nitro_cache::admission::Source;
use nitro_cache::class::{Asked, Rules};
use nitro_trace::{Op, Reader, Request, TraceError};
use nitro_units::ClassId;
use std::sync::Arc;

/// The source of a class if both the trace and a rule give one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precedence {
    /// The trace, as with clients that give a class to the server.
    #[default]
    Trace,
    /// The rule, to try rules on a trace that was recorded with others.
    Rules,
}

/// A trace whose requests are classified by rules on the request itself: offset, length and direction. Trims and
/// flushes count as writes, as in the server.
pub struct Classified<R> {
    reader: R,
    rules: Arc<Rules>,
    precedence: Precedence,
}

impl<R: Reader> Classified<R> {
    /// Rules on contents never match, because a trace has no contents.
    pub const fn new(reader: R, rules: Arc<Rules>, precedence: Precedence) -> Self {
        Self { reader, rules, precedence }
    }

    fn class(&self, request: &Request) -> ClassId {
        if self.precedence == Precedence::Trace && request.class.is_classified() {
            return request.class;
        }
        let source = if request.op == Op::Read { Source::Read } else { Source::Write };
        let asked = Asked { offset: request.offset, len: request.len, source };
        self.rules.of_request(&asked).unwrap_or(request.class)
    }
}

impl<R: Reader> Reader for Classified<R> {
    fn next(&mut self, request: &mut Request) -> Result<bool, TraceError> {
        let more = self.reader.next(request)?;
        if more {
            request.class = self.class(request);
        }
        Ok(more)
    }

    fn inner(&self) -> Option<&dyn Reader> {
        Some(&self.reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nitro_cache::class::{Comparison, Condition, Join, Rule};
    use nitro_trace::Listed;

    fn class(number: u8) -> ClassId {
        ClassId::new(number).unwrap_or_default()
    }

    #[test]
    fn rules_give_the_class_unless_the_trace_does() {
        let rule = |number, condition| Rule { class: class(number), conditions: vec![(Join::And, condition)] };
        let rules = Arc::new(Rules(vec![
            rule(9, Condition::Offset(Comparison::Lt, 4096)),
            rule(10, Condition::RequestBytes(Comparison::Ge, 1 << 20)),
            rule(11, Condition::Direction(Source::Write)),
        ]));
        let request = |op, offset, len, number| Request { op, offset, len, class: class(number), ..Request::default() };
        let requests = vec![
            request(Op::Read, 0, 512, 0),
            request(Op::Read, 4096, 512, 0),
            request(Op::Read, 4096, 1 << 20, 0),
            request(Op::Write, 8192, 512, 0),
            request(Op::Trim, 8192, 512, 0),
            request(Op::Read, 0, 512, 3),
            request(Op::Read, 8192, 512, 3),
        ];
        for (precedence, expected) in
            [(Precedence::Trace, [9, 0, 10, 11, 11, 3, 3]), (Precedence::Rules, [9, 0, 10, 11, 11, 9, 3])]
        {
            let listed = Listed::new(requests.clone());
            let ruled = Classified::new(listed, Arc::clone(&rules), precedence).requests();
            let classes: Vec<_> = ruled.map(|request| request.map(|request| request.class.number()).ok()).collect();
            assert_eq!(classes, expected.map(Some), "{precedence:?}");
        }
    }
}
