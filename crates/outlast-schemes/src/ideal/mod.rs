//! Persistent memory as plain working memory: what costs nothing and promises nothing.

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, NonPers, Setup, Source};
use outlast_trace::{Guarantee, OpLog};

use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::{Image, Options, Patch, RecoveryError, Work};

/// The scheme that does nothing.
pub struct Ideal;

impl HardwareScheme for Ideal {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "non-pers",
            Guarantee::None,
            Reading::Bound,
            "persistent memory as plain working memory",
        )];
        &VARIANTS
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        _planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Plain { streams: work.recorded().to_vec(), lines: work.end.0, on }))
    }
}

#[derive(Debug)]
struct Plain {
    streams: Vec<Arc<OpLog>>,
    lines: u64,
    on: Option<Ait>,
}

impl Prepared for Plain {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.lines
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        machine(config, NonPers, self.on, self.lines, setup, sources)
    }

    fn recover(&self, _image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        Ok(Vec::new())
    }
}
