//! What one connection may cost the server.

/// Bounds of one connection. Whatever the client sends, memory stays within these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest payload of a handshake option, in bytes; at most [`Limits::OPTION_BYTES_CEILING`]. Longer ones are skipped and refused.
    pub option_bytes_max: u32,
    /// Number of handshake options after which the server hangs up.
    pub options_max: u32,
    /// Longest data of one read or write, in bytes; at most 1 GiB counts. Advertised as the maximum block size.
    pub request_bytes_max: u32,
    /// Longest payload of a refused option or write that is received and thrown away, in bytes; above it the server hangs up.
    pub drain_bytes_max: u32,
    /// Requests between their receipt and the sending of their reply. At least 1.
    pub in_flight_requests_max: u32,
    /// Data bytes of those requests. A single request is admitted even if it is larger.
    pub in_flight_bytes_max: u64,
}

impl Limits {
    /// `option_bytes_max` cannot exceed this, as options are parsed in the receive buffer.
    pub const OPTION_BYTES_CEILING: u32 = 64 << 10;
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
