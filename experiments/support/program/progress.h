/// Progress of long work on standard error.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include <unistd.h>

namespace fovea {

/// On a terminal one line, redrawn at most ten times a second and never wider than the terminal:
///
///   training: 1204/3000 steps (40%), 12.3 steps/s, 2:26 left, loss 0.412
///
/// Elsewhere (a file, a pipe, TERM=dumb) such a line after 5, 10, 20, 40, ... seconds, later every ten
/// minutes, and one at the end. Everything goes to standard error, so results on standard output stay clean. For one
/// thread.
class Progress {
 public:
  struct Options {
    std::string unit = "steps";      ///< in the plural
    std::int64_t start = 0;          ///< steps of earlier processes of a resumed run; not part of the rate
    int descriptor = STDERR_FILENO;  ///< where to write
    std::function<double()> clock;   ///< seconds; empty: the monotonic clock
  };

  /// `total`: the number of steps to do; 0 if it is unknown: then neither the percentage nor the time left is shown.
  Progress(std::string title, std::int64_t total, Options options);

  /// Ends the line, also when an exception passes.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts `count` more steps as done.
  void advance(std::int64_t count = 1);

  /// A short text for the end of the line: "loss 0.412 lr 1e-3". Shown at the next redrawing.
  void note(std::string text) { note_ = std::move(text); }

  /// Shows the last state and the total time. The destructor calls it if nobody else did.
  void finish();

 private:
  struct Sample {
    double time;
    std::int64_t done;
  };

  void show(double now, bool is_last);
  std::string line(double now, bool is_last) const;

  std::string title_, note_;
  Options options_;
  std::int64_t total_, done_;
  bool is_redrawn_, is_finished_ = false;
  double began_, next_;
  std::deque<Sample> recent_;  ///< recent states, over which the rate is measured
};

/// "0:07", "2:26", "1:02:03", "3 d 04:10".
std::string duration_text(double seconds);

}  // namespace fovea
