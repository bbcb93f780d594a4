//! The paths and addresses of sockets.

use nitro_config::{Address, Config, Protocol, VhostAddress};
use nitro_console::error::Error;
use nitro_device::net::{Access, ListenAddress};
use nitro_files::{check_private, private_folder};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest path of a unix socket in bytes (unix(7): 108, one of them a zero).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// The suffix of control sockets in the runtime folder.
pub const CONTROL_SUFFIX: &str = ".control";

/// The addresses on which the server listens.
#[derive(Debug)]
pub struct Places {
    pub listen: Vec<Offer>,
    /// The addresses for virtual machines.
    pub vhost: Vec<VhostAddress>,
    pub control: PathBuf,
    /// Access to the clients' unix sockets.
    pub listen_access: Access,
    pub control_access: Access,
    /// The address of HTTP, if it is served, and the access to it.
    pub http: Option<ListenAddress>,
    pub http_access: Access,
}

/// An address for clients of NBD or iSCSI.
#[derive(Debug, Clone)]
pub struct Offer {
    pub protocol: Protocol,
    pub address: ListenAddress,
    /// The address as it was given, by which volumes name it.
    pub given: Arc<Address>,
}

impl Offer {
    /// An address of NBD that is not in the configuration.
    pub(super) fn of_nbd(address: ListenAddress) -> Self {
        let given = Arc::new(match &address {
            ListenAddress::Unix(path) => Address::Unix(path.clone()),
            ListenAddress::Tcp(address) => Address::Tcp(address.to_string()),
        });
        Self { protocol: Protocol::Nbd, address, given }
    }
}

/// The folder of the sockets of the system's server.
pub const SYSTEM_FOLDER: &str = "/run/nitro";

/// The folder of the user's sockets: `$XDG_RUNTIME_DIR/nitro`, else `/tmp/nitro-UID`.
pub fn runtime_folder() -> PathBuf {
    match absolute("XDG_RUNTIME_DIR") {
        Some(folder) => folder.join("nitro"),
        None => PathBuf::from(format!("/tmp/nitro-{}", rustix::process::getuid().as_raw())),
    }
}

/// Whether the user has a runtime folder: `$XDG_RUNTIME_DIR`.
pub(super) fn has_runtime_folder() -> bool {
    absolute("XDG_RUNTIME_DIR").is_some()
}

/// The folder that systemd has made for the service (systemd.exec(5), `RuntimeDirectory=`): the first, if there are several.
pub(super) fn service_folder() -> Option<PathBuf> {
    let folders = std::env::var_os("RUNTIME_DIRECTORY")?;
    let first = std::env::split_paths(&folders).next()?;
    first.is_absolute().then_some(first)
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

impl Places {
    /// Chooses the addresses, and creates the runtime folder if one of them is there.
    pub(super) fn choose(config: &Config) -> Result<Self, Error> {
        Self::with(config, private_folder)
    }

    /// Chooses the addresses, and creates nothing.
    pub(super) fn plan(config: &Config) -> Result<Self, Error> {
        Self::with(config, |folder| match folder.exists() {
            true => check_private(folder),
            false => Ok(()),
        })
    }

    fn with(config: &Config, provide: impl Fn(&Path) -> io::Result<()>) -> Result<Self, Error> {
        let server = &config.server;
        let mut volumes = config.volumes.keys();
        let stem = match (volumes.next(), volumes.next()) {
            (Some(only), None) => only.as_str(),
            _ => "nitro",
        };
        let needs_folder = server.listen.is_empty() || server.control.is_none();
        let service_folder = service_folder();
        let is_made = service_folder.is_some();
        let folder = service_folder.unwrap_or_else(runtime_folder);
        if needs_folder && !is_made {
            provide(&folder).map_err(|e| {
                Error::new(format_args!("folder {}", folder.display()), e)
                    .or("remove it, set XDG_RUNTIME_DIR, or give --listen unix:PATH and --control PATH")
            })?;
        }
        let listen: Vec<_> = match server.listen.is_empty() {
            true => vec![Offer::of_nbd(ListenAddress::Unix(folder.join(format!("{stem}.sock"))))],
            false => {
                let place = |given: &Address| {
                    let offer = |address| Offer { protocol: given.protocol(), address, given: Arc::new(given.clone()) };
                    Ok(given.resolve()?.map(offer))
                };
                server.listen.iter().filter_map(|address| place(address).transpose()).collect::<Result<_, Error>>()?
            }
        };
        let control = server.control.clone().unwrap_or_else(|| folder.join(format!("{stem}{CONTROL_SUFFIX}")));
        let http = server.http.as_ref().map(|address| address.0.resolve()).transpose()?.flatten();
        let vhost: Vec<_> = server.listen.iter().filter_map(Address::vhost).cloned().collect();
        for address in &vhost {
            for volume in config.volumes.keys() {
                check_socket_path(&address.socket_of(volume), &folder)?;
            }
        }
        for path in
            listen.iter().map(|offer| &offer.address).chain(&http).filter_map(socket_path).chain([control.as_path()])
        {
            check_socket_path(path, &folder)?;
        }
        let (listen_access, control_access) = (server.socket_access()?, server.control_access()?);
        let http_access = server.http_access()?;
        Ok(Self { listen, vhost, control, listen_access, control_access, http, http_access })
    }
}

impl Places {
    /// Whether a server has the control socket.
    pub(super) fn has_server(&self) -> bool {
        UnixStream::connect(&self.control).is_ok()
    }

    /// All addresses on which a server of these volumes listens.
    pub(super) fn addresses<'a>(&self, volumes: impl Iterator<Item = &'a String> + Clone) -> Vec<ListenAddress> {
        let vhost = self
            .vhost
            .iter()
            .flat_map(|address| volumes.clone().map(|volume| ListenAddress::Unix(address.socket_of(volume))));
        let clients = self.listen.iter().map(|offer| offer.address.clone());
        let own = std::iter::once(ListenAddress::Unix(self.control.clone())).chain(self.http.clone());
        clients.chain(vhost).chain(own).collect()
    }
}

fn socket_path(address: &ListenAddress) -> Option<&Path> {
    match address {
        ListenAddress::Unix(path) => Some(path),
        ListenAddress::Tcp(_) => None,
    }
}

/// Checks the path of a socket; `provided` is a folder that exists, or will at the start.
fn check_socket_path(path: &Path, provided: &Path) -> Result<(), Error> {
    let len = path.as_os_str().len();
    if len > SOCKET_PATH_BYTES_MAX {
        let why = format!("the path is {len} bytes long, and a unix socket's may have {SOCKET_PATH_BYTES_MAX}");
        return Err(Error::new(format_args!("socket {}", path.display()), why).or("use a shorter path"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| folder != provided && !folder.is_dir()) {
        let what = format!("socket {}", path.display());
        return Err(Error::new(what, "its folder does not exist").or("create the folder, or use another path"));
    }
    Ok(())
}
