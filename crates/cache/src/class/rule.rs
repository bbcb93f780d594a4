//! Rules that assign classes, with conditions on a request and on the file-system use of a block.

use crate::admission::Source;
use nitro_units::ClassId;

/// How a number is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Greater.
    Gt,
    /// Less or equal.
    Le,
    /// Greater or equal.
    Ge,
}

impl Comparison {
    const fn holds(self, value: u64, bound: u64) -> bool {
        match self {
            Self::Eq => value == bound,
            Self::Ne => value != bound,
            Self::Lt => value < bound,
            Self::Gt => value > bound,
            Self::Le => value <= bound,
            Self::Ge => value >= bound,
        }
    }
}

/// A condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The request's offset in bytes.
    Offset(Comparison, u64),
    /// The request's length in bytes.
    RequestBytes(Comparison, u64),
    /// Whether it is read or written.
    Direction(Source),
    /// The block belongs to a file system itself, not to a file's data.
    Metadata,
    /// The size of the file whose data the block holds, in bytes.
    FileBytes(Comparison, u64),
}

impl Condition {
    /// Its name in tables of classes.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Offset(..) => "offset",
            Self::RequestBytes(..) => "request_size",
            Self::Direction(_) => "direction",
            Self::Metadata => "metadata",
            Self::FileBytes(..) => "file_size",
        }
    }

    /// Whether it depends on the content of a block.
    #[must_use]
    pub const fn is_of_content(self) -> bool {
        matches!(self, Self::Metadata | Self::FileBytes(..))
    }
}

/// How a condition is joined to those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// The conditions so far and this one must hold.
    And,
    /// The conditions so far or this one must hold.
    Or,
}

/// The properties of a request that rules use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its offset in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Read or write.
    pub source: Source,
}

/// The use of a block in a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Metadata of the file system.
    Metadata,
    /// Data of a file of this size in bytes.
    File(u64),
}

/// A class and its conditions. Conditions are joined from left to right, without precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The class.
    pub class: ClassId,
    /// The conditions; the join of the first one has no effect. Without conditions, the rule applies to all requests.
    pub conditions: Vec<(Join, Condition)>,
}

impl Rule {
    fn is_of_content(&self) -> bool {
        self.conditions.iter().any(|(_, condition)| condition.is_of_content())
    }

    fn holds(&self, asked: Option<&Asked>, found: Option<Found>) -> bool {
        let holds = |condition: &Condition| match *condition {
            Condition::Offset(comparison, bound) => asked.is_some_and(|asked| comparison.holds(asked.offset, bound)),
            Condition::RequestBytes(comparison, bound) => asked.is_some_and(|asked| comparison.holds(asked.len, bound)),
            Condition::Direction(source) => asked.is_some_and(|asked| asked.source == source),
            Condition::Metadata => found == Some(Found::Metadata),
            Condition::FileBytes(comparison, bound) => {
                matches!(found, Some(Found::File(bytes)) if comparison.holds(bytes, bound))
            }
        };
        let Some(((_, first), others)) = self.conditions.split_first() else { return true };
        others.iter().fold(holds(first), |so_far, (join, condition)| match join {
            Join::And => so_far && holds(condition),
            Join::Or => so_far || holds(condition),
        })
    }

    /// Whether `other` certainly covers this rule: both join their conditions by "and" only, and this rule has all
    /// conditions of `other`.
    #[must_use]
    pub fn is_covered_by(&self, other: &Self) -> bool {
        let all_and = |rule: &Self| rule.conditions.iter().skip(1).all(|(join, _)| *join == Join::And);
        let has = |wanted: &Condition| self.conditions.iter().any(|(_, condition)| condition == wanted);
        all_and(self) && all_and(other) && other.conditions.iter().all(|(_, condition)| has(condition))
    }
}

/// Rules; the first one that applies gives the class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// The class of a request, from the rules that need only the request.
    #[must_use]
    pub fn of_request(&self, asked: &Asked) -> Option<ClassId> {
        let rule = self.0.iter().find(|rule| !rule.is_of_content() && rule.holds(Some(asked), None));
        rule.map(|rule| rule.class)
    }

    /// The class of a block from its use, without a request.
    #[must_use]
    pub fn of_content(&self, found: Found) -> Option<ClassId> {
        let rule = self.0.iter().find(|rule| rule.is_of_content() && rule.holds(None, Some(found)));
        rule.map(|rule| rule.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(number: u8) -> ClassId {
        ClassId::new(number).unwrap_or_default()
    }

    fn rule(number: u8, conditions: &[(Join, Condition)]) -> Rule {
        Rule { class: class(number), conditions: conditions.to_vec() }
    }

    #[test]
    fn the_first_rule_that_holds_counts_and_conditions_join_from_left_to_right() {
        use Comparison::{Ge, Lt};
        use Condition::{Direction, FileBytes, Metadata, Offset, RequestBytes};
        let rules = Rules(vec![
            rule(1, &[(Join::And, Offset(Ge, 4096)), (Join::And, Offset(Lt, 8192))]),
            rule(2, &[(Join::And, Metadata)]),
            rule(3, &[(Join::And, RequestBytes(Ge, 1 << 20)), (Join::Or, Direction(Source::Write))]),
            rule(4, &[(Join::And, FileBytes(Lt, 100)), (Join::Or, FileBytes(Ge, 1000))]),
        ]);
        let asked = |offset, len, source| Asked { offset, len, source };
        for (request, expected) in [
            (asked(4096, 512, Source::Read), Some(1)),
            (asked(8192, 512, Source::Read), None),
            (asked(8192, 512, Source::Write), Some(3)),
            (asked(4096, 1 << 21, Source::Read), Some(1)),
            (asked(0, 1 << 20, Source::Read), Some(3)),
        ] {
            assert_eq!(rules.of_request(&request), expected.map(class), "{request:?}");
        }
        for (found, expected) in [
            (Found::Metadata, Some(2)),
            (Found::File(99), Some(4)),
            (Found::File(100), None),
            (Found::File(1000), Some(4)),
        ] {
            assert_eq!(rules.of_content(found), expected.map(class), "{found:?}");
        }
        assert!(rule(5, &[(Join::And, Metadata), (Join::And, Offset(Ge, 1))]).is_covered_by(&rules.0[1]));
        assert!(!rules.0[1].is_covered_by(&rules.0[0]));
    }
}
