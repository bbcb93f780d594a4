//! What is counted of a client's connections.

nitro_units::counters! {
    /// Counters of the connections of a client to its server.
    pub struct NbdMetrics / NbdCounters {
        /// Times that all connections were made anew, since one had ended or was not answered.
        reconnections,
        /// Bytes of changes that were sent again, as the server had not said that they are durable.
        resent_bytes,
        /// Times that the connections could not be made: nobody listened, or the server refused or did not answer.
        failed_connects,
        /// FLUSHes of the client's own, which keep what would have to be sent again within its bound.
        own_flushes,
    }
}
