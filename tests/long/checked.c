/* Writes and reads a block device directly, and checks every sector: checked DEVICE ADDRESS PORT crashes|paths SEED
 *
 * Each of WORKERS processes has a part of the device to itself. A sector names its last write by a number, its generation. It must hold
 * a generation that was written, and none before the last one that is known to be durable.
 *   crashes: durable is what was written with FUA, or flushed while the server did not crash. At ADDRESS:PORT, the test's host tells
 *            the number of starts and ends of crashes so far: it is odd during a crash, in which a flush says nothing.
 *   paths:   the server does not crash, so that each write that was answered must be there.
 * It ends when the host tells -1, after a check of all sectors. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, BLOCKS = 512, BLOCK = 4096, SECTOR = 512, BLOCKS_MAX = 8, BATCH = 12, BATCHES_TOLD = 5 };

struct counts { long writes, fua, flushes, reads; };

static struct counts *counts;
static struct sockaddr_in host;
static const char *device;
static int strict, worker, plain_fd, durable_fd;
static uint64_t drawn;
static uint32_t latest[BLOCKS], durable[BLOCKS];
static unsigned char *buffer;

static void fail(const char *what) {
  printf("checked: worker %d: %s: %s\n", worker, what, strerror(errno));
  fflush(stdout);
  _exit(1);
}

static uint64_t mix(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

static unsigned draw(unsigned below) {
  drawn += 0x9e3779b97f4a7c15u;
  return mix(drawn) % below;
}

/* The number of starts and ends of crashes, or -1. */
static long epoch(void) {
  for (int attempt = 0; attempt < 200; attempt++) {
    char text[32] = "";
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&host, sizeof host) == 0 && read(fd, text, sizeof text - 1) > 0) {
      close(fd);
      return atol(text);
    }
    if (fd >= 0) close(fd);
    usleep(50000);
  }
  fail("the host does not answer");
  return -1;
}

/* The content of a sector: its place, its generation, and words that follow from both. Generation 0 is zeroes. */
static void fill(uint64_t *words, unsigned block, unsigned sector, uint32_t generation) {
  memset(words, 0, SECTOR);
  if (generation == 0) return;
  words[0] = (uint64_t)worker << 56 | (uint64_t)block << 40 | (uint64_t)sector << 32 | generation;
  for (unsigned at = 1; at < SECTOR / 8; at++) words[at] = mix(words[0] * 64 + at);
}

static off_t offset_of(unsigned block) { return ((off_t)worker * BLOCKS + block) * BLOCK; }

static void check(unsigned first, unsigned blocks) {
  errno = 0;
  if (pread(plain_fd, buffer, blocks * BLOCK, offset_of(first)) != (ssize_t)(blocks * BLOCK)) fail("read");
  for (unsigned at = 0; at < blocks * BLOCK / SECTOR; at++) {
    unsigned block = first + at * SECTOR / BLOCK, sector = at % (BLOCK / SECTOR);
    uint64_t expected[SECTOR / 8], *found = (uint64_t *)(buffer + at * SECTOR);
    uint32_t generation = (uint32_t)found[0];
    fill(expected, block, sector, generation);
    if (memcmp(expected, found, SECTOR) != 0 || generation < durable[block] || generation > latest[block]) {
      printf("checked: worker %d, block %u, sector %u: generation %u is %s; it was written up to %u, durably up to %u\n", worker, block,
             sector, generation, memcmp(expected, found, SECTOR) ? "damaged" : "wrong", latest[block], durable[block]);
      fflush(stdout);
      _exit(1);
    }
  }
  counts[worker].reads++;
}

static void write_blocks(unsigned first, unsigned blocks, int is_durable, unsigned char *flushed) {
  for (unsigned at = 0; at < blocks; at++) {
    latest[first + at]++;
    for (unsigned sector = 0; sector < BLOCK / SECTOR; sector++)
      fill((uint64_t *)(buffer + at * BLOCK + sector * SECTOR), first + at, sector, latest[first + at]);
  }
  errno = 0;
  if (pwrite(is_durable ? durable_fd : plain_fd, buffer, blocks * BLOCK, offset_of(first)) != (ssize_t)(blocks * BLOCK)) fail("write");
  for (unsigned at = 0; at < blocks; at++) {
    if (is_durable || strict) durable[first + at] = latest[first + at];
    else flushed[first + at] = 1;
  }
  if (is_durable) counts[worker].fua++;
  else counts[worker].writes++;
}

/* Some requests and a flush. Only what was written since the last start of a crash is durable then. */
static int batch(void) {
  unsigned char flushed[BLOCKS] = {0};
  long before = epoch();
  if (before < 0) return 0;
  for (int request = 0; request < BATCH; request++) {
    unsigned blocks = 1 + draw(BLOCKS_MAX), first = draw(BLOCKS - blocks), kind = draw(10);
    if (kind < 4) check(first, blocks);
    else write_blocks(first, blocks, kind == 4, flushed);
  }
  if (fsync(plain_fd)) fail("flush");
  if (before % 2 == 0 && epoch() == before) {
    for (unsigned block = 0; block < BLOCKS; block++)
      if (flushed[block]) durable[block] = latest[block];
    counts[worker].flushes++;
  }
  return 1;
}

static void work(uint64_t seed) {
  drawn = mix(seed + worker + 1);
  plain_fd = open(device, O_RDWR | O_DIRECT);
  durable_fd = open(device, O_RDWR | O_DIRECT | O_DSYNC);
  if (plain_fd < 0 || durable_fd < 0 || posix_memalign((void **)&buffer, BLOCK, BLOCKS_MAX * BLOCK)) fail("open");
  for (long batches = 1; batch(); batches++)
    if (batches % BATCHES_TOLD == 0) {
      printf("progress of worker %d\n", worker);
      fflush(stdout);
    }
  if (fsync(plain_fd)) fail("the last flush");
  for (unsigned first = 0; first < BLOCKS; first += BLOCKS_MAX) check(first, BLOCKS_MAX);
  _exit(0);
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  device = argv[1];
  host.sin_family = AF_INET;
  host.sin_addr.s_addr = inet_addr(argv[2]);
  host.sin_port = htons(atoi(argv[3]));
  strict = strcmp(argv[4], "paths") == 0;
  counts = mmap(NULL, sizeof *counts * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (counts == MAP_FAILED) fail("memory");
  for (worker = 0; worker < WORKERS; worker++)
    if (fork() == 0) work(strtoull(argv[5], NULL, 10));
  int failed = 0;
  for (int ended = 0; ended < WORKERS; ended++) {
    int status;
    wait(&status);
    failed |= status;
  }
  struct counts all = {0};
  for (worker = 0; worker < WORKERS; worker++) {
    all.writes += counts[worker].writes;
    all.fua += counts[worker].fua;
    all.flushes += counts[worker].flushes;
    all.reads += counts[worker].reads;
  }
  printf("checked: %ld writes, %ld with FUA, %ld flushes that count, %ld reads\n", all.writes, all.fua, all.flushes, all.reads);
  return failed != 0;
}
