//! `plimsoll demo`: the main job on the embedded target, nothing else needed.

use clap::Args;

use crate::Refusal;
use crate::exit::Exit;

/// Flags of `plimsoll demo`: none, it is there to be watched.
#[derive(Debug, Args)]
pub(crate) struct DemoFlags {}

/// Shows it.
pub(crate) fn demo(_flags: DemoFlags) -> Result<Exit, Refusal> {
    Err("demo: the engine is not linked into this build".into())
}
