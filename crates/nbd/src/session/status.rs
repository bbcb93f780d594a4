//! Replies to `NBD_CMD_BLOCK_STATUS`.

use super::state::Session;
use crate::context::Context;
use crate::errno::NbdErrno;
use crate::protocol::{Request, put_block_status};
use bytes::BytesMut;
use nitro_frontend::Cost;
use nitro_frontend::{Disk, Run};

/// Most runs in one chunk, which bounds a reply's memory. The client sends another request for the rest of its range.
const RUNS_MAX: usize = 8192;
/// Bytes of a run in memory and on the wire.
const RUN_BYTES: u64 = 8;

/// The cost of a request while it is in flight: that of the longest possible reply.
pub(super) fn cost(contexts: usize) -> Cost {
    Cost::request(contexts as u64 * RUNS_MAX as u64 * RUN_BYTES)
}

/// Requests the status in each context from the disk, and answers with one chunk per context.
pub(super) async fn block_status<E: Disk>(session: &Session<'_, E>, cost: Cost, request: &Request, one: bool) {
    let negotiated = session.negotiated;
    let Request { offset, len, cookie, .. } = *request;
    let mut chunks = BytesMut::new();
    let mut contexts = negotiated.contexts.iter().peekable();
    while let Some((context, id, _)) = contexts.next() {
        let runs = match negotiated.disk.status(context.asked(), offset, len).await {
            Ok(runs) => normalize(context, &runs, len, if one { 1 } else { RUNS_MAX }),
            Err(error) => return session.reply_error(cost, cookie, NbdErrno::from(error).into()),
        };
        if runs.is_empty() {
            tracing::error!(offset, len, ?context, "the disk returned no status");
            return session.reply_error(cost, cookie, NbdErrno::Io.into());
        }
        put_block_status(&mut chunks, cookie, contexts.peek().is_none(), id, &runs);
    }
    session.connection.reply(cost, |queue| queue.push(chunks.freeze()));
}

/// Merges adjacent runs with equal flags, cuts off the part beyond `len` bytes, and keeps at most `max` runs. Returns
/// (length in bytes, flags) of each run.
fn normalize(context: Context, given: &[Run], len: u32, max: usize) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut left = len;
    for run in given {
        let (taken, its_flags) = (u32::try_from(run.len).unwrap_or(u32::MAX).min(left), context.flags(run));
        if taken == 0 {
            continue;
        }
        let count = runs.len();
        match runs.last_mut() {
            Some((run, flags)) if *flags == its_flags => *run += taken,
            _ if count == max => break,
            _ => runs.push((taken, its_flags)),
        }
        left -= taken;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_cut_and_counted() {
        let extents = [(5, 1), (0, 3), (5, 1), (7, 0), (u64::MAX, 1), (1, 0)];
        let extents =
            extents.map(|(len, flags)| Run { len, cached: flags & 1 != 0, dirty: flags & 2 != 0, ..Run::default() });
        let normalize = |runs: &[Run], len, max| normalize(Context::NitroCache, runs, len, max);
        assert_eq!(normalize(&extents, 100, 10), [(10, 1), (7, 0), (83, 1)]);
        assert_eq!(normalize(&extents, 100, 1), [(10, 1)]);
        assert_eq!(normalize(&extents, 3, 10), [(3, 1)]);
        assert_eq!(normalize(&extents, u32::MAX, 10), [(10, 1), (7, 0), (u32::MAX - 17, 1)]);
        assert!(normalize(&[], 3, 10).is_empty());
    }
}
