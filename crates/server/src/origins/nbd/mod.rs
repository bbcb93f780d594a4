//! Exports of NBD servers: `nbd://HOST[:PORT]/EXPORT`, `nbd+unix:///EXPORT?socket=PATH`, and with TLS `nbds`.
//!
//! Each origin has a thread of its own, with a reactor and all connections to its server. An export is recognised by nothing that
//! lasts: a server may give its name to other storage. Its marks are in the state folder of this machine, under a name
//! made of server and export.

mod connect;
mod uri;

use super::lock::{self, Lock};
use super::{
    Backing, Fence, Identity, Look, NamedOrigin, OpenOrigin, Scheme, VolumeMarks, aside, mark_name, refuse_emulation,
};
use crate::device_error::device_error;
use connect::Connector;
use futures_channel::oneshot;
use futures_util::future::{FutureExt, LocalBoxFuture};
use nitro_config::VolumeConfig;
use nitro_console::error::Error;
use nitro_console::size::Size;
use nitro_device::{CompioClock, spawn_thread};
use nitro_nbd::ClientTlsFiles;
use nitro_nbd::client::{self, ClientError, ClientOptions, RemoteDisk, Security};
use nitro_port::{Device, StorageId};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uri::{Target, Uri};

/// Where certificates are if the URI names no folder, as for libnbd.
const CERTIFICATES: &str = "/etc/pki/libnbd";

/// A scheme of NBD's URIs.
pub struct Nbd {
    name: &'static str,
    form: &'static str,
    is_unix: bool,
    is_tls: bool,
}

impl Nbd {
    /// `nbd`: TCP.
    pub const TCP: Self = Self { name: "nbd", form: "nbd://HOST[:PORT]/EXPORT", is_unix: false, is_tls: false };
    /// `nbd+unix`: a unix socket.
    pub const UNIX: Self =
        Self { name: "nbd+unix", form: "nbd+unix:///EXPORT?socket=PATH", is_unix: true, is_tls: false };
    /// `nbds`: TLS over TCP.
    pub const TCP_TLS: Self = Self {
        name: "nbds",
        form: "nbds://HOST[:PORT]/EXPORT[?tls-certificates=FOLDER]",
        is_unix: false,
        is_tls: true,
    };
    /// `nbds+unix`: TLS over a unix socket.
    pub const UNIX_TLS: Self =
        Self { name: "nbds+unix", form: "nbds+unix:///EXPORT?socket=PATH", is_unix: true, is_tls: true };
}

impl Scheme for Nbd {
    fn name(&self) -> &'static str {
        self.name
    }

    fn form(&self) -> &'static str {
        self.form
    }

    fn named(&self, rest: &str) -> Result<Box<dyn NamedOrigin>, Error> {
        Ok(Box::new(Uri::parse(self.is_unix, self.is_tls, rest)?))
    }
}

impl NamedOrigin for Uri {
    fn absolute(&self) -> io::Result<PathBuf> {
        let mut uri = self.clone();
        if let Target::Unix(path) = &mut uri.target {
            *path = std::path::absolute(&*path)?;
        }
        if let Some(folder) = uri.tls.as_mut().and_then(|tls| tls.folder.as_mut()) {
            *folder = std::path::absolute(&*folder)?;
        }
        Ok(uri.to_string().into())
    }

    fn volume_name(&self) -> String {
        if !self.export.is_empty() {
            return self.export.clone();
        }
        match &self.target {
            Target::Tcp { host, .. } => host.clone(),
            Target::Unix(path) => {
                path.file_stem().map_or_else(|| "nbd".into(), |stem| stem.to_string_lossy().into_owned())
            }
        }
    }

    fn host_path(&self) -> Option<&Path> {
        None
    }

    fn is_host(&self) -> bool {
        false
    }

    fn open<'a>(&'a self, volume: &'a str, config: &'a VolumeConfig) -> LocalBoxFuture<'a, Result<OpenOrigin, Error>> {
        async move {
            let what = format!("origin {self}");
            let origin = self.open_for(volume, config).await?.ok_or_else(|| lock::in_use(&what))?;
            nitro_console::output::note!("volume {volume}: {} at {self}", Size(origin.look.size_bytes));
            Ok(origin)
        }
        .boxed_local()
    }

    fn look<'a>(
        &'a self,
        volume: &'a str,
        config: &'a VolumeConfig,
    ) -> LocalBoxFuture<'a, Result<Option<OpenOrigin>, Error>> {
        self.open_for(volume, config).boxed_local()
    }
}

/// An export, which has no time of change, and its lock.
struct Export {
    _lock: Lock,
}

impl Identity for Export {
    fn look(&self, size_bytes: u64) -> io::Result<Look> {
        Ok(Look { size_bytes, mtime_ns: None })
    }

    fn look_durably(&self, size_bytes: u64) -> io::Result<Look> {
        self.look(size_bytes)
    }
}

impl Uri {
    /// `None`: another server of this machine serves it.
    async fn open_for(&self, volume: &str, config: &VolumeConfig) -> Result<Option<OpenOrigin>, Error> {
        let what = format!("origin {self}");
        refuse_emulation(&what, config)?;
        let name = self.mark_name().map_err(|e| Error::new(&what, e))?;
        let (locked, read_only) = (name.clone(), config.read_only);
        let lock = match aside(move || Lock::take(&locked, read_only)).await? {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok(None),
            Err(why) => Lock::none(&what, &why),
        };
        let disk = self.connect(&what, volume).await?;
        let export = disk.export();
        if export.is_read_only() && !config.read_only {
            tracing::warn!("{what}: it can only be read: the volume is read-only");
        }
        if !export.is_read_only() && !export.keeps_on_request() {
            tracing::warn!(
                "{what}: the server offers neither FLUSH nor FUA: nothing tells when what was written is durable there"
            );
        }
        let (read_only, identity) = (config.read_only || export.is_read_only(), Arc::new(Export { _lock: lock }));
        let look = identity.look(disk.geometry().size_bytes).map_err(|e| Error::new(&what, e))?;
        let absolute = self.absolute().map_err(|e| Error::new(&what, e))?;
        Ok(Some(OpenOrigin {
            device: Backing::Remote(Box::new(disk)),
            identity,
            // A server may give the name of an export to anything.
            id: StorageId::default(),
            look,
            fence: Fence::named(&absolute, &name),
            marks: VolumeMarks::named(&name),
            read_only,
        }))
    }

    /// The name of its marks: readable, and different for different exports.
    fn mark_name(&self) -> io::Result<String> {
        let mut plain = self.clone();
        if let Target::Unix(path) = &mut plain.target {
            *path = std::path::absolute(&*path)?;
        }
        Ok(mark_name("nbd", &plain.place()))
    }

    /// Connects, and starts the thread that keeps the connections until the device is dropped.
    async fn connect(&self, what: &str, volume: &str) -> Result<RemoteDisk, Error> {
        let security = match &self.tls {
            None => Security::Plain,
            Some(tls) => {
                let folder = tls.folder.clone().unwrap_or_else(|| CERTIFICATES.into());
                let host = match (&tls.host, &self.target) {
                    (Some(host), _) | (None, Target::Tcp { host, .. }) => host.as_str(),
                    (None, Target::Unix(_)) => "localhost",
                };
                Security::tls(&ClientTlsFiles { folder }, host).map_err(|e| {
                    Error::with_sources(what, &e).or("name the folder with ca-cert.pem: ?tls-certificates=FOLDER")
                })?
            }
        };
        let options = ClientOptions::new(&self.export, what, security);
        let connector = Connector(self.target.clone());
        let (opened, opening) = oneshot::channel();
        let thread = spawn_thread(&format!("nbd {volume}"), move || async move {
            match client::open(options, connector, CompioClock::new()).await {
                // Nobody waits any more: the disk is dropped, and the driver ends.
                Ok((disk, driver)) => {
                    drop(opened.send(Ok(disk)));
                    driver.run().await;
                }
                Err(error) => drop(opened.send(Err(error))),
            }
        });
        // The thread ends with the device.
        drop(thread.map_err(|e| device_error(what, &e))?);
        let opened = opening.await.map_err(|_| Error::new(what, "its thread has ended").or("please report it"))?;
        opened.map_err(|error| self.failed(what, &error))
    }

    /// Why there is no connection, and what helps.
    fn failed(&self, what: &str, error: &ClientError) -> Error {
        let way_out = match error {
            ClientError::Io(error) if self.tls.is_some() && error.kind() == io::ErrorKind::InvalidData => {
                "check the certificates in the folder, and the name in the server's: ?tls-hostname=NAME".to_owned()
            }
            ClientError::Io(_) => match &self.target {
                Target::Tcp { host, port } => format!("check that an NBD server listens on {host}, port {port}"),
                Target::Unix(path) => format!("check that an NBD server listens at {}", path.display()),
            },
            ClientError::Late(_) | ClientError::Closed | ClientError::Silent(_) => {
                "check the server; it may let one client in at a time (qemu-nbd --shared=N)".to_owned()
            }
            ClientError::NoExport(_) => format!("list its exports: nbdinfo --list {}", self.server()),
            ClientError::TlsRequired => "write nbds instead of nbd, with ?tls-certificates=FOLDER".to_owned(),
            ClientError::TlsNotOffered => "write nbd instead of nbds, or set up TLS at the server".to_owned(),
            ClientError::Offer(_) | ClientError::Answer(_) | ClientError::Violation(_) => {
                "check that this is the port of an NBD server (nbdkit, qemu-nbd, nbd-server)".to_owned()
            }
            ClientError::ShuttingDown | ClientError::Refused { .. } => "see the server's log".to_owned(),
            ClientError::Unusable(_) => "serve another export".to_owned(),
        };
        Error::with_sources(what, error).or(way_out)
    }

    /// The URI of the server without an export, for nbdinfo.
    fn server(&self) -> Self {
        Self { export: String::new(), ..self.clone() }
    }
}
