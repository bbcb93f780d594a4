//! The numbers of the protocol (doc/proto.md of the NBD project). All integers on the wire are big-endian.

/// First word of the greeting: `NBDMAGIC`.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second word of the greeting, and first of each option: `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// First word of a reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// First word of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// First word of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// First word of a chunk of a structured reply.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// First word of an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// First word of an extended chunk.
pub const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flag of either side: the fixed newstyle negotiation.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag of either side: no 124 zero bytes after the reply to `NBD_OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Number of zero bytes after the reply to `NBD_OPT_EXPORT_NAME`, unless both sides set [`FLAG_NO_ZEROES`].
pub const EXPORT_NAME_ZEROES: usize = 124;

/// Transmission flag: the other transmission flags are valid. Always set.
pub const TRANSMIT_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: the export cannot be written to.
pub const TRANSMIT_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `NBD_CMD_FLUSH` is offered.
pub const TRANSMIT_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: `NBD_CMD_FLAG_FUA` is offered.
pub const TRANSMIT_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: the export behaves like a rotating disk: random access is slower than sequential access.
pub const TRANSMIT_ROTATIONAL: u16 = 1 << 4;
/// Transmission flag: `NBD_CMD_TRIM` is offered.
pub const TRANSMIT_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `NBD_CMD_WRITE_ZEROES` is offered.
pub const TRANSMIT_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: `NBD_CMD_FLAG_DF` is offered; only with structured replies.
pub const TRANSMIT_SEND_DF: u16 = 1 << 7;
/// Transmission flag: a flush on one connection covers the completed writes of all connections, and reads see them.
pub const TRANSMIT_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: `NBD_CMD_CACHE` is offered.
pub const TRANSMIT_SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: `NBD_CMD_FLAG_FAST_ZERO` is offered.
pub const TRANSMIT_SEND_FAST_ZERO: u16 = 1 << 11;

/// Command flag: the data are durable before the reply. Valid on every command.
pub const COMMAND_FUA: u16 = 1 << 0;
/// Command flag of `NBD_CMD_WRITE_ZEROES`: do not release storage.
pub const COMMAND_NO_HOLE: u16 = 1 << 1;
/// Command flag of `NBD_CMD_READ`: the data are sent in one chunk ("don't fragment").
pub const COMMAND_DF: u16 = 1 << 2;
/// Command flag of `NBD_CMD_BLOCK_STATUS`: return one extent, which does not exceed the range.
pub const COMMAND_REQ_ONE: u16 = 1 << 3;
/// Command flag of `NBD_CMD_WRITE_ZEROES`: fail at once if zeroing is not faster than writing.
pub const COMMAND_FAST_ZERO: u16 = 1 << 4;

/// Command flag of extended requests: the length is that of a payload, which follows.
pub const COMMAND_PAYLOAD_LEN: u16 = 1 << 5;

/// Chunk flag: the last of its reply.
pub const CHUNK_DONE: u16 = 1 << 0;
/// Chunk type: no payload; the request succeeded.
pub const CHUNK_NONE: u16 = 0;
/// Chunk type: an offset and data.
pub const CHUNK_OFFSET_DATA: u16 = 1;
/// Chunk type: an offset and a length, whose bytes are zeroes.
pub const CHUNK_OFFSET_HOLE: u16 = 2;
/// Chunk type: the status of blocks in one context.
pub const CHUNK_BLOCK_STATUS: u16 = 5;
/// Chunk type: the status of blocks in one context, with lengths of 64 bits.
pub const CHUNK_BLOCK_STATUS_EXTENDED: u16 = 6;
/// The bit of chunk types that are errors: an error number and a message begin them all.
pub const CHUNK_ERROR_BIT: u16 = 1 << 15;
/// Chunk type: an error with a message.
pub const CHUNK_ERROR: u16 = CHUNK_ERROR_BIT + 1;

/// Status flag of `base:allocation`: no storage is allocated for the range.
pub const STATE_HOLE: u32 = 1 << 0;
/// Status flag of `base:allocation`: the range reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;
/// Status flag of `nitro:cache`: the range is cached.
pub const STATE_CACHED: u32 = 1 << 0;
/// Status flag of `nitro:cache`: the range is dirty: its data are not yet in the origin.
pub const STATE_DIRTY: u32 = 1 << 1;

/// Longest name or string in bytes ("String values").
pub const STRING_BYTES_MAX: usize = 4096;
/// Bytes of an option's header.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of a request's header.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of an extended request's header.
pub const EXTENDED_REQUEST_BYTES: usize = 32;
/// Bytes of the greeting.
pub const GREETING_BYTES: usize = 18;
/// Second word of the greeting of a server of before 2011, which negotiates nothing.
pub const OLD_GREETING_MAGIC: u64 = 0x0000_4202_8186_1253;
/// Bytes of the header of a reply to an option.
pub const OPTION_REPLY_BYTES: usize = 20;
/// Bytes of a simple reply.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of the header of a chunk.
pub const CHUNK_BYTES: usize = 20;
