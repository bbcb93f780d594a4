//! What one connection may cost the server.

/// Bounds of one connection. Whatever the initiator sends, memory stays within these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Login requests after which the server hangs up.
    pub login_requests_max: u32,
    /// Bytes of text (keys and values) of one login or text request, continued ones included.
    pub text_bytes_max: usize,
    /// Commands between their receipt and the sending of their response: the window that the initiator is told. At least 1.
    pub tasks_max: u32,
    /// Requests for immediate delivery beyond that.
    pub immediate_max: u32,
    /// Longest data of one command in bytes: the maximum transfer length (SBC-4 §6.6.4).
    pub transfer_bytes_max: u32,
    /// Longest data segment that is received, in bytes; longer ones end the connection.
    pub segment_bytes_max: u32,
    /// Data in bytes that are asked for at once by R2T.
    pub burst_bytes_max: u32,
    /// Data in bytes that may be sent with a command without being asked for.
    pub first_burst_bytes_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            login_requests_max: 32,
            text_bytes_max: 16 << 10,
            tasks_max: 128,
            immediate_max: 16,
            transfer_bytes_max: 32 << 20,
            segment_bytes_max: 256 << 10,
            burst_bytes_max: 1 << 20,
            first_burst_bytes_max: 256 << 10,
        }
    }
}
