// What the peers' programs share: entries by number, as `nitro-lab index bench` has them, and threads that do something for each.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

constexpr size_t KEY_BYTES = 20, VALUE_BYTES = 12;
constexpr uint64_t ABSENT = 1ull << 48;

inline uint64_t mix(uint64_t n) {
  uint64_t z = (n ^ n >> 30) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ z >> 27) * 0x94D049BB133111EBull;
  return z ^ z >> 31;
}

// Random bytes that follow from a number.
template <size_t N> struct Bytes {
  char data[N];
  explicit Bytes(uint64_t n) {
    uint64_t state = mix(n + 1);
    for (size_t at = 0; at < N; at += 8) {
      memcpy(data + at, &state, N - at < 8 ? N - at : 8);
      state = mix(state + 0x9E3779B97F4A7C15ull);
    }
  }
};
using Key = Bytes<KEY_BYTES>;
using Value = Bytes<VALUE_BYTES>;

[[noreturn]] inline void fail(const std::string &why) {
  fprintf(stderr, "%s\n", why.c_str());
  exit(1);
}

inline double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

// Does something for each number below `count` on so many threads; gives how many were done in a second.
template <class Work> double rate(uint64_t count, int threads, Work work) {
  std::atomic<uint64_t> next{0};
  auto begun = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int i = 0; i < threads; i++)
    running.emplace_back([&] {
      for (uint64_t from; (from = next.fetch_add(64)) < count;)
        for (uint64_t n = from; n < from + 64 && n < count; n++) work(n);
    });
  for (auto &thread : running) thread.join();
  return count / seconds_since(begun);
}
