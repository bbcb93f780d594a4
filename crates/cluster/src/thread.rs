//! The thread that asks etcd: HTTP needs tokio, and nothing else of a server does.

use crate::client::{Client, Failure, Place};
use crate::error::ClusterError;
use crate::machine::{Held, Machine, News, Order, Terms, Why};
use crate::tenure::Tenure;
use crate::{Fence, boot_time};
use futures_channel::{mpsc, oneshot};
use futures_util::future::{Either, select};
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use std::pin::pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The pause after a watch that ended.
const WATCH_AGAIN: Duration = Duration::from_secs(1);

/// The membership of a host.
pub struct Membership {
    /// What each request asks.
    pub tenure: Arc<Tenure>,
    /// The etcd cluster.
    pub cluster_id: u64,
    /// What the server has to do. It ends with the membership.
    pub orders: mpsc::UnboundedReceiver<Order>,
    news: mpsc::UnboundedSender<News>,
    owned: Arc<Mutex<Vec<(String, Fence)>>>,
    thread: Option<JoinHandle<()>>,
}

impl Membership {
    /// Tells what the server has done.
    pub fn tell(&self, news: News) {
        // After its end, nobody needs to know.
        let _ = self.news.unbounded_send(news);
    }

    /// The volumes that this host owns.
    #[must_use]
    pub fn owned(&self) -> Vec<(String, Fence)> {
        self.owned.lock().clone()
    }

    /// Gives everything up, once nothing is on its way to an origin any more: other hosts take over at once. Blocks until etcd has
    /// answered, or does not.
    pub fn leave(mut self) {
        self.tell(News::AtRest);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A future's result, unless it takes longer.
pub(crate) async fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, future).await.ok()
}

fn runtime() -> Result<Runtime, ClusterError> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|e| ClusterError::NoLease(format!("there is no thread for it: {e}")))
}

/// Finds out whether etcd answers, and is of one cluster and of this program's format. Blocks.
///
/// # Errors
/// It is not so.
pub fn meet(place: &Place) -> Result<(), ClusterError> {
    runtime()?.block_on(async { Client::new(place)?.meet().await })
}

/// Takes part in a cluster: has a lease, and claims these volumes as they become free.
///
/// # Errors
/// etcd does not answer, or not as etcd; or there is no lease, since the host's name is in use, for example.
pub async fn join(place: Place, volumes: Vec<String>) -> Result<Membership, ClusterError> {
    let (joined, joining) = oneshot::channel();
    let run = move || match runtime() {
        Ok(runtime) => runtime.block_on(take_part(place, volumes, joined)),
        Err(error) => drop(joined.send(Err(error))),
    };
    let thread = std::thread::Builder::new().name("etcd".to_owned()).spawn(run);
    let thread = thread.map_err(|e| ClusterError::NoLease(format!("there is no thread for it: {e}")))?;
    let ended = || ClusterError::NoLease("its thread has ended".to_owned());
    let mut membership = joining.await.map_err(|_| ended())??;
    membership.thread = Some(thread);
    Ok(membership)
}

/// What is told about a joined cluster.
type Joined = oneshot::Sender<Result<Membership, ClusterError>>;

async fn take_part(place: Place, volumes: Vec<String>, joined: Joined) {
    let client = match Client::new(&place) {
        Ok(client) => client,
        Err(error) => return drop(joined.send(Err(error))),
    };
    if let Err(error) = client.meet().await {
        return drop(joined.send(Err(error)));
    }
    let tenure = Arc::new(Tenure::default());
    let ((orders, ordered), (news, heard)) = (mpsc::unbounded(), mpsc::unbounded());
    let owned = Arc::default();
    let membership = Membership {
        tenure: Arc::clone(&tenure),
        cluster_id: client.cluster_id(),
        orders: ordered,
        news,
        owned: Arc::clone(&owned),
        thread: None,
    };
    let (wake, woken) = mpsc::channel(1);
    let member = Member {
        client: &client,
        machine: Machine::new(Terms::of(place.lease), volumes.iter().cloned()),
        tenure,
        orders,
        owned,
        told: None,
        joined: Some((joined, membership, boot_time() + place.lease * 2 + Duration::from_secs(1))),
    };
    select(pin!(member.run(heard, woken)), pin!(watch(&client, &volumes, wake))).await;
}

/// Wakes the member whenever the ownership key of one of these volumes has gone.
async fn watch(client: &Client, volumes: &[String], mut wake: mpsc::Sender<()>) {
    loop {
        // A full channel: it is going to look anyway.
        let _ = client.watch(volumes, || drop(wake.try_send(()))).await;
        tokio::time::sleep(WATCH_AGAIN).await;
    }
}

/// A machine with the client that it asks through.
struct Member<'a> {
    client: &'a Client,
    machine: Machine,
    tenure: Arc<Tenure>,
    orders: mpsc::UnboundedSender<Order>,
    owned: Arc<Mutex<Vec<(String, Fence)>>>,
    /// The failure that was logged last.
    told: Option<Failure>,
    /// Who waits for the first lease, and until when.
    joined: Option<(Joined, Membership, Duration)>,
}

/// What happens while nothing is asked.
enum Event {
    News(News),
    Woken,
}

impl Member<'_> {
    async fn run(mut self, news: mpsc::UnboundedReceiver<News>, woken: mpsc::Receiver<()>) {
        let mut events = stream::select(news.map(Event::News), woken.map(|()| Event::Woken));
        loop {
            let now = boot_time();
            let orders = self.machine.tick(now);
            self.publish(orders);
            if let Some(why) = self.machine.over() {
                if *why != Why::Left {
                    tracing::error!("etcd: this host serves no more: {why}");
                }
                return;
            }
            // Nobody is there any more who could serve: the lease ends by itself.
            if self.gives_up(now) || self.orders.is_closed() {
                return;
            }
            if let Some(ask) = self.machine.ask(now) {
                let sent = boot_time();
                let (answer, failure) = self.client.answer(&ask).await;
                let orders = self.machine.answer(boot_time(), sent, &ask, answer);
                self.log(failure);
                self.publish(orders);
                continue;
            }
            let pause = self.machine.due().map_or(WATCH_AGAIN, |due| due.saturating_sub(now));
            // Not for long: the time for which the machine sleeps is not counted here.
            let pause = pin!(tokio::time::sleep(pause.min(WATCH_AGAIN)));
            match select(pause, events.next()).await {
                Either::Right((Some(Event::News(news)), _)) => self.machine.hear(&news),
                Either::Right((Some(Event::Woken), _)) => self.machine.hurry(boot_time()),
                Either::Left(_) | Either::Right((None, _)) => {}
            }
        }
    }

    /// Makes known what the machine has decided: first until when requests are served, then what to do.
    fn publish(&mut self, orders: Vec<Order>) {
        match self.machine.over() {
            Some(why) => self.tenure.end(&why.to_string()),
            None => self.tenure.set(self.machine.held().map(|Held { until, .. }| until)),
        }
        *self.owned.lock() = self.machine.owned();
        if self.machine.held().is_some()
            && let Some((joined, membership, _)) = self.joined.take()
        {
            // If nobody waits any more, this ends with the lease.
            drop(joined.send(Ok(membership)));
        }
        for order in orders {
            let _ = self.orders.unbounded_send(order);
        }
    }

    /// Whether nobody waits for a first lease any more.
    fn gives_up(&mut self, now: Duration) -> bool {
        let is_late = self.joined.as_ref().is_some_and(|(_, _, until)| now >= *until);
        if is_late && let Some((joined, ..)) = self.joined.take() {
            let error = match self.told.take() {
                Some(Failure::For(error)) => error,
                Some(failure) => ClusterError::NoLease(failure.to_string()),
                None => ClusterError::NoLease("etcd does not answer in time".to_owned()),
            };
            drop(joined.send(Err(error)));
        }
        is_late
    }

    /// Logs a failure, unless it was the last one, too. One that is for good ends what waits for the first lease.
    fn log(&mut self, failure: Option<Failure>) {
        let Some(failure) = failure else {
            if self.told.take().is_some() {
                tracing::info!("etcd: answers again");
            }
            return;
        };
        if self.told.as_ref() != Some(&failure) {
            tracing::warn!("etcd: {failure}");
        }
        // A name that is in use may be that of this host's last server, whose lease is going to end.
        if let Failure::For(error) = &failure
            && !matches!(error, ClusterError::NameTaken { .. })
            && let Some((joined, ..)) = self.joined.take()
        {
            drop(joined.send(Err(error.clone())));
        }
        self.told = Some(failure);
    }
}
