//! The server's side.

use super::{Message, News};
use crate::control::protocol::Response;
use crate::control::server::{read_line, send};
use crate::cos::transfer::Job;
use crate::serve::{Begun, Operation, Served};
use futures_util::future::{Either, select};
use nitro_console::error::Error;
use nitro_device::CompioClock;
use nitro_device::net::{StreamReader, StreamWriter};
use nitro_port::Clock;
use std::fs::File;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a client may take to open its file.
const DESCRIPTOR_WAIT: Duration = Duration::from_secs(30);
/// How often is checked whether the operation has ended, and how many of these turns there are between two messages of
/// progress.
const TURN: Duration = Duration::from_millis(20);
const TURNS_A_PROGRESS: usize = 10;

/// Carries out an operation for a client, after whose end the connection is of no more use.
pub(in crate::control) async fn converse(
    (mut reader, mut writer): (StreamReader, StreamWriter),
    received: Vec<u8>,
    served: &Arc<Served>,
    (store, job): (&Path, Job),
) -> io::Result<()> {
    let begun = match served.begin(store, job).await {
        Ok(begun) => begun,
        Err(error) => return send(&mut writer, &refused(&error)).await,
    };
    let file = match begun.needs_file() {
        true => match descriptor(&mut reader, &mut writer).await? {
            Ok(file) => Some(file),
            Err(error) => return send(&mut writer, &refused(&error)).await,
        },
        false => None,
    };
    let operation = Arc::clone(begun.operation());
    let listening = pin!(listen(&mut reader, received, &operation));
    let outcome = match select(pin!(work(&mut writer, begun, file)), listening).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right((never, _)) => match never {},
    };
    if outcome.is_err() {
        operation.end("its client's disconnection");
    }
    outcome
}

fn refused(error: &Error) -> Response {
    Response { error: Some(error.to_string()), ..Response::empty() }
}

/// Asks the client for a descriptor.
async fn descriptor(reader: &mut StreamReader, writer: &mut StreamWriter) -> io::Result<Result<File, Error>> {
    send(writer, &Response { news: Some(News::Descriptor), ..Response::empty() }).await?;
    let clock = CompioClock::new();
    let passed = match select(pin!(reader.receive_descriptor()), pin!(clock.sleep(DESCRIPTOR_WAIT))).await {
        Either::Left((passed, _)) => passed?,
        Either::Right(_) => None,
    };
    Ok(passed.map(File::from).ok_or_else(|| Error::new("control socket", "no file was passed in time")))
}

/// Takes the client's messages. Its disconnection ends the operation.
async fn listen(reader: &mut StreamReader, mut received: Vec<u8>, operation: &Operation) -> std::convert::Infallible {
    while let Ok(Some(line)) = read_line(reader, &mut received).await {
        match serde_json::from_slice(&line) {
            Ok(Message::Complete) => operation.confirm(),
            Ok(Message::End { cause }) => operation.end(&cause),
            Err(error) => operation.end(&format!("a malformed message ({error})")),
        }
    }
    operation.end("its client's disconnection");
    std::future::pending().await
}

/// Waits for the operation, and tells the client about it.
async fn work(writer: &mut StreamWriter, begun: Begun, file: Option<File>) -> io::Result<()> {
    let operation = Arc::clone(begun.operation());
    // Until this returns, the client is owed the outcome.
    let (thread, _owed) = match begun.start(file) {
        Ok(started) => started,
        Err(error) => return send(writer, &refused(&error)).await,
    };
    let clock = CompioClock::new();
    for turn in 0_usize.. {
        let has_ended = thread.is_finished();
        for news in operation.take_news(has_ended || turn.is_multiple_of(TURNS_A_PROGRESS)) {
            send(writer, &Response { news: Some(news), ..Response::empty() }).await?;
        }
        if has_ended {
            break;
        }
        clock.sleep(TURN).await;
    }
    let done = thread.join().unwrap_or_else(|_| Err(Error::new(operation.what(), "its thread panicked")));
    let answer = match done {
        Ok(report) => Response { report: Some(report), ..Response::empty() },
        Err(error) => refused(&error),
    };
    send(writer, &answer).await
}
