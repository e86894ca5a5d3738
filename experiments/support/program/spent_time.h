/// Durations by the clock and in CPU time. On a shared machine only CPU times can be compared.
#pragma once
#include <ctime>

namespace fovea {

/// Seconds of the clock, and CPU seconds of all threads of this process.
struct SpentTime {
  double wall = 0, cpu = 0;

  /// The time since a fixed moment in the past. The difference of two is a duration.
  static SpentTime until_now() {
    auto seconds_of = [](clockid_t clock) {
      timespec time = {};
      ::clock_gettime(clock, &time);
      return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
    };
    return {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
  }
  SpentTime operator+(const SpentTime& other) const { return {wall + other.wall, cpu + other.cpu}; }
  SpentTime operator-(const SpentTime& other) const { return {wall - other.wall, cpu - other.cpu}; }
};

}  // namespace fovea
