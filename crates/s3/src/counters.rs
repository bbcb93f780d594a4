//! What is counted of the requests to a store: what a provider bills.

nitro_units::counters! {
    /// Counters of the requests of a volume to its store. Each attempt counts.
    pub struct S3Metrics / S3Counters {
        /// Objects that were put, data and manifests.
        s3_puts,
        /// Objects, or parts of them, that were read.
        s3_gets,
        /// Pages of lists of objects.
        s3_lists,
        /// Requests to delete objects, each of up to a thousand.
        s3_deletes,
        /// Bytes that were sent.
        s3_put_bytes,
        /// Bytes that were received.
        s3_got_bytes,
        /// Requests that were made again, as there was no answer, or one that says to try again.
        s3_retries,
        /// Generations of the manifest that were written.
        s3_generations,
    }
}
