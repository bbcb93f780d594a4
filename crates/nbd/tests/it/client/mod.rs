//! The client, as a device.

mod hostile;
mod resend;
mod tls;

use crate::support::mortal::{Mortal, Way};
use nitro_nbd::client::{ClientError, ClientOptions, RemoteDisk, Security, open};
use nitro_testkit::Simulation;
use std::rc::Rc;

/// The options of a client with a buffer of so many bytes.
fn options(buffer_bytes_max: u64) -> ClientOptions {
    ClientOptions { buffer_bytes_max, ..ClientOptions::new("disk", "server", Security::Plain) }
}

/// Connects to a server.
async fn connect(
    simulation: &Rc<Simulation>,
    server: &Rc<Mortal>,
    options: ClientOptions,
) -> Result<RemoteDisk, ClientError> {
    let (disk, driver) = open(options, Way(Rc::clone(server)), simulation.clock.clone()).await?;
    simulation.spawn(driver.run());
    Ok(disk)
}
