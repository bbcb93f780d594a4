// Fills a hash table of BerkeleyDB: berkeleydb FOLDER ENTRIES RAM_BYTES SECONDS. Ends after that many seconds if it is not full by then.
// The RAM is its cache. Debian's build knows no direct I/O: it is for a control group to bound the page cache. One line of JSON.
#include "common.h"
#include <db.h>

static void check(int code) {
  if (code != 0) fail(std::string("berkeleydb: ") + db_strerror(code));
}

static DBT of(char *data, size_t len) {
  DBT dbt;
  memset(&dbt, 0, sizeof dbt);
  dbt.data = data;
  dbt.size = len;
  return dbt;
}

int main(int count, char **arguments) {
  if (count != 5) fail("usage: berkeleydb FOLDER ENTRIES RAM_BYTES SECONDS");
  uint64_t entries = strtoull(arguments[2], nullptr, 10), ram = strtoull(arguments[3], nullptr, 10);
  double limit = strtod(arguments[4], nullptr);
  DB_ENV *env = nullptr;
  check(db_env_create(&env, 0));
  check(env->set_cachesize(env, ram >> 30, ram & ((1u << 30) - 1), 1));
  check(env->open(env, arguments[1], DB_CREATE | DB_INIT_MPOOL | DB_PRIVATE, 0600));
  DB *db = nullptr;
  check(db_create(&db, env, 0));
  check(db->set_pagesize(db, 4096));
  check(db->set_h_nelem(db, entries));
  check(db->open(db, nullptr, "table", nullptr, DB_HASH, DB_CREATE | DB_EXCL, 0600));
  // Until it is larger than its cache it writes nothing: that part does not count.
  uint64_t done = 0, free = ram / (KEY_BYTES + VALUE_BYTES);
  auto begun = std::chrono::steady_clock::now();
  double before = 0;
  for (; done < entries; done++) {
    if (done == free) before = seconds_since(begun);
    if (done % 256 == 0 && done > 2 * free && seconds_since(begun) > limit) break;
    Key key(done);
    Value value(done + ABSENT * 2);
    DBT k = of(key.data, KEY_BYTES), v = of(value.data, VALUE_BYTES);
    check(db->put(db, nullptr, &k, &v, 0));
  }
  double inserts = (done - (done > free ? free : 0)) / (seconds_since(begun) - before);
  double hits = rate(20000, 1, [&](uint64_t n) {
    Key key(mix(n) % done);
    DBT k = of(key.data, KEY_BYTES), v = of(nullptr, 0);
    check(db->get(db, nullptr, &k, &v, 0));
  });
  printf("{\"entries\": %llu, \"inserts_per_second\": %.0f, \"hits_per_second\": %.0f}\n", (unsigned long long)done, inserts, hits);
  check(db->close(db, DB_NOSYNC));
  check(env->close(env, 0));
}
