//! Texts beside the content of a volume. Each change is a generation: a server that has lost the volume changes none.

use super::Volume;
use crate::error::S3Error;
use crate::store::Store;
use bytes::Bytes;
use nitro_port::Clock;

impl<S, C> Volume<S, C> {
    /// The text of a number below [`NOTES`](crate::NOTES); empty: there is none.
    pub fn note(&self, number: usize) -> Bytes {
        self.state.borrow().notes.get(number).cloned().unwrap_or_default()
    }
}

impl<S: Store, C: Clock> Volume<S, C> {
    /// Changes a text, durably; at most [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX). It may be changed although there is an error.
    ///
    /// # Errors
    /// Another server has taken the volume over, or the store refuses.
    pub async fn set_note(&self, number: usize, text: Bytes) -> Result<(), S3Error> {
        let (wanted, failures) = {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let Some(note) = state.notes.get_mut(number) else { return Ok(()) };
            if *note != text {
                *note = text;
                state.noted += 1;
            }
            (state.noted, state.failures)
        };
        self.wake_runner();
        self.noted(wanted, failures).await
    }

    /// Waits until changes of texts, and what counts as one, are in a generation. `failures`: of the store, before.
    pub(super) async fn noted(&self, wanted: u64, failures: u64) -> Result<(), S3Error> {
        self.until(|state| match (&state.fenced, &state.failure) {
            (Some(fenced), _) => Some(Err(fenced.clone())),
            (None, _) if state.durably_noted >= wanted => Some(Ok(())),
            (None, Some(failure)) if state.failures != failures => Some(Err(failure.clone())),
            _ => None,
        })
        .await
    }
}
