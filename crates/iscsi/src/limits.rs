//! The limits of one connection.

/// Limits of one connection. They bound its memory, whatever the initiator sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of login requests after which the server closes the connection.
    pub login_requests_max: u32,
    /// Longest text (keys and values) of a login request in bytes, including its continuations.
    pub text_bytes_max: usize,
    /// Most commands without a response: the size of the command window. At least 1.
    pub tasks_max: u32,
    /// Most requests for immediate delivery, which do not count in the window.
    pub immediate_max: u32,
    /// Longest data of one command in bytes: the maximum transfer length (SBC-4 §6.6.4).
    pub transfer_bytes_max: u32,
    /// Longest data segment that the server receives, in bytes; a longer one ends the connection.
    pub segment_bytes_max: u32,
    /// Upper limit of `MaxBurstLength` in bytes: the most data that one R2T requests.
    pub burst_bytes_max: u32,
    /// Upper limit of `FirstBurstLength` in bytes: the most unsolicited data of a command.
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
