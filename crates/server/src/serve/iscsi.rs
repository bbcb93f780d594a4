//! The configuration of iSCSI: access, classes of group numbers, persistent reservations.

use futures_util::future::BoxFuture;
use nitro_cache::builtin;
use nitro_config::{Config, IscsiConfig, accounts};
use nitro_console::error::Error;
use nitro_device::Blocking;
use nitro_files::{self as files, Links};
use nitro_frontend::RequestMemory;
use nitro_iscsi::{Access, Account, Groups, IoClass, Keeper, ServerOptions, StoredStates, Targets};
use nitro_units::ClassId;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file of reservations, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The options of the iSCSI target.
pub(super) fn options(whole: &Config, memory: &Arc<RequestMemory>) -> Result<ServerOptions, Error> {
    let config = &whole.server.iscsi;
    let (access, groups, warnings) = checked(whole)?;
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let keeper = config.state.as_deref().map(Folder::open).transpose()?;
    let keeper = keeper.map(|folder| Arc::new(folder) as Arc<dyn Keeper>);
    let targets = Targets::new(keeper).map_err(|e| Error::new("the stored reservations", e))?;
    Ok(ServerOptions {
        memory: Arc::clone(memory),
        access: Arc::new(access),
        targets: Arc::new(targets),
        groups: Arc::new(groups),
        ..ServerOptions::default()
    })
}

/// What the configuration says of access and of groups, with warnings. Changes nothing.
pub(super) fn checked(whole: &Config) -> Result<(Access, Groups, Vec<String>), Error> {
    let config = &whole.server.iscsi;
    let access = access(config)?;
    let warnings = match config.chap {
        Some(_) => whole.check_against(&access.accounts)?,
        None => Vec::new(),
    };
    Ok((access, groups(config)?, warnings))
}

fn access(config: &IscsiConfig) -> Result<Access, Error> {
    let accounts = config.chap.as_deref().map_or(Ok(Vec::new()), accounts::read)?;
    let own = config.mutual_chap.as_deref().map(|path| -> Result<Account, Error> {
        let mut own = accounts::read(path)?;
        let only = own.pop().filter(|_| own.is_empty());
        only.ok_or_else(|| Error::new(path.display(), "it must have one line").or("write NAME SECRET"))
    });
    let own = own.transpose()?;
    if own.is_some() && accounts.is_empty() {
        let why = "mutual CHAP requires accounts of initiators";
        return Err(Error::new("server.iscsi.mutual_chap", why).or("set chap, too"));
    }
    if own.as_ref().is_some_and(|own| accounts.iter().any(|account| account.secret == own.secret)) {
        let why = "its secret is also that of an initiator, which could impersonate the server";
        return Err(Error::new("server.iscsi.mutual_chap", why).or("use another secret"));
    }
    Ok(Access { allowed: config.allowed()?, accounts, own })
}

/// The names of IO CLASS in a configuration, and the classes of groups that have it.
const MARKUP: [(&str, IoClass, ClassId); 3] = [
    ("metadata", IoClass::Metadata, builtin::METADATA),
    ("small", IoClass::Small, builtin::of_file(16 << 10)),
    ("large", IoClass::Large, builtin::of_file(u64::MAX)),
];

fn groups(config: &IscsiConfig) -> Result<Groups, Error> {
    let mut groups = Groups::default();
    for (group, class) in &config.groups {
        let what = format!("server.iscsi.groups.{group} = {class:?}");
        let number = group.parse::<u8>().ok().filter(|number| *number > 0);
        let class = class_of(class, &what)?;
        if !number.is_some_and(|number| groups.set(number, class)) {
            return Err(Error::new(&what, "there is no such group").or("groups are 1 to 63"));
        }
    }
    for (_, markup, class) in MARKUP {
        groups.set_markup(markup, Some(class));
    }
    for (name, class) in &config.markup {
        let what = format!("server.iscsi.markup.{name} = {class:?}");
        let class = class_of(class, &what)?;
        let known = MARKUP.iter().find(|(known, ..)| known == name);
        let (_, markup, _) =
            known.ok_or_else(|| Error::new(&what, "there is no such markup").or("write metadata, small or large"))?;
        groups.set_markup(*markup, class);
    }
    Ok(groups)
}

/// The class with a name or number; `none`: no class. `what`: the setting.
fn class_of(class: &str, what: &str) -> Result<Option<ClassId>, Error> {
    if class == "none" {
        return Ok(None);
    }
    let by_number = || class.parse().ok().and_then(ClassId::new);
    builtin::named(class).or_else(by_number).map(Some).ok_or_else(|| {
        Error::new(what, "there is no such class")
            .or("give a number from 0 to 31, the name of a class that is built in, or none")
    })
}

/// The end of the name of a file of reservations.
const SUFFIX: &str = ".reservations";

/// A folder with a file for each target that has persistent reservations.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// A disk that hangs delays changes of reservations, and no other request.
    writes: Arc<Blocking>,
}

impl Folder {
    fn open(path: &Path) -> Result<Self, Error> {
        files::own_folder(path).map_err(|e| {
            Error::new(format_args!("folder {}", path.display()), e).or("set server.iscsi.state to another")
        })?;
        let writes = Blocking::new(1).map_err(|e| Error::new("threads", e).or("raise the limit of threads"))?;
        Ok(Self { path: path.to_owned(), writes: Arc::new(writes) })
    }

    /// The file of a target: its name, with `%` and `/` replaced.
    fn file(&self, target: &str) -> PathBuf {
        self.path.join(format!("{}{SUFFIX}", target.replace('%', "%25").replace('/', "%2F")))
    }

    /// Gives a file that an earlier version made for a target whose name is not in lower case the name that it has now, unless
    /// there is a file of that name. Returns the name of the target.
    fn lowered(&self, target: String) -> io::Result<String> {
        let lowered = target.to_ascii_lowercase();
        if lowered != target && !self.file(&lowered).exists() {
            fs::rename(self.file(&target), self.file(&lowered))?;
            return Ok(lowered);
        }
        Ok(target)
    }

    /// The target of a file, if its name is one that [`file`](Self::file) makes.
    fn target(&self, path: &Path) -> Option<String> {
        let target = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.replace("%2F", "/").replace("%25", "%");
        (self.file(&target) == path).then_some(target)
    }
}

impl Keeper for Folder {
    fn load(&self) -> io::Result<StoredStates> {
        let mut found = StoredStates::new();
        let paths = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        for target in paths.iter().filter_map(|path| self.target(path)) {
            let target = self.lowered(target)?;
            if let Some(bytes) = files::read(&self.file(&target), Links::Followed, FILE_BYTES_MAX).transpose() {
                found.insert(target, bytes);
            }
        }
        Ok(found)
    }

    fn store(&self, target: &str, state: Option<Vec<u8>>) -> BoxFuture<'static, io::Result<()>> {
        let (path, writes) = (self.file(target), Arc::clone(&self.writes));
        let work = move || match state {
            Some(bytes) => files::write_durably(&path, Links::Followed, &bytes),
            None => files::remove_durably(&path, Links::Followed),
        };
        Box::pin(async move { writes.run(work).await? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_executor::block_on;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn reservations_are_kept_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Folder::open(&folder.path().join("state")).unwrap();
        let store = |state: Option<&[u8]>| block_on(keeper.store("iqn:a/b%2f", state.map(<[u8]>::to_vec)));
        let loaded = || keeper.load().unwrap().remove("iqn:a/b%2f").map(Result::unwrap);
        assert_eq!(loaded(), None);
        store(Some(b"text")).unwrap();
        assert_eq!(loaded().as_deref(), Some(&b"text"[..]));
        store(None).unwrap();
        store(None).unwrap();
        assert_eq!(loaded(), None);
    }

    #[test]
    fn reservations_of_targets_that_were_not_in_lower_case_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Folder::open(&folder.path().join("state")).unwrap();
        let found = |target: &str| keeper.load().unwrap().remove(target).map(Result::unwrap);
        fs::write(keeper.file("iqn.2026-11.nitro:VM"), "before").unwrap();
        assert_eq!(found("iqn.2026-11.nitro:vm").as_deref(), Some(&b"before"[..]));
        block_on(keeper.store("iqn.2026-11.nitro:vm", None)).unwrap();
        assert_eq!(fs::read_dir(&keeper.path).unwrap().count(), 0, "nothing comes back");
        fs::write(keeper.file("iqn.2026-11.nitro:VM"), "before").unwrap();
        fs::write(keeper.file("iqn.2026-11.nitro:vm"), "now").unwrap();
        assert_eq!(found("iqn.2026-11.nitro:vm").as_deref(), Some(&b"now"[..]));
    }

    #[test]
    fn a_planted_file_of_reservations_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let keeper = Folder::open(&folder.path().join("state")).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "untouched").unwrap();
        std::os::unix::fs::symlink(&victim, keeper.file("iqn:link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, keeper.file("iqn:fifo"), rustix::fs::Mode::RUSR).unwrap();
        let mut found = keeper.load().unwrap();
        assert!(found.remove("iqn:link").unwrap().is_err() && found.remove("iqn:fifo").unwrap().is_err());
        block_on(keeper.store("iqn:link", Some(b"text".to_vec()))).unwrap();
        assert_eq!(fs::read_to_string(victim).unwrap(), "untouched");
        fs::set_permissions(&keeper.path, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Folder::open(&keeper.path).is_err());
    }

    #[test]
    fn groups_have_classes_by_name_and_number() {
        let of = |group: &str, class: &str| {
            let groups = [(group.to_owned(), class.to_owned())].into();
            super::groups(&IscsiConfig { groups, ..IscsiConfig::default() }).map_err(|error| error.to_string())
        };
        assert_eq!(of("40", "7").unwrap().class(40, None), ClassId::new(7));
        assert_eq!(of("3", "none").unwrap().class(3, None), None);
        for (group, class) in [("0", "1"), ("64", "1"), ("x", "1"), ("1", "32"), ("1", "no such")] {
            assert!(of(group, class).is_err(), "{group} {class}");
        }
    }

    #[test]
    fn markup_has_classes_by_name_and_number() {
        let of = |name: &str, class: &str| {
            let markup = [(name.to_owned(), class.to_owned())].into();
            super::groups(&IscsiConfig { markup, ..IscsiConfig::default() }).map_err(|error| error.to_string())
        };
        let class = |groups: &Groups, markup| groups.class(2, Some(markup)).and_then(builtin::name);
        let default = super::groups(&IscsiConfig::default()).unwrap();
        let names = IoClass::ALL.map(|markup| class(&default, markup));
        assert_eq!(names, [Some("metadata"), Some("file-16k"), Some("file-large")]);
        assert_eq!(class(&of("small", "directory").unwrap(), IoClass::Small), Some("directory"));
        assert_eq!(class(&of("small", "directory").unwrap(), IoClass::Large), Some("file-large"));
        assert_eq!(of("large", "9").unwrap().class(2, Some(IoClass::Large)), ClassId::new(9));
        assert_eq!(of("metadata", "none").unwrap().class(2, Some(IoClass::Metadata)), None);
        for (name, class) in [("tiny", "1"), ("small", "32"), ("small", "no such")] {
            assert!(of(name, class).is_err(), "{name} {class}");
        }
    }
}
