//! What workloads have had, as counters of status and metrics.

use crate::request::Used;

nitro_units::counters! {
    /// What the workloads at a device have had since it was opened.
    pub struct Counters {
        /// Requests to the disk of clients at random.
        {disk_requests work random} random_requests,
        /// Requests to the disk of backups and restores.
        {disk_requests work streams} stream_requests,
        /// Requests to the disk that no client waits for.
        {disk_requests work background} background_requests,
        /// Requests of clients at random that waited until others had had their share of the disk.
        {disk_waits work random} random_waits,
        /// Requests of backups and restores that waited.
        {disk_waits work streams} stream_waits,
        /// Requests without a client that waited.
        {disk_waits work background} background_waits,
        /// Microseconds for which requests of clients at random waited.
        {disk_waited work random} random_waited_us,
        /// Microseconds for which requests of backups and restores waited.
        {disk_waited work streams} stream_waited_us,
        /// Microseconds for which requests without a client waited.
        {disk_waited work background} background_waited_us,
        /// Microseconds of the disk that requests of clients at random cost, as far as its costs are known.
        {disk_cost work random} random_cost_us,
        /// Microseconds of the disk that requests of backups and restores cost.
        {disk_cost work streams} stream_cost_us,
        /// Microseconds of the disk that requests without a client cost.
        {disk_cost work background} background_cost_us,
    }
}

impl Counters {
    pub(crate) fn of([random, streams, background]: [Used; 3]) -> Self {
        let us = |ns: u64| ns / 1000;
        Self {
            random_requests: random.requests,
            stream_requests: streams.requests,
            background_requests: background.requests,
            random_waits: random.waited,
            stream_waits: streams.waited,
            background_waits: background.waited,
            random_waited_us: us(random.waited_ns),
            stream_waited_us: us(streams.waited_ns),
            background_waited_us: us(background.waited_ns),
            random_cost_us: us(random.cost_ns),
            stream_cost_us: us(streams.cost_ns),
            background_cost_us: us(background.cost_ns),
        }
    }
}
