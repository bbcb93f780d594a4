// replay TARGET TRACE CONTENTS: replays a trace of scripts/bench-peers, one request at a time, and checks every read.
// TARGET is a block device (read and written with O_DIRECT) or SOCKET:EXPORT, an NBD export on a unix socket. CONTENTS has
// what is written. Linked statically, it runs beside the kernel's caches in the guest and beside Nitro on the host.
#define _GNU_SOURCE
#include <endian.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BLOCK = 8192, BLOCKS_MAX = 64, WORDS = BLOCK / 8 };
enum { READ, WRITE, FLUSH };
// One request: what scripts/bench-peers packs as "<IIIIQ". The sum is that of the first block to be read.
struct request { uint32_t kind, block, blocks, content; uint64_t sum; };

static int target, is_nbd;

static void fail(const char *what) {
  perror(what);
  exit(3);
}

static void send_all(const void *from, size_t left) {
  for (const char *at = from; left;) {
    ssize_t sent = write(target, at, left);
    if (sent <= 0) fail("the export hung up");
    at += sent, left -= sent;
  }
}

static void receive_all(void *to, size_t left) {
  for (char *at = to; left;) {
    ssize_t got = read(target, at, left);
    if (got <= 0) fail("the export hung up");
    at += got, left -= got;
  }
}

static void connect_to(char *socket_path, const char *export) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(socket_path) >= sizeof address.sun_path) fail("the socket's path is too long");
  strcpy(address.sun_path, socket_path);
  target = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(target, (void *)&address, sizeof address)) fail(socket_path);
  char greeting[18], answer[10];
  receive_all(greeting, sizeof greeting);
  uint32_t flags = htobe32(3);  // fixed newstyle, no zeroes
  send_all(&flags, sizeof flags);
  struct __attribute__((packed)) { uint64_t magic; uint32_t option, bytes; } open = {htobe64(0x49484156454F5054), htobe32(1), htobe32(strlen(export))};
  send_all(&open, sizeof open);
  send_all(export, strlen(export));
  receive_all(answer, sizeof answer);
}

static int over_nbd(int kind, uint64_t at, uint32_t bytes, void *data) {
  static const uint16_t types[] = {[READ] = 0, [WRITE] = 1, [FLUSH] = 3};
  static uint64_t cookie;
  struct __attribute__((packed)) { uint32_t magic; uint16_t flags, type; uint64_t cookie, at; uint32_t bytes; } request =
      {htobe32(0x25609513), 0, htobe16(types[kind]), ++cookie, htobe64(at), htobe32(bytes)};
  struct __attribute__((packed)) { uint32_t magic, error; uint64_t cookie; } reply;
  send_all(&request, sizeof request);
  if (kind == WRITE) send_all(data, bytes);
  receive_all(&reply, sizeof reply);
  if (!reply.error && kind == READ) receive_all(data, bytes);
  return !reply.error;
}

static int on_device(int kind, uint64_t at, uint32_t bytes, void *data) {
  if (kind == FLUSH) return !fsync(target);
  return (kind == READ ? pread(target, data, bytes, at) : pwrite(target, data, bytes, at)) == bytes;
}

static uint64_t sum_of(const uint64_t *words) {
  uint64_t sum = 0;
  for (int i = 0; i < WORDS; i++) sum += words[i] * (2 * i + 1);
  return sum;
}

int main(int arguments, char **argument) {
  if (arguments != 4) return fprintf(stderr, "usage: replay DEVICE|SOCKET:EXPORT TRACE CONTENTS\n"), 2;
  char *export = strrchr(argument[1], ':');
  if (export) is_nbd = 1, *export++ = 0, connect_to(argument[1], export);
  else if ((target = open(argument[1], O_RDWR | O_DIRECT)) < 0) fail(argument[1]);
  FILE *trace = fopen(argument[2], "r");
  if (!trace) fail(argument[2]);
  int contents = open(argument[3], O_RDONLY);
  if (contents < 0) fail(argument[3]);
  void *data;
  if (posix_memalign(&data, 4096, BLOCK * BLOCKS_MAX)) fail("memory");
  long requests = 0, wrong = 0, errors = 0;
  for (struct request r; fread(&r, sizeof r, 1, trace) == 1; requests++) {
    if (r.blocks > BLOCKS_MAX) fail("a request of the trace is too long");
    if (r.kind == WRITE && pread(contents, data, BLOCK, (off_t)r.content * BLOCK) != BLOCK) fail(argument[3]);
    int done = (is_nbd ? over_nbd : on_device)(r.kind, (uint64_t)r.block * BLOCK, r.blocks * BLOCK, data);
    errors += !done;
    wrong += done && r.kind == READ && sum_of(data) != r.sum;
  }
  printf("replayed %s requests %ld wrong %ld errors %ld\n", argument[2], requests, wrong, errors);
  return wrong || errors;
}
