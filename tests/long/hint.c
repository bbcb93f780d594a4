// hint FILE HINT DIRECT [MIB]: writes 512 KiB with a write hint (F_SET_RW_HINT of fcntl(2), 0 to 5), with O_DIRECT if DIRECT is 1,
// from an offset on.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef F_SET_RW_HINT
#define F_SET_RW_HINT 1036
#endif

int main(int count, char **arguments) {
  if (count != 4 && count != 5) return 2;
  int direct = atoi(arguments[3]) ? O_DIRECT : 0;
  off_t start = count == 5 ? atoll(arguments[4]) << 20 : 0;
  int file = open(arguments[1], O_RDWR | O_CREAT | direct, 0644);
  uint64_t hint = strtoull(arguments[2], NULL, 10);
  void *data;
  if (file < 0 || fcntl(file, F_SET_RW_HINT, &hint) != 0) return perror(arguments[1]), 1;
  if (posix_memalign(&data, 4096, 65536) != 0) return 1;
  memset(data, 7, 65536);
  for (int i = 0; i < 8; i++)
    if (pwrite(file, data, 65536, start + i * 65536L) != 65536) return perror("write"), 1;
  return fsync(file) != 0;
}
