//! Texts that an origin keeps beside its content: whoever serves it finds them, from any machine.

use std::{fmt, io};

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The newest data may be in a cache: [`Fence`](super::Fence).
    Dirty,
    /// Which cache has served it last: [`VolumeMarks`](super::VolumeMarks).
    Volume,
}

impl Note {
    /// The name under which the text is kept.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Dirty => "nitro.dirty",
            Self::Volume => "nitro.volume",
        }
    }
}

/// Where an open origin keeps such texts. All calls may block for some seconds.
pub trait Notes: fmt::Debug + Send + Sync {
    /// The location of a text, in words.
    fn place(&self, note: Note) -> String;

    /// How a text is removed by hand.
    fn removal(&self, note: Note) -> String;

    /// A text; `None`: there is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, note: Note) -> io::Result<Option<String>>;

    /// Sets a text, durably.
    ///
    /// # Errors
    /// It cannot be written; it may have been nevertheless, or be written later, before what this server writes after it.
    fn write(&self, note: Note, text: String) -> io::Result<()>;

    /// Removes a text, durably, if there is one.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    fn remove(&self, note: Note) -> io::Result<()>;
}
