//! `nitro cos ssd`

use super::{act, tell};
use crate::args::{CosSsdArgs, CosSsdCommand};
use nitro_console::error::Error;
use nitro_server::cos::CosAction;
use nitro_server::cos::ssd::{SsdAction, SsdConfig};
use std::path::Path;

/// The configuration of an SSD from the options. Its path is made absolute, because a server may have another working
/// directory.
pub(super) fn config(path: &Path, args: &CosSsdArgs) -> Result<SsdConfig, Error> {
    let path = std::path::absolute(path).map_err(|e| Error::new(path.display(), e))?;
    Ok(SsdConfig {
        fmd_percent: args.ssd_fmd,
        data_percent: args.ssd_data,
        fpi: args.ssd_fpi,
        fmd: args.ssd_fmd > 0,
        data: args.ssd_data > 0,
        lz4: args.ssd_lz4,
        ..SsdConfig::usual(path)
    })
}

/// Runs `nitro cos ssd ...`.
pub(super) async fn run(command: &CosSsdCommand) -> Result<(), Error> {
    match command {
        CosSsdCommand::Attach { shown, path, options } | CosSsdCommand::Replace { shown, path, options } => {
            let (size, force) = (options.ssd_size.map(|size| size.0), options.ssd_force);
            let replace = matches!(command, CosSsdCommand::Replace { .. });
            tell(shown, CosAction::Ssd(SsdAction::Attach { config: config(path, options)?, size, force, replace }))
                .await
        }
        CosSsdCommand::Detach { shown } => tell(shown, CosAction::Ssd(SsdAction::Detach)).await,
        CosSsdCommand::Status(args) => {
            act(&args.store, CosAction::Ssd(SsdAction::Status { format: args.output.format })).await
        }
    }
}
