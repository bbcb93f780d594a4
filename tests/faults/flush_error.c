/* An nbdkit filter: flush fails while a file exists. (nbdkit's error filter has no flush.) */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NBDKIT_API_VERSION 2
#include <nbdkit-filter.h>

static char *trigger;
static int error = EIO;

static int flush_error_config(nbdkit_next_config *next, nbdkit_backend *backend, const char *key, const char *value) {
  if (strcmp(key, "flush-error-file") == 0) return (trigger = strdup(value)) ? 0 : -1;
  if (strcmp(key, "flush-error") == 0) {
    error = strcmp(value, "ENOSPC") == 0 ? ENOSPC : EIO;
    return 0;
  }
  return next(backend, key, value);
}

static int flush_error_flush(nbdkit_next *next, void *handle, uint32_t flags, int *err) {
  if (trigger && access(trigger, F_OK) == 0) {
    *err = error;
    return -1;
  }
  return next->flush(next, flags, err);
}

static struct nbdkit_filter filter = {
    .name = "flush-error",
    .config = flush_error_config,
    .flush = flush_error_flush,
};
NBDKIT_REGISTER_FILTER(filter)
