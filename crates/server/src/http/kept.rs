//! The history on the disk, so that it survives a restart: one file of bounded size for each address of HTTP.

use super::history::{COLUMNS, History, SAMPLES_MAX, SERIES};
use crate::origins::state_folder;
use nitro_files::{self as files, Links};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the file is written.
pub(super) const SAVE_EVERY: Duration = Duration::from_secs(300);
/// The version of the file's format.
const VERSION: u32 = 1;
/// Maximum length of the head.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// A row: its time, and its columns.
const ROW_BYTES: usize = size_of::<u64>() + COLUMNS * size_of::<f32>();
/// Maximum length of the file.
const FILE_BYTES_MAX: usize = HEAD_BYTES_MAX + SAMPLES_MAX * ROW_BYTES;
/// Age at which files of other addresses are removed.
const STALE: Duration = Duration::from_secs(24 * 3600);
const PREFIX: &str = "history-";
const SUFFIX: &str = ".nitro-history";

/// The first line of the file, in JSON. Rows follow, the oldest first, in little endian.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u32,
    series: Vec<String>,
    volumes: Vec<String>,
    classes: Vec<String>,
}

impl Head {
    fn of(history: &History) -> Self {
        let (volumes, classes) = history.names();
        let series = SERIES.map(str::to_owned).to_vec();
        Self { version: VERSION, series, volumes: volumes.to_vec(), classes: classes.to_vec() }
    }
}

/// The content of the file; `None`: the names are too long.
fn encode(history: &History) -> Option<Vec<u8>> {
    let mut bytes = serde_json::to_vec(&Head::of(history)).ok()?;
    bytes.push(b'\n');
    if bytes.len() > HEAD_BYTES_MAX {
        return None;
    }
    for (time, row) in history.rows() {
        bytes.extend(time.to_le_bytes());
        row.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    }
    Some(bytes)
}

/// The history in a file's content, without what is later than `now` (a Unix time); `None`: it is of another format.
fn decode(bytes: &[u8], now: u64) -> Option<History> {
    // The head, of this version and with the same columns.
    let end = bytes.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n')?;
    let head: Head = serde_json::from_slice(&bytes[..end]).ok()?;
    if head.version != VERSION || head.series != SERIES {
        return None;
    }
    let mut history = History::with_names(head.volumes, head.classes)?;
    // The rows, whole ones, from older to newer.
    let mut newest = 0;
    for bytes in bytes[end + 1..].chunks_exact(ROW_BYTES) {
        let (time, columns) = bytes.split_first_chunk()?;
        let time = u64::from_le_bytes(*time);
        if time < newest || time > now {
            break;
        }
        newest = time;
        let mut row = [f32::NAN; COLUMNS];
        for (value, bytes) in row.iter_mut().zip(columns.chunks_exact(size_of::<f32>())) {
            *value = f32::from_le_bytes(bytes.try_into().ok()?);
        }
        history.push(time, &row);
    }
    Some(history)
}

/// The file of the history.
#[derive(Clone)]
pub(super) struct Kept {
    path: PathBuf,
}

impl Kept {
    /// That of an address.
    pub(super) fn of(address: &str) -> Self {
        Self::within(&state_folder(), address)
    }

    fn within(folder: &Path, address: &str) -> Self {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || ".-_".contains(*c);
        let name: String = address.chars().map(|c| if is_plain(&c) { c } else { '_' }).take(150).collect();
        Self { path: folder.join(format!("{PREFIX}{name}{SUFFIX}")) }
    }

    /// The history of the time before the start; a new one if there is none that can be used.
    pub(super) fn load(&self, now: u64) -> History {
        self.remove_stale();
        match files::read(&self.path, Links::Followed, FILE_BYTES_MAX as u64) {
            Ok(None) => History::default(),
            Ok(Some(bytes)) => decode(&bytes, now).unwrap_or_default(),
            Err(error) => {
                tracing::info!("{}: {error}: the history on the page begins with this start", self.path.display());
                History::default()
            }
        }
    }

    /// What is to be written, which [`write`](Self::write) does.
    pub(super) fn content(history: &History) -> Option<Vec<u8>> {
        encode(history)
    }

    /// Replaces the file. Whether it could be is logged only where it is of use: the history is a convenience.
    pub(super) fn write(&self, content: &[u8]) {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let written =
            files::own_folder(folder).and_then(|()| files::write_durably(&self.path, Links::Followed, content));
        if let Err(error) = written {
            tracing::debug!("{}: {error}: the history on the page will not survive a restart", self.path.display());
        }
    }

    /// Removes files of addresses that are not in use any more.
    fn remove_stale(&self) {
        let Some(listed) = self.path.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
        for entry in listed.flatten() {
            let name = entry.file_name();
            let is_history = name.to_str().is_some_and(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX));
            let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            if is_history && entry.path() != self.path && age().is_some_and(|age| age > STALE) {
                // It is removed by the next start, otherwise.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(rows: u64) -> History {
        let mut history = History::with_names(vec!["vm".into()], vec!["scan".into()]).unwrap();
        for i in 0..rows {
            history.push(1000 + 10 * i, &[i as f32; COLUMNS]);
        }
        history
    }

    fn rows(history: &History) -> Vec<(u64, f32)> {
        history.rows().map(|(time, row)| (time, row[COLUMNS - 1])).collect()
    }

    #[test]
    fn a_history_survives_in_a_bounded_file() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::within(folder.path(), "unix:/run/a b/http.sock");
        assert_eq!(kept.path.file_name().unwrap(), "history-unix__run_a_b_http.sock.nitro-history");
        assert!(rows(&kept.load(u64::MAX)).is_empty());
        let before = history(SAMPLES_MAX as u64 + 100);
        let content = Kept::content(&before).unwrap();
        assert!(content.len() <= FILE_BYTES_MAX, "{}", content.len());
        kept.write(&content);
        let after = kept.load(u64::MAX);
        assert_eq!((rows(&after), after.names()), (rows(&before), before.names()));
        // The clock was set back: what is later than now is left out.
        assert_eq!(rows(&kept.load(rows(&before)[9].0)).len(), 10);
    }

    #[test]
    fn what_is_no_history_is_a_new_one() {
        let good = encode(&history(3)).unwrap();
        let of = |bytes: &[u8]| decode(bytes, u64::MAX).map(|history| rows(&history).len());
        assert_eq!(of(&good), Some(3));
        assert_eq!(of(&good[..good.len() - 1]), Some(2));
        assert_eq!((of(b""), of(b"\n"), of(b"{}\n"), of(&[0xff; 100])), (None, None, None, None));
        let text = String::from_utf8_lossy(&good).replacen("\"version\":1", "\"version\":2", 1).into_bytes();
        assert_eq!(of(&text), None);
        let many = Head { volumes: vec![String::new(); 1000], ..Head::of(&history(0)) };
        assert_eq!(of(&[serde_json::to_vec(&many).unwrap(), b"\n".to_vec()].concat()), None);
        // Times that go back end the rows.
        let (head, row) = (good.len() - 3 * ROW_BYTES, |i: usize| good.len() - (3 - i) * ROW_BYTES);
        let swapped = [&good[..head], &good[row(1)..row(2)], &good[row(0)..row(1)]].concat();
        assert_eq!(of(&swapped), Some(1));
    }
}
