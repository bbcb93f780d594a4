//! What is counted of the requests to a store: what a provider bills.

nitro_units::counters! {
    /// Counters of the requests of a volume to its store. Each attempt counts.
    pub struct S3Metrics / S3Counters {
        /// Objects that were put, data and manifests.
        puts,
        /// Objects, or parts of them, that were read.
        gets,
        /// Pages of lists of objects.
        lists,
        /// Requests to delete objects, each of up to a thousand.
        deletes,
        /// Bytes that were sent.
        put_bytes,
        /// Bytes that were received.
        got_bytes,
        /// Requests that were made again, as there was no answer, or one that says to try again.
        retries,
        /// Generations of the manifest that were written.
        generations,
    }
}
