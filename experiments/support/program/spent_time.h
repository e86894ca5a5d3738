/// How long something takes, by the clock and in work. On a machine that others use, work is what can be compared.
#pragma once
#include <ctime>

namespace fovea {

/// Seconds of the clock, and seconds that the threads of this process have worked, all together.
struct SpentTime {
  double wall = 0, cpu = 0;

  /// Since some moment in the past, always the same: a difference of two means something.
  static SpentTime until_now() {
    auto seconds_of = [](clockid_t clock) {
      timespec time = {};
      ::clock_gettime(clock, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    return {seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
  }
  SpentTime operator+(const SpentTime& other) const { return {wall + other.wall, cpu + other.cpu}; }
  SpentTime operator-(const SpentTime& other) const { return {wall - other.wall, cpu - other.cpu}; }
};

}  // namespace fovea
