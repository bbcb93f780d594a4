//! The `nitro` program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    nitro_cli::main()
}
