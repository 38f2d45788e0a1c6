//! The instructions that a processor has for persistence.

use outlast_trace::FlushKind;

/// What this processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuFeatures {
    /// The best instruction that writes a line back, if there is one.
    pub flush: Option<FlushKind>,
    /// Whether a line can be stored atomically (`movdir64b`).
    pub movdir64b: bool,
}
