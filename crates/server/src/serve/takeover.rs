//! `nitro takeover`: gives up what only the cache of a lost host has, and leaves the origin at its last consistent point.

use super::open;
use super::points;
use crate::origins::{self, Found, Mark, OpenOrigin, Uuid, VolumeMark, aside, origin_of};
use nitro_config::{Config, VolumeConfig};
use nitro_console::date::utc;
use nitro_console::error::Error;
use nitro_device::Reactor;
use nitro_port::{PointLog, PointStamp};
use serde::Serialize;
use std::time::Duration;

/// A server that is still there notices within this time that the origin is not its own any more; see `owner.rs`.
const NOTICED: Duration = Duration::from_millis(1500);

/// What a takeover gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The volume.
    pub volume: String,
    /// The cache that has its newest data.
    pub cache: String,
    /// Since when it has been serving (UTC).
    pub since: String,
    /// The last point of the origin; 0: it is as it was then.
    pub point: u64,
    /// When the point was frozen (UTC).
    pub frozen: String,
    /// Its age in seconds: what was written since is given up.
    pub age_seconds: u64,
    /// Whether it was given up now.
    pub accepted: bool,
}

impl Loss {
    /// One line for people.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { volume, cache, since, point, frozen, age_seconds, accepted } = self;
        let what = match point {
            0 => format!("all that was written since {since}, when the cache {cache} began to serve it"),
            _ => format!("what was written in the last {age_seconds} s, since its point {point} of {frozen}"),
        };
        match accepted {
            true => format!("volume {volume}: given up is {what}; its origin is whole, and can be served"),
            false => format!("volume {volume}: {what} is in the cache {cache} alone"),
        }
    }
}

/// Finds what a takeover of a volume gives up; with `accept_loss`, gives it up: the origin is brought to its last point, and its mark
/// of unwritten data is removed.
///
/// # Errors
/// The origin is in use, or was not served with points, or nothing of it is in a cache; and whatever stops a start.
pub fn take_over(config: &Config, name: &str, accept_loss: bool) -> Result<Loss, Error> {
    let Some(volume) = config.volumes.get(name) else {
        let names: Vec<_> = config.volumes.keys().map(String::as_str).collect();
        return Err(Error::new(format_args!("volume {name}"), "the configuration has no such volume")
            .or(format_args!("it has: {}", names.join(", "))));
    };
    open::check_identities(config)?;
    let reactor = Reactor::new().map_err(|e| Error::with_sources("reactor", &e))?;
    origins::start_threads()?;
    config.server.takeover.as_deref().map_or(Ok(()), origins::share_marks)?;
    reactor.block_on(async {
        origins::share(config.server.shares()).await;
        let taken = take(name, volume, accept_loss).await;
        origins::close_all().await?;
        taken
    })
}

async fn take(name: &str, config: &VolumeConfig, accept_loss: bool) -> Result<Loss, Error> {
    let what = format!("origin {}", config.origin.display());
    let origin = origin_of(&config.origin)?.open(name, config).await?;
    let fence = origin.fence.clone();
    let found = aside(move || fence.find()).await??;
    let Some(Found { mark, .. }) = found.iter().find(|found| !found.is_of_another_file) else {
        return Err(
            Error::new(what, "no cache has newer data of it, by its marks: nothing is to be given up").or("serve it")
        );
    };
    let Some(redo) = points::open(&origin.fence, false).await? else {
        let why = "it was not served with points: it has newer blocks beside older ones";
        return Err(Error::new(what, why).or(
            "serve it with the cache that has its newest data; nitro serve --force-discard-dirty uses it as it is",
        ));
    };
    let loss = loss(name, mark, redo.log.last(), accept_loss);
    if !accept_loss {
        return Ok(loss);
    }
    claim(&origin).await?;
    redo.log
        .apply(&origin.device)
        .await
        .map_err(|e| Error::new(&what, e).or("check its device, and repeat the command"))?;
    let fence = origin.fence.clone();
    aside(move || fence.lower()).await??;
    Ok(loss)
}

fn loss(name: &str, mark: &Mark, point: PointStamp, accepted: bool) -> Loss {
    Loss {
        volume: name.to_owned(),
        cache: mark.cache_path.clone(),
        since: mark.since.clone(),
        point: point.number,
        frozen: utc(point.unix_ms / 1000),
        age_seconds: points::age(point).as_secs(),
        accepted,
    }
}

/// Makes the origin nobody's: the cache that served it does not write to it any more, neither now nor when it comes back.
async fn claim(origin: &OpenOrigin) -> Result<(), Error> {
    let (marks, id) = (origin.marks.clone(), origin.id.clone());
    let marked = aside(move || {
        let Some(before) = marks.find() else { return Ok(false) };
        let unit = before.unit.parse().unwrap_or(Uuid([0; 16]));
        let mut mark =
            VolumeMark::new(Uuid([0; 16]), unit, (before.count.saturating_add(1), VolumeMark::new_token()), &id);
        // An owner with a lower number stays refused.
        (mark.fence, mark.etcd) = (before.fence, before.etcd);
        marks.set(&mark)
    });
    let way_out = "make the folder of marks writable";
    if marked.await?.map_err(|e| Error::new("the mark of the origin", e).or(way_out))? {
        aside(|| std::thread::sleep(NOTICED)).await?;
    }
    Ok(())
}
