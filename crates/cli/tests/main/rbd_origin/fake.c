/* What Nitro uses of librados and librbd, on the files of a folder ($FAKE_CEPH): both libraries are built of this file. A pool is a folder,
 * an image a file POOL/IMAGE, a snapshot POOL/IMAGE@NAME; locks, watchers, metadata and refused clients are files beside them. A watcher
 * stays until it closes its image, also if it was killed. While the file `hang` exists, requests are not answered; `lie` makes reads shorter. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct cluster { char address[64]; const char *folder; int is_connected; };
struct pool { struct cluster *cluster; char path[3000]; };
struct image { struct cluster *cluster; char path[3500]; int fd, writable; };
struct completion { void *argument; void (*callback)(void *, void *); long result; };
struct request { struct image *image; char kind; uint64_t offset; size_t len; char *data; struct completion *completion; };
struct watcher { char *address; int64_t id; uint64_t cookie; };

/* The name of a file beside an image: IMAGE.WHAT. */
static char *beside(const struct image *image, const char *what, const char *of) {
  static __thread char path[4096];
  snprintf(path, sizeof path, "%s.%s%s", image->path, what, of);
  for (char *c = path + strlen(image->path); *c; c++) if (*c == '/') *c = '_';
  return path;
}
static char *in_folder(const struct cluster *cluster, const char *what, const char *of) {
  static __thread char path[4096];
  int start = snprintf(path, sizeof path, "%s/", cluster->folder);
  snprintf(path + start, sizeof path - start, "%s%s", what, of);
  for (char *c = path + start; *c; c++) if (*c == '/') *c = '_';
  return path;
}
static int exists(const char *path) { return access(path, F_OK) == 0; }
static int is_refused(const struct cluster *cluster) { return exists(in_folder(cluster, "refused.", cluster->address)); }
static long get(const char *path, char *text, size_t size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  long len = read(fd, text, size - 1);
  close(fd);
  text[len < 0 ? 0 : len] = 0;
  return len;
}
static int put(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  long len = write(fd, text, strlen(text));
  close(fd);
  return len < 0 ? -EIO : 0;
}
/* One client at a time looks at what decides, and acts on it. */
static int enter(const struct cluster *cluster) {
  int fd = open(in_folder(cluster, "turn", ""), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  flock(fd, LOCK_EX);
  return fd;
}
static int leave(int turn, int result) { close(turn); return result; }

int rados_create(void **cluster, const char *id) {
  struct cluster *made = calloc(1, sizeof *made);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(made->address, sizeof made->address, "127.0.0.1:0/%d%09ld", getpid(), now.tv_nsec);
  made->folder = getenv("FAKE_CEPH");
  if (id && !strcmp(id, "nobody")) made->folder = NULL;
  *cluster = made;
  return 0;
}
int rados_conf_read_file(void *cluster, const char *path) { return path && !exists(path) ? -ENOENT : 0; }
int rados_conf_set(void *cluster, const char *option, const char *value) { return strstr(option, "blacklist") ? -ENOENT : 0; }
int rados_connect(void *handle) {
  struct cluster *cluster = handle;
  return cluster->folder ? 0 : -EACCES;
}
void rados_shutdown(void *cluster) { free(cluster); }
int rados_cluster_fsid(void *cluster, char *text, size_t size) { return snprintf(text, size, "00000000-fake"); }
int rados_mon_command(void *handle, const char **command, size_t count, const char *in, size_t in_len, char **out, size_t *out_len,
                      char **said, size_t *said_len) {
  *said = strdup("done");
  *said_len = 4;
  return strstr(command[0], "\"expire\": 31536000.0}") ? 0 : -EINVAL;
}
void rados_buffer_free(char *buffer) { free(buffer); }
int rados_ioctx_create(void *cluster, const char *name, void **pool) {
  struct pool *made = calloc(1, sizeof *made);
  made->cluster = cluster;
  snprintf(made->path, sizeof made->path, "%s/%s", made->cluster->folder, name);
  *pool = made;
  return exists(made->path) ? 0 : (free(made), -ENOENT);
}
void rados_ioctx_destroy(void *pool) { free(pool); }
void rados_ioctx_set_namespace(void *handle, const char *name) {
  struct pool *pool = handle;
  snprintf(pool->path + strlen(pool->path), 256, "/%s", name);
}
int64_t rados_ioctx_get_id(void *pool) { return 1; }

static int open_image(struct pool *pool, const char *name, void **image, const char *snapshot, int writable) {
  struct image *made = calloc(1, sizeof *made);
  made->cluster = pool->cluster;
  made->writable = writable;
  snprintf(made->path, sizeof made->path, "%s/%s%s%s", pool->path, name, snapshot ? "@" : "", snapshot ? snapshot : "");
  made->fd = open(made->path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (made->fd < 0) { int error = errno; free(made); return -error; }
  if (writable) put(beside(made, "watcher.", made->cluster->address), made->cluster->address);
  *image = made;
  return 0;
}
int rbd_open(void *pool, const char *name, void **image, const char *snapshot) { return open_image(pool, name, image, snapshot, 1); }
int rbd_open_read_only(void *pool, const char *name, void **image, const char *snapshot) {
  return open_image(pool, name, image, snapshot, 0);
}
static long owner(const struct image *image, char *text, size_t size) {
  if (exists(beside(image, "plain", ""))) return -EINVAL;
  return get(beside(image, "lock", ""), text, size);
}
static int owns(const struct image *image) {
  char text[64];
  return owner(image, text, sizeof text) > 0 && !strcmp(text, image->cluster->address);
}
int rbd_close(void *handle) {
  struct image *image = handle;
  int turn = enter(image->cluster);
  if (owns(image)) unlink(beside(image, "lock", ""));
  if (image->writable) unlink(beside(image, "watcher.", image->cluster->address));
  close(image->fd);
  free(image);
  return leave(turn, 0);
}
int rbd_get_size(void *handle, uint64_t *size) {
  struct stat found;
  if (fstat(((struct image *)handle)->fd, &found)) return -errno;
  *size = found.st_size;
  return 0;
}
int rbd_get_id(void *handle, char *id, size_t size) {
  struct stat found;
  if (fstat(((struct image *)handle)->fd, &found)) return -errno;
  snprintf(id, size, "%lx", (long)found.st_ino);
  return 0;
}
int rbd_snap_get_id(void *image, const char *name, uint64_t *id) { *id = 3; return 0; }
int rbd_lock_acquire(void *handle, int mode) {
  struct image *image = handle;
  char text[64];
  int turn = enter(image->cluster);
  long found = owner(image, text, sizeof text);
  if (found == -ENOENT) return leave(turn, put(beside(image, "lock", ""), image->cluster->address));
  return leave(turn, found < 0 ? found : owns(image) ? 0 : -EROFS);
}
int rbd_lock_break(void *handle, int mode, const char *client) {
  struct image *image = handle;
  char text[64];
  int turn = enter(image->cluster);
  long found = owner(image, text, sizeof text);
  if (found < 0) return leave(turn, found);
  if (strcmp(text, client)) return leave(turn, -EBUSY);
  put(in_folder(image->cluster, "refused.", client), "");
  unlink(beside(image, "lock", ""));
  return leave(turn, 0);
}
int rbd_lock_get_owners(void *handle, int *mode, char **owners, size_t *count) {
  char text[64];
  long found = ((struct image *)handle)->writable ? owner(handle, text, sizeof text) : -EINVAL;
  if (found < 0) return found;
  owners[0] = strdup(text);
  *count = 1;
  return 0;
}
void rbd_lock_get_owners_cleanup(char **owners, size_t count) { while (count) free(owners[--count]); }
ssize_t rbd_list_lockers(void *handle, int *exclusive, char *tag, size_t *tag_len, char *clients, size_t *clients_len, char *cookies,
                         size_t *cookies_len, char *addresses, size_t *addresses_len) {
  char text[64];
  long found = owner(handle, text, sizeof text);
  if (found == -ENOENT || found == -EINVAL) return 0;
  if (found < 0) return found;
  *exclusive = 1;
  *tag = *clients = *cookies = 0;
  strcpy(addresses, text);
  return 1;
}
int rbd_is_exclusive_lock_owner(void *handle, int *is_owner) {
  if (is_refused(((struct image *)handle)->cluster)) return -ESHUTDOWN;
  *is_owner = owns(handle);
  return 0;
}
int rbd_watchers_list(void *handle, struct watcher *watchers, size_t *count) {
  struct image *image = handle;
  char *path = strdup(beside(image, "watcher.", "")), *name = strrchr(path, '/'), text[64];
  size_t found = 0;
  *name++ = 0;
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder)) && found < *count;)
    if (!strncmp(entry->d_name, name, strlen(name)) && get(beside(image, "watcher.", entry->d_name + strlen(name)), text, sizeof text) > 0)
      watchers[found++] = (struct watcher){strdup(text), 0, 0};
  if (folder) closedir(folder);
  free(path);
  *count = found;
  return 0;
}
void rbd_watchers_list_cleanup(struct watcher *watchers, size_t count) { while (count) free(watchers[--count].address); }
int rbd_metadata_get(void *handle, const char *key, char *value, size_t *size) {
  char text[8192];
  long len = get(beside(handle, "meta.", key), text, sizeof text);
  if (len < 0) return len;
  if ((size_t)len >= *size) { *size = len; return -ERANGE; }
  strcpy(value, text);
  *size = len;
  return 0;
}
static int change_metadata(struct image *image, const char *key, const char *value) {
  int turn = enter(image->cluster);
  if (is_refused(image->cluster)) return leave(turn, -ESHUTDOWN);
  if (!image->writable) return leave(turn, -EROFS);
  char *path = beside(image, "meta.", key);
  return leave(turn, value ? put(path, value) : unlink(path) ? -errno : 0);
}
int rbd_metadata_set(void *image, const char *key, const char *value) { return change_metadata(image, key, value); }
int rbd_metadata_remove(void *image, const char *key) { return change_metadata(image, key, NULL); }

int rbd_aio_create_completion(void *argument, void (*callback)(void *, void *), void **completion) {
  struct completion *made = calloc(1, sizeof *made);
  made->argument = argument;
  made->callback = callback;
  *completion = made;
  return 0;
}
ssize_t rbd_aio_get_return_value(void *completion) { return ((struct completion *)completion)->result; }
void rbd_aio_release(void *completion) { free(completion); }

static long carry_out(struct request *request) {
  struct image *image = request->image;
  static const char zeroes[1 << 20];
  if (is_refused(image->cluster)) return -ESHUTDOWN;
  if (request->kind == 'r') {
    long got = pread(image->fd, request->data, request->len, request->offset);
    return exists(in_folder(image->cluster, "lie", "")) ? got / 2 : got;
  }
  if (request->kind == 'f') return fdatasync(image->fd) ? -errno : 0;
  if (!owns(image)) return -EROFS;
  if (request->kind == 'w') return pwrite(image->fd, request->data, request->len, request->offset) < 0 ? -errno : 0;
  for (uint64_t at = 0; at < request->len; at += sizeof zeroes) {
    size_t left = request->len - at, len = left < sizeof zeroes ? left : sizeof zeroes;
    if (pwrite(image->fd, zeroes, len, request->offset + at) < 0) return -errno;
  }
  return 0;
}
static void *serve(void *argument) {
  struct request *request = argument;
  struct completion *completion = request->completion;
  while (exists(in_folder(request->image->cluster, "hang", ""))) usleep(10000);
  int turn = enter(request->image->cluster);
  completion->result = leave(turn, carry_out(request));
  free(request);
  completion->callback(completion, completion->argument);
  return NULL;
}
static int begin(void *image, char kind, uint64_t offset, size_t len, const char *data, void *completion) {
  struct request *request = malloc(sizeof *request);
  *request = (struct request){image, kind, offset, len, (char *)data, completion};
  pthread_t thread;
  if (pthread_create(&thread, NULL, serve, request)) { free(request); return -EAGAIN; }
  pthread_detach(thread);
  return 0;
}
int rbd_aio_read(void *image, uint64_t offset, size_t len, char *data, void *c) { return begin(image, 'r', offset, len, data, c); }
int rbd_aio_write(void *image, uint64_t offset, size_t len, const char *data, void *c) { return begin(image, 'w', offset, len, data, c); }
int rbd_aio_discard(void *image, uint64_t offset, uint64_t len, void *c) { return begin(image, 'd', offset, len, NULL, c); }
int rbd_aio_write_zeroes(void *image, uint64_t offset, size_t len, void *c, int zero_flags, int op_flags) {
  return begin(image, 'z', offset, len, NULL, c);
}
int rbd_aio_flush(void *image, void *c) { return begin(image, 'f', 0, 0, NULL, c); }
