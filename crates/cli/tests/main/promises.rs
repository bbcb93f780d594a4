//! docs/SEMANTICS.md names, for each promise, what holds it: every test, script and crate that it names exists.
//!
//! A promise is a row of a table whose header begins with `promise`, or an item of a list. Its references stand in the last
//! column, or in the parentheses at the end of the row or item. `module::test_name` is a test; `module` alone, all tests of a
//! module; `::test_name`, one more of the module before; a name with a slash, a path in the repository; `(crate x)` a crate; *same*, what
//! the row above names.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/SEMANTICS.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// All tests of the workspace that `cargo test` runs, each as the names on its path: crate, modules, function.
struct Tests(Vec<Vec<String>>);

impl Tests {
    fn of_the_workspace() -> Self {
        let mut tests = Self(Vec::new());
        for krate in fs::read_dir(root().join("crates")).unwrap() {
            let folder = krate.unwrap().path();
            let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
            for part in ["src", "tests"] {
                tests.add_folder(&folder.join(part), std::slice::from_ref(&name));
            }
        }
        assert!(tests.0.len() > 200, "only {} tests found", tests.0.len());
        tests
    }

    fn add_folder(&mut self, folder: &Path, above: &[String]) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let mut inside = above.to_vec();
            if !matches!(stem.as_str(), "mod" | "lib") {
                inside.push(stem);
            }
            if path.is_dir() {
                self.add_folder(&path, &inside);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                self.add_file(&fs::read_to_string(&path).unwrap(), &inside);
            }
        }
    }

    /// A test is a function behind `#[test]` and further attributes; one that is ignored holds nothing.
    fn add_file(&mut self, source: &str, module: &[String]) {
        let (mut is_test, mut is_ignored) = (false, false);
        for line in source.lines().map(str::trim) {
            if line == "#[test]" {
                (is_test, is_ignored) = (true, false);
            } else if line.starts_with("#[ignore") {
                is_ignored = true;
            } else if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if !is_ignored {
                    self.0.push(module.iter().cloned().chain([name]).collect());
                }
                is_test = false;
            }
        }
    }

    /// Whether the names are those of a test or of a module that has tests.
    fn has(&self, names: &[&str]) -> bool {
        self.0.iter().any(|path| path.windows(names.len()).any(|part| part == names))
    }

    /// Whether the names are a test's last ones.
    fn has_test(&self, names: &[&str]) -> bool {
        self.0.iter().any(|path| path.ends_with(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()))
    }
}

/// One promise: the line it begins on, its text, and where in it references stand.
struct Promise {
    line: usize,
    text: String,
    references: String,
}

/// What stands in the last parentheses of a text, with those inside them.
fn last_parentheses(text: &str) -> String {
    let mut depth = 0;
    for (at, sign) in text.char_indices().rev() {
        match sign {
            ')' => depth += 1,
            '(' if depth == 1 => return text[at..].to_owned(),
            '(' => depth -= 1,
            _ => {}
        }
    }
    String::new()
}

fn promises(document: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    let (mut columns, mut is_item) = (None, false);
    for (number, line) in document.lines().enumerate() {
        if let Some(row) = line.strip_prefix('|') {
            is_item = false;
            let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").collect();
            match columns {
                None => columns = Some((cells[0].trim() == "promise", cells.len())),
                Some((true, count)) if !row.starts_with("---") => {
                    assert_eq!(cells.len(), count, "{DOCUMENT}:{}: another number of columns", number + 1);
                    let references = if count > 1 { cells[count - 1].to_owned() } else { last_parentheses(row) };
                    promises.push(Promise { line: number + 1, text: cells[0].to_owned(), references });
                }
                Some(_) => {}
            }
            continue;
        }
        columns = None;
        if let Some(item) = line.strip_prefix("- ") {
            is_item = true;
            promises.push(Promise { line: number + 1, text: item.to_owned(), references: String::new() });
        } else if let Some(promise) = promises.last_mut().filter(|_| is_item && line.starts_with("  ")) {
            promise.text.push_str(&line[1..]);
        } else {
            is_item = false;
        }
        if let Some(promise) = promises.last_mut().filter(|_| is_item) {
            promise.references = last_parentheses(&promise.text);
        }
    }
    promises
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Whether text in backticks looks like a test's path, wherever it stands.
fn looks_like_a_test(text: &str) -> bool {
    text.contains("::") && text.split("::").enumerate().all(|(at, name)| is_name(name) || at == 0 && name.is_empty())
}

/// What of the references in a text does not exist.
fn missing(text: &str, tests: &Tests, only_paths: bool) -> Vec<String> {
    let mut missing = Vec::new();
    let mut module: Vec<&str> = Vec::new();
    let named: HashSet<&str> = text.split("crate `").skip(1).filter_map(|rest| rest.split('`').next()).collect();
    missing.extend(
        named.iter().filter(|name| !root().join("crates").join(name).is_dir()).map(|name| format!("crate {name}")),
    );
    for reference in quoted(text) {
        if reference.contains('/') && !reference.contains(' ') {
            if !only_paths && !root().join(reference).exists() {
                missing.push(reference.to_owned());
            }
        } else if looks_like_a_test(reference) {
            let mut names: Vec<&str> = reference.split("::").collect();
            if names[0].is_empty() {
                names = module.iter().copied().chain(names.into_iter().skip(1)).collect();
            }
            if !tests.has(&names) {
                missing.push(reference.to_owned());
            } else if tests.has_test(&names) {
                names.pop();
            }
            module = names;
        } else if !only_paths && !named.contains(reference) {
            module = vec![reference];
            if !is_name(reference) || !tests.has(&[reference]) {
                missing.push(reference.to_owned());
            }
        }
    }
    missing
}

#[test]
fn every_promise_names_tests_that_exist() {
    let document = fs::read_to_string(root().join(DOCUMENT)).unwrap();
    let tests = Tests::of_the_workspace();
    let promises = promises(&document);
    assert!(promises.len() > 60, "only {} promises found", promises.len());
    let mut wrong = Vec::new();
    for Promise { line, text, references } in &promises {
        let start: String = text.trim().chars().take(60).collect();
        let wrong_here = missing(references, &tests, false);
        // As the row above.
        let is_same = references.trim_start().starts_with("same");
        if quoted(references).next().is_none() && !is_same {
            wrong.push(format!("{DOCUMENT}:{line}: no test is named that holds \"{start}...\""));
        }
        wrong.extend(wrong_here.iter().map(|name| format!("{DOCUMENT}:{line}: `{name}` does not exist")));
    }
    for paragraph in document.split("\n\n").filter(|text| !text.starts_with('|') && !text.starts_with("- ")) {
        let names = missing(paragraph, &tests, true);
        wrong.extend(names.iter().map(|name| format!("{DOCUMENT}: `{name}` does not exist")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_does_not_exist_is_found_missing() {
    let tests = Tests::of_the_workspace();
    for right in [
        "`promises::what_does_not_exist_is_found_missing`",
        "`promises::every_promise_names_tests_that_exist`, `::what_does_not_exist_is_found_missing`",
        "`promises` (crate `cli`), `crates/cli`",
    ] {
        assert_eq!(missing(right, &tests, false), Vec::<String>::new(), "{right}");
    }
    for wrong in [
        "`promises::nothing_of_that_name`",
        "`nowhere::every_promise_names_tests_that_exist`",
        "`promises::every_promise_names_tests_that_exist`, `::gone`",
        "`no_such_module`",
        "`Store::compare`",
        "`promises` (crate `nowhere`)",
        "`scripts/nothing`",
    ] {
        assert!(!missing(wrong, &tests, false).is_empty(), "{wrong}");
    }
    let found = promises(
        "| promise | held by |\n|---|---|\n| a | `x` |\n\n| promise |\n|---|\n| b. (`y`) |\n\n- c\n  d (`z`)\n",
    );
    let found: Vec<_> = found.iter().map(|promise| quoted(&promise.references).next()).collect();
    assert_eq!(found, [Some("x"), Some("y"), Some("z")]);
}
