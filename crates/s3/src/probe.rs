//! Whether a store keeps what a volume relies on: of puts with `If-None-Match: *` that race, one creates the object, and all others hear
//! that it exists.

use crate::error::{S3Error, StoreError};
use crate::patient::Patient;
use crate::store::{Put, Store};
use bytes::Bytes;
use futures_util::future::join_all;
use nitro_port::Clock;
use std::time::Duration;

/// Races, each of so many puts. A store that loses one race of three (s3s-fs 0.14 loses seven of ten) passes with a probability of 2 %.
const ROUNDS: u32 = 10;
const PUTS: usize = 8;
/// Rounds that may end without a result, for want of answers.
const VOID_MAX: u32 = 30;

/// Races, and refuses a store that loses.
///
/// # Errors
/// [`S3Error::Unfit`], or the store refuses the puts.
pub(crate) async fn probe<S: Store, C: Clock>(store: &Patient<S, C>) -> Result<(), S3Error> {
    let (nonce, mut names, mut outcome, mut decided) = (store.random(), Vec::new(), Ok(()), 0);
    for round in 0..ROUNDS + VOID_MAX {
        let name = format!("probe/{nonce:016x}-{round}");
        names.push(name.clone());
        match race(store, &name).await {
            Ok(true) => decided += 1,
            Ok(false) => store.pause(Duration::from_millis(500)).await,
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
        if decided == ROUNDS {
            break;
        }
    }
    // What is left of them is in nobody's way.
    if let Err(error) = store.delete(&names).await {
        tracing::debug!(%error, "objects of the probe stay");
    }
    match outcome {
        Ok(()) if decided < ROUNDS => {
            let why = format!("too few answers: {decided} of {ROUNDS} races of conditional puts were decided");
            Err(StoreError::Unsure(why).into())
        }
        outcome => outcome,
    }
}

/// One race. False: there was none, for want of answers.
async fn race<S: Store, C: Clock>(store: &Patient<S, C>, name: &str) -> Result<bool, S3Error> {
    let data: Vec<Bytes> = (0..PUTS).map(|_| store.random().to_le_bytes().repeat(512).into()).collect();
    let answers = join_all(data.iter().map(|data| store.put_new_once(name, data.clone()))).await;
    let won: Vec<&Bytes> =
        answers.iter().zip(&data).filter(|(answer, _)| matches!(answer, Ok(Put::Created))).map(|(_, d)| d).collect();
    if won.len() > 1 {
        let why = format!("{} of {PUTS} puts with `If-None-Match: *` created the same object", won.len());
        return Err(S3Error::Unfit(format!("{why} (s3s-fs does this, as do stores that ignore the condition)")));
    }
    let losers = answers.iter().filter(|answer| matches!(answer, Ok(Put::Exists))).count();
    let (Some(winner), true) = (won.first(), losers > 0) else {
        // Refused for good, and not for want of an answer: say so.
        let refused = answers.into_iter().find_map(|answer| match answer {
            Err(error @ StoreError::Refused(_)) => Some(error),
            _ => None,
        });
        return refused.map_or(Ok(false), |error| Err(error.into()));
    };
    let found = store.get(name, 0..winner.len() as u64 + 1).await?;
    if found.as_ref() != Some(*winner) {
        let why = "a put with `If-None-Match: *` replaced an object, or what was put is not found at once";
        return Err(S3Error::Unfit(why.to_owned()));
    }
    Ok(true)
}
