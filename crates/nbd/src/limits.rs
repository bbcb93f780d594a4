//! The limits of one connection.

/// Limits of one connection. They bound its memory, whatever the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest payload of a handshake option, in bytes; at most [`Limits::OPTION_BYTES_CEILING`]. Options with longer
    /// payloads are refused.
    pub option_bytes_max: u32,
    /// Number of handshake options after which the server closes the connection, besides
    /// [`Limits::OPTIONS_AN_EXPORT`] for each export that the client may list.
    pub options_max: u32,
    /// Longest read or write, in bytes; more than 1 GiB has the effect of 1 GiB. Advertised as the maximum block size.
    pub request_bytes_max: u32,
    /// Longest payload of a refused option or write that the server receives and discards, in bytes. A longer payload
    /// ends the connection.
    pub drain_bytes_max: u32,
    /// Most requests in flight, that is, received and not yet answered. 0 has the effect of 1.
    pub in_flight_requests_max: u32,
    /// Most data bytes of the requests in flight. If none is in flight, a request is admitted even if it is larger.
    pub in_flight_bytes_max: u64,
}

impl Limits {
    /// Upper limit of `option_bytes_max` in bytes, since options are parsed in the receive buffer.
    pub const OPTION_BYTES_CEILING: u32 = 64 << 10;
    /// What a client that lists all exports may ask of each of them: `nbdinfo --list` sends two options.
    pub const OPTIONS_AN_EXPORT: u32 = 4;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            option_bytes_max: Self::OPTION_BYTES_CEILING,
            options_max: 256,
            request_bytes_max: 32 << 20,
            drain_bytes_max: 64 << 20,
            in_flight_requests_max: 256,
            in_flight_bytes_max: 64 << 20,
        }
    }
}
