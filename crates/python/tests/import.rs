//! Python imports the library. What it does then is tested by python/tests (`scripts/test-python`).

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

const SCRIPT: &str = "
import sys
if sys.version_info < (3, 9):
    sys.exit('not tested: Python is older than 3.9')
import _native
assert 'lru' not in _native.operations() and _native.operations()[0] == 'read'
assert _native.values('size=1M..4M:x2') == [str(1 << n) for n in (20, 21, 22)]
assert 'cache_size' in [name for name, _, _ in _native.settings('simulation')]
try:
    _native.simulate(['/nowhere/trace'], [('cache_size', '1G')], False)
except (OSError, ValueError) as error:
    assert '/nowhere/trace' in str(error), error
else:
    raise AssertionError('a missing trace is an error')
";

/// The library that cargo built for this test, beside it.
fn library() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.parent()?.join("libnitro_python.so"))
}

#[test]
fn python_imports_the_library() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let library = library().ok_or("the folder of this test")?;
    std::os::unix::fs::symlink(&library, folder.path().join("_native.abi3.so"))?;
    assert!(fs::metadata(folder.path().join("_native.abi3.so"))?.len() > 0);
    let ran = Command::new("python3").args(["-c", SCRIPT]).env("PYTHONPATH", folder.path()).output();
    match ran {
        Ok(ran) => {
            let told = String::from_utf8_lossy(&ran.stderr);
            assert!(ran.status.success() || told.contains("not tested"), "{told}");
            eprint!("{told}");
        }
        Err(error) => eprintln!("not tested: python3: {error}"),
    }
    Ok(())
}
