//! Replies to `NBD_CMD_BLOCK_STATUS`.

use super::state::Session;
use crate::context::Context;
use crate::errno::NbdErrno;
use crate::protocol::{Headers, Request, put_block_status};
use bytes::BytesMut;
use nitro_frontend::{Cost, Disk, DiskError, Run};
use nitro_port::yielding::yield_now;

/// Most runs in one chunk, which bounds a reply's memory. The client sends another request for the rest of its range.
const RUNS_MAX: usize = 8192;
/// Bytes of a step of a request with a length of 64 bits, and most steps. The client sends another request for the rest.
const STEP_BYTES: u64 = 1 << 31;
const STEPS_MAX: u64 = 16;

/// The cost of a request while it is in flight: that of the longest possible reply.
pub(super) fn cost(headers: Headers, contexts: usize) -> Cost {
    let run_bytes = if headers == Headers::Extended { 16 } else { 8 };
    Cost::request(contexts as u64 * RUNS_MAX as u64 * run_bytes)
}

/// Requests the status in each context from the disk, and answers with one chunk per context.
pub(super) async fn block_status<E: Disk>(session: &Session<'_, E>, cost: Cost, request: &Request, one: bool) {
    let mut chunks = BytesMut::new();
    let mut contexts = session.negotiated.contexts.iter().peekable();
    while let Some((context, id, _)) = contexts.next() {
        let runs = match status(session, request, context, if one { 1 } else { RUNS_MAX }).await {
            Ok(runs) => runs,
            Err(error) => return session.reply_error(cost, request, NbdErrno::from(error).into()),
        };
        if runs.is_empty() {
            tracing::error!(?request, ?context, "the disk returned no status");
            return session.reply_error(cost, request, NbdErrno::Io.into());
        }
        put_block_status(&mut chunks, session.answered(request), contexts.peek().is_none(), id, &runs);
    }
    session.connection.reply(cost, |queue| queue.push(chunks.freeze()));
}

/// The status of a range in one context, at most `max` runs; a range whose length does not fit into 32 bits in steps.
async fn status<E: Disk>(
    session: &Session<'_, E>,
    request: &Request,
    context: Context,
    max: usize,
) -> Result<Vec<(u64, u32)>, DiskError> {
    let Request { offset, len, .. } = *request;
    let step_max = if u32::try_from(len).is_ok() { len } else { STEP_BYTES };
    let (mut runs, mut done) = (Vec::new(), 0);
    while done < len.min(step_max * STEPS_MAX) {
        if done > 0 {
            yield_now().await;
            if session.connection.is_leaving() {
                break;
            }
        }
        let step = (len - done).min(step_max);
        let found = session.negotiated.disk.status(context.asked(), offset + done, step as u32).await?;
        let added = add(&mut runs, context, &found, step, max);
        done += added;
        // The disk answered for less, or there is no room for more runs.
        if added < step {
            break;
        }
    }
    Ok(runs)
}

/// Appends what is given to runs of (length in bytes, flags): merges adjacent ones with equal flags, cuts off the part
/// beyond `len` bytes, and keeps at most `max`. Returns the number of bytes that were added.
fn add(runs: &mut Vec<(u64, u32)>, context: Context, given: &[Run], len: u64, max: usize) -> u64 {
    let mut left = len;
    for run in given {
        let (taken, its_flags) = (run.len.min(left), context.flags(run));
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
    len - left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_merged_cut_and_counted() {
        let extents = [(5, 1), (0, 3), (5, 1), (7, 0), (u64::MAX, 1), (1, 0)];
        let extents =
            extents.map(|(len, flags)| Run { len, cached: flags & 1 != 0, dirty: flags & 2 != 0, ..Run::default() });
        let normalize = |given: &[Run], len, max| {
            let mut runs = Vec::new();
            let added = add(&mut runs, Context::NitroCache, given, len, max);
            assert_eq!(runs.iter().map(|(len, _)| len).sum::<u64>(), added);
            runs
        };
        assert_eq!(normalize(&extents, 100, 10), [(10, 1), (7, 0), (83, 1)]);
        assert_eq!(normalize(&extents, 100, 1), [(10, 1)]);
        assert_eq!(normalize(&extents, 3, 10), [(3, 1)]);
        assert_eq!(normalize(&extents, 1 << 40, 10), [(10, 1), (7, 0), ((1 << 40) - 17, 1)]);
        let mut runs = vec![(1, 0), (2, 1)];
        assert_eq!(
            (add(&mut runs, Context::NitroCache, &extents, 100, 3), &runs[..]),
            (17, &[(1, 0), (12, 1), (7, 0)][..])
        );
        assert!(normalize(&[], 3, 10).is_empty());
    }
}
