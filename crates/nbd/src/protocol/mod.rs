//! The wire format: pure functions that parse the messages of clients and encode the server's replies.

mod constants;
mod field;
mod info;
mod option;
mod reply;
mod request;

pub use constants::*;
pub use info::{InfoItem, OptionReply, put_greeting, put_info, put_meta_context, put_reply, put_server};
pub use option::{InfoRequest, InfoWanted, MetaRequest, OptionCode, OptionError, OptionHeader, parse_name};
pub use reply::{Answered, put_block_status, put_error, put_none, put_offset_data, put_simple};
pub use request::{Command, Cookie, Headers, Request, RequestError};
