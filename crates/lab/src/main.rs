//! The `nitro-lab` program.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    nitro_lab::main()
}
