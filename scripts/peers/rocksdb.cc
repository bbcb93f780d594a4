// Fills RocksDB and looks entries up: rocksdb FOLDER ENTRIES RAM_BYTES LOOKUPS. Direct I/O, filters of 10 bits an entry in RAM
// beside block cache and write buffers, which share the RAM given. One line of JSON.
#include "common.h"
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

using namespace rocksdb;

static void check(const Status &status) {
  if (!status.ok()) fail("rocksdb: " + status.ToString());
}

int main(int count, char **arguments) {
  if (count != 5) fail("usage: rocksdb FOLDER ENTRIES RAM_BYTES LOOKUPS");
  uint64_t entries = strtoull(arguments[2], nullptr, 10), ram = strtoull(arguments[3], nullptr, 10),
           lookups = strtoull(arguments[4], nullptr, 10);
  Options options;
  options.create_if_missing = true;
  options.error_if_exists = true;
  options.compression = kNoCompression;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  options.write_buffer_size = ram / 8;
  options.max_write_buffer_number = 4;
  options.IncreaseParallelism(2);
  BlockBasedTableOptions table;
  table.filter_policy.reset(NewBloomFilterPolicy(10));
  table.block_cache = NewLRUCache(ram / 4);
  options.table_factory.reset(NewBlockBasedTableFactory(table));
  DB *db = nullptr;
  check(DB::Open(options, arguments[1], &db));
  double inserts = rate(entries, 2, [&](uint64_t n) {
    Key key(n);
    Value value(n + ABSENT * 2);
    check(db->Put(WriteOptions(), Slice(key.data, KEY_BYTES), Slice(value.data, VALUE_BYTES)));
  });
  check(db->Flush(FlushOptions()));
  // Look-ups are not to compete with what the inserts left to do.
  for (uint64_t busy = 1; busy != 0; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
    uint64_t pending = 0, running = 0;
    db->GetIntProperty(DB::Properties::kCompactionPending, &pending);
    db->GetIntProperty(DB::Properties::kNumRunningCompactions, &running);
    busy = pending + running;
  }
  auto look = [&](bool present) {
    return [&, present](uint64_t n) {
      uint64_t number = present ? mix(n) % entries : ABSENT + n;
      Key key(number);
      std::string found;
      Status status = db->Get(ReadOptions(), Slice(key.data, KEY_BYTES), &found);
      if (present ? !status.ok() : !status.IsNotFound()) fail("rocksdb: a look-up went wrong: " + status.ToString());
    };
  };
  double hits = rate(lookups, 16, look(true)), misses = rate(lookups * 10, 16, look(false));
  printf("{\"entries\": %llu, \"inserts_per_second\": %.0f, \"hits_per_second\": %.0f, \"misses_per_second\": %.0f}\n",
         (unsigned long long)entries, inserts, hits, misses);
  delete db;
}
