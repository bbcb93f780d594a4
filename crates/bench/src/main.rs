//! In-process benchmarks of the engine: `nitro-bench hits-ram | hits-ssd FILE DATA | insert DATA FILE | insert-pool
//! DATA | decompress DATA | insert-index DATA FOLDER | write-back DATA FILE | scale FILE EXTENTS... | cos DATA FILE |
//! detect IMAGE | simulate [nitro] | vhost SOCKET DEPTH MIB SECONDS PID BYTES`.
//!
//! Each prints lines of `name=value` pairs; `scripts/bench` compares them with other programs' figures.
#![forbid(unsafe_code)]

mod cos;
mod detect;
mod flash_index;
mod hits;
mod insert_pool;
mod insertion;
mod load;
mod scale;
mod simulate;
mod vhost;
mod write_back;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["hits-ram"] => hits::in_ram(),
        ["hits-ssd", file, data] => hits::on_ssd(file.as_ref(), data.as_ref()),
        ["insert", data, file] => insertion::run(data.as_ref(), file.as_ref()),
        ["insert-pool", data] => insert_pool::run(data.as_ref()),
        ["decompress", data] => insert_pool::decompress(data.as_ref()),
        ["insert-index", data, folder] => flash_index::run(data.as_ref(), folder.as_ref()),
        ["write-back", data, file] => write_back::run(data.as_ref(), file.as_ref()),
        ["scale", file, ref extents @ ..] => scale::run(file.as_ref(), extents),
        ["scale-one", index, extents] => scale::manager(index, extents),
        ["cos", data, file] => cos::run(data.as_ref(), file.as_ref()),
        ["detect", image] => detect::run(image.as_ref()),
        ["simulate"] => simulate::run(),
        ["simulate", "nitro"] => simulate::all_of_nitro(),
        ["vhost", socket, depth, mib, seconds, server, bytes] => {
            vhost::run(socket.as_ref(), [depth, mib, seconds, bytes], server)
        }
        _ => Err("usage: nitro-bench hits-ram | hits-ssd FILE DATA | insert DATA FILE | insert-pool DATA | \
                  decompress DATA | insert-index DATA FOLDER | write-back DATA FILE | scale FILE EXTENTS... | \
                  cos DATA FILE | detect IMAGE | simulate [nitro] | vhost SOCKET DEPTH MIB SECONDS PID BYTES"
            .into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nitro-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
