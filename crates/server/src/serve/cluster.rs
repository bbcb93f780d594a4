//! Volumes that several hosts can serve, of which etcd decides which one does: those with `cluster = true`. They are served as the
//! [membership](Membership) orders, and no longer: docs/guide/takeover.md.

use super::judge::{self, Allowed};
use super::{Served, blocks, host_name, volumes};
use crate::control::protocol::Etcd;
use crate::origins::{Claim, aside, origin_of};
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use nitro_cluster::{ClusterError, Fence, Identity, Membership, News, Order, Place, Tenure};
use nitro_config::{Config, ServerConfig, VolumeConfig};
use nitro_console::error::Error;
use nitro_device::spawn_local;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The configuration without the volumes about which etcd decides, and these.
pub(super) fn part(config: &Config) -> (Config, BTreeMap<String, VolumeConfig>) {
    let (shared, alone) = config.volumes.clone().into_iter().partition(|(_, volume)| volume.cluster);
    (Config { volumes: alone, ..config.clone() }, shared)
}

/// What of the membership is known to all threads.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The name of this host.
    pub(crate) host: String,
    /// The etcd cluster.
    pub(crate) cluster_id: u64,
    /// Until when it serves.
    pub(crate) tenure: Arc<Tenure>,
    /// The volumes that it may serve.
    pub(crate) volumes: Vec<String>,
}

impl Standing {
    /// It as the control protocol tells it.
    pub(crate) fn told(&self, is_served: impl Fn(&str) -> bool) -> Etcd {
        Etcd {
            host: self.host.clone(),
            cluster: format!("{:x}", self.cluster_id),
            left_ms: u64::try_from(self.tenure.left().as_millis()).unwrap_or(u64::MAX),
            waits_for: self.volumes.iter().filter(|name| !is_served(name)).cloned().collect(),
        }
    }
}

/// The membership of this server, and the configuration of the volumes.
pub(super) struct Cluster {
    membership: Membership,
    config: Config,
    shared: BTreeMap<String, VolumeConfig>,
    pub(super) standing: Standing,
}

fn place(server: &ServerConfig) -> Place {
    let pair = |one: &Option<_>, other: &Option<_>| one.clone().zip(other.clone());
    Place {
        servers: server.etcd.iter().map(ToString::to_string).collect(),
        prefix: server.etcd_prefix().to_owned(),
        host: server.host.clone().unwrap_or_else(host_name),
        lease: server.lease(),
        identity: Identity {
            authorities: server.etcd_ca.clone(),
            certificate: pair(&server.etcd_cert, &server.etcd_key),
            user: server.etcd_user.clone().zip(server.etcd_password_file.clone()),
        },
    }
}

/// Why a host cannot take part, and what helps.
fn refused(place: &Place, error: &ClusterError) -> Error {
    let way_out = match error {
        ClusterError::Unreachable(_) => "check the URLs, and that etcd runs: etcdctl endpoint health",
        ClusterError::Clusters { .. } => "name servers of one cluster only",
        ClusterError::Format { .. } => {
            "give all hosts the same version of this program, or another etcd_prefix if other programs have this one"
        }
        ClusterError::NameTaken { .. } => {
            "give each host a name of its own (host, --host), or stop the other server; a server that was killed has its \
             name until its lease ends"
        }
        ClusterError::Refused(_) => {
            "check etcd_user and its rights to all keys that begin with etcd_prefix, or the certificate"
        }
        ClusterError::File(_) => "name a PEM file, or a file with a password, that the server's user can read",
        ClusterError::NoLease(_) => "see etcd's log, and etcdctl endpoint status",
    };
    Error::new(format_args!("etcd {}", place.servers.join(", ")), error).or(way_out)
}

impl Cluster {
    /// Takes part, if the configuration says so. Volumes are not served yet.
    ///
    /// # Errors
    /// etcd does not answer, or does not let this host take part.
    pub(super) async fn join(config: &Config) -> Result<Option<Self>, Error> {
        let (_, shared) = part(config);
        if shared.is_empty() {
            return Ok(None);
        }
        let place = place(&config.server);
        let names: Vec<_> = shared.keys().cloned().collect();
        let membership = nitro_cluster::join(place.clone(), names.clone()).await.map_err(|e| refused(&place, &e))?;
        let standing = Standing {
            host: place.host,
            cluster_id: membership.cluster_id,
            tenure: Arc::clone(&membership.tenure),
            volumes: names,
        };
        let etcd = standing.cluster_id;
        tracing::info!("etcd: this host takes part as {} in the cluster {etcd:x}, with a lease", standing.host);
        Ok(Some(Self { membership, config: config.clone(), shared, standing }))
    }

    /// Finds out whether a start could take part.
    ///
    /// # Errors
    /// As of [`join`](Self::join), but for the host's name.
    pub(super) async fn rehearse(config: &Config) -> Result<(), Error> {
        if config.server.etcd.is_empty() {
            return Ok(());
        }
        let place = place(&config.server);
        let met = place.clone();
        aside(move || nitro_cluster::meet(&met)).await?.map_err(|error| refused(&place, &error))
    }

    /// Serves the volumes that etcd gives this host. Returns once it may serve none any more: its clients are disconnected then.
    pub(super) async fn follow(&mut self, served: &Arc<Served>) -> Error {
        let (opened, mut done) = futures_channel::mpsc::unbounded();
        let over = loop {
            let next = select(self.membership.orders.next(), done.next()).await;
            match next {
                Either::Right((Some(news), _)) => self.membership.tell(news),
                Either::Right((None, _)) => {}
                Either::Left((Some(Order::Open(name, fence)), _)) => {
                    let opening = self.open(served, &name, fence);
                    let opened = opened.clone();
                    spawn_local(async move {
                        let news = match Box::pin(opening).await {
                            Ok(()) => News::Opened(name),
                            Err(error) => {
                                tracing::error!("{error}; another host may serve it");
                                News::Refused(name)
                            }
                        };
                        let _ = opened.unbounded_send(news);
                    });
                }
                Either::Left((Some(Order::Stop(why)), _)) => break why.to_string(),
                Either::Left((None, _)) => break "its thread has ended".to_owned(),
            }
        };
        served.connections.cut.set();
        Error::new("etcd", format_args!("this host serves no more: {over}"))
            .or("start the server again, once etcd answers: another host serves its volumes meanwhile")
    }

    /// Opens a volume that is this host's now, and serves it.
    fn open(&self, served: &Arc<Served>, name: &str, fence: Fence) -> impl Future<Output = Result<(), Error>> + use<> {
        let claim = Claim::new(&self.standing.tenure, self.standing.cluster_id, fence);
        let (served, config, name) = (Arc::clone(served), self.config.clone(), name.to_owned());
        let volume = self.shared.get(&name).cloned();
        async move {
            let Some(volume) = volume else { return Ok(()) };
            open(&served, &config, &name, &volume, claim).await
        }
    }

    /// The server is going to end: it takes no more volumes.
    pub(super) fn leaving(&self) {
        self.membership.tell(News::Leaving);
    }

    /// Gives all volumes up. Nothing may be on its way to their origins any more.
    pub(super) fn leave(self) {
        self.membership.leave();
    }
}

async fn open(
    served: &Arc<Served>,
    config: &Config,
    name: &str,
    volume: &VolumeConfig,
    claim: Claim,
) -> Result<(), Error> {
    let what = format!("volume {name}");
    let entry = served.cache(config.cache_of(name)?)?;
    let mode = config.mode_of(name);
    let named = origin_of(&volume.origin)?;
    judge::check_mode(named.as_ref(), volume, mode)?;
    served.check_unit(&volume.identity(name, None)?)?;
    let allowed = Allowed::by(config, name);
    let claim = Claim { is_accepted: allowed.accept_origin, ..claim };
    // Opening may take an origin from the host that has it.
    claim.check().map_err(|error| Error::new(&what, error).or("see the messages about etcd"))?;
    let mut origin = named.open(name, volume).await?;
    origin.marks = origin.marks.owned(claim.clone());
    blocks::size_of(name, volume, &origin)?;
    let verdict = judge::judge(&entry, name, volume, (&origin, mode), allowed).await?;
    let export = volumes::admit(&entry, name, volume, mode, origin, verdict).await?;
    claim.check().map_err(|error| Error::new(&what, error).or("see the messages about etcd"))?;
    let export = Arc::new(export);
    served.take(Arc::clone(&export));
    tracing::info!("volume {name}: served from now on, by etcd with the fencing number {}", claim.number);
    Ok(())
}
