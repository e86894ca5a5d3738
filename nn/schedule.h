/// Learning-rate schedules, selected by a textual description.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace fovea {

/// A learning-rate schedule, parsed from a description such as "inverse_sqrt(peak=7e-4, warmup=4000)". In the formulas
/// u is the number of updates made before the present one, 0, 1, …; epochs count from 1. `warmup` is in updates.
///
///   constant      rate · min(1, (u + 1) / warmup)
///   inverse_sqrt  init + u · (peak − init) / warmup for u < warmup, then peak · sqrt(warmup / u)
///   noam          scale · dim^-1/2 · min((u + 1)^-1/2, (u + 1) · warmup^-3/2)       (Vaswani et al. 2017)
///   cosine        rate · (u + 1) / warmup for u < warmup, then from rate to floor along half a cosine that ends after
///                 `updates` updates, or with updates = 0 at the end of training         (Loshchilov & Hutter 2017)
///   halving       rate, halved at the start of epoch `epoch` and of every `every`-th epoch after it. If update > 0,
///                 `update` and `every` count updates instead, and `epoch` is ignored
class Schedule {
 public:
  /// Parses a description. `updates` is the number of updates of the whole training. Keys that are left out have their
  /// defaults. Throws Error with the column of the first mistake and with what would be right.
  static Schedule parse(std::string_view text, std::int64_t updates = 100000);

  /// The learning rate of the next update, after `updates` updates have been made, in epoch `epoch`.
  double rate(std::int64_t updates, std::int64_t epoch = 1) const;

  /// The same schedule with another peak: `rate` or `peak`; for noam the rate at the end of the warm-up. Throws
  /// Error for a negative peak, and for one below the floor of cosine.
  Schedule with_peak(double peak) const;
  /// The number of updates of the warm-up; 0: there is none.
  double warmup() const;

  /// The description with the values of all keys. parse(str()) gives the same schedule.
  std::string str() const;

  struct Kind;

 private:
  Schedule() = default;

  const Kind* kind_ = nullptr;
  std::map<std::string, double> values_;
};

/// One line per kind of schedule, with its keys and their defaults, for help texts.
std::string schedule_help();

}  // namespace fovea
